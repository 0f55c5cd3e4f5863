//! See `targets::request_target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::request_target::run(input));

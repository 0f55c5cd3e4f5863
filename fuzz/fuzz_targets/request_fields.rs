//! See `targets::request_fields`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::request_fields::run(input));

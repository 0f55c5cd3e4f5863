//! See `targets::site`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::site::run(input));

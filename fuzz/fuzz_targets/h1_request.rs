//! See `targets::h1_request`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::h1_request::run(input));

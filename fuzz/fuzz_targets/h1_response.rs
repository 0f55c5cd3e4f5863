//! See `targets::h1_response`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::h1_response::run(input));

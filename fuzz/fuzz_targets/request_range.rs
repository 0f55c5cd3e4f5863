//! See `targets::request_range`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::request_range::run(input));

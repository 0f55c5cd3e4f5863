//! See `targets::http_date`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::http_date::run(input));

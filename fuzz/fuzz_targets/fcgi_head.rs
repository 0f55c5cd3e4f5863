//! See `targets::fcgi_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::fcgi_head::run(input));

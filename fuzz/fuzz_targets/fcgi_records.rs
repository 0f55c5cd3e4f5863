//! See `targets::fcgi_records`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::fcgi_records::run(input));

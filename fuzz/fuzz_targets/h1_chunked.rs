//! See `targets::h1_chunked`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::h1_chunked::run(input));

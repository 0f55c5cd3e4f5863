//! See `targets::cache_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::cache_head::run(input));

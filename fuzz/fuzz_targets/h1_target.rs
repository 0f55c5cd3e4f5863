//! See `targets::h1_target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::h1_target::run(input));

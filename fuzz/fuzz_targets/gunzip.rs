//! See `targets::gunzip`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::gunzip::run(input));

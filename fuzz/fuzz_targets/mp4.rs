//! See `targets::mp4`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::mp4::run(input));

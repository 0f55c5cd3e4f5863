//! See `targets::conf_pattern`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::conf_pattern::run(input));

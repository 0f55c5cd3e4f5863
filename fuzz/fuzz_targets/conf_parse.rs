//! See `targets::conf_parse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::conf_parse::run(input));

//! See `targets::conf_values`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::conf_values::run(input));

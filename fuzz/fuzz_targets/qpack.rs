//! See `targets::http3`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::http3::run_qpack(input));

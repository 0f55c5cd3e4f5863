//! See `targets::http2_driver`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::http2_driver::run(input));

//! See `targets::http2`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::http2::run_as_client(input));

//! See `targets::tls_hello`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::tls_hello::run(input));

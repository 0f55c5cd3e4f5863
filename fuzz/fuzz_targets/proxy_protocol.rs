//! See `targets::proxy_protocol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::proxy_protocol::run(input));

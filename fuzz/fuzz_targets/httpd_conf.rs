//! See `targets::httpd_conf`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::httpd_conf::run(input));

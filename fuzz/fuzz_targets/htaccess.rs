//! See `targets::htaccess`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::htaccess::run(input));

//! See `targets::htaccess_rewrite`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::htaccess_rewrite::run(input));

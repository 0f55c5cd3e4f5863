//! See `targets::htaccess_expression`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::htaccess_expression::run(input));

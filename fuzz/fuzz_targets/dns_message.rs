//! See `targets::dns_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::dns_message::run(input));

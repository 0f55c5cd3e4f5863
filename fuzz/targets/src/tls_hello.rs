//! The first message of a client of TLS: the same message, or the same refusal, however the bytes arrive; and the same name,
//! whether the message is answered or passed on.

use tls::{ClientHello, Hello, Prefix, Preread};

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    let whole = read(input, input.len().max(1));
    assert_eq!(whole, read(input, 1), "byte by byte");
    assert_eq!(whole, read(input, 5), "in fives");
    assert_eq!(whole, read(input, 64), "in sixty-fours");
    if let Verdict::Hello(ClientHello { server_name: Some(name), .. }) = &whole {
        assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase() || byte == 0));
    }
    let passed = pass(input, input.len().max(1));
    assert_eq!(passed, pass(input, 1), "byte by byte");
    assert_eq!(passed, pass(input, 5), "in fives");
    if let (Verdict::Hello(hello), Prefix::Hello(preread)) = (&whole, &passed) {
        let name = preread.server_name.to_ascii_lowercase();
        let name = name.strip_suffix(b".").unwrap_or(&name);
        assert!(hello.server_name.as_ref().is_none_or(|own| own.as_bytes() == name), "{hello:?} {preread:?}");
    }
}

/// What a server sees that passes the connection on.
fn pass(input: &[u8], step: usize) -> Prefix {
    let mut end = 0;
    while end < input.len() {
        end = (end + step).min(input.len());
        match Preread::read(&input[..end]) {
            Prefix::Partial => {}
            known => return known,
        }
    }
    Prefix::Partial
}

/// What the bytes came to.
#[derive(Debug, PartialEq)]
enum Verdict {
    Hello(ClientHello),
    Refused,
    Incomplete,
}

fn read(input: &[u8], step: usize) -> Verdict {
    let mut hello = Hello::new();
    let mut output = Vec::new();
    let mut end = 0;
    while end < input.len() {
        end = (end + step).min(input.len());
        match hello.read(&input[..end], &mut output) {
            Ok(Some(hello)) => return Verdict::Hello(hello),
            Ok(None) => {}
            Err(_) => return Verdict::Refused,
        }
    }
    Verdict::Incomplete
}

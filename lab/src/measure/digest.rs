//! Digests by which equal texts are known.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of the SHA-256.
pub fn short(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes).iter().take(8) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_known_text() {
        assert_eq!(short(b"abc"), "ba7816bf8f01cfea");
    }
}

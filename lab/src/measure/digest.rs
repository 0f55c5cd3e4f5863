//! Digests by which equal texts and files are known: SHA-256, in hexadecimal digits.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// So many digits are enough to tell apart what one run has.
const SHORT: usize = 16;

/// The digest of these bytes.
pub fn of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The digest of a file, which is read piece by piece.
pub fn of_file(path: &Path) -> Result<String> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    of_stream(file).with_context(|| path.display().to_string())
}

/// The first digits of the digest of these bytes.
pub fn short(bytes: &[u8]) -> String {
    beginning(&of(bytes)).to_owned()
}

/// The first digits of a digest.
pub fn beginning(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

fn of_stream(mut stream: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut part)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            length => hasher.update(&part[..length]),
        }
    }
}

fn hexadecimal(digest: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest {
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
        let whole = of(b"abc");
        assert_eq!((whole.len(), beginning(&whole)), (64, "ba7816bf8f01cfea"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(of_file(file.path()).unwrap(), whole);
    }
}

//! Bytes in memory that a process shares with the processes that it forks.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// Bytes that one process writes as a whole, and others read as a whole. A read never waits for a disk.
#[derive(Debug)]
pub struct SharedBytes {
    file: File,
    limit: usize,
}

/// The length of the content and its hash.
const HEADER: usize = 16;

/// How often a reader tries again that met a writer.
const TRIES: usize = 3;

impl SharedBytes {
    /// An area that can hold this many bytes. It is empty.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(limit: usize) -> io::Result<SharedBytes> {
        Ok(SharedBytes { file: File::from(memfd_create("shared", MemfdFlags::CLOEXEC)?), limit })
    }

    /// Replaces the content.
    ///
    /// # Errors
    /// The content is longer than the area, or the machine has no memory left.
    pub fn write(&self, content: &[u8]) -> io::Result<()> {
        if content.len() > self.limit {
            return Err(io::Error::other(format!("{} bytes do not fit into {}", content.len(), self.limit)));
        }
        let mut bytes = header(content).to_vec();
        bytes.extend_from_slice(content);
        self.file.write_all_at(&bytes, 0)
    }

    /// The content; empty if nothing was written.
    pub fn read(&self) -> Vec<u8> {
        (0..TRIES).find_map(|_| self.try_read()).unwrap_or_default()
    }

    /// `None` if another process was writing.
    fn try_read(&self) -> Option<Vec<u8>> {
        let mut start = [0; HEADER];
        self.file.read_exact_at(&mut start, 0).ok()?;
        let (length, _) = start.split_first_chunk()?;
        let length =
            usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= self.limit)?;
        let mut content = vec![0; length];
        self.file.read_exact_at(&mut content, HEADER as u64).ok()?;
        (header(&content) == start).then_some(content)
    }
}

fn header(content: &[u8]) -> [u8; HEADER] {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&(content.len() as u64).to_le_bytes());
    header[8..].copy_from_slice(&hasher.finish().to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_read_as_it_was_written_last() {
        let bytes = SharedBytes::new(10).unwrap();
        assert_eq!(bytes.read(), b"");
        for content in [&b"one"[..], b"0123456789", b"", b"two"] {
            bytes.write(content).unwrap();
            assert_eq!(bytes.read(), content);
        }
        bytes.write(&[0; 11]).unwrap_err();
        assert_eq!(bytes.read(), b"two");
    }

    #[test]
    fn content_that_is_being_written_is_not_taken() {
        let bytes = SharedBytes::new(10).unwrap();
        bytes.write(b"one").unwrap();
        bytes.file.write_all_at(b"x", HEADER as u64).unwrap();
        assert_eq!(bytes.read(), b"");
        bytes.file.write_all_at(&[0xff; HEADER], 0).unwrap();
        assert_eq!(bytes.read(), b"", "a length beyond the limit");
    }
}

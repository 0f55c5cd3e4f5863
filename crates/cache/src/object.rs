//! An object that is there to be sent.

use crate::head::{Head, HeadError, STARTS_MAX};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// A response that is kept, with its file.
#[derive(Clone, Debug)]
pub struct Object {
    /// What is known of it.
    pub head: Head,
    /// The file that holds the content.
    pub file: Arc<File>,
    /// Where the content starts in the file.
    pub start: u64,
}

/// Why a file gives no object.
#[derive(Debug)]
pub enum ReadError {
    /// The disk would have to be waited for.
    Waits,
    /// It is not of this format, was cut off or damaged.
    Damaged,
    /// It cannot be read.
    Io(io::Error),
}

/// Reads bytes of a file from an offset on, and tells how many there were; `None` where it would have to wait.
pub type Read<'a> = dyn FnMut(&File, &mut [u8], u64) -> io::Result<Option<usize>> + 'a;

impl Object {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(file: Arc<File>, read: &mut Read<'_>) -> Result<Object, ReadError> {
        let mut wanted = STARTS_MAX;
        loop {
            let mut bytes = vec![0; wanted];
            let count = read(&file, &mut bytes, 0).map_err(ReadError::Io)?.ok_or(ReadError::Waits)?;
            bytes.truncate(count);
            match Head::decode(&bytes) {
                Ok((head, start)) => {
                    let start = start as u64;
                    let size = file.metadata().map_err(ReadError::Io)?.size();
                    let is_whole = start.checked_add(head.length) == Some(size);
                    return if is_whole { Ok(Object { head, file, start }) } else { Err(ReadError::Damaged) };
                }
                Err(HeadError::Short(length)) if length > wanted => wanted = length,
                Err(_) => return Err(ReadError::Damaged),
            }
        }
    }

    /// How much of the disk the file takes, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        disk_bytes(self.start.saturating_add(self.head.length))
    }
}

/// How much of the disk a file of this size takes, in bytes.
pub(crate) fn disk_bytes(size: u64) -> u64 {
    const BLOCK: u64 = 4096;
    size.div_ceil(BLOCK).saturating_mul(BLOCK)
}

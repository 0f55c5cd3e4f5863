//! The identity of a file's state. A cache compares it to see whether a file changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What tells a state of a file from its other states, and from all other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change of the content.
    modified: (i64, i64),
    /// The same for the time of the last change (ctime), which a user cannot set.
    changed: (i64, i64),
}

impl FileIdentity {
    /// The state of a file that has these properties.
    pub fn new(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The file's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Seconds since 1970 of the last change of the content.
    pub fn modified(&self) -> i64 {
        self.modified.0
    }

    /// Whether these are states of one file.
    pub fn is_same_file(&self, other: &FileIdentity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether the file was left alone long enough that a further change shows in its times, whose
    /// clock ticks slowly; `now` is in seconds since 1970.
    pub fn is_settled(&self, now: i64) -> bool {
        const SECONDS: i64 = 2;
        now.saturating_sub(self.modified.0.max(self.changed.0)) >= SECONDS
    }
}

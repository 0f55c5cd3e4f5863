//! Finding the files of a cache after a start.

use crate::key::Key;
use crate::object::disk_bytes;
use crate::residents::{Cursor, KeysWithoutFile};
use crate::writer::TEMPORARY;
use crate::zone::Zone;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{DirEntry, ReadDir, read_dir, remove_file};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A walk through the directory of a zone.
#[derive(Debug)]
pub struct Walk {
    zone: Arc<Zone>,
    /// The directories on the way, the outermost first, with what is left to see of each.
    open: Vec<ReadDir>,
    /// Keys of objects that are only in memory, and where to look for more of them.
    in_memory: KeysWithoutFile,
}

/// How many places in memory are looked at under one lock.
const KEYS: usize = 1024;

/// How far a walk goes at once.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// How many files it looks at.
    pub files: usize,
    /// How long it goes on.
    pub time: Duration,
    /// Until when objects stay that nothing uses, in seconds of the clock of [`crate::Asking`].
    pub expires: i64,
}

impl Walk {
    /// A walk that has seen nothing.
    pub fn new(zone: &Arc<Zone>) -> Walk {
        let open = read_dir(zone.directory()).into_iter().collect();
        Walk { zone: Arc::clone(zone), open, in_memory: (Vec::new(), Some(Cursor::default())) }
    }

    /// The zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// The next key that has an object; `None` at the end. It blocks.
    pub fn next_key(&mut self) -> Option<Key> {
        // An object that gets its file meanwhile was seen in memory.
        loop {
            let (keys, cursor) = &mut self.in_memory;
            match (keys.pop(), *cursor) {
                (Some(key), _) => return Some(key),
                (None, Some(cursor)) => self.in_memory = self.zone.keys_without_file(cursor, KEYS),
                (None, None) => break,
            }
        }
        while let Some(directory) = self.open.last_mut() {
            match directory.next() {
                Some(Ok(entry)) => {
                    if let Some(key) = self.see(&entry) {
                        return Some(key);
                    }
                }
                Some(Err(_)) | None => drop(self.open.pop()),
            }
        }
        None
    }

    /// Notes the files of a batch in the index. Tells whether there are more. It blocks.
    pub fn go_on(&mut self, batch: Batch) -> bool {
        let (started, mut files) = (Instant::now(), 0);
        while let Some(directory) = self.open.last_mut() {
            if files >= batch.files || started.elapsed() >= batch.time {
                return true;
            }
            match directory.next() {
                Some(Ok(entry)) => {
                    files += 1;
                    if let (Some(key), Ok(metadata)) = (self.see(&entry), entry.metadata()) {
                        self.zone.note_found(&key, disk_bytes(metadata.size()), batch.expires);
                    }
                }
                // What cannot be read is left alone.
                Some(Err(_)) | None => drop(self.open.pop()),
            }
        }
        false
    }

    /// Looks at a file or a directory, and returns the key of a file that is named as an object and lies where this
    /// belongs. Links are neither: the type is that of the entry itself.
    fn see(&mut self, entry: &DirEntry) -> Option<Key> {
        let (name, kind) = (entry.file_name(), entry.file_type().ok()?);
        let name = name.to_str()?;
        let depth = self.open.len() - 1;
        let is_level = self.zone.levels().digits().get(depth).is_some_and(|&digits| name.len() == digits);
        if kind.is_dir() && is_level {
            self.open.extend(read_dir(entry.path()));
        } else if kind.is_file() && depth == 0 && name.starts_with(TEMPORARY) {
            remove_abandoned(entry);
        } else if kind.is_file() && depth == self.zone.levels().depth() {
            let key = Key::parse(name.as_bytes())?;
            let place = self.zone.directory().join(self.zone.levels().path(&key));
            return (entry.path() == place).then_some(key);
        }
        None
    }
}

/// Removes a temporary file whose writer is dead: no process locks it.
fn remove_abandoned(entry: &DirEntry) {
    // The name may belong to something else by now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = open(entry.path(), flags, Mode::empty()) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // Another process may have removed it.
        let _ = remove_file(entry.path());
    }
}

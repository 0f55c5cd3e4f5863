//! Writing an object. A file has a temporary name until it is whole.

use crate::arriving::{Arriving, Rest};
use crate::head::Head;
use crate::key::Key;
use crate::object::disk_bytes;
use crate::zone::{FillRight, Zone};
use rustix::fs::{FlockOperation, flock};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How the names of files start that are being written.
pub(crate) const TEMPORARY: &str = ".fulmar-";

/// How many digits a number of 64 bits has at most.
const NUMBER_MAX: usize = 20;

/// How long a buffer may be that a thread keeps for the next object, in bytes.
const BUFFER_MAX: usize = 64 * 1024;

thread_local! {
    /// What is written of an object at once.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A temporary name that no other file has.
fn temporary_name() -> Vec<u8> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    // The number of the process costs a system call.
    static START: OnceLock<String> = OnceLock::new();
    let start = START.get_or_init(|| format!("{TEMPORARY}{}-", std::process::id()));
    let mut name = Vec::with_capacity(start.len() + NUMBER_MAX);
    name.extend_from_slice(start.as_bytes());
    http::write_number(SERIAL.fetch_add(1, Ordering::Relaxed), 1, &mut name);
    name
}

/// An object that is being written. Without [`Writer::finish`] nothing stays of it.
#[derive(Debug)]
pub struct Writer {
    zone: Arc<Zone>,
    key: Key,
    head: Head,
    checksum: crc32fast::Hasher,
    file: Arc<File>,
    /// The temporary name; none when the file has its own.
    name: Option<Vec<u8>>,
    /// Where the content starts in the file.
    start: u64,
    /// What other requests see of it.
    shared: Option<Arc<Arriving>>,
    /// How many removals the zone had seen when the request was sent to the upstream server.
    removals: u64,
}

impl Writer {
    /// Begins a file. `head.length` is ignored: the length is known when the content is complete.
    ///
    /// # Errors
    /// The head is too long, or the file cannot be made.
    pub fn new(zone: &Arc<Zone>, key: Key, head: Head) -> io::Result<Writer> {
        let start = head.encoded_len().ok_or_else(too_long)? as u64;
        let name = temporary_name();
        let file = Arc::new(zone.create(&name)?);
        let writer = Writer {
            zone: Arc::clone(zone),
            key,
            head: Head { length: 0, ..head },
            checksum: crc32fast::Hasher::new(),
            file,
            name: Some(name),
            start,
            shared: None,
            removals: zone.removals(),
        };
        // The scan of the directory removes each temporary file that no process has locked, because its writer is dead.
        flock(&writer.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(writer)
    }

    /// Notes how many removals the zone had seen when the request was sent ([`Zone::begin`]). If a later removal is
    /// about this response, the file is not kept.
    #[must_use]
    pub fn after(mut self, removals: u64) -> Writer {
        self.removals = removals;
        self
    }

    /// Lets other requests read the content as it arrives. `announced` is the length that the upstream server announced,
    /// if it did.
    pub fn share(&mut self, fill: &FillRight, announced: Option<u64>) {
        let content = (Arc::clone(&self.file), self.start);
        let arriving = Arc::new(Arriving::new(self.head.clone(), announced, content));
        self.shared = Some(Arc::clone(&arriving));
        fill.show(arriving);
    }

    /// Adds content.
    ///
    /// # Errors
    /// Those of writing, such as a full disk.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.start + self.head.length)?;
        self.checksum.update(bytes);
        self.head.length += bytes.len() as u64;
        if let Some(shared) = &self.shared {
            shared.advance(self.head.length);
        }
        Ok(())
    }

    /// Gives up writing the file. If other requests are reading the content, returns what serves them the rest of it from
    /// memory.
    pub fn rest(mut self) -> Option<Rest> {
        self.shared.take().and_then(Arriving::rest)
    }

    /// How much content there is, in bytes.
    pub fn length(&self) -> u64 {
        self.head.length
    }

    /// The file, and where its content starts.
    pub fn content(&self) -> (&Arc<File>, u64) {
        (&self.file, self.start)
    }

    /// Adds the rest of the content and gives the file its name: from now on further requests find it. It may be removed at
    /// `expires`, in seconds of the clock of [`crate::Asking`], if no request has used it until then.
    ///
    /// # Errors
    /// Those of writing and renaming. Nothing stays of the file then.
    pub fn finish(mut self, rest: &[&[u8]], expires: i64) -> io::Result<()> {
        let at = self.start + self.head.length;
        for part in rest {
            self.checksum.update(part);
            self.head.length += part.len() as u64;
        }
        self.head.checksum = std::mem::take(&mut self.checksum).finalize();
        if at > self.start {
            self.file.write_all_at(&rest.concat(), at)?;
        }
        // One call writes a whole object.
        self.write_start(if at > self.start { &[] } else { rest })?;
        if let (Some(name), false) = (&self.name, self.was_removed()) {
            self.zone.rename(name, &self.key)?;
            self.name = None;
            // The removal may have come before the file had its name.
            if self.was_removed() {
                self.zone.discard(&self.key);
            } else {
                self.zone.note_file(&self.key, disk_bytes(self.start + self.head.length), expires);
            }
        }
        if let Some(shared) = self.shared.take() {
            shared.advance(self.head.length);
            shared.end(true);
        }
        Ok(())
    }

    /// Writes the head, and this content behind it.
    fn write_start(&self, content: &[&[u8]]) -> io::Result<()> {
        BUFFER.with_borrow_mut(|bytes| {
            self.head.encode_into(bytes).ok_or_else(too_long)?;
            content.iter().for_each(|part| bytes.extend_from_slice(part));
            let written = self.file.write_all_at(bytes, 0);
            bytes.clear();
            bytes.shrink_to(BUFFER_MAX);
            written
        })
    }

    fn was_removed(&self) -> bool {
        self.zone.was_removed_since(&self.head, self.removals)
    }
}

fn too_long() -> io::Error {
    io::Error::other("the head of the response is too long")
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.end(false);
        }
        if let Some(name) = &self.name {
            self.zone.remove_temporary(name);
        }
    }
}

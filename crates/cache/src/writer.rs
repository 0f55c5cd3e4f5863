//! Writing an object. If its content is there, one call makes its file and another one writes it. Otherwise the file has a
//! temporary name until it is whole.

use crate::arriving::{Arriving, Rest};
use crate::head::{Head, HeadParts};
use crate::key::Key;
use crate::object::Written;
use crate::zone::{FillRight, Zone};
use rustix::fs::{FlockOperation, flock};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How the names of files start that are being written.
pub(crate) const TEMPORARY: &str = ".fulmar-";

/// How many digits a number of 64 bits has at most.
const NUMBER_MAX: usize = 20;

/// How long a buffer may be that a thread keeps for the next object, in bytes.
const BUFFER_MAX: usize = 64 * 1024;

/// Gives memory for what is written of an object at once.
fn with_buffer<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|bytes| {
        let written = write(bytes);
        bytes.clear();
        bytes.shrink_to(BUFFER_MAX);
        written
    })
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

/// A file with a temporary name, which is removed unless it gets the name of a key.
#[derive(Debug)]
struct Temporary {
    zone: Arc<Zone>,
    file: Arc<File>,
    /// None when the file has the name of a key.
    name: Option<Vec<u8>>,
}

impl Temporary {
    fn new(zone: &Arc<Zone>) -> io::Result<Temporary> {
        let name = temporary_name();
        let file = Arc::new(zone.create(&name)?);
        let temporary = Temporary { zone: Arc::clone(zone), file, name: Some(name) };
        // The scan of the directory removes each temporary file that no process has locked, because its writer is dead.
        flock(&temporary.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(temporary)
    }

    fn rename(&mut self, key: &Key) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.zone.rename(name, key)?;
            self.name = None;
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.zone.remove_temporary(name);
        }
    }
}

/// A response whose content is there.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The key of the file.
    pub key: Key,
    /// What is known of it.
    pub head: HeadParts<'a>,
    /// About how long the lines of its fields are, in bytes: for so much there is room at once.
    pub lines: usize,
    /// The content, in parts.
    pub content: &'a [&'a [u8]],
    /// As in [`Writer::after`].
    pub removals: u64,
    /// As in [`Writer::finish`].
    pub expires: i64,
}

impl Whole<'_> {
    /// Writes the object, or keeps it in memory only ([`DiskUse`]): from now on further requests find it. `write_fields`
    /// appends the lines of its fields.
    ///
    /// # Errors
    /// The head is too long, or the file cannot be written. Nothing stays of it then.
    pub fn store(&self, zone: &Arc<Zone>, write_fields: impl Fn(&mut Vec<u8>)) -> io::Result<()> {
        if zone.may_stay_in_memory(self.length()) && self.keep(zone, &write_fields)? {
            return Ok(());
        }
        if let Some(written) = self.write(zone, write_fields)? {
            zone.note_file(&self.key, written, self.expires);
        }
        Ok(())
    }

    /// Keeps the object in memory only. `false` where it is to get a file instead.
    fn keep(&self, zone: &Zone, write_fields: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        with_buffer(|bytes| {
            self.encode(false, write_fields, bytes)?;
            Ok(zone.keep_in_memory(&self.key, bytes, (self.removals, self.expires)))
        })
    }

    /// How long the content is, in bytes.
    fn length(&self) -> u64 {
        self.content.iter().map(|part| part.len() as u64).sum()
    }

    /// Puts the bytes of the file in place of what is there, with or without checksums.
    fn encode(
        &self,
        has_sums: bool,
        write_fields: impl FnOnce(&mut Vec<u8>),
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let length = self.length();
        let sum = || {
            let mut checksum = crc32fast::Hasher::new();
            self.content.iter().for_each(|part| checksum.update(part));
            checksum.finalize()
        };
        let checksum = if has_sums { sum() } else { 0 };
        bytes.clear();
        // No more than needed: an object in memory keeps what is reserved, and leaves it to one that may be as long.
        let head = self.head.length_without_lines().saturating_add(self.lines);
        bytes.reserve_exact(usize::try_from(length).unwrap_or(0).saturating_add(head));
        self.head.encode_into((length, checksum), write_fields, bytes).ok_or_else(too_long)?;
        if has_sums {
            Head::seal(bytes);
        }
        self.content.iter().for_each(|part| bytes.extend_from_slice(part));
        Ok(())
    }

    /// Writes the file; none if the response was removed meanwhile.
    pub(crate) fn write(
        &self,
        zone: &Arc<Zone>,
        write_fields: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<Option<Written>> {
        with_buffer(|bytes| self.write_from(zone, write_fields, bytes))
    }

    fn write_from(
        &self,
        zone: &Arc<Zone>,
        write_fields: impl FnOnce(&mut Vec<u8>),
        bytes: &mut Vec<u8>,
    ) -> io::Result<Option<Written>> {
        let removals = &self.removals;
        self.encode(true, write_fields, bytes)?;
        let bytes = &bytes[..];
        let is_kept = || Head::decode(bytes).is_ok_and(|(head, _)| !zone.was_removed_since(&head, *removals));
        let was_removed = || zone.removals() > *removals && !is_kept();
        if was_removed() {
            return Ok(None);
        }
        let written = self.place(zone, bytes)?;
        if was_removed() {
            // The removal may have come before the file had its name.
            zone.discard(&self.key);
            return Ok(None);
        }
        Ok(Some(written))
    }

    /// Makes the file of the key. A reader that comes before its bytes finds it unfinished. So does the next process, if this
    /// one is killed meanwhile. A file that is there already is replaced: its readers never find half of the new one.
    fn place(&self, zone: &Arc<Zone>, bytes: &[u8]) -> io::Result<Written> {
        let size = bytes.len() as u64;
        if let Some(mut file) = zone.create_named(&self.key)? {
            file.write_all(bytes).inspect_err(|_| {
                // Another process may have removed it.
                let _ = zone.remove(&self.key);
            })?;
            return Ok(Written::of(&file, size));
        }
        let mut temporary = Temporary::new(zone)?;
        temporary.file.write_all_at(bytes, 0)?;
        temporary.rename(&self.key)?;
        Ok(Written::of(&temporary.file, size))
    }
}

/// An object that is being written while its content arrives. Without [`Writer::finish`] nothing stays of it.
#[derive(Debug)]
pub struct Writer {
    key: Key,
    head: Head,
    checksum: crc32fast::Hasher,
    temporary: Temporary,
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
        Ok(Writer {
            key,
            head: Head { length: 0, ..head },
            checksum: crc32fast::Hasher::new(),
            temporary: Temporary::new(zone)?,
            start,
            shared: None,
            removals: zone.removals(),
        })
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
        let content = (Arc::clone(&self.temporary.file), self.start);
        let arriving = Arc::new(Arriving::new(self.head.clone(), announced, content));
        self.shared = Some(Arc::clone(&arriving));
        fill.show(arriving);
    }

    /// Adds content.
    ///
    /// # Errors
    /// Those of writing, such as a full disk.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.temporary.file.write_all_at(bytes, self.start + self.head.length)?;
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
        (&self.temporary.file, self.start)
    }

    /// Gives the file its name, or puts the content into memory ([`DiskUse`]): from now on further requests find it. It may be removed at `expires`, in seconds of the
    /// clock of [`crate::Asking`], if no request has used it until then.
    ///
    /// # Errors
    /// Those of writing and renaming. Nothing stays of the file then.
    pub fn finish(mut self, expires: i64) -> io::Result<()> {
        let may_stay_in_memory = self.temporary.zone.may_stay_in_memory(self.head.length);
        if !may_stay_in_memory || !self.keep(expires)? {
            self.name_file(expires)?;
        }
        if let Some(shared) = self.shared.take() {
            shared.end(true);
        }
        Ok(())
    }

    fn name_file(&mut self, expires: i64) -> io::Result<()> {
        self.head.checksum = std::mem::take(&mut self.checksum).finalize();
        let head = self.head.encode().ok_or_else(too_long)?;
        self.temporary.file.write_all_at(&head, 0)?;
        if !self.was_removed() {
            self.temporary.rename(&self.key)?;
            let Temporary { zone, file, .. } = &self.temporary;
            // The removal may have come before the file had its name.
            match self.was_removed() {
                true => drop(zone.discard(&self.key)),
                false => {
                    let written = Written::of(file, self.start + self.head.length);
                    zone.note_file(&self.key, written, expires);
                }
            }
        }
        Ok(())
    }

    /// Puts the content into memory; the file is removed with its temporary name. `false` where the file is to stay.
    fn keep(&self, expires: i64) -> io::Result<bool> {
        let zone = &self.temporary.zone;
        if !zone.takes(self.head.length) {
            return Ok(true);
        }
        let length = usize::try_from(self.head.length).unwrap_or(usize::MAX);
        with_buffer(|bytes| {
            bytes.reserve_exact(length.saturating_add(usize::try_from(self.start).unwrap_or(0)));
            self.head.encode_into(bytes).ok_or_else(too_long)?;
            let start = bytes.len();
            bytes.resize(start + length, 0);
            self.temporary.file.read_exact_at(&mut bytes[start..], self.start)?;
            Ok(zone.keep_in_memory(&self.key, bytes, (self.removals, expires)))
        })
    }

    fn was_removed(&self) -> bool {
        self.temporary.zone.was_removed_since(&self.head, self.removals)
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
    }
}

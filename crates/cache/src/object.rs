//! An object that is there to be sent.

use crate::head::{Head, HeadError, STARTS_MAX};
use bytes::Bytes;
use std::any::Any;
use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// A response that is kept.
#[derive(Clone, Debug)]
pub struct Object {
    /// What is known of it.
    pub head: Head,
    /// Where the content starts in its file.
    pub start: u64,
    /// The content.
    pub content: Content,
    pub(crate) home: Home,
    pub(crate) derived: Derived,
}

/// What a user of this crate makes of an object once, for further requests.
#[derive(Debug, Default)]
pub(crate) struct Derived(Mutex<Option<Arc<dyn Any + Send + Sync>>>);

impl Clone for Derived {
    /// A copy may get another head, to which nothing of this applies.
    fn clone(&self) -> Derived {
        Derived::default()
    }
}

/// The content of an object.
#[derive(Clone, Debug)]
pub enum Content {
    /// Its bytes.
    Memory(Bytes),
    /// The file that holds it after the head.
    File(Arc<File>),
}

/// What the zone compares to find out whether it still has this object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The file, and when it was last changed in any way (`ctime`): seconds and nanoseconds since 1970.
    File(FileId, (i64, i64)),
    /// The object has no file. This is the version of its entry in the index.
    Memory(u32),
}

/// Device and inode: a file that took the place of another one has other numbers.
pub(crate) type FileId = (u64, u64);

pub(crate) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// A number that a file gets by its inode and the time of its last change (`ctime`, which no program can set). Another content has
/// another number, as far as the file system tells the times apart.
pub type Stamp = u32;

/// The stamp of a file.
pub(crate) fn stamp(metadata: &Metadata) -> Stamp {
    mixed(metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
}

fn mixed(inode: u64, (seconds, nanoseconds): (i64, i64)) -> Stamp {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let parts = [inode, seconds.cast_unsigned(), nanoseconds.cast_unsigned()];
    let mixed = parts.iter().fold(0_u64, |mixed, part| (mixed ^ part).wrapping_mul(ODD).rotate_left(29));
    u32::try_from(mixed >> 32).unwrap_or_default()
}

/// A file that this process has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its stamp, if that is known.
    pub(crate) stamp: Option<Stamp>,
}

impl Written {
    pub(crate) fn of(file: &File, size: u64) -> Written {
        Written { size, stamp: file.metadata().ok().map(|metadata| stamp(&metadata)) }
    }
}

/// Whether a content is compared with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// It is not.
    Never,
    /// It is, unless the file has this stamp.
    Unless(Stamp),
    /// It is.
    Always,
}

/// How much of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Whether the content has to be compared with its checksum.
    pub check: Check,
    /// How long a content may be that is read into memory, in bytes. What comes with the head is in memory anyway.
    pub loads: u64,
    /// Whether reading may take its time.
    pub may_block: bool,
}

/// Why a file gives no object.
#[derive(Debug)]
pub enum ReadError {
    /// The disk would have to be waited for.
    Waits,
    /// It is not of this format, or was damaged.
    Damaged,
    /// It is shorter than it has to be: it is being written, or was cut off. It was changed at this time, in seconds since
    /// 1970.
    Unfinished(i64),
    /// It cannot be read.
    Io(io::Error),
}

/// Reads bytes of a file from an offset on, and tells how many there were; `None` where it would have to wait.
pub type Read<'a> = dyn FnMut(&File, &mut [u8], u64) -> io::Result<Option<usize>> + 'a;

/// How much content is read at once, in bytes. More than this is only checked where reading may take its time.
const PART: u64 = 64 * 1024;

impl Object {
    /// Reads a file: its head, and as much of its content as is demanded.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(file: Arc<File>, demand: Demand, read: &mut Read<'_>) -> Result<Object, ReadError> {
        let (mut object, first) = Object::read_head(file, read)?;
        let checks = match demand.check {
            Check::Never => false,
            Check::Unless(stamp) => object.stamp() != Some(stamp),
            Check::Always => true,
        };
        if let Some(content) = first.get(..usize::try_from(object.head.length).unwrap_or(usize::MAX)) {
            // All of it came with the head. A copy takes no more memory than the content has bytes.
            if checks && crc32fast::hash(content) != object.head.checksum {
                return Err(ReadError::Damaged);
            }
            object.content = Content::Memory(Bytes::copy_from_slice(content));
            return Ok(object);
        }
        let loads = object.head.length <= demand.loads;
        if checks && object.head.length > PART && !demand.may_block {
            return Err(ReadError::Waits);
        }
        if !loads && !checks {
            return Ok(object);
        }
        match object.read_content(loads, read) {
            Ok(Some(bytes)) => object.content = Content::Memory(bytes.into()),
            // The content is sent from the file this time.
            Err(ReadError::Waits) if !checks => {}
            Err(error) => return Err(error),
            Ok(None) => {}
        }
        Ok(object)
    }

    /// Reads the head, and gives what was read after it.
    fn read_head(file: Arc<File>, read: &mut Read<'_>) -> Result<(Object, Vec<u8>), ReadError> {
        let mut wanted = STARTS_MAX;
        loop {
            let mut bytes = vec![0; wanted];
            let count = read(&file, &mut bytes, 0).map_err(ReadError::Io)?.ok_or(ReadError::Waits)?;
            bytes.truncate(count);
            match Head::decode(&bytes) {
                Ok((head, start)) => {
                    bytes.drain(..start);
                    return Ok((Object::of_whole(file, head, start as u64)?, bytes));
                }
                Err(HeadError::Short(length)) if length > wanted => wanted = length,
                Err(HeadError::Short(_)) => {
                    return Err(ReadError::Unfinished(file.metadata().map_err(ReadError::Io)?.mtime()));
                }
                Err(HeadError::Damaged) => return Err(ReadError::Damaged),
            }
        }
    }

    /// The object of a file with this head, if the file is as long as the head says.
    fn of_whole(file: Arc<File>, head: Head, start: u64) -> Result<Object, ReadError> {
        let metadata = file.metadata().map_err(ReadError::Io)?;
        let length = start.checked_add(head.length).ok_or(ReadError::Damaged)?;
        match metadata.size().cmp(&length) {
            Ordering::Equal => {}
            Ordering::Less => return Err(ReadError::Unfinished(metadata.mtime())),
            Ordering::Greater => return Err(ReadError::Damaged),
        }
        let (id, changed) = (file_id(&metadata), (metadata.ctime(), metadata.ctime_nsec()));
        let (content, home) = (Content::File(file), Home::File(id, changed));
        Ok(Object { head, start, content, home, derived: Derived::default() })
    }

    /// The object that has the bytes of a file without its checksums, in this version; `None` where these bytes are no object.
    pub(crate) fn unpack(bytes: &[u8], version: u32) -> Option<Object> {
        let (head, start) = Head::read(bytes).ok()?;
        // A copy takes no more memory than the content has bytes.
        let content = Bytes::copy_from_slice(bytes.get(start..)?);
        let is_whole = content.len() as u64 == head.length;
        let (start, content, home) = (start as u64, Content::Memory(content), Home::Memory(version));
        is_whole.then(|| Object { head, start, content, home, derived: Derived::default() })
    }

    /// The same bytes, with another head; `None` where the head is too long to be kept, or where the
    /// content is not in memory.
    pub(crate) fn pack(&self, head: &Head) -> Option<Vec<u8>> {
        let Content::Memory(content) = &self.content else { return None };
        let mut bytes = Vec::new();
        head.encode_into(&mut bytes)?;
        bytes.extend_from_slice(content);
        Some(bytes)
    }

    /// Compares the content with its checksum; returns the content if it is to be loaded.
    fn read_content(&self, loads: bool, read: &mut Read<'_>) -> Result<Option<Vec<u8>>, ReadError> {
        let Content::File(file) = &self.content else { return Ok(None) };
        let mut checksum = crc32fast::Hasher::new();
        let mut all = Vec::new();
        let mut part = vec![0; usize::try_from(PART.min(self.head.length)).unwrap_or(0)];
        let mut done = 0;
        while done < self.head.length {
            let wanted = usize::try_from(self.head.length - done).unwrap_or(usize::MAX).min(part.len());
            let buffer = &mut part[..wanted];
            let count = read(file, buffer, self.start + done).map_err(ReadError::Io)?;
            let count = count.ok_or(ReadError::Waits)?;
            if count == 0 {
                return Err(ReadError::Damaged);
            }
            checksum.update(&buffer[..count]);
            if loads {
                all.extend_from_slice(&buffer[..count]);
            }
            done += count as u64;
        }
        if checksum.finalize() != self.head.checksum {
            return Err(ReadError::Damaged);
        }
        Ok(loads.then_some(all))
    }

    /// The same content with another head.
    pub fn with_head(&self, head: Head) -> Object {
        Object {
            head,
            start: self.start,
            content: self.content.clone(),
            home: self.home,
            derived: Derived::default(),
        }
    }

    /// What was made of the object for further requests.
    pub fn derived(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.derived.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what was made of the object, in place of what there was before.
    pub fn derive(&self, derived: Arc<dyn Any + Send + Sync>) {
        *self.derived.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(derived);
    }

    /// Whether the content is in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.content, Content::Memory(_))
    }

    /// The stamp of its file, if it has one.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        match self.home {
            Home::File((_, inode), changed) => Some(mixed(inode, changed)),
            Home::Memory(_) => None,
        }
    }

    /// Whether the object has a file.
    pub(crate) fn has_file(&self) -> bool {
        matches!(self.home, Home::File(..))
    }

    /// How much of the disk the file takes, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        disk_bytes(self.start.saturating_add(self.head.length))
    }
}

/// How large the blocks of a disk are taken to be, in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// How much of the disk a file of this size takes, in bytes.
pub(crate) fn disk_bytes(size: u64) -> u64 {
    size.div_ceil(BLOCK).saturating_mul(BLOCK)
}

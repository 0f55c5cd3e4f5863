//! A file or directory that was found, and what is there to send of it.

use crate::files::symlinks::{self, Way};
use crate::shared::files;
use bytes::Bytes;
use contract::{Body, FileIdentity, Piece};
use http::HeadMemo;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::rc::Rc;
use std::sync::Arc;
use wire::{Ready, read_ready};

/// Files up to this many bytes are read at once; larger ones are left to the sender.
pub(super) const READ_BYTES_MAX: u64 = 64 * 1024;

/// A file or directory that was found.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// Which file it is, and in which state.
    pub(crate) identity: FileIdentity,
    /// What it is.
    pub(crate) kind: Kind,
    /// Whether its owner may execute it.
    pub(crate) is_executable: bool,
    content: Content,
    /// The entity tag, once it was made.
    tag: Option<Bytes>,
    /// The head that it was sent with.
    memo: Option<Rc<HeadMemo>>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe or a socket.
    Other,
}

#[derive(Clone, Debug)]
enum Content {
    /// It was not opened, or is no file.
    None,
    Bytes(Bytes),
    File(Arc<File>),
}

impl Opened {
    /// Opens what is at a path.
    pub(crate) fn open(path: &[u8], way: Way) -> io::Result<Opened> {
        let file = symlinks::open(path, way)?;
        let mut opened = Opened::new(&file.metadata()?);
        if opened.kind == Kind::File {
            opened.content = Content::File(Arc::new(file));
        }
        Ok(opened)
    }

    /// Looks what is at a path; it is opened only where links do not all count, as nginx does.
    pub(crate) fn look(path: &[u8], way: Way) -> io::Result<Opened> {
        Ok(Opened::new(&match way {
            Way::Follow => std::fs::metadata(files::as_path(path))?,
            way => symlinks::open(path, way)?.metadata()?,
        }))
    }

    fn new(metadata: &Metadata) -> Opened {
        const OWNER_MAY_EXECUTE: u32 = 0o100;
        let kind = match metadata.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Opened {
            identity: FileIdentity::new(metadata),
            kind,
            is_executable: metadata.permissions().mode() & OWNER_MAY_EXECUTE != 0,
            content: Content::None,
            tag: None,
            memo: None,
        }
    }

    /// What is sent; a small file goes as bytes, so that it leaves in one write with the head.
    pub(crate) fn body(&self, head_only: bool) -> Body {
        let length = self.identity.size();
        match &self.content {
            Content::Bytes(bytes) => Body::Piece(Piece::Bytes(bytes.clone())),
            Content::File(file) if length > 0 => {
                if length <= READ_BYTES_MAX
                    && !head_only
                    && let Ok(bytes) = read(file, length)
                {
                    return Body::Piece(Piece::Bytes(bytes));
                }
                Body::Piece(Piece::File { file: Arc::clone(file), offset: 0, length })
            }
            Content::File(_) | Content::None => Body::Empty,
        }
    }

    /// The entity tag.
    pub(crate) fn tag(&self) -> Bytes {
        self.tag.clone().unwrap_or_else(|| tag_of(&self.identity))
    }

    /// The entity tag of so many bytes that are made of the file.
    pub(crate) fn tag_of_part(&self, length: u64) -> Bytes {
        tag(self.identity.modified(), length)
    }

    /// The head that it was sent with before, where it is one that is asked for again.
    pub(crate) fn memo(&self) -> Option<Rc<HeadMemo>> {
        self.memo.clone()
    }

    /// Makes what its heads are made of, for a file that will be asked for again.
    pub(super) fn keep_head(&mut self) {
        if self.kind == Kind::File {
            self.tag = Some(tag_of(&self.identity));
            self.memo = Some(Rc::default());
        }
    }

    /// Takes over the content of an earlier look at the same path, where it is that of the same file; whether it did.
    /// A descriptor shows what a file has become; bytes are of the state in which they were read.
    pub(super) fn adopt(&mut self, before: &Opened) -> bool {
        let is_same = match &before.content {
            Content::None => self.kind == Kind::Directory && before.kind == Kind::Directory,
            Content::Bytes(_) => self.identity == before.identity,
            Content::File(_) => self.identity.is_same_file(&before.identity),
        };
        if is_same {
            self.content = before.content.clone();
        }
        is_same
    }

    /// Whether a file is kept open for it.
    pub(super) fn holds_file(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    /// Whether its content is in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.content, Content::Bytes(_))
    }

    /// Whether this is a file that is open and small enough for memory.
    pub(super) fn fits_in_memory(&self) -> bool {
        self.holds_file() && (1..=READ_BYTES_MAX).contains(&self.identity.size())
    }

    /// Reads the whole file and closes it; whether that was possible. The bytes are those of the state that is known,
    /// or they are not kept.
    pub(super) fn read_into_memory(&mut self) -> bool {
        let Content::File(file) = &self.content else { return false };
        let is_same = || file.metadata().is_ok_and(|metadata| FileIdentity::new(&metadata) == self.identity);
        if !is_same() {
            return false;
        }
        let Ok(bytes) = read(file, self.identity.size()) else { return false };
        let whole = is_same();
        if whole {
            self.content = Content::Bytes(bytes);
        }
        whole
    }
}

/// Reads a whole file, unless that would have to wait for a disk: then the sender does it.
fn read(file: &File, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    match read_ready(file, &mut bytes, 0)? {
        Ready::Bytes(count) if count == bytes.len() => {}
        Ready::Bytes(_) | Ready::Waits => return Err(io::ErrorKind::WouldBlock.into()),
        Ready::Unknown => file.read_exact_at(&mut bytes, 0)?,
    }
    Ok(bytes.into())
}

fn tag_of(identity: &FileIdentity) -> Bytes {
    tag(identity.modified(), identity.size())
}

fn tag(modified: i64, size: u64) -> Bytes {
    let mut tag = Vec::with_capacity(64);
    tag.push(b'"');
    http::write_hexadecimal(modified.cast_unsigned(), &mut tag);
    tag.push(b'-');
    http::write_hexadecimal(size, &mut tag);
    tag.push(b'"');
    tag.into()
}

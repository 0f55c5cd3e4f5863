//! Reads a directory; this may block.

use crate::files::symlinks::Way;
use crate::shared::directories::{Directory, Failure};
use crate::shared::files;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// A file or directory that is listed.
pub(super) struct Entry {
    pub(super) name: Box<[u8]>,
    pub(super) kind: Kind,
    /// Seconds since 1970.
    pub(super) modified: i64,
    /// Bytes.
    pub(super) size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Other,
}

/// The entries of a directory in the order of the listing; none are read for a response without content.
pub(super) fn directory(path: &[u8], way: Way, head_only: bool) -> Result<Vec<Entry>, Failure> {
    let mut directory = Directory::open(path, way)?;
    let mut entries = Vec::new();
    if head_only {
        return Ok(entries);
    }
    while let Some(item) = directory.next() {
        entries.extend(entry(&directory, &item?)?);
    }
    entries.sort_unstable_by(|a, b| {
        let is_after = |entry: &Entry| entry.kind != Kind::Directory;
        is_after(a).cmp(&is_after(b)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(entries)
}

/// What is known of a name; nothing of one that may not be looked at. A link that leads nowhere, or where it must not,
/// is listed as itself.
fn entry(directory: &Directory, item: &DirEntry) -> Result<Option<Entry>, Failure> {
    let failure = |call, error| Failure::new(call, &directory.path_of(item), error);
    let metadata = match directory.look(item) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound || files::is_loop(&error) => {
            item.metadata().map_err(|error| failure("lstat", error))?
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(failure("stat", error)),
    };
    Ok(Some(Entry {
        name: item.file_name().as_bytes().into(),
        kind: kind(&metadata),
        modified: metadata.mtime(),
        size: metadata.size(),
    }))
}

fn kind(metadata: &Metadata) -> Kind {
    match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        _ => Kind::Other,
    }
}

//! Reads a directory; this may block.

use crate::shared::directories::Failure;
use crate::shared::files;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
pub(super) fn directory(path: &[u8], head_only: bool) -> Result<Vec<Entry>, Failure> {
    let failure = |call, error| Failure::new(call, path, error);
    let directory = std::fs::read_dir(files::as_path(path)).map_err(|error| failure("opendir", error))?;
    let mut entries = Vec::new();
    if head_only {
        return Ok(entries);
    }
    for item in directory {
        let item = item.map_err(|error| failure("readdir", error))?;
        let name = item.file_name();
        if !name.as_bytes().starts_with(b".") {
            entries.extend(entry(&item.path(), &name)?);
        }
    }
    entries.sort_unstable_by(|a, b| {
        let is_after = |entry: &Entry| entry.kind != Kind::Directory;
        is_after(a).cmp(&is_after(b)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(entries)
}

/// What is known of a name; nothing of one that may not be looked at. A link that leads nowhere is listed
/// as itself.
fn entry(path: &Path, name: &OsStr) -> Result<Option<Entry>, Failure> {
    let failure = |call, error| Failure::new(call, path.as_os_str().as_bytes(), error);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound || files::is_loop(&error) => {
            std::fs::symlink_metadata(path).map_err(|error| failure("lstat", error))?
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(failure("stat", error)),
    };
    Ok(Some(Entry {
        name: name.as_bytes().into(),
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

//! Reads a directory; this may block.

use crate::files::symlinks::Way;
use crate::shared::directories::{Directory, Failure};
use crate::shared::files;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// A file or directory that is listed.
pub(crate) struct Entry {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: Kind,
    /// Seconds since 1970, and nanoseconds.
    pub(crate) modified: i64,
    pub(crate) modified_ns: u32,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) is_link: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    Other,
}

/// A directory that was read.
pub(crate) struct Listed {
    pub(crate) entries: Vec<Entry>,
    /// When it changed last, in seconds since 1970.
    pub(crate) modified: i64,
}

/// What is wanted of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// For a response without content.
    Nothing,
    /// Names that do not start with a dot.
    Visible,
    All,
}

/// The entries of a directory in the order of the listing.
pub(crate) fn directory(path: &[u8], way: Way, wanted: Wanted) -> Result<Listed, Failure> {
    let mut directory = Directory::open(path, way)?;
    let mut entries = Vec::new();
    let modified = std::fs::metadata(files::as_path(path)).map_or(0, |metadata| metadata.mtime());
    if wanted == Wanted::Nothing {
        return Ok(Listed { entries, modified });
    }
    while let Some(item) = directory.next(wanted == Wanted::All) {
        entries.extend(entry(&directory, &item?)?);
    }
    entries.sort_unstable_by(|a, b| {
        let is_after = |entry: &Entry| entry.kind != Kind::Directory;
        is_after(a).cmp(&is_after(b)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(Listed { entries, modified })
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
        modified_ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        size: metadata.size(),
        is_link: item.file_type().is_ok_and(|kind| kind.is_symlink()),
    }))
}

fn kind(metadata: &Metadata) -> Kind {
    match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        _ => Kind::Other,
    }
}

//! Files that get their names when they are whole: a process that opens such a name gets the earlier content or all of the
//! new content.

use super::files::as_path;
use crate::shared::walk;
use rustix::fs::renameat;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;
use wire::{FileName, Spool};

/// What a file is to contain.
pub(crate) enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What is in another file, which may become the new one.
    Moved(&'a File),
    /// As many bytes of another file.
    Copied(&'a File, u64),
}

/// What a file gets besides its content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// Its permissions, as mode bits.
    pub(crate) mode: Option<u32>,
    /// The time of its last change.
    pub(crate) modified: Option<SystemTime>,
}

impl Marks {
    fn set(&self, file: &File) -> io::Result<()> {
        if let Some(modified) = self.modified {
            file.set_modified(modified)?;
        }
        self.mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))
    }
}

/// Gives content a name in a directory, in place of what has the name. It may block.
pub(crate) fn place(
    content: &Content<'_>,
    (directory, name): (&OwnedFd, &[u8]),
    marks: &Marks,
) -> io::Result<()> {
    let temporary = match content {
        Content::Moved(file) => moved(file, directory, marks)?,
        Content::Bytes(bytes) => written(*bytes, directory, marks)?,
        Content::Copied(file, length) => copied(file, *length, directory, marks)?,
    };
    let temporary_name = temporary.path().file_name().ok_or(ErrorKind::InvalidInput)?;
    Ok(renameat(directory, temporary_name, directory, as_path(name))?)
}

/// A file under a temporary name in the directory: the file itself, or a copy if it is on another file system, or on one
/// where a file cannot get a name later.
fn moved(file: &File, directory: &OwnedFd, marks: &Marks) -> io::Result<FileName> {
    marks.set(file)?;
    let linked = FileName::link(file, as_path(&walk::place(directory)));
    linked.or_else(|_| copied(file, file.metadata()?.len(), directory, marks))
}

fn copied(mut file: &File, length: u64, directory: &OwnedFd, marks: &Marks) -> io::Result<FileName> {
    file.rewind()?;
    written(file.take(length), directory, marks)
}

fn written(mut content: impl Read, directory: &OwnedFd, marks: &Marks) -> io::Result<FileName> {
    let (spool, name) = Spool::named(as_path(&walk::place(directory)))?;
    let mut file: &File = spool.file();
    io::copy(&mut content, &mut file)?;
    file.flush()?;
    marks.set(file)?;
    Ok(name)
}

/// The permissions of a directory that is made for files with these permissions: who may read it may also enter it, and
/// the owner may add files.
pub(crate) fn directory_mode(mode: u32) -> u32 {
    mode | 0o300 | ((mode & 0o444) >> 2)
}

#[cfg(test)]
mod tests {
    use super::{Content, Marks, directory_mode, place};
    use crate::shared::walk::{Way, open_directory};
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, SystemTime};
    use wire::Spool;

    #[test]
    fn content_of_each_kind_takes_the_place_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        let directory = open_directory(root.path().as_os_str().as_bytes(), Way::Follow).unwrap();
        let path = root.path().join("a");
        let mut spool = Spool::new(root.path()).unwrap();
        spool.append(b"spooled").unwrap();
        std::fs::write(root.path().join("b"), "copied and more").unwrap();
        let other = File::open(root.path().join("b")).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let marks = Marks { mode: Some(0o640), modified: Some(modified) };
        for (content, text) in [
            (Content::Bytes(b"bytes"), "bytes"),
            (Content::Moved(spool.file()), "spooled"),
            (Content::Copied(&other, 6), "copied"),
            (Content::Copied(&other, 6), "copied"),
        ] {
            place(&content, (&directory, b"a"), &marks).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!((metadata.mode() & 0o777, metadata.modified().unwrap()), (0o640, modified));
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2, "no temporary name is left");
    }

    #[test]
    fn a_name_that_cannot_be_had_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let directory = open_directory(root.path().as_os_str().as_bytes(), Way::Follow).unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        place(&Content::Bytes(b"x"), (&directory, b"a"), &Marks::default()).unwrap_err();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_can_be_entered_where_its_files_can_be_read() {
        assert_eq!([0o600, 0o644, 0o660, 0o400].map(directory_mode), [0o700, 0o755, 0o770, 0o700]);
    }
}

//! Directories with all that is in them. No symbolic link is followed. All of this may block.

use super::target::{Entry, Failure, open_below};
use crate::files::symlinks::PASS;
use crate::shared::per_directory::hidden::Hidden;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// How deep directories may be nested. Each level has open files.
const DEPTH_MAX: usize = 100;

/// How a directory is opened whose entries are read.
const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory that is open, with all below it.
#[derive(Debug)]
pub(super) struct Tree {
    directory: File,
    /// For messages.
    path: Vec<u8>,
    depth: usize,
}

impl Tree {
    /// Opens the directory that has a name.
    pub(super) fn open(entry: &Entry) -> Result<Tree, Failure> {
        let directory = open_below(&entry.parent, &entry.name, READ);
        let directory = directory.map_err(|error| entry.failure("open", error))?;
        Ok(Tree { directory: directory.into(), path: entry.path.clone(), depth: 0 })
    }

    /// Removes all that is in the directory. What cannot be removed stays, and the first failure is the error.
    pub(super) fn empty(&self) -> Result<(), Failure> {
        let mut first = None;
        self.each(|name, kind| {
            let emptied =
                if kind.is_dir() { self.enter(name).and_then(|inner| inner.empty()) } else { Ok(()) };
            let removed = emptied.and_then(|()| self.remove(name, kind));
            if let Err(failure) = removed {
                first.get_or_insert(failure);
            }
            Ok(())
        })?;
        first.map_or(Ok(()), Err)
    }

    /// Copies what is in the directory into another one. Symbolic links are copied if nothing may get lost.
    pub(super) fn copy(&self, into: &File, loses_nothing: bool) -> Result<(), Failure> {
        self.each(|name, kind| {
            let failure = |error| self.failure("copy", name, error);
            match kind {
                FileType::Directory => {
                    let inner = self.enter(name)?;
                    let made = inner.make_like(into, name).map_err(failure)?;
                    inner.copy(&made, loses_nothing)?;
                    inner.set_time(&made).map_err(failure)
                }
                FileType::RegularFile => self.copy_file(name, into).map_err(failure),
                FileType::Symlink if loses_nothing => self.copy_link(name, into).map_err(failure),
                _ if loses_nothing => Err(failure(Errno::NOTSUP.into())),
                // A copy of a link could lead to another file than the link.
                _ => Ok(()),
            }
        })
    }

    /// Makes an empty directory with the permissions of this one.
    pub(super) fn make_like(&self, parent: &impl AsFd, name: &[u8]) -> io::Result<File> {
        let mode = self.directory.metadata()?.mode() & 0o777 | 0o700;
        mkdirat(parent, name, Mode::from_raw_mode(mode))?;
        Ok(open_below(parent, name, READ)?.into())
    }

    /// Gives another directory the time of the last change of this one.
    pub(super) fn set_time(&self, other: &File) -> io::Result<()> {
        other.set_modified(self.directory.metadata()?.modified()?)
    }

    /// Whether a name in it is one of files with settings or passwords.
    pub(super) fn has_hidden(&self, hidden: &Hidden) -> Result<bool, Failure> {
        let mut found = false;
        self.each(|name, kind| {
            found = found || hidden.has(name) || (kind.is_dir() && self.enter(name)?.has_hidden(hidden)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn each(&self, mut act: impl FnMut(&[u8], FileType) -> Result<(), Failure>) -> Result<(), Failure> {
        let failure = |error: Errno| self.failure("readdir", b"", error.into());
        for entry in Dir::read_from(&self.directory).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            let name = entry.file_name().to_bytes();
            let kind = match entry.file_type() {
                _ if matches!(name, b"." | b"..") => continue,
                FileType::Unknown => self.kind(name)?,
                kind => kind,
            };
            act(name, kind)?;
        }
        Ok(())
    }

    fn kind(&self, name: &[u8]) -> Result<FileType, Failure> {
        let stat = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map(|stat| FileType::from_raw_mode(stat.st_mode))
            .map_err(|error| self.failure("lstat", name, error.into()))
    }

    fn enter(&self, name: &[u8]) -> Result<Tree, Failure> {
        let failure = |error| self.failure("open", name, error);
        if self.depth == DEPTH_MAX {
            return Err(failure(io::Error::other("directories are nested too deep")));
        }
        let directory = open_below(&self.directory, name, READ).map_err(|error| failure(error.into()))?;
        Ok(Tree { directory: directory.into(), path: self.path_of(name), depth: self.depth + 1 })
    }

    fn remove(&self, name: &[u8], kind: FileType) -> Result<(), Failure> {
        let (call, flags) = match kind.is_dir() {
            true => ("rmdir", AtFlags::REMOVEDIR),
            false => ("unlink", AtFlags::empty()),
        };
        unlinkat(&self.directory, name, flags).map_err(|error| self.failure(call, name, error.into()))
    }

    fn copy_file(&self, name: &[u8], into: &File) -> io::Result<()> {
        let file = File::from(open_below(&self.directory, name, OFlags::RDONLY)?);
        let metadata = file.metadata()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let copy = openat(into, name, flags, Mode::from_raw_mode(metadata.mode() & 0o777))?;
        let copy = File::from(copy);
        io::copy(&mut (&file).take(metadata.len()), &mut &copy)?;
        copy.set_modified(metadata.modified()?)
    }

    fn copy_link(&self, name: &[u8], into: &File) -> io::Result<()> {
        let leads_to = readlinkat(&self.directory, name, Vec::new())?;
        Ok(symlinkat(leads_to, into, name)?)
    }

    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        [&self.path[..], b"/", name].concat()
    }

    fn failure(&self, call: &'static str, name: &[u8], error: io::Error) -> Failure {
        Failure { call, path: self.path_of(name), error }
    }
}

/// How many directories may lead to another one.
const ANCESTORS_MAX: usize = 4096;

/// Whether a directory is another one, or somewhere in it, whichever links lead there.
pub(super) fn is_within(directory: &OwnedFd, outer: &Stat) -> io::Result<bool> {
    let mut current = openat(directory, ".", PASS, Mode::empty())?;
    for _ in 0..ANCESTORS_MAX {
        let here = fstat(&current)?;
        if is_same(&here, outer) {
            return Ok(true);
        }
        let above = openat(&current, "..", PASS, Mode::empty())?;
        if is_same(&fstat(&above)?, &here) {
            return Ok(false);
        }
        current = above;
    }
    Ok(true)
}

/// Whether both are of the same file.
pub(super) fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

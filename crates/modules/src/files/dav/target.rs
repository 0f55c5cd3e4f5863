//! The file or directory that a request changes: an open directory and a name in it, so that what was checked is what is
//! changed.

use super::Settings;
use crate::files::symlinks::{PASS, Way, open_directory};
use crate::shared::files;
use contract::Exchange;
use http::Status;
use journal::Level;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Where a URI leads to.
#[derive(Debug)]
pub(super) struct Target {
    /// The path without a slash at its end.
    pub(super) path: Vec<u8>,
    /// Where the name starts in it.
    start: usize,
    /// Whether the path had a slash at its end: only a directory may be there.
    pub(super) is_collection: bool,
    /// How the directory is opened.
    way: Way,
}

impl Target {
    /// The target of a URI, which must not be the directory that all files of the location are below.
    pub(super) fn of(exchange: &Exchange, settings: &Settings, uri: &[u8]) -> Result<Target, Refusal> {
        let mut path = files::map(exchange, uri).map_err(|status| Refusal::new(status, ""))?;
        let is_collection = path.ends_with(b"/");
        path.truncate(trimmed(&path).len());
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let base = files::base(exchange);
        let is_above = path.len() <= trimmed(&base).len() && base.starts_with(&path);
        if is_above || matches!(&path[start..], b"" | b"." | b"..") {
            let shown = String::from_utf8_lossy(&path);
            let message = format!("\"{shown}\" is the root, which no request may change");
            return Err(Refusal::new(Status::FORBIDDEN, message));
        }
        let names = path.strip_prefix(&base[..]).unwrap_or(&path);
        if settings.hidden.as_ref().is_some_and(|hidden| hidden.deny(exchange, names).is_some()) {
            return Err(Refusal::new(Status::FORBIDDEN, ""));
        }
        let way = settings.links.way(exchange, &path[..start]);
        Ok(Target { path, start, is_collection, way })
    }

    /// The path with one slash where there are several.
    pub(super) fn merged(&self) -> Vec<u8> {
        let mut merged = self.path.clone();
        merged.dedup_by(|second, first| *second == b'/' && *first == b'/');
        merged
    }

    /// Opens the directory of the target.
    pub(super) fn open(&self) -> Result<Entry, Failure> {
        let parent = open_directory(&self.path[..self.start], self.way);
        parent.map(|parent| self.entry(parent)).map_err(|error| self.failure("open", error))
    }

    /// Opens the directory of the target, and makes it and those on the way to it.
    pub(super) fn open_or_make(&self, mode: Mode) -> Result<Entry, Failure> {
        let least = match self.way {
            Way::Follow => 1,
            Way::Walk { from, .. } => from.max(1),
            Way::Beneath { base } => base,
        };
        let mut end = self.start;
        let mut directory = loop {
            match open_directory(&self.path[..end], self.way) {
                Ok(directory) => break directory,
                Err(error) if files::errno(&error) == Some(Errno::NOENT) && end > least => {
                    let parent = trimmed(&self.path[..end]);
                    let slash = parent.iter().rposition(|&byte| byte == b'/');
                    end = slash.map_or(least, |slash| slash + 1).max(least);
                }
                Err(error) => return Err(self.failure("open", error)),
            }
        };
        let missing = self.path[end..self.start].split(|&byte| byte == b'/');
        for name in missing.filter(|name| !name.is_empty()) {
            match mkdirat(&directory, name, mode) {
                // Another request may be first.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(self.failure("mkdir", error)),
            }
            directory = open_below(&directory, name, PASS).map_err(|error| self.failure("open", error))?;
        }
        Ok(self.entry(directory))
    }

    fn entry(&self, parent: OwnedFd) -> Entry {
        let is_collection = self.is_collection;
        Entry {
            parent,
            name: self.path[self.start..].into(),
            path: self.path.clone(),
            is_collection,
            refuses_links: self.way != Way::Follow,
        }
    }

    /// A call about the target that failed.
    pub(super) fn failure(&self, call: &'static str, error: impl Into<io::Error>) -> Failure {
        Failure { call, path: self.path.clone(), error: error.into() }
    }
}

/// Opens what has a name in a directory, unless it is a symbolic link.
pub(super) fn open_below(directory: &impl AsFd, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

/// A path without the slashes at its end.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// A name in an open directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parent: OwnedFd,
    pub(super) name: Box<[u8]>,
    pub(super) path: Vec<u8>,
    is_collection: bool,
    /// Whether a symbolic link here is denied.
    refuses_links: bool,
}

impl Entry {
    /// What has the name, if anything has. If the path has a slash at its end, it must be a directory.
    pub(super) fn look(&self) -> Result<Option<Stat>, Failure> {
        let found = self.look_at_any()?;
        match found.as_ref().is_some_and(|stat| self.is_collection && !is_directory(stat)) {
            true => Err(self.failure("lstat", Errno::NOTDIR)),
            false => Ok(found),
        }
    }

    /// What has the name, if anything has; a symbolic link is not followed.
    pub(super) fn look_at_any(&self) -> Result<Option<Stat>, Failure> {
        let stat = match statat(&self.parent, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            stat => stat.map_err(|error| self.failure("lstat", error))?,
        };
        match is_link(&stat) && self.refuses_links {
            true => Err(self.failure("lstat", Errno::LOOP)),
            false => Ok(Some(stat)),
        }
    }

    /// Opens the file that has the name, or that a symbolic link leads to.
    pub(super) fn open_file(&self) -> Result<File, Failure> {
        let links = if self.refuses_links { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | links;
        let opened = openat(&self.parent, &*self.name, flags, Mode::empty());
        let file = File::from(opened.map_err(|error| self.failure("open", error))?);
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(self.failure("open", Errno::ACCESS)),
            Err(error) => Err(self.failure("fstat", error)),
        }
    }

    /// A call about the name that failed.
    pub(super) fn failure(&self, call: &'static str, error: impl Into<io::Error>) -> Failure {
        Failure { call, path: self.path.clone(), error: error.into() }
    }
}

/// Whether this is a symbolic link.
pub(super) fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_symlink()
}

/// Whether this is a directory.
pub(super) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

/// A call of the system that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) call: &'static str,
    pub(super) path: Vec<u8>,
    pub(super) error: io::Error,
}

impl Failure {
    /// Refuses the request; `missing` is the status where something is not there.
    pub(super) fn refuse(&self, missing: Status) -> Refusal {
        let (level, status) = match files::errno(&self.error) {
            _ if files::is_missing(&self.error) => (Level::Error, missing),
            Some(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::MLINK) => {
                (Level::Error, Status::FORBIDDEN)
            }
            Some(Errno::EXIST) => (Level::Error, Status::METHOD_NOT_ALLOWED),
            Some(Errno::NOSPC | Errno::DQUOT) => (Level::Crit, Status::INSUFFICIENT_STORAGE),
            _ => (Level::Crit, Status::INTERNAL_SERVER_ERROR),
        };
        Refusal { level, status, message: files::failed(self.call, &self.path, &self.error) }
    }
}

/// A request that changes nothing, or not everything that it asks for.
#[derive(Debug)]
pub(super) struct Refusal {
    level: Level,
    status: Status,
    message: String,
}

impl Refusal {
    /// A request that the client should not have sent. Without a message the reason was told already.
    pub(super) fn new(status: Status, message: impl Into<String>) -> Refusal {
        Refusal { level: Level::Error, status, message: message.into() }
    }

    /// Logs the reason, and gives the status to answer with.
    pub(super) fn tell(self, exchange: &Exchange) -> Status {
        if !self.message.is_empty() {
            exchange.log(self.level, &self.message);
        }
        self.status
    }
}

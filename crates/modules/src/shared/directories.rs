//! Directories that are read, what may go wrong, and what it means.

use super::files;
use crate::shared::walk::{self, Way};
use contract::Exchange;
use http::Status;
use journal::Level;
use rustix::io::Errno;
use std::fs::{DirEntry, File, Metadata, ReadDir};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A directory that is read; this may block.
pub(crate) struct Directory {
    path: Vec<u8>,
    way: Way,
    entries: ReadDir,
    /// Stays open while its entries are looked at by way of it.
    _held: Option<File>,
}

impl Directory {
    /// Opens a directory.
    pub(crate) fn open(path: &[u8], way: Way) -> Result<Directory, Failure> {
        let failure = |error| Failure::new("opendir", path, error);
        let held = match way {
            Way::Beneath { .. } => Some(walk::open(path, way).map_err(failure)?),
            // Of a listing nginx follows all links.
            Way::Follow | Way::Walk { .. } => None,
        };
        let place = held.as_ref().map(walk::place);
        let entries = std::fs::read_dir(files::as_path(place.as_deref().unwrap_or(path))).map_err(failure)?;
        Ok(Directory { path: path.into(), way, entries, _held: held })
    }

    /// The next entry; if not all are wanted, the next whose name does not start with a dot.
    pub(crate) fn next(&mut self, all: bool) -> Option<Result<DirEntry, Failure>> {
        let is_shown = |item: &io::Result<DirEntry>| {
            all || item.as_ref().map_or(true, |item| !item.file_name().as_bytes().starts_with(b"."))
        };
        let item = self.entries.find(is_shown)?;
        Some(item.map_err(|error| Failure::new("readdir", &self.path, error)))
    }

    /// What an entry leads to, if it is a link, and what it is, if not. A link that must not be followed leads nowhere.
    pub(crate) fn look(&self, item: &DirEntry) -> io::Result<Metadata> {
        match self.way {
            Way::Beneath { .. } if item.file_type()?.is_symlink() => {
                let refused = |error| if files::is_loop(&error) { Errno::NOENT.into() } else { error };
                walk::open(&self.path_of(item), self.way).map_err(refused)?.metadata()
            }
            Way::Beneath { .. } => item.metadata(),
            Way::Follow | Way::Walk { .. } => std::fs::metadata(item.path()),
        }
    }

    /// The path of an entry.
    pub(crate) fn path_of(&self, item: &DirEntry) -> Vec<u8> {
        [&self.path[..], b"/", item.file_name().as_bytes()].concat()
    }
}

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The name of the call.
    pub(crate) call: &'static str,
    /// What it was called with.
    pub(crate) path: Box<[u8]>,
    /// Why it failed.
    pub(crate) error: io::Error,
}

impl Failure {
    /// A call that failed.
    pub(crate) fn new(call: &'static str, path: &[u8], error: io::Error) -> Failure {
        Failure { call, path: path.into(), error }
    }

    /// Logs it, and gives the status to answer with.
    pub(crate) fn refuse(&self, exchange: &Exchange) -> Status {
        let Failure { call, path, error } = self;
        let (level, status) = match files::errno(error) {
            _ if *call != "opendir" => (Level::Crit, Status::INTERNAL_SERVER_ERROR),
            _ if files::is_missing(error) => (Level::Error, Status::NOT_FOUND),
            Some(Errno::ACCESS | Errno::LOOP) => (Level::Error, Status::FORBIDDEN),
            _ => (Level::Crit, Status::INTERNAL_SERVER_ERROR),
        };
        exchange.log(level, &files::failed(call, path, error));
        status
    }
}

/// The path of the directory that the URI maps to, without the slash at its end.
pub(crate) fn path(exchange: &Exchange) -> Result<Vec<u8>, Status> {
    let mut path = files::map(exchange, &exchange.request.path)?;
    if path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    Ok(path)
}

//! DELETE, also as a part of COPY and MOVE.

use super::target::{Entry, Failure, Refusal, Target, is_directory};
use super::tree::Tree;
use super::{Done, Settings};
use contract::Exchange;
use http::Status;
use rustix::fs::{AtFlags, Stat, unlinkat};
use rustix::io::Errno;
use std::io::ErrorKind;

/// How much of a directory a request is for (`Depth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

impl Depth {
    pub(super) fn of(exchange: &Exchange) -> Result<Option<Depth>, Refusal> {
        match exchange.request.head.fields.get("Depth") {
            None => Ok(None),
            Some(b"0") => Ok(Some(Depth::Zero)),
            Some(b"1") => Ok(Some(Depth::One)),
            Some(b"infinity") => Ok(Some(Depth::Infinity)),
            Some(value) => {
                let shown = String::from_utf8_lossy(value);
                let message = format!("client sent invalid \"Depth\" header: \"{shown}\"");
                Err(Refusal::new(Status::BAD_REQUEST, message))
            }
        }
    }
}

/// Removes a file or a directory. It may block.
pub(super) fn act(target: &Target, depth: Option<Depth>, settings: &Settings) -> Result<Done, Refusal> {
    let absent = |failure: Failure| {
        let is_file = failure.error.kind() == ErrorKind::NotADirectory;
        failure.refuse(if is_file { Status::CONFLICT } else { Status::NOT_FOUND })
    };
    let entry = target.open().map_err(absent)?;
    let found = entry.look().map_err(absent)?;
    let found = found.ok_or_else(|| absent(entry.failure("lstat", Errno::NOENT)))?;
    let refused = |status, message: &str| Err(Refusal::new(status, message));
    match (is_directory(&found), depth) {
        (true, _) if !target.is_collection => {
            let shown = String::from_utf8_lossy(&target.path);
            refused(Status::CONFLICT, &format!("DELETE \"{shown}\" failed: it is a collection"))
        }
        (true, None | Some(Depth::Infinity)) | (false, None | Some(Depth::Zero | Depth::Infinity)) => {
            remove(&entry, &found, settings).map(|()| Done::Changed)
        }
        (true, _) => refused(Status::BAD_REQUEST, "\"Depth\" header must be infinity"),
        (false, _) => refused(Status::BAD_REQUEST, "\"Depth\" header must be 0 or infinity"),
    }
}

/// Removes what has a name, with all that is in it.
pub(super) fn remove(entry: &Entry, found: &Stat, settings: &Settings) -> Result<(), Refusal> {
    let absent = |failure: Failure| failure.refuse(Status::NOT_FOUND);
    let (call, flags) = match is_directory(found) {
        true => {
            let tree = Tree::open(entry).map_err(absent)?;
            refuse_hidden(&tree, settings)?;
            tree.empty().map_err(absent)?;
            ("rmdir", AtFlags::REMOVEDIR)
        }
        false => ("unlink", AtFlags::empty()),
    };
    unlinkat(&entry.parent, &*entry.name, flags).map_err(|error| absent(entry.failure(call, error)))
}

/// Refuses to change a directory with settings of `.htaccess` files, which may protect what is in it.
pub(super) fn refuse_hidden(tree: &Tree, settings: &Settings) -> Result<(), Refusal> {
    let Some(hidden) = &settings.hidden else { return Ok(()) };
    match tree.has_hidden(hidden).map_err(|failure| failure.refuse(Status::NOT_FOUND))? {
        true => {
            Err(Refusal::new(Status::FORBIDDEN, "the directory contains files with settings (.htaccess)"))
        }
        false => Ok(()),
    }
}

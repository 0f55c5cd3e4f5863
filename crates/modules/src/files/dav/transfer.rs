//! COPY and MOVE.

use super::delete::{Depth, refuse_hidden, remove};
use super::target::{Entry, Failure, Refusal, Target, is_directory};
use super::tree::{Tree, is_same, is_within};
use super::{Done, Settings};
use crate::shared::placing::{self, Content, Marks};
use contract::{Exchange, LocationKind};
use http::uri::{Host, split_unchecked_uri};
use http::{Method, Status};
use rustix::fs::{AtFlags, Stat, fstat, renameat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The decoded path of `Destination`, on this host and in this location.
pub(super) fn destination(exchange: &Exchange) -> Result<Vec<u8>, Refusal> {
    let refused = |message: String| Refusal::new(Status::BAD_REQUEST, message);
    let value = exchange.request.head.fields.get("Destination");
    let value = value.ok_or_else(|| refused("client sent no \"Destination\" header".to_owned()))?;
    let shown = String::from_utf8_lossy(value);
    let invalid = || refused(format!("client sent invalid \"Destination\" header: \"{shown}\""));
    let mut uri = value;
    if !value.starts_with(b"/") {
        let scheme = if exchange.connection.secure { "https://" } else { "http://" };
        let rest = value.strip_prefix(scheme.as_bytes()).ok_or_else(invalid)?;
        let slash = rest.iter().position(|&byte| byte == b'/').ok_or_else(invalid)?;
        let mut host = Host::default();
        host.parse(&rest[..slash]).map_err(|_| invalid())?;
        if host.name != exchange.request.host {
            let message = format!("\"Destination\" URI \"{shown}\" is handled by a different server");
            return Err(refused(message));
        }
        uri = &rest[slash..];
    }
    let (path, _) = split_unchecked_uri(uri).ok_or_else(invalid)?;
    let is_in_location = match &exchange.scope.policy.root.alias {
        Some(name) if name.kind != LocationKind::Regex => path.starts_with(&name.text),
        _ => path.starts_with(b"/"),
    };
    if !is_in_location {
        return Err(invalid());
    }
    let request = &exchange.request.path;
    if request.ends_with(b"/") != path.ends_with(b"/") {
        let uri = String::from_utf8_lossy(request);
        let message = format!("one of \"{uri}\" and \"Destination\" URI \"{shown}\" is a collection");
        return Err(Refusal::new(Status::CONFLICT, message));
    }
    Ok(path)
}

/// What is copied or moved where.
pub(super) struct Transfer {
    source: Target,
    destination: Target,
    overwrites: bool,
    is_move: bool,
}

impl Transfer {
    /// What a request with this path in `Destination` asks for.
    pub(super) fn new(exchange: &Exchange, settings: &Settings, path: &[u8]) -> Result<Transfer, Refusal> {
        let is_move = exchange.request.method == Method::Move;
        match Depth::of(exchange)? {
            None | Some(Depth::Infinity) => {}
            Some(Depth::Zero) if !is_move => {}
            Some(_) => return Err(Refusal::new(Status::BAD_REQUEST, "\"Depth\" header must be infinity")),
        }
        let overwrites = overwrites(exchange)?;
        let source = Target::of(exchange, settings, &exchange.request.path)?;
        let destination = Target::of(exchange, settings, path)?;
        let transfer = Transfer { source, destination, overwrites, is_move };
        match transfer.is_into_itself() {
            true => Err(transfer.overlap()),
            false => Ok(transfer),
        }
    }

    /// Whether the paths are the same, or one of the directories is in the other.
    fn is_into_itself(&self) -> bool {
        let (from, to) = (self.source.merged(), self.destination.merged());
        let is_inside =
            |inner: &[u8], outer: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(b"/"));
        from == to || self.source.is_collection && (is_inside(&from, &to) || is_inside(&to, &from))
    }

    fn overlap(&self) -> Refusal {
        let shown = |target: &Target| String::from_utf8_lossy(&target.path).into_owned();
        let (from, to) = (shown(&self.source), shown(&self.destination));
        let message = format!("\"{from}\" and \"{to}\" are the same, or one of them is in the other");
        Refusal::new(Status::FORBIDDEN, message)
    }

    /// Copies or moves. It may block.
    pub(super) fn act(self, settings: &Settings) -> Result<Done, Refusal> {
        let to = match self.destination.open() {
            // It may get a directory yet.
            Err(failure) if failure.error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(absent)?),
        };
        let there = match &to {
            Some(entry) => entry.look_at_any().map_err(absent)?,
            None => None,
        };
        if let Some(there) = &there {
            self.may_replace(there)?;
        }
        let from = self.source.open().map_err(absent)?;
        let found = from.look().map_err(absent)?;
        let found = found.ok_or_else(|| absent(from.failure("lstat", Errno::NOENT)))?;
        if !is_directory(&found) {
            return self.file(&from, to, settings);
        }
        if !self.source.is_collection {
            let shown = String::from_utf8_lossy(&self.source.path);
            return Err(Refusal::new(Status::BAD_REQUEST, format!("\"{shown}\" is a collection")));
        }
        let to = to.ok_or_else(|| self.without_directory())?;
        let is_nested = is_within(&to.parent, &found).map_err(|error| absent(to.failure("stat", error)))?
            || self.would_remove_source(&from, &found, there.as_ref())?;
        match is_nested {
            true => Err(self.overlap()),
            false => self.directory(&from, (&to, there.as_ref()), settings),
        }
    }

    fn may_replace(&self, there: &Stat) -> Result<(), Refusal> {
        let shown = String::from_utf8_lossy(&self.destination.path);
        if is_directory(there) && !self.source.is_collection {
            return Err(Refusal::new(Status::CONFLICT, format!("\"{shown}\" is a collection")));
        }
        match self.overwrites {
            true => Ok(()),
            false => {
                let message = format!("\"{shown}\" could not be created: it exists");
                Err(Refusal::new(Status::PRECONDITION_FAILED, message))
            }
        }
    }

    /// Whether the directory is in the one whose place it would take.
    fn would_remove_source(&self, from: &Entry, found: &Stat, there: Option<&Stat>) -> Result<bool, Refusal> {
        let Some(there) = there else { return Ok(false) };
        let is_inside =
            is_within(&from.parent, there).map_err(|error| absent(from.failure("stat", error)))?;
        Ok(is_inside || is_same(found, there))
    }

    fn directory(
        &self,
        from: &Entry,
        (to, there): (&Entry, Option<&Stat>),
        settings: &Settings,
    ) -> Result<Done, Refusal> {
        let tree = Tree::open(from).map_err(absent)?;
        refuse_hidden(&tree, settings)?;
        if let Some(there) = there {
            remove(to, there, settings)?;
        }
        if self.is_move {
            match renameat(&from.parent, &*from.name, &to.parent, &*to.name) {
                Ok(()) => return Ok(Done::Made { has_location: false }),
                // Another file system, or a directory that one is mounted at.
                Err(Errno::XDEV | Errno::BUSY) => {}
                Err(error) => return Err(absent(from.failure("rename", error))),
            }
        }
        let failure = |error: io::Error| absent(to.failure("mkdir", error));
        let made = tree.make_like(&to.parent, &to.name).map_err(failure)?;
        tree.copy(&made, self.is_move).map_err(absent)?;
        tree.set_time(&made).map_err(failure)?;
        if self.is_move {
            tree.empty().map_err(absent)?;
            let removed = unlinkat(&from.parent, &*from.name, AtFlags::REMOVEDIR);
            removed.map_err(|error| absent(from.failure("rmdir", error)))?;
        }
        Ok(Done::Made { has_location: false })
    }

    fn file(&self, from: &Entry, to: Option<Entry>, settings: &Settings) -> Result<Done, Refusal> {
        let to = match to {
            Some(to) => to,
            None if self.is_move => {
                self.destination.open_or_make(settings.directory_mode()).map_err(conflict)?
            }
            None => return Err(self.without_directory()),
        };
        let is_same_place = |(one, other): (Stat, Stat)| is_same(&one, &other) && from.name == to.name;
        if fstat(&from.parent).ok().zip(fstat(&to.parent).ok()).is_none_or(is_same_place) {
            return Err(self.overlap());
        }
        if self.is_move {
            match renameat(&from.parent, &*from.name, &to.parent, &*to.name) {
                Ok(()) => return Ok(Done::Changed),
                Err(Errno::XDEV) => {}
                Err(error) => return Err(absent(from.failure("rename", error))),
            }
        }
        copy_file(from, &to)?;
        if self.is_move {
            let removed = unlinkat(&from.parent, &*from.name, AtFlags::empty());
            removed.map_err(|error| absent(from.failure("unlink", error)))?;
        }
        Ok(Done::Changed)
    }

    fn without_directory(&self) -> Refusal {
        conflict(self.destination.failure("open", Errno::NOENT))
    }
}

fn copy_file(from: &Entry, to: &Entry) -> Result<(), Refusal> {
    let file = from.open_file().map_err(absent)?;
    let metadata = file.metadata().map_err(|error| absent(from.failure("fstat", error)))?;
    let marks = Marks { mode: Some(metadata.mode() & 0o777), modified: metadata.modified().ok() };
    let content = Content::Copied(&file, metadata.len());
    placing::place(&content, (&to.parent, &to.name), &marks)
        .map_err(|error| absent(to.failure("rename", error)))
}

/// Whether a file that is there may be replaced (`Overwrite`).
fn overwrites(exchange: &Exchange) -> Result<bool, Refusal> {
    match exchange.request.head.fields.get("Overwrite") {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(value) => {
            let shown = String::from_utf8_lossy(value);
            let message = format!("client sent invalid \"Overwrite\" header: \"{shown}\"");
            Err(Refusal::new(Status::BAD_REQUEST, message))
        }
    }
}

fn absent(failure: Failure) -> Refusal {
    failure.refuse(Status::NOT_FOUND)
}

fn conflict(failure: Failure) -> Refusal {
    failure.refuse(Status::CONFLICT)
}

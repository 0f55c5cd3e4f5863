//! PUT and MKCOL: what makes a file or a directory.

use super::target::{Failure, Refusal, Target, is_directory, is_link};
use super::{Done, Settings};
use crate::shared::placing::{self, Content, Marks};
use contract::{Exchange, RequestBody};
use http::Status;
use rustix::fs::{AtFlags, mkdirat, statat};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use wire::FileName;

/// What is wrong with a PUT before its body is read.
pub(super) fn judge(exchange: &Exchange) -> Result<(), Refusal> {
    if exchange.request.path.ends_with(b"/") {
        return Err(Refusal::new(Status::CONFLICT, "cannot PUT to a collection"));
    }
    match exchange.request.head.fields.get("Content-Range") {
        Some(_) => Err(Refusal::new(Status::NOT_IMPLEMENTED, "PUT with range is unsupported")),
        None => Ok(()),
    }
}

/// A body that becomes a file.
pub(super) struct Put {
    target: Target,
    body: RequestBody,
    /// The name that the body's file has until then.
    temporary: Option<PathBuf>,
    modified: Option<SystemTime>,
}

impl Put {
    pub(super) fn new(exchange: &Exchange, target: Target) -> Result<Put, Refusal> {
        let body = exchange.request.body.clone().ok_or_else(|| {
            Refusal::new(Status::INTERNAL_SERVER_ERROR, "the body of a PUT request is not available")
        })?;
        let date = exchange.request.head.fields.get("Date").and_then(http::parse_date);
        let modified = date
            .and_then(|seconds| u64::try_from(seconds).ok())
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let temporary = exchange.attached::<FileName>().map(|name| name.path().to_path_buf());
        Ok(Put { target, body, temporary, modified })
    }

    /// Makes or replaces the file. It may block.
    pub(super) fn act(self, settings: &Settings) -> Result<Done, Refusal> {
        let missing = |failure: Failure| failure.refuse(Status::CONFLICT);
        let entry = match settings.creates_path {
            true => self.target.open_or_make(settings.directory_mode()),
            false => self.target.open(),
        };
        let entry = entry.map_err(missing)?;
        let found = entry.look().map_err(missing)?;
        // A link is replaced, but not one that leads to a directory.
        let leads_to = match &found {
            Some(stat) if is_link(stat) => statat(&entry.parent, &*entry.name, AtFlags::empty()).ok(),
            _ => found,
        };
        if leads_to.as_ref().is_some_and(is_directory) {
            let shown = String::from_utf8_lossy(&self.target.path);
            return Err(Refusal::new(Status::CONFLICT, format!("\"{shown}\" is a collection")));
        }
        let content = match &self.body {
            RequestBody::Memory(bytes) => Content::Bytes(bytes),
            RequestBody::File { file, .. } => Content::Moved(file),
        };
        let marks = Marks { mode: Some(settings.access), modified: self.modified };
        placing::place(&content, (&entry.parent, &entry.name), &marks)
            .map_err(|error| missing(entry.failure("rename", error)))?;
        if let Some(temporary) = self.temporary {
            // The name that `client_body_in_file_only` gave to the file: the file has moved.
            let _ = std::fs::remove_file(temporary);
        }
        Ok(if leads_to.is_some() { Done::Changed } else { Done::Made { has_location: true } })
    }
}

/// Makes a directory. It may block.
pub(super) fn make_collection(target: &Target, settings: &Settings) -> Result<Done, Refusal> {
    let made = target.open().and_then(|entry| {
        mkdirat(&entry.parent, &*entry.name, settings.directory_mode())
            .map_err(|error| entry.failure("mkdir", error))
    });
    made.map(|()| Done::Made { has_location: true }).map_err(|failure| failure.refuse(Status::CONFLICT))
}

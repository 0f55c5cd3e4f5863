//! Indexes and directories that do not exist, or cannot be looked for.

use crate::logging::error_log::logs_missing;
use crate::shared::files;
use contract::Exchange;
use http::Status;
use journal::Level;
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Names of a directory that are looked at for a form of an index.
const NAMES_MAX: usize = 10_000;

/// Ends the search for all but a name that is simply not there.
pub(super) fn refuse_search(exchange: &Exchange, file: &[u8], error: &io::Error) -> Result<(), Status> {
    match files::errno(error) {
        Some(Errno::NOENT) => Ok(()),
        Some(Errno::LOOP | Errno::MLINK) => Err(Status::FORBIDDEN),
        Some(Errno::ACCESS) => {
            exchange.log(Level::Error, &format!("{} ({})", is(file, "forbidden"), files::reason(error)));
            Err(Status::FORBIDDEN)
        }
        Some(Errno::NOTDIR | Errno::NAMETOOLONG) => Err(not_found(exchange, file, error)),
        _ => {
            exchange.log(Level::Crit, &files::failed("stat", file, error));
            Err(Status::INTERNAL_SERVER_ERROR)
        }
    }
}

pub(super) fn not_found(exchange: &Exchange, file: &[u8], error: &io::Error) -> Status {
    if logs_missing(exchange) {
        exchange.log(Level::Error, &format!("{} ({})", is(file, "not found"), files::reason(error)));
    }
    Status::NOT_FOUND
}

pub(super) fn is(path: &[u8], what: &str) -> String {
    format!("\"{}\" is {what}", String::from_utf8_lossy(path))
}

/// Whether a directory has a form of an index that is not there itself.
pub(crate) fn has_form(directory: &[u8], name: &[u8]) -> bool {
    let Ok(entries) = std::fs::read_dir(files::as_path(directory)) else { return false };
    let is_form = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let rest = entry.file_name().as_bytes().strip_prefix(name).map(<[u8]>::to_vec);
            rest.is_some_and(|rest| rest.starts_with(b"."))
        })
    };
    entries.take(NAMES_MAX).any(is_form)
}

//! Indexes and directories that do not exist, or cannot be looked for.

use crate::logging::error_log::logs_missing;
use crate::shared::files;
use contract::Exchange;
use http::Status;
use journal::Level;
use rustix::io::Errno;
use std::io;

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

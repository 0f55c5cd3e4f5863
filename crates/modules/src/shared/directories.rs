//! Directories that are read: what may go wrong, and what it means.

use super::files;
use contract::Exchange;
use contract::log::Level;
use http::Status;
use rustix::io::Errno;
use std::io;

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
            Some(Errno::ACCESS) => (Level::Error, Status::FORBIDDEN),
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

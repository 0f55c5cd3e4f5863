//! Files of a site: from the URI to the path, and what errors of the file system mean.

use contract::{Exchange, MapError, Root};
use http::Status;
use journal::Level;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The path that a URI maps to in the exchange's scope; a failure is logged.
pub(crate) fn map(exchange: &Exchange, uri: &[u8]) -> Result<Vec<u8>, Status> {
    let mapped = exchange.scope.policy.root.map(exchange, uri);
    mapped.map_err(|error| map_failed(exchange, error))
}

/// What `act` makes of the path that a URI maps to. The path's memory is the thread's.
pub(crate) fn with_path<T>(
    exchange: &mut Exchange,
    act: impl FnOnce(&mut Exchange, &mut Vec<u8>) -> Result<T, Status>,
) -> Result<T, Status> {
    let mut path = PATH.take();
    let mapped = match exchange.known_path() {
        Some(known) => {
            path.clone_from(&known.path);
            Ok(())
        }
        None => exchange.scope.policy.root.map_into(exchange, &exchange.request.path, &mut path),
    };
    let result = match mapped {
        Ok(()) => act(exchange, &mut path),
        Err(error) => Err(map_failed(exchange, error)),
    };
    PATH.set(path);
    result
}

thread_local! {
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Logs why a URI has no path, and gives the status to answer with.
pub(crate) fn map_failed(exchange: &Exchange, error: MapError) -> Status {
    match error {
        MapError::AliasAfterRewrite => {
            let location = exchange.scope.name.as_ref().map_or(&b""[..], |name| &name.text);
            let location = String::from_utf8_lossy(location);
            let message =
                format!("\"alias\" cannot be used in location \"{location}\" where URI was rewritten");
            exchange.log(Level::Alert, &message);
            Status::INTERNAL_SERVER_ERROR
        }
        MapError::Unsafe => {
            let uri = String::from_utf8_lossy(&exchange.request.path);
            exchange.log(Level::Error, &format!("the path of \"{uri}\" leaves its root"));
            Status::FORBIDDEN
        }
    }
}

/// Whether there is a directory that all files of a root are below, whatever variables hold.
pub(crate) fn has_base(root: &Root) -> bool {
    root.alias.is_none() || root.path.beginning().contains(&b'/')
}

/// The directory that the files of a request's root are below: for an alias the one in front of its last slash, as far as
/// it has no variables.
pub(crate) fn base(exchange: &Exchange) -> Vec<u8> {
    let root = &exchange.scope.policy.root;
    if root.alias.is_none() {
        return root.directory(exchange);
    }
    let text = root.path.beginning();
    let end = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    root.prefix.join(as_path(&text[..end])).into_os_string().into_vec()
}

/// Bytes as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The system's error number; none where the error did not come from the system.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// Whether the error says that there is no such file.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG))
}

/// Whether the error says that there are too many symbolic links, or one where none may be.
pub(crate) fn is_loop(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::LOOP | Errno::MLINK))
}

/// The line of the error log about a failed call: `open() "/x" failed (2: No such file or directory)`.
pub(crate) fn failed(call: &str, path: &[u8], error: &io::Error) -> String {
    format!("{call}() \"{}\" failed ({})", String::from_utf8_lossy(path), reason(error))
}

/// An error of the system as the error log shows it: `2: No such file or directory`.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    error.raw_os_error().map_or_else(|| words.to_owned(), |number| format!("{number}: {words}"))
}

#[cfg(test)]
mod tests {
    use super::{failed, is_missing};

    #[test]
    fn errors_read_as_in_the_error_log() {
        let error = std::fs::metadata("/nonexistent/x").unwrap_err();
        assert!(is_missing(&error));
        assert_eq!(
            failed("stat", b"/nonexistent/x", &error),
            "stat() \"/nonexistent/x\" failed (2: No such file or directory)"
        );
    }
}

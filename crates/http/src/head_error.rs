//! What is wrong with a request.

use crate::Status;
use crate::uri::InvalidTarget;

/// A request that cannot be answered as asked. Its connection closes after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct HeadError {
    /// The status to answer with; 494 is sent as 400.
    pub status: Status,
    /// The line for the error log, in nginx's words where nginx has some.
    pub reason: &'static str,
    /// Whether the request line was understood. If not, the head holds what was received of the line,
    /// for `$request`, but neither a target nor a version.
    pub line_known: bool,
}

impl HeadError {
    /// An error of a request whose line is known.
    pub const fn new(status: Status, reason: &'static str) -> HeadError {
        HeadError { status, reason, line_known: true }
    }

    /// A 400 for a request whose line is known.
    pub const fn bad(reason: &'static str) -> HeadError {
        HeadError::new(Status::BAD_REQUEST, reason)
    }
}

impl From<InvalidTarget> for HeadError {
    fn from(invalid: InvalidTarget) -> HeadError {
        HeadError::bad(match invalid {
            InvalidTarget::Host => "client sent invalid host in request line",
            InvalidTarget::Other => "client sent invalid request",
        })
    }
}

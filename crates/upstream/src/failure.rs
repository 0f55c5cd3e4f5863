//! Why a server has no answer.

use crate::failures::Failures;
use net::system_message;
use std::io::{self, ErrorKind};

/// What the log says that was done when a call failed.
pub(crate) const CONNECTING: &str = "connecting to upstream";
pub(crate) const HANDSHAKING: &str = "SSL handshaking to upstream";
pub(crate) const SENDING: &str = "sending request to upstream";
pub(crate) const READING_HEAD: &str = "reading response header from upstream";
pub(crate) const READING: &str = "reading upstream";

/// Why a server has no answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What it counts as.
    pub kind: Failures,
    /// The line for the error log.
    pub message: String,
    /// Whether the server has said that it did not act on the request.
    pub is_unprocessed: bool,
}

impl Failure {
    /// A call on the connection failed, while doing something: `sending request to upstream`.
    pub(crate) fn io(call: &str, error: &io::Error, doing: &str) -> Failure {
        let is_ours = error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none();
        if is_ours {
            return Failure::timed_out(doing);
        }
        let message = match tls_failure(error) {
            Some(failure) => {
                let call = if call == "send" { "SSL_write" } else { "SSL_read" };
                format!("{call}() failed (SSL: {failure}) while {doing}")
            }
            None => format!("{call}() failed ({}) while {doing}", system_message(error)),
        };
        Failure::new(Failures::ERROR, message)
    }

    fn new(kind: Failures, message: String) -> Failure {
        Failure { kind, message, is_unprocessed: false }
    }

    /// The handshake failed.
    pub(crate) fn handshake(error: &io::Error) -> Failure {
        let what = match (tls_failure(error), error.kind()) {
            (Some(failure), _) if failure.is_certificate => format!("upstream SSL {failure}"),
            (Some(failure), _) => format!("SSL_do_handshake() failed (SSL: {failure})"),
            (None, ErrorKind::UnexpectedEof) => "peer closed connection in SSL handshake".to_owned(),
            (None, _) => format!("peer closed connection in SSL handshake ({})", system_message(error)),
        };
        Failure::new(Failures::ERROR, format!("{what} while {HANDSHAKING}"))
    }

    /// The server was too slow.
    pub(crate) fn timed_out(doing: &str) -> Failure {
        let message = format!("upstream timed out (110: Connection timed out) while {doing}");
        Failure::new(Failures::TIMEOUT, message)
    }

    /// The server closed the connection before its response was whole.
    pub(crate) fn premature(doing: &str) -> Failure {
        let message = format!("upstream prematurely closed connection while {doing}");
        Failure::new(Failures::ERROR, message)
    }

    /// The server sent what is no response.
    pub fn invalid(message: String) -> Failure {
        Failure::new(Failures::INVALID_HEADER, message)
    }

    /// The server did not act on the request and says so: the request may be sent again, whatever it does.
    pub fn refused(message: String) -> Failure {
        Failure { is_unprocessed: true, ..Failure::new(Failures::ERROR, message) }
    }
}

/// What TLS says, where it is the cause.
fn tls_failure(error: &io::Error) -> Option<&tls::Failure> {
    error.get_ref()?.downcast_ref()
}

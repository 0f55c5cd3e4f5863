//! What is wrong with an application's answer.

/// An answer that cannot be used. The message is the line for the error log, in nginx's words where nginx
/// has some; the connection must close.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A record of another version than 1.
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    Version(u8),
    /// A record other than STDOUT, STDERR and END_REQUEST.
    #[error("upstream sent invalid FastCGI record type: {0}")]
    RecordType(u8),
    /// A request id whose high byte is not 0.
    #[error("upstream sent unexpected FastCGI request id high byte: {0}")]
    RequestIdHigh(u8),
    /// A request id whose low byte is not 1.
    #[error("upstream sent unexpected FastCGI request id low byte: {0}")]
    RequestIdLow(u8),
    /// An END_REQUEST whose content has not the eight bytes that it must have.
    #[error("upstream sent FastCGI end request record of invalid length: {0}")]
    EndLength(u16),
    /// An END_REQUEST with a protocol status that does not exist.
    #[error("upstream sent invalid FastCGI protocol status: {0}")]
    ProtocolStatus(u8),
    /// Bytes after the end of the request.
    #[error("upstream sent data after FastCGI end request record")]
    AfterEnd,
    /// A head that is larger than its limit.
    #[error("upstream sent too big header")]
    HeadTooBig,
    /// A line of the head that is no field. It is shown up to the byte that makes it invalid.
    #[error("upstream sent invalid header: \"{}\\x{byte:02x}...\"", text(.line))]
    InvalidHeader {
        /// What precedes the byte.
        line: Box<[u8]>,
        /// The byte.
        byte: u8,
    },
    /// A `Status` that is no status code of a final response.
    #[error("upstream sent invalid status \"{}\"", text(.0))]
    InvalidStatus(Box<[u8]>),
    /// A second `Status`.
    #[error("upstream sent duplicate header line: \"Status: {}\"", text(.0))]
    DuplicateStatus(Box<[u8]>),
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn messages_are_those_that_tools_know() {
        for (error, message) in [
            (Error::Version(2), "upstream sent unsupported FastCGI protocol version: 2"),
            (Error::RecordType(11), "upstream sent invalid FastCGI record type: 11"),
            (
                Error::InvalidHeader { line: b"a b"[..].into(), byte: 0 },
                "upstream sent invalid header: \"a b\\x00...\"",
            ),
            (Error::InvalidStatus(b"abc"[..].into()), "upstream sent invalid status \"abc\""),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}

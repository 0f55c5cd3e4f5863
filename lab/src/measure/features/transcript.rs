//! What was said to a contender and what it answered, as it is kept next to the matrix.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::measure::engine::fetch::{Connection, Stream};

/// Lines of a probe, in the order in which they happened. Clones write into the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    text: Arc<Mutex<String>>,
}

/// Bytes of one message that are kept.
const KEPT_BYTES: usize = 1500;

impl Transcript {
    /// A remark of the prober.
    pub(super) fn note(&self, text: &str) {
        for line in text.lines() {
            self.line("#", line);
        }
    }

    /// Bytes that were sent.
    pub(super) fn sent(&self, bytes: &[u8]) {
        self.bytes(">", bytes);
    }

    /// Bytes that were received.
    pub(super) fn received(&self, bytes: &[u8]) {
        self.bytes("<", bytes);
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A connection whose bytes are kept; within TLS, the bytes that it carries.
    pub(super) fn tap(&self, connection: Connection) -> Connection {
        let tapped = Tapped { stream: connection.into_inner(), transcript: self.clone() };
        Connection::new(Box::new(tapped))
    }

    fn bytes(&self, direction: &str, bytes: &[u8]) {
        let kept = &bytes[..bytes.len().min(KEPT_BYTES)];
        for line in kept.split_inclusive(|byte| *byte == b'\n') {
            self.line(direction, &line.escape_ascii().to_string());
        }
        if bytes.len() > KEPT_BYTES {
            self.line(direction, &format!("... and {} bytes", bytes.len() - KEPT_BYTES));
        }
    }

    fn line(&self, mark: &str, line: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.text.lock().unwrap_or_else(PoisonError::into_inner), "{mark} {line}");
    }
}

struct Tapped {
    stream: Box<dyn Stream>,
    transcript: Transcript,
}

impl Read for Tapped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.transcript.received(&buffer[..count]);
        Ok(count)
    }
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(bytes)?;
        self.transcript.sent(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_binary_messages_stay_readable() {
        let transcript = Transcript::default();
        transcript.note("a\nb");
        transcript.sent(b"GET / HTTP/1.1\r\n\r\n");
        transcript.received(&[b'x'; KEPT_BYTES + 7]);
        let text = transcript.text();
        assert!(text.starts_with("# a\n# b\n> GET / HTTP/1.1\\r\\n\n> \\r\\n\n< xxx"), "{text}");
        assert!(text.ends_with("xxx\n< ... and 7 bytes\n"), "{text}");
    }
}

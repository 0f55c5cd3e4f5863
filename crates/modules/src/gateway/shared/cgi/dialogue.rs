//! A request that goes out in one block before the body, and an answer that is a head and content up to its
//! length or to the end of the connection: SCGI and uwsgi.

use super::response::announced;
use bytes::Bytes;
use fcgi::{Head, HeadParser};
use http::Status;
use memchr::memchr;
use upstream::{Decoded, Dialogue, Failure, Remarks};
use wire::Buffer;

const READING_HEAD: &str = "while reading response header from upstream";

/// A request that grew past this is not kept for others, in bytes.
const KEPT_TEXT: usize = 4096;

/// How much of a status line an error shows, in bytes.
const SHOWN: usize = 256;

/// One request and its answer.
pub(crate) struct Block {
    /// The environment.
    pub(crate) request: Vec<u8>,
    /// How long the head of the answer may be, in bytes.
    pub(crate) limit: usize,
    /// Whether the client asks for another protocol.
    pub(crate) asks_upgrade: bool,
    parser: HeadParser,
    /// The status of a line such as `HTTP/1.1 200 OK` in front of the fields; `None` before it is known whether
    /// there is one.
    line: Option<Option<Status>>,
    /// What follows the status in that line.
    reason: Vec<u8>,
    pub(crate) head: Head,
    /// The length of the content, where the head announces it.
    pub(crate) length: Option<u64>,
    /// What is left of that.
    rest: Option<u64>,
    /// The media type of the answer, or of one before.
    pub(crate) media_type: Bytes,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            request: Vec::new(),
            limit: 0,
            asks_upgrade: false,
            parser: HeadParser::new(0),
            line: None,
            reason: Vec::new(),
            head: Head::default(),
            length: None,
            rest: None,
            media_type: Bytes::new(),
        }
    }
}

impl Block {
    /// Reads the line in front of the fields, if there is one. Tells whether that is known.
    fn read_line(&mut self, input: &mut Buffer) -> Result<bool, Failure> {
        const START: &[u8] = b"HTTP/";
        if self.line.is_some() {
            return Ok(true);
        }
        let bytes = input.bytes();
        if !bytes.iter().zip(START).all(|(byte, start)| byte == start) {
            self.line = Some(None);
            return Ok(true);
        }
        let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(self.limit)]) else {
            let is_long = bytes.len() >= self.limit;
            return if is_long { Err(refused("upstream sent too big header")) } else { Ok(false) };
        };
        let text = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let (status, reason) = parse_line(text).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
            refused(&format!("upstream sent invalid status line: \"{shown}\""))
        })?;
        self.line = Some(Some(status));
        self.reason.extend_from_slice(reason);
        self.parser.set_limit(self.limit - (end + 1));
        input.consume(end + 1);
        Ok(true)
    }

    /// Takes a head that is whole.
    fn take(&mut self, mut head: Head) -> Result<Status, Failure> {
        if let Some(status) = self.line.take().flatten() {
            head.status = status;
            std::mem::swap(&mut head.reason, &mut self.reason);
        }
        self.length = announced(&head.fields).map_err(|message| refused(&message))?;
        (self.rest, self.head) = (self.length, head);
        match self.head.status {
            Status::SWITCHING_PROTOCOLS if !self.asks_upgrade => {
                Err(refused("upstream switched protocols unasked"))
            }
            Status::SWITCHING_PROTOCOLS => Ok(self.head.status),
            status if status < Status::OK => {
                Err(refused(&format!("upstream sent unexpected status {}", status.0)))
            }
            status => Ok(status),
        }
    }
}

/// The status of a line, and what follows it with the space that separates them.
fn parse_line(line: &[u8]) -> Option<(Status, &[u8])> {
    let rest = line.strip_prefix(b"HTTP/")?;
    let (version, rest) = rest.split_at(rest.iter().position(|&byte| byte == b' ')?);
    let dot = version.iter().position(|&byte| byte == b'.')?;
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !is_number(&version[..dot]) || !is_number(&version[dot + 1..]) {
        return None;
    }
    let (code, reason) = rest.trim_ascii_start().split_at_checked(3)?;
    if !is_number(code) || !(reason.is_empty() || reason.starts_with(b" ")) {
        return None;
    }
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let is_text = reason.iter().all(|&byte| byte == b'\t' || !byte.is_ascii_control());
    (code >= 100 && is_text).then_some((Status(code), reason))
}

impl Dialogue for Block {
    fn clear(&mut self) {
        // What the next request sets again in any case stays: the settings and the parser.
        let Block { request, line, reason, head, length, rest, .. } = self;
        if request.capacity() > KEPT_TEXT {
            *request = Vec::new();
        }
        request.clear();
        reason.clear();
        head.clear();
        (*line, *length, *rest) = (None, None, None);
    }

    fn memory(&self) -> usize {
        self.request.capacity()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.parser = HeadParser::reusing(std::mem::take(&mut self.head), self.limit);
        self.line = None;
        self.reason.clear();
        out.extend_from_slice(&self.request);
    }

    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
    }

    fn append_end(&mut self, _: &mut Vec<u8>) {}

    fn read_head(&mut self, input: &mut Buffer, _: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        if !self.read_line(input)? {
            return Ok(None);
        }
        let parsed = self.parser.parse(input.bytes()).map_err(|error| refused(&error.to_string()))?;
        match parsed {
            Some((head, consumed)) => {
                input.consume(consumed);
                self.take(head).map(Some)
            }
            None => {
                input.consume(usize::MAX);
                Ok(None)
            }
        }
    }

    fn read_content(&mut self, input: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        let there = input.bytes();
        let fitting = self.rest.map_or(there.len(), |rest| {
            usize::try_from(rest).map_or(there.len(), |rest| rest.min(there.len()))
        });
        if self.rest == Some(0) {
            return Ok(Decoded::End);
        }
        if fitting == 0 {
            return Ok(Decoded::More);
        }
        let bytes = Bytes::copy_from_slice(&there[..fitting]);
        input.consume(fitting);
        self.rest = self.rest.map(|rest| rest - fitting as u64);
        Ok(if self.rest == Some(0) { Decoded::Last(bytes) } else { Decoded::Data(bytes) })
    }

    fn ends_with_connection(&self) -> bool {
        self.rest.is_none()
    }

    fn keeps_connection(&self) -> bool {
        false
    }
}

/// The failure of an invalid response.
fn refused(message: &str) -> Failure {
    Failure::invalid(format!("{message} {READING_HEAD}"))
}

#[cfg(test)]
mod tests {
    use super::Block;
    use crate::testing::Site;
    use upstream::{Decoded, Dialogue, Remarks};
    use wire::Buffer;

    /// The status, the words after it and the content of an answer that comes in these pieces, then how it ends.
    fn read(pieces: &[&str]) -> Result<(u16, String, String, &'static str), String> {
        let mut block = Block { limit: 100, ..Block::default() };
        let answer = read_by(&mut block, pieces);
        block.clear();
        assert_eq!(read_by(&mut block, pieces), answer, "nothing is left of the first answer");
        answer
    }

    fn read_by(block: &mut Block, pieces: &[&str]) -> Result<(u16, String, String, &'static str), String> {
        let exchange = Site::location("").get("/");
        let remarks = Remarks::new(&exchange, &String::new);
        block.begin(&mut Vec::new());
        let (mut input, mut status, mut content, mut end) = (Buffer::default(), None, String::new(), "more");
        for piece in pieces {
            input.append(|out| out.extend_from_slice(piece.as_bytes()));
            if status.is_none() {
                status = block.read_head(&mut input, &remarks).map_err(|failure| failure.message)?;
            }
            while status.is_some() {
                match block.read_content(&mut input, &remarks)? {
                    Decoded::Data(bytes) => content += &String::from_utf8_lossy(&bytes),
                    Decoded::More => break,
                    ended => {
                        if let Decoded::Last(bytes) = ended {
                            content += &String::from_utf8_lossy(&bytes);
                        }
                        end = "end";
                        break;
                    }
                }
            }
        }
        let end = if end == "more" && block.ends_with_connection() { "close" } else { end };
        let reason = String::from_utf8_lossy(&block.head.reason).into_owned();
        Ok((status.map_or(0, |status| status.0), reason, content, end))
    }

    #[test]
    fn status_lines_and_fields_in_any_pieces() {
        for (answer, status, reason) in [
            ("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nrest", 404, " Not Found"),
            ("HTTP/1.0 200\nA: b\n\nrest", 200, ""),
            ("HTTP/1.1 201 Made\r\nStatus: 404 Other\r\n\r\nrest", 201, " Made"),
            ("Status: 404 Not Found\r\n\r\nrest", 404, " Not Found"),
            ("H: b\n\nrest", 200, ""),
            ("Location: /\n\nrest", 302, ""),
        ] {
            let expected = Ok((status, reason.to_owned(), "rest".to_owned(), "close"));
            assert_eq!(read(&[answer]), expected, "{answer:?}");
            let single: Vec<_> = answer.split_inclusive(|_| true).collect();
            assert_eq!(read(&single), expected, "{answer:?}");
        }
    }

    #[test]
    fn content_ends_with_its_length() {
        let of = |pieces: &[&str]| read(pieces).map(|(_, _, content, end)| (content, end));
        assert_eq!(of(&["Content-Length: 3\n\nabcd"]), Ok(("abc".to_owned(), "end")));
        assert_eq!(of(&["Content-Length: 3\n\na", "bc"]), Ok(("abc".to_owned(), "end")));
        assert_eq!(of(&["Content-Length: 3\n\na", "b"]), Ok(("ab".to_owned(), "more")));
        assert_eq!(of(&["Content-Length: 0\n\n"]), Ok((String::new(), "end")));
    }

    #[test]
    fn what_is_no_answer() {
        for (answer, expected) in [
            ("HTTP/1.1 20 OK\n\n", "invalid status line: \"HTTP/1.1 20 OK\""),
            ("HTTP/x 200 OK\n\n", "invalid status line: \"HTTP/x 200 OK\""),
            ("HTTP/1.1 100 Continue\n\n", "unexpected status 100"),
            ("HTTP/1.1 101 Switching\n\n", "switched protocols unasked"),
            ("Content-Length: x\n\n", "invalid \"Content-Length\" header"),
            ("no field\n\n", "invalid header"),
        ] {
            let message = read(&[answer]).unwrap_err();
            assert!(message.contains(expected), "{answer:?}: {message}");
        }
        let long = format!("HTTP/1.1 200 {}", "x".repeat(100));
        assert!(read(&[&long]).unwrap_err().starts_with("upstream sent too big header"));
        let long = format!("HTTP/1.1 200 OK\nA: {}\n\n", "x".repeat(80));
        assert!(read(&[&long]).unwrap_err().starts_with("upstream sent too big header"));
    }
}

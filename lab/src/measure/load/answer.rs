//! Answers as they arrive: where each begins and ends, and what the check of it needs. RFC 9112, sections 4 to 7.

use std::fmt;
use std::rc::Rc;

/// The longest head, and the longest trailer section, that is read.
const MAX_HEAD: usize = 64 * 1024;

/// An answer that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// Bytes of the head, and of chunk framing.
    pub(super) head: u64,
    /// Bytes of content.
    pub(super) content: u64,
    /// Whether the connection may be used again.
    pub(super) keep_alive: bool,
}

/// Why no answer can be made of what arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

/// Reads the answers of one connection, however they are cut. It allocates only for a head that came in parts.
#[derive(Default)]
pub(super) struct Reader {
    state: State,
    head: Head,
    answer_head: u64,
    content: u64,
    partial: Vec<u8>,
    /// Where messages are echoed: what is read in place of answers of HTTP.
    echo: Option<Echo>,
}

/// The frames that come back on a WebSocket, all alike.
struct Echo {
    frame: Rc<[u8]>,
    /// How many bytes of a frame are content.
    content: u64,
    /// How many bytes of the next one arrived.
    arrived: usize,
}

impl Echo {
    /// Takes bytes up to the end of a frame: how many were used, and whether it is complete.
    fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let left = &self.frame[self.arrived..];
        let used = bytes.len().min(left.len());
        if bytes[..used] != left[..used] {
            return Err(Malformed("a message that is not the echo of the one sent"));
        }
        let is_complete = used == left.len();
        self.arrived = if is_complete { 0 } else { self.arrived + used };
        Ok((used, is_complete))
    }
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Head,
    Content(u64),
    UntilClose,
    Chunked(Chunk),
}

#[derive(Clone, Copy)]
enum Chunk {
    Size { size: u64, digits: u8 },
    Extension { size: u64 },
    Data(u64),
    DataEnd,
    Trailer { line: usize, total: usize },
}

/// What a head says about the rest of its answer.
#[derive(Clone, Copy, Default)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    coded: bool,
    keep_alive: bool,
}

impl Reader {
    /// Whether a part of an answer has arrived.
    pub(super) fn is_within(&self) -> bool {
        let is_within_echo = self.echo.as_ref().is_some_and(|echo| echo.arrived > 0);
        !matches!(self.state, State::Head) || !self.partial.is_empty() || is_within_echo
    }

    /// Bytes of the part of an answer that has arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.answer_head + self.content + self.echo.as_ref().map_or(0, |echo| echo.arrived as u64)
    }

    /// From now on, each answer is this frame, which ends with so many bytes of content.
    pub(super) fn expect_echo(&mut self, frame: &Rc<[u8]>, content: u64) {
        self.echo = Some(Echo { frame: Rc::clone(frame), content, arrived: 0 });
    }

    /// Takes bytes up to the end of the answer: how many were used, and the answer if it is complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Answer>), Malformed> {
        if let Some(echo) = &mut self.echo {
            let (used, is_complete) = echo.take(bytes)?;
            let (content, head) = (echo.content, echo.frame.len() as u64 - echo.content);
            let answer = Answer { status: self.head.status, head, content, keep_alive: true };
            return Ok((used, is_complete.then_some(answer)));
        }
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            used += match self.state {
                State::Head => self.take_head(rest)?,
                State::Content(left) => {
                    let taken = at_most(left, rest.len());
                    self.content += taken as u64;
                    self.state = State::Content(left - taken as u64);
                    taken
                }
                State::UntilClose => {
                    self.content += rest.len() as u64;
                    rest.len()
                }
                State::Chunked(chunk) => self.take_chunk(chunk, rest)?,
            };
            if let State::Content(0) = self.state {
                return Ok((used, Some(self.complete(true))));
            }
        }
        Ok((used, None))
    }

    /// The connection ended: the answer, if its end is the end of the connection.
    pub(super) fn end(&mut self) -> Option<Answer> {
        matches!(self.state, State::UntilClose).then(|| self.complete(false))
    }

    fn complete(&mut self, framed: bool) -> Answer {
        let answer = Answer {
            status: self.head.status,
            head: self.answer_head,
            content: self.content,
            keep_alive: framed && self.head.keep_alive,
        };
        self.state = State::Head;
        (self.answer_head, self.content) = (0, 0);
        answer
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let used = if self.partial.is_empty() {
            match Head::parse(bytes)? {
                Some((head, length)) => {
                    self.head = head;
                    length
                }
                None => return self.keep(bytes),
            }
        } else {
            let before = self.partial.len();
            self.partial.extend_from_slice(bytes);
            let Some((head, length)) = Head::parse(&self.partial)? else {
                self.partial.truncate(before);
                return self.keep(bytes);
            };
            self.partial.clear();
            self.head = head;
            length - before
        };
        self.answer_head += used as u64;
        self.state = match self.head {
            // What follows a 101 is another protocol (RFC 9110, section 15.2.2).
            Head { status: 101 | 204 | 304, .. } => State::Content(0),
            Head { status: 100..200, .. } => State::Head,
            Head { chunked: true, .. } => State::Chunked(Chunk::Size { size: 0, digits: 0 }),
            Head { length: Some(length), coded: false, .. } => State::Content(length),
            _ => State::UntilClose,
        };
        Ok(used)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        if self.partial.len() + bytes.len() > MAX_HEAD {
            return Err(Malformed("a head longer than 64 KB"));
        }
        self.partial.extend_from_slice(bytes);
        self.answer_head += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn take_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<usize, Malformed> {
        if let Chunk::Data(left) = chunk {
            let taken = at_most(left, bytes.len());
            let left = left - taken as u64;
            self.content += taken as u64;
            self.state = State::Chunked(if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) });
            return Ok(taken);
        }
        self.answer_head += 1;
        self.state = match chunk.after(bytes[0])? {
            Some(next) => State::Chunked(next),
            None => State::Content(0),
        };
        Ok(1)
    }
}

impl Chunk {
    /// The place after a byte that is not data. `None` after the last byte of the answer. RFC 9112, section 7.1.
    fn after(self, byte: u8) -> Result<Option<Chunk>, Malformed> {
        let next = match (self, byte) {
            (Chunk::Size { digits: 1.., size }, b';' | b' ' | b'\t' | b'\r') => Chunk::Extension { size },
            (Chunk::Size { digits: 1.., size } | Chunk::Extension { size }, b'\n') => Chunk::with_size(size),
            (Chunk::Size { size, digits: digits @ 0..15 }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed("no size of a chunk"))?;
                Chunk::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Chunk::Extension { size }, _) => Chunk::Extension { size },
            (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
            (Chunk::DataEnd, b'\n') => Chunk::Size { size: 0, digits: 0 },
            (Chunk::Trailer { line: 0, .. }, b'\n') => return Ok(None),
            (Chunk::Trailer { total: MAX_HEAD.., .. }, _) => return Err(Malformed("an endless trailer")),
            (Chunk::Trailer { total, .. }, b'\n') => Chunk::Trailer { line: 0, total: total + 1 },
            (Chunk::Trailer { line, total }, b'\r') => Chunk::Trailer { line, total: total + 1 },
            (Chunk::Trailer { line, total }, _) => Chunk::Trailer { line: line + 1, total: total + 1 },
            _ => return Err(Malformed("a broken chunk")),
        };
        Ok(Some(next))
    }

    fn with_size(size: u64) -> Chunk {
        if size == 0 { Chunk::Trailer { line: 0, total: 0 } } else { Chunk::Data(size) }
    }
}

impl Head {
    /// A head with its length in bytes, if all of it is there.
    fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
        let mut lines = Lines { bytes, at: 0 };
        let Some(line) = lines.next() else { return Ok(None) };
        let mut head = Head::from_status_line(line)?;
        loop {
            match lines.next() {
                None => return Ok(None),
                Some([]) => return Ok(Some((head, lines.at))),
                Some(line) => head.take_field(line)?,
            }
        }
    }

    fn from_status_line(line: &[u8]) -> Result<Head, Malformed> {
        const NONE: Malformed = Malformed("no status line");
        let rest = line.strip_prefix(b"HTTP/1.").ok_or(NONE)?;
        let [minor, b' ', digits @ ..] = rest else { return Err(NONE) };
        let digits = digits.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or(NONE)?;
        let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        Ok(Head { status, keep_alive: *minor != b'0', ..Head::default() })
    }

    fn take_field(&mut self, line: &[u8]) -> Result<(), Malformed> {
        // Only three fields matter, and their names differ in length.
        let is = |name: &str| {
            line.len() > name.len()
                && line[name.len()] == b':'
                && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        if is("content-length") {
            let length = parse_length(line["content-length:".len()..].trim_ascii())?;
            if self.length.is_some_and(|before| before != length) {
                return Err(Malformed("two lengths of the content"));
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            self.coded = true;
            self.chunked = has_token(&line["transfer-encoding:".len()..], b"chunked");
        } else if is("connection") {
            let value = &line["connection:".len()..];
            self.keep_alive =
                (self.keep_alive || has_token(value, b"keep-alive")) && !has_token(value, b"close");
        }
        Ok(())
    }
}

/// The lines of a head, without their ends.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        Some(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }
}

fn parse_length(digits: &[u8]) -> Result<u64, Malformed> {
    const NONE: Malformed = Malformed("no length of the content");
    if digits.is_empty() {
        return Err(NONE);
    }
    digits.iter().try_fold(0u64, |length, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0')).ok_or(NONE)?;
        length.checked_mul(10).and_then(|length| length.checked_add(digit)).ok_or(NONE)
    })
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|entry| entry.trim_ascii().eq_ignore_ascii_case(token))
}

fn at_most(left: u64, length: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, step: usize) -> Result<Vec<Answer>, Malformed> {
        let mut reader = Reader::default();
        let mut answers = Vec::new();
        for mut piece in text.as_bytes().chunks(step) {
            while !piece.is_empty() {
                let (used, answer) = reader.feed(piece)?;
                piece = &piece[used..];
                answers.extend(answer);
            }
        }
        answers.extend(reader.end());
        Ok(answers)
    }

    fn answer(status: u16, head: &str, content: u64, keep_alive: bool) -> Answer {
        Answer { status, head: head.len() as u64, content, keep_alive }
    }

    #[test]
    fn answers_are_framed_however_they_are_cut() {
        const LENGTH: &str = "HTTP/1.1 200 OK\r\nDate: now\r\ncontent-LENGTH:  5 \r\n\r\n";
        const NONE: &str = "HTTP/1.1 204 No Content\r\nConnection: Keep-Alive\r\n\r\n";
        const EMPTY: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        const FRAMES: &str = "5;x=y\r\n\r\nA\r\n\r\n0\r\nDigest: x\r\n\r\n";
        const CLOSE: &str = "HTTP/1.1 200\r\nContent-Length: 1\r\nConnection: x, close\r\n\r\n";
        let text = format!(
            "{LENGTH}hello{NONE}{EMPTY}{CONTINUE}{CHUNKED}5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nDigest: x\r\n\r\n{CLOSE}!"
        );
        let expected = [
            answer(200, LENGTH, 5, true),
            answer(204, NONE, 0, true),
            answer(404, EMPTY, 0, true),
            answer(200, &format!("{CONTINUE}{CHUNKED}{FRAMES}"), 15, true),
            answer(200, CLOSE, 1, false),
        ];
        for step in [1, 2, 3, 7, 40, text.len()] {
            assert_eq!(read(&text, step).unwrap(), expected, "step {step}");
        }
    }

    #[test]
    fn the_end_of_the_connection_ends_what_has_no_length() {
        const HEAD: &str = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(read(&format!("{HEAD}rest"), 3).unwrap(), [answer(200, HEAD, 4, false)]);
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", 100).unwrap(), []);
        const KEPT: &str = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(read(&format!("{KEPT}x"), 9).unwrap(), [answer(200, KEPT, 1, true)]);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            &format!("{chunked}x\r\n"),
            &format!("{chunked}\r\n"),
            &format!("{chunked}1111111111111111\r\n"),
            &format!("{chunked}1\r\nab\r\n"),
            &format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(MAX_HEAD)),
            &format!("{chunked}0\r\nx: {}", "x".repeat(MAX_HEAD + 1)),
        ] {
            assert!(read(text, 1000).is_err(), "{:?}", text.get(..80).unwrap_or(text));
        }
    }
}

//! The head of a CGI response (RFC 3875, section 6).

use http::{Fields, KnownName, Status};
use memchr::{memchr, memchr2};

use crate::Error;

/// What an application says before its content.
#[derive(Clone, Debug)]
pub struct Head {
    /// The code of `Status`; without one 302 if there is a `Location`, else 200.
    pub status: Status,
    /// What follows the code in `Status`, with the space that separates them; empty if there is nothing.
    pub reason: Vec<u8>,
    /// All other fields, in order. A `Location` is among them as it was written, also where it is a path:
    /// as in nginx, the client gets it.
    pub fields: Fields,
}

impl Default for Head {
    /// A head of which nothing was read.
    fn default() -> Head {
        Head { status: Status::OK, reason: Vec::new(), fields: Fields::new() }
    }
}

impl Head {
    /// Forgets the head and keeps its memory.
    pub fn clear(&mut self) {
        self.status = Status::OK;
        self.reason.clear();
        self.fields.clear();
    }
}

/// A resumable parser of one head. Lines end with a line feed, before which a carriage return may stand.
#[derive(Clone, Debug)]
pub struct HeadParser {
    /// The line that is not complete.
    line: Vec<u8>,
    received: usize,
    limit: usize,
    has_status: bool,
    head: Head,
}

/// How much of a line an error shows.
const SHOWN: usize = 256;

const STATUS: &str = "Status";

impl HeadParser {
    /// A parser of a head of at most `limit` bytes, its blank line included (`fastcgi_buffer_size`).
    pub fn new(limit: usize) -> HeadParser {
        HeadParser::reusing(Head::default(), limit)
    }

    /// A new parser that uses the memory of a head that was read before.
    pub fn reusing(mut head: Head, limit: usize) -> HeadParser {
        head.clear();
        HeadParser { line: Vec::new(), received: 0, limit, has_status: false, head }
    }

    /// Changes how long the head may be, before anything of it was read.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Reads the next piece of standard output. Once the head is complete, returns it with the number of
    /// bytes of this piece that belong to it; the rest is content.
    ///
    /// # Errors
    ///
    /// A head that is too large, an invalid line, and an invalid or repeated `Status`.
    pub fn parse(&mut self, input: &[u8]) -> Result<Option<(Head, usize)>, Error> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let usual = self.take_usual(rest)?;
            if usual > 0 {
                at += usual;
                continue;
            }
            let end = memchr(b'\n', rest).map(|length| length + 1);
            let piece = &rest[..end.unwrap_or(rest.len())];
            self.count(piece.len())?;
            at += piece.len();
            if end.is_none() {
                self.line.extend_from_slice(piece);
            } else if self.end_line(piece)? {
                return Ok(Some((self.finish(), at)));
            }
        }
        Ok(None)
    }

    /// Takes whole lines that are written as most are, and gives their length.
    fn take_usual(&mut self, rest: &[u8]) -> Result<usize, Error> {
        // A `Status` that comes first, as most do, is no field that would have to be removed.
        let is_status =
            || rest.get(..STATUS.len()).is_some_and(|start| start.eq_ignore_ascii_case(STATUS.as_bytes()));
        if !self.line.is_empty() || is_status() {
            return Ok(0);
        }
        let fitting = &rest[..rest.len().min(self.limit - self.received)];
        let HeadParser { head: Head { status, reason, fields }, has_status, .. } = self;
        let length = fields.push_usual(fitting, usize::MAX);
        self.received += length;
        if fields.only(KnownName::Status) != Ok(None) {
            for value in fields.all(STATUS) {
                let (code, words) = read_status(has_status, value)?;
                *status = code;
                reason.extend_from_slice(words);
            }
            fields.remove(STATUS);
        }
        Ok(length)
    }

    fn count(&mut self, length: usize) -> Result<(), Error> {
        if length > self.limit - self.received {
            return Err(Error::HeadTooBig);
        }
        self.received += length;
        Ok(())
    }

    /// Reads the line that ends with this piece. Returns whether it was the blank one.
    fn end_line(&mut self, piece: &[u8]) -> Result<bool, Error> {
        if self.line.is_empty() {
            return self.read_line(piece);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(piece);
        let is_blank = self.read_line(&line)?;
        self.line = line;
        self.line.clear();
        Ok(is_blank)
    }

    fn read_line(&mut self, line: &[u8]) -> Result<bool, Error> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // Scripts that were written to speak HTTP themselves start with a status line, which nginx
        // passes over.
        if !text.is_empty() && !text.starts_with(b"HTTP/") {
            self.add_field(text)?;
        }
        Ok(text.is_empty())
    }

    fn add_field(&mut self, line: &[u8]) -> Result<(), Error> {
        let name_end = line.iter().position(|&byte| byte == b':' || byte <= b' ' || byte == 0x7f);
        let colon = match name_end {
            Some(at) if at > 0 && line[at] == b':' => at,
            Some(at) => return Err(invalid(line, at)),
            None => return Err(invalid(line, line.len())),
        };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if let Some(at) = memchr2(b'\r', 0, value) {
            return Err(invalid(line, colon + 1 + at));
        }
        let value = value.trim_ascii();
        if !name.eq_ignore_ascii_case(STATUS.as_bytes()) {
            return self.head.fields.push(name, value).map_err(|_| invalid(line, line.len()));
        }
        let (status, reason) = read_status(&mut self.has_status, value)?;
        self.head.status = status;
        self.head.reason.extend_from_slice(reason);
        Ok(())
    }

    fn finish(&mut self) -> Head {
        if !self.has_status && self.head.fields.get("Location").is_some() {
            self.head.status = Status::FOUND;
        }
        std::mem::take(&mut self.head)
    }
}

/// The code and the reason of a `Status`, which a head has once.
fn read_status<'a>(has_status: &mut bool, value: &'a [u8]) -> Result<(Status, &'a [u8]), Error> {
    if std::mem::replace(has_status, true) {
        return Err(Error::DuplicateStatus(shown(value)));
    }
    parse_status(value).ok_or_else(|| Error::InvalidStatus(shown(value)))
}

/// A code of three digits, then nothing or a space and the reason. A code below 200 is of no final
/// response, and the protocol has no other (RFC 3875, section 6.3.3).
fn parse_status(text: &[u8]) -> Option<(Status, &[u8])> {
    let (code, reason) = text.split_at_checked(3)?;
    if !code.iter().all(u8::is_ascii_digit) || !(reason.is_empty() || reason.starts_with(b" ")) {
        return None;
    }
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    (code >= 200).then_some((Status(code), reason))
}

/// The error of a line that byte `at` makes invalid; its end, if there is no such byte.
fn invalid(line: &[u8], at: usize) -> Error {
    let byte = line.get(at).copied().unwrap_or(b'\n');
    Error::InvalidHeader { line: shown(&line[..at]), byte }
}

fn shown(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(SHOWN)].into()
}

#[cfg(test)]
mod tests {
    use super::{Head, HeadParser};
    use crate::Error;

    fn parse(input: &str) -> Result<Option<(Head, usize)>, Error> {
        HeadParser::new(4096).parse(input.as_bytes())
    }

    fn head(input: &str) -> Head {
        parse(input).unwrap().expect(input).0
    }

    fn error(input: &str) -> String {
        parse(input).expect_err(input).to_string()
    }

    #[test]
    fn fields_and_where_content_starts() {
        for (input, length) in [
            ("Content-type: text/html\r\nX-A:b\r\n\r\nrest\n\n", 34),
            ("Content-type: text/html\nX-A: \t b \n\nrest", 35),
        ] {
            let (head, consumed) = parse(input).unwrap().unwrap();
            assert_eq!((head.status.0, consumed), (200, length));
            let fields: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
            let expected: [(&[u8], &[u8]); 2] = [(b"Content-type", b"text/html"), (b"X-A", b"b")];
            assert_eq!(fields, expected);
        }
        assert_eq!(parse("\nrest").unwrap().map(|(_, consumed)| consumed), Some(1));
        assert!(parse("A: b\r\n\r").unwrap().is_none());
    }

    #[test]
    fn statuses() {
        for (line, code, reason) in [
            ("Status: 404 Not Found", 404, " Not Found"),
            ("status:404", 404, ""),
            ("STATUS: 404 ", 404, ""),
            ("Status: 299 \u{e9}  x", 299, " \u{e9}  x"),
            ("Status: 999", 999, ""),
            ("X: y", 200, ""),
        ] {
            for end in ["\n", "\r\n"] {
                let head = head(&format!("A: b{end}{line}{end}C: d{end}{end}"));
                assert_eq!((head.status.0, &*head.reason), (code, reason.as_bytes()), "{line}");
                assert!(head.fields.get("Status").is_none() && head.fields.get("C") == Some(b"d"));
            }
        }
        for status in ["abc", "99999", "4040 x", "404x", "40", "", "-04", "+404", "099", "101 Switching"] {
            let expected = format!("upstream sent invalid status \"{status}\"");
            for end in ["\n", "\r\n"] {
                assert_eq!(error(&format!("Status: {status}{end}{end}")), expected);
            }
        }
        for ends in [["\n", "\n"], ["\r\n", "\r\n"], ["\n", "\r\n"], ["\r\n", "\n"]] {
            assert_eq!(
                error(&format!("Status: 200{}A: b\r\nStatus: 404 x{}\r\n", ends[0], ends[1])),
                "upstream sent duplicate header line: \"Status: 404 x\""
            );
        }
    }

    #[test]
    fn a_location_makes_a_redirect_unless_the_status_says_otherwise() {
        assert_eq!(head("Location: /a\n\n").status.0, 302);
        assert_eq!(head("Status: 201 Created\nLocation: /a\n\n").status.0, 201);
        assert_eq!(head("Location: /a\n\n").fields.get("location"), Some(&b"/a"[..]));
    }

    #[test]
    fn a_status_line_is_passed_over() {
        let head = head("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n");
        assert_eq!((head.status.0, head.fields.len()), (200, 1));
    }

    #[test]
    fn lines_that_are_no_fields() {
        for (line, shown) in [
            ("no colon", "no\\x20..."),
            ("nocolon", "nocolon\\x0a..."),
            (": x", "\\x3a..."),
            (" folded: x", "\\x20..."),
            ("a : b", "a\\x20..."),
            ("a\0: b", "a\\x00..."),
            ("a: b\0c", "a: b\\x00..."),
            ("a: b\rc", "a: b\\x0d..."),
            ("a: b\r\r", "a: b\\x0d..."),
            ("\r", "\\x0d..."),
        ] {
            let expected = format!("upstream sent invalid header: \"{shown}\"");
            assert_eq!(error(&format!("{line}\r\n\r\n")), expected, "{line:?}");
        }
    }

    #[test]
    fn the_size_is_bounded_to_the_byte() {
        let input = b"A: bcd\r\n\r\ncontent";
        assert!(HeadParser::new(10).parse(input).unwrap().is_some());
        assert_eq!(HeadParser::new(9).parse(input).err(), Some(Error::HeadTooBig));
        let mut parser = HeadParser::new(100);
        let endless = (0..101).find(|_| parser.parse(b"x").is_err());
        assert_eq!(endless, Some(100));
        assert!(matches!(parse(&format!("A: {}", "x".repeat(5000))), Err(Error::HeadTooBig)));
    }
}

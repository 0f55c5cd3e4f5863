//! The lines of a head, each without its end: the request line and the field lines.

use http::list::trim;
use http::words::{any_marked, where_blank, where_is};
use http::{HeadError, Method, RequestHead, Status, Version};
use memchr::memchr;

const INVALID_METHOD: HeadError = invalid_line(Status::BAD_REQUEST, "client sent invalid method");
const INVALID_VERSION: HeadError = invalid_line(Status::VERSION_NOT_SUPPORTED, "client sent invalid version");
pub(crate) const INVALID_LINE: HeadError = invalid_line(Status::BAD_REQUEST, "client sent invalid request");

const fn invalid_line(status: Status, reason: &'static str) -> HeadError {
    HeadError { status, reason, line_known: false }
}

/// Reads a request line (RFC 9112, section 3) into `head`. One space, and only one, separates its parts.
/// A line without a version is a simple request of HTTP/0.9.
pub(crate) fn parse_request_line(line: &[u8], head: &mut RequestHead) -> Result<(), HeadError> {
    if let Some(target) = usual_target(line) {
        head.set_line(line, target, Version::Http11);
        return Ok(());
    }
    let is_end = |&at: &usize| at > 0 && line[at] == b' ';
    let method_end =
        line.iter().position(|&byte| !is_method_byte(byte)).filter(is_end).ok_or(INVALID_METHOD)?;
    if line.iter().fold(false, |found, byte| found | byte.is_ascii_control()) {
        return Err(INVALID_LINE);
    }
    let start = method_end + 1;
    let (end, version) = match memchr(b' ', &line[start..]) {
        None => (line.len(), Version::Http09),
        Some(length) => {
            let version = parse_version(&line[start + length + 1..]);
            // What is no target is judged first.
            let is_target = line[start] == b'/' || line[start].is_ascii_alphabetic();
            (start + length, version.map_err(|error| if is_target { error } else { INVALID_LINE })?)
        }
    };
    if start == end {
        return Err(INVALID_LINE);
    }
    head.set_line(line, (start, end), version);
    if version == Version::Http09 && head.method() != Method::Get {
        return Err(HeadError::bad("client sent invalid method in HTTP/0.9 request"));
    }
    Ok(())
}

/// The place of the target in a usual line: GET, a target of plain characters, HTTP/1.1.
fn usual_target(line: &[u8]) -> Option<(usize, usize)> {
    const METHOD: &[u8] = b"GET ";
    let target = line.strip_prefix(METHOD)?.strip_suffix(b" HTTP/1.1")?;
    let is_usual = !target.is_empty() && !any_marked(target, |word| where_blank(word) | where_is(word, 0x7f));
    is_usual.then_some((METHOD.len(), METHOD.len() + target.len()))
}

/// The check of a request line that is not complete, so that what is no HTTP is refused at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinePrefix {
    checked: usize,
    method_ended: bool,
}

impl LinePrefix {
    /// Checks what is new in `seen`, the line so far, and finds what [`parse_request_line`] would find.
    pub(crate) fn check(&mut self, seen: &[u8]) -> Result<(), HeadError> {
        // A CR in the last place may be half of the line's end.
        let known = seen.strip_suffix(b"\r").unwrap_or(seen);
        for (at, &byte) in known.iter().enumerate().skip(self.checked) {
            if self.method_ended {
                if byte.is_ascii_control() {
                    return Err(INVALID_LINE);
                }
            } else if byte == b' ' && at > 0 {
                self.method_ended = true;
            } else if !is_method_byte(byte) {
                return Err(INVALID_METHOD);
            }
        }
        self.checked = known.len();
        Ok(())
    }
}

const fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-')
}

/// A higher minor version is treated as 1.1 (RFC 9110, section 2.5).
fn parse_version(text: &[u8]) -> Result<Version, HeadError> {
    match text.strip_prefix(b"HTTP/") {
        Some([b'1', b'.', b'0']) => Ok(Version::Http10),
        Some([b'1', b'.', b'1'..=b'9']) => Ok(Version::Http11),
        Some([b'2'..=b'9', ..] | [b'1', b'0'..=b'9', ..]) => Err(INVALID_VERSION),
        _ => Err(INVALID_LINE),
    }
}

/// A field line in its parts.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    /// The name, with no control and no space in it.
    pub(crate) name: &'a [u8],
    /// The value without white space around it. It was not looked at: it may have a CR or NUL.
    pub(crate) value: &'a [u8],
    /// Whether the name has other bytes than letters, digits, hyphens and, if allowed, underscores.
    pub(crate) odd: bool,
}

/// Splits a field line (RFC 9112, section 5). A line that starts with white space, which once
/// continued the line before it, is invalid like every other line without a name (section 5.2).
pub(crate) fn parse_field(line: &[u8], underscores: bool) -> Option<Field<'_>> {
    let mut odd = false;
    let mut at = 0;
    loop {
        at += line[at..].iter().position(|&byte| NAME_BYTES[usize::from(byte)] != NameByte::Usual)?;
        match NAME_BYTES[usize::from(line[at])] {
            NameByte::Usual => {}
            NameByte::Colon if at == 0 => return None,
            NameByte::Colon => return Some(Field { name: &line[..at], value: trim(&line[at + 1..]), odd }),
            NameByte::Underscore => odd |= !underscores,
            NameByte::Odd => odd = true,
            NameByte::Never => return None,
        }
        at += 1;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameByte {
    Usual,
    Colon,
    Underscore,
    Odd,
    Never,
}

static NAME_BYTES: [NameByte; 256] = {
    let mut table = [NameByte::Odd; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let value = byte as u8;
        if value.is_ascii_alphanumeric() || value == b'-' {
            table[byte] = NameByte::Usual;
        } else if value == b':' {
            table[byte] = NameByte::Colon;
        } else if value == b'_' {
            table[byte] = NameByte::Underscore;
        } else if value <= b' ' || value == 0x7f {
            table[byte] = NameByte::Never;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use http::{Method, RequestHead, Version};

    use super::{LinePrefix, parse_field, parse_request_line};

    fn line(text: &str) -> Result<RequestHead, (u16, &'static str)> {
        let mut head = RequestHead::new();
        let result = parse_request_line(text.as_bytes(), &mut head);
        result.map(|()| head).map_err(|error| (error.status.0, error.reason))
    }

    #[test]
    fn lines_that_are_understood() {
        for (text, method, target, version) in [
            ("GET / HTTP/1.1", Method::Get, "/", Version::Http11),
            ("HEAD /a?b#c HTTP/1.0", Method::Head, "/a?b#c", Version::Http10),
            ("GET /caf\u{e9} HTTP/1.1", Method::Get, "/caf\u{e9}", Version::Http11),
            ("FOO-B_R / HTTP/1.1", Method::Other, "/", Version::Http11),
            ("GET / HTTP/1.9", Method::Get, "/", Version::Http11),
            ("GET /a", Method::Get, "/a", Version::Http09),
            ("CONNECT h:443 HTTP/1.1", Method::Connect, "h:443", Version::Http11),
        ] {
            let head = line(text).expect(text);
            assert_eq!(head.line(), text.as_bytes());
            assert_eq!((head.method(), head.target(), head.version), (method, target.as_bytes(), version));
        }
    }

    #[test]
    fn lines_that_are_refused() {
        const METHOD: &str = "client sent invalid method";
        const REQUEST: &str = "client sent invalid request";
        for (text, status, reason) in [
            ("", 400, METHOD),
            ("GET", 400, METHOD),
            (" / HTTP/1.1", 400, METHOD),
            ("get / HTTP/1.1", 400, METHOD),
            ("G\tT / HTTP/1.1", 400, METHOD),
            ("G{}T / HTTP/1.1", 400, METHOD),
            ("\x16\x03\x01 / HTTP/1.1", 400, METHOD),
            ("GET  / HTTP/1.1", 400, REQUEST),
            ("GET /  HTTP/1.1", 400, REQUEST),
            ("GET / HTTP/1.1 ", 400, REQUEST),
            ("GET  HTTP/1.1", 400, REQUEST),
            ("GET ", 400, REQUEST),
            ("GET\t/\tHTTP/1.1", 400, METHOD),
            ("GET /\t HTTP/1.1", 400, REQUEST),
            ("GET / / HTTP/1.1", 400, REQUEST),
            ("GET /\x7f HTTP/1.1", 400, REQUEST),
            ("GET /\0 HTTP/1.1", 400, REQUEST),
            ("GET /\r HTTP/1.1", 400, REQUEST),
            ("GET / HTTP/1", 400, REQUEST),
            ("GET / HTTP/1.", 400, REQUEST),
            ("GET / HTTP/01.01", 400, REQUEST),
            ("GET / HTTP/1.01", 400, REQUEST),
            ("GET / HTTP/1.32", 400, REQUEST),
            ("GET / HTTP/1.256", 400, REQUEST),
            ("GET / HTTP/ 1.1", 400, REQUEST),
            ("GET / http/1.1", 400, REQUEST),
            ("GET / HTTP/0.9", 400, REQUEST),
            ("GET / HTTP/-1.1", 400, REQUEST),
            ("GET / HTTP/9.9", 505, "client sent invalid version"),
            ("PRI * HTTP/2.0", 400, REQUEST),
            ("GET / HTTP/10.0", 505, "client sent invalid version"),
            ("POST /", 400, "client sent invalid method in HTTP/0.9 request"),
        ] {
            assert_eq!(line(text).err(), Some((status, reason)), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_is_refused_as_soon_as_it_is_wrong() {
        for (text, wrong_at) in
            [("GET / HTTP/1.1\r", None), ("GeT", Some(2)), (" ", Some(1)), ("G \rx", Some(4))]
        {
            let mut prefix = LinePrefix::default();
            let refused = (0..=text.len()).find(|&end| prefix.check(&text.as_bytes()[..end]).is_err());
            assert_eq!(refused, wrong_at, "{text:?}");
        }
        let mut prefix = LinePrefix::default();
        prefix.check(b"GET /\r").unwrap();
        assert_eq!(prefix.checked, 5, "what was checked is not checked again");
    }

    #[test]
    fn fields() {
        for (text, name, value, odd) in [
            ("Host: a", "Host", "a", false),
            ("a:", "a", "", false),
            ("A-1:\t b c \t", "A-1", "b c", false),
            ("a: b: c", "a", "b: c", false),
            ("a_b: c", "a_b", "c", true),
            ("x.y: c", "x.y", "c", true),
            ("<k\u{e9}\"@>: c", "<k\u{e9}\"@>", "c", true),
            ("a: \x0bb", "a", "\x0bb", false),
        ] {
            let field = parse_field(text.as_bytes(), false).expect(text);
            assert_eq!(
                (field.name, field.value, field.odd),
                (name.as_bytes(), value.as_bytes(), odd),
                "{text:?}"
            );
        }
        assert!(parse_field(b"a_b: c", true).is_some_and(|field| !field.odd));
        for text in [
            "", ":", ": x", " a: b", "\ta: b", "a : b", "a\t: b", "a b: c", "a", " ", "a\0: b", "a\x7f: b",
            "a\x02: b", "a\r: b",
        ] {
            assert!(parse_field(text.as_bytes(), false).is_none(), "{text:?}");
        }
    }
}

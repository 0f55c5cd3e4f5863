//! The head of a request, out of bytes that arrive in pieces (RFC 9112, sections 2 to 5).

use http::{HeadError, RequestHead, Status, Version, breaks_framing};
use memchr::memchr;

use crate::HeadLimits;
use crate::line::{Field, INVALID_LINE, LinePrefix, parse_field, parse_request_line};

/// How far a head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProgress {
    /// The head is complete and took this many bytes of the input. The parser is ready for the next.
    Complete {
        /// Bytes of the input that belong to the head, with empty lines before it.
        consumed: usize,
    },
    /// More bytes are needed.
    Partial,
}

/// A resumable parser of request heads. It remembers where it stopped, so that a client that sends a
/// byte at a time costs no more than one that sends all at once.
#[derive(Clone, Debug, Default)]
pub struct HeadParser {
    stage: Stage,
    /// Where the line that is being read starts in the input.
    line_start: usize,
    /// The input before this has no end of that line.
    scanned: usize,
    prefix: LinePrefix,
    buffers: Buffers,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Line,
    Fields,
}

/// The room that nginx's header buffers would have left.
#[derive(Clone, Copy, Debug, Default)]
struct Buffers {
    left: usize,
    large_used: usize,
}

/// The line does not fit in a buffer.
struct TooLong;

impl HeadParser {
    /// A parser at the start of a connection.
    pub fn new() -> HeadParser {
        HeadParser::default()
    }

    /// Forgets a head that was begun.
    pub fn reset(&mut self) {
        *self = HeadParser::default();
    }

    /// Whether nothing of a request has come yet but empty lines.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Reads on. `input` is everything from the end of the last request; a call after
    /// [`HeadProgress::Partial`] gets the same bytes again with more after them, and the same `head`.
    ///
    /// # Errors
    ///
    /// 400 for bad syntax, 414 and 494 for a line or head over the limits, 505 for another major
    /// version. After an error the parser is of no more use for this connection.
    pub fn parse(
        &mut self,
        input: &[u8],
        head: &mut RequestHead,
        limits: &HeadLimits,
    ) -> Result<HeadProgress, HeadError> {
        if self.stage == Stage::Idle {
            if !self.skip_empty_lines(input, limits)? {
                return Ok(HeadProgress::Partial);
            }
            head.clear();
            self.buffers = Buffers { left: limits.first_buffer, large_used: 0 };
            self.stage = Stage::Line;
        }
        if self.stage == Stage::Line {
            if !self.read_request_line(input, head, limits)? {
                return Ok(HeadProgress::Partial);
            }
            if head.version == Version::Http09 {
                return Ok(self.complete());
            }
            self.stage = Stage::Fields;
        }
        loop {
            if self.is_at_end(input) {
                return Ok(self.complete());
            }
            if self.takes_usual_lines(input, head, limits) {
                continue;
            }
            let Some(line) = self.next_field_line(input, limits)? else { return Ok(HeadProgress::Partial) };
            let (content, ended) = split_line_end(line, limits);
            if !ended {
                return Err(INVALID_FIELD);
            }
            if content.is_empty() {
                return Ok(self.complete());
            }
            store_field(line, content, head, limits)?;
        }
    }

    /// Whether the empty line is there that ends a head, which is then passed over.
    fn is_at_end(&mut self, input: &[u8]) -> bool {
        const END: &[u8] = b"\r\n";
        let is_end = input.get(self.line_start..).is_some_and(|rest| rest.starts_with(END))
            && self.buffers.left >= END.len();
        if is_end {
            self.line_start += END.len();
        }
        is_end
    }

    /// Whether the next lines are whole and written as most are, and fit; then they are kept.
    fn takes_usual_lines(&mut self, input: &[u8], head: &mut RequestHead, limits: &HeadLimits) -> bool {
        let rest = input.get(self.line_start..).unwrap_or_default();
        let fitting = &rest[..rest.len().min(self.buffers.left)];
        if self.scanned != self.line_start {
            return false;
        }
        let length = head.fields.push_usual(fitting, limits.max_fields.saturating_sub(head.fields.len()));
        self.buffers.left -= length;
        self.line_start += length;
        self.scanned = self.line_start;
        length > 0
    }

    fn complete(&mut self) -> HeadProgress {
        let consumed = self.line_start;
        self.reset();
        HeadProgress::Complete { consumed }
    }

    /// Passes over empty lines before the request line (RFC 9112, section 2.2: "a server … SHOULD
    /// ignore at least one empty line"). Whether something else follows.
    fn skip_empty_lines(&mut self, input: &[u8], limits: &HeadLimits) -> Result<bool, HeadError> {
        loop {
            let rest = input.get(self.line_start..).unwrap_or_default();
            self.line_start += match rest {
                [] | [b'\r'] => return Ok(false),
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] if !limits.strict_line_ends => 1,
                _ => break,
            };
            if self.line_start > limits.first_buffer {
                return Err(INVALID_LINE);
            }
        }
        self.scanned = self.line_start;
        Ok(true)
    }

    /// Whether the request line is complete and in `head`.
    fn read_request_line(
        &mut self,
        input: &[u8],
        head: &mut RequestHead,
        limits: &HeadLimits,
    ) -> Result<bool, HeadError> {
        let (start, buffers) = (self.line_start, self.buffers);
        let seen = || {
            let seen = input.get(start..).unwrap_or_default();
            &seen[..seen.len().min(buffers.capacity(limits))]
        };
        let result = match self.next_line(input, limits) {
            Ok(Some(line)) => {
                let (line, ended) = split_line_end(line, limits);
                parse_request_line(line, head).and(if ended { Ok(true) } else { Err(INVALID_LINE) })
            }
            Ok(None) => self.prefix.check(seen()).and(Ok(false)),
            Err(TooLong) => self.prefix.check(seen()).and(Err(LINE_TOO_LONG)),
        };
        if result.is_err_and(|error| !error.line_known) {
            let seen = seen();
            let end = seen.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(seen.len());
            head.set_line(&seen[..end], (end, end), Version::Http10);
        }
        result
    }

    fn next_field_line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &HeadLimits,
    ) -> Result<Option<&'a [u8]>, HeadError> {
        self.next_line(input, limits)
            .map_err(|TooLong| HeadError::new(Status::HEADER_TOO_LARGE, "client sent too long header line"))
    }

    /// The next line with its LF, if it is there wholly.
    #[inline]
    fn next_line<'a>(&mut self, input: &'a [u8], limits: &HeadLimits) -> Result<Option<&'a [u8]>, TooLong> {
        let rest = input.get(self.scanned..).unwrap_or_default();
        let Some(at) = memchr(b'\n', rest) else {
            self.scanned = input.len();
            let fits = input.len().saturating_sub(self.line_start) < self.buffers.capacity(limits);
            return if fits { Ok(None) } else { Err(TooLong) };
        };
        let end = self.scanned + at + 1;
        let line = &input[self.line_start..end];
        match self.buffers.left.checked_sub(line.len()) {
            Some(left) => self.buffers.left = left,
            None => self.buffers.take_next(line.len(), limits)?,
        }
        self.line_start = end;
        self.scanned = end;
        Ok(Some(line))
    }
}

impl Buffers {
    /// The longest line that fits now.
    fn capacity(&self, limits: &HeadLimits) -> usize {
        let large = if self.large_used < limits.large_count { limits.large_size } else { 0 };
        self.left.max(large)
    }

    /// Puts a line for which the current buffer has no room wholly in the next.
    fn take_next(&mut self, length: usize, limits: &HeadLimits) -> Result<(), TooLong> {
        if length > self.capacity(limits) {
            return Err(TooLong);
        }
        self.left = limits.large_size - length;
        self.large_used += 1;
        Ok(())
    }
}

const LINE_TOO_LONG: HeadError =
    HeadError { line_known: false, ..HeadError::new(Status::URI_TOO_LONG, "client sent too long URI") };
const INVALID_FIELD: HeadError = HeadError::bad("client sent invalid header line");

/// A line without its end, and whether that end may be taken for one.
fn split_line_end<'a>(line: &'a [u8], limits: &HeadLimits) -> (&'a [u8], bool) {
    match line {
        [line @ .., b'\r', b'\n'] => (line, true),
        [line @ .., b'\n'] => (line, !limits.strict_line_ends),
        _ => (line, false),
    }
}

/// Keeps a field, given its line with and without the end.
fn store_field(
    line: &[u8],
    content: &[u8],
    head: &mut RequestHead,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let Field { name, value, odd } = parse_field(content, limits.underscores).ok_or(INVALID_FIELD)?;
    if odd && limits.ignore_invalid {
        head.ignore(content);
        return if breaks_framing(value) { Err(INVALID_FIELD) } else { Ok(()) };
    }
    if head.fields.len() >= limits.max_fields {
        return Err(HeadError::new(Status::HEADER_TOO_LARGE, "client sent too many header lines"));
    }
    head.fields.push_line(line, name, value).map_err(|_| INVALID_FIELD)
}

#[cfg(test)]
mod tests {
    use http::{HeadError, RequestHead, Version};

    use super::{HeadParser, HeadProgress};
    use crate::HeadLimits;

    fn parse_with(input: &[u8], limits: &HeadLimits) -> Result<(RequestHead, Option<usize>), HeadError> {
        let mut head = RequestHead::new();
        match HeadParser::new().parse(input, &mut head, limits)? {
            HeadProgress::Complete { consumed } => Ok((head, Some(consumed))),
            HeadProgress::Partial => Ok((head, None)),
        }
    }

    fn parse(input: &str) -> Result<(RequestHead, Option<usize>), HeadError> {
        parse_with(input.as_bytes(), &HeadLimits::default())
    }

    fn status(input: &str, limits: &HeadLimits) -> Option<u16> {
        parse_with(input.as_bytes(), limits).err().map(|error| error.status.0)
    }

    #[test]
    fn a_head_and_what_follows_it() {
        let input = "\r\n\nGET /a HTTP/1.1\r\nHost: h\nX-One:  1 \r\nx-one: 2\r\n\r\nGET /b";
        let (head, consumed) = parse(input).unwrap();
        assert_eq!(&input[consumed.unwrap()..], "GET /b");
        assert_eq!((head.target(), head.version), (&b"/a"[..], Version::Http11));
        assert_eq!(head.fields.all("X-One").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.fields.len(), 3);
    }

    #[test]
    fn the_same_parser_and_head_serve_the_next_request() {
        let mut parser = HeadParser::new();
        let mut head = RequestHead::new();
        let mut input = &b"GET /a HTTP/1.1\r\nA: 1\r\n\r\nGET /b HTTP/1.0\r\n\r\nGET /c\r\n\r\n"[..];
        for (target, fields, version) in
            [("/a", 1, Version::Http11), ("/b", 0, Version::Http10), ("/c", 0, Version::Http09)]
        {
            assert!(parser.is_idle());
            let progress = parser.parse(input, &mut head, &HeadLimits::default()).unwrap();
            let HeadProgress::Complete { consumed } = progress else { panic!("{target} is incomplete") };
            assert_eq!(
                (head.target(), head.fields.len(), head.version),
                (target.as_bytes(), fields, version)
            );
            input = &input[consumed..];
        }
        assert_eq!(input, b"\r\n");
        assert_eq!(parser.parse(input, &mut head, &HeadLimits::default()), Ok(HeadProgress::Partial));
        assert!(parser.is_idle());
    }

    #[test]
    fn a_simple_request_ends_with_its_line() {
        let (head, consumed) = parse("GET /a?b\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!((head.version, consumed), (Version::Http09, Some(10)));
        let error = parse("POST /a\r\n").unwrap_err();
        assert_eq!((error.status.0, error.line_known), (400, true));
    }

    #[test]
    fn what_is_no_http_is_refused_without_a_line_end() {
        for input in ["\x16\x03\x01\x02", "SSH-2.0-x", "GET\r ", "GET /\0", "\rGET / HTTP/1.1\r\n"] {
            assert_eq!(status(input, &HeadLimits::default()), Some(400), "{input:?}");
        }
        assert_eq!(parse("GE").unwrap().1, None);
        assert_eq!(parse("\r").unwrap().1, None);
    }

    #[test]
    fn bad_field_lines() {
        for lines in [
            " Host: h\r\n",
            "A: b\r\n c\r\n",
            "A: b\r\n\tc\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding\t: chunked\r\n",
            ": x\r\n",
            "no colon\r\n",
            "nocolon\r\n",
            " \r\n",
            "A: b\rC: d\r\n",
            "A: b\r\r\n",
            "A: b\0\r\n",
            "A\0: b\r\n",
            "Odd.Name: b\0\r\n",
        ] {
            let error = parse(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).unwrap_err();
            assert_eq!((error.status.0, error.line_known), (400, true), "{lines:?}");
        }
    }

    #[test]
    fn odd_names_are_dropped_or_passed() {
        let input = b"GET / HTTP/1.1\r\nA_b: 1\r\nC.d: 2\r\nE: 3\r\n\r\n";
        let names = |limits: &HeadLimits| {
            let (head, _) = parse_with(input, limits).unwrap();
            head.fields
                .iter()
                .map(|field| String::from_utf8_lossy(field.name).into_owned())
                .collect::<Vec<_>>()
        };
        let limits = HeadLimits::default();
        assert_eq!(names(&limits), ["E"]);
        assert_eq!(names(&HeadLimits { underscores: true, ..limits }), ["A_b", "E"]);
        assert_eq!(names(&HeadLimits { ignore_invalid: false, ..limits }), ["A_b", "C.d", "E"]);
    }

    #[test]
    fn lone_line_feeds_can_be_refused() {
        let strict = HeadLimits { strict_line_ends: true, ..HeadLimits::default() };
        let good = "GET / HTTP/1.1\r\nA: b\r\n\r\n";
        assert_eq!(status(good, &strict), None);
        for (at, _) in good.match_indices('\r') {
            let mut input = good.to_owned();
            input.remove(at);
            assert_eq!(status(&input, &HeadLimits::default()), None, "{input:?}");
            assert_eq!(status(&input, &strict), Some(400), "{input:?}");
        }
        assert_eq!(status("\nGET / HTTP/1.1\r\n\r\n", &strict), Some(400));
    }

    #[test]
    fn a_line_must_fit_in_a_large_buffer() {
        let limits = HeadLimits::default();
        let target = |length: usize| format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(length - 16));
        assert_eq!(status(&target(8192), &limits), None);
        assert_eq!(status(&target(8193), &limits), Some(414));
        assert_eq!(status(&"G".repeat(8191), &limits), None);
        assert_eq!(status(&"G".repeat(8192), &limits), Some(414));
        let field = |length: usize| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(length - 5));
        assert_eq!(status(&field(8192), &limits), None);
        assert_eq!(status(&field(8193), &limits), Some(494));
        let wide = HeadLimits { first_buffer: 10_000, ..limits };
        assert_eq!(status(&target(9000), &wide), None);
    }

    #[test]
    fn only_so_many_large_buffers() {
        let limits = HeadLimits::default();
        let head = |fields| {
            format!("GET / HTTP/1.1\r\n{}\r\n", format!("A: {}\r\n", "a".repeat(8000)).repeat(fields))
        };
        assert_eq!(status(&head(4), &limits), None);
        assert_eq!(status(&head(5), &limits), Some(494));
        assert_eq!(status(&head(1), &HeadLimits { large_count: 0, ..limits }), Some(494));
        let exact = HeadLimits { first_buffer: 18, large_count: 0, ..limits };
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n", &exact), None);
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n", &HeadLimits { first_buffer: 16, ..exact }), Some(494));
        let small = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(999));
        assert_eq!(status(&small, &limits), None);
    }

    #[test]
    fn only_so_many_fields() {
        let limits = HeadLimits { max_fields: 5, ..HeadLimits::default() };
        let head = |fields| format!("GET / HTTP/1.1\r\n{}Odd.Name: c\r\n\r\n", "A: b\r\n".repeat(fields));
        assert_eq!(status(&head(5), &limits), None);
        assert_eq!(status(&head(6), &limits), Some(494));
    }

    #[test]
    fn empty_lines_before_a_request_are_bounded() {
        let limits = HeadLimits::default();
        assert_eq!(status(&"\r\n".repeat(512), &limits), None);
        assert_eq!(status(&"\r\n".repeat(513), &limits), Some(400));
    }

    #[test]
    fn a_bad_line_is_kept_for_the_log() {
        let mut head = RequestHead::new();
        let input = b"GET /a b HTTP/1.1\r\nHost: h\r\n";
        let error = HeadParser::new().parse(input, &mut head, &HeadLimits::default()).unwrap_err();
        assert!(!error.line_known);
        assert_eq!((head.line(), head.target()), (&b"GET /a b HTTP/1.1"[..], &b""[..]));
        assert_eq!(head.version, Version::Http10);
    }
}

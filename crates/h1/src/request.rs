//! The head of a request, out of bytes that arrive in pieces (RFC 9112, sections 2 to 5).

use http::{RequestHead, Status, Version};
use memchr::memchr;

use crate::line::{Field, INVALID_LINE, LinePrefix, parse_field, parse_request_line};
use crate::{HeadError, HeadLimits};

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
    /// [`HeadProgress::Partial`] gets the same bytes again with more behind them, and the same `head`.
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
        while let Some(line) = self.next_field_line(input, limits)? {
            if line.is_empty() {
                return Ok(self.complete());
            }
            store_field(line, head, limits)?;
        }
        Ok(HeadProgress::Partial)
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
        let seen = input.get(self.line_start..).unwrap_or_default();
        let seen = &seen[..seen.len().min(self.buffers.capacity(limits))];
        let result = match self.next_line(input, limits) {
            Ok(Some(line)) => {
                let (line, ended) = split_line_end(line, limits);
                parse_request_line(line, head).and(if ended { Ok(true) } else { Err(INVALID_LINE) })
            }
            Ok(None) => self.prefix.check(seen).and(Ok(false)),
            Err(TooLong) => self.prefix.check(seen).and(Err(LINE_TOO_LONG)),
        };
        if result.is_err_and(|error| !error.line_known) {
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
        let Ok(line) = self.next_line(input, limits) else {
            return Err(HeadError::new(Status::HEADER_TOO_LARGE, "client sent too long header line"));
        };
        match line.map(|line| split_line_end(line, limits)) {
            Some((_, false)) => Err(INVALID_FIELD),
            line => Ok(line.map(|(line, _)| line)),
        }
    }

    /// The next line with its LF, if it is there wholly.
    fn next_line<'a>(&mut self, input: &'a [u8], limits: &HeadLimits) -> Result<Option<&'a [u8]>, TooLong> {
        let rest = input.get(self.scanned..).unwrap_or_default();
        let Some(at) = memchr(b'\n', rest) else {
            self.scanned = input.len();
            let fits = input.len().saturating_sub(self.line_start) < self.buffers.capacity(limits);
            return if fits { Ok(None) } else { Err(TooLong) };
        };
        let end = self.scanned + at + 1;
        let line = &input[self.line_start..end];
        self.buffers.take(line.len(), limits)?;
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

    /// Puts a line in the current buffer or, where that has no room, wholly in the next.
    fn take(&mut self, length: usize, limits: &HeadLimits) -> Result<(), TooLong> {
        if length > self.capacity(limits) {
            return Err(TooLong);
        }
        if length > self.left {
            self.left = limits.large_size;
            self.large_used += 1;
        }
        self.left -= length;
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

fn store_field(line: &[u8], head: &mut RequestHead, limits: &HeadLimits) -> Result<(), HeadError> {
    let Field { name, value, odd } = parse_field(line, limits.underscores).ok_or(INVALID_FIELD)?;
    if odd && limits.ignore_invalid {
        return Ok(());
    }
    if head.fields.len() >= limits.max_fields {
        return Err(HeadError::new(Status::HEADER_TOO_LARGE, "client sent too many header lines"));
    }
    head.fields.push(name, value).map_err(|_| INVALID_FIELD)
}

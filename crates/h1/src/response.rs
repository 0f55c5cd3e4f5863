//! The head and the body of a response that another server sends (RFC 9112, sections 4 and 6). That server
//! is not trusted: what two readers could understand differently is refused.

use http::list::has_token;
use http::{Fields, HeadError, KnownName, Status, Version};
use memchr::memchr;

use crate::line::parse_field;
use crate::{BodyDecoder, Chunk, ChunkDecoder};

/// The head of a response as it came.
#[derive(Clone, Debug)]
pub struct ReceivedHead {
    /// The version of the status line.
    pub version: Version,
    /// The status code.
    pub status: Status,
    /// The reason phrase, which may be empty.
    pub reason: Vec<u8>,
    /// The fields, in the order and case of the wire.
    pub fields: Fields,
}

impl Default for ReceivedHead {
    /// A head of which nothing was read.
    fn default() -> ReceivedHead {
        let fields = Fields::new();
        ReceivedHead { version: Version::Http11, status: Status::OK, reason: Vec::new(), fields }
    }
}

/// Why a response cannot be used. Its connection is of no more use either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResponseError(
    /// The line for the error log.
    pub String,
);

/// How many fields a head may have.
const FIELDS_MAX: usize = 1000;

/// Reads a head in place of what `head` was before. `input` is everything from the end of the last response; `None` asks
/// for more of it, and leaves a part of a head. Gives how many bytes the head took.
///
/// # Errors
/// No status line, a line that is no field, or more than `limit` bytes without an end.
pub fn parse_response(
    input: &[u8],
    limit: usize,
    head: &mut ReceivedHead,
) -> Result<Option<usize>, ResponseError> {
    if input.starts_with(USUAL_LINE) && USUAL_LINE.len() <= limit {
        (head.version, head.status) = (Version::Http11, Status::OK);
        head.reason.clear();
        head.reason.extend_from_slice(b"OK");
        head.fields.clear();
        return parse_fields(Lines { input, at: USUAL_LINE.len(), limit }, head);
    }
    // First of all, so that it does not depend on how much has come.
    let is_usual = input.starts_with(USUAL_START)
        && matches!(input.get(9..12), Some([b'0'..=b'9', b'0'..=b'9', b'0'..=b'9']));
    if !is_usual && !input.iter().zip(STATUS_LINE).all(|(&byte, form)| fits(byte, *form)) {
        return Err(no_status_line());
    }
    head.fields.clear();
    head.reason.clear();
    let mut lines = Lines { input, at: 0, limit };
    let Some(line) = lines.next()? else { return Ok(None) };
    let reason;
    (head.version, head.status, reason) = parse_status_line(line.text).ok_or_else(no_status_line)?;
    head.reason.extend_from_slice(reason);
    parse_fields(lines, head)
}

/// Reads the fields of a head, whose status line was read.
fn parse_fields(mut lines: Lines<'_>, head: &mut ReceivedHead) -> Result<Option<usize>, ResponseError> {
    loop {
        lines.at += head.fields.push_usual(lines.fitting(), FIELDS_MAX.saturating_sub(head.fields.len()));
        if lines.fitting().starts_with(b"\r\n") {
            return Ok(Some(lines.at + 2));
        }
        let Some(line) = lines.next()? else { return Ok(None) };
        if line.text.is_empty() {
            return Ok(Some(lines.at));
        }
        let invalid = || {
            let shown = String::from_utf8_lossy(line.text).into_owned();
            ResponseError(format!("upstream sent invalid header: \"{shown}\""))
        };
        let field = parse_field(line.text, true).ok_or_else(invalid)?;
        if head.fields.len() >= FIELDS_MAX {
            return Err(too_big());
        }
        head.fields.push_line(line.whole, field.name, field.value).map_err(|_| invalid())?;
    }
}

fn no_status_line() -> ResponseError {
    ResponseError("upstream sent no valid HTTP/1.0 header".to_owned())
}

fn too_big() -> ResponseError {
    ResponseError("upstream sent too big header".to_owned())
}

struct Lines<'a> {
    input: &'a [u8],
    at: usize,
    limit: usize,
}

/// A line without its end, and with it.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Lines<'a> {
    /// What is left, as far as the limit.
    fn fitting(&self) -> &'a [u8] {
        &self.input[self.at..self.input.len().min(self.limit).max(self.at)]
    }

    /// The next line. As in requests a lone LF will do, because the head is written anew.
    fn next(&mut self) -> Result<Option<Line<'a>>, ResponseError> {
        let rest = &self.input[self.at..];
        let Some(length) = memchr(b'\n', rest) else {
            return if self.input.len() >= self.limit { Err(too_big()) } else { Ok(None) };
        };
        self.at += length + 1;
        if self.at > self.limit {
            return Err(too_big());
        }
        let (line, whole) = (&rest[..length], &rest[..=length]);
        Ok(Some(Line { text: line.strip_suffix(b"\r").unwrap_or(line), whole }))
    }
}

/// `9` stands for any digit.
const STATUS_LINE: &[u8] = b"HTTP/1.9 999";

/// The line that most heads begin with.
const USUAL_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// How most status lines begin.
const USUAL_START: &[u8] = b"HTTP/1.1 ";

fn fits(byte: u8, form: u8) -> bool {
    if form == b'9' { byte.is_ascii_digit() } else { byte == form }
}

/// Takes a line apart whose start was checked.
fn parse_status_line(line: &[u8]) -> Option<(Version, Status, &[u8])> {
    let (start, rest) = line.split_at_checked(STATUS_LINE.len())?;
    let reason = match rest {
        [] => rest,
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    let clean = !reason.iter().any(|&byte| byte != b'\t' && byte.is_ascii_control());
    let version = if start[7] == b'0' { Version::Http10 } else { Version::Http11 };
    let code = start[9..].iter().fold(0, |code, &digit| code * 10 + u16::from(digit.wrapping_sub(b'0')));
    (clean && (100..=999).contains(&code)).then_some((version, Status(code), reason))
}

/// How the content of a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseLength {
    /// There is none.
    None,
    /// After so many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// How a response is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFraming {
    /// The content.
    pub body: ResponseLength,
    /// `Content-Length`, which a response without content may have, too (RFC 9110, section 8.6).
    pub announced: Option<u64>,
    /// Whether the other server keeps the connection.
    pub keep_alive: bool,
}

/// Draws the conclusions from the head of a final response to a request with this method.
///
/// # Errors
/// Two lengths, a length with chunks, an invalid length, an unknown coding.
#[inline]
pub fn examine_response(head: &ReceivedHead, is_head: bool) -> Result<ReceivedFraming, ResponseError> {
    let fields = &head.fields;
    let (announced, coding) =
        (announced_length(fields)?, single(fields, KnownName::TransferEncoding, "Transfer-Encoding")?);
    if announced.is_some() && coding.is_some() {
        let text = "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
        return Err(ResponseError(text.to_owned()));
    }
    let body = match (coding, announced) {
        (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") && head.version == Version::Http11 => {
            ResponseLength::Chunked
        }
        (Some(coding), _) => {
            let shown = String::from_utf8_lossy(coding).into_owned();
            return Err(ResponseError(format!("upstream sent unknown \"Transfer-Encoding\": \"{shown}\"")));
        }
        (None, Some(length)) => ResponseLength::Length(length),
        (None, None) => ResponseLength::UntilClose,
    };
    let body = if is_head || head.status.is_bodiless() { ResponseLength::None } else { body };
    let has = |token: &str| has_token(fields, "Connection", token);
    // What most servers say needs no look at the list.
    let is_usual =
        fields.only(KnownName::Connection).is_ok_and(|list| list.is_none_or(|list| list == b"keep-alive"));
    let wanted = match head.version {
        Version::Http11 => is_usual || !has("close"),
        _ => has("keep-alive"),
    };
    Ok(ReceivedFraming { body, announced, keep_alive: wanted && body != ResponseLength::UntilClose })
}

/// `Content-Length` of a response, if it has one.
///
/// # Errors
/// There are two, or it is no number.
#[inline]
pub fn announced_length(fields: &Fields) -> Result<Option<u64>, ResponseError> {
    single(fields, KnownName::ContentLength, "Content-Length")?.map(parse_length).transpose()
}

fn single<'a>(fields: &'a Fields, name: KnownName, text: &str) -> Result<Option<&'a [u8]>, ResponseError> {
    let error = |_| ResponseError(format!("upstream sent duplicate header line: \"{text}\""));
    fields.only(name).map_err(error)
}

fn parse_length(value: &[u8]) -> Result<u64, ResponseError> {
    let add =
        |length: u64, &digit: &u8| digit.is_ascii_digit().then(|| length * 10 + u64::from(digit - b'0'));
    let fitting = Some(value).filter(|value| (1..=18).contains(&value.len()));
    let length = fitting.and_then(|digits| digits.iter().try_fold(0, add));
    length.ok_or_else(|| {
        let shown = String::from_utf8_lossy(value);
        ResponseError(format!("upstream sent invalid \"Content-Length\" header: \"{shown}\""))
    })
}

/// A resumable decoder of a response's content.
#[derive(Clone, Debug)]
pub enum ResponseDecoder {
    /// The message says where it ends.
    Delimited(BodyDecoder),
    /// It goes on until the connection ends.
    UntilClose,
}

impl ResponseDecoder {
    /// A decoder at the start of the content.
    pub fn new(length: ResponseLength) -> ResponseDecoder {
        ResponseDecoder::Delimited(match length {
            ResponseLength::None => BodyDecoder::Length(0),
            ResponseLength::Length(length) => BodyDecoder::Length(length),
            ResponseLength::Chunked => BodyDecoder::Chunked(ChunkDecoder::keeping_trailers(u64::MAX)),
            ResponseLength::UntilClose => return ResponseDecoder::UntilClose,
        })
    }

    /// Reads on in `input`, which starts where the last call stopped consuming.
    ///
    /// # Errors
    /// Those of [`BodyDecoder::decode`].
    pub fn decode(&mut self, input: &[u8]) -> Result<Chunk, HeadError> {
        match self {
            ResponseDecoder::Delimited(decoder) => decoder.decode(input),
            ResponseDecoder::UntilClose if input.is_empty() => Ok(Chunk::NeedMore { consumed: 0 }),
            ResponseDecoder::UntilClose => Ok(Chunk::Data { skip: 0, length: input.len() }),
        }
    }

    /// Whether no content is left, as far as that is known without a look at what comes.
    pub fn is_over(&self) -> bool {
        matches!(self, ResponseDecoder::Delimited(decoder) if decoder.remaining() == Some(0))
    }

    /// The fields after the content, so far.
    pub fn trailers(&self) -> Option<&Fields> {
        match self {
            ResponseDecoder::Delimited(decoder) => decoder.trailers(),
            ResponseDecoder::UntilClose => None,
        }
    }

    /// Whether the end of the connection is the end of the content.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self, ResponseDecoder::UntilClose)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ReceivedFraming, ReceivedHead, ResponseDecoder, ResponseError, ResponseLength, examine_response,
        has_token, parse_response,
    };
    use crate::Chunk;
    use http::Status;
    use proptest::prelude::*;

    /// The head and how many bytes it took.
    fn parse(text: &[u8], limit: usize) -> Result<Option<(ReceivedHead, usize)>, ResponseError> {
        let mut head = ReceivedHead::default();
        // What was there before counts for nothing.
        head.fields.push(b"Old", b"1").unwrap();
        head.reason.extend_from_slice(b"Old");
        Ok(parse_response(text, limit, &mut head)?.map(|used| (head, used)))
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_an_error_and_pieces_change_nothing(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "HTTP/1\\.[0-2] [0-9]{2,4}( OK)?(\r?\n[A-Za-z-]{0,5}:? ?[a-z0-9]{0,5}){0,5}\r?\n\r?\n"
                .prop_map(String::into_bytes),
        ]) {
            let whole = parse(&text, 150);
            for end in 0..text.len() {
                let part = parse(&text[..end], 150);
                if let Ok(Some((head, used))) = &part {
                    let (same, all) = whole.clone().unwrap().unwrap();
                    prop_assert_eq!((head.status, *used), (same.status, all));
                }
                prop_assert!(part.is_ok() || whole.is_err());
            }
            if let Ok(Some((head, _))) = whole {
                let _ = examine_response(&head, false);
            }
        }
    }

    fn framing(text: &str, is_head: bool) -> Result<ReceivedFraming, String> {
        let (head, used) = parse(text.as_bytes(), 4096).map_err(|error| error.0)?.unwrap();
        assert_eq!(used, text.len());
        examine_response(&head, is_head).map_err(|error| error.0)
    }

    #[test]
    fn a_head_byte_by_byte() {
        let text = b"HTTP/1.1 404 Not Here\r\nX-A:  1\r\nx_b: 2\nContent-Length: 3\r\n\r\nabc";
        for end in 0..text.len() - 3 {
            assert!(parse(&text[..end], 4096).unwrap().is_none(), "{end}");
        }
        let (head, used) = parse(text, 4096).unwrap().unwrap();
        assert_eq!(&text[used..], b"abc");
        assert_eq!((head.status, &head.reason[..]), (Status::NOT_FOUND, &b"Not Here"[..]));
        assert_eq!(head.fields.get("x_b"), Some(&b"2"[..]));
    }

    #[test]
    fn what_is_no_status_line_is_known_at_once() {
        for text in [
            "<html>",
            "HTTP/2 200",
            "HTTP/1.1 20x",
            "HTTP/1.1  200",
            "HTTP/1.1 200OK\r\n",
            "HTTP/1.1 099\r\n",
        ] {
            assert!(parse(text.as_bytes(), 4096).is_err(), "{text}");
        }
        for text in ["", "H", "HTTP/1.1 2", "HTTP/1.0 200", "HTTP/1.1 200 O"] {
            assert!(parse(text.as_bytes(), 4096).unwrap().is_none(), "{text}");
        }
        assert!(parse(b"HTTP/1.1 200\r\n\r\n", 4096).unwrap().is_some());
    }

    #[test]
    fn a_head_without_end_and_lines_that_are_no_fields() {
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(50));
        assert!(parse(endless.as_bytes(), 400).unwrap().is_none());
        assert_eq!(parse(endless.as_bytes(), 100).unwrap_err().0, "upstream sent too big header");
        for line in [" a: b", "a b: c", "novalue", "a: b\0", ": x", "a : b"] {
            let text = format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n");
            assert!(parse(text.as_bytes(), 4096).is_err(), "{line}");
        }
    }

    #[test]
    fn framings() {
        use ResponseLength::{Chunked, Length, None, UntilClose};
        for (fields, is_head, body, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, Length(5), true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, None, true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: a, Close\r\n\r\n", false, Length(5), false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", false, Length(5), false),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
                false,
                Length(5),
                true,
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", false, Chunked, true),
            ("HTTP/1.1 200 OK\r\n\r\n", false, UntilClose, false),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, None, true),
            ("HTTP/1.1 204 No Content\r\n\r\n", false, None, true),
        ] {
            let found = framing(fields, is_head).unwrap();
            assert_eq!((found.body, found.keep_alive), (body, keep_alive), "{fields:?}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways() {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 9999999999999999999\r\n",
        ] {
            assert!(framing(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), false).is_err(), "{fields:?}");
        }
        assert!(framing("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false).is_err());
    }

    #[test]
    fn content_until_the_end_of_the_connection() {
        let mut decoder = ResponseDecoder::new(ResponseLength::UntilClose);
        assert!(decoder.ends_with_connection());
        assert_eq!(decoder.decode(b"abc"), Ok(Chunk::Data { skip: 0, length: 3 }));
        assert_eq!(decoder.decode(b""), Ok(Chunk::NeedMore { consumed: 0 }));
        let mut decoder = ResponseDecoder::new(ResponseLength::Length(2));
        assert_eq!(decoder.decode(b"abc"), Ok(Chunk::Data { skip: 0, length: 2 }));
        assert_eq!(decoder.decode(b"c"), Ok(Chunk::End { consumed: 0 }));
    }

    #[test]
    fn lists_of_tokens() {
        let mut fields = http::Fields::new();
        fields.push(b"Connection", b"a, ,Upgrade").unwrap();
        fields.push(b"connection", b"b").unwrap();
        assert!(has_token(&fields, "Connection", "upgrade") && has_token(&fields, "Connection", "B"));
        assert!(!has_token(&fields, "Connection", "up"));
    }
}

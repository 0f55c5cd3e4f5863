//! Sends parts of files: `max_ranges`.
//!
//! A client may request one range of a file, or several, which are sent as `multipart/byteranges`. With `If-Range` it
//! gets them only if the file has not changed. If there are more ranges than `max_ranges`, or if several ranges
//! together are longer than the file, the whole file is sent. Ranges outside of the file get 416. `max_ranges 0`
//! turns ranges off.
//!
//! ```file html/digits.txt
//! 0123456789
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /digits.txt {
//!         max_ranges 1;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /digits.txt HTTP/1.1
//! Host: localhost
//! Range: bytes=2-4
//!
//! HTTP/1.1 206 Partial Content
//! Content-Range: bytes 2-4/11
//! Content-Length: 3
//!
//! 234
//! ---
//! GET /digits.txt HTTP/1.1
//! Host: localhost
//! Range: bytes=20-
//!
//! HTTP/1.1 416 Requested Range Not Satisfiable
//! Content-Range: bytes */11
//! ---
//! GET /digits.txt HTTP/1.1
//! Host: localhost
//! Range: bytes=0-1,3-4
//!
//! HTTP/1.1 200 OK
//! Accept-Ranges: bytes
//! ```

use conf::{Contexts, Diagnostic};
use contract::{
    Body, Directive, Exchange, Filter, Module, Outcome, Piece, Pull, ScopeBuilder, Source, Turn, View,
};
use http::{Status, Version};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// Parts of files.
pub static MODULE: Module =
    Module { name: "range", directives: &[&MAX_RANGES], variables: &[], compile: Some(compile) };

/// `max_ranges NUMBER`
pub static MAX_RANGES: Directive<u64> = Directive::number("max_ranges")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .help("How many ranges a request may ask for.");

/// Any number, as long as it costs no more than the whole content.
const UNLIMITED: u32 = u32::MAX;

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let limit = |number: &u64| u32::try_from(*number).unwrap_or(UNLIMITED - 1);
    let most = view.get(&MAX_RANGES).map_or(UNLIMITED, limit);
    builder.filter(Ranges { most });
    Ok(())
}

/// Answers requests for ranges (RFC 9110, section 14).
struct Ranges {
    most: u32,
}

/// What a `Range` field comes to.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Parts(Vec<Range<u64>>),
    Whole,
    Unsatisfiable,
}

impl Filter for Ranges {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let response = &mut exchange.response;
        let (Some(length), Status::OK, true) =
            (response.content_length, response.status, response.accept_ranges)
        else {
            // Ranges of an error page are not on offer.
            response.accept_ranges = false;
            return body;
        };
        if self.most == 0 || exchange.request.head.version < Version::Http10 {
            exchange.response.accept_ranges = false;
            return body;
        }
        let body = match body {
            Body::Source(source) => return self.cut_source(exchange, source, length),
            body => body,
        };
        let Some(pieces) = body.pieces() else { return body };
        let head_only = pieces.is_empty();
        let Some(field) = range_field(exchange) else { return body };
        match parse(field, length, self.most) {
            Asked::Whole => body,
            Asked::Unsatisfiable => unsatisfiable(exchange, length),
            Asked::Parts(parts) => {
                exchange.response.status = Status::PARTIAL_CONTENT;
                exchange.response.accept_ranges = false;
                let pieces = match &parts[..] {
                    [part] => single(exchange, pieces, part, length),
                    parts => multiple(exchange, pieces, parts, length),
                };
                if head_only { Body::Empty } else { Body::Pieces(pieces) }
            }
        }
    }
}

impl Ranges {
    /// One range of content that is still to come. For more than one of them the whole content is sent.
    fn cut_source(&self, exchange: &mut Exchange, mut source: Box<dyn Source>, length: u64) -> Body {
        let asked = range_field(exchange).map(|field| parse(field, length, self.most));
        match asked.as_ref() {
            Some(Asked::Unsatisfiable) => {
                let body = unsatisfiable(exchange, length);
                // Content that is kept for others is read all the same.
                if exchange.wire.outlasts { Body::Source(source) } else { body }
            }
            Some(Asked::Parts(parts)) if parts.len() == 1 => {
                let part = &parts[0];
                exchange.response.status = Status::PARTIAL_CONTENT;
                exchange.response.accept_ranges = false;
                single(exchange, &[], part, length);
                if source.seek(part.clone()) {
                    return Body::Source(source);
                }
                Body::Source(Box::new(Cut { source, skip: part.start, left: part.end - part.start }))
            }
            _ => Body::Source(source),
        }
    }
}

/// A range of content that is still to come. What follows the range is read, too: it may be kept.
struct Cut {
    source: Box<dyn Source>,
    /// How many bytes come before the range.
    skip: u64,
    /// How many bytes of the range are to be sent.
    left: u64,
}

impl Source for Cut {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            let piece = match self.source.pull(turn) {
                Pull::Piece(piece) => piece,
                Pull::End if self.left > 0 => return Pull::Failed,
                other => return other,
            };
            let length = piece.length();
            let skipped = self.skip.min(length);
            let sent = self.left.min(length - skipped);
            self.skip -= skipped;
            self.left -= sent;
            if sent > 0 {
                return Pull::Piece(piece.slice(skipped, sent));
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.source.resume(outcome);
    }

    fn finish(self: Box<Self>, exchange: &Exchange) {
        self.source.finish(exchange);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        self.source.read_ahead(turn);
    }
}

fn unsatisfiable(exchange: &mut Exchange, length: u64) -> Body {
    let response = &mut exchange.response;
    response.status = Status::RANGE_NOT_SATISFIABLE;
    response.content_length = None;
    // Digits cannot break a field.
    let _ = response.fields.set("Content-Range", format!("bytes */{length}").as_bytes());
    Body::Empty
}

/// The ranges that are asked for, unless `If-Range` says that the content is another one.
fn range_field(exchange: &Exchange) -> Option<&[u8]> {
    let fields = &exchange.request.head.fields;
    let field = fields.get("range")?;
    let (unit, ranges) = field.split_at_checked("bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || ranges.is_empty() {
        return None;
    }
    let same = match fields.get("if-range") {
        None => true,
        Some(tag) if tag.len() >= 2 && tag.ends_with(b"\"") => exchange.response.etag.as_deref() == Some(tag),
        Some(date) => {
            exchange.response.last_modified.is_some_and(|time| http::parse_date(date) == Some(time))
        }
    };
    same.then_some(ranges)
}

fn parse(list: &[u8], length: u64, most: u32) -> Asked {
    let mut parts = Vec::new();
    for text in list.split(|&byte| byte == b',') {
        let Some((start, end)) = bounds(text, length) else { return Asked::Unsatisfiable };
        if start < end {
            if parts.len() >= most as usize {
                return Asked::Whole;
            }
            parts.push(start..end);
        } else if start == 0 {
            return Asked::Whole;
        }
    }
    if parts.is_empty() {
        return Asked::Unsatisfiable;
    }
    let total = parts.iter().map(|part| part.end - part.start).fold(0, u64::saturating_add);
    // Each part has its own head; asking for many small ones must not cost more than the whole.
    const HEAD: u64 = 256;
    const TOLERATED: u64 = 4096;
    let heads = parts.len() as u64 * HEAD;
    let costly = most == UNLIMITED && total.saturating_add(heads) > length.saturating_add(TOLERATED);
    if parts.len() > 1 && (total > length || costly) { Asked::Whole } else { Asked::Parts(parts) }
}

/// The first byte of a range and the one after its last, cut to the length of the content; `None` where
/// it is no range.
fn bounds(text: &[u8], length: u64) -> Option<(u64, u64)> {
    let text = spaces(text);
    let (start, rest) = number(text);
    let rest = if start.is_some() { spaces(rest) } else { text };
    let rest = rest.strip_prefix(b"-")?;
    let rest = if start.is_some() { spaces(rest) } else { rest };
    let (end, rest) = number(rest);
    let over = !spaces(rest).is_empty();
    match (start, end) {
        _ if over => None,
        (None, None) => None,
        (Some(start), None) => Some((start?, length)),
        (Some(start), Some(end)) => Some((start?, end?.saturating_add(1).min(length))),
        (None, Some(suffix)) => Some((length.saturating_sub(suffix?), length)),
    }
}

/// The digits at the start of a text as a number, which is missing where it is too large.
fn number(text: &[u8]) -> (Option<Option<u64>>, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let value = std::str::from_utf8(number).ok().and_then(|text| text.parse::<i64>().ok());
    ((digits > 0).then(|| value.and_then(|value| u64::try_from(value).ok())), rest)
}

fn spaces(text: &[u8]) -> &[u8] {
    let count = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[count..]
}

fn single(exchange: &mut Exchange, pieces: &[Piece], part: &Range<u64>, length: u64) -> Vec<Piece> {
    let response = &mut exchange.response;
    let value = format!("bytes {}-{}/{length}", part.start, part.end - 1);
    // Digits cannot break a field.
    let _ = response.fields.set("Content-Range", value.as_bytes());
    response.content_length = Some(part.end - part.start);
    cut(pieces, part)
}

fn multiple(exchange: &mut Exchange, pieces: &[Piece], parts: &[Range<u64>], length: u64) -> Vec<Piece> {
    let boundary = boundary();
    let response = &mut exchange.response;
    let media_type = response
        .content_type
        .as_deref()
        .map(|media_type| format!("Content-Type: {}\r\n", String::from_utf8_lossy(media_type)));
    let media_type = media_type.unwrap_or_default();
    let mut out = Vec::new();
    let mut total = 0;
    for part in parts {
        let (first, last) = (part.start, part.end - 1);
        let head =
            format!("\r\n--{boundary}\r\n{media_type}Content-Range: bytes {first}-{last}/{length}\r\n\r\n");
        total += head.len() as u64 + (part.end - part.start);
        out.push(Piece::Bytes(head.into()));
        out.extend(cut(pieces, part));
    }
    let end = format!("\r\n--{boundary}--\r\n");
    total += end.len() as u64;
    out.push(Piece::Bytes(end.into()));
    response.content_type = Some(format!("multipart/byteranges; boundary={boundary}").into_bytes().into());
    response.content_length = Some(total);
    response.fields.remove("content-range");
    out
}

/// What separates the parts: 20 digits that no content can foresee.
fn boundary() -> String {
    format!("{:020}", RandomState::new().hash_one(()))
}

/// The pieces of a part of the content.
fn cut(pieces: &[Piece], part: &Range<u64>) -> Vec<Piece> {
    let mut offset = 0;
    let mut out = Vec::new();
    for piece in pieces {
        let length = piece.length();
        let start = part.start.clamp(offset, offset + length) - offset;
        let end = part.end.clamp(offset, offset + length) - offset;
        if start < end {
            out.push(piece.slice(start, end - start));
        }
        offset += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Asked, UNLIMITED, parse};
    use crate::testing::{Site, body_text, pull};
    use contract::{Body, Exchange, Outcome, Piece, Pull, Source, Turn};

    fn asked(list: &str, length: u64) -> Asked {
        parse(list.as_bytes(), length, UNLIMITED)
    }

    fn one(start: u64, end: u64) -> Asked {
        Asked::Parts(std::iter::once(start..end).collect())
    }

    #[test]
    fn forms_of_a_range() {
        assert_eq!(asked("0-0", 20), one(0, 1));
        assert_eq!(asked(" 2 - 3 ", 20), one(2, 4));
        assert_eq!(asked("5-", 20), one(5, 20));
        assert_eq!(asked("-5", 20), one(15, 20));
        assert_eq!(asked("-50", 20), one(0, 20));
        assert_eq!(asked("5-99", 20), one(5, 20));
        assert_eq!(asked("30-,0-1", 20), one(0, 2), "what is not there is left out");
    }

    #[test]
    fn what_is_no_range_in_the_content() {
        for list in ["20-", "a", "1", "-", "1-2x", "", "99999999999999999999-", "0-1,", "-0"] {
            assert_eq!(asked(list, 20), Asked::Unsatisfiable, "{list}");
        }
        assert_eq!(asked("0-", 0), Asked::Whole);
    }

    #[test]
    fn several_must_not_cost_more_than_the_whole() {
        assert_eq!(asked("0-1,3-4", 20), Asked::Parts(vec![0..2, 3..5]));
        assert_eq!(asked("0-10,0-11", 20), Asked::Whole);
        let many = vec!["0-0"; 17].join(",");
        assert_eq!(asked(&many, 20), Asked::Whole);
        assert_eq!(parse(b"0-1,3-4", 20, 1), Asked::Whole);
        assert!(matches!(parse(many.as_bytes(), 20, 17), Asked::Parts(_)), "a limit takes the rule away");
    }

    fn send(text: &str, fields: &[(&str, &str)]) -> (Exchange, Body) {
        let mut exchange = Site::location(text).get("/");
        for (name, value) in fields {
            exchange.request.head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let response = &mut exchange.response;
        response.content_length = Some(10);
        response.accept_ranges = true;
        response.etag = Some(b"\"a\"".as_slice().into());
        response.last_modified = Some(784_111_777);
        response.content_type = Some(b"a/b".as_slice().into());
        let scope = std::sync::Arc::clone(&exchange.scope);
        let pieces = [&b"01234"[..], b"56789"].map(|part| Piece::Bytes(part.into()));
        let mut body = Body::Pieces(pieces.into());
        for filter in scope.filters() {
            body = filter.apply(&mut exchange, body);
        }
        (exchange, body)
    }

    #[test]
    fn one_part_across_pieces() {
        let (exchange, body) = send("", &[("Range", "bytes=3-6")]);
        assert_eq!((exchange.response.status.0, body_text(&body).as_str()), (206, "3456"));
        assert_eq!(exchange.response.fields.get("content-range"), Some(&b"bytes 3-6/10"[..]));
        assert_eq!(exchange.response.content_length, Some(4));
    }

    #[test]
    fn several_parts_have_the_announced_length() {
        let (exchange, body) = send("", &[("Range", "bytes=0-1,4-5")]);
        let text = body_text(&body);
        assert_eq!(exchange.response.content_length, Some(text.len() as u64));
        let media_type = String::from_utf8(exchange.response.content_type.unwrap().into()).unwrap();
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |range: &str, data: &str| {
            format!("\r\n--{boundary}\r\nContent-Type: a/b\r\nContent-Range: bytes {range}/10\r\n\r\n{data}")
        };
        let expected = part("0-1", "01") + &part("4-5", "45") + &format!("\r\n--{boundary}--\r\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn if_range_must_name_the_same_content() {
        let status = |value| send("", &[("Range", "bytes=0-1"), ("If-Range", value)]).0.response.status.0;
        assert_eq!(status("\"a\""), 206);
        assert_eq!(status("\"b\""), 200);
        assert_eq!(status("Sun, 06 Nov 1994 08:49:37 GMT"), 206);
        assert_eq!(status("Sun, 06 Nov 1994 08:49:38 GMT"), 200);
    }

    /// Content that comes in these pieces.
    struct Coming(Vec<&'static str>);

    impl Source for Coming {
        fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
            match self.0.is_empty() {
                true => Pull::End,
                false => Pull::Piece(Piece::Bytes(self.0.remove(0).into())),
            }
        }

        fn resume(&mut self, _: Outcome) {}
    }

    #[test]
    fn content_that_is_still_to_come_is_cut() {
        let ask = |range: &str, pieces: &[&'static str]| {
            let mut exchange = Site::location("").get("/");
            exchange.request.head.fields.push(b"Range", range.as_bytes()).unwrap();
            (exchange.response.content_length, exchange.response.accept_ranges) = (Some(10), true);
            let scope = std::sync::Arc::clone(&exchange.scope);
            let body = Body::Source(Box::new(Coming(pieces.to_vec())));
            let body = scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
            let (mut text, mut is_whole) = (String::new(), true);
            if let Body::Source(mut source) = body {
                loop {
                    match pull(&mut *source) {
                        Pull::Piece(Piece::Bytes(bytes)) => text += std::str::from_utf8(&bytes).unwrap(),
                        Pull::End => break,
                        _ => {
                            is_whole = false;
                            break;
                        }
                    }
                }
            }
            (exchange.response.status.0, exchange.response.content_length, text, is_whole)
        };
        let digits = ["01", "234", "56789"];
        assert_eq!(ask("bytes=3-6", &digits), (206, Some(4), "3456".into(), true));
        assert_eq!(ask("bytes=8-", &digits), (206, Some(2), "89".into(), true));
        assert_eq!(ask("bytes=0-1,3-4", &digits), (200, Some(10), "0123456789".into(), true));
        assert_eq!(ask("bytes=10-", &digits), (416, None, String::new(), true));
        assert_eq!(ask("bytes=3-6", &digits[..2]), (206, Some(4), "34".into(), false), "the rest is missing");
    }

    #[test]
    fn no_ranges_at_all() {
        let (exchange, body) = send("max_ranges 0;", &[("Range", "bytes=0-1")]);
        assert_eq!((exchange.response.status.0, exchange.response.accept_ranges), (200, false));
        assert_eq!(body_text(&body), "0123456789");
        let (exchange, _) = send("", &[("Range", "bytes=10-")]);
        assert_eq!(exchange.response.status.0, 416);
        assert_eq!(exchange.response.fields.get("content-range"), Some(&b"bytes */10"[..]));
    }
}

//! Splits a large response into parts of one size, which are requested and kept one by one: `slice`.
//!
//! With `slice 1m`, `$slice_range` is the range of the part that is requested. Send it to the upstream server in
//! `Range`, and add it to the cache key. Fulmar then requests one part after the other, until the client has what it
//! requested. A client that asks for a range near the end of a large file does not wait until all of it is kept. All
//! parts must have the same `ETag` and the same total length; else the connection to the client is closed.
//!
//! If the upstream server does not answer with 206 (Partial Content), Fulmar makes no further request, and passes its
//! response on as it is.
//!
//! nginx: --with-http_slice_module
//!
//! ```file html/digits
//! 0123456789
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /parts/ {
//!         slice 4;
//!         proxy_pass http://127.0.0.1:8081/;
//!         proxy_set_header Range $slice_range;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//! }
//! ```
//!
//! ```http
//! GET /parts/digits HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 11
//!
//! 0123456789
//! ---
//! GET /parts/digits HTTP/1.1
//! Host: localhost
//! Range: bytes=3-8
//!
//! HTTP/1.1 206 Partial Content
//! Content-Range: bytes 3-8/11
//!
//! 345678
//! ```

use crate::shared::cached::answer::cut_here;
use bytes::Bytes;
use conf::{Contexts, Diagnostic};
use contract::{
    Body, Content, Directive, Exchange, Filter, Module, Outcome, PartStart, Piece, Pull, Reach, ScopeBuilder,
    Source, Subrequest, Turn, Variable, View, Work,
};
use http::{ResponseHead, Status};
use journal::Level;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Splits a large response into parts.
pub static MODULE: Module = Module {
    name: "slice",
    directives: &[&SLICE],
    variables: &[Variable::new("slice_range", slice_range)],
    compile: Some(compile),
};

/// `slice SIZE`
pub static SLICE: Directive<u64> = Directive::size("slice")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("0")
    .help("The size of the parts in which a response is requested; 0 requests all of it at once.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(&size) = view.get(&SLICE).filter(|&&size| size > 0) {
        builder.keep(PartSize(size));
        builder.filter(Slices { size });
    }
    Ok(())
}

/// The size of the parts in a scope, in bytes.
struct PartSize(u64);

/// Where the first part of a response starts, with the size of the parts; attached to the request once it was computed.
struct First {
    start: u64,
    size: u64,
}

/// The part that a request inside of the server is for; attached to the request that asks for the parts.
struct Next {
    start: Cell<u64>,
    size: u64,
    /// The length of all parts together.
    whole: u64,
    etag: Option<Bytes>,
}

impl Next {
    /// Checks that a response is the part that was requested.
    fn check(&self, head: &ResponseHead) -> Result<Part, String> {
        if head.status != Status::PARTIAL_CONTENT {
            return Err(format!("unexpected status code {} in slice response", head.status.0));
        }
        let part = read_part(head, self.size, self.start.get())?;
        match part.etag == self.etag && part.whole == self.whole {
            true => Ok(part),
            false => Err("etag mismatch in slice response".to_owned()),
        }
    }
}

/// Whether responses are requested in parts here.
pub(crate) fn is_on(exchange: &Exchange) -> bool {
    exchange.scope.kept::<PartSize>().is_some()
}

/// Whether the response of an upstream server may be kept: one that is not the part which was requested ends the response
/// to the client, and would end further ones. An update may bring a part of another content.
pub(crate) fn may_be_kept(exchange: &Exchange, is_update: bool) -> bool {
    let Some(&PartSize(size)) = exchange.scope.kept::<PartSize>() else { return true };
    let response = &exchange.response;
    match exchange.attached::<Next>().filter(|_| exchange.subrequest && !is_update) {
        Some(next) => next.check(response).is_ok(),
        None if response.status != Status::PARTIAL_CONTENT => true,
        None => part_start(exchange, size).is_none_or(|start| read_part(response, size, start).is_ok()),
    }
}

/// `$slice_range`
pub(crate) fn slice_range(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let Some(&PartSize(size)) = exchange.scope.kept::<PartSize>() else { return false };
    let start = match part_start(exchange, size) {
        Some(start) => start,
        None if exchange.subrequest || exchange.wire.answered => return false,
        None => {
            let start = first_byte(exchange) / size * size;
            exchange.attach(Reach::Shared, Rc::new(First { start, size }));
            keep_start(exchange, start);
            start
        }
    };
    out.extend_from_slice(format!("bytes={start}-{}", start.saturating_add(size - 1)).as_bytes());
    true
}

/// Where the part starts that a request is for, if that is known.
fn part_start(exchange: &Exchange, size: u64) -> Option<u64> {
    if !exchange.subrequest {
        return first(exchange, size);
    }
    // By the time of an update in the background, the client's request may be for another part.
    let known = exchange.attached::<PartStart>().and_then(|start| start.0);
    known.or_else(|| {
        let start = exchange.attached::<Next>()?.start.get();
        keep_start(exchange, start);
        Some(start)
    })
}

/// Keeps where the part starts that a request is for, also for its repetitions.
fn keep_start(exchange: &Exchange, start: u64) {
    exchange.attach(Reach::Own, Rc::new(PartStart(Some(start))));
}

/// Where the first part starts, if that was computed for parts of this size.
fn first(exchange: &Exchange, size: u64) -> Option<u64> {
    exchange.attached::<First>().filter(|first| first.size == size).map(|first| first.start)
}

/// Where the range starts that the client asks for, if it is one range whose start is known.
fn first_byte(exchange: &Exchange) -> u64 {
    let fields = &exchange.request.head.fields;
    let range = fields.get("range").filter(|_| fields.get("if-range").is_none());
    let rest = range.and_then(|range| range.split_at_checked("bytes=".len()));
    let rest = rest.filter(|(unit, rest)| unit.eq_ignore_ascii_case(b"bytes=") && !rest.contains(&b','));
    let Some((_, rest)) = rest else { return 0 };
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Makes one response of the parts.
struct Slices {
    size: u64,
}

impl Filter for Slices {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_partial = exchange.response.status == Status::PARTIAL_CONTENT;
        let Some(start) = first(exchange, self.size).filter(|_| is_partial) else { return body };
        let part = match read_part(&exchange.response, self.size, start) {
            Ok(part) => part,
            Err(message) => {
                exchange.log(Level::Error, &message);
                // As in nginx: the connection closes without a response.
                exchange.response = ResponseHead::new(Status::CLOSE);
                return Body::Empty;
            }
        };
        cut_here(exchange);
        // The requests for the other parts repeat this one, and are for their own part.
        exchange.attach(Reach::Own, Rc::new(PartStart(None)));
        // The parts that are still to come are requested only for a client that takes them.
        exchange.wire.outlasts = false;
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.reason = None;
        response.content_length = Some(part.whole);
        response.accept_ranges = true;
        response.fields.remove("content-range");
        response.fields.remove("accept-ranges");
        let next = Next { start: Cell::new(0), size: self.size, whole: part.whole, etag: part.etag };
        let next = Rc::new(next);
        exchange.attach(Reach::Shared, Rc::clone(&next));
        Body::Source(Box::new(Parts {
            wanted: 0..part.whole,
            current: Some(Current { body, at: part.range.start, end: part.range.end }),
            next,
            failure: None,
        }))
    }
}

/// A part as the upstream server describes it.
struct Part {
    range: Range<u64>,
    /// The length of all parts together.
    whole: u64,
    etag: Option<Bytes>,
}

/// Reads what a response says of its part, which should start at a byte.
///
/// # Errors
/// The line for the error log: it is another part, or none.
fn read_part(response: &ResponseHead, size: u64, start: u64) -> Result<Part, String> {
    let range = response.fields.get("content-range").and_then(parse_content_range);
    let Some((first, last, whole)) = range else { return Err("invalid range in slice response".to_owned()) };
    let Some(whole) = whole else { return Err("no complete length in slice response".to_owned()) };
    let (end, expected) = (last.saturating_add(1), start.saturating_add(size).min(whole));
    if first != start || end != expected || first >= end {
        return Err(format!(
            "unexpected range in slice response: {first}-{end}, expected: {start}-{expected}"
        ));
    }
    let etag = response.etag.clone();
    let etag = etag.or_else(|| response.fields.get("etag").map(Bytes::copy_from_slice));
    Ok(Part { range: first..end, whole, etag })
}

/// The first and the last byte of a part, and the length of the whole if it is known (RFC 9110, section 14.4).
fn parse_content_range(value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let text = std::str::from_utf8(value.strip_prefix(b"bytes ")?).ok()?;
    let (range, whole) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let text = text.trim_matches(' ');
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?
    };
    let whole = if whole.trim_matches(' ') == "*" { None } else { Some(number(whole)?) };
    Some((number(first)?, number(last)?, whole))
}

/// The content of all parts.
struct Parts {
    /// What is still to be sent.
    wanted: Range<u64>,
    current: Option<Current>,
    next: Rc<Next>,
    /// Why the content cannot be completed: the line for the error log.
    failure: Option<String>,
}

/// A part that is being read.
struct Current {
    body: Body,
    /// Where the next byte of its content is in the whole.
    at: u64,
    end: u64,
}

impl Parts {
    /// The part of a piece that is still to be sent. The rest of a part is read, too: it may be kept.
    fn cut(&mut self, piece: &Piece, at: u64) -> Option<Piece> {
        let end = at.saturating_add(piece.length());
        let (from, to) = (self.wanted.start.max(at), self.wanted.end.min(end));
        if from >= to {
            return None;
        }
        self.wanted.start = to;
        Some(piece.slice(from - at, to - from))
    }

    /// The request for the part that has the next byte.
    fn request(&self, exchange: &Exchange) -> Work {
        self.next.start.set(self.wanted.start / self.next.size * self.next.size);
        let request = &exchange.request;
        Work::Subrequest(Subrequest {
            args: request.args.clone(),
            same_method: true,
            with_body: true,
            repeats: true,
            ..Subrequest::get(request.path.clone(), Content::Streamed)
        })
    }
}

/// The next piece of a body.
fn pull(body: &mut Body, turn: &mut Turn<'_, '_>) -> Pull {
    match body {
        Body::Source(source) => source.pull(turn),
        Body::Pieces(pieces) if !pieces.is_empty() => Pull::Piece(pieces.remove(0)),
        Body::Piece(_) => match std::mem::replace(body, Body::Empty) {
            Body::Piece(piece) => Pull::Piece(piece),
            _ => Pull::End,
        },
        Body::Empty | Body::Pieces(_) | Body::Tunnel(_) => Pull::End,
    }
}

impl Source for Parts {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if let Some(failure) = &self.failure {
                turn.exchange.log(Level::Error, failure);
                return Pull::Failed;
            }
            let Some(current) = &mut self.current else {
                return match self.wanted.is_empty() {
                    true => Pull::End,
                    false => Pull::Await(self.request(turn.exchange)),
                };
            };
            match pull(&mut current.body, turn) {
                Pull::Piece(piece) => {
                    let at = current.at;
                    current.at = at.saturating_add(piece.length());
                    if let Some(piece) = self.cut(&piece, at) {
                        return Pull::Piece(piece);
                    }
                }
                Pull::End => {
                    if current.at != current.end {
                        self.failure = Some("the content of a slice response is too short".to_owned());
                    }
                    self.current = None;
                }
                other => return other,
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match (&mut self.current, outcome) {
            (Some(Current { body: Body::Source(source), .. }), outcome) => source.resume(outcome),
            (None, Outcome::Streamed(answer)) => match self.next.check(&answer.head) {
                Ok(part) => {
                    let Range { start, end } = part.range;
                    self.current = Some(Current { body: answer.body, at: start, end });
                }
                Err(message) => self.failure = Some(message),
            },
            _ => self.failure = Some("missing slice response".to_owned()),
        }
    }

    fn seek(&mut self, range: Range<u64>) -> bool {
        self.wanted = range;
        true
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(Current { body: Body::Source(source), .. }) = &mut self.current {
            source.read_ahead(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_content_range, slice_range};
    use crate::testing::Site;

    #[test]
    fn ranges_of_parts() {
        for (text, expected) in [
            ("bytes 0-1/100", Some((0, 1, Some(100)))),
            ("bytes  2 - 3 / 100 ", Some((2, 3, Some(100)))),
            ("bytes 0-1/*", Some((0, 1, None))),
            ("bytes 0-/9", None),
            ("bytes */9", None),
            ("bytes", None),
            ("items 0-1/9", None),
            ("bytes 0-99999999999999999999/9", None),
        ] {
            assert_eq!(parse_content_range(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_first_part_is_the_one_that_the_client_wants() {
        for (range, expected) in [
            ("", "bytes=0-9"),
            ("bytes=25-", "bytes=20-29"),
            ("bytes=9-100", "bytes=0-9"),
            ("bytes=-5", "bytes=0-9"),
            ("bytes=25-26,30-31", "bytes=0-9"),
            ("items=25-", "bytes=0-9"),
            ("bytes=18446744073709551615-", "bytes=18446744073709551610-18446744073709551615"),
        ] {
            let mut exchange = Site::location("slice 10;").get("/");
            if !range.is_empty() {
                exchange.request.head.fields.push(b"Range", range.as_bytes()).unwrap();
            }
            let mut out = Vec::new();
            assert!(slice_range(&exchange, "", &mut out));
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{range}");
        }
        assert!(!slice_range(&Site::location("").get("/"), "", &mut Vec::new()));
        assert!(!slice_range(&Site::location("slice 0;").get("/"), "", &mut Vec::new()));
    }
}

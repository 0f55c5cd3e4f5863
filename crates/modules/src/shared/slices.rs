//! The parts in which a large response is requested: which part a request is for, and whether a response is that part.

use bytes::Bytes;
use contract::{Exchange, PartStart, Reach};
use http::{ResponseHead, Status};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// The size of the parts in a scope, in bytes.
pub(crate) struct PartSize(pub(crate) u64);

/// Where the first part of a response starts, with the size of the parts; attached to the request once it was computed.
struct First {
    start: u64,
    size: u64,
}

/// The part that a request inside of the server is for; attached to the request that asks for the parts.
pub(crate) struct Next {
    pub(crate) start: Cell<u64>,
    pub(crate) size: u64,
    /// The length of all parts together.
    pub(crate) whole: u64,
    pub(crate) etag: Option<Bytes>,
}

impl Next {
    /// Checks that a response is the part that was requested.
    pub(crate) fn check(&self, head: &ResponseHead) -> Result<Part, String> {
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
pub(crate) fn first(exchange: &Exchange, size: u64) -> Option<u64> {
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

/// A part as the upstream server describes it.
pub(crate) struct Part {
    pub(crate) range: Range<u64>,
    /// The length of all parts together.
    pub(crate) whole: u64,
    pub(crate) etag: Option<Bytes>,
}

/// Reads what a response says of its part, which should start at a byte.
///
/// # Errors
/// The line for the error log: it is another part, or none.
pub(crate) fn read_part(response: &ResponseHead, size: u64, start: u64) -> Result<Part, String> {
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

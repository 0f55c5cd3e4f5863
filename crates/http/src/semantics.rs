//! What a complete head says about its message and its connection (RFC 9110, sections 7 and 8.6;
//! RFC 9112, sections 3.2, 6 and 9).

use crate::list::{is_token_byte, trim};
use crate::uri::{Host, Target, TargetForm};
use crate::{HeadError, Method, RequestHead, Status, Version, parse_number};

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    None,
    /// So many bytes; it may be 0.
    Length(u64),
    /// As the chunks say.
    Chunked,
}

/// How a request is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The length of the body.
    pub body: BodyLength,
    /// Whether the client lets the connection live on.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
}

/// Draws the conclusions from a complete head. `target` is what its target was parsed to; it gets the
/// host of the `Host` field if it has no host itself.
///
/// # Errors
///
/// 400 for what is ambiguous (a length with chunks or twice, chunks in HTTP/1.0, a field twice that may
/// stand once) and for a host that is missing in HTTP/1.1 or no host, 405 for TRACE and for CONNECT in another version
/// than HTTP/1.1, 417 for an expectation that is not known, 501 for a transfer coding other than chunked.
pub fn examine(head: &RequestHead, target: &mut Target) -> Result<Framing, HeadError> {
    let found = collect(head)?;
    match found.host {
        Some(host) => use_host(host, target)?,
        None if head.version > Version::Http10 => {
            return Err(HeadError::bad("client sent HTTP/1.1 request without \"Host\" header"));
        }
        None => {}
    }
    let body = body_length(head, &found)?;
    check_method(head, target, body)?;
    let expect_continue = match found.expect {
        Some(value) if head.version >= Version::Http11 => {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(HeadError::new(
                    Status::EXPECTATION_FAILED,
                    "client sent unknown \"Expect\" header",
                ));
            }
            true
        }
        _ => false,
    };
    // Clients of HTTP/1.0 and the proxies among them do not agree on whether such a body exists.
    let doubtful_body = head.version < Version::Http11
        && matches!(body, BodyLength::Length(1..))
        && matches!(head.method(), Method::Get | Method::Head | Method::Delete);
    let wanted =
        if head.version >= Version::Http11 { !found.close } else { found.keep_alive && !found.close };
    // A connection that was meant for a tunnel serves no other request.
    let keep_alive = wanted && !doubtful_body && head.method() != Method::Connect;
    Ok(Framing { body, keep_alive, expect_continue })
}

/// The fields that say how a message is framed.
#[derive(Default)]
struct Found<'a> {
    host: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    expect: Option<&'a [u8]>,
    close: bool,
    keep_alive: bool,
    /// One bit for each of [`OTHER_SINGLES`] that was seen.
    seen: u8,
}

/// Fields without a meaning here that may be used only once, because it is undefined which of two counts.
pub const OTHER_SINGLES: [&str; 8] = [
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-Match",
    "If-None-Match",
    "Content-Range",
    "If-Range",
    "Authorization",
    "Proxy-Authorization",
];

/// A bit for each length that one of them has.
const OTHER_LENGTHS: u64 = {
    let (mut lengths, mut at) = (0, 0);
    while at < OTHER_SINGLES.len() {
        lengths |= 1 << OTHER_SINGLES[at].len();
        at += 1;
    }
    lengths
};

fn collect(head: &RequestHead) -> Result<Found<'_>, HeadError> {
    let mut found = Found::default();
    for field in head.fields.iter() {
        let slot = match field.name.len() {
            4 if field.is("Host") => &mut found.host,
            14 if field.is("Content-Length") => &mut found.content_length,
            17 if field.is("Transfer-Encoding") => &mut found.transfer_encoding,
            6 if field.is("Expect") => &mut found.expect,
            10 if field.is("Connection") => {
                for token in field.value.split(|&byte| byte == b',').map(trim) {
                    found.close |= token.eq_ignore_ascii_case(b"close");
                    found.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
                continue;
            }
            length if OTHER_LENGTHS & (1 << (length % 64)) != 0 => {
                if let Some(at) = OTHER_SINGLES.iter().position(|name| field.is(name)) {
                    if found.seen & 1 << at != 0 {
                        return Err(DUPLICATE);
                    }
                    found.seen |= 1 << at;
                }
                continue;
            }
            _ => continue,
        };
        if slot.replace(field.value).is_some() {
            return Err(DUPLICATE);
        }
    }
    Ok(found)
}

const DUPLICATE: HeadError = HeadError::bad("client sent duplicate header line");

/// Finds the host in a head that is otherwise invalid, for its answer and its log line. `target` does not change if the
/// head has no host.
pub fn find_host(head: &RequestHead, target: &mut Target) {
    if target.host.is_empty()
        && let Some(host) = head.fields.get("Host")
        && use_host(host, target).is_err()
    {
        target.host = Host::default();
    }
}

/// The `Host` field must be valid even where the target's host takes its place.
#[inline]
fn use_host(value: &[u8], target: &mut Target) -> Result<(), HeadError> {
    const INVALID: HeadError = HeadError::bad("client sent invalid host header");
    if target.host.is_empty() {
        target.host.parse(value).map_err(|_| INVALID)
    } else {
        Host::default().parse(value).map_err(|_| INVALID)
    }
}

fn body_length(head: &RequestHead, found: &Found<'_>) -> Result<BodyLength, HeadError> {
    let length = found.content_length.map(parse_length).transpose()?;
    let Some(coding) = found.transfer_encoding else {
        return Ok(length.map_or(BodyLength::None, BodyLength::Length));
    };
    if head.version < Version::Http11 {
        return Err(HeadError::bad("client sent HTTP/1.0 request with \"Transfer-Encoding\" header"));
    }
    if !coding.eq_ignore_ascii_case(b"chunked") {
        let is_list = coding.iter().all(|&byte| is_token_byte(byte) || matches!(byte, b',' | b' ' | b'\t'));
        let status = if is_list { Status::NOT_IMPLEMENTED } else { Status::BAD_REQUEST };
        return Err(HeadError::new(status, "client sent unknown \"Transfer-Encoding\""));
    }
    if length.is_some() {
        return Err(HeadError::bad(
            "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
        ));
    }
    Ok(BodyLength::Chunked)
}

fn parse_length(value: &[u8]) -> Result<u64, HeadError> {
    parse_number(value).ok_or_else(|| HeadError::bad("client sent invalid \"Content-Length\" header"))
}

fn check_method(head: &RequestHead, target: &Target, body: BodyLength) -> Result<(), HeadError> {
    let connect = head.method() == Method::Connect;
    if connect != (target.form == TargetForm::Authority) {
        return Err(HeadError::bad("client sent invalid request"));
    }
    match head.method() {
        Method::Connect if head.version != Version::Http11 => {
            Err(HeadError::new(Status::METHOD_NOT_ALLOWED, "client sent CONNECT method"))
        }
        // What follows the head is for the tunnel (RFC 9110, section 9.3.6).
        Method::Connect if !matches!(body, BodyLength::None | BodyLength::Length(0)) => {
            Err(HeadError::bad("client sent CONNECT request with body"))
        }
        Method::Trace => Err(HeadError::new(Status::METHOD_NOT_ALLOWED, "client sent TRACE method")),
        _ => Ok(()),
    }
}

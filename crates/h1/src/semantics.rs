//! What a complete head says about its message and its connection (RFC 9110, sections 7 and 8.6;
//! RFC 9112, sections 3.2, 6 and 9).

use http::uri::{Host, Target, TargetForm};
use http::{Method, RequestHead, Status, Version};

use crate::HeadError;
use crate::bytes::{is_token_byte, trim};

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
const OTHER_SINGLES: [&str; 8] = [
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
    http::parse_number(value).ok_or_else(|| HeadError::bad("client sent invalid \"Content-Length\" header"))
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

#[cfg(test)]
mod tests {
    use http::RequestHead;

    use super::{BodyLength, Framing, examine};
    use crate::{HeadLimits, HeadParser, HeadProgress};
    use http::uri::{Target, parse_target};

    /// The framing of a request with this line and these fields, or the status of its refusal.
    fn framing(line: &str, fields: &[&str]) -> Result<(Framing, String), u16> {
        let input = format!(
            "{line}\r\n{}\r\n",
            fields.iter().map(|field| format!("{field}\r\n")).collect::<String>()
        );
        let mut head = RequestHead::new();
        let progress = HeadParser::new().parse(input.as_bytes(), &mut head, &HeadLimits::default());
        assert!(matches!(progress, Ok(HeadProgress::Complete { .. })), "{input:?}");
        let mut target = Target::default();
        parse_target(head.target(), true, &mut target).unwrap();
        let framing = examine(&head, &mut target).map_err(|error| error.status.0)?;
        Ok((framing, String::from_utf8(target.host.name).unwrap()))
    }

    fn post(fields: &[&str]) -> Result<BodyLength, u16> {
        framing("POST / HTTP/1.1", &[&["Host: h"], fields].concat()).map(|(framing, _)| framing.body)
    }

    #[test]
    fn body_lengths() {
        for (fields, expected) in [
            (&[][..], Ok(BodyLength::None)),
            (&["Content-Length: 0"], Ok(BodyLength::Length(0))),
            (&["Content-Length:\t007 "], Ok(BodyLength::Length(7))),
            (&["Content-Length: 9223372036854775807"], Ok(BodyLength::Length(i64::MAX as u64))),
            (&["content-length: 9223372036854775808"], Err(400)),
            (&["Content-Length: 18446744073709551617"], Err(400)),
            (&["Content-Length: 1111111111111111111111111111111111111111"], Err(400)),
            (&["Content-Length:"], Err(400)),
            (&["Content-Length: -1"], Err(400)),
            (&["Content-Length: +1"], Err(400)),
            (&["Content-Length: 0x5"], Err(400)),
            (&["Content-Length: 5_0"], Err(400)),
            (&["Content-Length: 5 0"], Err(400)),
            (&["Content-Length: 5, 10"], Err(400)),
            (&["Content-Length: 5, 5"], Err(400)),
            (&["Content-Length: 5", "Content-Length: 10"], Err(400)),
            (&["Content-Length: 5", "content-LENGTH: 5"], Err(400)),
            (&["Transfer-Encoding: chunked"], Ok(BodyLength::Chunked)),
            (&["transfer-encoding:\tCHUNKED "], Ok(BodyLength::Chunked)),
            (&["Content-Length: 5", "Transfer-Encoding: chunked"], Err(400)),
            (&["Transfer-Encoding: chunked", "Content-Length: 5"], Err(400)),
            (&["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], Err(400)),
            (&["Transfer-Encoding: xchunked"], Err(501)),
            (&["Transfer-Encoding: identity"], Err(501)),
            (&["Transfer-Encoding: gzip"], Err(501)),
            (&["Transfer-Encoding: chunked, identity"], Err(501)),
            (&["Transfer-Encoding: chunked, chunked"], Err(501)),
            (&["Transfer-Encoding: , chunked"], Err(501)),
            (&["Transfer-Encoding: chunked,"], Err(501)),
            (&["Transfer-Encoding:"], Err(501)),
            (&["Transfer-Encoding: \x0bchunked"], Err(400)),
            (&["Transfer-Encoding: chunked\x0c"], Err(400)),
            (&["Transfer-Encoding: \"chunked\""], Err(400)),
            (&["Transfer-Encoding: chunked;x=y"], Err(400)),
            // The name is odd, so the field is not there.
            (&["Transfer_Encoding: chunked"], Ok(BodyLength::None)),
        ] {
            assert_eq!(post(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn no_chunks_before_1_1() {
        assert_eq!(framing("POST / HTTP/1.0", &["Transfer-Encoding: chunked"]), Err(400));
        assert_eq!(framing("POST / HTTP/1.0", &["Transfer-Encoding: gzip"]), Err(400));
    }

    #[test]
    fn hosts_and_where_they_come_from() {
        for (line, fields, expected) in [
            ("GET / HTTP/1.1", &["Host: A.b:80"][..], Ok("a.b")),
            ("GET / HTTP/1.1", &[], Err(400)),
            ("GET http://t/ HTTP/1.1", &[], Err(400)),
            ("GET http://T/ HTTP/1.1", &["Host: other"], Ok("t")),
            ("GET http://t/ HTTP/1.1", &["Host: a b"], Err(400)),
            ("GET http://t/ HTTP/1.0", &[], Ok("t")),
            ("GET / HTTP/1.0", &[], Ok("")),
            ("GET / HTTP/1.0", &["Host:"], Err(400)),
            ("GET / HTTP/1.1", &["Host: a", "Host: a"], Err(400)),
            ("GET / HTTP/1.1", &["Host: a", "host: b"], Err(400)),
            ("GET / HTTP/1.1", &["Host: a, b"], Err(400)),
            ("GET / HTTP/1.1", &["Host: u@h"], Err(400)),
            ("GET / HTTP/1.1", &["Host: h/x"], Err(400)),
        ] {
            let host = framing(line, fields).map(|(_, host)| host);
            assert_eq!(host.as_deref(), expected.as_ref().copied(), "{line} {fields:?}");
        }
    }

    #[test]
    fn fields_that_may_stand_once() {
        for name in super::OTHER_SINGLES.into_iter().chain(["Expect", "Content-Length", "Host"]) {
            let field = format!("{name}: 100-continue");
            assert_eq!(framing("GET / HTTP/1.0", &[&field, &field]), Err(400), "{name}");
        }
        for name in ["Cookie", "Range", "Accept", "Content-Type", "Referer", "X-Forwarded-For"] {
            let field = format!("{name}: a");
            assert!(framing("GET / HTTP/1.0", &[&field, &field]).is_ok(), "{name}");
        }
    }

    #[test]
    fn connections_that_live_on() {
        for (line, fields, keep_alive) in [
            ("GET / HTTP/1.1", &["Host: h"][..], true),
            ("GET / HTTP/1.1", &["Host: h", "Connection: Close"], false),
            ("GET / HTTP/1.1", &["Host: h", "Connection: x,\tclose ,y"], false),
            ("GET / HTTP/1.1", &["Host: h", "Connection: closed"], true),
            ("GET / HTTP/1.1", &["Host: h", "Connection: close", "Connection: keep-alive"], false),
            ("GET / HTTP/1.0", &[], false),
            ("GET / HTTP/1.0", &["Connection: Keep-Alive"], true),
            ("GET / HTTP/1.0", &["Connection: keep-alive, close"], false),
            ("POST / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 1"], true),
            ("GET / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 1"], false),
            ("GET / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 0"], true),
        ] {
            let (framing, _) = framing(line, fields).unwrap();
            assert_eq!(framing.keep_alive, keep_alive, "{line} {fields:?}");
        }
    }

    #[test]
    fn expectations() {
        let expect = |line, value: &str| {
            framing(line, &["Host: h", value]).map(|(framing, _)| framing.expect_continue)
        };
        assert_eq!(expect("POST / HTTP/1.1", "Expect: 100-Continue"), Ok(true));
        assert_eq!(expect("POST / HTTP/1.0", "Expect: 100-continue"), Ok(false));
        assert_eq!(expect("POST / HTTP/1.0", "Expect: unknown"), Ok(false));
        assert_eq!(expect("POST / HTTP/1.1", "Expect: unknown"), Err(417));
        assert_eq!(expect("POST / HTTP/1.1", "Expect: token=param"), Err(417));
        assert_eq!(expect("POST / HTTP/1.1", "X: y"), Ok(false));
    }

    #[test]
    fn methods_and_the_forms_of_their_targets() {
        for (line, status) in [
            ("TRACE / HTTP/1.1", Err(405)),
            ("CONNECT h:443 HTTP/1.1", Ok(())),
            ("CONNECT h:443 HTTP/1.0", Err(405)),
            ("CONNECT / HTTP/1.1", Err(400)),
            ("CONNECT http://h/ HTTP/1.1", Err(400)),
            ("GET h:443 HTTP/1.1", Err(400)),
            ("FOO / HTTP/1.1", Ok(())),
        ] {
            assert_eq!(framing(line, &["Host: h"]).map(|_| ()), status, "{line}");
        }
        let connect = |field| framing("CONNECT h:443 HTTP/1.1", &["Host: h", field]);
        assert_eq!(connect("Content-Length: 1").unwrap_err(), 400);
        assert_eq!(connect("Transfer-Encoding: chunked").unwrap_err(), 400);
        let (framing, host) = connect("Content-Length: 0").unwrap();
        assert_eq!((framing.keep_alive, &*host), (false, "h"));
    }
}

//! From a list of fields to the head of a request (RFC 9113, sections 8.2 and 8.3; RFC 9114, sections 4.2 and 4.3).

use super::HeaderList;
use crate::{Fields, Method, RequestHead, Status, Version, breaks_framing};

/// What the configuration says about fields.
#[derive(Clone, Copy, Debug)]
pub struct RequestRules {
    /// Whether underscores may be in names (`underscores_in_headers`).
    pub underscores: bool,
    /// Whether a field with an unusual name is left out (`ignore_invalid_headers`).
    pub ignore_invalid: bool,
    /// How many fields there may be (`max_headers`).
    pub max_fields: usize,
}

/// A request that breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedRequest {
    /// The status to answer with.
    pub status: Status,
    /// The line for the error log, in nginx's words where nginx has some.
    pub reason: &'static str,
}

const fn malformed(reason: &'static str) -> MalformedRequest {
    MalformedRequest { status: Status::BAD_REQUEST, reason }
}

/// The pseudo-fields of a request.
#[derive(Default)]
struct Pseudo<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
}

/// Reads the head of a request in this version, and tells whether it opens a WebSocket. The request line looks as in HTTP/1,
/// with this version at its end. The host becomes a `host` field, crumbs of cookies become one field. A request for a
/// WebSocket (RFC 8441, RFC 9220) is shown as in HTTP/1: GET, with the fields `upgrade` and `connection`.
///
/// # Errors
/// The head breaks the rules. `head` has what was understood of its line.
pub fn read_request(
    list: &HeaderList,
    version: Version,
    rules: &RequestRules,
    head: &mut RequestHead,
) -> Result<bool, MalformedRequest> {
    head.clear();
    head.version = version;
    let (pseudo, count) = Pseudo::read(list)?;
    pseudo.write_line(head)?;
    let opens_websocket = pseudo.protocol.is_some();
    if opens_websocket {
        push(&mut head.fields, b"upgrade", b"websocket")?;
        push(&mut head.fields, b"connection", b"upgrade")?;
    }
    add_fields(list, (count, pseudo.authority), rules, head)?;
    if opens_websocket && head.fields.get("content-length").is_some() {
        return Err(malformed("client sent \"Content-Length\" header in a request for a WebSocket"));
    }
    Ok(opens_websocket)
}

impl<'a> Pseudo<'a> {
    /// Reads the pseudo-fields, which come first, and tells how many they are.
    fn read(list: &'a HeaderList) -> Result<(Pseudo<'a>, usize), MalformedRequest> {
        let mut found = Pseudo::default();
        let mut count = 0;
        for (name, value) in list.iter().take_while(|(name, _)| name.starts_with(b":")) {
            count += 1;
            let (slot, duplicate, empty) = match name {
                b":method" => (
                    &mut found.method,
                    "client sent duplicate :method header",
                    "client sent empty :method header",
                ),
                b":scheme" => (
                    &mut found.scheme,
                    "client sent duplicate :scheme header",
                    "client sent empty :scheme header",
                ),
                b":path" => {
                    (&mut found.path, "client sent duplicate :path header", "client sent empty :path header")
                }
                b":authority" => (
                    &mut found.authority,
                    "client sent duplicate \":authority\" header",
                    "client sent invalid \":authority\" header",
                ),
                b":protocol" => (
                    &mut found.protocol,
                    "client sent duplicate :protocol header",
                    "client sent empty :protocol header",
                ),
                _ => return Err(malformed("client sent unknown pseudo-header")),
            };
            if value.is_empty() {
                return Err(malformed(empty));
            }
            if slot.replace(value).is_some() {
                return Err(malformed(duplicate));
            }
        }
        Ok((found, count))
    }

    /// Sets the request line. It stays empty if the target has a space or a control byte, which would split it.
    fn write_line(&self, head: &mut RequestHead) -> Result<(), MalformedRequest> {
        let method = self.method.ok_or(malformed("client sent no :method header"))?;
        let is_method = method.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'));
        if !is_method {
            return Err(malformed("client sent invalid method"));
        }
        let is_connect = Method::from_bytes(method) == Method::Connect && self.protocol.is_none();
        let method = self.shown_method(method)?;
        let target = if is_connect { self.authority } else { self.path };
        if let Some(target) = target.filter(|target| !target.iter().any(|&byte| byte <= b' ' || byte == 0x7f))
        {
            head.set_line_of(method, target, head.version);
        }
        if is_connect {
            return match (self.scheme, self.path, self.authority) {
                (None, None, Some(_)) if !head.line().is_empty() => Ok(()),
                _ => Err(MalformedRequest {
                    status: Status::METHOD_NOT_ALLOWED,
                    reason: "client sent CONNECT method",
                }),
            };
        }
        let scheme = self.scheme.ok_or(malformed("client sent no :scheme header"))?;
        if !is_scheme(scheme) {
            return Err(malformed("client sent invalid :scheme header"));
        }
        let path = self.path.ok_or(malformed("client sent no :path header"))?;
        if head.line().is_empty() || !path.starts_with(b"/") {
            return Err(malformed("client sent invalid :path header"));
        }
        Ok(())
    }
}

impl Pseudo<'_> {
    /// The method that the configuration sees: GET for a WebSocket (RFC 8441, section 5).
    fn shown_method<'m>(&self, method: &'m [u8]) -> Result<&'m [u8], MalformedRequest> {
        let Some(protocol) = self.protocol else { return Ok(method) };
        if Method::from_bytes(method) != Method::Connect || self.authority.is_none() {
            return Err(malformed("client sent unexpected :protocol header"));
        }
        match protocol.eq_ignore_ascii_case(b"websocket") {
            true => Ok(b"GET"),
            false => Err(MalformedRequest {
                status: Status::NOT_IMPLEMENTED,
                reason: "client sent unsupported :protocol header",
            }),
        }
    }
}

fn is_scheme(scheme: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(is_part)
}

/// Adds the fields that follow the pseudo-fields.
fn add_fields(
    list: &HeaderList,
    (skipped, authority): (usize, Option<&[u8]>),
    rules: &RequestRules,
    head: &mut RequestHead,
) -> Result<(), MalformedRequest> {
    const TOO_MANY: MalformedRequest =
        MalformedRequest { status: Status::HEADER_TOO_LARGE, reason: "client sent too many header lines" };
    let mut cookies = Vec::new();
    let names_host = list.iter().skip(skipped).any(|(name, _)| name == b"host");
    if let Some(authority) = authority.filter(|_| !names_host) {
        push(&mut head.fields, b"host", authority)?;
    }
    let mut count = 0;
    for (name, value) in list.iter().skip(skipped) {
        let is_odd = check_name(name, rules.underscores)?;
        check_connection(name, value)?;
        if is_odd && rules.ignore_invalid {
            check_value(value)?;
            head.ignore(name);
            continue;
        }
        if name == b"host" && authority.is_some_and(|authority| authority != value) {
            return Err(malformed("client sent \":authority\" and \"Host\" headers with different values"));
        }
        if name == b"cookie" {
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value);
            continue;
        }
        count += 1;
        if count > rules.max_fields {
            return Err(TOO_MANY);
        }
        push(&mut head.fields, name, value)?;
    }
    if cookies.is_empty() { Ok(()) } else { push(&mut head.fields, b"cookie", &cookies) }
}

fn push(fields: &mut Fields, name: &[u8], value: &[u8]) -> Result<(), MalformedRequest> {
    check_value(value)?;
    fields.push(name, value).map_err(|_| INVALID_VALUE)
}

const INVALID_VALUE: MalformedRequest = malformed("client sent header with invalid value");

/// Rejects a value that has white space around it, which the next hop would remove (RFC 9113, section 8.2.1), or a byte
/// that would end the field there.
fn check_value(value: &[u8]) -> Result<(), MalformedRequest> {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_valid = !breaks_framing(value) && !is_blank(value.first()) && !is_blank(value.last());
    if is_valid { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Whether a name is unusual: it has other bytes than small letters, digits, hyphens and, if allowed, underscores. Names
/// that the protocol forbids are an error.
fn check_name(name: &[u8], underscores: bool) -> Result<bool, MalformedRequest> {
    const INVALID: MalformedRequest = malformed("client sent invalid header name");
    if name.starts_with(b":") {
        return Err(malformed("client sent out of order pseudo-headers"));
    }
    let mut is_odd = false;
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => {}
            b'_' => is_odd |= !underscores,
            b'A'..=b'Z' | b':' | 0..=b' ' | 0x7f.. => return Err(INVALID),
            _ => is_odd = true,
        }
    }
    if name.is_empty() { Err(INVALID) } else { Ok(is_odd) }
}

/// Whether the fields after the content of a request are well-formed (RFC 9113, section 8.1; RFC 9114, section 4.1).
pub fn are_trailers_valid(list: &HeaderList) -> bool {
    // Whether names are unusual does not matter here.
    let underscores = true;
    list.iter().all(|(name, value)| {
        let checked = check_name(name, underscores).and_then(|_| check_connection(name, value));
        checked.and_then(|()| check_value(value)).is_ok()
    })
}

/// Rejects fields that concern one connection only (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
fn check_connection(name: &[u8], value: &[u8]) -> Result<(), MalformedRequest> {
    Err(malformed(match name {
        b"connection" => "client sent \"Connection\" header",
        b"keep-alive" => "client sent \"Keep-Alive\" header",
        b"proxy-connection" => "client sent \"Proxy-Connection\" header",
        b"transfer-encoding" => "client sent \"Transfer-Encoding\" header",
        b"upgrade" => "client sent \"Upgrade\" header",
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => "client sent invalid \"TE\" header",
        _ => return Ok(()),
    }))
}

#[cfg(test)]
mod tests {
    use super::{RequestRules, read_request};
    use crate::multiplexed::HeaderList;
    use crate::{RequestHead, Version};

    const RULES: RequestRules = RequestRules { underscores: false, ignore_invalid: true, max_fields: 8 };

    fn read(fields: &[(&str, &str)]) -> Result<String, &'static str> {
        let mut list = HeaderList::new(10_000);
        for (name, value) in fields {
            list.add(name.as_bytes(), value.as_bytes());
        }
        let mut head = RequestHead::new();
        read_request(&list, Version::Http2, &RULES, &mut head).map_err(|error| error.reason)?;
        let mut text = String::from_utf8_lossy(head.line()).into_owned();
        for field in head.fields.iter() {
            text +=
                &format!("|{}={}", String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value));
        }
        Ok(text)
    }

    fn get(more: &[(&str, &str)]) -> Result<String, &'static str> {
        read(
            &[&[(":method", "GET"), (":scheme", "http"), (":path", "/a?b"), (":authority", "h")], more]
                .concat(),
        )
    }

    fn websocket(more: &[(&str, &str)]) -> Result<String, &'static str> {
        let pseudo = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https")];
        read(&[&pseudo[..], &[(":path", "/chat"), (":authority", "h")], more].concat())
    }

    #[test]
    fn requests_that_are_understood() {
        for (more, expected) in [
            (&[][..], "GET /a?b HTTP/2.0|host=h"),
            (&[("x", "1"), ("host", "h")], "GET /a?b HTTP/2.0|x=1|host=h"),
            (
                &[("cookie", "a=1"), ("x", "2"), ("cookie", "b=3")],
                "GET /a?b HTTP/2.0|host=h|x=2|cookie=a=1; b=3",
            ),
            (&[("a_b", "1"), ("x.y", "1"), ("te", "trailers")], "GET /a?b HTTP/2.0|host=h|te=trailers"),
        ] {
            assert_eq!(get(more).as_deref(), Ok(expected));
        }
        let connect = read(&[(":method", "CONNECT"), (":authority", "h:1")]);
        assert_eq!(connect.as_deref(), Ok("CONNECT h:1 HTTP/2.0|host=h:1"));
        let socket = websocket(&[("sec-websocket-version", "13")]);
        let expected =
            "GET /chat HTTP/2.0|upgrade=websocket|connection=upgrade|host=h|sec-websocket-version=13";
        assert_eq!(socket.as_deref(), Ok(expected));
    }

    #[test]
    fn requests_that_are_malformed() {
        for (name, value) in [
            ("X", "1"),
            ("", "1"),
            ("a b", "1"),
            ("a:", "1"),
            (":path", "/"),
            (":status", "200"),
            ("x", "a\nb"),
            ("x", "a\0"),
            ("x", " a"),
            ("x", "a\t"),
            ("a_b", "a\r"),
            ("host", "other"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
        ] {
            assert!(get(&[(name, value)]).is_err(), "{name}: {value}");
        }
        let whole = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")];
        for missing in 0..3 {
            let fields: Vec<_> = (0..4).filter(|&at| at != missing).map(|at| whole[at]).collect();
            assert!(read(&fields).is_err(), "{fields:?}");
        }
        for (at, value) in
            [(0, "get"), (0, ""), (1, "1x"), (1, ""), (2, "a"), (2, ""), (2, "/ b"), (2, "/\r"), (3, "")]
        {
            let mut fields = whole;
            fields[at].1 = value;
            assert!(read(&fields).is_err(), "{fields:?}");
        }
        assert!(read(&[(":method", "CONNECT"), (":authority", "h:1"), (":path", "/")]).is_err());
        assert!(get(&[("a", "1"); 9]).is_err(), "too many");
        for name in ["content-length", "upgrade", "connection", ":protocol"] {
            assert!(websocket(&[(name, "1")]).is_err(), "{name}");
        }
        for fields in [
            &[
                (":method", "GET"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "h"),
            ][..],
            &[
                (":method", "CONNECT"),
                (":protocol", "other"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "h"),
            ],
            &[(":method", "CONNECT"), (":protocol", "websocket"), (":authority", "h")],
            &[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/")],
        ] {
            assert!(read(fields).is_err(), "{fields:?}");
        }
    }
}

//! Requests, as far as these servers understand them: GET, HEAD and POST of HTTP/1.0 and 1.1 (RFC 9112).

/// A request that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// Whether the content is left out of the answer.
    pub(super) is_head: bool,
    /// What is asked for.
    pub(super) target: &'a str,
    /// Whether the client wants to send more on this connection.
    pub(super) keep_alive: bool,
    /// How many bytes its head has.
    pub(super) length: usize,
    /// How many bytes of content follow. Only a POST has any.
    pub(super) content_length: u64,
    /// The key of a request for a WebSocket.
    pub(super) websocket_key: Option<&'a str>,
}

/// What the bytes that have come so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// The beginning of a request.
    Partial,
    /// A request, with what may stand after it.
    Request(Request<'a>),
    /// Nothing that is answered otherwise than with this status.
    Refused(&'static str),
}

/// The most bytes of a request's head.
pub(super) const LIMIT_BYTES: usize = 8192;

/// The most bytes of content that a request may have.
const CONTENT_LIMIT_BYTES: u64 = 1 << 30;

/// Reads a request from its first byte.
pub(super) fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else {
        return match input.len() {
            0..LIMIT_BYTES => Parsed::Partial,
            _ => Parsed::Refused("431 Request Header Fields Too Large"),
        };
    };
    match std::str::from_utf8(&input[..end]).ok().and_then(|head| request(head, end + 4)) {
        Some(parsed) => parsed,
        None => Parsed::Refused("400 Bad Request"),
    }
}

fn request(head: &str, length: usize) -> Option<Parsed<'_>> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_1_1 = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return None,
    };
    let mut keep_alive = is_1_1;
    let mut hosts = 0;
    let mut content_length = 0;
    let (mut is_websocket, mut key) = (false, None);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_matches([' ', '\t']);
        if name.is_empty() || name.contains([' ', '\t', '\r', '\n']) {
            return None;
        }
        if name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(',').map(str::trim) {
                keep_alive &= !option.eq_ignore_ascii_case("close");
                keep_alive |= !is_1_1 && option.eq_ignore_ascii_case("keep-alive");
            }
        } else if name.eq_ignore_ascii_case("content-length") {
            content_length = value.parse().ok()?;
        } else if name.eq_ignore_ascii_case("upgrade") {
            is_websocket = value.eq_ignore_ascii_case("websocket");
        } else if name.eq_ignore_ascii_case("sec-websocket-key") {
            key = Some(value);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // These servers do not read chunks, and chunks must not be parsed as requests.
            return Some(Parsed::Refused("413 Content Too Large"));
        }
    }
    if words.next().is_some() || !target.starts_with('/') || hosts > 1 || (is_1_1 && hosts == 0) {
        return None;
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        "POST" if content_length <= CONTENT_LIMIT_BYTES => false,
        "POST" => return Some(Parsed::Refused("413 Content Too Large")),
        _ => return Some(Parsed::Refused("501 Not Implemented")),
    };
    if method != "POST" && content_length > 0 {
        return Some(Parsed::Refused("413 Content Too Large"));
    }
    let websocket_key = key.filter(|_| is_websocket && is_1_1 && content_length == 0);
    Some(Parsed::Request(Request { is_head, target, keep_alive, length, content_length, websocket_key }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request<'_> {
        match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn requests() {
        let one = "GET /1k?x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        let length = one.len();
        let expected = Request {
            is_head: false,
            target: "/1k?x",
            keep_alive: true,
            length,
            content_length: 0,
            websocket_key: None,
        };
        assert_eq!(request(&format!("{one}GET")), expected);
        assert!(request("HEAD / HTTP/1.0\r\n\r\n").is_head);
        assert!(!request("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(request("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(!request("GET / HTTP/1.1\r\nhost:a\r\nconnection: x, CLOSE\r\n\r\n").keep_alive);
        let post = request("POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\nabcde");
        assert_eq!((post.content_length, post.is_head), (5, false));
        for length in 0..one.len() {
            assert_eq!(parse(&one.as_bytes()[..length]), Parsed::Partial, "{length}");
        }
    }

    #[test]
    fn what_is_refused() {
        let refused = |text: &str, status: &str| match parse(text.as_bytes()) {
            Parsed::Refused(found) => assert!(found.starts_with(status), "{text:?}: {found}"),
            other => panic!("{text:?} is {other:?}"),
        };
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1 x\r\nHost: a\r\n\r\n",
            "\r\n\r\n",
        ] {
            refused(text, "400");
        }
        refused("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "501");
        refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "400");
        refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n", "413");
        refused("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "413");
        refused("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "413");
        refused(&"x".repeat(LIMIT_BYTES), "431");
    }
}

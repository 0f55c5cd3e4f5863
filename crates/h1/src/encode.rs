//! Response heads (RFC 9112, section 4), with nginx's fields in nginx's order and spelling.

use std::cell::RefCell;

use http::{
    Fields, HTTP_DATE_LENGTH, Method, Places, ResponseHead, Status, Version, breaks_framing, date_text,
    write_number,
};

/// What the connection does after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It closes.
    Close,
    /// It waits for the next request.
    KeepAlive {
        /// Seconds announced in a `Keep-Alive` field (`keepalive_timeout`, second argument).
        announced: Option<u64>,
    },
    /// It changes its protocol.
    Upgrade,
}

/// What a response head says beyond the [`ResponseHead`].
#[derive(Clone, Copy, Debug)]
pub struct HeadOptions<'a> {
    /// The version of the request; HTTP/0.9 has no response head.
    pub version: Version,
    /// The value of `Date`, if it is sent.
    pub date: Option<&'a [u8; HTTP_DATE_LENGTH]>,
    /// The value of `Server`, if it is sent.
    pub server: Option<&'static str>,
    /// What happens to the connection.
    pub connection: Connection,
    /// Whether the body is chunked.
    pub chunked: bool,
    /// A reason phrase in place of the status code's own.
    pub reason: Option<&'a [u8]>,
}

/// How a response is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFraming {
    /// Whether the body goes out in chunks.
    pub chunked: bool,
    /// Whether the connection can live on.
    pub keep_alive: bool,
    /// Whether there is a body at all.
    pub has_body: bool,
}

/// The interim response that lets a client send its body (RFC 9110, section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Decides how a response to a request of this method and version is framed (RFC 9112, section 6).
/// `keep_alive` is what client and configuration agreed on, `allow_chunked` is
/// `chunked_transfer_encoding`.
pub fn frame_response(
    head: &ResponseHead,
    method: Method,
    version: Version,
    keep_alive: bool,
    allow_chunked: bool,
) -> ResponseFraming {
    let tunnel = method == Method::Connect && head.status < Status(300);
    if method == Method::Head || head.status.is_bodiless() || tunnel {
        return ResponseFraming { chunked: false, keep_alive, has_body: false };
    }
    let wanted = head.content_length.is_none() || head.expects_trailers;
    let chunked = wanted && allow_chunked && version >= Version::Http11;
    let delimited = chunked || head.content_length.is_some();
    let keep_alive = keep_alive && delimited && version > Version::Http09;
    ResponseFraming { chunked, keep_alive, has_body: true }
}

/// Appends the head of a final response. It is the only writer of framing fields: `Content-Length` and
/// `Transfer-Encoding` among `head.fields` are left out, and so is a value with a CR, LF or NUL.
/// A `Server` or `Date` among them takes the place of the own one. `head.location` stands where nginx puts
/// one that it completed to an absolute URI; any other belongs to `head.fields`.
pub fn encode_head(out: &mut Vec<u8>, head: &ResponseHead, options: &HeadOptions<'_>) {
    if options.version == Version::Http09 {
        return;
    }
    match (&head.memo, options.date) {
        (Some(memo), Some(date)) if !options.chunked && head.is_plain() => {
            let settings = settings(options);
            if !memo.http1.append(head, (settings, date), out, |out| head.fields.write_unframed(out)) {
                let start = out.len();
                let places = write_head(out, head, options);
                memo.http1.keep(head, settings, &out[start..], places);
            }
        }
        _ => _ = write_head(out, head, options),
    }
}

/// What the text of a plain head depends on besides it and its date.
fn settings(options: &HeadOptions<'_>) -> [u64; 3] {
    let (connection, seconds) = match options.connection {
        Connection::Close => (0, 0),
        Connection::KeepAlive { announced: None } => (1, 0),
        Connection::KeepAlive { announced: Some(seconds) } => (2, seconds),
        Connection::Upgrade => (3, 0),
    };
    // The text of `Server` is static, so that its address identifies it.
    [options.server.map_or(0, |server| server.as_ptr() as u64), connection, seconds]
}

/// Appends a head, and gives places in it.
fn write_head(out: &mut Vec<u8>, head: &ResponseHead, options: &HeadOptions<'_>) -> Places {
    let start = out.len();
    let server = options.server.filter(|_| head.fields.get("Server").is_none());
    let date = options.date.filter(|_| head.fields.get("Date").is_none());
    match (server, date) {
        (Some(server), Some(date)) if is_usual(head.status, options.reason) => {
            append_beginning(out, server, date);
        }
        _ => write_beginning(out, head.status, options.reason, server, date),
    }
    let date_at = out.len() - start - date.map_or(0, |date| date.len() + LINE_END.len());
    if head.status >= Status::OK {
        write_representation(out, head, options.chunked);
    }
    if let Some(location) = &head.location {
        write_field(out, b"Location: ", location);
    }
    if options.chunked && !head.status.is_bodiless() {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    write_connection(out, options.connection);
    if head.vary {
        out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    if let Some(etag) = &head.etag {
        write_field(out, b"ETag: ", etag);
    }
    let fields_at = out.len() - start;
    head.fields.write_unframed(out);
    let fields = fields_at..out.len() - start;
    if head.accept_ranges {
        out.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Places { date_at, fields }
}

const DATE: &[u8] = b"Date: ";

/// The beginning of most heads. It stays the same for a second.
struct Beginning {
    server: &'static str,
    date: [u8; HTTP_DATE_LENGTH],
    /// The status line of a usual answer, `Server` and `Date`.
    text: Vec<u8>,
}

thread_local! {
    static BEGINNING: RefCell<Beginning> =
        const { RefCell::new(Beginning { server: "", date: [0; HTTP_DATE_LENGTH], text: Vec::new() }) };
}

/// Appends the beginning of a usual answer, which is written once a second.
fn append_beginning(out: &mut Vec<u8>, server: &'static str, date: &[u8; HTTP_DATE_LENGTH]) {
    BEGINNING.with_borrow_mut(|beginning| {
        if beginning.date != *date || !std::ptr::eq(beginning.server, server) {
            (beginning.server, beginning.date) = (server, *date);
            beginning.text.clear();
            write_beginning(&mut beginning.text, Status::OK, None, Some(server), Some(date));
        }
        out.extend_from_slice(&beginning.text);
    });
}

/// Appends the status line, and the fields that come before all others.
fn write_beginning(
    out: &mut Vec<u8>,
    status: Status,
    reason: Option<&[u8]>,
    server: Option<&str>,
    date: Option<&[u8; HTTP_DATE_LENGTH]>,
) {
    write_status_line(out, status, reason);
    if let Some(server) = server {
        write_field(out, b"Server: ", server.as_bytes());
    }
    if let Some(date) = date {
        write_checked_field(out, DATE, date);
    }
}

/// Whether the status line is that of most answers.
fn is_usual(status: Status, reason: Option<&[u8]>) -> bool {
    status == Status::OK && reason.is_none_or(|reason| reason == b"OK")
}

/// Appends an interim (1xx) response.
pub fn encode_interim(out: &mut Vec<u8>, status: Status, fields: &Fields) {
    write_status_line(out, status, None);
    fields.write_unframed(out);
    out.extend_from_slice(b"\r\n");
}

fn write_status_line(out: &mut Vec<u8>, status: Status, reason: Option<&[u8]>) {
    if is_usual(status, reason) {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    let reason = reason.filter(|reason| !breaks_framing(reason)).unwrap_or(status.reason().as_bytes());
    out.extend_from_slice(b"HTTP/1.1 ");
    write_number(u64::from(status.0), 3, out);
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// The fields about the content. One that is never there has no length (RFC 9110, section 8.6).
fn write_representation(out: &mut Vec<u8>, head: &ResponseHead, chunked: bool) {
    if let Some(content_type) = &head.content_type {
        write_field(out, b"Content-Type: ", content_type);
    }
    let has_length = !chunked && head.status != Status::NO_CONTENT;
    if let Some(length) = head.content_length.filter(|_| has_length) {
        out.extend_from_slice(b"Content-Length: ");
        write_number(length, 1, out);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(seconds) = head.last_modified {
        out.extend_from_slice(b"Last-Modified: ");
        out.extend_from_slice(&date_text(seconds));
        out.extend_from_slice(b"\r\n");
    }
}

fn write_connection(out: &mut Vec<u8>, connection: Connection) {
    match connection {
        Connection::Close => out.extend_from_slice(b"Connection: close\r\n"),
        Connection::Upgrade => out.extend_from_slice(b"Connection: upgrade\r\n"),
        Connection::KeepAlive { announced } => {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
            if let Some(seconds) = announced {
                out.extend_from_slice(b"Keep-Alive: timeout=");
                write_number(seconds, 1, out);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Appends a field that did not come through a list of fields; `name` has the colon and the space.
#[inline]
fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if !breaks_framing(value) {
        write_checked_field(out, name, value);
    }
}

/// Appends a field whose value this program made.
#[inline]
fn write_checked_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + LINE_END.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
}

const LINE_END: &[u8] = b"\r\n";

#[cfg(test)]
mod tests {
    use http::{Fields, Method, ResponseHead, Status, Version};

    use super::{
        CONTINUE, Connection, HeadOptions, ResponseFraming, encode_head, encode_interim, frame_response,
    };

    const OPTIONS: HeadOptions<'static> = HeadOptions {
        version: Version::Http11,
        date: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
        server: Some("fulmar"),
        connection: Connection::Close,
        chunked: false,
        reason: None,
    };

    fn full_head(status: u16) -> ResponseHead {
        let mut head = ResponseHead::new(Status(status));
        head.content_type = Some(b"text/plain"[..].into());
        head.content_length = Some(5);
        head.last_modified = Some(784_111_777);
        head.etag = Some(b"\"e\""[..].into());
        head.location = Some(b"http://h/"[..].into());
        head.accept_ranges = true;
        head.fields.push(b"X-One", b"1").unwrap();
        head
    }

    fn encode(head: &ResponseHead, options: &HeadOptions<'_>) -> String {
        let mut out = Vec::new();
        encode_head(&mut out, head, options);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_order_of_fields() {
        let connection = Connection::KeepAlive { announced: Some(9) };
        let mut head = full_head(200);
        head.vary = true;
        let text = encode(&head, &HeadOptions { connection, ..OPTIONS });
        let expected = "HTTP/1.1 200 OK\r\n\
            Server: fulmar\r\n\
            Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Content-Type: text/plain\r\n\
            Content-Length: 5\r\n\
            Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Location: http://h/\r\n\
            Connection: keep-alive\r\n\
            Keep-Alive: timeout=9\r\n\
            Vary: Accept-Encoding\r\n\
            ETag: \"e\"\r\n\
            X-One: 1\r\n\
            Accept-Ranges: bytes\r\n\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_head_that_was_written_before_says_what_it_would_say_anew() {
        let changes: [fn(&mut ResponseHead, &mut HeadOptions<'_>); 21] = [
            |_, _| {},
            |_, options| options.date = Some(b"Mon, 07 Nov 1994 08:49:38 GMT"),
            |_, options| options.date = None,
            |_, options| options.server = Some("another"),
            |_, options| options.server = None,
            |_, options| options.connection = Connection::KeepAlive { announced: None },
            |_, options| options.connection = Connection::KeepAlive { announced: Some(0) },
            |_, options| options.connection = Connection::KeepAlive { announced: Some(9) },
            |head, _| head.content_length = Some(6),
            |head, _| head.content_type = Some(b"text/html"[..].into()),
            |head, _| head.last_modified = None,
            |head, _| head.etag = Some(b"\"f\""[..].into()),
            |head, _| head.accept_ranges = false,
            |head, _| head.vary = true,
            |head, _| head.fields.push(b"X-Two", b"2").unwrap(),
            |head, _| head.fields.push(b"Content-Length", b"2").unwrap(),
            |head, _| head.fields.push(b"Server", b"own").unwrap(),
            |head, _| head.fields.push(b"date", b"own").unwrap(),
            |head, _| head.location = Some((*b"/").into()),
            |head, _| head.status = Status::PARTIAL_CONTENT,
            |head, options| {
                head.fields.push(b"X-Two", b"2").unwrap();
                options.date = Some(b"Mon, 07 Nov 1994 08:49:38 GMT");
            },
        ];
        let plain = ResponseHead { location: None, fields: Fields::new(), ..full_head(200) };
        let memo = std::rc::Rc::default();
        for change in changes.iter().flat_map(|change| [change, change, &changes[0]]) {
            let (mut head, mut options) = (plain.clone(), OPTIONS);
            change(&mut head, &mut options);
            let anew = encode(&head, &options);
            head.memo = Some(std::rc::Rc::clone(&memo));
            assert_eq!(encode(&head, &options), anew);
        }
    }

    #[test]
    fn status_lines() {
        for (status, line) in [
            (200, "HTTP/1.1 200 OK\r\n"),
            (302, "HTTP/1.1 302 Moved Temporarily\r\n"),
            (413, "HTTP/1.1 413 Request Entity Too Large\r\n"),
            (599, "HTTP/1.1 599 \r\n"),
            (99, "HTTP/1.1 099 \r\n"),
        ] {
            assert!(encode(&ResponseHead::new(Status(status)), &OPTIONS).starts_with(line), "{status}");
        }
        let head = ResponseHead::new(Status::OK);
        let fine = encode(&head, &HeadOptions { reason: Some(b"Fine"), ..OPTIONS });
        assert!(fine.starts_with("HTTP/1.1 200 Fine\r\n"));
        let split = encode(&head, &HeadOptions { reason: Some(b"A\r\nB: c"), ..OPTIONS });
        assert!(split.starts_with("HTTP/1.1 200 OK\r\n"));
    }

    #[test]
    fn what_some_statuses_do_not_say() {
        let no_content = encode(&full_head(204), &HeadOptions { chunked: true, ..OPTIONS });
        for name in ["Content-Length", "Transfer-Encoding"] {
            assert!(!no_content.contains(name), "{no_content}");
        }
        assert!(no_content.contains("ETag") && no_content.contains("Content-Type"));
        let not_modified = encode(&full_head(304), &HeadOptions { chunked: true, ..OPTIONS });
        assert!(not_modified.contains("Last-Modified") && !not_modified.contains("Transfer-Encoding"));
        let switching = encode(&full_head(101), &HeadOptions { connection: Connection::Upgrade, ..OPTIONS });
        assert!(switching.contains("\r\nConnection: upgrade\r\n") && !switching.contains("Content-Length"));
        assert_eq!(encode(&full_head(200), &HeadOptions { version: Version::Http09, ..OPTIONS }), "");
    }

    #[test]
    fn one_writer_of_framing() {
        let mut head = ResponseHead::new(Status::OK);
        head.content_length = Some(5);
        for (name, value) in
            [("content-length", "7"), ("Transfer-Encoding", "x"), ("server", "other"), ("Date", "d")]
        {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let text = encode(&head, &HeadOptions { chunked: true, ..OPTIONS });
        let expected = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\
            server: other\r\nDate: d\r\n\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_value_splits_the_head() {
        let mut head = ResponseHead::new(Status::OK);
        head.content_type = Some(b"a\nb"[..].into());
        head.location = Some(b"/\r\nSet-Cookie: a"[..].into());
        head.etag = Some(b"\"\0\""[..].into());
        let text = encode(&head, &HeadOptions { server: Some("a\r\nb"), ..OPTIONS });
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn interim_responses() {
        let mut fields = Fields::new();
        let mut out = Vec::new();
        encode_interim(&mut out, Status::CONTINUE, &fields);
        assert_eq!(out, CONTINUE);
        out.clear();
        fields.push(b"Link", b"</a>").unwrap();
        encode_interim(&mut out, Status::EARLY_HINTS, &fields);
        assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    }

    #[test]
    fn framing() {
        let frame = |status, length, method, version| {
            let mut head = ResponseHead::new(Status(status));
            head.content_length = length;
            let ResponseFraming { chunked, keep_alive, has_body } =
                frame_response(&head, method, version, true, true);
            (chunked, keep_alive, has_body)
        };
        let (get, head) = (Method::Get, Method::Head);
        for (status, length, method, version, expected) in [
            (200, Some(5), get, Version::Http11, (false, true, true)),
            (200, None, get, Version::Http11, (true, true, true)),
            (200, None, get, Version::Http10, (false, false, true)),
            (200, Some(5), get, Version::Http10, (false, true, true)),
            (200, Some(5), get, Version::Http09, (false, false, true)),
            (200, None, head, Version::Http11, (false, true, false)),
            (204, None, get, Version::Http10, (false, true, false)),
            (304, None, get, Version::Http11, (false, true, false)),
            (200, None, Method::Connect, Version::Http11, (false, true, false)),
            (404, None, Method::Connect, Version::Http11, (true, true, true)),
        ] {
            assert_eq!(
                frame(status, length, method, version),
                expected,
                "{status} {length:?} {method:?} {version}"
            );
        }
        let mut with_trailers = ResponseHead::new(Status::OK);
        with_trailers.content_length = Some(5);
        with_trailers.expects_trailers = true;
        assert!(frame_response(&with_trailers, get, Version::Http11, true, true).chunked);
        let plain = frame_response(&ResponseHead::new(Status::OK), get, Version::Http11, true, false);
        assert_eq!(plain, ResponseFraming { chunked: false, keep_alive: false, has_body: true });
    }
}

//! The fields of heads that are sent.

use crate::{Fields, HTTP_DATE_LENGTH, ResponseHead, Status, date_text};

/// Takes the fields of one head: an encoder of field lines.
pub trait FieldWriter {
    /// Appends a field whose name is in lower case. One with a CR, LF or NUL is left out.
    fn add(&mut self, name: &[u8], value: &[u8]);

    /// Appends a field whose name is written in any case.
    fn add_any_case(&mut self, name: &[u8], value: &[u8]) {
        let mut small = [0; NAME_MAX];
        match small.get_mut(..name.len()) {
            Some(small) => {
                small.copy_from_slice(name);
                small.make_ascii_lowercase();
                self.add(small, value);
            }
            None => self.add(&name.to_ascii_lowercase(), value),
        }
    }
}

/// What a response head says beyond the [`ResponseHead`].
#[derive(Clone, Copy, Debug)]
pub struct ResponseOptions<'a> {
    /// The value of `date`, if it is sent.
    pub date: Option<&'a [u8; HTTP_DATE_LENGTH]>,
    /// The value of `server`, if it is sent.
    pub server: Option<&'static str>,
}

/// The pseudo-fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
    /// `:authority`; an empty one is left out.
    pub authority: &'a [u8],
}

/// Names that are longer are compared in lower case by a copy on the heap, in bytes.
const NAME_MAX: usize = 64;

/// Fields about one connection only, which HTTP/2 and HTTP/3 do not have (RFC 9113, section 8.2.2; RFC 9114,
/// section 4.2), and those that the writer of
/// heads writes itself.
const LEFT_OUT: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length"];

/// Writes the head of a final response, in nginx's order. Framing fields among `head.fields` are left out. A `Server` or
/// `Date` among them takes the place of our own one.
pub fn write_response(head: &ResponseHead, options: &ResponseOptions<'_>, writer: &mut impl FieldWriter) {
    let (server, date) = (options.server, options.date);
    writer.add(b":status", digits(u64::from(head.status.0), 3, &mut [0; DIGITS]));
    if let Some(server) = server.filter(|_| head.fields.get("server").is_none()) {
        writer.add(b"server", server.as_bytes());
    }
    if let Some(date) = date.filter(|_| head.fields.get("date").is_none()) {
        writer.add(b"date", date);
    }
    describe(head, |name, value| writer.add(name, value));
    write_fields(&head.fields, writer);
    if head.accept_ranges {
        writer.add(b"accept-ranges", b"bytes");
    }
}

/// Gives the fields that describe the content to `add`.
pub fn describe(head: &ResponseHead, mut add: impl FnMut(&[u8], &[u8])) {
    if let Some(content_type) = &head.content_type {
        add(b"content-type", content_type);
    }
    if let Some(length) = head.content_length.filter(|_| head.status != Status::NO_CONTENT) {
        add(b"content-length", digits(length, 1, &mut [0; DIGITS]));
    }
    if let Some(seconds) = head.last_modified {
        add(b"last-modified", &date_text(seconds));
    }
    if let Some(location) = &head.location {
        add(b"location", location);
    }
    if head.vary {
        add(b"vary", b"Accept-Encoding");
    }
    if let Some(etag) = &head.etag {
        add(b"etag", etag);
    }
}

/// The most digits of a number.
pub const DIGITS: usize = 20;

/// Writes a number in decimal to the end of a text, with so many digits at least.
pub fn digits(mut number: u64, least: usize, text: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = text.len();
    while number > 0 || text.len() - start < least {
        start -= 1;
        text[start] = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
    }
    &text[start..]
}

/// Writes the head of an interim response (RFC 9110, section 15.2).
pub fn write_interim(status: Status, fields: &Fields, writer: &mut impl FieldWriter) {
    writer.add(b":status", digits(u64::from(status.0), 3, &mut [0; DIGITS]));
    write_fields(fields, writer);
}

/// Writes the fields after the content (RFC 9110, section 6.5).
pub fn write_trailers(trailers: &Fields, writer: &mut impl FieldWriter) {
    write_fields(trailers, writer);
}

/// Appends the fields of a list, but for those that frame the content or concern one connection only.
pub fn write_fields(fields: &Fields, writer: &mut impl FieldWriter) {
    for field in fields.iter() {
        if !LEFT_OUT.iter().any(|name| field.is(name)) && !field.name.starts_with(b":") {
            writer.add_any_case(field.name, field.value);
        }
    }
}

/// Writes the head of a request. Fields that concern one connection only are left out, and so is one with an empty name or
/// with a colon in front.
pub fn write_request<'f>(
    request: &Request<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    writer: &mut impl FieldWriter,
) {
    writer.add(b":method", request.method);
    writer.add(b":scheme", request.scheme);
    writer.add(b":path", request.path);
    if !request.authority.is_empty() {
        writer.add(b":authority", request.authority);
    }
    for (name, value) in fields {
        let is_te = name.eq_ignore_ascii_case(b"te");
        let is_allowed = !is_te || value.eq_ignore_ascii_case(b"trailers");
        if is_allowed && !name.is_empty() && !name.starts_with(b":") && !is_about_connection(name) {
            writer.add_any_case(name, value);
        }
    }
}

/// Whether HTTP/2 and HTTP/3 have no field of this name (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
fn is_about_connection(name: &[u8]) -> bool {
    const NAMES: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

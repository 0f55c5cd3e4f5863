//! The blocks of fields that we send.

use crate::hpack::{Encoder, Indexing};
use http::{Fields, HTTP_DATE_LENGTH, ResponseHead, Status, breaks_framing, date_text, write_number};

/// What a response head says beyond the [`ResponseHead`].
#[derive(Clone, Copy, Debug)]
pub struct ResponseOptions<'a> {
    /// The value of `date`, if it is sent.
    pub date: Option<&'a [u8; HTTP_DATE_LENGTH]>,
    /// The value of `server`, if it is sent.
    pub server: Option<&'static str>,
}

/// Appends the fields of one block.
pub struct BlockWriter<'a> {
    pub(crate) encoder: &'a mut Encoder,
    pub(crate) out: &'a mut Vec<u8>,
}

/// Names that are longer are compared in lower case by a copy on the heap, in bytes.
const NAME_MAX: usize = 64;

/// Fields about one connection only, which HTTP/2 does not have (RFC 9113, section 8.2.2), and those that the writer of
/// heads writes itself.
const LEFT_OUT: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length"];

/// Fields whose values differ from one response to the next, or are secrets.
const VOLATILE: [&str; 13] = [
    ":path",
    "age",
    "authorization",
    "content-length",
    "content-range",
    "cookie",
    "date",
    "etag",
    "expires",
    "grpc-timeout",
    "last-modified",
    "location",
    "set-cookie",
];

impl BlockWriter<'_> {
    /// Appends a field whose name is in lower case. One with a CR, LF or NUL is left out.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        if !breaks_framing(value) {
            self.encoder.field(name, value, indexing(name), self.out);
        }
    }

    /// Appends a field whose name is written in any case.
    pub(crate) fn add_any_case(&mut self, name: &[u8], value: &[u8]) {
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

    fn status(&mut self, status: Status) {
        let mut text = Vec::with_capacity(3);
        write_number(u64::from(status.0), 3, &mut text);
        self.add(b":status", &text);
    }
}

fn indexing(name: &[u8]) -> Indexing {
    let is_volatile = VOLATILE.iter().any(|volatile| volatile.as_bytes() == name);
    if is_volatile { Indexing::Volatile } else { Indexing::Repeated }
}

/// Writes the head of a final response, in nginx's order. Framing fields among `head.fields` are left out. A `Server` or
/// `Date` among them takes the place of our own one.
pub fn write_response(head: &ResponseHead, options: &ResponseOptions<'_>, block: &mut BlockWriter<'_>) {
    block.status(head.status);
    if let Some(server) = options.server.filter(|_| head.fields.get("server").is_none()) {
        block.add(b"server", server.as_bytes());
    }
    if let Some(date) = options.date.filter(|_| head.fields.get("date").is_none()) {
        block.add(b"date", date);
    }
    if let Some(content_type) = &head.content_type {
        block.add(b"content-type", content_type);
    }
    if let Some(length) = head.content_length.filter(|_| head.status != Status::NO_CONTENT) {
        let mut text = Vec::with_capacity(20);
        write_number(length, 1, &mut text);
        block.add(b"content-length", &text);
    }
    if let Some(seconds) = head.last_modified.filter(|_| head.status.is_dated()) {
        block.add(b"last-modified", &date_text(seconds));
    }
    if let Some(location) = &head.location {
        block.add(b"location", location);
    }
    if head.vary {
        block.add(b"vary", b"Accept-Encoding");
    }
    if let Some(etag) = &head.etag {
        block.add(b"etag", etag);
    }
    write_fields(&head.fields, block);
    if head.accept_ranges {
        block.add(b"accept-ranges", b"bytes");
    }
}

/// Writes the head of an interim response (RFC 9110, section 15.2).
pub fn write_interim(status: Status, fields: &Fields, block: &mut BlockWriter<'_>) {
    block.status(status);
    write_fields(fields, block);
}

/// Writes the fields after the content (RFC 9113, section 8.1).
pub fn write_trailers(trailers: &Fields, block: &mut BlockWriter<'_>) {
    write_fields(trailers, block);
}

fn write_fields(fields: &Fields, block: &mut BlockWriter<'_>) {
    for field in fields.iter() {
        if !LEFT_OUT.iter().any(|name| field.is(name)) && !field.name.starts_with(b":") {
            block.add_any_case(field.name, field.value);
        }
    }
}

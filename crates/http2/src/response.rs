//! The blocks of fields that we send.

use crate::hpack::{Encoder, Indexing, plain_field, static_field};
use http::{Fields, HTTP_DATE_LENGTH, Places, ResponseHead, Status, breaks_framing, date_text};

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
}

fn indexing(name: &[u8]) -> Indexing {
    let is_volatile = VOLATILE.iter().any(|volatile| volatile.as_bytes() == name);
    if is_volatile { Indexing::Volatile } else { Indexing::Repeated }
}

/// Writes the head of a final response, in nginx's order. Framing fields among `head.fields` are left out. A `Server` or
/// `Date` among them takes the place of our own one.
pub fn write_response(head: &ResponseHead, options: &ResponseOptions<'_>, block: &mut BlockWriter<'_>) {
    match (&head.memo, options.date) {
        (Some(memo), Some(date)) if head.is_plain() => {
            // The text of `server` is static, so that its address identifies it.
            let settings = [options.server.map_or(0, |server| server.as_ptr() as u64), 0, 0];
            let BlockWriter { encoder, out } = block;
            let fields = |out: &mut Vec<u8>| write_fields(&head.fields, &mut BlockWriter { encoder, out });
            if !memo.http2.append(head, (settings, date), out, fields) {
                let start = out.len();
                let places = write_prebuilt(head, (options.server, date), block);
                memo.http2.keep(head, settings, &block.out[start..], places);
            }
        }
        _ => write_anew(head, options, block),
    }
}

fn write_anew(head: &ResponseHead, options: &ResponseOptions<'_>, block: &mut BlockWriter<'_>) {
    let (server, date) = (options.server, options.date);
    block.add(b":status", digits(u64::from(head.status.0), 3, &mut [0; DIGITS]));
    if let Some(server) = server.filter(|_| head.fields.get("server").is_none()) {
        block.add(b"server", server.as_bytes());
    }
    if let Some(date) = date.filter(|_| head.fields.get("date").is_none()) {
        block.add(b"date", date);
    }
    describe(head, |name, value| block.add(name, value));
    write_fields(&head.fields, block);
    if head.accept_ranges {
        block.add(b"accept-ranges", b"bytes");
    }
}

/// Writes a plain head so that its bytes have the same meaning on every connection, but for the fields of the list.
fn write_prebuilt(
    head: &ResponseHead,
    (server, date): (Option<&str>, &[u8; HTTP_DATE_LENGTH]),
    block: &mut BlockWriter<'_>,
) -> Places {
    let start = block.out.len();
    static_field(b":status", digits(u64::from(head.status.0), 3, &mut [0; DIGITS]), block.out);
    if let Some(server) = server {
        static_field(b"server", server.as_bytes(), block.out);
    }
    plain_field(b"date", date, block.out);
    let date_at = block.out.len() - start - HTTP_DATE_LENGTH;
    describe(head, |name, value| {
        if !breaks_framing(value) {
            static_field(name, value, block.out);
        }
    });
    let fields_at = block.out.len() - start;
    write_fields(&head.fields, block);
    let fields = fields_at..block.out.len() - start;
    if head.accept_ranges {
        static_field(b"accept-ranges", b"bytes", block.out);
    }
    Places { date_at, fields }
}

/// Gives the fields that describe the content to `add`.
fn describe(head: &ResponseHead, mut add: impl FnMut(&[u8], &[u8])) {
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
const DIGITS: usize = 20;

/// Writes a number in decimal to the end of a text, with so many digits at least.
fn digits(mut number: u64, least: usize, text: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = text.len();
    while number > 0 || text.len() - start < least {
        start -= 1;
        text[start] = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
    }
    &text[start..]
}

/// Writes the head of an interim response (RFC 9110, section 15.2).
pub fn write_interim(status: Status, fields: &Fields, block: &mut BlockWriter<'_>) {
    block.add(b":status", digits(u64::from(status.0), 3, &mut [0; DIGITS]));
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

#[cfg(test)]
mod tests {
    use super::{BlockWriter, ResponseOptions, write_response};
    use crate::HeaderList;
    use crate::hpack::{Decoder, Encoder};
    use http::{Fields, ResponseHead, Status};
    use std::rc::Rc;

    /// One end of a connection and the other.
    struct Pair {
        encoder: Encoder,
        decoder: Decoder,
    }

    impl Pair {
        fn new() -> Pair {
            Pair { encoder: Encoder::new(), decoder: Decoder::new(4096) }
        }

        /// The fields that the client reads.
        fn send(&mut self, head: &ResponseHead, options: &ResponseOptions<'_>) -> String {
            let mut out = Vec::new();
            self.encoder.begin(&mut out);
            write_response(head, options, &mut BlockWriter { encoder: &mut self.encoder, out: &mut out });
            let mut list = HeaderList::new(10_000);
            self.decoder.decode(&out, &mut list).unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            list.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
        }
    }

    fn full_head() -> ResponseHead {
        let mut head = ResponseHead::new(Status::OK);
        head.content_type = Some(b"text/plain"[..].into());
        head.content_length = Some(5);
        head.last_modified = Some(784_111_777);
        head.etag = Some(b"\"e\""[..].into());
        head.accept_ranges = true;
        head
    }

    const OPTIONS: ResponseOptions<'static> =
        ResponseOptions { date: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"), server: Some("Fulmar") };

    #[test]
    fn heads_have_the_order_of_nginx() {
        let text = Pair::new().send(&full_head(), &OPTIONS);
        let expected = ":status: 200\nserver: Fulmar\ndate: Sun, 06 Nov 1994 08:49:37 GMT\n\
            content-type: text/plain\ncontent-length: 5\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\n\
            etag: \"e\"\naccept-ranges: bytes\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn prebuilt_heads_say_the_same_on_every_connection() {
        type Change = fn(&mut ResponseHead, &mut ResponseOptions<'_>);
        let changes: [Change; 11] = [
            |_, _| {},
            |_, options| options.date = Some(b"Mon, 07 Nov 1994 08:49:38 GMT"),
            |_, options| options.date = None,
            |_, options| options.server = None,
            |head, _| head.content_length = Some(6),
            |head, _| head.etag = None,
            |head, _| head.vary = true,
            |head, _| head.fields.push(b"X-Two", b"2").unwrap(),
            |head, _| head.fields.push(b"Server", b"own").unwrap(),
            |head, _| head.location = Some((*b"/").into()),
            |head, _| head.status = Status::PARTIAL_CONTENT,
        ];
        let plain = ResponseHead { fields: Fields::new(), ..full_head() };
        let memo = Rc::default();
        let (mut one, mut other) = (Pair::new(), Pair::new());
        for change in changes.iter().flat_map(|change| [change, change, &changes[0], change]) {
            let (mut head, mut options) = (plain.clone(), OPTIONS);
            change(&mut head, &mut options);
            let anew = Pair::new().send(&head, &options);
            head.memo = Some(Rc::clone(&memo));
            assert_eq!((one.send(&head, &options), other.send(&head, &options)), (anew.clone(), anew));
        }
    }
}

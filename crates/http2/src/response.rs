//! The blocks of fields that we send.

use crate::hpack::{Encoder, Indexing, plain_field, static_field};
use http::multiplexed::{self, DIGITS, FieldWriter, ResponseOptions, describe, digits, write_fields};
use http::{HTTP_DATE_LENGTH, Places, ResponseHead, breaks_framing};

/// Appends the fields of one block.
pub struct BlockWriter<'a> {
    pub(crate) encoder: &'a mut Encoder,
    pub(crate) out: &'a mut Vec<u8>,
}

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

impl FieldWriter for BlockWriter<'_> {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if !breaks_framing(value) {
            self.encoder.field(name, value, indexing(name), self.out);
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
        _ => multiplexed::write_response(head, options, block),
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

#[cfg(test)]
mod tests {
    use super::{BlockWriter, write_response};
    use crate::hpack::{Decoder, Encoder};
    use crate::{HeaderList, ResponseOptions};
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

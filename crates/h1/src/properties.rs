//! What holds for any bytes whatever.

use http::semantics::BodyLength;
use http::{Fields, HeadError, RequestHead};
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{select, subsequence};

use crate::{
    BodyDecoder, CHUNK_END, Chunk, ChunkDecoder, HeadLimits, HeadParser, HeadProgress, encode_chunk_head,
    encode_last_chunk, parse_all,
};

/// Pieces out of which requests are made, right and wrong.
const PIECES: [&str; 40] = [
    "GET",
    "POST",
    "CONNECT",
    " ",
    " ",
    " ",
    "/",
    "/a",
    "/..",
    "/%2e",
    "%41",
    "?",
    "#",
    "http://h",
    "h:80",
    "*",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    "Host",
    "Host: h",
    ": ",
    ":",
    "\t",
    "A: b",
    "X_y: z",
    "Content-Length: 3",
    "Transfer-Encoding: chunked",
    "Connection: close",
    "3",
    "0",
    "abc",
    ";a=\"b\"",
    "\0",
    "\u{e9}",
];

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        9 => select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Requests of which most are well formed.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let line =
        select(&["GET /a/../b HTTP/1.1", "GET http://h/?q HTTP/1.1", "POST /%41 HTTP/1.0", "GET /"][..]);
    let fields = subsequence(
        &[
            "Host: h",
            "A:b",
            "X_y:  z ",
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
            "Odd.Name: 1",
            "Bad",
        ][..],
        0..6,
    );
    let end = select(&["\r\n", "\n"][..]);
    (line, fields, end, pieces()).prop_map(|(line, fields, end, rest)| {
        let mut request = format!("{end}{line}{end}{}{end}{end}", fields.join(end)).into_bytes();
        request.extend_from_slice(&rest);
        request
    })
}

fn small_limits() -> impl Strategy<Value = HeadLimits> {
    (1..64usize, 0..3usize, 1..64usize, 0..4usize, any::<(bool, bool, bool)>()).prop_map(
        |(
            first_buffer,
            large_count,
            large_size,
            max_fields,
            (ignore_invalid, underscores, strict_line_ends),
        )| HeadLimits {
            first_buffer,
            large_count,
            large_size,
            max_fields,
            ignore_invalid,
            underscores,
            strict_line_ends,
        },
    )
}

type Parsed = Result<Option<(usize, RequestHead)>, HeadError>;

/// Parses a head that arrives in pieces which end at `ends`.
fn parse_in_pieces(input: &[u8], ends: impl Iterator<Item = usize>, limits: &HeadLimits) -> Parsed {
    let mut parser = HeadParser::new();
    let mut head = RequestHead::new();
    for end in ends {
        if let HeadProgress::Complete { consumed } = parser.parse(&input[..end], &mut head, limits)? {
            return Ok(Some((consumed, head)));
        }
    }
    Ok(None)
}

fn comparable(parsed: &Parsed) -> String {
    format!("{parsed:?}")
}

fn parse(input: &[u8], limits: &HeadLimits) -> Parsed {
    parse_in_pieces(input, std::iter::once(input.len()), limits)
}

/// All content of a body that arrives in pieces of `step` bytes, and the bytes consumed.
fn read_body(
    mut body: BodyDecoder,
    input: &[u8],
    step: usize,
) -> Result<Option<(Vec<u8>, usize)>, HeadError> {
    let (mut content, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        match body.decode(&input[start..end])? {
            Chunk::Data { skip, length } => {
                content.extend_from_slice(&input[start + skip..start + skip + length]);
                start += skip + length;
            }
            Chunk::End { consumed } => return Ok(Some((content, start + consumed))),
            Chunk::NeedMore { .. } if end == input.len() => return Ok(None),
            Chunk::NeedMore { consumed } => {
                start += consumed;
                end = (end + step).min(input.len());
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_panics(input in prop_oneof![pieces(), requests(), prop::collection::vec(any::<u8>(), 0..200)]) {
        let _ = parse_all(&input);
    }

    #[test]
    fn heads_do_not_depend_on_how_they_arrive(
        input in prop_oneof![pieces(), requests()],
        limits in prop_oneof![small_limits(), select(vec![HeadLimits::default()])],
    ) {
        let whole = parse(&input, &limits);
        let dripped = parse_in_pieces(&input, 0..=input.len(), &limits);
        prop_assert_eq!(comparable(&whole), comparable(&dripped));
        if let Ok(Some((consumed, _))) = whole {
            prop_assert!(consumed <= input.len());
            let alone = parse(&input[..consumed], &limits);
            prop_assert_eq!(comparable(&whole), comparable(&alone));
            prop_assert!(matches!(parse(&input[..consumed - 1], &limits), Ok(None)));
        }
    }

    #[test]
    fn what_is_accepted_is_written_and_read_alike(input in requests()) {
        let limits = HeadLimits::default();
        if let Ok(Some((_, head))) = parse(&input, &limits) {
            let mut text = [head.line(), b"\r\n"].concat();
            for field in head.fields.iter() {
                text.extend_from_slice(&[field.name, b": ", field.value, b"\r\n"].concat());
            }
            for line in head.ignored() {
                text.extend_from_slice(&[line, b"\r\n"].concat());
            }
            text.extend_from_slice(b"\r\n");
            let strict = HeadLimits { strict_line_ends: true, ..limits };
            let again = parse(&text, &strict);
            let Ok(Some((_, again))) = again else { panic!("{again:?}") };
            prop_assert_eq!(format!("{head:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn chunks_are_decoded_to_what_was_encoded(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..10),
        step in 1..20usize,
        rest in prop::collection::vec(any::<u8>(), 0..10),
    ) {
        let mut encoded = Vec::new();
        for chunk in &chunks {
            encode_chunk_head(chunk.len() as u64, &mut encoded);
            encoded.extend_from_slice(chunk);
            encoded.extend_from_slice(CHUNK_END);
        }
        encode_last_chunk(&Fields::new(), &mut encoded);
        let length = encoded.len();
        encoded.extend_from_slice(&rest);
        let body = BodyDecoder::Chunked(ChunkDecoder::new(u64::MAX));
        prop_assert_eq!(read_body(body, &encoded, step), Ok(Some((chunks.concat(), length))));
    }

    #[test]
    fn bodies_do_not_depend_on_how_they_arrive(
        input in prop::collection::vec(select(&b"0123;a=\"\\ \r\n\r\n\r\n:x"[..]), 0..60),
        chunked in any::<bool>(),
        step in 1..10usize,
    ) {
        let length = if chunked { BodyLength::Chunked } else { BodyLength::Length(10) };
        let body = BodyDecoder::new(length, 20).unwrap();
        prop_assert_eq!(read_body(body.clone(), &input, step), read_body(body, &input, input.len().max(1)));
    }
}

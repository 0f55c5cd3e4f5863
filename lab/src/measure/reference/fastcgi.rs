//! FastCGI 1.0 as far as a responder needs it: one request at a time on a connection, which is kept if the server wants
//! that. The answer to every request is the file of the root that has the name at the end of `SCRIPT_FILENAME`.
//! <https://fastcgi-archives.github.io/FastCGI_Specification.html>, section 8 for the numbers.

use super::cache::Entry;

/// A request that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its number on the connection.
    id: u16,
    /// Whether the server wants to send more on this connection.
    pub(super) keep_conn: bool,
    /// The file that is asked for, as a path that begins with a slash.
    pub(super) target: String,
    /// How many bytes its records have.
    pub(super) length: usize,
}

/// What the bytes that have come so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The beginning of a request.
    Partial,
    /// A request, with what may stand after it.
    Request(Request),
    /// No request of FastCGI, or one that is too long.
    Refused,
}

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// The bit of a `BEGIN_REQUEST` that asks to keep the connection.
const KEEP_CONN: u8 = 1;

const HEADER_BYTES: usize = 8;

/// The most content of a record, a multiple of eight.
const RECORD_BYTES: usize = 65_528;

/// The most bytes of a request.
const LIMIT_BYTES: usize = 4 << 20;

/// Reads the records of a request from the first one.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let (mut id, mut keep_conn, mut params, mut at) = (0, false, Vec::new(), 0);
    while let Some([version, kind, id_high, id_low, length_high, length_low, padding, _]) =
        input.get(at..at + HEADER_BYTES)
    {
        let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
        let begin = at + HEADER_BYTES;
        let end = begin + length + usize::from(*padding);
        if *version != 1 || end > LIMIT_BYTES {
            return Parsed::Refused;
        }
        if end > input.len() {
            break;
        }
        let content = &input[begin..begin + length];
        at = end;
        match (*kind, content) {
            (BEGIN_REQUEST, [_, _, flags, ..]) => {
                id = u16::from_be_bytes([*id_high, *id_low]);
                keep_conn = flags & KEEP_CONN != 0;
            }
            (PARAMS, content) => params.extend_from_slice(content),
            (STDIN, []) => {
                let Some(target) = target(&params) else { return Parsed::Refused };
                return Parsed::Request(Request { id, keep_conn, target, length: at });
            }
            (STDIN, _) => {}
            _ => return Parsed::Refused,
        }
    }
    Parsed::Partial
}

/// Writes the whole answer to a request.
pub(super) fn answer(request: &Request, entry: &Entry, out: &mut Vec<u8>) {
    let head = format!("Status: {}\r\nContent-Type: {}\r\n\r\n", entry.status, entry.media_type);
    let first = entry.content.len().min(RECORD_BYTES - head.len());
    let (first, rest) = entry.content.split_at(first);
    record(STDOUT, request.id, &[head.as_bytes(), first], out);
    for piece in rest.chunks(RECORD_BYTES) {
        record(STDOUT, request.id, &[piece], out);
    }
    record(STDOUT, request.id, &[], out);
    record(END_REQUEST, request.id, &[&[0; 8]], out);
}

fn record(kind: u8, id: u16, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let id = id.to_be_bytes();
    out.extend_from_slice(&[1, kind, id[0], id[1], length[0], length[1], 0, 0]);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The last segment of `SCRIPT_FILENAME`, as a path from the root. Section 3.4 says how names and values are written.
fn target(mut params: &[u8]) -> Option<String> {
    while !params.is_empty() {
        let (name_length, after) = length(params)?;
        let (value_length, after) = length(after)?;
        let (name, after) = after.split_at_checked(name_length)?;
        let (value, after) = after.split_at_checked(value_length)?;
        if name == b"SCRIPT_FILENAME" {
            return Some(format!("/{}", std::str::from_utf8(value).ok()?.rsplit('/').next()?));
        }
        params = after;
    }
    None
}

/// A length of one byte, or of four whose first bit is set.
fn length(input: &[u8]) -> Option<(usize, &[u8])> {
    match input {
        [short @ 0..0x80, rest @ ..] => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => {
            Some((usize::try_from(u32::from_be_bytes([*a & 0x7f, *b, *c, *d])).ok()?, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a request for `/srv/passed/1k`, with content.
    fn request(flags: u8) -> Vec<u8> {
        let mut params = vec![3, 1];
        params.extend_from_slice(b"A_BC");
        params.extend_from_slice(&[15, 0x80, 0, 0, 14]);
        params.extend_from_slice(b"SCRIPT_FILENAME/srv/passed/1k");
        let mut out = Vec::new();
        record(BEGIN_REQUEST, 7, &[&[0, 1, flags, 0, 0, 0, 0, 0]], &mut out);
        record(PARAMS, 7, &[&params[..9]], &mut out);
        record(PARAMS, 7, &[&params[9..]], &mut out);
        record(PARAMS, 7, &[], &mut out);
        record(STDIN, 7, &[b"content"], &mut out);
        record(STDIN, 7, &[], &mut out);
        out
    }

    #[test]
    fn a_request_ends_with_its_content() {
        let bytes = request(KEEP_CONN);
        let wanted = Request { id: 7, keep_conn: true, target: "/1k".into(), length: bytes.len() };
        assert_eq!(parse(&[bytes.as_slice(), b"more"].concat()), Parsed::Request(wanted));
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), Parsed::Partial, "{length}");
        }
        assert!(matches!(parse(&request(0)), Parsed::Request(Request { keep_conn: false, .. })));
    }

    #[test]
    fn padding_is_skipped_and_nonsense_refused() {
        let mut bytes = request(0);
        bytes[6] = 2;
        bytes.splice(16..16, [0, 0]);
        assert!(matches!(parse(&bytes), Parsed::Request(_)));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Parsed::Refused);
        let mut without = Vec::new();
        record(BEGIN_REQUEST, 1, &[&[0, 1, 0, 0, 0, 0, 0, 0]], &mut without);
        record(STDIN, 1, &[], &mut without);
        assert_eq!(parse(&without), Parsed::Refused, "no SCRIPT_FILENAME");
    }

    #[test]
    fn long_content_takes_several_records() {
        let entry = Entry::new("200 OK", "text/plain", "", vec![b'x'; 100_000]);
        let mut out = Vec::new();
        answer(&Request { id: 7, keep_conn: true, target: "/".into(), length: 0 }, &entry, &mut out);
        let (mut kinds, mut content, mut rest) = (Vec::new(), Vec::new(), out.as_slice());
        while let [1, kind, 0, 7, high, low, 0, 0, after @ ..] = rest {
            let (piece, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            kinds.push((*kind, piece.len()));
            content.extend_from_slice(if *kind == STDOUT { piece } else { &[] });
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(kinds[0], (STDOUT, RECORD_BYTES));
        assert_eq!(kinds[2..], [(STDOUT, 0), (END_REQUEST, 8)]);
        let content = String::from_utf8(content).unwrap();
        let (head, content) = content.split_once("\r\n\r\n").unwrap();
        assert_eq!((head, content.len()), ("Status: 200 OK\r\nContent-Type: text/plain", 100_000));
    }
}

//! Records (FastCGI 1.0, section 3.3) as the server writes them.

pub(crate) const VERSION: u8 = 1;
pub(crate) const HEADER_LENGTH: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
pub(crate) const END_REQUEST: u8 = 3;
pub(crate) const PARAMS: u8 = 4;
const STDIN: u8 = 5;
pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;

const RESPONDER: u8 = 1;
const KEEP_CONNECTION: u8 = 1;

/// Records are padded to a multiple of this, so that an application can read them aligned (section 3.3).
const ALIGNMENT: usize = 8;
const PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// How many bytes of a request's body one record holds at most: what its length can say, less what would
/// need padding.
pub const STDIN_LIMIT: u16 = u16::MAX - 7;

/// Appends the start of a request in the role of a responder. `keep` asks the application to leave the
/// connection open after its answer.
pub fn encode_begin(keep: bool, out: &mut Vec<u8>) {
    let flags = if keep { KEEP_CONNECTION } else { 0 };
    encode_record(BEGIN_REQUEST, &[0, RESPONDER, flags, 0, 0, 0, 0, 0], out);
}

/// Appends a piece of the request's body, in as many records as it needs; none for an empty piece, which
/// would end the body.
pub fn encode_stdin(content: &[u8], out: &mut Vec<u8>) {
    encode_stream(STDIN, content, out);
}

/// Appends what stands before a piece of the request's body of `length` bytes, and returns what stands
/// after it. The length is cut to [`STDIN_LIMIT`]. Nothing is appended for an empty piece, which would
/// end the body.
pub fn encode_stdin_head(length: u16, out: &mut Vec<u8>) -> &'static [u8] {
    if length == 0 {
        return &[];
    }
    encode_header(STDIN, length.min(STDIN_LIMIT), out)
}

/// Appends the end of the request's body.
pub fn encode_stdin_end(out: &mut Vec<u8>) {
    encode_header(STDIN, 0, out);
}

/// Appends the order to give the request up.
pub fn encode_abort(out: &mut Vec<u8>) {
    encode_header(ABORT_REQUEST, 0, out);
}

/// Appends a stream's content as records of this type, without the empty one that ends the stream.
pub(crate) fn encode_stream(record_type: u8, content: &[u8], out: &mut Vec<u8>) {
    for part in content.chunks(usize::from(STDIN_LIMIT)) {
        encode_record(record_type, part, out);
    }
}

/// Appends the record that ends a stream.
pub(crate) fn encode_stream_end(record_type: u8, out: &mut Vec<u8>) {
    encode_header(record_type, 0, out);
}

/// `content` has at most [`STDIN_LIMIT`] bytes.
fn encode_record(record_type: u8, content: &[u8], out: &mut Vec<u8>) {
    debug_assert!(content.len() <= usize::from(STDIN_LIMIT));
    let Ok(length) = u16::try_from(content.len()) else { return };
    let padding = encode_header(record_type, length, out);
    out.extend_from_slice(content);
    out.extend_from_slice(padding);
}

fn encode_header(record_type: u8, length: u16, out: &mut Vec<u8>) -> &'static [u8] {
    let (header, padding) = header(record_type, length);
    out.extend_from_slice(&header);
    padding
}

/// The header of a record with so much content, and what follows the content.
pub(crate) fn header(record_type: u8, length: u16) -> ([u8; HEADER_LENGTH], &'static [u8]) {
    let padding = usize::from(length).next_multiple_of(ALIGNMENT) - usize::from(length);
    let [high, low] = length.to_be_bytes();
    #[expect(clippy::cast_possible_truncation, reason = "below the alignment")]
    let header = [VERSION, record_type, 0, 1, high, low, padding as u8, 0];
    (header, &PADDING[..padding])
}

#[cfg(test)]
mod tests {
    use super::{STDIN_LIMIT, encode_abort, encode_begin, encode_stdin, encode_stdin_end, encode_stdin_head};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn records_are_the_specifications() {
        let begin = [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0];
        assert_eq!(written(|out| encode_begin(true, out)), begin);
        assert_eq!(written(|out| encode_begin(false, out))[10], 0);
        assert_eq!(written(encode_stdin_end), [1, 5, 0, 1, 0, 0, 0, 0]);
        assert_eq!(written(encode_abort), [1, 2, 0, 1, 0, 0, 0, 0]);
        let body = [&[1, 5, 0, 1, 0, 3, 5, 0][..], b"abc", &[0; 5]].concat();
        assert_eq!(written(|out| encode_stdin(b"abc", out)), body);
    }

    #[test]
    fn large_bodies_take_several_records_and_empty_ones_none() {
        let limit = usize::from(STDIN_LIMIT);
        let out = written(|out| encode_stdin(&vec![b'x'; limit + 1], out));
        assert_eq!(out.len(), 8 + limit + 8 + 1 + 7);
        assert_eq!(out[..8], [1, 5, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[8 + limit..8 + limit + 9], [1, 5, 0, 1, 0, 1, 7, 0, b'x']);
        assert_eq!(written(|out| encode_stdin(b"", out)), []);
        assert_eq!(written(|out| assert_eq!(encode_stdin_head(0, out), [0u8; 0])), []);
    }

    #[test]
    fn what_stands_around_a_piece_makes_the_same_record() {
        for length in [1u16, 7, 8, 9, 4096, STDIN_LIMIT] {
            let content = vec![b'x'; usize::from(length)];
            let mut parts = Vec::new();
            let padding = encode_stdin_head(length, &mut parts);
            parts.extend_from_slice(&content);
            parts.extend_from_slice(padding);
            assert_eq!(parts, written(|out| encode_stdin(&content, out)), "{length}");
        }
    }
}

//! Chunked bodies: the same content, trailers and end, or the same error, however the bytes are cut.
//! The first byte of the input chooses the cuts.

use h1::{Chunk, ChunkDecoder};

/// Bytes of content that a body may have.
const LIMIT: u64 = 4096;

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let Some((&seed, body)) = input.split_first() else { return };
    let whole = decode(body, std::iter::once(body.len()));
    assert_eq!(whole, decode(body, crate::cuts(seed)), "pieces of up to nine bytes");
    assert_eq!(whole, decode(body, std::iter::repeat(1)), "byte by byte");
}

/// What a body came to.
#[derive(Debug, PartialEq)]
enum Outcome {
    Ended { consumed: usize, content: Vec<u8>, trailers: String },
    Incomplete { content: Vec<u8> },
    Refused(String),
}

fn decode(body: &[u8], cuts: impl Iterator<Item = usize>) -> Outcome {
    let mut decoder = ChunkDecoder::keeping_trailers(LIMIT);
    let mut content = Vec::new();
    let mut at = 0;
    for cut in cuts {
        let end = body.len().min(at + cut);
        while at <= end {
            let piece = &body[at..end];
            match decoder.decode(piece) {
                Err(error) => return Outcome::Refused(format!("{error:?}")),
                Ok(Chunk::Data { skip, length }) => {
                    assert!(length > 0);
                    content.extend_from_slice(&piece[skip..skip + length]);
                    assert!(content.len() as u64 <= LIMIT);
                    at += skip + length;
                }
                Ok(Chunk::NeedMore { consumed }) => {
                    assert_eq!(consumed, piece.len());
                    at = end;
                    break;
                }
                Ok(Chunk::End { consumed }) => {
                    let trailers = decoder.trailers().map(|trailers| trailers.iter().collect::<Vec<_>>());
                    let trailers = format!("{trailers:?}");
                    return Outcome::Ended { consumed: at + consumed, content, trailers };
                }
            }
        }
        if at == body.len() {
            break;
        }
    }
    Outcome::Incomplete { content }
}

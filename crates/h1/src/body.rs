//! The body of a request, however its length is given.

use http::semantics::BodyLength;
use http::{Fields, HeadError, Status};

use crate::{Chunk, ChunkDecoder};

/// A resumable decoder of one body.
#[derive(Clone, Debug)]
pub enum BodyDecoder {
    /// So many bytes are still to come.
    Length(u64),
    /// Chunks.
    Chunked(ChunkDecoder),
}

impl BodyDecoder {
    /// A decoder of a body of at most `limit` bytes (`client_max_body_size`; `u64::MAX` for no limit).
    ///
    /// # Errors
    ///
    /// 413 if the declared length is over the limit.
    pub fn new(body: BodyLength, limit: u64) -> Result<BodyDecoder, HeadError> {
        match body {
            BodyLength::None => Ok(BodyDecoder::Length(0)),
            BodyLength::Length(length) if length > limit => {
                Err(HeadError::new(Status::CONTENT_TOO_LARGE, "client intended to send too large body"))
            }
            BodyLength::Length(length) => Ok(BodyDecoder::Length(length)),
            BodyLength::Chunked => Ok(BodyDecoder::Chunked(ChunkDecoder::new(limit))),
        }
    }

    /// Reads on in `input`, which starts where the last call stopped consuming. After the end it gives
    /// `End { consumed: 0 }` again.
    ///
    /// # Errors
    ///
    /// Those of [`ChunkDecoder::decode`].
    pub fn decode(&mut self, input: &[u8]) -> Result<Chunk, HeadError> {
        match self {
            BodyDecoder::Chunked(decoder) => decoder.decode(input),
            BodyDecoder::Length(0) => Ok(Chunk::End { consumed: 0 }),
            BodyDecoder::Length(_) if input.is_empty() => Ok(Chunk::NeedMore { consumed: 0 }),
            BodyDecoder::Length(left) => {
                let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= length as u64;
                Ok(Chunk::Data { skip: 0, length })
            }
        }
    }

    /// The fields after the last chunk, so far, where the decoder keeps them. [`BodyDecoder::new`] makes one that does
    /// not.
    pub fn trailers(&self) -> Option<&Fields> {
        match self {
            BodyDecoder::Length(_) => None,
            BodyDecoder::Chunked(decoder) => decoder.trailers(),
        }
    }

    /// How many bytes of content are still to come, if that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(left) => Some(*left),
            BodyDecoder::Chunked(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BodyDecoder;
    use crate::Chunk;
    use http::semantics::BodyLength;

    #[test]
    fn a_body_of_known_length_ends_there() {
        let mut body = BodyDecoder::new(BodyLength::Length(5), 5).unwrap();
        assert_eq!(body.decode(b""), Ok(Chunk::NeedMore { consumed: 0 }));
        assert_eq!(body.decode(b"he"), Ok(Chunk::Data { skip: 0, length: 2 }));
        assert_eq!(body.remaining(), Some(3));
        assert_eq!(body.decode(b"lloGET /"), Ok(Chunk::Data { skip: 0, length: 3 }));
        assert_eq!(body.decode(b"GET /"), Ok(Chunk::End { consumed: 0 }));
        assert_eq!(body.decode(b""), Ok(Chunk::End { consumed: 0 }));
    }

    #[test]
    fn no_body_takes_nothing() {
        for length in [BodyLength::None, BodyLength::Length(0)] {
            let mut body = BodyDecoder::new(length, 0).unwrap();
            assert_eq!(body.decode(b"GET /"), Ok(Chunk::End { consumed: 0 }), "{length:?}");
        }
    }

    #[test]
    fn the_limit() {
        let error = BodyDecoder::new(BodyLength::Length(i64::MAX as u64), 1).unwrap_err();
        assert_eq!(error.status.0, 413);
        let mut body = BodyDecoder::new(BodyLength::Chunked, 1).unwrap();
        assert_eq!(body.remaining(), None);
        assert_eq!(body.decode(b"2\r\n").unwrap_err().status.0, 413);
    }
}

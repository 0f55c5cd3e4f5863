//! The body of a request, however its length is given.

use http::Status;

use crate::{BodyLength, Chunk, ChunkDecoder, HeadError};

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

    /// How many bytes of content are still to come, if that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(left) => Some(*left),
            BodyDecoder::Chunked(_) => None,
        }
    }
}

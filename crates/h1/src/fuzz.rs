//! One entry to all parsers, for fuzzing.

use http::semantics::examine;
use http::uri::{Target, parse_target};
use http::{HeadError, RequestHead};

use crate::{BodyDecoder, Chunk, HeadLimits, HeadParser, HeadProgress};

/// Reads a connection's bytes to their end or to the first error: how many complete requests they hold.
/// Whatever the bytes are, it neither panics nor loops.
pub fn parse_all(input: &[u8]) -> Result<usize, HeadError> {
    let mut parser = HeadParser::new();
    let mut head = RequestHead::new();
    let mut target = Target::default();
    let mut rest = input;
    let mut requests = 0;
    loop {
        let HeadProgress::Complete { consumed } = parser.parse(rest, &mut head, &HeadLimits::default())?
        else {
            return Ok(requests);
        };
        rest = &rest[consumed..];
        parse_target(head.target(), true, &mut target)?;
        let framing = examine(&head, &mut target)?;
        let mut body = BodyDecoder::new(framing.body, u64::MAX)?;
        loop {
            match body.decode(rest)? {
                Chunk::Data { skip, length } => rest = &rest[skip + length..],
                Chunk::NeedMore { .. } => return Ok(requests),
                Chunk::End { consumed } => {
                    rest = &rest[consumed..];
                    break;
                }
            }
        }
        requests += 1;
        if !framing.keep_alive {
            return Ok(requests);
        }
    }
}

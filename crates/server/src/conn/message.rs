//! A request in HTTP/1 and its response: how both are framed, and how far they were read and sent.

use super::respond::Answer;
use bytes::Bytes;
use contract::Exchange;
use engine::{Pace, Unknown};
use h1::{BodyDecoder, Chunk};
use http::semantics::{BodyLength, Framing};
use http::{HeadError, Status};
use journal::Level;
use std::fs::File;
use std::sync::Arc;
use wire::{Buffer, Job, Timer};

/// A request in HTTP/1 and its response.
pub(crate) struct Message {
    pub(crate) framing: Framing,
    /// What is wrong with the request itself.
    pub(crate) refused: Option<Status>,
    /// Whether the request breaks the rules of HTTP/2.
    pub(crate) is_malformed: bool,
    /// What is left to read of the body; it is made when the location, and so its limit, is known.
    decoder: Option<Box<BodyDecoder>>,
    /// Whether the body was read to its end.
    pub(crate) body_done: bool,
    /// What was read of a body that is passed on as it comes, and not handed on yet.
    pub(crate) first: Bytes,
    /// How slowly the body comes, and what limits that.
    pub(crate) pace: Option<(Pace, Timer)>,
    /// Whether the client went away in the middle of the body.
    pub(crate) left: bool,
    /// How the response is framed.
    pub(crate) answer: Option<Answer>,
    /// Content that is being sent after the output, from where it is.
    pub(crate) content: Bytes,
    /// The part of a file that is being sent after the output.
    pub(crate) part: Option<Box<Part>>,
    /// Whether the protocol was changed: bytes are not framed any more.
    pub(crate) is_tunnel: bool,
}

/// A part of a file that is being sent.
pub(crate) struct Part {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) unknown: Unknown,
    /// Whether the kernel sends the file; else it goes through memory (`sendfile off`).
    pub(crate) by_kernel: bool,
    /// The most bytes that are sent in one turn.
    pub(crate) chunk: u64,
    /// Up to where the file is known to be in memory.
    pub(crate) warm_until: u64,
    /// Up to where it is sent in this turn.
    pub(crate) turn_ends: u64,
    /// Whether other connections go first.
    pub(crate) lets_others_go_first: bool,
    /// What another thread reads.
    pub(crate) elsewhere: Option<Reading>,
}

/// What another thread reads of a file.
pub(crate) enum Reading {
    /// Bytes that the kernel is to have in memory.
    Warming(Job<()>),
    /// Bytes to be sent.
    Bytes(Job<Vec<u8>>),
}

/// The framing of a request of which nothing is known.
const UNFRAMED: Framing = Framing { body: BodyLength::None, keep_alive: false, expect_continue: false };

impl Default for Message {
    fn default() -> Message {
        Message {
            framing: UNFRAMED,
            refused: None,
            is_malformed: false,
            decoder: None,
            body_done: false,
            first: Bytes::new(),
            pace: None,
            left: false,
            answer: None,
            content: Bytes::new(),
            part: None,
            is_tunnel: false,
        }
    }
}

impl Message {
    /// Reads on in the body. Its limit is that of the location that was found first.
    fn decode(&mut self, input: &[u8], exchange: &Exchange) -> Result<Chunk, HeadError> {
        if self.decoder.is_none() {
            let limit = exchange.scope.policy.request_body.client_max_body_size.unwrap_or(u64::MAX);
            // A length that was declared is judged with the location; only chunks can still surprise.
            let limit = if self.framing.body == BodyLength::Chunked { limit } else { u64::MAX };
            self.decoder = Some(Box::new(BodyDecoder::new(self.framing.body, limit)?));
        }
        self.decoder.as_mut().map_or(Ok(Chunk::End { consumed: 0 }), |decoder| decoder.decode(input))
    }

    /// Takes what the input has of the body.
    ///
    /// # Errors
    /// The body's framing is broken, or it is too long: what follows cannot be a request.
    pub(crate) fn take(
        &mut self,
        input: &mut Buffer,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Status> {
        while !self.body_done {
            let chunk = match self.decode(input.bytes(), exchange) {
                Ok(chunk) => chunk,
                Err(error) => {
                    exchange.log(Level::Error, error.reason);
                    self.refuse_last(exchange, error.status);
                    return Err(error.status);
                }
            };
            let (consumed, is_all) = match chunk {
                Chunk::Data { skip, length } => {
                    take(&input.bytes()[skip..skip + length]);
                    (skip + length, false)
                }
                Chunk::End { consumed } => {
                    self.body_done = true;
                    (consumed, true)
                }
                Chunk::NeedMore { consumed } => (consumed, true),
            };
            input.consume(consumed);
            exchange.request.length += consumed as u64;
            if is_all {
                break;
            }
        }
        Ok(())
    }

    /// Skips what the input has of the body and tells whether that was all of it.
    ///
    /// # Errors
    /// As [`Message::take`].
    pub(crate) fn skip(&mut self, input: &mut Buffer, exchange: &mut Exchange) -> Result<bool, Status> {
        if self.refused.is_none() {
            self.take(input, exchange, &mut |_| {})?;
        }
        Ok(self.body_done)
    }

    /// Whether the body is passed on as it comes, and the client has to send more of it.
    pub(crate) fn is_awaited(&self, exchange: &Exchange) -> bool {
        exchange.request.streaming.is_some() && !self.body_done
    }

    /// The code that a stream of HTTP/2 is cancelled with after the answer, unless it ends in order.
    pub(crate) fn code(&self) -> http2::Code {
        if self.is_malformed { http2::Code::PROTOCOL_ERROR } else { http2::Code::INTERNAL_ERROR }
    }

    /// Notes that this request is the last one of its connection, and why.
    pub(crate) fn refuse_last(&mut self, exchange: &mut Exchange, status: Status) {
        self.refused = Some(status);
        self.framing.keep_alive = false;
        exchange.wire.keep_alive = false;
    }
}

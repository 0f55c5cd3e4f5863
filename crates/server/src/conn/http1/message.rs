//! A request in HTTP/1 and its response: how both are framed, and how far they were read and sent.

use super::respond::Answer;
use crate::conn::pooled::Received;
use bytes::Bytes;
use contract::Exchange;
use engine::{Pace, Unknown};
use h1::{BodyDecoder, Chunk};
use http::semantics::BodyLength;
use http::{HeadError, Status};
use journal::Level;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use wire::{Buffer, Job, Timer};

/// A request in HTTP/1 and its response.
#[derive(Default)]
pub(crate) struct Message {
    /// What is left to read of the body; it is made when the location, and so its limit, is known.
    decoder: Option<Box<BodyDecoder>>,
    /// Whether the body was read to its end.
    pub(super) body_done: bool,
    /// What was read of a body that is passed on as it comes, and not handed on yet.
    pub(super) first: Bytes,
    /// How slowly the body comes, and what limits that.
    pub(super) pace: Option<(Pace, Timer)>,
    /// Whether the client went away in the middle of the body.
    pub(super) left: bool,
    /// How the response is framed.
    pub(super) answer: Option<Answer>,
    /// Content that is being sent after the output, from where it is.
    pub(super) content: Bytes,
    /// The part of a file that is being sent after the output.
    pub(super) part: Option<Box<Part>>,
    /// Whether the protocol was changed: bytes are not framed any more.
    pub(super) is_tunnel: bool,
    /// How the rest of the body is skipped after the response.
    pub(super) discarding: Option<Discarding>,
    /// What happens to the connection.
    pub(super) fate: Fate,
}

/// How the rest of a body is skipped.
pub(super) struct Discarding {
    pub(super) started: Instant,
    pub(super) pace: Pace,
}

/// What happens to the connection after a request.
#[derive(Default)]
pub(super) enum Fate {
    /// It waits for the next request.
    #[default]
    Kept,
    /// It is closed.
    Ended,
    /// It closes without a response.
    Refused,
    /// The response was cut off.
    Broken(io::Error),
}

/// A part of a file that is being sent.
pub(super) struct Part {
    pub(super) file: Arc<File>,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) unknown: Unknown,
    /// Whether the kernel sends the file; else it goes through memory (`sendfile off`).
    pub(super) by_kernel: bool,
    /// The most bytes that are sent in one turn.
    pub(super) chunk: u64,
    /// Up to where the file is known to be in memory.
    pub(super) warm_until: u64,
    /// Up to where it is sent in this turn.
    pub(super) turn_ends: u64,
    /// Whether other connections go first.
    pub(super) lets_others_go_first: bool,
    /// What another thread reads.
    pub(super) elsewhere: Option<Reading>,
}

/// What another thread reads of a file.
pub(super) enum Reading {
    /// Bytes that the kernel is to have in memory.
    Warming(Job<()>),
    /// Bytes to be sent.
    Bytes(Job<Vec<u8>>),
}

impl Message {
    /// Reads on in the body. Its limit is that of the location that was found first.
    fn decode(&mut self, input: &[u8], exchange: &Exchange, body: BodyLength) -> Result<Chunk, HeadError> {
        if self.decoder.is_none() {
            let limit = exchange.scope.policy.request_body.client_max_body_size.unwrap_or(u64::MAX);
            // A length that was declared is judged with the location; only chunks can still surprise.
            let limit = if body == BodyLength::Chunked { limit } else { u64::MAX };
            self.decoder = Some(Box::new(BodyDecoder::new(body, limit)?));
        }
        self.decoder.as_mut().map_or(Ok(Chunk::End { consumed: 0 }), |decoder| decoder.decode(input))
    }

    /// Takes what the input has of the body.
    ///
    /// # Errors
    /// The body's framing is broken, or it is too long: what follows cannot be a request.
    pub(super) fn take(
        &mut self,
        input: &mut Buffer,
        exchange: &mut Exchange,
        received: &mut Received,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Status> {
        while !self.body_done {
            let chunk = match self.decode(input.bytes(), exchange, received.framing.body) {
                Ok(chunk) => chunk,
                Err(error) => {
                    exchange.log(Level::Error, error.reason);
                    received.refuse_last(exchange, error.status);
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
    pub(super) fn skip(
        &mut self,
        input: &mut Buffer,
        exchange: &mut Exchange,
        received: &mut Received,
    ) -> Result<bool, Status> {
        if received.refused.is_none() {
            self.take(input, exchange, received, &mut |_| {})?;
        }
        Ok(self.body_done)
    }

    /// Whether the body is passed on as it comes, and the client has to send more of it.
    pub(super) fn is_awaited(&self, exchange: &Exchange) -> bool {
        exchange.request.streaming.is_some() && !self.body_done
    }
}

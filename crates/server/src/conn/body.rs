//! The body of a request: read for a handler that asks for it, or skipped.

use super::exchange::Begun;
use super::{Io, READ_SIZE, send};
use contract::Outcome;
use h1::Chunk;
use http::Status;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;

/// Reads the whole body into memory; `client_max_body_size` bounds it.
pub(crate) async fn read(io: &mut Io, begun: &mut Begun) -> Outcome {
    let policy = begun.flow.exchange.scope.policy.request_body.clone();
    if begun.framing.expect_continue {
        begun.framing.expect_continue = false;
        io.output.append(|out| out.extend_from_slice(h1::CONTINUE));
        if send::flush(io, policy.client_body_timeout).await.is_err() {
            return Outcome::Failed(Status::CLIENT_CLOSED);
        }
    }
    let mut content = Vec::new();
    while !begun.body_done {
        let chunk = match begun.decode(io.input.bytes()) {
            Ok(chunk) => chunk,
            Err(error) => {
                begun.framing_is_lost();
                return Outcome::Failed(error.status);
            }
        };
        match chunk {
            Chunk::Data { skip, length } => {
                content.extend_from_slice(&io.input.bytes()[skip..skip + length]);
                io.input.consume(skip + length);
            }
            Chunk::End { consumed } => {
                io.input.consume(consumed);
                begun.body_done = true;
            }
            Chunk::NeedMore { consumed } => {
                io.input.consume(consumed);
                if let Err(status) = more(io, policy.client_body_timeout).await {
                    begun.framing_is_lost();
                    return Outcome::Failed(status);
                }
            }
        }
    }
    begun.flow.exchange.request.length += content.len() as u64;
    begun.flow.exchange.request.body = Some(content.into());
    Outcome::Done
}

/// Skips the rest of a body, for at most `lingering_time`; tells whether its end came.
pub(crate) async fn discard(io: &mut Io, begun: &mut Begun) -> bool {
    let policy = begun.flow.exchange.scope.policy.lingering.clone();
    let started = Instant::now();
    loop {
        match begun.skip_body(io) {
            Ok(true) => return true,
            Ok(false) if begun.refused.is_none() => {}
            Ok(false) | Err(_) => return false,
        }
        let left = policy.time.saturating_sub(started.elapsed());
        if left.is_zero() || more(io, policy.timeout.min(left)).await.is_err() {
            return false;
        }
    }
}

/// Reads once.
pub(crate) async fn more(io: &mut Io, limit: Duration) -> Result<(), Status> {
    let Io { stream, timer, input, .. } = io;
    let room = input.room(READ_SIZE);
    let mut buffer = ReadBuf::new(room);
    let reading = timer.within(limit, poll_fn(|cx| stream.poll_read(cx, &mut buffer))).await;
    let count = buffer.filled().len();
    match reading {
        Err(_) => Err(Status::REQUEST_TIMEOUT),
        Ok(Err(_)) => Err(Status::CLIENT_CLOSED),
        Ok(Ok(())) if count == 0 => Err(Status::CLIENT_CLOSED),
        Ok(Ok(())) => {
            input.grew(count);
            Ok(())
        }
    }
}

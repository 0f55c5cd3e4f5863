//! The body of a request: read for a handler that asks for it, or skipped.

use super::exchange::Begun;
use super::{Io, READ_SIZE, send};
use contract::log::Level;
use contract::policy::RequestBodyPolicy;
use contract::{Outcome, RequestBody, Spool};
use h1::Chunk;
use http::Status;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;

/// Reads the whole body, into memory or a file; `client_max_body_size` bounds it.
pub(crate) async fn read(io: &mut Io, begun: &mut Begun) -> Outcome {
    let policy = begun.flow.exchange.scope.policy.request_body.clone();
    if begun.framing.expect_continue {
        begun.framing.expect_continue = false;
        io.output.append(|out| out.extend_from_slice(h1::CONTINUE));
        if send::flush(io, policy.client_body_timeout).await.is_err() {
            return Outcome::Failed(Status::CLIENT_CLOSED);
        }
    }
    let mut content = Content::default();
    while !begun.body_done {
        let chunk = match begun.decode(io.input.bytes()) {
            Ok(chunk) => chunk,
            Err(error) => {
                begun.framing_is_lost(error.status);
                return Outcome::Failed(error.status);
            }
        };
        match chunk {
            Chunk::Data { skip, length } => {
                if let Err(error) = content.append(&io.input.bytes()[skip..skip + length], &policy) {
                    let path = policy.client_body_temp_path.display();
                    let text = format!("the body of a request cannot be kept in \"{path}\" ({error})");
                    begun.flow.exchange.log(Level::Crit, &text);
                    begun.framing_is_lost(Status::INTERNAL_SERVER_ERROR);
                    return Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
                }
                io.input.consume(skip + length);
            }
            Chunk::End { consumed } => {
                io.input.consume(consumed);
                begun.body_done = true;
            }
            Chunk::NeedMore { consumed } => {
                io.input.consume(consumed);
                if let Err(status) = more(io, policy.client_body_timeout).await {
                    begun.framing_is_lost(status);
                    return Outcome::Failed(status);
                }
            }
        }
    }
    let body = content.finish();
    begun.flow.exchange.request.length += body.length();
    begun.flow.exchange.request.body = Some(body);
    Outcome::Done
}

/// What came of a body so far: in memory at first, in a file when it grows too long for that.
#[derive(Default)]
struct Content {
    memory: Vec<u8>,
    spool: Option<Spool>,
}

impl Content {
    fn append(&mut self, bytes: &[u8], policy: &RequestBodyPolicy) -> io::Result<()> {
        if self.memory.len() + bytes.len() > policy.client_body_buffer_size {
            let mut spool = match self.spool.take() {
                Some(spool) => spool,
                None => Spool::new(&policy.client_body_temp_path)?,
            };
            spool.append(&self.memory)?;
            spool.append(bytes)?;
            self.memory.clear();
            self.spool = Some(spool);
            return Ok(());
        }
        match &mut self.spool {
            Some(spool) => spool.append(bytes).map(|_| ()),
            None => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn finish(self) -> RequestBody {
        match self.spool {
            Some(spool) => RequestBody::File { file: Arc::clone(spool.file()), length: spool.length() },
            None => RequestBody::Memory(self.memory.into()),
        }
    }
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
        if left.is_zero() || more_unless_scarce(io, policy.timeout.min(left)).await.is_err() {
            return false;
        }
    }
}

/// Reads once what nobody needs: the connection ends where places for others are scarce.
pub(crate) async fn more_unless_scarce(io: &mut Io, limit: Duration) -> Result<(), Status> {
    let (thread, info) = (Rc::clone(io.thread()), Rc::clone(&io.info));
    let mut reading = pin!(more(io, limit));
    poll_fn(|cx| match thread.places.give_way(false, info.accepted.instant) {
        true => Poll::Ready(Err(Status::CLIENT_CLOSED)),
        false => reading.as_mut().poll(cx),
    })
    .await
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

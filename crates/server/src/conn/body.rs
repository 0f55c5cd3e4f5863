//! The body of a request: read for a handler that asks for it, brought as it comes, or skipped.

use super::exchange::Begun;
use super::pace::Pace;
use super::transport::Transport;
use super::{Io, READ_SIZE, send};
use bytes::Bytes;
use contract::log::Level;
use contract::policy::{BodyFile, RequestBodyPolicy};
use contract::{BodyFeed, BodyStream, FileName, Outcome, RequestBody, Spool};
use h1::Chunk;
use http::Status;
use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Reads the whole body, into memory or a file; `client_max_body_size` bounds it.
pub(crate) async fn read(io: &mut Io, begun: &mut Begun) -> Outcome {
    outcome(collect(io, begun, true).await)
}

/// Reads what is there of the body. If that is not all of it, the rest comes by a stream.
pub(crate) async fn open(io: &mut Io, begun: &mut Begun) -> Outcome {
    outcome(collect(io, begun, false).await)
}

fn outcome(result: Result<(), Status>) -> Outcome {
    result.map_or_else(Outcome::Failed, |()| Outcome::Done)
}

async fn collect(io: &mut Io, begun: &mut Begun, whole: bool) -> Result<(), Status> {
    if begun.feed.is_some() {
        return Ok(());
    }
    let policy = begun.flow.exchange.scope.policy.request_body.clone();
    expect(io, begun, &policy).await?;
    let file = if whole { policy.client_body_in_file_only } else { BodyFile::WhenLong };
    let in_memory = match file {
        BodyFile::WhenLong if whole => policy.client_body_buffer_size,
        BodyFile::WhenLong => usize::MAX,
        BodyFile::UntilTheEnd | BodyFile::Forever => 0,
    };
    let mut content = Content { memory: Vec::new(), spool: None, file, name: None };
    loop {
        let was_in_memory = content.spool.is_none();
        let kept = |bytes: &[u8]| content.append(bytes, in_memory, &policy.client_body_temp_path);
        take(io, begun, kept)?;
        if was_in_memory && content.spool.is_some() {
            let level = if file == BodyFile::WhenLong { Level::Warn } else { Level::Notice };
            let path = policy.client_body_temp_path.display();
            let text = format!("a client request body is buffered to a temporary file in {path}");
            begun.flow.exchange.log(level, &text);
        }
        if begun.body_done {
            if let Some(name) = content.name.take() {
                begun.flow.exchange.attach(name);
            }
            begun.flow.exchange.request.body = Some(content.finish());
            return Ok(());
        }
        let streams = !whole && content.memory.len() >= policy.client_body_buffer_size;
        if streams || !whole && !more_of_body(io, begun, true).await? {
            begin_stream(begun, content.memory.into());
            return Ok(());
        }
        if whole {
            more_of_body(io, begun, false).await?;
        }
    }
}

/// Tells a client that waits for leave to send its body that it may.
async fn expect(io: &mut Io, begun: &mut Begun, policy: &RequestBodyPolicy) -> Result<(), Status> {
    if std::mem::take(&mut begun.framing.expect_continue) {
        io.output.append(|out| out.extend_from_slice(h1::CONTINUE));
        let mut pace = Pace::new(policy.client_body_timeout, 0);
        let flushed = send::flush(io, &mut pace).await;
        flushed.map_err(|_| Status::CLIENT_CLOSED)?;
    }
    Ok(())
}

fn begin_stream(begun: &mut Begun, first: Bytes) {
    let (feed, stream) = BodyStream::new();
    if !first.is_empty() {
        feed.give(first);
    }
    begun.flow.exchange.request.stream = Some(stream);
    begun.feed = Some(feed);
}

/// Takes what the input has of the body.
fn take(io: &mut Io, begun: &mut Begun, mut keep: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Status> {
    while !begun.body_done {
        let chunk = match begun.decode(io.input.bytes()) {
            Ok(chunk) => chunk,
            Err(error) => {
                begun.flow.exchange.log(Level::Error, error.reason);
                begun.framing_is_lost(error.status);
                return Err(error.status);
            }
        };
        let consumed = match chunk {
            Chunk::Data { skip, length } => {
                if let Err(error) = keep(&io.input.bytes()[skip..skip + length]) {
                    let path = &begun.flow.exchange.scope.policy.request_body.client_body_temp_path;
                    let text =
                        format!("the body of a request cannot be kept in \"{}\" ({error})", path.display());
                    begun.flow.exchange.log(Level::Crit, &text);
                    begun.framing_is_lost(Status::INTERNAL_SERVER_ERROR);
                    return Err(Status::INTERNAL_SERVER_ERROR);
                }
                skip + length
            }
            Chunk::End { consumed } => {
                begun.body_done = true;
                consumed
            }
            Chunk::NeedMore { consumed } => {
                io.input.consume(consumed);
                begun.flow.exchange.request.length += consumed as u64;
                break;
            }
        };
        io.input.consume(consumed);
        begun.flow.exchange.request.length += consumed as u64;
    }
    Ok(())
}

/// Brings the rest of a body to whoever takes it, no faster than that, until it is whole.
///
/// # Errors
/// The status of a body that cannot be completed.
pub(crate) async fn bring(io: &mut Io, begun: &mut Begun) -> Result<(), Status> {
    while let Some(feed) = &begun.feed {
        tokio::select! {
            biased;
            () = poll_fn(|cx| feed.poll_room(cx)) => {}
            () = sends_no_more(io) => return Err(give_up(begun, Status::CLIENT_CLOSED)),
        }
        let mut piece = Vec::new();
        let taken = take(io, begun, |bytes| {
            piece.extend_from_slice(bytes);
            Ok(())
        });
        if let Err(status) = taken {
            begun.feed = None;
            return Err(status);
        }
        let is_empty = piece.is_empty();
        if let Some(feed) = &begun.feed
            && !is_empty
        {
            feed.give(piece.into());
        }
        if begun.body_done {
            begun.feed.take().into_iter().for_each(BodyFeed::finish);
        } else if is_empty {
            more_of_body(io, begun, false).await?;
        }
    }
    Ok(())
}

/// Ready when the client has closed its side. What it sent before, such as a further request or the end of its
/// encryption, stays where it is and does not hide that.
pub(crate) async fn client_left(io: &mut Io) {
    until_gone(io, Transport::poll_ended).await;
}

/// Ready when nothing is there of the rest of a body, and nothing will come.
async fn sends_no_more(io: &mut Io) {
    until_gone(io, |stream, cx| match ready!(stream.poll_peek(cx, &mut [0])) {
        Ok(0) | Err(_) => Poll::Ready(Ok(())),
        Ok(_) => Poll::Pending,
    })
    .await;
}

async fn until_gone(
    io: &mut Io,
    mut look: impl FnMut(&mut Transport, &mut Context<'_>) -> Poll<io::Result<()>>,
) {
    io.timer.clear();
    poll_fn(|cx| match look(&mut io.stream, cx) {
        // What cannot be waited for is as good as gone.
        Poll::Ready(_) => Poll::Ready(()),
        // It is not set: by it all who wait are found when the time of a site is over.
        Poll::Pending => io.timer.poll(cx),
    })
    .await;
}

/// Ready when places are scarce and this one is to be given to others.
pub(crate) async fn place_is_wanted(io: &Io) {
    poll_fn(|cx| match io.thread().places.give_way(false, io.info.accepted.instant) {
        true => Poll::Ready(()),
        // By it all who wait are found when others need places, and when the time of a site is over.
        false => io.timer.poll(cx),
    })
    .await;
}

/// Reads more of a body, or with `only_ready` what is there without waiting, and tells whether there was anything.
async fn more_of_body(io: &mut Io, begun: &mut Begun, only_ready: bool) -> Result<bool, Status> {
    let policy = &begun.flow.exchange.scope.policy.request_body;
    let pace = begun.pace.get_or_insert_with(|| Pace::of_body(policy));
    let reading = async {
        let mut reading = pin!(more(io, pace));
        poll_fn(|cx| match reading.as_mut().poll(cx) {
            Poll::Pending if only_ready => Poll::Ready(Ok(false)),
            polled => polled.map_ok(|()| true),
        })
        .await
    };
    let result = reading.await;
    result.map_err(|status| give_up(begun, status))
}

/// Takes note that the rest of a body never comes.
fn give_up(begun: &mut Begun, status: Status) -> Status {
    let (reason, left) = match status {
        Status::REQUEST_TIMEOUT => ("client timed out (110: Connection timed out)", false),
        _ => ("client prematurely closed connection", true),
    };
    begun.flow.exchange.log(Level::Info, reason);
    begun.framing_is_lost(status);
    begun.feed = None;
    begun.left = left;
    status
}

/// What came of a body so far: in memory at first, in a file when it grows too long for that.
struct Content {
    memory: Vec<u8>,
    spool: Option<Spool>,
    file: BodyFile,
    name: Option<FileName>,
}

impl Content {
    fn append(&mut self, bytes: &[u8], in_memory: usize, directory: &Path) -> io::Result<()> {
        if self.memory.len() + bytes.len() > in_memory {
            let mut spool = match self.spool.take() {
                Some(spool) => spool,
                None => self.begin_file(directory)?,
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

    fn begin_file(&mut self, directory: &Path) -> io::Result<Spool> {
        if self.file == BodyFile::WhenLong {
            return Spool::new(directory);
        }
        let (spool, name) = Spool::named(directory)?;
        self.name = Some(if self.file == BodyFile::Forever { name.staying() } else { name });
        Ok(spool)
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
    let mut pace = Pace::new(limit, 0);
    let mut reading = pin!(more(io, &mut pace));
    poll_fn(|cx| match thread.places.give_way(false, info.accepted.instant) {
        true => Poll::Ready(Err(Status::CLIENT_CLOSED)),
        false => reading.as_mut().poll(cx),
    })
    .await
}

/// Reads once.
async fn more(io: &mut Io, pace: &mut Pace) -> Result<(), Status> {
    let Io { stream, timer, input, .. } = io;
    let reading = poll_fn(|cx| {
        let polled = stream.poll_read(cx, input.room(READ_SIZE));
        input.release_if_pending(polled)
    });
    match pace.within(timer, reading).await {
        Err(_) => Err(Status::REQUEST_TIMEOUT),
        Ok(Err(_) | Ok(0)) => Err(Status::CLIENT_CLOSED),
        Ok(Ok(count)) => {
            pace.moved(count as u64);
            input.grew(count);
            Ok(())
        }
    }
}

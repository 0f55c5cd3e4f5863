//! Reading the body of a request for a handler that asks for it: whole, or as much as is there.

use super::end::{End, Sent};
use super::pace::Pace;
use contract::policy::{BodyFile, RequestBodyPolicy};
use contract::{Exchange, Reach, RequestBody, Streaming};
use http::{Fields, Status};
use journal::Level;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::memory::{self, Held};
use wire::{FileName, Spool};

/// A body that is shorter is not counted while it is kept, in bytes.
const COUNTED_MIN: usize = 4096;

/// A body that is being read, into memory or a file; `client_max_body_size` bounds it.
pub(crate) struct Collecting {
    policy: RequestBodyPolicy,
    /// Whether all of it is wanted. Else the rest is read by the task that wants it.
    whole: bool,
    /// How much of the body is kept in memory, in bytes.
    in_memory: usize,
    content: Content,
    /// How long the client may take nothing of what invites it.
    pace: Pace,
    held: Held,
}

impl Collecting {
    pub(crate) fn new(exchange: &mut Exchange, whole: bool, end: &mut dyn End) -> Collecting {
        let policy = exchange.scope.policy.request_body.clone();
        end.interim(exchange, Status::CONTINUE, &Fields::new());
        let file = if whole { policy.client_body_in_file_only } else { BodyFile::WhenLong };
        let in_memory = match file {
            BodyFile::WhenLong if whole => policy.client_body_buffer_size,
            BodyFile::WhenLong => usize::MAX,
            BodyFile::UntilTheEnd | BodyFile::Forever => 0,
        };
        let pace = Pace::new(policy.client_body_timeout, 0);
        let content = Content { memory: Vec::new(), spool: None, file, name: None };
        Collecting { policy, whole, in_memory, content, pace, held: Held::default() }
    }

    /// Ready when the body was read as far as it is wanted.
    ///
    /// # Errors
    /// The status of a body that cannot be completed or kept.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        end: &mut dyn End,
    ) -> Poll<Result<(), Status>> {
        loop {
            match end.send(cx, exchange, usize::MAX) {
                Ok(Sent::All) => break,
                Ok(Sent::Some(_)) => {}
                Ok(Sent::AwaitsClient | Sent::AwaitsServer) => {
                    let Some(timer) = end.timer() else { return Poll::Pending };
                    return self
                        .pace
                        .limit(timer, cx, Poll::<()>::Pending)
                        .map(|_| Err(Status::CLIENT_CLOSED));
                }
                Err(_) => return Poll::Ready(Err(Status::CLIENT_CLOSED)),
            }
        }
        loop {
            match self.take(cx, exchange, end) {
                Poll::Ready(Ok(true)) => {
                    let is_full = self.content.memory.len() >= self.policy.client_body_buffer_size;
                    if !self.whole && is_full {
                        return Poll::Ready(self.stream(exchange, end));
                    }
                }
                Poll::Ready(Ok(false)) => {
                    if let Some(name) = self.content.name.take() {
                        exchange.attach(Reach::Shared, Rc::new(name));
                    }
                    if self.content.memory.len() >= COUNTED_MIN {
                        exchange.attach(Reach::Shared, Rc::new(std::mem::take(&mut self.held)));
                    }
                    (exchange.request.body, exchange.request.streaming) = (Some(self.content.finish()), None);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(status)) => return Poll::Ready(Err(status)),
                // What is there without waiting is enough.
                Poll::Pending if !self.whole => return Poll::Ready(self.stream(exchange, end)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes what comes next of the body, and keeps it.
    fn take(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        end: &mut dyn End,
    ) -> Poll<Result<bool, Status>> {
        let was_in_memory = self.content.spool.is_none();
        let (mut result, content, policy) = (Ok(()), &mut self.content, &self.policy);
        let polled = end.poll_take(cx, exchange, &mut |bytes| {
            if result.is_ok() {
                result = content.append(bytes, self.in_memory, &policy.client_body_temp_path);
            }
        });
        let lacks_file = content.file != BodyFile::WhenLong && content.spool.is_none();
        if lacks_file && result.is_ok() && matches!(polled, Poll::Ready(Ok(false))) {
            // A body without content has a file where every body has one.
            result =
                content.begin_file(&policy.client_body_temp_path).map(|spool| content.spool = Some(spool));
        }
        if let Err(error) = result {
            let path = policy.client_body_temp_path.display();
            let text = format!("the body of a request cannot be kept in \"{path}\" ({error})");
            exchange.log(Level::Crit, &text);
            end.give_up_body(exchange, Status::INTERNAL_SERVER_ERROR);
            return Poll::Ready(Err(Status::INTERNAL_SERVER_ERROR));
        }
        self.held.set(content.memory.len());
        if !content.memory.is_empty() && memory::is_exhausted() {
            exchange.log(Level::Error, "no memory is left for the body of a request (request_memory)");
            end.give_up_body(exchange, Status::SERVICE_UNAVAILABLE);
            return Poll::Ready(Err(Status::SERVICE_UNAVAILABLE));
        }
        if was_in_memory && content.spool.is_some() {
            let level = if content.file == BodyFile::WhenLong { Level::Warn } else { Level::Notice };
            let path = policy.client_body_temp_path.display();
            let text = format!("a client request body is buffered to a temporary file in {path}");
            exchange.log(level, &text);
        }
        polled
    }

    /// Leaves the rest to the task that wants it.
    fn stream(&mut self, exchange: &mut Exchange, end: &mut dyn End) -> Result<(), Status> {
        end.put_back(std::mem::take(&mut self.content.memory).into());
        exchange.request.streaming = Some(Streaming::Untouched);
        Ok(())
    }
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

    fn finish(&mut self) -> RequestBody {
        match self.spool.take() {
            Some(spool) => RequestBody::File { file: Arc::clone(spool.file()), length: spool.length() },
            None => RequestBody::Memory(std::mem::take(&mut self.memory).into()),
        }
    }
}

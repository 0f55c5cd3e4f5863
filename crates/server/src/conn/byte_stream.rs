//! The bytes of a connection that is one stream: what arrived and was not used yet, and what was not sent yet.

use contract::Exchange;
use contract::policy::LingeringPolicy;
use engine::Pace;
use http::Status;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use wire::{Buffer, Timer, Transport};

/// The room for one read.
pub(super) const READ_SIZE: usize = 16 * 1024;

/// The bytes of a connection in both directions. Only it knows the descriptor.
pub(super) struct ByteStream {
    pub(super) transport: Transport,
    /// What was read and not used yet.
    pub(super) input: Buffer,
    /// Answers that were not written yet.
    pub(super) output: Buffer,
    /// How long the client may be waited for while it takes no answer.
    pub(super) send_timeout: Duration,
    /// Whether the last bytes wait for the end of the connection.
    pub(super) is_held: bool,
    /// Whether the client speaks in clear where it should not.
    pub(super) clear_by_mistake: bool,
    /// How often the connection went on at another address (`pass`).
    pub(super) passes: u8,
}

/// How far the output was written at once.
pub(super) enum Flushed {
    All,
    /// The client has to take more first.
    Part,
    /// The client is gone.
    Gone,
}

impl ByteStream {
    pub(super) fn new(transport: Transport) -> ByteStream {
        let (input, output) = (Buffer::default(), Buffer::default());
        let (send_timeout, is_held, clear_by_mistake) = (Duration::ZERO, false, false);
        ByteStream { transport, input, output, send_timeout, is_held, clear_by_mistake, passes: 0 }
    }

    /// How much memory the buffers have, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Reads what is there behind the input.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // A head that comes in parts takes no further memory as long as there is some left.
        let least = if self.input.is_empty() { READ_SIZE } else { READ_SIZE / 4 };
        self.transport.poll_read_into(cx, &mut self.input, least)
    }

    /// Reads bytes as they are: first what came together with what was read before.
    #[inline]
    pub(super) fn poll_read_raw(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.input.is_empty() {
            true => self.transport.poll_read(cx, room),
            false => Poll::Ready(Ok(self.input.take(room))),
        }
    }

    /// Writes a part of bytes as they are, and counts it.
    #[inline]
    pub(super) fn poll_write_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.transport.poll_write(cx, bytes))?;
        exchange.wire.bytes += count as u64;
        Poll::Ready(Ok(count))
    }

    /// Reads once, as long as the client may still take for it.
    pub(super) fn poll_paced(
        &mut self,
        cx: &mut Context<'_>,
        pace: &mut Pace,
        timer: &Timer,
    ) -> Poll<Result<(), Status>> {
        let polled = self.transport.poll_read_into(cx, &mut self.input, READ_SIZE);
        Poll::Ready(match ready!(pace.limit(timer, cx, polled)) {
            Err(_) => Err(Status::REQUEST_TIMEOUT),
            Ok(Err(_) | Ok(0)) => Err(Status::CLIENT_CLOSED),
            Ok(Ok(count)) => {
                pace.moved(count as u64, Some(timer));
                Ok(())
            }
        })
    }

    /// Writes output as far as the client takes it.
    pub(super) fn flush_now(&mut self, cx: &mut Context<'_>) -> Flushed {
        while !self.output.is_empty() {
            match self.transport.poll_write(cx, self.output.bytes()) {
                Poll::Ready(Ok(count)) => self.output.consume(count),
                Poll::Ready(Err(_)) => return Flushed::Gone,
                Poll::Pending => return Flushed::Part,
            }
        }
        self.output.release();
        Flushed::All
    }

    /// Writes all output. With `holds` the kernel expects more, so that the last bytes leave with the end of
    /// the connection.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        pace: &mut Pace,
        timer: &Timer,
        holds: bool,
    ) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let polled = match holds {
                true => self.transport.poll_write_more(cx, self.output.bytes()),
                false => self.transport.poll_write(cx, self.output.bytes()),
            };
            let polled = self.input.release_if_pending(polled);
            let Ok(count) = ready!(pace.limit(timer, cx, polled)) else {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            };
            let count = count?;
            pace.moved(count as u64, Some(timer));
            self.output.consume(count);
        }
        self.output.release();
        Poll::Ready(Ok(()))
    }

    /// Closes at once, where `reset_timedout_connection` asks for it, what a slow client left unread.
    pub(super) fn reset_if_timed_out(&self, error: &io::Error, policy: &LingeringPolicy) {
        if error.kind() == io::ErrorKind::TimedOut && policy.reset_timed_out {
            drop(self.transport.set_linger_zero());
        }
    }
}

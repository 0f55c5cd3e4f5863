//! After a change of protocol: bytes go both ways until one side has ended and the other has all of it, one of
//! them breaks, or both are silent for too long.

use super::pool::Buffer;
use super::transport::Transport;
use super::{Io, READ_SIZE};
use contract::{Duplex, Tunnel};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

/// Copies until the end; gives back how many bytes went to the client, without those of the response's head, which
/// are in the output and were counted.
pub(crate) async fn run(io: &mut Io, tunnel: Tunnel) -> u64 {
    let Tunnel { mut far, first, idle } = tunnel;
    let head_length = io.output.bytes().len() as u64;
    io.output.append(|out| out.extend_from_slice(&first));
    let Io { stream, timer, input, output, .. } = io;
    let mut up = Way::new(std::mem::take(input));
    let mut down = Way::new(std::mem::take(output));
    timer.set(idle);
    poll_fn(|cx| {
        let mut near = Near(stream);
        match (up.poll(&mut near, &mut *far, cx), down.poll(&mut *far, &mut near, cx)) {
            (Err(_), _) | (_, Err(_)) => return Poll::Ready(()),
            (Ok(moved_up), Ok(moved_down)) if moved_up || moved_down => timer.set(idle),
            (Ok(_), Ok(_)) => {}
        }
        if up.ended || down.ended {
            return Poll::Ready(());
        }
        timer.poll(cx)
    })
    .await;
    timer.clear();
    down.written.saturating_sub(head_length)
}

/// One direction.
struct Way {
    buffer: Buffer,
    /// The source has sent its last byte.
    source_ended: bool,
    /// All was handed on.
    ended: bool,
    written: u64,
}

impl Way {
    fn new(buffer: Buffer) -> Way {
        Way { buffer, source_ended: false, ended: false, written: 0 }
    }

    /// Moves what can be moved now; tells whether that was anything.
    fn poll(
        &mut self,
        source: &mut dyn Duplex,
        sink: &mut dyn Duplex,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut moved = false;
        while !self.ended {
            let step = if !self.buffer.is_empty() {
                self.write(sink, cx)
            } else if self.source_ended {
                self.ended = true;
                return Ok(true);
            } else {
                self.read(source, cx)
            };
            match step {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(moved),
            }
            moved = true;
        }
        Ok(moved)
    }

    fn write(&mut self, sink: &mut dyn Duplex, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        sink.poll_write(cx, self.buffer.bytes()).map_ok(|count| {
            self.buffer.consume(count);
            self.written += count as u64;
        })
    }

    fn read(&mut self, source: &mut dyn Duplex, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = source.poll_read(cx, self.buffer.room(READ_SIZE));
        let count = ready!(self.buffer.release_if_pending(polled))?;
        self.buffer.grew(count);
        self.source_ended = count == 0;
        Poll::Ready(Ok(()))
    }
}

/// The client's side.
struct Near<'a>(&'a mut Transport);

impl Duplex for Near<'_> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buffer)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }
}

//! After a change of protocol: bytes go both ways until one side has ended and the other has all of it, one of
//! them breaks, or both are silent for too long. A client of HTTP/2 that has ended its side still gets the rest of the other.

use super::end::{End, Sent};
use crate::pipeline::Flow;
use bytes::Bytes;
use contract::{Duplex, Piece, Tunnel};
use std::task::{Context, Poll};
use std::time::Duration;
use wire::Buffer;

/// How much is read at once.
const READ_SIZE: usize = 16 * 1024;

/// A tunnel between the client and another server.
pub(super) struct Tunnelling {
    far: Box<dyn Duplex>,
    idle: Duration,
    /// What the client sent and the upstream server did not take yet.
    up: Buffer,
    /// Whether the client has sent its last byte, and the upstream server.
    ended: (bool, bool),
}

/// The tunnel is over.
struct Over;

impl Tunnelling {
    pub(super) fn new(tunnel: Tunnel, flow: &mut Flow, end: &mut dyn End) -> Tunnelling {
        let Tunnel { far, first, idle } = tunnel;
        if !first.is_empty() {
            end.give(&mut flow.exchange, Piece::Bytes(first));
        }
        if let Some(timer) = end.timer() {
            timer.set(idle);
        }
        Tunnelling { far, idle, up: Buffer::default(), ended: (false, false) }
    }

    /// Moves what can be moved; ready at the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, flow: &mut Flow, end: &mut dyn End) -> Poll<()> {
        // Also where one way is over: the other may have something to move.
        let (up, down) = (self.poll_up(cx, flow, end), self.poll_down(cx, flow, end));
        let (Ok(up), Ok(down)) = (up, down) else { return Poll::Ready(()) };
        let Some(timer) = end.timer() else { return Poll::Pending };
        if up || down {
            timer.set(self.idle);
        }
        timer.poll(cx)
    }

    /// Moves what comes from the client; tells whether that was anything.
    fn poll_up(&mut self, cx: &mut Context<'_>, flow: &mut Flow, end: &mut dyn End) -> Result<bool, Over> {
        let mut moved = false;
        loop {
            let up = &mut self.up;
            if !up.is_empty() {
                match self.far.poll_write(cx, up.bytes()) {
                    Poll::Ready(Ok(count)) => up.consume(count),
                    Poll::Ready(Err(_)) => return Err(Over),
                    Poll::Pending => return Ok(moved),
                }
            } else if self.ended.0 {
                return if end.receives_after_its_end() { Ok(moved) } else { Err(Over) };
            } else {
                up.release();
                let mut take = |bytes: &[u8]| up.append(|up| up.extend_from_slice(bytes));
                match end.poll_take(cx, &mut flow.exchange, &mut take) {
                    Poll::Ready(Ok(has_more)) => self.ended.0 = !has_more,
                    Poll::Ready(Err(_)) => return Err(Over),
                    Poll::Pending => return Ok(moved),
                }
            }
            moved = true;
        }
    }

    /// Moves what comes from the upstream server; tells whether that was anything.
    fn poll_down(&mut self, cx: &mut Context<'_>, flow: &mut Flow, end: &mut dyn End) -> Result<bool, Over> {
        let mut moved = false;
        loop {
            match end.send(cx, &mut flow.exchange, usize::MAX) {
                Ok(Sent::Some(_)) => {
                    moved = true;
                    continue;
                }
                Ok(Sent::All) if self.ended.1 => return Err(Over),
                Ok(_) if self.ended.1 || !end.has_room() => return Ok(moved),
                Ok(_) => {}
                Err(_) => return Err(Over),
            }
            let mut down = Buffer::default();
            match self.far.poll_read(cx, down.room(READ_SIZE)) {
                Poll::Ready(Ok(0)) => self.ended.1 = true,
                Poll::Ready(Ok(count)) => {
                    down.grew(count);
                    let bytes = Bytes::copy_from_slice(down.bytes());
                    end.give(&mut flow.exchange, Piece::Bytes(bytes));
                }
                Poll::Ready(Err(_)) => return Err(Over),
                Poll::Pending => return Ok(moved),
            }
            moved = true;
        }
    }
}

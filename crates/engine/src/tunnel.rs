//! After a change of protocol: bytes go both ways until both sides have ended, one of them breaks, or both are silent for
//! too long. Without `half_close`, the tunnel ends when one side has ended and the other has all of it.
//!
//! Much at once goes through a pipe in the kernel where both sides are in clear, instead of through memory.

use super::end::{End, Sent};
use crate::pipeline::Flow;
use contract::{Duplex, Exchange, PIPE_BYTES, Piece, Pipe, Tunnel};
use journal::clock::Time;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::memory::Held;
use wire::{Buffer, Throttle, Timer, with_room};

/// After how many reads in a row that filled their room the bytes go through a pipe.
const BULK_READS: u8 = 4;

/// A pipe that gets less than this is of no use: memory is as fast.
const LITTLE_BYTES: usize = 8 * 1024;

/// A tunnel between the client and another server.
pub(super) struct Tunnelling {
    far: Box<dyn Duplex>,
    /// From the client to the upstream server.
    up: Way,
    /// From the upstream server to the client.
    down: Way,
    /// How long both may be silent.
    idle: Duration,
    /// How long one side may be silent after the other has ended; without it, the tunnel ends then.
    half_close: Option<Duration>,
    /// When bytes were moved last, in milliseconds of uptime.
    moved_ms: u64,
    held: Held,
}

/// One direction of a tunnel.
#[derive(Default)]
struct Way {
    /// What was read and the receiver did not take yet.
    rest: Buffer,
    /// Whether the sender sends no more.
    is_ended: bool,
    /// Whether the receiver knows that.
    is_told: bool,
    /// How fast more is read, if that is limited.
    throttle: Option<Box<Throttle>>,
    /// How many reads in a row filled their room.
    full_reads: u8,
    /// What was moved into it and the receiver did not take yet.
    pipe: Option<Pipe>,
    /// Whether the bytes cannot go through a pipe.
    is_unspliced: bool,
}

/// The client of a tunnel.
struct Near<'a, E: ?Sized> {
    end: &'a mut E,
    exchange: &'a mut Exchange,
}

impl<E: End + ?Sized> Duplex for Near<'_, E> {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.end.poll_read_raw(cx, self.exchange, buffer)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.end.poll_write_raw(cx, self.exchange, bytes)
    }

    fn poll_end_writing(&mut self, cx: &mut Context<'_>, _: bool) -> Poll<()> {
        self.end.poll_end_writing(cx, self.exchange)
    }

    fn splices(&mut self) -> bool {
        self.end.splices_raw()
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        self.end.poll_fill_raw(cx, self.exchange, pipe)
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        self.end.poll_drain_raw(cx, self.exchange, pipe)
    }
}

/// The tunnel is over.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

impl Way {
    fn new(rate: u64) -> Way {
        Way { throttle: Throttle::new(rate, 0, Instant::now()).map(Box::new), ..Way::default() }
    }

    /// Moves what is left, or else what can be read now, which is written from where it was read. Returns whether bytes were
    /// moved or the sender has ended.
    #[inline]
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        from: &mut (impl Duplex + ?Sized),
        to: &mut (impl Duplex + ?Sized),
    ) -> Result<bool, Over> {
        if self.pipe.is_some() {
            return self.drain(cx, to);
        }
        if !self.rest.is_empty() {
            let Poll::Ready(count) = to.poll_write(cx, self.rest.bytes())? else { return Ok(false) };
            self.rest.consume(count);
            self.rest.release();
            return Ok(true);
        }
        if self.is_ended {
            return Ok(false);
        }
        if self.full_reads >= BULK_READS && self.may_splice(from, to) {
            return self.fill(cx, from, to);
        }
        let most = match &mut self.throttle {
            None => room.len(),
            Some(throttle) => match throttle.poll_allowance(cx) {
                Poll::Ready(allowance) => allowance.min(room.len()),
                Poll::Pending => return Ok(false),
            },
        };
        let Poll::Ready(count) = from.poll_read(cx, &mut room[..most])? else { return Ok(false) };
        self.full_reads = if count == room.len() { (self.full_reads + 1).min(BULK_READS) } else { 0 };
        if let Some(throttle) = &mut self.throttle {
            throttle.moved(count as u64, Instant::now());
        }
        if count == 0 {
            self.is_ended = true;
            return Ok(true);
        }
        let bytes = &room[..count];
        let written = match to.poll_write(cx, bytes)? {
            Poll::Ready(count) => count,
            Poll::Pending => 0,
        };
        if written < count {
            self.rest.append(|rest| rest.extend_from_slice(&bytes[written..]));
        }
        Ok(true)
    }

    /// Whether the next bytes may go through a pipe: there is one, and no rate limits them.
    fn may_splice(&mut self, from: &mut (impl Duplex + ?Sized), to: &mut (impl Duplex + ?Sized)) -> bool {
        let may = !self.is_unspliced && self.throttle.is_none() && from.splices() && to.splices();
        self.pipe = if may { Pipe::borrow() } else { None };
        self.pipe.is_some()
    }

    /// Moves what is there into the empty pipe, and on. Returns as [`Way::pass`] does.
    fn fill(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl Duplex + ?Sized),
        to: &mut (impl Duplex + ?Sized),
    ) -> Result<bool, Over> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let count = match from.poll_fill(cx, pipe) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_unspliced = true;
                self.end_pipe();
                return Ok(true);
            }
            Poll::Ready(count) => count?,
            Poll::Pending => {
                self.end_pipe();
                return Ok(false);
            }
        };
        if count < LITTLE_BYTES {
            self.full_reads = 0;
        }
        if count == 0 {
            self.is_ended = true;
            self.end_pipe();
            return Ok(true);
        }
        self.drain(cx, to)?;
        Ok(true)
    }

    /// Moves on what the pipe has. Returns whether bytes were moved.
    fn drain(&mut self, cx: &mut Context<'_>, to: &mut (impl Duplex + ?Sized)) -> Result<bool, Over> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        match to.poll_drain(cx, pipe) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_unspliced = true;
                let mut taken = Ok(());
                self.rest.append(|rest| taken = pipe.take(rest));
                taken?;
            }
            Poll::Ready(count) => {
                count?;
            }
            Poll::Pending => return Ok(false),
        }
        if self.pipe.as_ref().is_some_and(Pipe::is_empty) {
            self.end_pipe();
        }
        Ok(true)
    }

    /// No tunnel keeps an empty pipe.
    fn end_pipe(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            pipe.give_back();
        }
    }

    /// How much memory its bytes have.
    fn memory(&self) -> usize {
        self.rest.capacity() + if self.pipe.is_some() { PIPE_BYTES } else { 0 }
    }

    /// Whether the receiver has all that the sender sent.
    fn is_over(&self) -> bool {
        self.is_ended && self.rest.is_empty() && self.pipe.is_none()
    }
}

impl Tunnelling {
    pub(super) fn new(tunnel: Tunnel, flow: &mut Flow, end: &mut dyn End) -> Tunnelling {
        let Tunnel { far, first, before, idle, half_close, rates } = tunnel;
        if !first.is_empty() {
            end.give(&mut flow.exchange, Piece::Bytes(first));
        }
        if let Some(timer) = end.timer() {
            timer.set(idle);
        }
        let (mut up, down) = (Way::new(rates.0), Way::new(rates.1));
        if !before.is_empty() {
            up.rest.append(|rest| rest.extend_from_slice(&before));
        }
        let moved_ms = Time::now().uptime_ms;
        Tunnelling { far, up, down, idle, half_close, moved_ms, held: Held::default() }
    }

    /// Moves what can be moved; ready at the end.
    pub(super) fn poll<E: End + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut E,
    ) -> Poll<()> {
        // Also where one way is over: the other may have something to move.
        let limit = self.silence_limit();
        let (up, down) =
            with_room(|room| (self.poll_up(cx, flow, end, room), self.poll_down(cx, flow, end, room)));
        let (Ok(up), Ok(down)) = (up, down) else { return Poll::Ready(()) };
        if self.is_over() {
            return Poll::Ready(());
        }
        self.held.set(self.up.memory() + self.down.memory());
        let has_moved = up || down;
        if has_moved {
            self.moved_ms = Time::now().uptime_ms;
        }
        if self.silence_limit() < limit
            && let Some(timer) = end.timer()
        {
            timer.set(self.silence_limit());
        }
        match end.timer() {
            Some(timer) if !has_moved || !timer.is_awaited() => self.poll_silence(cx, timer),
            _ => Poll::Pending,
        }
    }

    /// Ready when both sides were silent for too long. A message does not set the timer, which learns when it is due how long
    /// that was.
    fn poll_silence(&self, cx: &mut Context<'_>, timer: &Timer) -> Poll<()> {
        loop {
            ready!(timer.poll(cx));
            let silent = Duration::from_millis(Time::now().uptime_ms.saturating_sub(self.moved_ms));
            match self.silence_limit().checked_sub(silent) {
                Some(left) => timer.set(left),
                None => return Poll::Ready(()),
            }
        }
    }

    /// How long both sides may be silent.
    fn silence_limit(&self) -> Duration {
        match self.half_close {
            Some(limit) if self.up.is_told || self.down.is_told => limit,
            _ => self.idle,
        }
    }

    /// Whether nothing more can be moved.
    fn is_over(&self) -> bool {
        match self.half_close {
            Some(_) => self.up.is_told && self.down.is_told,
            None => self.up.is_told || self.down.is_told,
        }
    }

    /// Moves what comes from the client. Returns whether anything came.
    fn poll_up<E: End + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut E,
        room: &mut [u8],
    ) -> Result<bool, Over> {
        let Tunnelling { far, up, half_close, .. } = self;
        let mut near = Near { end, exchange: &mut flow.exchange };
        let mut moved = false;
        while up.pass(cx, room, &mut near, &mut **far)? {
            moved = true;
        }
        if up.is_over() && !up.is_told {
            up.is_told = far.poll_end_writing(cx, half_close.is_some()).is_ready();
        }
        Ok(moved)
    }

    /// Moves what comes from the upstream server. Returns whether anything came, or the client took more.
    fn poll_down<E: End + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut E,
        room: &mut [u8],
    ) -> Result<bool, Over> {
        let Tunnelling { far, down, half_close, .. } = self;
        let exchange = &mut flow.exchange;
        let mut moved = false;
        loop {
            let mut is_sent = !end.has_unsent();
            while !is_sent {
                match end.send(cx, exchange, usize::MAX)? {
                    Sent::Some(_) => moved = true,
                    Sent::All => is_sent = true,
                    Sent::AwaitsClient | Sent::AwaitsServer => break,
                }
            }
            if down.is_over() {
                if is_sent && !down.is_told {
                    down.is_told = half_close.is_none() || end.poll_end_writing(cx, exchange).is_ready();
                }
                return Ok(moved);
            }
            if !is_sent && !end.has_room() {
                return Ok(moved);
            }
            let mut near = Near { end: &mut *end, exchange: &mut *exchange };
            if !down.pass(cx, room, &mut **far, &mut near)? {
                return Ok(moved);
            }
            moved = true;
        }
    }
}

//! A connection to a server while it serves a request.

use crate::attempts::{Attempt, Attempts};
use crate::balance::Lease;
use crate::dialogue::Dialogue;
use crate::failure::{Failure, READING_HEAD, SENDING};
use crate::patience::Wait;
use crate::pool::{self, Parked};
use crate::secured::Secured;
use crate::tier::Counted;
use crate::upload::{Lost, Rest};
use contract::{Duplex, Tunnel, Turn};
use http::Status;
use journal::clock::Time;
use std::any::TypeId;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use wire::{Buffer, Transport};

/// A connection to a server while it serves a request.
pub(crate) struct Line {
    transport: Transport,
    /// The type of the dialogue.
    protocol: TypeId,
    /// How it is encrypted, if it is.
    secured: Option<Secured>,
    /// The address that it comes from, if that was set.
    local: Option<SocketAddr>,
    /// What was read and not used yet.
    pub(crate) input: Buffer,
    /// What is written next.
    output: Buffer,
    /// What is left of the request's body after that.
    rest: Rest,
    pub(crate) lease: Lease,
    clock: Clock,
    /// When the connection was opened, in milliseconds of uptime.
    opened_ms: u64,
    /// The connection is counted while it is open.
    counted: Counted,
    /// How many requests the connection served before.
    requests: u64,
    /// How many bytes of the request were sent.
    written: u64,
    /// Why the request could not be sent whole.
    pub(crate) broken: Option<io::Error>,
}

/// Notes how long an attempt took, however it ends.
pub(crate) struct Clock {
    attempts: Attempts,
    started_ms: u64,
    is_done: bool,
}

impl Clock {
    /// An attempt that begins now.
    pub(crate) fn start(attempts: &Attempts) -> Clock {
        Clock { attempts: attempts.clone(), started_ms: Time::now().uptime_ms, is_done: false }
    }

    fn note(&self, change: impl FnOnce(&mut Attempt)) {
        self.attempts.note(change);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(Time::now().uptime_ms.saturating_sub(self.started_ms))
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_done, true) {
            let elapsed = self.elapsed();
            self.note(|attempt| attempt.response_time = Some(elapsed));
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All was sent.
    All,
    /// The client has to send more.
    AwaitsClient,
    /// The server has to take more.
    AwaitsServer,
}

impl Line {
    /// A connection that stands.
    pub(crate) fn new(parked: Parked, lease: Lease, clock: Clock) -> Line {
        let elapsed = clock.elapsed();
        clock.note(|attempt| attempt.connect_time = Some(elapsed));
        let Parked { transport, protocol, kept: _, secured, local, requests, opened_ms, counted } = parked;
        Line {
            transport,
            protocol,
            secured,
            local,
            input: Buffer::default(),
            output: Buffer::default(),
            rest: Rest::Nothing,
            lease,
            clock,
            opened_ms,
            counted,
            requests,
            written: 0,
            broken: None,
        }
    }

    /// Takes a request, which is sent while its answer is read.
    pub(crate) fn send(&mut self, dialogue: &mut impl Dialogue, body: Rest) {
        self.output.append(|out| dialogue.begin(out));
        self.rest = body;
    }

    /// Whether the connection served a request before: the server may have closed it in the meantime.
    pub(crate) fn served_before(&self) -> bool {
        self.requests > 0
    }

    /// How many bytes of the request were sent; not 0 if the first ones may have left.
    pub(crate) fn sent(&self) -> u64 {
        self.written.max(u64::from(self.transport.is_sending()))
    }

    /// Whether the server took the whole request.
    fn took_all(&self) -> bool {
        self.rest.is_nothing() && self.output.is_empty() && self.broken.is_none()
    }

    /// Sends what can be sent now. A connection that takes no more may still bring an answer.
    ///
    /// # Errors
    /// The client does not send the rest of the body.
    pub(crate) fn poll_send(
        &mut self,
        turn: &mut Turn<'_, '_>,
        dialogue: &mut impl Dialogue,
    ) -> Result<Sent, Status> {
        if self.broken.is_some() || (self.took_all() && !dialogue.has_pending()) {
            return Ok(Sent::All);
        }
        loop {
            if dialogue.has_pending() {
                self.output.append(|out| dialogue.append_pending(out));
            }
            // What follows the head at once leaves with it.
            let polled = match dialogue.is_blocked() {
                true => Poll::Ready(Ok(())),
                false => self.rest.poll_append(turn, dialogue, &mut self.output),
            };
            let appended = match polled {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(Lost::Client(status))) => return Err(status),
                Poll::Ready(Err(Lost::File(error))) => {
                    self.broken = Some(error);
                    return Ok(Sent::All);
                }
                Poll::Pending => false,
            };
            while !self.output.is_empty() {
                match self.transport.poll_write(turn.cx, self.output.bytes()) {
                    Poll::Ready(Ok(count)) => {
                        self.output.consume(count);
                        self.written += count as u64;
                        self.clock.note(|attempt| attempt.sent += count as u64);
                    }
                    Poll::Ready(Err(error)) => {
                        self.broken = Some(error);
                        return Ok(Sent::All);
                    }
                    Poll::Pending => return Ok(Sent::AwaitsServer),
                }
            }
            self.output.release();
            if dialogue.is_blocked() {
                return Ok(Sent::AwaitsServer);
            }
            if !appended {
                return Ok(Sent::AwaitsClient);
            }
            if self.rest.is_nothing() {
                return Ok(Sent::All);
            }
        }
    }

    /// Reads once and appends to the input, with room for at least so many bytes, and returns how many came; 0 at the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, least: usize) -> Poll<io::Result<usize>> {
        let count = ready!(self.transport.poll_read_into(cx, &mut self.input, least))?;
        self.clock.note(|attempt| attempt.received += count as u64);
        Poll::Ready(Ok(count))
    }

    /// Reads once no more than so many bytes, otherwise as [`Line::poll_read`].
    pub(crate) fn poll_read_most(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let mut piece = vec![0; most];
        let count = ready!(self.transport.poll_read(cx, &mut piece))?;
        self.input.append(|input| input.extend_from_slice(&piece[..count]));
        self.clock.note(|attempt| attempt.received += count as u64);
        Poll::Ready(Ok(count))
    }

    /// The failure of a server whose answer ends before its head does.
    pub(crate) fn why_ended(&mut self, read: io::Result<usize>) -> Failure {
        match (self.broken.take(), read) {
            (Some(error), _) => Failure::io("send", &error, SENDING),
            (None, Err(error)) => Failure::io("recv", &error, READING_HEAD),
            (None, Ok(_)) => Failure::premature(READING_HEAD),
        }
    }

    /// The failure of a server that is silent for too long.
    pub(crate) fn why_silent(&mut self, wait: Wait) -> Failure {
        match (self.broken.take(), wait) {
            (Some(error), _) => Failure::io("send", &error, SENDING),
            (None, Wait::Send) => Failure::timed_out(SENDING),
            (None, Wait::Connect | Wait::Read) => Failure::timed_out(READING_HEAD),
        }
    }

    /// Gives up the connection.
    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }

    /// Notes that the head of the response is there.
    pub(crate) fn head_arrived(&self, status: Status) {
        let elapsed = self.clock.elapsed();
        self.clock.note(|attempt| {
            attempt.header_time = Some(elapsed);
            attempt.status = Some(status);
        });
    }

    /// Notes content.
    pub(crate) fn content_arrived(&self, length: usize) {
        self.clock.note(|attempt| attempt.length += length as u64);
    }

    /// The response is whole. If the connection can serve another request, it is kept for one.
    pub(crate) fn finish(mut self, dialogue: &mut impl Dialogue, reusable: bool, tag: usize) {
        self.clock.stop();
        if reusable && dialogue.has_pending() {
            self.send_pending(dialogue);
        }
        let keepalive = self.lease.group().keepalive;
        let requests = self.requests + 1;
        let age = Duration::from_millis(Time::now().uptime_ms.saturating_sub(self.opened_ms));
        let is_young = age <= keepalive.time && requests < keepalive.requests;
        if !reusable || !self.took_all() || keepalive.connections == 0 || !is_young || !self.input.is_empty()
        {
            self.transport.say_goodbye();
            return;
        }
        let Line { transport, protocol, secured, local, lease, opened_ms, counted, .. } = self;
        let kept = dialogue.disconnect();
        pool::put(
            &lease,
            tag,
            Parked { transport, protocol, kept, secured, local, requests, opened_ms, counted },
        );
    }

    /// Sends what the protocol still owes the server. What the connection does not take at once stays in the output.
    fn send_pending(&mut self, dialogue: &mut impl Dialogue) {
        self.output.append(|out| dialogue.append_pending(out));
        let mut cx = Context::from_waker(Waker::noop());
        while !self.output.is_empty()
            && let Poll::Ready(Ok(count @ 1..)) = self.transport.poll_write(&mut cx, self.output.bytes())
        {
            self.output.consume(count);
            self.clock.note(|attempt| attempt.sent += count as u64);
        }
    }

    /// The connection changes its protocol.
    pub(crate) fn into_tunnel(mut self, idle: Duration) -> Tunnel {
        let first = bytes::Bytes::copy_from_slice(self.input.bytes());
        self.input.consume(usize::MAX);
        self.input.release();
        Tunnel { far: Box::new(Far(self)), first, idle }
    }
}

/// The far end of a tunnel. The attempt lasts as long as this does.
struct Far(Line);

impl Drop for Far {
    fn drop(&mut self) {
        self.0.transport.say_goodbye();
    }
}

impl Duplex for Far {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.transport.poll_read(cx, buffer).map_ok(|count| {
            self.0.clock.note(|attempt| {
                attempt.received += count as u64;
                attempt.length += count as u64;
            });
            count
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.transport.poll_write(cx, bytes)
    }
}

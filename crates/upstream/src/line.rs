//! A connection to a server while it serves a request.

use crate::attempts::{Attempt, Attempts};
use crate::balance::Lease;
use crate::dialogue::Dialogue;
use crate::failure::{Failure, READING_HEAD, SENDING};
use crate::failures::Failures;
use crate::patience::Wait;
use crate::pool::{self, Parked};
use crate::shared::Member;
use crate::timing::Until;
use crate::upload::{Lost, PIECE, Rest};
use contract::{Duplex, Pipe, Tunnel, Turn};
use http::Status;
use journal::clock::Time;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use wire::Buffer;

/// How long one side of a tunnel may be silent after the other has ended. A server that ignores the end of a client
/// does not hold the connection for all of a long `proxy_read_timeout`.
const HALF_CLOSED_LIMIT: Duration = Duration::from_secs(60);

/// A connection to a server while it serves a request.
pub(crate) struct Line {
    link: Link,
    /// What was read and not used yet.
    pub(crate) input: Buffer,
    /// What is written next.
    output: Buffer,
    /// What is left of the request's body after that.
    rest: Rest,
    pub(crate) lease: Lease,
    clock: Clock,
    /// How many bytes of the request were sent.
    written: u64,
    /// Why the request could not be sent whole.
    pub(crate) broken: Option<io::Error>,
}

/// What a request has of a connection.
pub(crate) enum Link {
    /// All of it.
    Whole(Box<Parked>),
    /// A place among others.
    Place(Member),
    /// Nothing any more: the connection was given back.
    Nothing,
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

    pub(crate) fn note(&self, change: impl FnOnce(&mut Attempt)) {
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
    #[inline]
    pub(crate) fn new(link: Link, lease: Lease, clock: Clock) -> Line {
        let elapsed = clock.elapsed();
        clock.note(|attempt| attempt.connect_time = Some(elapsed));
        Line {
            link,
            input: Buffer::default(),
            output: Buffer::default(),
            rest: Rest::Nothing,
            lease,
            clock,
            written: 0,
            broken: None,
        }
    }

    /// How much memory the buffers have, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Takes a request, which is sent while its answer is read.
    pub(crate) fn send(&mut self, dialogue: &mut impl Dialogue, body: Rest) {
        match &self.link {
            Link::Whole(_) => {
                let is_all = matches!(body, Rest::End);
                self.output.append(|out| {
                    dialogue.begin(out);
                    if is_all {
                        dialogue.append_end(out);
                    }
                });
                self.rest = if is_all { Rest::Nothing } else { body };
            }
            Link::Place(member) => {
                self.rest = body;
                dialogue.connect(member.carrier());
                member.begin();
                let begin = |output: &mut Buffer| output.append(|out| dialogue.begin(out));
                let ((), count) = member.append(&mut self.output, begin);
                self.note_appended(count);
            }
            Link::Nothing => {}
        }
    }

    /// Whether a failure may be due to what happened to the connection before the request came: the server has closed it in
    /// the meantime, or refuses what it has not said that it would.
    pub(crate) fn is_stale(&self, failure: &Failure) -> bool {
        let is_error = failure.kind == Failures::ERROR;
        match &self.link {
            Link::Whole(parked) => {
                let is_unanswered = failure.is_unprocessed || self.input.is_empty();
                is_error && parked.requests > 0 && is_unanswered
            }
            Link::Place(member) => {
                is_error && (member.is_stale() || (failure.is_unprocessed && !member.is_opener()))
            }
            Link::Nothing => false,
        }
    }

    /// How many bytes of the request were sent; not 0 if the first ones may have left.
    pub(crate) fn sent(&self) -> u64 {
        match &self.link {
            Link::Whole(parked) => self.written.max(u64::from(parked.transport.is_sending())),
            Link::Place(member) if !member.has_left() => 0,
            Link::Place(_) | Link::Nothing => self.written,
        }
    }

    fn note_appended(&mut self, count: usize) {
        self.written += count as u64;
        self.clock.note(|attempt| attempt.sent += count as u64);
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
        match self.link {
            Link::Whole(_) => self.poll_write(turn, dialogue),
            Link::Place(_) | Link::Nothing => self.poll_append(turn, dialogue),
        }
    }

    /// Appends to what a connection with other requests sends.
    fn poll_append(&mut self, turn: &mut Turn<'_, '_>, dialogue: &mut impl Dialogue) -> Result<Sent, Status> {
        let Line { link: Link::Place(member), output, rest, broken, .. } = self else { return Ok(Sent::All) };
        let append = |output: &mut Buffer| loop {
            if dialogue.has_pending() {
                output.append(|out| dialogue.append_pending(out));
            }
            if output.bytes().len() >= PIECE {
                member.await_room();
                return Ok(Sent::AwaitsServer);
            }
            if dialogue.is_blocked() {
                if dialogue.has_pending() {
                    // There is room that is left to others. What they do not take is for this request.
                    member.await_room();
                }
                return Ok(Sent::AwaitsServer);
            }
            match rest.poll_append(turn, dialogue, output) {
                Poll::Ready(Ok(())) if rest.is_nothing() && !dialogue.is_blocked() => return Ok(Sent::All),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Lost::Client(status))) => return Err(status),
                Poll::Ready(Err(Lost::File(error))) => {
                    *broken = Some(error);
                    return Ok(Sent::All);
                }
                Poll::Pending => return Ok(Sent::AwaitsClient),
            }
        };
        let (sent, count) = member.append(output, append);
        self.note_appended(count);
        sent
    }

    /// Writes to a connection that has this request alone.
    fn poll_write(&mut self, turn: &mut Turn<'_, '_>, dialogue: &mut impl Dialogue) -> Result<Sent, Status> {
        let Link::Whole(parked) = &mut self.link else { return Ok(Sent::All) };
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
                match parked.transport.poll_write(turn.cx, self.output.bytes()) {
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
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        dialogue: &mut impl Dialogue,
        least: usize,
    ) -> Poll<io::Result<usize>> {
        let count = match &mut self.link {
            Link::Whole(parked) => ready!(parked.transport.poll_read_into(cx, &mut self.input, least))?,
            Link::Place(_) | Link::Nothing => return self.poll_part(cx, dialogue, least),
        };
        self.clock.note(|attempt| attempt.received += count as u64);
        Poll::Ready(Ok(count))
    }

    /// Reads once no more than so many bytes, otherwise as [`Line::poll_read`].
    pub(crate) fn poll_read_most(
        &mut self,
        cx: &mut Context<'_>,
        dialogue: &mut impl Dialogue,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let Link::Whole(parked) = &mut self.link else { return self.poll_part(cx, dialogue, most) };
        let mut piece = vec![0; most];
        let count = ready!(parked.transport.poll_read(cx, &mut piece))?;
        self.input.append(|input| input.extend_from_slice(&piece[..count]));
        self.clock.note(|attempt| attempt.received += count as u64);
        Poll::Ready(Ok(count))
    }

    /// Waits for what a connection with other requests brings for this one, which the dialogue has. The count is never 0
    /// while the connection is open.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        dialogue: &mut impl Dialogue,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let Link::Place(member) = &self.link else { return Poll::Pending };
        if let Poll::Ready(count) = dialogue.poll_input(cx, most) {
            self.clock.note(|attempt| attempt.received += count as u64);
            return Poll::Ready(Ok(count.max(1)));
        }
        match member.ended() {
            None => Poll::Pending,
            Some(Ok(error)) => {
                self.broken = self.broken.take().or(error);
                Poll::Ready(Ok(0))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    /// Whether an encrypted connection ended without a word of the server that nothing more comes.
    pub(crate) fn ended_unannounced(&self) -> bool {
        matches!(&self.link, Link::Whole(parked) if parked.transport.ended_unannounced())
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
        self.note_silence();
        match (self.broken.take(), wait) {
            (Some(error), _) => Failure::io("send", &error, SENDING),
            (None, Wait::Send) => Failure::timed_out(SENDING),
            (None, Wait::Connect | Wait::Read) => Failure::timed_out(READING_HEAD),
        }
    }

    /// Notes that the server did not answer in time.
    pub(crate) fn note_silence(&self) {
        if let Link::Place(member) = &self.link {
            member.note_silence();
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
    pub(crate) fn finish(&mut self, dialogue: &mut impl Dialogue, reusable: bool, tag: usize) {
        self.clock.stop();
        let is_quiet = self.took_all() && self.input.is_empty();
        let link = std::mem::replace(&mut self.link, Link::Nothing);
        let Link::Whole(mut parked) = link else { return dialogue.disconnect() };
        let keepalive = &self.lease.group().keepalive;
        parked.requests += 1;
        let age = Duration::from_millis(Time::now().uptime_ms.saturating_sub(parked.opened_ms));
        let is_young = age <= keepalive.time && parked.requests < keepalive.requests;
        if !reusable || !is_quiet || keepalive.connections == 0 || !is_young {
            parked.transport.say_goodbye();
            return;
        }
        pool::put(&self.lease, tag, parked);
    }

    /// The connection changes its protocol.
    pub(crate) fn into_tunnel(self, idle: Duration) -> Option<Tunnel> {
        let first = bytes::Bytes::copy_from_slice(self.input.bytes());
        let before = bytes::Bytes::copy_from_slice(self.output.bytes());
        let far = Box::new(self.into_far()?);
        let half_close = Some(idle.min(HALF_CLOSED_LIMIT));
        Some(Tunnel { far, first, before, idle, half_close, rates: (0, 0) })
    }

    /// The connection is for one client alone from now on.
    pub(crate) fn into_far(self) -> Option<Far> {
        let Line { link: Link::Whole(parked), lease, clock, .. } = self else { return None };
        Some(Far { parked, clock, lease, has_answered: false })
    }
}

/// The far end of a tunnel. The attempt lasts as long as this does.
pub(crate) struct Far {
    parked: Box<Parked>,
    clock: Clock,
    pub(crate) lease: Lease,
    /// Whether anything came.
    has_answered: bool,
}

impl Far {
    /// Receives one datagram and returns its length.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.parked.transport.poll_receive(cx, buffer))?;
        self.note_received(count, true);
        Poll::Ready(Ok(count))
    }

    fn note_received(&mut self, count: usize, is_answer: bool) {
        let is_first = is_answer && !std::mem::replace(&mut self.has_answered, true);
        let elapsed = is_first.then(|| self.clock.elapsed());
        if is_first {
            self.lease.reached(Until::FirstByte);
        }
        self.clock.note(|attempt| {
            attempt.received += count as u64;
            attempt.length += count as u64;
            attempt.first_byte_time = attempt.first_byte_time.or(elapsed);
        });
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.parked.transport.say_goodbye();
    }
}

impl Duplex for Far {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.parked.transport.poll_read(cx, buffer))?;
        self.note_received(count, count > 0);
        Poll::Ready(Ok(count))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.parked.transport.poll_write(cx, bytes))?;
        self.clock.note(|attempt| attempt.sent += count as u64);
        Poll::Ready(Ok(count))
    }

    fn splices(&mut self) -> bool {
        self.parked.transport.is_plain()
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let count = ready!(self.parked.transport.poll_fill(cx, pipe))?;
        self.note_received(count, count > 0);
        Poll::Ready(Ok(count))
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let count = ready!(self.parked.transport.poll_drain(cx, pipe))?;
        self.clock.note(|attempt| attempt.sent += count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_end_writing(&mut self, cx: &mut Context<'_>, goes_on: bool) -> Poll<()> {
        let transport = &mut self.parked.transport;
        // A connection that is broken already is noticed by the next read.
        match goes_on {
            true => transport.poll_shutdown_write(cx).map(drop),
            false => transport.poll_goodbye(cx).map(drop),
        }
    }
}

//! A session of datagrams: each datagram of the client goes to one server, and each of the server's to the client, with its
//! borders. The datagrams of the client are the body of the request, and those of the server the body of the response.
//!
//! A session ends when the server has sent as many datagrams as are expected, or when both sides were silent for too long.
//! As in nginx, no second server is asked for a session whose datagrams were sent: the server failed, and the client asks
//! again in a new session.

use crate::conversation::Conversation;
use crate::dialogue::Dialogue;
use crate::failure::Failure;
use crate::line::Far;
use bytes::Bytes;
use contract::{Duplex, Exchange, Outcome, Piece, Pull, Source, Turn};
use http::Status;
use journal::clock::Time;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::{Throttle, Timer, with_datagram_room};

/// How long the answers under way may take when the client can send no more.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

const PROXYING: &str = "proxying connection";
const RECEIVING: &str = "proxying and reading from upstream";
const SENDING: &str = "proxying and sending to upstream";

/// How many datagrams a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// From the client (`proxy_requests`); `None` is any number.
    pub requests: Option<u64>,
    /// From the server for each of the client's (`proxy_responses`); `None` is any number.
    pub responses: Option<u64>,
}

/// How much a session passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second to the server, and to the client; 0 is any number.
    pub rates: (u64, u64),
    /// How many bytes the client gets for each byte that it sent, until it sends again after the first answer; 0 is any
    /// number.
    pub amplification: u64,
}

/// A session of datagrams with the server that was chosen for it.
pub struct Datagrams<D: Dialogue> {
    conversation: Box<Conversation<D>>,
    far: Far,
    tally: Tally,
    /// How fast datagrams are taken from each side.
    pace_of_client: Pace,
    pace_of_server: Pace,
    /// A datagram for the server, while the kernel does not take it.
    unsent: Option<Vec<u8>>,
    /// Memory for the next datagram for the server.
    memory: Vec<u8>,
    timer: Option<Timer>,
    /// When a datagram was passed on last, in milliseconds of uptime.
    moved_ms: u64,
}

/// What was passed on so far, and what that means for the session.
#[derive(Debug)]
struct Tally {
    expected: Expected,
    /// See [`Limits::amplification`].
    amplification: u64,
    from_client: Sum,
    from_server: Sum,
    /// Whether the client has sent a datagram after it was answered. A forged source address receives nothing, so its
    /// owner does not go on.
    is_confirmed: bool,
    /// Whether the client can send no more, because this process no longer receives.
    is_last: bool,
}

/// The datagrams of one direction.
#[derive(Debug, Default)]
struct Sum {
    datagrams: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }
}

impl Tally {
    fn new(expected: Expected, amplification: u64) -> Tally {
        let [from_client, from_server] = [Sum::default(), Sum::default()];
        Tally { expected, amplification, from_client, from_server, is_confirmed: false, is_last: false }
    }

    fn add_from_client(&mut self, bytes: usize) {
        self.from_client.add(bytes);
        self.is_confirmed |= self.from_server.datagrams > 0;
    }

    /// Counts a datagram of the server. Returns whether the client gets it.
    fn add_from_server(&mut self, bytes: usize) -> bool {
        let allowed = self.from_client.bytes.saturating_mul(self.amplification);
        let is_limited = self.amplification > 0 && !self.is_confirmed;
        let is_passed = !is_limited || self.from_server.bytes + bytes as u64 <= allowed;
        if is_passed {
            self.from_server.add(bytes);
        }
        is_passed
    }

    /// Whether the server has sent all answers to what came so far.
    fn has_all_answers(&self) -> bool {
        let Some(responses) = self.expected.responses else { return true };
        self.from_server.datagrams >= responses.saturating_mul(self.from_client.datagrams)
    }

    /// Whether the session is over at once.
    fn is_complete(&self) -> bool {
        let has_all_requests =
            self.expected.requests.is_none_or(|requests| self.from_client.datagrams >= requests);
        // A server that sends any number of datagrams is waited for.
        let is_counted = self.expected.responses.is_some();
        is_counted && (has_all_requests || self.is_last) && self.has_all_answers()
    }
}

/// The rate of one direction, if it is limited.
struct Pace(Option<Box<Throttle>>);

impl Pace {
    fn new(rate: u64) -> Pace {
        Pace(Throttle::new(rate, 0, Instant::now()).map(Box::new))
    }

    /// Waits until the rate allows another datagram.
    fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Ready(()), |throttle| throttle.poll_allowance(cx).map(drop))
    }

    fn count(&mut self, bytes: usize) {
        if let Some(throttle) = &mut self.0 {
            throttle.moved(bytes as u64, Instant::now());
        }
    }
}

/// Why a session ends before it is complete.
enum Broken {
    /// The server failed.
    Server(Failure),
    /// The client's place is taken.
    Client(Status),
}

impl Broken {
    fn server(call: &str, error: &io::Error, doing: &str) -> Broken {
        Broken::Server(Failure::io(call, error, doing))
    }
}

impl<D: Dialogue> Conversation<D> {
    /// Passes datagrams on in both directions from now on, which come as the body of the response.
    pub fn into_datagrams(mut self: Box<Self>, expected: Expected, limits: Limits) -> Option<Datagrams<D>> {
        let far = self.line.take()?.into_far()?;
        let preface = std::mem::take(&mut self.call.preface);
        Some(Datagrams {
            conversation: self,
            far,
            tally: Tally::new(expected, limits.amplification),
            pace_of_client: Pace::new(limits.rates.0),
            pace_of_server: Pace::new(limits.rates.1),
            unsent: None,
            memory: preface,
            timer: None,
            moved_ms: Time::now().uptime_ms,
        })
    }
}

impl<D: Dialogue> Datagrams<D> {
    /// The next datagram for the client; `None` at the end of the session.
    fn poll_next(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<Option<Bytes>, Broken>> {
        self.poll_forward(turn)?;
        if self.unsent.is_none() && self.tally.is_complete() {
            return Poll::Ready(Ok(None));
        }
        loop {
            match self.poll_answer(turn.cx)? {
                Poll::Ready(Some(datagram)) => return Poll::Ready(Ok(Some(datagram))),
                Poll::Ready(None) => {}
                Poll::Pending => break,
            }
        }
        ready!(self.poll_silence(turn.cx))?;
        Poll::Ready(if self.tally.has_all_answers() {
            Ok(None)
        } else {
            Err(Broken::Server(Failure::timed_out(PROXYING)))
        })
    }

    /// Passes on what the client sent.
    fn poll_forward(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Broken> {
        while !self.tally.is_last || self.unsent.is_some() {
            if self.unsent.is_none() {
                if self.pace_of_client.poll_allowance(turn.cx).is_pending() {
                    return Ok(());
                }
                let mut datagram = None;
                let memory = &mut self.memory;
                let mut take = |bytes: &[u8]| {
                    memory.extend_from_slice(bytes);
                    datagram = Some((std::mem::take(memory), bytes.len()));
                };
                match turn.body.poll_take(turn.cx, turn.exchange, &mut take) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Err(status)) => return Err(Broken::Client(status)),
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => self.end_client(),
                }
                let Some((datagram, length)) = datagram else { continue };
                self.unsent = Some(datagram);
                self.pace_of_client.count(length);
                self.tally.add_from_client(length);
            }
            if self.poll_send(turn.cx)?.is_pending() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a datagram to the server. A datagram that no network takes is dropped, as on any link.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Broken> {
        let Some(datagram) = &self.unsent else { return Ok(Poll::Ready(())) };
        match self.far.poll_write(cx, datagram) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(Broken::server("send", &error, SENDING));
            }
            Poll::Ready(_) => {}
        }
        self.moved_ms = Time::now().uptime_ms;
        self.memory = self.unsent.take().unwrap_or_default();
        self.memory.clear();
        Ok(Poll::Ready(()))
    }

    /// Receives one datagram of the server; `None` for one that the client does not get.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Bytes>>, Broken> {
        if self.pace_of_server.poll_allowance(cx).is_pending() {
            return Ok(Poll::Pending);
        }
        let received = with_datagram_room(|room| {
            let count = self.far.poll_receive(cx, room);
            count.map(|count| count.map(|count| Bytes::copy_from_slice(&room[..count])))
        });
        let Poll::Ready(received) = received else { return Ok(Poll::Pending) };
        let datagram = received.map_err(|error| Broken::server("recv", &error, RECEIVING))?;
        self.moved_ms = Time::now().uptime_ms;
        if !self.tally.add_from_server(datagram.len()) {
            return Ok(Poll::Ready(None));
        }
        self.pace_of_server.count(datagram.len());
        Ok(Poll::Ready(Some(datagram)))
    }

    /// Ready when both sides were silent for too long. A datagram does not set the timer, which learns when it is due how
    /// long that was.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let limit = self.silence_limit();
        let timer = match &self.timer {
            Some(timer) => timer,
            None => {
                let timer = Timer::here().map_err(|error| Broken::server("timer", &error, PROXYING))?;
                timer.set(limit);
                self.timer.insert(timer)
            }
        };
        loop {
            ready!(timer.poll(cx));
            let silent = Duration::from_millis(Time::now().uptime_ms.saturating_sub(self.moved_ms));
            match limit.checked_sub(silent).filter(|left| !left.is_zero()) {
                Some(left) => timer.set(left),
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    fn silence_limit(&self) -> Duration {
        let limit = self.conversation.call.settings.timeouts.read;
        if self.tally.is_last { limit.min(ON_ITS_WAY) } else { limit }
    }

    /// The client can send no more: what is under way has a shorter time.
    fn end_client(&mut self) {
        self.tally.is_last = true;
        if let Some(timer) = &self.timer {
            timer.set(self.silence_limit());
        }
    }

    /// Notes why the session ends.
    #[cold]
    fn fail(&mut self, exchange: &mut Exchange, broken: Broken) {
        let failure = match broken {
            Broken::Server(failure) => failure,
            Broken::Client(status) => {
                exchange.response.status = status;
                return;
            }
        };
        let call = &self.conversation.call;
        call.log_failure(exchange, self.far.lease.server(), &failure);
        exchange.response.status = Status::BAD_GATEWAY;
        call.attempts.note(|attempt| attempt.status = Some(Status::BAD_GATEWAY));
        if self.far.lease.fail() {
            call.log_disabled(exchange, self.far.lease.server());
        }
    }
}

impl<D: Dialogue> Source for Datagrams<D> {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        match self.poll_next(turn) {
            Poll::Ready(Ok(Some(datagram))) => Pull::Piece(Piece::Bytes(datagram)),
            Poll::Ready(Ok(None)) => Pull::End,
            Poll::Ready(Err(broken)) => {
                self.fail(turn.exchange, broken);
                Pull::End
            }
            Poll::Pending => Pull::Pending { lasts: true },
        }
    }

    fn resume(&mut self, _: Outcome) {}

    fn finish(self: Box<Self>, exchange: &Exchange) {
        let Datagrams { conversation, far, .. } = *self;
        drop(far);
        conversation.leave(exchange);
    }
}

#[cfg(test)]
mod tests {
    use super::{Expected, Tally};

    /// What a session is after these datagrams: `>` from the client, `<` from the server, `.` where the client can send no
    /// more.
    fn after(requests: Option<u64>, responses: Option<u64>, datagrams: &str) -> (bool, bool) {
        let mut tally = Tally::new(Expected { requests, responses }, 0);
        for datagram in datagrams.chars() {
            match datagram {
                '>' => tally.add_from_client(1),
                '<' => assert!(tally.add_from_server(1)),
                _ => tally.is_last = true,
            }
        }
        (tally.has_all_answers(), tally.is_complete())
    }

    #[test]
    fn a_session_is_complete_after_all_requests_and_answers() {
        assert_eq!(after(None, Some(1), ">"), (false, false));
        assert_eq!(after(None, Some(1), "><"), (true, true));
        assert_eq!(after(None, Some(1), "><>"), (false, false));
        assert_eq!(after(Some(2), Some(1), "><"), (true, false), "another one may come");
        assert_eq!(after(Some(2), Some(1), "><."), (true, true), "unless the process ends");
        assert_eq!(after(Some(2), Some(2), "><><<"), (false, false));
        assert_eq!(after(Some(2), Some(2), "><><<<"), (true, true));
        assert_eq!(after(Some(1), Some(0), ">"), (true, true), "no answer is expected");
        assert_eq!(after(None, Some(1), "><<<"), (true, true), "more than enough");
    }

    #[test]
    fn a_server_that_sends_any_number_is_waited_for() {
        assert_eq!(after(None, None, ">"), (true, false));
        assert_eq!(after(Some(1), None, "><<."), (true, false));
    }

    #[test]
    fn a_client_gets_a_limited_share_until_it_confirms_its_address() {
        let any = Expected { requests: None, responses: None };
        let mut tally = Tally::new(any, 3);
        assert!(!tally.add_from_server(1), "it has sent nothing");
        tally.add_from_client(10);
        tally.add_from_client(10);
        assert!(!tally.is_confirmed, "it sent both before an answer");
        assert!(tally.add_from_server(60) && !tally.add_from_server(1));
        assert_eq!(tally.from_server.datagrams, 1, "what it does not get is not counted");
        tally.add_from_client(1);
        assert!(tally.add_from_server(60_000));
        let mut unlimited = Tally::new(any, 0);
        unlimited.add_from_client(1);
        assert!(unlimited.add_from_server(60_000));
        let mut huge = Tally::new(any, u64::MAX);
        huge.add_from_client(2);
        assert!(huge.add_from_server(60_000), "the share does not overflow");
    }
}

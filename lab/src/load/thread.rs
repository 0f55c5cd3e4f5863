//! A thread of the generator: its clients, and the loop that waits for their sockets.

use std::collections::VecDeque;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::answer::Answer;
use super::claims::{Claims, Shared, ns};
use super::client::{Client, Flight, Stage};
use super::plan::Plan;
use super::socket;
use super::tally::{Failure, Tally};
use super::tls::Tls;

/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// Copies of a pipelined request are written at once up to so many bytes.
const BATCH: usize = 16 * 1024;

/// What is done from time to time: every so often if some client waits for it, and else only so often.
const TICK_NS: u64 = 10_000_000;
const IDLE_TICK_NS: u64 = 100_000_000;

/// Idle connections are opened so many at a time, for the queue of those that wait to be accepted is short.
const OPENING: usize = 64;

/// Where nothing was ever answered, patience ends earlier.
const FIRST_PATIENCE_NS: u64 = 3_000_000_000;

/// One thread.
pub(super) struct Thread<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    claims: Claims<'a>,
    epoll: OwnedFd,
    tls: Option<Tls>,
    batch: Vec<u8>,
    clients: Vec<Client>,
    /// Clients without a request.
    parked: VecDeque<usize>,
    /// Clients that go on in the next turn, and those that do at the next tick.
    again: Vec<usize>,
    retry: Vec<usize>,
    /// The first client that has not begun.
    fresh: usize,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    events: Vec<epoll::Event>,
    tally: Tally,
    length: Option<u64>,
    zero: Instant,
    now_ns: u64,
    ticked_ns: u64,
    answered_ns: u64,
    settled_ns: u64,
    is_refused: bool,
    is_holding: bool,
}

impl<'a> Thread<'a> {
    /// A thread for its part of a plan.
    pub(super) fn new(plan: &'a Plan, shared: &'a Shared) -> Result<Thread<'a>> {
        let copies = (BATCH / plan.request.len().max(1)).clamp(1, plan.pipeline.max(1) as usize);
        Ok(Thread {
            plan,
            shared,
            claims: Claims::new(plan, shared),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            tls: plan.tls.as_ref().map(Tls::new).transpose()?,
            batch: plan.request.repeat(copies).into_bytes(),
            clients: (0..plan.clients).map(|_| Client::new(plan)).collect(),
            parked: VecDeque::new(),
            again: Vec::new(),
            retry: Vec::new(),
            fresh: 0,
            buffer: vec![0; BUFFER],
            plain: Vec::new(),
            events: Vec::with_capacity(256),
            tally: Tally::default(),
            length: shared.length(),
            zero: Instant::now(),
            now_ns: 0,
            ticked_ns: 0,
            answered_ns: 0,
            settled_ns: 0,
            is_refused: false,
            is_holding: false,
        })
    }

    /// Sends all requests of its part, from `zero` on.
    pub(super) fn run(mut self, zero: Instant) -> Result<Tally> {
        self.zero = zero;
        self.read_clock();
        let first = if self.plan.idle { OPENING.min(self.clients.len()) } else { self.clients.len() };
        self.fresh = first;
        if self.plan.rate.is_some() {
            self.parked.extend(0..first);
        } else {
            (0..first).for_each(|at| self.work(at));
        }
        while !self.is_over() {
            self.turn()?;
        }
        Ok(self.finish())
    }

    fn is_over(&mut self) -> bool {
        let is_done = self.parked.len() == self.clients.len() && self.claims.are_taken();
        if self.plan.idle && is_done && !self.is_holding {
            self.is_holding = true;
            let open = self.clients.iter().filter(|client| client.stage == Stage::Open).count();
            self.tally.seconds = self.now_ns as f64 / 1e9;
            self.shared.held.fetch_add(open as u64, Ordering::Relaxed);
            self.shared.holding.fetch_add(1, Ordering::Release);
        }
        is_done && !self.plan.idle
            || self.now_ns >= self.claims.end_ns()
            || self.tally.gave_up
            || self.shared.stop.load(Ordering::Relaxed)
    }

    fn finish(mut self) -> Tally {
        let is_done = self.parked.len() == self.clients.len() && self.claims.are_taken();
        if !self.plan.idle {
            self.tally.seconds = if is_done { self.settled_ns } else { self.now_ns } as f64 / 1e9;
        }
        self.tally.unfinished = self.clients.iter().map(|client| client.flights.len() as u64).sum();
        self.tally.unsent = self.claims.overdue(self.now_ns);
        self.tally.length = self.length;
        self.tally
    }

    fn turn(&mut self) -> Result<()> {
        self.wait()?;
        let mut events = mem::take(&mut self.events);
        for event in events.drain(..) {
            if let Ok(at) = usize::try_from(event.data.u64()) {
                self.ready(at, event.flags);
            }
        }
        self.events = events;
        self.read_clock();
        for at in mem::take(&mut self.again) {
            self.work(at);
        }
        self.give_out();
        if self.now_ns >= self.next_tick_ns() {
            self.tick();
        }
        Ok(())
    }

    /// Waits for sockets, and no longer than until something else is to be done.
    fn wait(&mut self) -> Result<()> {
        let mut until = self.next_tick_ns().min(self.claims.end_ns());
        if let (Some(due), false) = (self.claims.due_ns(), self.parked.is_empty() || self.claims.are_taken())
        {
            until = until.min(due);
        }
        let left = if self.again.is_empty() { until.saturating_sub(self.now_ns) } else { 0 };
        let mut timeout = timespec(left);
        if self.plan.rate.is_some() && left > 0 {
            // epoll_wait counts milliseconds, which is too coarse for when requests are due.
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => timeout = timespec(0),
                Err(error) => return Err(error.into()),
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives requests that are due to clients that are free.
    fn give_out(&mut self) {
        while self.claims.due_ns().is_some_and(|due| due <= self.now_ns) {
            let Some(at) = self.parked.pop_front() else { return };
            self.work(at);
            if self.parked.back() == Some(&at) {
                return;
            }
        }
    }

    fn next_tick_ns(&self) -> u64 {
        let is_waited_for =
            !self.retry.is_empty() || self.plan.read_rate.is_some() || self.plan.write_rate.is_some();
        self.ticked_ns + if is_waited_for { TICK_NS } else { IDLE_TICK_NS }
    }

    fn tick(&mut self) {
        let passed = self.now_ns - self.ticked_ns;
        self.ticked_ns = self.now_ns;
        for at in mem::take(&mut self.retry) {
            self.work(at);
        }
        let timeout_ns = ns(self.plan.timeout_s);
        let is_paced = self.plan.read_rate.is_some() || self.plan.write_rate.is_some();
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            if client.flights.front().is_some_and(|first| first.begun_ns + timeout_ns < self.now_ns) {
                self.fail(at, Failure::Timeout);
            } else if is_paced {
                let (can_read, can_write) =
                    (client.read_pace.refill(passed), client.write_pace.refill(passed));
                if can_write && client.has_output() && client.stage == Stage::Open {
                    self.write(at);
                }
                if can_read && self.clients[at].stage != Stage::Closed {
                    self.read(at, true);
                }
            }
        }
        let patience = if self.answered_ns == 0 { timeout_ns.min(FIRST_PATIENCE_NS) } else { timeout_ns };
        let is_lost = self.is_refused && self.now_ns - self.answered_ns > patience;
        self.tally.gave_up = is_lost && !self.plan.idle;
    }

    /// Gives a client what it can send now.
    fn work(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let depth = if self.plan.keep_alive { self.plan.pipeline as usize } else { 1 };
        while client.flights.len() < depth {
            let Some(due_ns) = self.claims.next(self.now_ns) else { break };
            let flight = Flight { due_ns, begun_ns: self.now_ns, open_ns: self.now_ns, written_ns: 0 };
            client.flights.push_back(flight);
            client.unsent += self.plan.request.len();
        }
        match client.stage {
            _ if client.flights.is_empty() => self.parked.push_back(at),
            Stage::Closed => self.open(at),
            Stage::Open if client.unsent > 0 => self.write(at),
            _ => {}
        }
    }

    fn open(&mut self, at: usize) {
        let Ok((socket, is_open)) = socket::connect(self.plan, at) else {
            return self.fail(at, Failure::Connect);
        };
        // Events come once. What is writable already would only be told again.
        let mut flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        flags.set(EventFlags::OUT, !is_open);
        if epoll::add(&self.epoll, &socket, EventData::new_u64(at as u64), flags).is_err() {
            return self.fail(at, Failure::Connect);
        }
        let client = &mut self.clients[at];
        client.opening_ns = self.now_ns;
        client.socket = Some(socket);
        client.stage = Stage::Connecting;
        if is_open {
            self.connected(at);
        }
    }

    fn ready(&mut self, at: usize, flags: EventFlags) {
        if self.clients[at].stage == Stage::Connecting {
            self.read_clock();
            let socket = self.clients[at].socket.as_ref();
            match socket.map(rustix::net::sockopt::socket_error) {
                Some(Ok(Ok(()))) => self.connected(at),
                _ => self.fail(at, Failure::Connect),
            }
        } else if flags.contains(EventFlags::OUT) && self.clients[at].has_output() {
            self.write(at);
        }
        let hangup = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if (hangup || flags.contains(EventFlags::IN)) && self.clients[at].stage != Stage::Closed {
            self.read(at, hangup);
        }
    }

    fn connected(&mut self, at: usize) {
        let client = &mut self.clients[at];
        match self.tls.as_ref().map(Tls::session) {
            None => self.opened(at),
            Some(Ok(session)) => {
                client.session = Some(Box::new(session));
                client.stage = Stage::Handshaking;
                client.is_flushed = false;
                self.write(at);
            }
            Some(Err(_)) => self.fail(at, Failure::Connect),
        }
    }

    /// The connection can carry requests.
    fn opened(&mut self, at: usize) {
        self.read_clock();
        let client = &mut self.clients[at];
        client.stage = Stage::Open;
        self.tally.connections += 1;
        self.tally.resumed += u64::from(client.session.as_ref().is_some_and(|session| session.is_resumed()));
        self.tally.connect.add(self.now_ns.saturating_sub(client.opening_ns));
        for flight in &mut client.flights {
            flight.open_ns = self.now_ns;
        }
        self.write(at);
    }

    fn write(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Ok((is_all, bytes)) = client.send(&self.batch) else {
            let is_new = client.stage == Stage::Handshaking;
            return self.fail(at, if is_new { Failure::Connect } else { Failure::Reset });
        };
        self.tally.request_bytes += bytes;
        if is_all && client.stage == Stage::Handshaking {
            // The server's turn.
        } else if is_all {
            self.now_ns = elapsed_ns(self.zero);
            for flight in client.flights.iter_mut().rev().take_while(|flight| flight.written_ns == 0) {
                flight.written_ns = self.now_ns;
            }
        } else if let Some(socket) = &client.socket {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let starved = client.write_pace.room(1) == 0;
            if !starved && epoll::modify(&self.epoll, socket, EventData::new_u64(at as u64), flags).is_err() {
                self.fail(at, Failure::Reset);
            }
        }
    }

    /// Reads all that is there. A short read tells that there is no more, unless the connection ended.
    fn read(&mut self, at: usize, is_ending: bool) {
        let mut buffer = mem::take(&mut self.buffer);
        loop {
            let client = &mut self.clients[at];
            let room = client.read_pace.room(buffer.len());
            if room == 0 {
                break;
            }
            let read = client.receive(&mut buffer[..room]);
            self.read_clock();
            let goes_on = match read {
                Ok(0) => {
                    self.ended(at);
                    false
                }
                Ok(length) => self.take(at, &buffer[..length]) && (length == room || is_ending),
                Err(Errno::INTR) => true,
                Err(Errno::AGAIN) => false,
                Err(_) => {
                    self.ended(at);
                    false
                }
            };
            if !goes_on {
                break;
            }
        }
        self.buffer = buffer;
    }

    /// Takes bytes from the wire: whether the connection is still the same.
    fn take(&mut self, at: usize, bytes: &[u8]) -> bool {
        let client = &mut self.clients[at];
        let was_handshaking = client.stage == Stage::Handshaking;
        let Some(session) = &mut client.session else {
            return self.take_content(at, bytes);
        };
        let mut plain = mem::take(&mut self.plain);
        plain.clear();
        let is_sound = session.receive(bytes, &mut plain).is_ok();
        let is_same = if !is_sound {
            self.fail(at, if was_handshaking { Failure::Connect } else { Failure::Malformed });
            false
        } else {
            let wants_write = session.wants_write();
            client.is_flushed &= !wants_write;
            if was_handshaking && !session.is_handshaking() {
                self.opened(at);
            } else if wants_write {
                self.write(at);
            }
            self.clients[at].stage != Stage::Closed && self.take_content(at, &plain)
        };
        self.plain = plain;
        is_same
    }

    fn take_content(&mut self, at: usize, mut bytes: &[u8]) -> bool {
        let mut is_free = false;
        while !bytes.is_empty() {
            let client = &mut self.clients[at];
            if !client.reader.is_within() {
                client.first_ns = self.now_ns;
            }
            match client.reader.feed(bytes) {
                Ok((used, answer)) if !client.flights.is_empty() => {
                    bytes = &bytes[used..];
                    if let Some(answer) = answer {
                        if !self.complete(at, answer) {
                            return false;
                        }
                        is_free = true;
                    }
                }
                _ => {
                    self.fail(at, Failure::Malformed);
                    return false;
                }
            }
        }
        if is_free && !self.plan.idle {
            self.work(at);
        }
        true
    }

    /// An answer is complete: whether its connection goes on.
    fn complete(&mut self, at: usize, answer: Answer) -> bool {
        if (200..300).contains(&answer.status) && self.length.is_none() {
            self.length = Some(self.shared.expect(answer.content));
        }
        self.tally.answer(answer, self.length.unwrap_or_default());
        (self.answered_ns, self.settled_ns) = (self.now_ns, self.now_ns);
        self.is_refused = false;
        let (now_ns, client) = (self.now_ns, &mut self.clients[at]);
        client.answers += 1;
        if let Some(flight) = client.flights.pop_front() {
            let written_ns = flight.written_ns.max(flight.open_ns);
            let first_ns = client.first_ns.max(written_ns);
            self.tally.latency.add(now_ns.saturating_sub(flight.due_ns));
            self.tally.processing.add(now_ns.saturating_sub(flight.open_ns));
            self.tally.write.add(written_ns - flight.open_ns);
            self.tally.waiting.add(first_ns - written_ns);
            self.tally.reading.add(now_ns.saturating_sub(first_ns));
            if self.plan.rate.is_some() {
                self.tally.late.add(flight.begun_ns.saturating_sub(flight.due_ns));
            }
        }
        let goes_on = answer.keep_alive && self.plan.keep_alive;
        if !goes_on {
            client.close(self.plan.request.len());
        }
        if self.plan.idle {
            self.parked.push_back(at);
            self.begin_next();
        } else if !goes_on {
            // Requests behind the last answer are sent again; nobody took them up.
            self.work(at);
        }
        goes_on
    }

    /// The server ended the connection.
    fn ended(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if let Some(answer) = client.reader.end() {
            self.complete(at, answer);
        } else if client.stage == Stage::Handshaking {
            self.fail(at, Failure::Connect);
        } else if client.flights.is_empty() {
            client.close(0);
            self.tally.dropped += u64::from(self.plan.idle);
        } else {
            let is_kept = client.answers > 0 && !client.reader.is_within();
            self.tally.failures.reset_while_kept += if is_kept { client.flights.len() as u64 } else { 0 };
            self.fail(at, Failure::Reset);
        }
    }

    /// All requests of a client failed. It goes on, but not at once where it could not connect.
    fn fail(&mut self, at: usize, failure: Failure) {
        let client = &mut self.clients[at];
        let count = client.flights.len() as u64;
        self.tally.fail(failure, count);
        client.flights.clear();
        client.close(0);
        self.is_refused |= failure == Failure::Connect;
        self.settled_ns = self.now_ns;
        if count == 0 {
            // It is parked already.
        } else if self.plan.idle {
            self.parked.push_back(at);
            self.begin_next();
        } else if failure == Failure::Connect {
            self.retry.push(at);
        } else {
            self.again.push(at);
        }
    }

    fn begin_next(&mut self) {
        if self.fresh < self.clients.len() {
            self.again.push(self.fresh);
            self.fresh += 1;
        }
    }

    fn read_clock(&mut self) {
        self.now_ns = elapsed_ns(self.zero);
    }
}

fn elapsed_ns(zero: Instant) -> u64 {
    u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn timespec(ns: u64) -> Timespec {
    let second = 1_000_000_000;
    Timespec {
        tv_sec: i64::try_from(ns / second).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % second).unwrap_or(0),
    }
}

//! A thread of the generator: its clients, and the loop that waits for their sockets.

mod connection;
mod polling;

use std::collections::VecDeque;
use std::mem;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use self::polling::Polling;
use super::claims::{Claims, Shared, ns};
use super::client::{Client, Stage};
use super::plan::Plan;
use super::tally::{Failure, Tally};
use super::tls::Tls;
use crate::model::order::message_and_echo;

/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// How often a thread looks at all its clients: if one of them could not connect, and otherwise.
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
    batch: &'a [u8],
    /// What comes back for a message of a WebSocket.
    echo: Rc<[u8]>,
    request_length: usize,
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
    /// No more idle connections are opened, because one was not answered in time.
    is_full: bool,
    is_holding: bool,
}

impl<'a> Thread<'a> {
    /// A thread for its part of a plan.
    pub(super) fn new(plan: &'a Plan, shared: &'a Shared, batch: &'a [u8]) -> Result<Thread<'a>> {
        let request_length = plan.request_length();
        Ok(Thread {
            plan,
            shared,
            claims: Claims::new(plan, shared),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            tls: plan.tls.as_ref().map(Tls::new).transpose()?,
            batch,
            echo: plan
                .message_bytes
                .map_or_else(Default::default, |length| message_and_echo(length)[1].as_slice().into()),
            request_length,
            clients: clients(plan, batch.len() / request_length.max(1), request_length),
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
            is_full: false,
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
        let is_settled = is_done || self.is_full && self.parked.len() == self.fresh;
        if self.plan.idle && is_settled && !self.is_holding {
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
        self.tally.partial_bytes += self.clients.iter().map(|client| client.reader.arrived()).sum::<u64>();
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
        if left == 0 || !self.poll(left)? {
            self.look(&timeout)?;
        }
        Ok(())
    }

    /// Polls the sockets if the plan says so, at most for the time that is left: whether one is ready.
    fn poll(&mut self, left_ns: u64) -> Result<bool> {
        let limit_ns = left_ns.min(u64::from(self.plan.poll_us) * 1000);
        if limit_ns == 0 {
            return Ok(false);
        }
        let mut polling = Polling::new(elapsed_ns(self.zero), limit_ns);
        loop {
            let is_ready = self.look(&timespec(0))?;
            if is_ready || !polling.found_nothing(elapsed_ns(self.zero)) {
                self.tally.polled_s += polling.fruitless_s();
                return Ok(is_ready);
            }
        }
    }

    /// Takes the events of ready sockets, for which it waits no longer than this: whether there are any.
    fn look(&mut self, timeout: &Timespec) -> Result<bool> {
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(!self.events.is_empty()),
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
        self.ticked_ns + if self.retry.is_empty() { IDLE_TICK_NS } else { TICK_NS }
    }

    fn tick(&mut self) {
        self.ticked_ns = self.now_ns;
        for at in mem::take(&mut self.retry) {
            self.work(at);
        }
        let timeout_ns = ns(self.plan.timeout_s);
        for at in 0..self.clients.len() {
            let first = self.clients[at].flights.front();
            if first.is_some_and(|first| first.begun_ns + timeout_ns < self.now_ns) {
                self.fail(at, Failure::Timeout);
            }
        }
        let patience = if self.answered_ns == 0 { timeout_ns.min(FIRST_PATIENCE_NS) } else { timeout_ns };
        let is_lost = self.is_refused && self.now_ns - self.answered_ns > patience;
        self.tally.gave_up = is_lost && !self.plan.idle;
    }

    fn read_clock(&mut self) {
        self.now_ns = elapsed_ns(self.zero);
    }
}

/// The clients. Where requests differ each begins at another one, evenly apart, and every run elsewhere.
fn clients(plan: &Plan, requests: usize, request_length: usize) -> Vec<Client> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos() as usize);
    let all = plan.clients.max(1) as usize;
    let client = |at: u32| {
        let begin = (now + at as usize * requests / all) % requests.max(1);
        Client::new(begin * request_length)
    };
    (0..plan.clients).map(client).collect()
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

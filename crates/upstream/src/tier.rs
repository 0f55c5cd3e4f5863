//! Servers among which requests are distributed, with the state of each. A server that failed gets no requests for a
//! while, and then a small share at first. Counts are `Relaxed`: they are for metrics, and decide nothing.

use crate::server::{Admission, Server};
use crate::timing::{LeastTime, Timing};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Servers among which requests are shared out.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) servers: Box<[Server]>,
    states: Mutex<Vec<State>>,
    /// The sum of all weights.
    pub(crate) weight: u64,
    /// How many servers get all requests.
    pub(crate) alive: usize,
    /// What sessions know the servers by, computed at the first use.
    routes: OnceLock<Box<[Box<[u8]>]>>,
    /// What took over when the servers were replaced.
    heir: OnceLock<Heir>,
}

/// The servers that replaced others. What is known of a server that is among both is known there.
#[derive(Debug)]
struct Heir {
    tier: Arc<Tier>,
    /// The place there of each server here that stays.
    places: Box<[Option<usize>]>,
}

/// Who looks for a server, and when.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    /// The servers that were asked already.
    pub(crate) tried: &'a [usize],
    /// No other server can be asked, so failures do not count.
    pub(crate) is_single: bool,
    /// In milliseconds of uptime.
    pub(crate) now_ms: u64,
}

/// How a request to a server ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) is_failed: bool,
    /// No other server could be asked, so failures do not count.
    pub(crate) is_single: bool,
    /// In milliseconds of uptime.
    pub(crate) now_ms: u64,
    /// When the server was chosen, in the same.
    pub(crate) started_ms: u64,
    /// What is measured for `least_time`.
    pub(crate) measured: Option<Measured>,
}

/// What is measured of a request for `least_time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) least: LeastTime,
    /// Whether it counts as being in progress.
    pub(crate) in_flight: bool,
    /// How long the head of the response took, if it came.
    pub(crate) head_ms: Option<u64>,
}

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is.
    Up,
    /// It failed too often, and is left alone for a while.
    Failed,
    /// The configuration says `drain`: it is asked only for sessions that belong to it.
    Draining,
    /// The configuration says `down`.
    Down,
}

/// What a server did so far and does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its address as logs show it.
    pub name: Arc<str>,
    /// Whether it is asked.
    pub state: ServerState,
    /// How many requests it was asked, those in progress included.
    pub requests: u64,
    /// How many requests are in progress.
    pub active: u64,
    /// How many requests failed, so that another server could be asked.
    pub failures: u64,
    /// How long the requests took that are over, all together.
    pub time: Duration,
    /// How many connections are open, the idle ones included.
    pub connections: u64,
    /// How many connections were opened.
    pub opened: u64,
}

/// The connections to a server.
#[derive(Debug, Default)]
struct Connections {
    opened: AtomicU64,
    open: AtomicU64,
}

/// A connection to a server that is open. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Connections>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// What was counted of a server since it is known.
#[derive(Clone, Debug, Default)]
struct Sums {
    requests: u64,
    failures: u64,
    time_ms: u64,
    connections: Arc<Connections>,
}

#[derive(Clone, Debug)]
struct State {
    current: i64,
    effective: i64,
    requests: u32,
    fails: u32,
    /// When it failed last, in milliseconds of uptime.
    failed: Option<u64>,
    /// When its failures were looked at last, in the same.
    checked: Option<u64>,
    timing: Timing,
    sums: Sums,
}

impl Tier {
    pub(crate) fn new(servers: Vec<Server>) -> Tier {
        let state = |server: &Server| State {
            current: 0,
            effective: i64::from(server.weight),
            requests: 0,
            fails: 0,
            failed: None,
            checked: None,
            timing: Timing::default(),
            sums: Sums::default(),
        };
        let states = Mutex::new(servers.iter().map(state).collect());
        let weight = servers.iter().map(|server| u64::from(server.weight)).sum();
        let alive = servers.iter().filter(|server| server.admission == Admission::Open).count();
        let (routes, heir) = (OnceLock::new(), OnceLock::new());
        Tier { servers: servers.into(), states, weight, alive, routes, heir }
    }

    /// Lets other servers take the place of these. A request that is in progress counts there, too, if its server stays.
    pub(crate) fn hand_over(&self, tier: &Arc<Tier>) {
        let states = self.lock();
        let mut theirs = tier.lock();
        let mut is_taken = vec![false; theirs.len()];
        let mut place_of = |server: &Server| {
            let mut free = tier.servers.iter().zip(&is_taken);
            let place = free.position(|(other, is_taken)| !is_taken && server.is_same(other))?;
            is_taken[place] = true;
            Some(place)
        };
        let places: Box<[_]> = self.servers.iter().map(&mut place_of).collect();
        for (state, place) in states.iter().zip(&places) {
            if let Some(theirs) = place.and_then(|place| theirs.get_mut(place)) {
                *theirs = state.clone();
            }
        }
        // The lock is held until here: no request ends in between.
        let _ = self.heir.set(Heir { tier: Arc::clone(tier), places });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server at a place on a line where each is as long as its weight.
    pub(crate) fn at_weight(&self, mut place: u64) -> usize {
        let fits = |server: &Server| {
            let weight = u64::from(server.weight);
            let is_here = place < weight;
            place = place.saturating_sub(weight);
            is_here
        };
        self.servers.iter().position(fits).unwrap_or(0)
    }

    /// The server whose turn it is, smooth as nginx has it: of servers with the weights 5, 1 and 1 the first is
    /// asked five times in seven, but never five times in a row. Only those that `fits` takes part.
    pub(crate) fn next(&self, search: Search<'_>, fits: impl Fn(&Server) -> bool) -> Option<usize> {
        let mut states = self.lock();
        let best = self.turn(&mut states, search, |index, _| fits(&self.servers[index]))?;
        self.take(&mut states, best, search.now_ms);
        Some(best)
    }

    /// The server with the fewest requests for its weight; of several the one whose turn it is.
    pub(crate) fn least(&self, search: Search<'_>) -> Option<usize> {
        self.least_by(&mut self.lock(), search, |_, state| state.requests.into())
    }

    /// The server that takes the least time for its weight; of several the one whose turn it is.
    pub(crate) fn quickest(&self, least: LeastTime, search: Search<'_>) -> Option<usize> {
        let (mut states, now_ms) = (self.lock(), search.now_ms);
        for index in 0..states.len() {
            if self.is_free(&states, index, search) {
                states[index].timing.look(now_ms);
            }
        }
        self.least_by(&mut states, search, |server, state| {
            let alone = state.checked.map_or(Duration::MAX, |checked| since(now_ms, checked));
            state.timing.estimate(least, (alone, server.fail_timeout), state.requests)
        })
    }

    /// Takes the server with the least cost for its weight; of several the one whose turn it is.
    fn least_by(
        &self,
        states: &mut [State],
        search: Search<'_>,
        cost: impl Fn(&Server, &State) -> u64,
    ) -> Option<usize> {
        // The cost of a server, as it compares to that of the other one.
        let load = |states: &[State], index: usize, other: usize| {
            u128::from(cost(&self.servers[index], &states[index])) * u128::from(self.servers[other].weight)
        };
        let mut least: Option<usize> = None;
        for index in 0..self.servers.len() {
            if self.is_free(states, index, search)
                && least.is_none_or(|least| load(states, index, least) < load(states, least, index))
            {
                least = Some(index);
            }
        }
        let least = least?;
        let is_even =
            |index: usize, states: &[State]| load(states, index, least) == load(states, least, index);
        let best = self.turn(states, search, is_even)?;
        self.take(states, best, search.now_ms);
        Some(best)
    }

    /// A request to the server is in progress, which counts for `least_time`.
    pub(crate) fn begin_flight(&self, index: usize, now_ms: u64) {
        self.lock()[index].timing.begin(now_ms);
    }

    /// The head of a response took so long, and that ends the request for `least_time`.
    pub(crate) fn end_flight_at_head(&self, index: usize, took_ms: u64, now_ms: u64) {
        let mut states = self.lock();
        if let Some(Heir { tier, places }) = self.heir.get() {
            drop(states);
            if let Some(place) = places.get(index).copied().flatten() {
                tier.end_flight_at_head(place, took_ms, now_ms);
            }
            return;
        }
        let timing = &mut states[index].timing;
        timing.note_head(took_ms);
        timing.end(took_ms, now_ms);
    }

    /// Whether this very server can be asked; then it is taken.
    pub(crate) fn claim(&self, index: usize, search: Search<'_>) -> bool {
        let mut states = self.lock();
        let is_free = self.is_free(&states, index, search);
        if is_free {
            self.take(&mut states, index, search.now_ms);
        }
        is_free
    }

    /// What sessions know the server by.
    pub(crate) fn route(&self, index: usize) -> &[u8] {
        &self.routes()[index]
    }

    fn routes(&self) -> &[Box<[u8]>] {
        self.routes.get_or_init(|| self.servers.iter().map(Server::route).collect())
    }

    /// The server of a session, if it can be asked; then it is taken. If the servers take turns, its turns are counted: it
    /// gets fewer of the requests that have no session.
    pub(crate) fn claim_route(&self, route: &[u8], take_turns: bool, search: Search<'_>) -> Option<usize> {
        let index = self.routes().iter().position(|own| **own == *route)?;
        let server = &self.servers[index];
        let mut states = self.lock();
        if server.admission == Admission::Down || !self.has_capacity(&states, index, search) {
            return None;
        }
        let others = i64::try_from(self.weight).unwrap_or(i64::MAX) - i64::from(server.weight);
        // As in nginx, no more is counted than the others can make up for in a round.
        if take_turns && states[index].current > -others {
            let (_, total) = self.raise(&mut states, search, |_, _| true);
            states[index].current -= total;
        }
        self.take(&mut states, index, search.now_ms);
        Some(index)
    }

    /// Whether this very server could be asked.
    pub(crate) fn has_free(&self, index: usize, search: Search<'_>) -> bool {
        let states = self.lock();
        self.is_free(&states, index, search)
    }

    /// The one of two servers that has fewer requests for its weight; the second where they are even.
    pub(crate) fn lighter(&self, first: usize, second: usize) -> usize {
        let states = self.lock();
        if self.load(&states, second, first) > self.load(&states, first, second) { first } else { second }
    }

    /// Takes note of how a request went; tells whether the server is left alone from now on.
    pub(crate) fn done(&self, index: usize, ended: Ended) -> bool {
        let mut states = self.lock();
        if let Some(Heir { tier, places }) = self.heir.get() {
            drop(states);
            let place = places.get(index).copied().flatten();
            return place.is_some_and(|place| tier.done(place, ended));
        }
        let (state, server) = (&mut states[index], &self.servers[index]);
        let Ended { is_failed, is_single, now_ms, started_ms, measured } = ended;
        state.requests = state.requests.saturating_sub(1);
        state.sums.failures += u64::from(is_failed);
        let took_ms = now_ms.saturating_sub(started_ms);
        state.sums.time_ms += took_ms;
        if let Some(measured) = measured {
            state.measure(measured, took_ms, now_ms, is_failed);
        }
        if is_single {
            return false;
        }
        if !is_failed {
            if state.failed < state.checked {
                state.fails = 0;
            }
            return false;
        }
        state.fails += 1;
        (state.failed, state.checked) = (Some(now_ms), Some(now_ms));
        if server.max_fails == 0 {
            return false;
        }
        let loss = i64::from(server.weight) / i64::from(server.max_fails);
        state.effective = (state.effective - loss).max(0);
        state.fails >= server.max_fails
    }

    /// Takes note of a connection that stands, where that is all that is asked for: other connections need not wait until
    /// it has ended to know that the server is back.
    pub(crate) fn connected(&self, index: usize) {
        let mut states = self.lock();
        if let Some(Heir { tier, places }) = self.heir.get() {
            drop(states);
            places.get(index).copied().flatten().into_iter().for_each(|place| tier.connected(place));
            return;
        }
        let state = &mut states[index];
        if state.failed < state.checked {
            state.fails = 0;
        }
    }

    /// Counts a connection that was opened.
    pub(crate) fn count_connection(&self, index: usize) -> Counted {
        let connections = Arc::clone(&self.lock()[index].sums.connections);
        connections.opened.fetch_add(1, Relaxed);
        connections.open.fetch_add(1, Relaxed);
        Counted(connections)
    }

    /// What each server did so far and does now.
    pub(crate) fn figures(&self, now_ms: u64) -> Vec<Figures> {
        let states = self.lock();
        let figures = |(server, state): (&Server, &State)| Figures {
            name: Arc::clone(&server.name),
            state: match server.admission {
                Admission::Down => ServerState::Down,
                _ if state.is_failed(server, now_ms) => ServerState::Failed,
                Admission::Draining => ServerState::Draining,
                Admission::Open => ServerState::Up,
            },
            requests: state.sums.requests,
            active: state.requests.into(),
            failures: state.sums.failures,
            time: Duration::from_millis(state.sums.time_ms),
            connections: state.sums.connections.open.load(Relaxed),
            opened: state.sums.connections.opened.load(Relaxed),
        };
        self.servers.iter().zip(&*states).map(figures).collect()
    }

    #[inline]
    fn is_free(&self, states: &[State], index: usize, search: Search<'_>) -> bool {
        self.servers[index].admission == Admission::Open && self.has_capacity(states, index, search)
    }

    /// Whether a server can be asked, if the configuration allows it.
    #[inline]
    fn has_capacity(&self, states: &[State], index: usize, search: Search<'_>) -> bool {
        if self.heir.get().is_some() {
            return false;
        }
        let (server, state) = (&self.servers[index], &states[index]);
        let is_full = server.max_conns > 0 && state.requests >= server.max_conns;
        let is_failed = !search.is_single && state.is_failed(server, search.now_ms);
        !is_full && !is_failed && !search.tried.contains(&index)
    }

    /// The requests of a server, as they compare to those of the other one.
    fn load(&self, states: &[State], index: usize, other: usize) -> u64 {
        u64::from(states[index].requests) * u64::from(self.servers[other].weight)
    }

    /// The server whose turn it is, of those that are free and that `fits` takes.
    fn turn(
        &self,
        states: &mut [State],
        search: Search<'_>,
        fits: impl Fn(usize, &[State]) -> bool,
    ) -> Option<usize> {
        let (best, total) = self.raise(states, search, fits);
        states[best?].current -= total;
        best
    }

    /// Brings the turns of these servers nearer. Gives the one whose turn it is, and by how much all came nearer.
    fn raise(
        &self,
        states: &mut [State],
        search: Search<'_>,
        fits: impl Fn(usize, &[State]) -> bool,
    ) -> (Option<usize>, i64) {
        let mut best: Option<usize> = None;
        let mut total = 0;
        for index in 0..states.len() {
            if !self.is_free(states, index, search) || !fits(index, states) {
                continue;
            }
            let state = &mut states[index];
            state.current += state.effective;
            total += state.effective;
            state.effective = (state.effective + 1).min(i64::from(self.servers[index].weight));
            let current = state.current;
            if best.is_none_or(|best| current > states[best].current) {
                best = Some(index);
            }
        }
        (best, total)
    }

    fn take(&self, states: &mut [State], index: usize, now: u64) {
        let state = &mut states[index];
        state.requests += 1;
        state.sums.requests += 1;
        let limit = self.servers[index].fail_timeout;
        if state.checked.is_none_or(|checked| since(now, checked) > limit) {
            state.checked = Some(now);
        }
    }
}

fn since(now: u64, before: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(before))
}

impl State {
    /// Takes note of how long a request took. One that failed does not count: a server that fails quickly is not quick.
    fn measure(&mut self, measured: Measured, took_ms: u64, now_ms: u64, is_failed: bool) {
        let Measured { least, in_flight, head_ms } = measured;
        if in_flight {
            self.timing.end(took_ms, now_ms);
        }
        let Some(head_ms) = head_ms.filter(|_| !is_failed) else { return };
        self.timing.note_response(took_ms);
        // Otherwise it was noted when the head came.
        if !(least.in_flight && least.of_head) {
            self.timing.note_head(head_ms);
        }
    }

    fn is_failed(&self, server: &Server, now: u64) -> bool {
        // No time is over at once, also where the clock did not tick since.
        let recently = |checked| !server.fail_timeout.is_zero() && since(now, checked) <= server.fail_timeout;
        server.max_fails > 0 && self.fails >= server.max_fails && self.checked.is_some_and(recently)
    }
}

#[cfg(test)]
mod tests {
    use super::{LeastTime, Search, Server, Tier};
    use net::SocketAddress;

    /// The largest numbers that there may be are compared without loss.
    #[test]
    fn great_weights_and_many_requests() {
        let server = |port: u16| {
            let address = SocketAddress::Inet(([127, 0, 0, 1], port).into());
            Server { weight: u32::MAX, ..Server::new(address) }
        };
        let tier = Tier::new(vec![server(1), server(2)]);
        for (state, requests) in tier.lock().iter_mut().zip([u32::MAX - 1, u32::MAX - 2]) {
            state.requests = requests;
            state.timing.note_response(5000);
        }
        let search = Search { tried: &[], is_single: false, now_ms: 1 };
        let quickest = || tier.quickest(LeastTime { of_head: false, in_flight: false }, search);
        assert_eq!(quickest(), Some(1));
    }
}

//! Servers among which requests are distributed. A server that failed gets no requests for a while, and then a small
//! share at first.

use crate::peer_state::{Counted, Ended, PeerState, since};
use crate::peers::Peers;
use crate::server::{Admission, PeerSettings, Server};
use crate::timing::LeastTime;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Servers among which requests are shared out, with the settings of one configuration.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) servers: Box<[Server]>,
    /// Where the state of each server is.
    slots: Box<[usize]>,
    peers: Arc<Peers>,
    /// The sum of all weights.
    pub(crate) weight: u64,
    /// How many servers get all requests.
    pub(crate) alive: usize,
    /// What sessions know the servers by, computed at the first use.
    routes: OnceLock<Box<[Box<[u8]>]>>,
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

impl Tier {
    /// Servers whose slots ([`Peers::claim`]) are here.
    pub(crate) fn new(peers: &Arc<Peers>, servers: Vec<(Server, usize)>) -> Tier {
        let (servers, slots): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
        let weight = servers.iter().map(|server| u64::from(server.settings.weight)).sum();
        let is_alive = |server: &&Server| server.settings.admission == Admission::Open;
        let alive = servers.iter().filter(is_alive).count();
        let (servers, slots, peers) = (servers.into(), slots.into(), Arc::clone(peers));
        Tier { servers, slots, peers, weight, alive, routes: OnceLock::new() }
    }

    /// The server at a place on a line where each is as long as its weight.
    pub(crate) fn at_weight(&self, mut place: u64) -> usize {
        let fits = |server: &Server| {
            let weight = u64::from(server.settings.weight);
            let is_here = place < weight;
            place = place.saturating_sub(weight);
            is_here
        };
        self.servers.iter().position(fits).unwrap_or(0)
    }

    /// The server whose turn it is, smooth as nginx has it: of servers with the weights 5, 1 and 1 the first is
    /// asked five times in seven, but never five times in a row. Only those that `fits` takes part.
    pub(crate) fn next(&self, search: Search<'_>, fits: impl Fn(&Server) -> bool) -> Option<usize> {
        let mut states = self.peers.states();
        let best = self.turn(&mut states, search, |index, _| fits(&self.servers[index]))?;
        self.take(&mut states, best, search.now_ms);
        Some(best)
    }

    /// The server with the fewest requests for its weight; of several the one whose turn it is.
    pub(crate) fn least(&self, search: Search<'_>) -> Option<usize> {
        self.least_by(&mut self.peers.states(), search, |_, state| state.requests.into())
    }

    /// The server that takes the least time for its weight; of several the one whose turn it is.
    pub(crate) fn quickest(&self, least: LeastTime, search: Search<'_>) -> Option<usize> {
        let (mut states, now_ms) = (self.peers.states(), search.now_ms);
        for index in 0..self.servers.len() {
            if self.is_free(&states, index, search) {
                states[self.slots[index]].timing.look(now_ms);
            }
        }
        self.least_by(&mut states, search, |settings, state| {
            let alone = state.checked.map_or(Duration::MAX, |checked| since(now_ms, checked));
            state.timing.estimate(least, (alone, settings.fail_timeout), state.requests)
        })
    }

    /// Takes the server with the least cost for its weight; of several the one whose turn it is.
    fn least_by(
        &self,
        states: &mut [PeerState],
        search: Search<'_>,
        cost: impl Fn(&PeerSettings, &PeerState) -> u64,
    ) -> Option<usize> {
        // The cost of a server, as it compares to that of the other one.
        let load = |states: &[PeerState], index: usize, other: usize| {
            let cost = cost(self.settings(index), &states[self.slots[index]]);
            u128::from(cost) * u128::from(self.settings(other).weight)
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
            |index: usize, states: &[PeerState]| load(states, index, least) == load(states, least, index);
        let best = self.turn(states, search, is_even)?;
        self.take(states, best, search.now_ms);
        Some(best)
    }

    /// A request to the server is in progress, which counts for `least_time`.
    pub(crate) fn begin_flight(&self, index: usize, now_ms: u64) {
        self.peers.states()[self.slots[index]].timing.begin(now_ms);
    }

    /// The head of a response took so long, and that ends the request for `least_time`.
    pub(crate) fn end_flight_at_head(&self, index: usize, took_ms: u64, now_ms: u64) {
        let timing = &mut self.peers.states()[self.slots[index]].timing;
        timing.note_head(took_ms);
        timing.end(took_ms, now_ms);
    }

    /// Whether this very server can be asked; then it is taken.
    pub(crate) fn claim(&self, index: usize, search: Search<'_>) -> bool {
        let mut states = self.peers.states();
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
        let settings = self.settings(index);
        let mut states = self.peers.states();
        if settings.admission == Admission::Down || !self.has_capacity(&states, index, search) {
            return None;
        }
        let others = i64::try_from(self.weight).unwrap_or(i64::MAX) - i64::from(settings.weight);
        // As in nginx, no more is counted than the others can make up for in a round.
        if take_turns && states[self.slots[index]].current > -others {
            let (_, total) = self.raise(&mut states, search, |_, _| true);
            states[self.slots[index]].current -= total;
        }
        self.take(&mut states, index, search.now_ms);
        Some(index)
    }

    /// Whether this very server could be asked.
    pub(crate) fn has_free(&self, index: usize, search: Search<'_>) -> bool {
        self.is_free(&self.peers.states(), index, search)
    }

    /// The one of two servers that has fewer requests for its weight; the second where they are even.
    pub(crate) fn lighter(&self, first: usize, second: usize) -> usize {
        let states = self.peers.states();
        if self.load(&states, second, first) > self.load(&states, first, second) { first } else { second }
    }

    /// Takes note of how a request went; tells whether the server is left alone from now on.
    pub(crate) fn done(&self, index: usize, ended: Ended) -> bool {
        self.peers.states()[self.slots[index]].end(self.settings(index), ended)
    }

    /// Takes note of a connection that stands, where that is all that is asked for: other connections need not wait until
    /// it has ended to know that the server is back.
    pub(crate) fn connected(&self, index: usize) {
        self.peers.states()[self.slots[index]].forgive();
    }

    /// Counts a connection that was opened.
    pub(crate) fn count_connection(&self, index: usize) -> Counted {
        Arc::clone(&self.peers.states()[self.slots[index]].sums.connections).count()
    }

    /// What each server did so far and does now.
    pub(crate) fn figures(&self, now_ms: u64) -> Vec<Figures> {
        let states = self.peers.states();
        let figures = |(server, &slot): (&Server, &usize)| {
            let (state, settings) = (&states[slot], &server.settings);
            Figures {
                name: Arc::clone(&server.name),
                state: match settings.admission {
                    Admission::Down => ServerState::Down,
                    _ if state.is_failed(settings, now_ms) => ServerState::Failed,
                    Admission::Draining => ServerState::Draining,
                    Admission::Open => ServerState::Up,
                },
                requests: state.sums.requests,
                active: state.requests.into(),
                failures: state.sums.failures,
                time: Duration::from_millis(state.sums.time_ms),
                connections: state.sums.connections.open.load(Relaxed),
                opened: state.sums.connections.opened.load(Relaxed),
            }
        };
        self.servers.iter().zip(&*self.slots).map(figures).collect()
    }

    fn settings(&self, index: usize) -> &PeerSettings {
        &self.servers[index].settings
    }

    #[inline]
    fn is_free(&self, states: &[PeerState], index: usize, search: Search<'_>) -> bool {
        self.settings(index).admission == Admission::Open && self.has_capacity(states, index, search)
    }

    /// Whether a server can be asked, if the configuration allows it.
    #[inline]
    fn has_capacity(&self, states: &[PeerState], index: usize, search: Search<'_>) -> bool {
        let (settings, state) = (self.settings(index), &states[self.slots[index]]);
        let is_failed = !search.is_single && state.is_failed(settings, search.now_ms);
        !state.is_full(settings) && !is_failed && !search.tried.contains(&index)
    }

    /// The requests of a server, as they compare to those of the other one.
    fn load(&self, states: &[PeerState], index: usize, other: usize) -> u64 {
        u64::from(states[self.slots[index]].requests) * u64::from(self.settings(other).weight)
    }

    /// The server whose turn it is, of those that are free and that `fits` takes.
    fn turn(
        &self,
        states: &mut [PeerState],
        search: Search<'_>,
        fits: impl Fn(usize, &[PeerState]) -> bool,
    ) -> Option<usize> {
        let (best, total) = self.raise(states, search, fits);
        states[self.slots[best?]].current -= total;
        best
    }

    /// Brings the turns of these servers nearer. Gives the one whose turn it is, and by how much all came nearer.
    fn raise(
        &self,
        states: &mut [PeerState],
        search: Search<'_>,
        fits: impl Fn(usize, &[PeerState]) -> bool,
    ) -> (Option<usize>, i64) {
        let mut best: Option<(usize, i64)> = None;
        let mut total = 0;
        for index in 0..self.servers.len() {
            if !self.is_free(states, index, search) || !fits(index, states) {
                continue;
            }
            let state = &mut states[self.slots[index]];
            total += state.come_nearer(self.settings(index));
            if best.is_none_or(|(_, most)| state.current > most) {
                best = Some((index, state.current));
            }
        }
        (best.map(|(index, _)| index), total)
    }

    fn take(&self, states: &mut [PeerState], index: usize, now_ms: u64) {
        states[self.slots[index]].begin(self.settings(index), now_ms);
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.peers.release(&self.slots);
    }
}

#[cfg(test)]
mod tests {
    use super::{LeastTime, Search, Server, Tier};
    use crate::peers::Peers;
    use crate::server::PeerSettings;
    use crate::timing::Until;
    use net::SocketAddress;
    use std::sync::Arc;

    /// The largest numbers that there may be are compared without loss.
    #[test]
    fn great_weights_and_many_requests() {
        let server = |port: u16| {
            let address = SocketAddress::Inet(([127, 0, 0, 1], port).into());
            Server::new(address).with(PeerSettings { weight: u32::MAX, ..PeerSettings::DEFAULT })
        };
        let servers = [server(1), server(2)];
        let peers = Arc::new(Peers::default());
        let slots = peers.claim(&servers);
        let tier = Tier::new(&peers, servers.into_iter().zip(slots).collect());
        for (state, requests) in peers.states().iter_mut().zip([u32::MAX - 1, u32::MAX - 2]) {
            state.requests = requests;
            state.timing.note_response(5000);
        }
        let search = Search { tried: &[], is_single: false, now_ms: 1 };
        let quickest = || tier.quickest(LeastTime { until: Until::LastByte, in_flight: false }, search);
        assert_eq!(quickest(), Some(1));
    }
}

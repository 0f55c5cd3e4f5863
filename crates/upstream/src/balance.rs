//! Weighted round robin, smooth as nginx has it: of servers with the weights 5, 1 and 1 the first is asked
//! five times in seven, but never five times in a row. A server that failed is left alone for a while, and
//! comes back with a small share at first.

use crate::group::{Group, Server};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Servers among which requests are shared out.
#[derive(Debug)]
pub(crate) struct Tier {
    servers: Box<[Server]>,
    states: Mutex<Vec<State>>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    current: i64,
    effective: i64,
    requests: u32,
    fails: u32,
    /// When it failed last.
    failed: Option<Instant>,
    /// When its failures were looked at last.
    checked: Option<Instant>,
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
        };
        let states = Mutex::new(servers.iter().map(state).collect());
        Tier { servers: servers.into(), states }
    }

    fn alive(&self) -> usize {
        self.servers.iter().filter(|server| !server.down).count()
    }

    /// The server whose turn it is, among those that `tried` does not have.
    fn next(&self, tried: &[usize], is_single: bool, now: Instant) -> Option<usize> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut best: Option<usize> = None;
        let mut total = 0;
        for (index, server) in self.servers.iter().enumerate() {
            let state = &mut states[index];
            let is_full = server.max_conns > 0 && state.requests >= server.max_conns;
            let is_failed = !is_single && state.is_failed(server, now);
            if server.down || is_full || is_failed || tried.contains(&index) {
                continue;
            }
            state.current += state.effective;
            total += state.effective;
            state.effective = (state.effective + 1).min(i64::from(server.weight));
            let current = state.current;
            if best.is_none_or(|best| current > states[best].current) {
                best = Some(index);
            }
        }
        let index = best?;
        let state = &mut states[index];
        state.current -= total;
        state.requests += 1;
        let limit = self.servers[index].fail_timeout;
        if state.checked.is_none_or(|checked| now.duration_since(checked) > limit) {
            state.checked = Some(now);
        }
        Some(index)
    }

    /// Takes note of how a request went; tells whether the server is left alone from now on.
    fn done(&self, index: usize, failed: bool, is_single: bool, now: Instant) -> bool {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, server) = (&mut states[index], &self.servers[index]);
        state.requests = state.requests.saturating_sub(1);
        if is_single {
            return false;
        }
        if !failed {
            if state.failed < state.checked {
                state.fails = 0;
            }
            return false;
        }
        state.fails += 1;
        (state.failed, state.checked) = (Some(now), Some(now));
        if server.max_fails == 0 {
            return false;
        }
        let loss = i64::from(server.weight) / i64::from(server.max_fails);
        state.effective = (state.effective - loss).max(0);
        state.fails >= server.max_fails
    }
}

impl State {
    fn is_failed(&self, server: &Server, now: Instant) -> bool {
        let recently = |checked| now.duration_since(checked) <= server.fail_timeout;
        server.max_fails > 0 && self.fails >= server.max_fails && self.checked.is_some_and(recently)
    }
}

/// The choice of servers for one request: none is chosen twice.
#[derive(Debug)]
pub struct Choice {
    group: Arc<Group>,
    tried: [Vec<usize>; 2],
    left: usize,
}

impl Choice {
    /// Of all servers of a group, at most `limit` of them; 0 is no limit.
    pub fn new(group: &Arc<Group>, limit: usize) -> Choice {
        let all = group.primary.alive() + group.backup.alive();
        let left = if limit == 0 { all } else { all.min(limit) };
        Choice { group: Arc::clone(group), tried: Default::default(), left }
    }

    /// Whether another server may be asked.
    pub fn has_more(&self) -> bool {
        self.left > 0
    }

    /// One more may be asked, since the last one was no fair try.
    pub fn forgive(&mut self) {
        if let Some(last) = self.tried.iter_mut().rev().find(|tried| !tried.is_empty()) {
            last.pop();
        }
        self.left += 1;
    }

    /// The next server, or `None` where none is left that is alive.
    pub fn choose(&mut self) -> Option<Lease> {
        let now = Instant::now();
        let is_single = self.is_single();
        self.left = self.left.saturating_sub(1);
        for (tier, servers) in [&self.group.primary, &self.group.backup].into_iter().enumerate() {
            if let Some(index) = servers.next(&self.tried[tier], is_single, now) {
                self.tried[tier].push(index);
                let group = Arc::clone(&self.group);
                return Some(Lease { group, is_backup: tier == 1, index, is_single, failed: false });
            }
        }
        None
    }

    /// There is nobody else to ask, so failures do not count.
    fn is_single(&self) -> bool {
        self.group.primary.servers.len() == 1 && self.group.backup.servers.is_empty()
    }
}

/// A server that was chosen. It counts as busy until this is dropped.
#[derive(Debug)]
pub struct Lease {
    group: Arc<Group>,
    is_backup: bool,
    index: usize,
    is_single: bool,
    failed: bool,
}

impl Lease {
    /// The server.
    pub fn server(&self) -> &Server {
        &self.tier().servers[self.index]
    }

    /// The group that it is of.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Takes note that the server failed; tells whether it is left alone from now on.
    pub fn fail(&mut self) -> bool {
        self.failed = true;
        self.tier().done(self.index, true, self.is_single, Instant::now())
    }

    fn tier(&self) -> &Tier {
        if self.is_backup { &self.group.backup } else { &self.group.primary }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.failed {
            self.tier().done(self.index, false, self.is_single, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;
    use crate::group::{Group, Keepalive, Server};
    use net::SocketAddress;
    use std::sync::Arc;
    use std::time::Duration;

    fn server(port: u16) -> Server {
        Server::new(SocketAddress::Inet(([127, 0, 0, 1], port).into()))
    }

    fn group(servers: Vec<Server>) -> Arc<Group> {
        Arc::new(Group::new("g", servers, Keepalive::NONE))
    }

    fn port(choice: &mut Choice) -> Option<u16> {
        choice.choose()?.server().address.port()
    }

    #[test]
    fn shares_follow_the_weights_smoothly() {
        let group = group(vec![Server { weight: 5, ..server(1) }, server(2), server(3)]);
        let ports: Vec<_> = (0..7).filter_map(|_| port(&mut Choice::new(&group, 0))).collect();
        assert_eq!(ports, [1, 1, 2, 1, 3, 1, 1]);
    }

    #[test]
    fn each_server_once_and_backups_last() {
        let servers = vec![
            Server { backup: true, ..server(1) },
            server(2),
            Server { down: true, ..server(3) },
            server(4),
        ];
        let group = group(servers);
        let mut choice = Choice::new(&group, 0);
        let ports: Vec<_> = std::iter::from_fn(|| port(&mut choice)).collect();
        assert_eq!(ports, [2, 4, 1]);
        assert!(!choice.has_more());
        let mut choice = Choice::new(&group, 1);
        assert!(choice.has_more());
        choice.choose();
        assert!(!choice.has_more());
    }

    #[test]
    fn a_server_that_failed_is_left_alone_and_comes_back() {
        let failing = |fail_timeout| {
            let group = group(vec![Server { fail_timeout, ..server(1) }, server(2)]);
            let mut lease = Choice::new(&group, 0).choose().unwrap();
            assert_eq!(lease.server().address.port(), Some(1));
            assert!(lease.fail());
            drop(lease);
            (0..4).filter_map(|_| port(&mut Choice::new(&group, 0))).collect::<Vec<_>>()
        };
        assert_eq!(failing(Duration::from_secs(60)), [2, 2, 2, 2]);
        assert!(failing(Duration::ZERO).contains(&1));
    }

    #[test]
    fn the_only_server_is_always_asked() {
        let group = group(vec![server(1)]);
        for _ in 0..3 {
            assert!(!Choice::new(&group, 0).choose().unwrap().fail());
        }
    }

    #[test]
    fn so_many_requests_at_once() {
        let group = group(vec![Server { max_conns: 1, ..server(1) }, server(2)]);
        let first = Choice::new(&group, 0).choose().unwrap();
        let second = Choice::new(&group, 0).choose().unwrap();
        assert_eq!((first.server().address.port(), second.server().address.port()), (Some(1), Some(2)));
        assert_eq!(port(&mut Choice::new(&group, 0)), Some(2));
        drop((first, second));
        let ports = [port(&mut Choice::new(&group, 0)), port(&mut Choice::new(&group, 0))];
        assert!(ports.contains(&Some(1)), "{ports:?}");
    }
}

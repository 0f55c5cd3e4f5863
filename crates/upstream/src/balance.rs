//! The choice of servers for a request: of those that do the work first, of the backups where none of them can.

use crate::group::{Group, Key};
use crate::members::Members;
use crate::method::{Draw, Method};
use crate::peer_state::{Counted, Ended, Measured};
use crate::server::Server;
use crate::sticky::{Learns, Lesson};
use crate::tier::{Search, Tier};
use crate::timing::Until;
use contract::Exchange;
use journal::clock::Time;
use std::sync::Arc;

/// The choice of servers for one request: none is chosen twice.
#[derive(Debug)]
pub struct Choice {
    group: Arc<Group>,
    /// The members of the group, when they were looked at last.
    members: Arc<Members>,
    draw: Draw,
    /// The session of the request; empty if it has none.
    session: Vec<u8>,
    tried: [Vec<usize>; 2],
    left: usize,
}

impl Choice {
    /// Of all servers of a group, at most `limit` of them; 0 is no limit. The key is [`Group::key`]'s.
    pub fn new(group: &Arc<Group>, key: Key, limit: usize) -> Choice {
        let members = group.live.members();
        let Key { text, session } = key;
        let (draw, left) =
            (Draw::new(&group.method, text, members.points(&group.method)), most(&members, limit));
        Choice { group: Arc::clone(group), members, draw, session, tried: Default::default(), left }
    }

    /// Begins anew, with the memory of a choice that was made.
    #[inline]
    pub(crate) fn renew(&mut self, group: &Arc<Group>, Key { text, session }: Key, limit: usize) {
        if !Arc::ptr_eq(&self.group, group) {
            self.group = Arc::clone(group);
            self.members = group.live.members();
        } else if !group.live.is_current(&self.members) {
            self.members = group.live.members();
        }
        self.left = most(&self.members, limit);
        self.draw = Draw::new(&group.method, text, self.members.points(&group.method));
        self.session = session;
        self.tried.iter_mut().for_each(Vec::clear);
    }

    /// The session of the request; empty if it has none.
    pub(crate) fn session(&self) -> &[u8] {
        &self.session
    }

    /// The route of the server that the session belongs to.
    fn route(&self) -> Option<Vec<u8>> {
        let sticky = self.group.sticky.as_ref().filter(|_| !self.session.is_empty())?;
        sticky.route(&self.session)
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
        self.left = self.left.saturating_sub(1);
        self.renew_members();
        let (now_ms, is_single, route) = (Time::now().uptime_ms, self.is_single(), self.route());
        let Choice { group, members, draw, tried, .. } = self;
        let search = |tier: usize| Search { tried: &tried[tier], is_single, now_ms };
        let method = &group.method;
        let claim = |index: usize, tier: &Tier, draw: &Draw| {
            let search = search(index);
            let takes_turns = !matches!(method, Method::LeastConnections | Method::LeastTime(_))
                && (index == 1 || draw.takes_turns(method, tier, search));
            tier.claim_route(route.as_deref()?, takes_turns, search)
        };
        let turn = |tier: &Tier, search: Search<'_>| match method {
            Method::LeastConnections if !is_single => tier.least(search),
            Method::LeastTime(least) if !is_single => tier.quickest(*least, search),
            _ => tier.next(search, |_| true),
        };
        let Members { primary, backup, .. } = &**members;
        let chosen = claim(0, primary, draw)
            .or_else(|| draw.next(method, members.points(method), primary, search(0)))
            .or_else(|| turn(primary, search(0)));
        let spare = || claim(1, backup, draw).or_else(|| turn(backup, search(1)));
        let (tier, index) = chosen.map(|index| (0, index)).or_else(|| Some((1, spare()?)))?;
        tried[tier].push(index);
        let is_backup = tier == 1;
        let measured = match *method {
            Method::LeastTime(least) => {
                let in_flight = least.in_flight && !is_single;
                if in_flight {
                    (if is_backup { backup } else { primary }).begin_flight(index, now_ms);
                }
                Some(Measured { least, in_flight, head_ms: None })
            }
            _ => None,
        };
        let (group, members, started_ms) = (Arc::clone(group), Arc::clone(members), now_ms);
        let (failed, lesson) = (false, None);
        Some(Lease { group, members, is_backup, index, is_single, failed, lesson, started_ms, measured })
    }

    /// Takes the members that there are now. All of them may be asked: which of them were tried is not known.
    fn renew_members(&mut self) {
        if self.group.live.is_current(&self.members) {
            return;
        }
        self.members = self.group.live.members();
        self.draw.begin_again(&self.group.method, self.members.points(&self.group.method));
        self.tried.iter_mut().for_each(Vec::clear);
    }

    /// No other server can be asked, so failures do not count.
    fn is_single(&self) -> bool {
        self.members.primary.servers.len() == 1 && self.members.backup.servers.is_empty()
    }
}

/// How many servers may be asked on behalf of one request.
fn most(members: &Members, limit: usize) -> usize {
    let all = members.primary.alive + members.backup.alive;
    if limit == 0 { all } else { all.min(limit) }
}

/// A server that was chosen. It counts as busy until this is dropped.
#[derive(Debug)]
pub struct Lease {
    group: Arc<Group>,
    /// Its members when it was chosen.
    members: Arc<Members>,
    is_backup: bool,
    index: usize,
    is_single: bool,
    failed: bool,
    /// What is learned if the server does not fail.
    lesson: Option<Box<Lesson>>,
    /// When it was chosen, in milliseconds of uptime.
    started_ms: u64,
    /// What is measured, if the group chooses by times.
    measured: Option<Measured>,
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

    /// What sessions know the server by.
    pub(crate) fn route(&self) -> &[u8] {
        self.tier().route(self.index)
    }

    /// Learns from the answer of the server to a request of this session, if the group learns from answers. This is called
    /// when the head is there, and at the end.
    pub(crate) fn learn(&mut self, exchange: &Exchange, session: &[u8], now: Learns) {
        let Some(sticky) = &self.group.sticky else { return };
        let Some(learns) = sticky.learns() else { return };
        let is_known = self.lesson.as_ref().is_some_and(|lesson| lesson.is_begun);
        if is_known || (now, learns) == (Learns::AtEnd, Learns::AtHead) {
            return;
        }
        let lesson = Lesson::of(&**sticky, exchange, session);
        match (lesson, learns) {
            (Some(lesson), Learns::AtHead) => sticky.learn(&lesson, self.route()),
            (lesson, _) => self.lesson = lesson.map(Box::new),
        }
    }

    /// Takes note that the head of a response came, which the client gets, or that the first byte did.
    pub(crate) fn reached(&mut self, moment: Until) {
        let Some(mut measured) = self.measured else { return };
        let awaited = match measured.least.until {
            Until::FirstByte => Until::FirstByte,
            Until::Answer | Until::LastByte => Until::Answer,
        };
        if moment != awaited {
            return;
        }
        let now_ms = Time::now().uptime_ms;
        let took_ms = now_ms.saturating_sub(self.started_ms);
        measured.head_ms = Some(took_ms);
        if measured.in_flight && measured.least.until != Until::LastByte {
            measured.in_flight = false;
            self.tier().end_flight_at_head(self.index, took_ms, now_ms);
        }
        self.measured = Some(measured);
    }

    /// Takes note that the connection stands, where that is all that is asked for.
    pub(crate) fn connected(&self) {
        self.tier().connected(self.index);
    }

    /// Takes note that the server failed; tells whether it is left alone from now on.
    pub fn fail(&mut self) -> bool {
        self.failed = true;
        self.tier().done(self.index, self.ended())
    }

    /// Counts a connection to the server that was opened.
    pub(crate) fn count_connection(&self) -> Counted {
        self.tier().count_connection(self.index)
    }

    fn ended(&self) -> Ended {
        let Lease { failed, is_single, started_ms, measured, .. } = *self;
        Ended { is_failed: failed, is_single, now_ms: Time::now().uptime_ms, started_ms, measured }
    }

    fn tier(&self) -> &Tier {
        if self.is_backup { &self.members.backup } else { &self.members.primary }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.failed {
            return;
        }
        self.tier().done(self.index, self.ended());
        if let (Some(lesson), Some(sticky)) = (&self.lesson, &self.group.sticky) {
            sticky.learn(lesson, self.route());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;
    use crate::group::{Group, Keepalive, Key};
    use crate::server::{Admission, PeerSettings, Server};
    use crate::tier::ServerState;
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
        choice.choose()?.server().peer.address.port()
    }

    #[test]
    fn shares_follow_the_weights_smoothly() {
        let group = group(vec![
            server(1).with(PeerSettings { weight: 5, ..PeerSettings::DEFAULT }),
            server(2),
            server(3),
        ]);
        let ports: Vec<_> =
            (0..7).filter_map(|_| port(&mut Choice::new(&group, Key::default(), 0))).collect();
        assert_eq!(ports, [1, 1, 2, 1, 3, 1, 1]);
    }

    #[test]
    fn each_server_once_and_backups_last() {
        let servers = vec![
            server(1).with(PeerSettings { backup: true, ..PeerSettings::DEFAULT }),
            server(2),
            server(3).with(PeerSettings { admission: Admission::Down, ..PeerSettings::DEFAULT }),
            server(4),
        ];
        let group = group(servers);
        let mut choice = Choice::new(&group, Key::default(), 0);
        let ports: Vec<_> = std::iter::from_fn(|| port(&mut choice)).collect();
        assert_eq!(ports, [2, 4, 1]);
        assert!(!choice.has_more());
        let mut choice = Choice::new(&group, Key::default(), 1);
        assert!(choice.has_more());
        choice.choose();
        assert!(!choice.has_more());
    }

    #[test]
    fn a_server_that_failed_is_left_alone_and_comes_back() {
        let failing = |fail_timeout| {
            let group = group(vec![
                server(1).with(PeerSettings { fail_timeout, ..PeerSettings::DEFAULT }),
                server(2),
            ]);
            let mut lease = Choice::new(&group, Key::default(), 0).choose().unwrap();
            assert_eq!(lease.server().peer.address.port(), Some(1));
            assert!(lease.fail());
            drop(lease);
            (0..4).filter_map(|_| port(&mut Choice::new(&group, Key::default(), 0))).collect::<Vec<_>>()
        };
        assert_eq!(failing(Duration::from_secs(60)), [2, 2, 2, 2]);
        assert!(failing(Duration::ZERO).contains(&1));
    }

    #[test]
    fn the_only_server_is_always_asked() {
        let group = group(vec![server(1)]);
        for _ in 0..3 {
            assert!(!Choice::new(&group, Key::default(), 0).choose().unwrap().fail());
        }
    }

    #[test]
    fn figures_of_servers() {
        let group = group(vec![
            server(1),
            server(2).with(PeerSettings { admission: Admission::Down, ..PeerSettings::DEFAULT }),
            server(3),
        ]);
        let mut first = Choice::new(&group, Key::default(), 0).choose().unwrap();
        let connection = first.count_connection();
        let second = Choice::new(&group, Key::default(), 0).choose().unwrap();
        first.fail();
        let all = group.figures();
        let figures = |index: usize| (all[index].requests, all[index].active, all[index].failures);
        assert_eq!([figures(0), figures(1), figures(2)], [(1, 0, 1), (0, 0, 0), (1, 1, 0)]);
        let states: Vec<_> = all.iter().map(|figures| figures.state).collect();
        assert_eq!(states, [ServerState::Failed, ServerState::Down, ServerState::Up]);
        assert_eq!((all[0].opened, all[0].connections), (1, 1));
        drop((first, second, connection));
        let all = group.figures();
        assert_eq!((all[0].opened, all[0].connections, all[2].active), (1, 0, 0));
    }

    #[test]
    fn so_many_requests_at_once() {
        let group =
            group(vec![server(1).with(PeerSettings { max_conns: 1, ..PeerSettings::DEFAULT }), server(2)]);
        let first = Choice::new(&group, Key::default(), 0).choose().unwrap();
        let second = Choice::new(&group, Key::default(), 0).choose().unwrap();
        assert_eq!(
            (first.server().peer.address.port(), second.server().peer.address.port()),
            (Some(1), Some(2))
        );
        assert_eq!(port(&mut Choice::new(&group, Key::default(), 0)), Some(2));
        drop((first, second));
        let ports = [
            port(&mut Choice::new(&group, Key::default(), 0)),
            port(&mut Choice::new(&group, Key::default(), 0)),
        ];
        assert!(ports.contains(&Some(1)), "{ports:?}");
    }
}

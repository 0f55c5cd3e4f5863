//! The members of a group, which are replaced while requests are served, because addresses of hosts change.

use crate::members::Members;
use crate::peers::Peers;
use crate::server::Server;
use contract::{Identity, Origin};
use net::SocketAddress;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A server as the configuration names it.
#[derive(Clone, Debug)]
pub enum Configured {
    /// Servers whose addresses are known.
    Known(Vec<Server>),
    /// A host whose addresses are looked up again and again.
    Changing(ChangingServer),
}

impl Configured {
    /// Whether it stands for a server that does the work first; a host may.
    pub fn has_primary(&self) -> bool {
        self.templates().iter().any(|server| !server.settings.backup)
    }

    /// Whether it stands for a server that is asked only where no other can be.
    pub fn has_backup(&self) -> bool {
        self.templates().iter().any(|server| server.settings.backup)
    }

    /// Whether it is looked up again and again.
    pub fn is_changing(&self) -> bool {
        matches!(self, Configured::Changing(_))
    }

    fn templates(&self) -> &[Server] {
        match self {
            Configured::Known(servers) => servers,
            Configured::Changing(host) => std::slice::from_ref(&host.template),
        }
    }
}

/// A host whose addresses are looked up again and again (`resolve`).
#[derive(Clone, Debug)]
pub struct ChangingServer {
    /// The settings of each server that it stands for. Its address is not used.
    pub template: Server,
    /// The host.
    pub host: Box<str>,
    /// The port, unless a service has it.
    pub port: u16,
    /// The service whose hosts and ports are looked up (`service`).
    pub service: Option<Box<str>>,
}

/// A server that a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its address; the port is that of the service, or 0.
    pub(crate) address: SocketAddr,
    /// What only services have.
    pub(crate) service: Option<OfService>,
}

/// What a service says of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfService {
    pub(crate) target: dns::Name,
    pub(crate) weight: u16,
    pub(crate) is_backup: bool,
}

/// What the last look-up of a host found. It outlives a configuration where the next one has the same host.
#[derive(Debug, Default)]
struct Known(Mutex<Vec<Found>>);

/// The members of the group of one configuration.
#[derive(Debug)]
pub(crate) struct Live {
    /// The states of the members, which outlive the configuration.
    pub(crate) peers: Arc<Peers>,
    entries: Box<[Entry]>,
    members: RwLock<Arc<Members>>,
    /// The version of `members`. A request compares it without a lock to see whether its members are current.
    version: AtomicU64,
}

#[derive(Debug)]
enum Entry {
    Known(Vec<Server>),
    Changing(ChangingServer, Arc<Known>),
}

impl Live {
    /// The members that the configuration names, and those that were found before for its hosts.
    pub(crate) fn configured(
        group: &Identity,
        servers: Vec<Configured>,
        peers: Arc<Peers>,
        origin: &Origin,
    ) -> Live {
        let entry = |server: Configured| match server {
            Configured::Known(servers) => Entry::Known(servers),
            Configured::Changing(server) => {
                let identity = group.clone().bytes(&*server.host);
                let identity = identity.bytes(server.service.as_deref().unwrap_or_default());
                Entry::Changing(server, origin.keep(identity, Known::default))
            }
        };
        Live::new(servers.into_iter().map(entry).collect(), peers)
    }

    /// Members that stay as they are.
    pub(crate) fn fixed(servers: Vec<Server>, peers: Arc<Peers>) -> Live {
        Live::with(Box::default(), servers, peers)
    }

    fn new(entries: Box<[Entry]>, peers: Arc<Peers>) -> Live {
        let servers = entries.iter().flat_map(Entry::servers).collect();
        Live::with(entries, servers, peers)
    }

    fn with(entries: Box<[Entry]>, servers: Vec<Server>, peers: Arc<Peers>) -> Live {
        let members = Members::new(&peers, servers, 0);
        Live { peers, entries, members: RwLock::new(Arc::new(members)), version: AtomicU64::new(0) }
    }

    /// The members at this time.
    pub(crate) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether these members, which are of this group, were not replaced.
    #[inline]
    pub(crate) fn is_current(&self, members: &Members) -> bool {
        self.version.load(Ordering::Relaxed) == members.version
    }

    /// The hosts to look up, with their places among the servers.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (usize, &ChangingServer)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| match entry {
            Entry::Known(_) => None,
            Entry::Changing(server, _) => Some((place, server)),
        })
    }

    /// Replaces the members by what a look-up found of the host at this place. Members that are among both stay as they
    /// are.
    pub(crate) fn put(&self, place: usize, found: Vec<Found>) {
        let Some(Entry::Changing(_, known)) = self.entries.get(place) else { return };
        known.replace(found);
        let servers: Vec<_> = self.entries.iter().flat_map(Entry::servers).collect();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        // Compared with the members, not with what was known: the configuration before has the same hosts, and may have
        // found this first.
        if members.are(&servers) {
            return;
        }
        let version = members.version + 1;
        *members = Arc::new(Members::new(&self.peers, servers, version));
        self.version.store(version, Ordering::Relaxed);
    }
}

impl Known {
    /// Takes what a look-up found, in the order in which it was known before.
    fn replace(&self, mut found: Vec<Found>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stays = |one: &Found| {
            let place = found.iter().position(|other| other == one);
            place.map(|place| found.remove(place)).is_some()
        };
        known.retain(|one| stays(one));
        known.append(&mut found);
    }
}

impl Entry {
    fn servers(&self) -> Vec<Server> {
        match self {
            Entry::Known(servers) => servers.clone(),
            Entry::Changing(server, known) => {
                let known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
                known.iter().map(|found| server.at(found)).collect()
            }
        }
    }
}

impl ChangingServer {
    /// The server that a look-up found.
    fn at(&self, found: &Found) -> Server {
        let mut server = self.template.clone();
        let mut address = found.address;
        match &found.service {
            None => address.set_port(self.port),
            Some(service) => {
                server.written = format!("{}:{}", service.target, address.port()).into();
                // A weight that the configuration sets takes precedence.
                if server.settings.weight == 1 {
                    server.settings.weight = u32::from(service.weight.max(1));
                }
                server.settings.backup |= service.is_backup;
            }
        }
        server.peer.address = SocketAddress::Inet(address);
        server.name = server.peer.address.to_string().into();
        server
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangingServer, Configured, Found, Live, OfService};
    use crate::balance::Choice;
    use crate::group::{Group, Keepalive, Key};
    use crate::method::Method;
    use crate::server::{Admission, PeerSettings, Server};
    use crate::tier::ServerState;
    use conf::Contexts;
    use contract::Origin;
    use inputs::System;
    use net::SocketAddress;
    use std::sync::Arc;

    fn template() -> Server {
        Server::new(SocketAddress::Inet(([0, 0, 0, 0], 0).into()))
    }

    fn host(template: Server) -> Configured {
        let host = ChangingServer { template, host: "a.example".into(), port: 80, service: None };
        Configured::Changing(host)
    }

    fn key() -> Key {
        Key { text: b"key".to_vec(), ..Key::default() }
    }

    fn found(last: u8) -> Found {
        Found { address: ([127, 0, 0, last], 0).into(), service: None }
    }

    fn group(servers: &[Configured], origin: &Origin) -> (Arc<Group>, Arc<Live>) {
        let group =
            Arc::new(Group::configured((Contexts::HTTP, "g"), servers.to_vec(), Keepalive::DEFAULT, origin));
        let live = Arc::clone(&group.live);
        (group, live)
    }

    fn asked(group: &Arc<Group>) -> Vec<String> {
        let mut choice = Choice::new(group, key(), 0);
        std::iter::from_fn(|| choice.choose().map(|lease| lease.server().name.to_string())).collect()
    }

    #[test]
    fn members_come_and_go() {
        let fixed = Server::new(SocketAddress::Inet(([127, 0, 0, 9], 80).into()));
        let (group, live) = group(&[host(template()), Configured::Known(vec![fixed])], &inputs::origin());
        assert_eq!(asked(&group), ["127.0.0.9:80"]);
        live.put(0, vec![found(1), found(2)]);
        let mut all = asked(&group);
        all.sort_unstable();
        assert_eq!(all, ["127.0.0.1:80", "127.0.0.2:80", "127.0.0.9:80"]);
        let before = live.members();
        live.put(0, vec![found(2), found(1)]);
        assert!(Arc::ptr_eq(&before, &live.members()), "the order does not matter");
        live.put(0, vec![found(2), found(2)]);
        assert_eq!(live.members().primary.servers.len(), 3, "equal ones are several");
        live.put(0, Vec::new());
        assert_eq!(asked(&group), ["127.0.0.9:80"]);
    }

    #[test]
    fn a_server_that_stays_keeps_what_is_known_of_it() {
        let (group, live) = group(
            &[host(template().with(PeerSettings { max_conns: 1, ..PeerSettings::DEFAULT }))],
            &inputs::origin(),
        );
        live.put(0, vec![found(1), found(2)]);
        let mut choice = Choice::new(&group, Key::default(), 0);
        let first = choice.choose().unwrap();
        assert_eq!(&*first.server().name, "127.0.0.1:80");
        let mut second = choice.choose().unwrap();
        second.fail();
        live.put(0, vec![found(3), found(1)]);
        assert_eq!(asked(&group), ["127.0.0.3:80"], "the first one has its request still");
        // A request that holds the members of before keeps what is known of them.
        drop((choice, first, second));
        live.put(0, vec![found(1), found(2)]);
        let mut all = asked(&group);
        all.sort_unstable();
        assert_eq!(all, ["127.0.0.1:80", "127.0.0.2:80"], "over two changes, and a server that is new");
    }

    #[test]
    fn a_choice_goes_on_with_the_members_that_there_are() {
        for method in [Method::RoundRobin, Method::LeastConnections, Method::Network, Method::RandomTwo] {
            let group = Group::configured(
                (Contexts::HTTP, "g"),
                vec![host(template())],
                Keepalive::DEFAULT,
                &inputs::origin(),
            );
            let group = Arc::new(group.chosen_by(method));
            let live = &group.live;
            assert!(Choice::new(&group, key(), 0).choose().is_none());
            live.put(0, vec![found(1), found(2)]);
            let mut choice = Choice::new(&group, key(), 0);
            assert!(choice.choose().is_some());
            live.put(0, vec![found(3)]);
            assert_eq!(&*choice.choose().unwrap().server().name, "127.0.0.3:80");
            live.put(0, Vec::new());
            assert!(choice.choose().is_none());
        }
    }

    #[test]
    fn services_have_ports_weights_and_backups() {
        let service = |target, weight, is_backup| {
            Some(OfService { target: dns::Name::new(target).unwrap(), weight, is_backup })
        };
        let of =
            |template| ChangingServer { template, host: "a".into(), port: 80, service: Some("x".into()) };
        let found = Found { address: ([127, 0, 0, 1], 81).into(), service: service("b", 0, true) };
        let server = of(template()).at(&found);
        assert_eq!((&*server.name, &*server.written), ("127.0.0.1:81", "b:81"));
        assert_eq!((server.settings.weight, server.settings.backup), (1, true));
        let found = Found { service: service("b", 7, false), ..found };
        assert_eq!(of(template()).at(&found).settings.weight, 7);
        let written = template().with(PeerSettings { weight: 3, ..PeerSettings::DEFAULT });
        assert_eq!(of(written).at(&found).settings.weight, 3);
    }

    #[test]
    fn groups_of_one_name_in_http_and_stream_keep_their_own_state() {
        let group = |place, origin: &Origin| {
            let server = Server::new(SocketAddress::Inet(([127, 0, 0, 1], 1).into()));
            let servers = vec![Configured::Known(vec![server])];
            Arc::new(Group::configured((place, "g"), servers, Keepalive::DEFAULT, origin))
        };
        let peers = |group: &Arc<Group>| Arc::clone(&group.live.peers);
        let first = inputs::origin();
        let [http, stream] = [Contexts::HTTP, Contexts::STREAM].map(|place| group(place, &first));
        let second = Origin::new(Arc::new(System), first.finish());
        let [later_stream, later_http] =
            [Contexts::STREAM, Contexts::HTTP].map(|place| group(place, &second));
        assert!(Arc::ptr_eq(&peers(&http), &peers(&later_http)));
        assert!(Arc::ptr_eq(&peers(&stream), &peers(&later_stream)));
    }

    #[test]
    fn a_reload_keeps_the_state_of_each_peer_whatever_its_settings() {
        let server = |port: u16| Server::new(SocketAddress::Inet(([127, 0, 0, 1], port).into()));
        let group = |servers: Vec<Server>, origin: &Origin| {
            let servers = vec![Configured::Known(servers)];
            Arc::new(Group::configured((Contexts::HTTP, "g"), servers, Keepalive::DEFAULT, origin))
        };
        let first = inputs::origin();
        let before = group(vec![server(1), server(2), server(3)], &first);
        let mut leases = Choice::new(&before, key(), 0);
        let mut failed = leases.choose().unwrap();
        let _connection = failed.count_connection();
        failed.fail();
        let in_progress = leases.choose().unwrap();
        let default = PeerSettings::DEFAULT;
        let second = Origin::new(Arc::new(System), first.finish());
        let after = group(
            vec![
                server(2).with(PeerSettings { weight: 5, max_conns: 1, ..default }),
                server(4),
                server(1).with(PeerSettings { backup: true, max_fails: 1, ..default }),
                server(3).with(PeerSettings { admission: Admission::Down, ..default }),
            ],
            &second,
        );
        assert_eq!(before.live.peers.id, after.live.peers.id, "idle connections are kept under it");
        assert_eq!(asked(&after), ["127.0.0.1:4"], "one is full, one is down, one has failed");
        assert_eq!(asked(&before).len(), 2, "with the settings of before one has failed");
        drop(in_progress);
        let figures: Vec<_> =
            after.figures().into_iter().map(|one| (one.requests, one.failures, one.opened)).collect();
        assert_eq!(figures, [(2, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 1)]);
        assert_eq!(after.figures()[3].state, ServerState::Failed);
        assert!(asked(&after).contains(&"127.0.0.1:2".to_owned()), "its request is over");
    }

    #[test]
    fn a_reload_keeps_the_addresses_of_a_host() {
        let first = inputs::origin();
        let (_, live) = group(&[host(template())], &first);
        live.put(0, vec![found(1)]);
        let second = Origin::new(Arc::new(System), first.finish());
        let heavy = template().with(PeerSettings { weight: 2, ..PeerSettings::DEFAULT });
        let (next, next_live) = group(&[host(heavy)], &second);
        assert_eq!(asked(&next), ["127.0.0.1:80"], "the addresses are known from before");
        // The configuration before still looks its host up, and finds the change first.
        live.put(0, vec![found(2)]);
        next_live.put(0, vec![found(2)]);
        assert_eq!(asked(&next), ["127.0.0.2:80"]);
    }
}

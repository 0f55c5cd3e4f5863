//! Members of a group that are replaced while requests are served, because addresses of hosts change.

use crate::members::Members;
use crate::server::Server;
use contract::{Identity, Origin};
use net::SocketAddress;
use std::net::SocketAddr;
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
        self.templates().iter().any(|server| !server.backup)
    }

    /// Whether it stands for a server that is asked only where no other can be.
    pub fn has_backup(&self) -> bool {
        self.templates().iter().any(|server| server.backup)
    }

    /// Whether it is looked up again and again.
    pub fn is_changing(&self) -> bool {
        matches!(self, Configured::Changing(_))
    }

    /// The servers whose addresses are known.
    pub(crate) fn into_known(self) -> Vec<Server> {
        match self {
            Configured::Known(servers) => servers,
            Configured::Changing(_) => Vec::new(),
        }
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

/// Members of a group that are replaced while requests are served. It outlives a configuration where the next one has
/// the same servers.
#[derive(Debug)]
pub(crate) struct Live {
    entries: Box<[Entry]>,
    members: RwLock<Arc<Members>>,
}

#[derive(Debug)]
enum Entry {
    Known(Vec<Server>),
    Changing(ChangingServer, Arc<Known>),
}

impl Live {
    pub(crate) fn kept(name: &str, servers: &[Configured], origin: &Origin) -> Arc<Live> {
        let entry = |server: &Configured| match server {
            Configured::Known(servers) => Entry::Known(servers.clone()),
            Configured::Changing(server) => {
                let identity = Identity::default().bytes(name).bytes(&*server.host);
                let identity = identity.bytes(server.service.as_deref().unwrap_or_default());
                Entry::Changing(server.clone(), origin.keep(identity, Known::default))
            }
        };
        let entries: Box<[Entry]> = servers.iter().map(entry).collect();
        let identity = servers.iter().fold(Identity::default().bytes(name), identify);
        origin.keep(identity, || Live::new(entries))
    }

    fn new(entries: Box<[Entry]>) -> Live {
        let members = Members::new(entries.iter().flat_map(Entry::servers).collect());
        Live { entries, members: RwLock::new(Arc::new(members)) }
    }

    /// The members at this time.
    pub(crate) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner))
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
        if !known.replace(found) {
            return;
        }
        let servers = self.entries.iter().flat_map(Entry::servers).collect();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        *members = Arc::new(members.replaced_by(servers));
    }
}

/// Adds all that the configuration says of a server.
fn identify(identity: Identity, server: &Configured) -> Identity {
    match server {
        Configured::Known(servers) => servers
            .iter()
            .fold(identity.number(0_u8), |identity, server| server.identify(identity).number(server.backup)),
        Configured::Changing(ChangingServer { template, host, port, service }) => {
            let identity = template.identify(identity.number(1_u8)).number(template.backup);
            let service = service.as_deref();
            identity.bytes(&**host).number(*port).number(service.is_some()).bytes(service.unwrap_or_default())
        }
    }
}

impl Known {
    /// Takes what a look-up found, in the order in which it was known before; tells whether anything changed.
    fn replace(&self, mut found: Vec<Found>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = known.len();
        let mut stays = |one: &Found| {
            let place = found.iter().position(|other| other == one);
            place.map(|place| found.remove(place)).is_some()
        };
        known.retain(|one| stays(one));
        let is_changed = known.len() < count || !found.is_empty();
        known.append(&mut found);
        is_changed
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
                if server.weight == 1 {
                    server.weight = u32::from(service.weight.max(1));
                }
                server.backup = service.is_backup || server.backup;
            }
        }
        server.address = SocketAddress::Inet(address);
        server.name = server.address.to_string().into();
        server
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangingServer, Configured, Found, Live, OfService};
    use crate::balance::Choice;
    use crate::group::{Group, Keepalive, Key};
    use crate::method::Method;
    use crate::server::Server;
    use contract::Origin;
    use contract::inputs::System;
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
        let group = Arc::new(Group::configured("g", servers.to_vec(), Keepalive::DEFAULT, origin));
        let live = Arc::clone(group.live.as_ref().unwrap());
        (group, live)
    }

    fn asked(group: &Arc<Group>) -> Vec<String> {
        let mut choice = Choice::new(group, key(), 0);
        std::iter::from_fn(|| choice.choose().map(|lease| lease.server().name.to_string())).collect()
    }

    #[test]
    fn members_come_and_go() {
        let fixed = Server::new(SocketAddress::Inet(([127, 0, 0, 9], 80).into()));
        let (group, live) =
            group(&[host(template()), Configured::Known(vec![fixed])], &contract::inputs::origin());
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
        let (group, live) =
            group(&[host(Server { max_conns: 1, ..template() })], &contract::inputs::origin());
        live.put(0, vec![found(1), found(2)]);
        let mut choice = Choice::new(&group, Key::default(), 0);
        let first = choice.choose().unwrap();
        assert_eq!(&*first.server().name, "127.0.0.1:80");
        let mut second = choice.choose().unwrap();
        second.fail();
        live.put(0, vec![found(3), found(1)]);
        assert_eq!(asked(&group), ["127.0.0.3:80"], "the first one has its request still");
        live.put(0, vec![found(1), found(2)]);
        drop((first, second));
        let mut all = asked(&group);
        all.sort_unstable();
        assert_eq!(all, ["127.0.0.1:80", "127.0.0.2:80"], "over two changes, and a server that is new");
    }

    #[test]
    fn a_choice_goes_on_with_the_members_that_there_are() {
        for method in [Method::RoundRobin, Method::LeastConnections, Method::Network, Method::RandomTwo] {
            let group = Group::configured(
                "g",
                vec![host(template())],
                Keepalive::DEFAULT,
                &contract::inputs::origin(),
            );
            let group = Arc::new(group.chosen_by(method));
            let live = group.live.as_ref().unwrap();
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
        assert_eq!((server.weight, server.backup), (1, true));
        let found = Found { service: service("b", 7, false), ..found };
        assert_eq!(of(template()).at(&found).weight, 7);
        assert_eq!(of(Server { weight: 3, ..template() }).at(&found).weight, 3);
    }

    #[test]
    fn a_reload_keeps_what_is_the_same() {
        let first = contract::inputs::origin();
        let (_, live) = group(&[host(template())], &first);
        live.put(0, vec![found(1)]);
        let second = Origin::new(Arc::new(System), first.finish());
        let (_, same) = group(&[host(template())], &second);
        assert!(Arc::ptr_eq(&live, &same));
        let third = Origin::new(Arc::new(System), second.finish());
        let (other, changed) = group(&[host(Server { weight: 2, ..template() })], &third);
        assert!(!Arc::ptr_eq(&live, &changed));
        assert_eq!(asked(&other), ["127.0.0.1:80"], "the addresses are known from before");
    }
}

//! Servers that do the same: an `upstream` block, or the addresses behind one name.

use crate::live::{Configured, Live};
use crate::method::Method;
use crate::peers::Peers;
use crate::resolver::Resolving;
use crate::server::Server;
use crate::sticky::Sticky;
use crate::tier::Figures;
use conf::{Contexts, Inputs, value};
use contract::{Exchange, Identity, Origin};
use journal::clock::Time;
use net::SocketAddress;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long connections to a group are kept for other requests; the counts are those of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Keepalive {
    /// How many idle connections are kept; 0 keeps none (`keepalive`).
    pub connections: usize,
    /// Whether only the location that opened a connection uses it again (`keepalive … local`).
    pub local: bool,
    /// How many requests one connection may have (`keepalive_requests`).
    pub requests: u64,
    /// How long a connection may live (`keepalive_time`).
    pub time: Duration,
    /// How long it may be idle (`keepalive_timeout`).
    pub timeout: Duration,
}

impl Keepalive {
    /// What an `upstream` block without a word about it does.
    pub const DEFAULT: Keepalive = Keepalive {
        connections: 32,
        local: true,
        requests: 1000,
        time: Duration::from_secs(3600),
        timeout: Duration::from_secs(60),
    };

    /// Each connection serves one request.
    pub const NONE: Keepalive = Keepalive { connections: 0, ..Keepalive::DEFAULT };
}

/// Servers that do the same. What is known of their health is shared by all threads, and outlives a configuration where the
/// next one has a group of the same name.
#[derive(Debug)]
pub struct Group {
    /// The name of the block, or the host and port.
    pub name: Arc<str>,
    /// How connections are kept.
    pub keepalive: Keepalive,
    pub(crate) method: Method,
    /// How sessions are kept with their servers (`sticky`).
    pub(crate) sticky: Option<Arc<dyn Sticky>>,
    /// The servers, which may be replaced while requests are served.
    pub(crate) live: Arc<Live>,
    /// The name that has to be looked up before the servers are known.
    pub(crate) unresolved: Option<Box<Host>>,
}

/// What the servers of a request are chosen by.
#[derive(Debug, Default)]
pub struct Key {
    /// What the method chooses by; empty if it chooses by nothing.
    pub(crate) text: Vec<u8>,
    /// The session that the request belongs to; empty if it belongs to none.
    pub(crate) session: Vec<u8>,
}

/// A host that has to be looked up.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Box<str>,
    port: u16,
    pub(crate) resolving: Resolving,
}

impl Group {
    /// A group of these servers, which are chosen in turn.
    pub fn new(name: &str, servers: Vec<Server>, keepalive: Keepalive) -> Group {
        Group::of(name, Live::fixed(servers, Arc::default()), keepalive)
    }

    /// The group of an `upstream` block. Some of the servers may be hosts whose addresses are looked up again and again, by
    /// a [`Renewal`](crate::Renewal). Addresses that were known in the previous configuration count until then. Servers that
    /// the group of this name in the same place (`http` or `stream`) had in the previous configuration keep their state and
    /// connections.
    pub fn configured(
        (place, name): (Contexts, &str),
        servers: Vec<Configured>,
        keepalive: Keepalive,
        origin: &Origin,
    ) -> Group {
        let place = if place == Contexts::STREAM { "stream" } else { "http" };
        let identity = Identity::default().bytes(place).bytes(name);
        let peers = origin.keep(identity.clone(), Peers::default);
        Group::of(name, Live::configured(&identity, servers, peers, origin), keepalive)
    }

    pub(crate) fn of(name: &str, live: Live, keepalive: Keepalive) -> Group {
        let (name, live, method) = (name.into(), Arc::new(live), Method::RoundRobin);
        Group { name, keepalive, method, sticky: None, live, unresolved: None }
    }

    /// A group of the servers that have the addresses of a host, which is looked up when a request needs it.
    pub fn of_host(name: &str, (host, port): (&str, u16), resolving: &Resolving) -> Group {
        let host = Host { name: host.into(), port, resolving: resolving.clone() };
        Group { unresolved: Some(Box::new(host)), ..Group::new(name, Vec::new(), Keepalive::NONE) }
    }

    /// The same, with another way to choose.
    #[must_use]
    pub fn chosen_by(self, method: Method) -> Group {
        let group = Group { method, ..self };
        group.live.members().points(&group.method);
        group
    }

    /// The same, with sessions that are kept with their servers.
    #[must_use]
    pub fn sticky(self, sticky: Option<Arc<dyn Sticky>>) -> Group {
        Group { sticky, ..self }
    }

    /// What its servers did so far and do now: those that do the work first, then the backups.
    pub fn figures(&self) -> Vec<Figures> {
        let members = self.live.members();
        let now_ms = Time::now().uptime_ms;
        [&members.primary, &members.backup].into_iter().flat_map(|tier| tier.figures(now_ms)).collect()
    }

    /// What the servers of a request are chosen by.
    #[inline]
    pub fn key(&self, exchange: &Exchange) -> Key {
        let session = self.sticky.as_ref().map(|sticky| sticky.session(exchange));
        Key { text: self.method.key(exchange), session: session.unwrap_or_default() }
    }
}

impl Host {
    /// The group of a host with these addresses.
    pub(crate) fn group(&self, addresses: &[IpAddr]) -> Group {
        let server = |&ip: &IpAddr| Server::new(SocketAddress::Inet((ip, self.port).into()));
        Group::new(&self.name, addresses.iter().map(server).collect(), Keepalive::NONE)
    }
}

/// The socket addresses of an address; a name is looked up, which may take a while.
///
/// # Errors
/// The name is not known.
pub fn resolve(address: &value::Address, inputs: &dyn Inputs) -> Result<Vec<SocketAddress>, String> {
    match &address.host {
        value::Host::Ip(ip) => Ok(vec![SocketAddress::Inet((*ip, address.port).into())]),
        value::Host::Unix(path) => match path.strip_prefix(b"@") {
            Some(name) => Ok(vec![SocketAddress::Abstract(name.to_vec())]),
            None => Ok(vec![SocketAddress::Unix(PathBuf::from(OsStr::from_bytes(path)))]),
        },
        value::Host::Name(name) => {
            let found = inputs.resolve(name).unwrap_or_default().into_iter();
            let found: Vec<_> = found.map(|ip| SocketAddress::Inet((ip, address.port).into())).collect();
            if found.is_empty() {
                return Err(format!("host not found in upstream \"{name}\""));
            }
            Ok(found)
        }
    }
}

//! Who is served, whatever carries its bytes: a stream of TCP, a connection of QUIC, a session of datagrams.

use crate::thread::{Counted, Serving, Thread};
use contract::{Connection, Peer, Policy};
use journal::clock::Time;
use journal::{About, Level};
use net::SocketAddress;
use site::{Application, Hosts, Listen, Server};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Timer;

/// How long a connection is left open when the thread drains, for a request that may be on its way: to close at once
/// would lose it.
pub(super) const ON_ITS_WAY: Duration = Duration::from_secs(1);

static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A client: its connection as requests see it, and what serves it. It has no bytes and no descriptor.
pub(crate) struct Client {
    pub(super) counted: Counted,
    /// What the connection is served by.
    pub(super) serving: Rc<Serving>,
    /// The connection as the next request sees it. Requests in progress share it until it changes.
    pub(super) info: Rc<Connection>,
    /// The place of its address among [`site::Site::listens`].
    pub(super) listen: usize,
    /// The server that was chosen by the handshake.
    pub(super) named: Option<Arc<Server>>,
    pub(super) timer: Timer,
    pub(super) idle: Idle,
}

/// How the next request of a client is waited for.
pub(super) struct Idle {
    /// Whether it is waited for. A pipelined request is not: it is there already.
    pub(super) waits: bool,
    /// Since when it is waited for, in milliseconds of uptime.
    pub(super) since_ms: u64,
    /// Whether the thread closes this connection to make room, unless a request arrives first.
    pub(super) closes: bool,
    /// How long the next request may be waited for.
    pub(super) patience: Duration,
    /// Until when an idle connection is left open, whatever the thread would like.
    pub(super) kept_until: Option<Instant>,
}

/// The number of a connection, which no other connection of this process has.
pub(super) fn next_serial() -> u64 {
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    /// A client whose connection came to the address at this place among [`site::Site::listens`].
    pub(super) fn new(counted: Counted, serving: Rc<Serving>, listen: usize, info: Connection) -> Client {
        let timer = Timer::new(&counted.thread().timers);
        Client {
            counted,
            serving,
            info: Rc::new(info),
            listen,
            named: None,
            timer,
            idle: Idle {
                waits: true,
                since_ms: Time::now().uptime_ms,
                closes: false,
                patience: Duration::ZERO,
                kept_until: None,
            },
        }
    }

    pub(super) fn thread(&self) -> &Rc<Thread> {
        self.counted.thread()
    }

    /// Changes what the next requests see of the connection. A request keeps what it saw when it began.
    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        Rc::make_mut(&mut self.info)
    }

    /// Leaves a detached request to the thread.
    pub(super) fn detach(&self, request: engine::Detached) {
        self.thread().detach(request, &self.serving);
    }

    pub(super) fn place(&self) -> &Listen {
        &self.serving.site.listens[self.listen]
    }

    pub(super) fn hosts(&self) -> &Hosts {
        self.place().hosts_where(|| ip_of(&self.info.local))
    }

    /// The server whose settings count until the host is known: the one that the handshake chose, if any did.
    #[inline]
    pub(super) fn default_server(&self) -> &Arc<Server> {
        self.named.as_ref().unwrap_or(self.hosts().default_server())
    }

    /// The settings that count until the host is known.
    pub(super) fn default_policy(&self) -> &Policy {
        &self.default_server().scope.policy
    }

    /// What the connection is for.
    pub(super) fn application(&self) -> Application {
        self.hosts().protocols.application
    }

    /// Whether clients of the server that is chosen so far may speak HTTP/2.
    pub(super) fn speaks_http2(&self) -> bool {
        self.hosts().protocols.versions.http2 || self.default_policy().http2.is_enabled
    }

    /// Whether the handshake chose HTTP/2.
    pub(super) fn has_agreed_on_http2(&self) -> bool {
        self.info.tls.as_ref().is_some_and(|tls| tls.agreed.alpn.as_deref() == Some(b"h2"))
    }

    /// Takes note whether the handshake is over by now, when a request begins.
    pub(super) fn note_early_data(&self, is_early: impl FnOnce() -> bool) {
        if let Some(tls) = self.info.tls.as_deref().filter(|tls| tls.early.get()) {
            tls.early.set(is_early());
        }
    }

    /// Since when the next request is waited for, in milliseconds of uptime, if the connection may be closed to make room.
    pub(super) fn idle_since_ms(&self) -> Option<u64> {
        let Idle { waits, since_ms, closes, kept_until, .. } = &self.idle;
        // A new connection waits, too: otherwise connections without a request would displace those that have them.
        let is_kept = kept_until.is_some_and(|until| until > Time::now().instant);
        (*waits && !*closes && !is_kept).then_some(*since_ms)
    }

    /// Goes on waiting for the next request. Returns whether the connection closes instead: the thread drains, or needs
    /// the place.
    pub(super) fn closes_idle(&mut self) -> bool {
        if !std::mem::replace(&mut self.idle.waits, true) {
            self.idle.since_ms = Time::now().uptime_ms;
            self.counted.activity.waits();
            self.timer.set(self.idle.patience);
        }
        // The first request of a new connection is on its way: it is answered, as nginx does.
        let is_new = self.info.requests.get() == 0;
        let is_drained = self.is_leaving() && !is_new;
        if is_drained {
            self.idle.kept_until.get_or_insert_with(|| Time::now().instant + ON_ITS_WAY);
        }
        let kept = self.idle.kept_until.map(|until| until.saturating_duration_since(Time::now().instant));
        match kept.filter(|kept| !kept.is_zero()) {
            Some(kept) if is_drained => self.timer.set(kept.min(self.idle.patience)),
            Some(_) => {}
            None => return is_drained || self.idle.closes,
        }
        false
    }

    /// Makes ready for the next request, after one with this policy.
    pub(super) fn prepare_next(&mut self, policy: &Policy) {
        let least = policy.keepalive.min_timeout;
        let kept_until = (!least.is_zero()).then(|| Time::now().instant + least);
        let Idle { waits, closes, patience, .. } = &mut self.idle;
        (*waits, *closes, *patience) = (false, false, policy.keepalive.timeout);
        self.idle.kept_until = kept_until;
    }

    /// Writes to the error log of the address.
    pub(super) fn log(&self, level: Level, message: &str) {
        let (client, server) = (self.info.peer.address(), self.place().endpoint.to_string());
        let members = [("client", &*client), ("server", &*server)];
        let about = About { connection: Some(self.info.serial), members: &members };
        self.default_policy().error_log.write_about(level, message, &about);
    }
}

/// The address of an end without its port; a Unix socket has none.
pub(super) fn ip_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Inet(address) => Some(address.ip()),
        Peer::Unix(_) => None,
    }
}

/// The end of a connection that has this address.
pub(super) fn peer_of(address: &SocketAddress) -> Peer {
    match address {
        SocketAddress::Inet(address) => Peer::Inet(*address),
        SocketAddress::Unix(path) if !path.as_os_str().is_empty() => {
            use std::os::unix::ffi::OsStrExt;
            Peer::Unix(Some(path.as_os_str().as_bytes().into()))
        }
        _ => Peer::Unix(None),
    }
}

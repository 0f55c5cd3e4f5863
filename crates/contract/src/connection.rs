//! What is known of the connection that a request came by.

use crate::Events;
use conf::value::Network;
use journal::clock::Time;
use net::Carrier;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// An end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An Internet address.
    Inet(SocketAddr),
    /// A Unix socket, with its path if it has one.
    Unix(Option<Box<[u8]>>),
}

impl Peer {
    /// The address without the port, as `$remote_addr` shows it.
    pub fn address(&self) -> String {
        match self {
            Peer::Inet(address) => address.ip().to_string(),
            Peer::Unix(_) => "unix:".to_owned(),
        }
    }

    /// The port; a Unix socket has none.
    pub fn port(&self) -> Option<u16> {
        match self {
            Peer::Inet(address) => Some(address.port()),
            Peer::Unix(_) => None,
        }
    }
}

/// The clients whose connections are logged in all detail.
#[derive(Clone, Debug, Default)]
pub struct DebuggedClients {
    /// By their addresses.
    pub networks: Vec<Network>,
    /// All that come by a Unix socket.
    pub unix: bool,
}

impl DebuggedClients {
    /// Whether a client is one of them.
    pub fn has(&self, client: &Peer) -> bool {
        match client {
            Peer::Inet(address) => self.networks.iter().any(|network| network.net.contains(&address.ip())),
            Peer::Unix(_) => self.unix,
        }
    }
}

/// A connection from a client.
#[derive(Clone, Debug)]
pub struct Connection {
    /// A number that no other connection of this process has (`$connection`).
    pub serial: u64,
    /// The client.
    pub peer: Peer,
    /// Our end.
    pub local: Peer,
    /// When it was accepted.
    pub accepted: Time,
    /// How many requests came so far, this one included.
    pub requests: Cell<u64>,
    /// Whether it is encrypted (`$scheme`).
    pub secure: bool,
    /// Whether everything about it is logged, or noted in `events`.
    pub debug: bool,
    /// Who takes note of everything in place of the error log, where the requests are only explained.
    pub events: Option<Rc<Events>>,
    /// What was agreed on for the encryption.
    pub tls: Option<Box<Tls>>,
    /// What a proxy in front reported about the connection (PROXY protocol).
    pub passed: Option<Box<PassedConnection>>,
    /// What carries its bytes.
    pub carrier: Carrier,
}

impl Connection {
    /// The first request of a connection in clear that comes over no socket.
    pub fn new(peer: Peer, local: Peer) -> Connection {
        Connection {
            serial: 1,
            peer,
            local,
            accepted: Time::now(),
            requests: Cell::new(1),
            secure: false,
            debug: false,
            events: None,
            tls: None,
            passed: None,
            carrier: Carrier::Other,
        }
    }

    /// Whether the last request may be a replay by an attacker (RFC 8470).
    pub fn is_early(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.early.get())
    }
}

/// A connection that a proxy passes on, as it tells by the PROXY protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedConnection {
    /// Who opened it.
    pub client: SocketAddr,
    /// The address that it was opened to.
    pub server: SocketAddr,
    /// Further values, as they came.
    pub values: Box<[u8]>,
}

/// What the first bytes of a connection of `stream` tell, attached to its exchange.
#[derive(Debug)]
pub struct FirstBytes {
    /// The protocol that the client speaks (`$preread_kind`).
    pub kind: &'static str,
    /// The first message of TLS.
    pub hello: Option<tls::Preread>,
}

/// Where a connection of `stream` goes on in this server (`pass`), attached to its exchange.
#[derive(Debug)]
pub struct PassTo(pub net::SocketAddress);

/// The encryption of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// What was agreed on.
    pub agreed: tls::Negotiated,
    /// The server's name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// What else the client offered.
    pub offered: tls::Offered,
    /// Whether requests may be replays: the handshake was not over when the last one began.
    pub early: Cell<bool>,
}

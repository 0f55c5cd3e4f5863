//! What is known of the connection that a request came by.

use crate::Events;
use journal::clock::Time;
use net::{Carrier, Peer};
use proxy_protocol::PassedConnection;
use std::cell::Cell;
use std::rc::Rc;

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

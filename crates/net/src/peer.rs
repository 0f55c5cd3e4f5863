//! An end of a connection, as logs and rules see it.

use std::net::SocketAddr;

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

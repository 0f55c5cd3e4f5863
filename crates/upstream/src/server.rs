//! One of the servers that do the same.

use http::hex;
use md5::{Digest, Md5};
use net::SocketAddress;
use std::sync::Arc;
use std::time::Duration;

/// One server, as a configuration or a look-up describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address as logs show it.
    pub name: Arc<str>,
    /// Its address as the configuration writes it.
    pub written: Box<str>,
    /// Which server it is. Its state belongs to this, and stays while a group has it.
    pub peer: Peer,
    /// How it is used. Another configuration may use the same peer in another way.
    pub settings: PeerSettings,
}

/// Which server of a group it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddress,
    /// What sessions know it by, unless that follows from its address (`route`).
    pub route: Option<Box<[u8]>>,
}

/// How a server is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its share of the requests (`weight`).
    pub weight: u32,
    /// How many requests it may have at once; 0 is any number (`max_conns`).
    pub max_conns: u32,
    /// After how many failures it is left alone for a while; 0 never (`max_fails`).
    pub max_fails: u32,
    /// In which time those failures count, and how long it is left alone (`fail_timeout`).
    pub fail_timeout: Duration,
    /// Whether it is asked only where no other can be (`backup`).
    pub backup: bool,
    /// Which requests it gets.
    pub admission: Admission,
}

impl PeerSettings {
    /// nginx's defaults.
    pub const DEFAULT: PeerSettings = PeerSettings {
        weight: 1,
        max_conns: 0,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        backup: false,
        admission: Admission::Open,
    };
}

/// Which requests a server gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// All.
    #[default]
    Open,
    /// Only those of sessions that belong to it (`drain`).
    Draining,
    /// None (`down`).
    Down,
}

impl Server {
    /// A server with nginx's defaults.
    pub fn new(address: SocketAddress) -> Server {
        Server {
            name: address.to_string().into(),
            written: address.to_string().into(),
            peer: Peer { address, route: None },
            settings: PeerSettings::DEFAULT,
        }
    }

    /// The same server, used in another way.
    #[must_use]
    pub fn with(self, settings: PeerSettings) -> Server {
        Server { settings, ..self }
    }

    /// What sessions know it by.
    pub(crate) fn route(&self) -> Box<[u8]> {
        match &self.peer.route {
            Some(route) => route.clone(),
            None => hex::text(&Md5::digest(self.name.as_bytes())).into_bytes().into(),
        }
    }
}

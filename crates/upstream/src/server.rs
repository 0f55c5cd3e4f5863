//! One of the servers that do the same.

use contract::Identity;
use http::hex;
use md5::{Digest, Md5};
use net::SocketAddress;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address as logs show it.
    pub name: Arc<str>,
    /// Its address as the configuration writes it.
    pub written: Box<str>,
    /// Its address.
    pub address: SocketAddress,
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
    /// What sessions know it by, unless that follows from its address (`route`).
    pub route: Option<Box<[u8]>>,
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
            address,
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            backup: false,
            admission: Admission::Open,
            route: None,
        }
    }

    /// Whether another server is the same one: what is known of one holds for the other.
    pub(crate) fn is_same(&self, other: &Server) -> bool {
        self.identify(Identity::default()) == other.identify(Identity::default())
    }

    /// What sessions know it by.
    pub(crate) fn route(&self) -> Box<[u8]> {
        match &self.route {
            Some(route) => route.clone(),
            None => hex::text(&Md5::digest(self.name.as_bytes())).into_bytes().into(),
        }
    }

    /// Adds every setting of this server.
    pub(crate) fn identify(&self, identity: Identity) -> Identity {
        let Server {
            name,
            written,
            address,
            weight,
            max_conns,
            max_fails,
            fail_timeout,
            backup,
            admission,
            route,
        } = self;
        let identity = identity.bytes(&**name).bytes(&**written);
        let identity = match address {
            SocketAddress::Inet(address) => identity.number(0_u8).bytes(address.to_string()),
            SocketAddress::Unix(path) => identity.number(1_u8).bytes(path.as_os_str().as_bytes()),
            SocketAddress::Abstract(name) => identity.number(2_u8).bytes(name),
        };
        identity
            .number(*weight)
            .number(*max_conns)
            .number(*max_fails)
            .number(fail_timeout.as_nanos())
            .number(*backup)
            .number(*admission as u8)
            .number(route.is_some())
            .bytes(route.as_deref().unwrap_or_default())
    }
}

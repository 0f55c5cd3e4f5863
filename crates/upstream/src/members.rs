//! The servers of a group with their state.

use crate::method::{Method, Point, ring};
use crate::server::Server;
use crate::tier::Tier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The servers of a group with their state: failures, connections, counters. A reload keeps them if the new configuration
/// has a group with the same name and the same servers.
#[derive(Debug)]
pub(crate) struct Members {
    /// A number that no other group of this process has.
    pub(crate) id: u64,
    pub(crate) primary: Arc<Tier>,
    pub(crate) backup: Arc<Tier>,
    /// The points of the servers on the ring of consistent hashing ([`Method::Ring`]), computed at the first use.
    points: OnceLock<Box<[Point]>>,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Members {
    pub(crate) fn new(servers: Vec<Server>) -> Members {
        Members::numbered(SERIAL.fetch_add(1, Ordering::Relaxed), servers)
    }

    fn numbered(id: u64, servers: Vec<Server>) -> Members {
        let (backup, primary): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| server.backup);
        let [primary, backup] = [primary, backup].map(|servers| Arc::new(Tier::new(servers)));
        Members { id, primary, backup, points: OnceLock::new() }
    }

    /// New members, after the addresses of a name have changed. A server that is in both keeps its state.
    pub(crate) fn replaced_by(&self, servers: Vec<Server>) -> Members {
        let members = Members::numbered(self.id, servers);
        self.primary.hand_over(&members.primary);
        self.backup.hand_over(&members.backup);
        members
    }

    /// The points on the ring, if the method uses one.
    pub(crate) fn points(&self, method: &Method) -> &[Point] {
        match method {
            Method::Ring(_) => self.points.get_or_init(|| ring(&self.primary.servers)),
            _ => &[],
        }
    }
}

//! The servers of a group at one time, with the settings of one configuration.

use crate::method::{Method, Point, ring};
use crate::peers::Peers;
use crate::server::Server;
use crate::tier::Tier;
use std::sync::{Arc, OnceLock};

/// The servers of a group, with the settings of one configuration. What is known of them is the group's ([`Peers`]).
#[derive(Debug)]
pub(crate) struct Members {
    /// How many others these replaced, in the group of the same configuration.
    pub(crate) version: u64,
    pub(crate) primary: Tier,
    pub(crate) backup: Tier,
    /// The points of the servers on the ring of consistent hashing ([`Method::Ring`]), computed at the first use.
    points: OnceLock<Box<[Point]>>,
}

impl Members {
    pub(crate) fn new(peers: &Arc<Peers>, servers: Vec<Server>, version: u64) -> Members {
        let slots = peers.claim(&servers);
        let all = servers.into_iter().zip(slots);
        let (backup, primary): (Vec<_>, Vec<_>) = all.partition(|(server, _)| server.settings.backup);
        let [primary, backup] = [primary, backup].map(|servers| Tier::new(peers, servers));
        Members { version, primary, backup, points: OnceLock::new() }
    }

    /// Whether these are the same servers, used in the same way and order.
    pub(crate) fn are(&self, servers: &[Server]) -> bool {
        let (backup, primary): (Vec<_>, Vec<_>) = servers.iter().partition(|server| server.settings.backup);
        self.primary.servers.iter().eq(primary) && self.backup.servers.iter().eq(backup)
    }

    /// The points on the ring, if the method uses one.
    pub(crate) fn points(&self, method: &Method) -> &[Point] {
        match method {
            Method::Ring(_) => self.points.get_or_init(|| ring(&self.primary.servers)),
            _ => &[],
        }
    }
}

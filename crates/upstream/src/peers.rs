//! What is known of the peers of a group, whatever the configurations say of them.

use crate::peer_state::PeerState;
use crate::server::{Peer, Server};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The states of a group's peers: failures, requests in progress, counters. The configuration before a reload and the one
/// after it use the same states, each with its own settings. A peer that neither of them has any more is forgotten.
#[derive(Debug)]
pub(crate) struct Peers {
    /// A number that no other group of this process has. Idle connections are kept under it.
    pub(crate) id: u64,
    /// Taken for one look while a request is served. The order of locks is `slots`, then `states`.
    states: Mutex<Vec<PeerState>>,
    slots: Mutex<Vec<Slot>>,
}

/// The owner of the state at the same index.
#[derive(Debug)]
struct Slot {
    /// `None` if the slot is free.
    peer: Option<Peer>,
    /// How many [`Members`](crate::members::Members) have it.
    uses: usize,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Default for Peers {
    fn default() -> Peers {
        let id = SERIAL.fetch_add(1, Ordering::Relaxed);
        Peers { id, states: Mutex::default(), slots: Mutex::default() }
    }
}

impl Peers {
    /// The states, by slot.
    #[inline]
    pub(crate) fn states(&self) -> MutexGuard<'_, Vec<PeerState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for each server, with the state that its peer has already. A group that has a peer several times has as many
    /// states of it. Each slot must be given back by [`Peers::release`].
    pub(crate) fn claim(&self, servers: &[Server]) -> Vec<usize> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: HashMap<Option<Peer>, Vec<usize>> = HashMap::new();
        // Reversed, so that `pop` returns the first one first.
        for (index, slot) in slots.iter().enumerate().rev() {
            known.entry(slot.peer.clone()).or_default().push(index);
        }
        let mut claimed = Vec::with_capacity(servers.len());
        let mut states = self.states();
        for server in servers {
            let peer = Some(server.peer.clone());
            let known_one = known.get_mut(&peer).and_then(Vec::pop);
            let index = known_one.or_else(|| known.get_mut(&None)?.pop()).unwrap_or(slots.len());
            if index == slots.len() {
                slots.push(Slot { peer: None, uses: 0 });
                states.push(PeerState::default());
            }
            let slot = &mut slots[index];
            slot.peer = peer;
            slot.uses += 1;
            // Turns count in the scale of other weights, and of other members.
            states[index].current = 0;
            claimed.push(index);
        }
        claimed
    }

    /// Gives slots back. The last user of a peer forgets its state.
    pub(crate) fn release(&self, claimed: &[usize]) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut states = self.states();
        for &index in claimed {
            let slot = &mut slots[index];
            slot.uses -= 1;
            if slot.uses == 0 {
                slot.peer = None;
                states[index] = PeerState::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Peers;
    use crate::server::{Peer, PeerSettings, Server};
    use net::SocketAddress;

    fn server(port: u16) -> Server {
        Server::new(SocketAddress::Inet(([127, 0, 0, 1], port).into()))
    }

    #[test]
    fn address_and_route_are_the_identity() {
        let peers = Peers::default();
        assert_eq!(peers.claim(&[server(1), server(2)]), [0, 1]);
        let used_otherwise =
            server(1).with(PeerSettings { weight: 7, backup: true, ..PeerSettings::DEFAULT });
        let written = Server { written: "localhost:2".into(), ..server(2) };
        assert_eq!(peers.claim(&[written, used_otherwise]), [1, 0]);
        let routed = Peer { route: Some(b"a"[..].into()), ..server(1).peer };
        assert_eq!(peers.claim(&[Server { peer: routed, ..server(1) }, server(1)]), [2, 0]);
    }

    #[test]
    fn turns_begin_anew_with_each_claim() {
        let peers = Peers::default();
        let before = peers.claim(&[server(1)]);
        peers.states()[before[0]].current = -500;
        let heavy = server(1).with(PeerSettings { weight: 7, ..PeerSettings::DEFAULT });
        let after = peers.claim(&[heavy]);
        assert_eq!((after[0], peers.states()[after[0]].current), (before[0], 0));
    }

    #[test]
    fn a_peer_that_a_group_has_twice_has_two_states() {
        let peers = Peers::default();
        assert_eq!(peers.claim(&[server(1), server(1)]), [0, 1]);
        assert_eq!(peers.claim(&[server(1), server(2), server(1), server(1)]), [0, 2, 1, 3]);
    }

    #[test]
    fn a_state_is_forgotten_with_its_last_use() {
        let peers = Peers::default();
        let (before, after) = (peers.claim(&[server(1), server(2)]), peers.claim(&[server(1)]));
        peers.states().iter_mut().for_each(|state| state.fail_at(1));
        peers.release(&before);
        let failures = || peers.states().iter().map(|state| state.failures()).collect::<Vec<_>>();
        assert_eq!(failures(), [1, 0]);
        assert_eq!(peers.claim(&[server(3)]), [1], "the slot is free for another peer");
        peers.release(&after);
        assert_eq!(failures(), [0, 0]);
    }
}

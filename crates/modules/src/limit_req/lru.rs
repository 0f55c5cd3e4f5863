//! States by key, in the order in which they were last used, within a number of bytes.

use crate::shared::zones;
use std::collections::HashMap;

/// What nginx spends on a state beside its key, in bytes.
const STATE_ACCOUNT: usize = 80;

/// The end of the list.
const NONE: usize = usize::MAX;

/// States by key.
pub(super) struct Lru<S> {
    nodes: Vec<Node<S>>,
    free: Vec<usize>,
    by_key: HashMap<Box<[u8]>, usize>,
    newest: usize,
    oldest: usize,
    used_bytes: u64,
    capacity_bytes: u64,
}

struct Node<S> {
    key: Box<[u8]>,
    state: S,
    newer: usize,
    older: usize,
}

fn cost(key: &[u8]) -> u64 {
    zones::cost(STATE_ACCOUNT + key.len())
}

impl<S> Lru<S> {
    pub(super) fn new(capacity_bytes: u64) -> Lru<S> {
        Lru {
            nodes: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            newest: NONE,
            oldest: NONE,
            used_bytes: 0,
            capacity_bytes,
        }
    }

    /// The state of a key, which becomes the newest.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&mut S> {
        let at = *self.by_key.get(key)?;
        self.unlink(at);
        self.link(at);
        Some(&mut self.nodes[at].state)
    }

    /// Whether a state for this key fits in.
    pub(super) fn has_room(&self, key: &[u8]) -> bool {
        self.used_bytes + cost(key) <= self.capacity_bytes
    }

    /// Adds a key that is not there, as the newest.
    pub(super) fn insert(&mut self, key: &[u8], state: S) {
        self.used_bytes += cost(key);
        let node = Node { key: key.into(), state, newer: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.by_key.insert(key.into(), at);
        self.link(at);
    }

    /// The state that was used longest ago.
    pub(super) fn oldest(&self) -> Option<&S> {
        self.nodes.get(self.oldest).map(|node| &node.state)
    }

    /// Drops that state; `false` if there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let at = self.oldest;
        if at == NONE {
            return false;
        }
        self.unlink(at);
        let key = std::mem::take(&mut self.nodes[at].key);
        self.used_bytes -= cost(&key);
        self.by_key.remove(&key);
        self.free.push(at);
        true
    }

    fn link(&mut self, at: usize) {
        (self.nodes[at].newer, self.nodes[at].older) = (NONE, self.newest);
        match self.nodes.get_mut(self.newest) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: usize) {
        let Node { newer, older, .. } = self.nodes[at];
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;
    use proptest::prelude::*;

    proptest! {
        /// The same as a list that is searched from end to end.
        #[test]
        fn as_a_plain_list(steps in proptest::collection::vec((0u8..12, any::<bool>()), 0..200)) {
            const PLACES: usize = 5;
            let mut lru = Lru::new(PLACES as u64 * 128);
            let mut list: Vec<u8> = Vec::new();
            for (key, drops) in steps {
                if drops {
                    prop_assert_eq!(lru.oldest(), list.first());
                    prop_assert_eq!(lru.drop_oldest(), !list.is_empty());
                    list.drain(..list.len().min(1));
                    continue;
                }
                let place = list.iter().position(|other| *other == key);
                prop_assert_eq!(lru.get(&[key]).copied(), place.map(|_| key));
                match place {
                    Some(at) => drop(list.remove(at)),
                    None => {
                        prop_assert_eq!(lru.has_room(&[key]), list.len() < PLACES);
                        if !lru.has_room(&[key]) {
                            lru.drop_oldest();
                            list.remove(0);
                        }
                        lru.insert(&[key], key);
                    }
                }
                list.push(key);
            }
            prop_assert!(lru.nodes.len() <= PLACES, "places are used again");
        }
    }
}

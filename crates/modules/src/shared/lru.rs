//! Values by key, in the order in which they were last used.
//!
//! One place for each key holds it, its value, and where it stands in the order and among the keys of the same hash, so
//! that a look touches little memory and a short key takes no extra memory.

use contract::hash::Keyed;
use std::hash::BuildHasher;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Values by key.
pub(crate) struct Lru<V> {
    nodes: Vec<Node<V>>,
    /// The first node of each hash, by its low bits; as many as a power of two.
    chains: Vec<u32>,
    len: usize,
    newest: u32,
    oldest: u32,
    /// The first of the nodes that hold nothing.
    free: u32,
    hasher: Keyed,
}

struct Node<V> {
    key: Key,
    /// Nothing in a place that is free.
    value: Option<V>,
    hash: u32,
    /// The next node of the chain, or the next that holds nothing.
    next: u32,
    newer: u32,
    older: u32,
}

/// The bytes of a key.
enum Key {
    /// So many of these.
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// The longest key without extra memory, in bytes: an address as it is shown, mostly.
const SHORT: usize = 22;

impl Key {
    fn new(bytes: &[u8]) -> Key {
        match u8::try_from(bytes.len()) {
            Ok(length) if bytes.len() <= SHORT => {
                let mut short = [0; SHORT];
                short[..bytes.len()].copy_from_slice(bytes);
                Key::Short(length, short)
            }
            _ => Key::Long(bytes.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Key::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Key::Long(bytes) => bytes,
        }
    }
}

impl<V> Default for Lru<V> {
    fn default() -> Lru<V> {
        Lru {
            nodes: Vec::new(),
            chains: Vec::new(),
            len: 0,
            newest: NONE,
            oldest: NONE,
            free: NONE,
            hasher: Keyed::default(),
        }
    }
}

impl<V> Lru<V> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key, which becomes the newest.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut V> {
        let at = self.find(key, self.hash(key))?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        self.node_mut(at)?.value.as_mut()
    }

    /// Adds a key that is not there, as the newest.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) {
        if self.len >= NONE as usize {
            self.pop_oldest();
        }
        self.grow();
        let hash = self.hash(key);
        let chain = self.chain(hash);
        let next = self.chains.get(chain).copied().unwrap_or(NONE);
        let node = Node { key: Key::new(key), value: Some(value), hash, next, newer: NONE, older: NONE };
        let at = self.place(node);
        self.chains[chain] = at;
        self.len += 1;
        self.link(at);
    }

    /// Takes a key away.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let at = self.find(key, self.hash(key))?;
        self.take(at).map(|(_, value)| value)
    }

    /// The key and the value that were used longest ago.
    pub(crate) fn oldest(&self) -> Option<(&[u8], &V)> {
        let node = self.node(self.oldest)?;
        node.value.as_ref().map(|value| (node.key.bytes(), value))
    }

    /// Takes those away.
    pub(crate) fn pop_oldest(&mut self) -> Option<(Box<[u8]>, V)> {
        self.take(self.oldest).map(|(key, value)| (key.bytes().into(), value))
    }

    fn node(&self, at: u32) -> Option<&Node<V>> {
        self.nodes.get(at as usize)
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node<V>> {
        self.nodes.get_mut(at as usize)
    }

    fn hash(&self, key: &[u8]) -> u32 {
        let [a, b, c, d, ..] = self.hasher.hash_one(key).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    fn chain(&self, hash: u32) -> usize {
        hash as usize & self.chains.len().wrapping_sub(1)
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<u32> {
        let mut at = *self.chains.get(self.chain(hash))?;
        loop {
            let node = self.node(at)?;
            if node.hash == hash && node.key.bytes() == key {
                return Some(at);
            }
            at = node.next;
        }
    }

    /// Makes chains for one more key: as many as there are keys, at least.
    fn grow(&mut self) {
        if self.len < self.chains.len() {
            return;
        }
        let count = (self.chains.len() * 2).max(8);
        self.chains.clear();
        self.chains.resize(count, NONE);
        let mut at = self.oldest;
        while let Some(node) = self.node(at) {
            let (chain, newer) = (self.chain(node.hash), node.newer);
            let first = std::mem::replace(&mut self.chains[chain], at);
            if let Some(node) = self.node_mut(at) {
                node.next = first;
            }
            at = newer;
        }
    }

    /// Puts a node somewhere.
    fn place(&mut self, node: Node<V>) -> u32 {
        let at = self.free;
        match self.nodes.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                *place = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
            }
        }
    }

    /// Takes a node out of everything.
    fn take(&mut self, at: u32) -> Option<(Key, V)> {
        let (hash, next) = self.node(at).map(|node| (node.hash, node.next))?;
        let chain = self.chain(hash);
        let mut before = *self.chains.get(chain)?;
        if before == at {
            self.chains[chain] = next;
        } else {
            while let Some(node) = self.node_mut(before) {
                if node.next == at {
                    node.next = next;
                    break;
                }
                before = node.next;
            }
        }
        self.unlink(at);
        self.len -= 1;
        let free = std::mem::replace(&mut self.free, at);
        let node = self.node_mut(at)?;
        node.next = free;
        let key = std::mem::replace(&mut node.key, Key::Short(0, [0; SHORT]));
        node.value.take().map(|value| (key, value))
    }

    fn link(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        if let Some(node) = self.node_mut(at) {
            (node.newer, node.older) = (NONE, before);
        }
        match self.node_mut(before) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some((newer, older)) = self.node(at).map(|node| (node.newer, node.older)) else { return };
        match self.node_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.node_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;
    use proptest::prelude::*;

    #[test]
    fn a_state_of_a_limit_is_a_line_of_the_cache() {
        assert!(size_of::<super::Node<(i64, Option<u64>)>>() <= 64);
    }

    #[test]
    fn keys_of_any_length() {
        let mut lru = Lru::default();
        let keys: Vec<Vec<u8>> = (0..60).map(|length| vec![b'k'; length]).collect();
        for key in &keys {
            lru.insert(key, key.len());
        }
        for key in &keys {
            assert_eq!(lru.get(key).copied(), Some(key.len()));
        }
        assert_eq!(lru.get(b"kk\0"), None);
        for key in &keys {
            assert_eq!(lru.pop_oldest(), Some((key.as_slice().into(), key.len())));
        }
        assert_eq!(lru.pop_oldest(), None);
    }

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Use,
        Remove,
        PopOldest,
    }

    proptest! {
        /// The same as a list that is searched from end to end.
        #[test]
        fn as_a_plain_list(steps in proptest::collection::vec((0u8..24, 0..6usize), 0..300)) {
            const PLACES: usize = 17;
            let mut lru = Lru::default();
            let mut list: Vec<u8> = Vec::new();
            for (key, act) in steps {
                let act = [Act::Use, Act::Use, Act::Use, Act::Use, Act::Remove, Act::PopOldest][act];
                let place = list.iter().position(|other| *other == key);
                prop_assert_eq!(lru.oldest().map(|(_, value)| *value), list.first().copied());
                match (act, place) {
                    (Act::PopOldest, _) => {
                        let oldest = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(lru.pop_oldest(), oldest.map(|key| (Box::from([key]), key)));
                    }
                    (Act::Remove, place) => {
                        prop_assert_eq!(lru.remove(&[key]), place.map(|at| list.remove(at)));
                    }
                    (Act::Use, Some(at)) => {
                        prop_assert_eq!(lru.get(&[key]).copied(), Some(key));
                        list.remove(at);
                        list.push(key);
                    }
                    (Act::Use, None) => {
                        prop_assert_eq!(lru.get(&[key]), None);
                        if lru.len() == PLACES {
                            lru.pop_oldest();
                            list.remove(0);
                        }
                        lru.insert(&[key], key);
                        list.push(key);
                    }
                }
                prop_assert_eq!(lru.len(), list.len());
            }
            prop_assert!(lru.nodes.len() <= PLACES, "places are used again");
        }
    }
}

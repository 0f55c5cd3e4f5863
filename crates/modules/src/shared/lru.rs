//! Values by key, in the order in which they were last used.

use contract::hash::KeyedMap;

/// The end of the list.
const NONE: usize = usize::MAX;

/// Values by key.
pub(crate) struct Lru<V> {
    nodes: Vec<Node<V>>,
    free: Vec<usize>,
    by_key: KeyedMap<Box<[u8]>, usize>,
    newest: usize,
    oldest: usize,
}

struct Node<V> {
    key: Box<[u8]>,
    /// Nothing in a place that is free.
    value: Option<V>,
    newer: usize,
    older: usize,
}

impl<V> Default for Lru<V> {
    fn default() -> Lru<V> {
        Lru { nodes: Vec::new(), free: Vec::new(), by_key: KeyedMap::default(), newest: NONE, oldest: NONE }
    }
}

impl<V> Lru<V> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The value of a key, which becomes the newest.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut V> {
        let at = *self.by_key.get(key)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        self.nodes[at].value.as_mut()
    }

    /// Adds a key that is not there, as the newest.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) {
        let node = Node { key: key.into(), value: Some(value), newer: NONE, older: NONE };
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

    /// Takes a key away.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let at = self.by_key.remove(key)?;
        self.unlink(at);
        self.free.push(at);
        self.nodes[at].key = Box::default();
        self.nodes[at].value.take()
    }

    /// The key and the value that were used longest ago.
    pub(crate) fn oldest(&self) -> Option<(&[u8], &V)> {
        let node = self.nodes.get(self.oldest)?;
        node.value.as_ref().map(|value| (&*node.key, value))
    }

    /// Takes those away.
    pub(crate) fn pop_oldest(&mut self) -> Option<(Box<[u8]>, V)> {
        let key = std::mem::take(&mut self.nodes.get_mut(self.oldest)?.key);
        self.remove(&key).map(|value| (key, value))
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

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Use,
        Remove,
        PopOldest,
    }

    proptest! {
        /// The same as a list that is searched from end to end.
        #[test]
        fn as_a_plain_list(steps in proptest::collection::vec((0u8..12, 0..6usize), 0..200)) {
            const PLACES: usize = 5;
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

//! States by key, in the order in which they were last used, within the bytes of a zone.

use super::{lru, zones};

/// States by key.
pub(crate) struct Bounded<S> {
    states: lru::Lru<S>,
    /// What nginx spends on a state besides its key, in bytes.
    account_bytes: usize,
    used_bytes: u64,
    capacity_bytes: u64,
}

impl<S> Bounded<S> {
    pub(crate) fn new(capacity_bytes: u64, account_bytes: usize) -> Bounded<S> {
        Bounded { states: lru::Lru::default(), account_bytes, used_bytes: 0, capacity_bytes }
    }

    fn cost(&self, key: &[u8]) -> u64 {
        zones::cost(self.account_bytes + key.len())
    }

    /// The state of a key, which becomes the newest.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut S> {
        self.states.get(key)
    }

    /// Whether a state for this key fits in.
    pub(crate) fn has_room(&self, key: &[u8]) -> bool {
        self.used_bytes + self.cost(key) <= self.capacity_bytes
    }

    /// Adds a key that is not there, as the newest.
    pub(crate) fn insert(&mut self, key: &[u8], state: S) {
        self.used_bytes += self.cost(key);
        self.states.insert(key, state);
    }

    /// The state that was used longest ago.
    pub(crate) fn oldest(&self) -> Option<&S> {
        self.states.oldest().map(|(_, state)| state)
    }

    /// Drops that state; `false` if there is none.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        let Some((key, _)) = self.states.pop_oldest() else { return false };
        self.used_bytes -= self.cost(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Bounded;

    #[test]
    fn states_have_room_within_the_bytes() {
        let mut lru = Bounded::new(2 * 128, 80);
        for key in [b"a", b"b"] {
            assert!(lru.has_room(key));
            lru.insert(key, key[0]);
        }
        assert!(!lru.has_room(b"c"));
        assert_eq!((lru.get(b"a").copied(), lru.oldest()), (Some(b'a'), Some(&b'b')));
        assert!(lru.drop_oldest() && lru.has_room(b"c"));
        assert!(lru.drop_oldest() && !lru.drop_oldest());
        assert_eq!(lru.used_bytes, 0);
    }
}

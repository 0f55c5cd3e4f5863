//! States by key, in the order in which they were last used, within a number of bytes.

use crate::shared::lru;
use crate::shared::zones;

/// What nginx spends on a state besides its key, in bytes.
const STATE_ACCOUNT: usize = 80;

/// States by key.
pub(super) struct Lru<S> {
    states: lru::Lru<S>,
    used_bytes: u64,
    capacity_bytes: u64,
}

fn cost(key: &[u8]) -> u64 {
    zones::cost(STATE_ACCOUNT + key.len())
}

impl<S> Lru<S> {
    pub(super) fn new(capacity_bytes: u64) -> Lru<S> {
        Lru { states: lru::Lru::default(), used_bytes: 0, capacity_bytes }
    }

    /// The state of a key, which becomes the newest.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&mut S> {
        self.states.get(key)
    }

    /// Whether a state for this key fits in.
    pub(super) fn has_room(&self, key: &[u8]) -> bool {
        self.used_bytes + cost(key) <= self.capacity_bytes
    }

    /// Adds a key that is not there, as the newest.
    pub(super) fn insert(&mut self, key: &[u8], state: S) {
        self.used_bytes += cost(key);
        self.states.insert(key, state);
    }

    /// The state that was used longest ago.
    pub(super) fn oldest(&self) -> Option<&S> {
        self.states.oldest().map(|(_, state)| state)
    }

    /// Drops that state; `false` if there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let Some((key, _)) = self.states.pop_oldest() else { return false };
        self.used_bytes -= cost(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn states_have_room_within_the_bytes() {
        let mut lru = Lru::new(2 * 128);
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

//! Keys whose responses are not kept: requests for them do not wait for one another (`proxy_cache_lock`).

use crate::key::Key;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// For how long a key is remembered, unless a response for it is kept. Varnish has the same time.
const TIME: Duration = Duration::from_secs(120);

/// How many keys are remembered. If there are more, the oldest is forgotten.
const KEYS_MAX: usize = 4096;

/// Keys whose responses are not kept.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Until when a key is remembered.
    keys: HashMap<Key, Instant>,
    /// The keys in the order in which they were noted, with the same times. Some may be forgotten already.
    order: VecDeque<(Key, Instant)>,
}

impl Passed {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Remembers a key, and tells how many there are.
    pub(super) fn note(&mut self, key: Key, now: Instant) -> usize {
        self.drop_oldest(|until, count| until <= now || count >= KEYS_MAX);
        let until = now + TIME;
        self.keys.insert(key, until);
        self.order.push_back((key, until));
        self.keys.len()
    }

    /// Whether a key is remembered.
    pub(super) fn has(&self, key: &Key, now: Instant) -> bool {
        self.keys.get(key).is_some_and(|&until| now < until)
    }

    /// Forgets a key, and tells how many there are.
    pub(super) fn forget(&mut self, key: &Key) -> usize {
        self.keys.remove(key);
        if self.keys.is_empty() {
            self.order.clear();
        }
        self.keys.len()
    }

    /// Forgets keys, the oldest first, as long as this is so for its time and the number of places.
    fn drop_oldest(&mut self, is_dropped: impl Fn(Instant, usize) -> bool) {
        while let Some((key, until)) =
            self.order.front().filter(|(_, until)| is_dropped(*until, self.order.len()))
        {
            // A key that was noted again is remembered for longer.
            if self.keys.get(key) == Some(until) {
                self.keys.remove(key);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, Passed, TIME};
    use crate::key::Key;
    use std::time::{Duration, Instant};

    #[test]
    fn a_key_is_remembered_for_a_time_or_until_a_response_is_kept() {
        let (mut passed, now, a, b) = (Passed::default(), Instant::now(), Key::of(b"a"), Key::of(b"b"));
        assert!(passed.is_empty() && !passed.has(&a, now));
        assert_eq!((passed.note(a, now), passed.note(b, now)), (1, 2));
        let later = now + TIME - Duration::from_secs(1);
        assert!(passed.has(&a, later) && !passed.has(&a, now + TIME));
        assert_eq!((passed.note(a, later), passed.forget(&b)), (2, 1));
        assert!(!passed.has(&b, later));
        assert_eq!(passed.note(b, now + TIME), 2, "the first note of a key does not end the second one");
        assert!(passed.has(&a, now + TIME));
        assert_eq!((passed.forget(&a), passed.forget(&b), passed.order.len()), (1, 0, 0));
    }

    #[test]
    fn as_many_keys_are_remembered_as_there_is_room_for() {
        let (mut passed, now) = (Passed::default(), Instant::now());
        let key = |number: usize| Key::of(&number.to_le_bytes());
        for number in 0..2 * KEYS_MAX {
            passed.note(key(number), now);
            passed.note(key(0), now);
        }
        assert!(passed.order.len() <= KEYS_MAX && passed.keys.len() <= KEYS_MAX);
        assert!(
            passed.has(&key(0), now) && passed.has(&key(2 * KEYS_MAX - 1), now) && !passed.has(&key(1), now)
        );
    }
}

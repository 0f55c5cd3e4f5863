//! Certificates with their keys that are read while connections are opened, kept for further connections.

use crate::Pair;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Keeps a bounded number of pairs. The caller tells the time, as time since any fixed moment.
pub struct PairCache {
    limits: PairCacheLimits,
    entries: Mutex<HashMap<Box<[u8]>, Entry>>,
}

/// What a [`PairCache`] keeps, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCacheLimits {
    /// How many certificates and keys there may be, counted separately.
    pub max: usize,
    /// How long a pair is kept that no connection needs.
    pub inactive: Duration,
    /// How long a pair is used before it is read again.
    pub valid: Duration,
}

struct Entry {
    pair: Pair,
    read: Duration,
    used: Duration,
}

impl PairCache {
    /// A cache that has nothing.
    pub fn new(limits: PairCacheLimits) -> PairCache {
        PairCache { limits, entries: Mutex::default() }
    }

    /// The pair that is kept by this name, if it still counts.
    pub fn get(&self, name: &[u8], now: Duration) -> Option<Pair> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get_mut(name)?;
        if self.limits.is_over(entry, now) {
            entries.remove(name);
            return None;
        }
        entry.used = now;
        Some(entry.pair.clone())
    }

    /// Keeps a pair. If there is no room, the one goes that was not used for longest. A pair whose key was encrypted is
    /// not kept: who has no password must not use it.
    pub fn put(&self, name: Box<[u8]>, pair: &Pair, now: Duration) {
        if pair.was_encrypted {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.limits.pairs() && !entries.contains_key(&name) {
            entries.retain(|_, entry| !self.limits.is_over(entry, now));
        }
        while entries.len() >= self.limits.pairs() && !entries.contains_key(&name) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            entries.remove(&oldest);
        }
        entries.insert(name, Entry { pair: pair.clone(), read: now, used: now });
    }
}

impl PairCacheLimits {
    fn pairs(&self) -> usize {
        self.max.div_ceil(2).max(1)
    }

    fn is_over(&self, entry: &Entry, now: Duration) -> bool {
        now.saturating_sub(entry.read) > self.valid || now.saturating_sub(entry.used) > self.inactive
    }
}

impl fmt::Debug for PairCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairCache").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfSigned;

    fn pair() -> Pair {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").unwrap()
    }

    fn cache(max: usize) -> PairCache {
        let seconds = Duration::from_secs;
        PairCache::new(PairCacheLimits { max, inactive: seconds(10), valid: seconds(60) })
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pair_is_kept_while_it_is_used_and_valid() {
        let (cache, pair) = (cache(4), pair());
        cache.put(b"a"[..].into(), &pair, at(0));
        for seconds in [5, 15, 25, 35, 45, 55, 60] {
            assert!(cache.get(b"a", at(seconds)).is_some(), "{seconds}");
        }
        assert!(cache.get(b"a", at(61)).is_none(), "it has to be read again");
        cache.put(b"a"[..].into(), &pair, at(70));
        assert!(cache.get(b"a", at(81)).is_none(), "it was not used");
    }

    #[test]
    fn number_of_pairs_is_limited() {
        let (cache, pair) = (cache(4), pair());
        cache.put(b"a"[..].into(), &pair, at(0));
        cache.put(b"b"[..].into(), &pair, at(1));
        assert!(cache.get(b"a", at(2)).is_some());
        cache.put(b"c"[..].into(), &pair, at(3));
        let kept = [b"a", b"b", b"c"].map(|name| cache.get(name, at(4)).is_some());
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn pair_with_an_encrypted_key_is_not_kept() {
        let cache = cache(4);
        cache.put(b"a"[..].into(), &Pair { was_encrypted: true, ..pair() }, at(0));
        assert!(cache.get(b"a", at(0)).is_none());
    }
}

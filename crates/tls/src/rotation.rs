//! Keys of session tickets that this process makes, and replaces as time goes by.

use crate::TicketKey;
use aws_lc_rs::rand;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The keys of all policies whose sessions can be resumed for as long: by this time, in seconds.
static ALL: Mutex<BTreeMap<u64, Arc<Rotation>>> = Mutex::new(BTreeMap::new());

/// A key that seals tickets for as long as a session can be resumed. After that the key opens them for as long again, and is
/// dropped: who learns the keys of a server later cannot decrypt what was sent before.
pub(crate) struct Rotation {
    period: Duration,
    keys: RwLock<Keys>,
}

#[derive(Clone)]
struct Keys {
    current: Arc<TicketKey>,
    previous: Option<Arc<TicketKey>>,
    /// Since when the current key seals.
    since: Instant,
}

impl Rotation {
    /// The keys of this process for sessions that can be resumed for that long. `None` if the system gives no random bytes.
    pub(crate) fn of(timeout: Duration) -> Option<Arc<Rotation>> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&timeout.as_secs()) {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(Rotation::new(timeout, Instant::now())?);
        all.insert(timeout.as_secs(), Arc::clone(&made));
        Some(made)
    }

    fn new(timeout: Duration, now: Instant) -> Option<Rotation> {
        let period = timeout.max(Duration::from_secs(1));
        Some(Rotation { period, keys: RwLock::new(Keys::new(None, now)?) })
    }

    pub(crate) fn seal(&self, plain: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.keys_at(now)?.current.seal(plain)
    }

    pub(crate) fn open(&self, ticket: &[u8], now: Instant) -> Option<Vec<u8>> {
        let keys = self.keys_at(now)?;
        let mut both = std::iter::once(&keys.current).chain(&keys.previous);
        both.find(|key| key.sealed(ticket))?.open(ticket)
    }

    /// The keys, after they were replaced if that is due.
    fn keys_at(&self, now: Instant) -> Option<Keys> {
        let age = |keys: &Keys| now.saturating_duration_since(keys.since);
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        if age(&known) < self.period {
            return Some(known);
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have replaced them meanwhile.
        if age(&keys) >= self.period {
            let is_needed = age(&keys) < self.period * 2;
            *keys = Keys::new(is_needed.then(|| Arc::clone(&keys.current)), now)?;
        }
        Some(keys.clone())
    }
}

impl fmt::Debug for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Keys {
    fn new(previous: Option<Arc<TicketKey>>, since: Instant) -> Option<Keys> {
        let mut bytes = [0; 80];
        rand::fill(&mut bytes).ok()?;
        Some(Keys { current: Arc::new(TicketKey::new(&bytes)?), previous, since })
    }
}

#[cfg(test)]
mod tests {
    use super::Rotation;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn a_key_seals_for_one_period_and_opens_for_two() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let rotation = Rotation::new(Duration::from_secs(300), start).unwrap();
        let seal = |seconds: u64| rotation.seal(b"state", at(seconds)).unwrap();
        let open = |ticket: &[u8], seconds: u64| rotation.open(ticket, at(seconds)).is_some();
        let (first, same) = (seal(0), seal(299));
        assert_eq!(first[..16], same[..16]);
        let second = seal(300);
        assert_ne!(first[..16], second[..16]);
        assert!(open(&first, 301) && open(&second, 301) && open(&same, 599));
        let third = seal(600);
        assert!(!open(&same, 601) && open(&second, 601) && open(&third, 601));
        assert!(!open(&third, 1_200), "a key that was not replaced in time is not used any more");
    }

    #[test]
    fn policies_with_one_timeout_share_keys() {
        let of = |seconds: u64| Rotation::of(Duration::from_secs(seconds)).unwrap();
        assert!(Arc::ptr_eq(&of(71), &of(71)) && !Arc::ptr_eq(&of(71), &of(72)));
    }
}

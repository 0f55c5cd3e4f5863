//! What was answered, by server and location.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Upper ends of the latency histogram, in seconds; above the last one is one more bucket.
pub(super) const BUCKETS_S: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Statuses that are counted each for itself, ascending; all others are counted together.
const STATUSES: [u16; 48] = [
    101, 200, 201, 202, 204, 206, 207, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406,
    408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 425, 426, 429, 431, 444, 451, 495, 496, 497,
    499, 500, 501, 502, 503, 504,
];

/// Threads count in as many tallies, so that they do not wait for each other's writes.
const SHARDS: usize = 16;

/// A server's name and a location's.
pub(super) type Key = Arc<(Box<str>, Box<str>)>;

/// Every place of the configurations that are in use. One that is loaded anew finds what was counted so far, and what
/// it has no more goes with the one before, so that reloads do not add up.
static PLACES: Mutex<BTreeMap<Key, Weak<Place>>> = Mutex::new(BTreeMap::new());

/// The counts of a location of a server.
pub(super) struct Place {
    key: Key,
    shards: [OnceLock<Box<Tally>>; SHARDS],
}

/// The counts of some threads.
struct Tally {
    /// In the order of [`STATUSES`], with all others after them.
    statuses: [AtomicU64; STATUSES.len() + 1],
    buckets: [AtomicU64; BUCKETS_S.len() + 1],
    nanoseconds: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    const fn new() -> Tally {
        Tally {
            statuses: [const { AtomicU64::new(0) }; STATUSES.len() + 1],
            buckets: [const { AtomicU64::new(0) }; BUCKETS_S.len() + 1],
            nanoseconds: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

/// The sums of a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// Requests by status, those that there were; `None` is every status that is not counted for itself.
    pub(super) statuses: Vec<(Option<u16>, u64)>,
    /// Requests by their latency.
    pub(super) buckets: [u64; BUCKETS_S.len() + 1],
    /// All latencies together.
    pub(super) seconds: f64,
    /// Bytes that were sent.
    pub(super) bytes: u64,
}

thread_local! {
    static SHARD: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Relaxed) % SHARDS
    };
}

/// The place of this name, which lasts as long as scopes keep it.
pub(super) fn place(server: &str, location: &str) -> Arc<Place> {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = Key::new((server.into(), location.into()));
    if let Some(place) = places.get(&key).and_then(Weak::upgrade) {
        return place;
    }
    let place = Arc::new(Place { key: Arc::clone(&key), shards: Default::default() });
    places.insert(key, Arc::downgrade(&place));
    place
}

/// The places that requests were counted for, by server and location, with what was counted.
pub(super) fn all() -> Vec<(Key, Sums)> {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept: Vec<_> = places.values().filter_map(Weak::upgrade).collect();
    // A place that ends here asks for them.
    drop(places);
    let sums = kept.iter().map(|place| (Arc::clone(&place.key), place.sums()));
    sums.filter(|(_, sums)| !sums.statuses.is_empty()).collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have the name by now.
        if places.get(&self.key).is_some_and(|place| place.strong_count() == 0) {
            places.remove(&self.key);
        }
    }
}

impl Place {
    /// Counts a request.
    pub(super) fn count(&self, status: u16, bytes: u64, latency: Duration) {
        let tally = SHARD.with(|shard| self.shards[*shard].get_or_init(|| Box::new(Tally::new())));
        let seconds = latency.as_secs_f64();
        let bucket = BUCKETS_S.partition_point(|&end| end < seconds);
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let by_status = STATUSES.binary_search(&status).unwrap_or(STATUSES.len());
        tally.statuses[by_status].fetch_add(1, Relaxed);
        tally.buckets[bucket].fetch_add(1, Relaxed);
        tally.nanoseconds.fetch_add(nanoseconds, Relaxed);
        tally.bytes.fetch_add(bytes, Relaxed);
    }

    fn sums(&self) -> Sums {
        let tallies = || self.shards.iter().filter_map(OnceLock::get);
        let sum = |of: &dyn Fn(&Tally) -> u64| tallies().map(|tally| of(tally)).fold(0, u64::wrapping_add);
        let statuses = STATUSES.iter().copied().map(Some).chain([None]).enumerate();
        let statuses = statuses.map(|(at, status)| (status, sum(&|tally| tally.statuses[at].load(Relaxed))));
        Sums {
            statuses: statuses.filter(|(_, count)| *count > 0).collect(),
            buckets: std::array::from_fn(|at| sum(&|tally| tally.buckets[at].load(Relaxed))),
            seconds: Duration::from_nanos(sum(&|tally| tally.nanoseconds.load(Relaxed))).as_secs_f64(),
            bytes: sum(&|tally| tally.bytes.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS_S, PLACES, STATUSES, all, place};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn threads_are_added_up() {
        let place = place("threads.example", "/");
        let count = |status, milliseconds| {
            let place = Arc::clone(&place);
            let count = move || place.count(status, 100, Duration::from_micros(milliseconds));
            std::thread::spawn(count).join().unwrap();
        };
        for (status, microseconds) in [(200, 500), (200, 501), (404, 20_000_000), (799, 1)] {
            count(status, microseconds);
        }
        let sums = place.sums();
        assert_eq!(sums.statuses, [(Some(200), 2), (Some(404), 1), (None, 1)]);
        assert_eq!((sums.buckets[0], sums.buckets[1], sums.buckets[BUCKETS_S.len()]), (2, 1, 1));
        assert_eq!((sums.bytes, sums.seconds), (400, 20.001_002));
    }

    #[test]
    fn a_name_is_one_place_while_somebody_has_it() {
        let counted =
            || all().into_iter().find(|(key, _)| &*key.0 == "one.example").map(|(_, sums)| sums.bytes);
        let one = place("one.example", "/");
        assert!(Arc::ptr_eq(&one, &place("one.example", "/")));
        assert!(!Arc::ptr_eq(&one, &place("two.example", "/")));
        assert_eq!(counted(), None, "nothing was asked for");
        one.count(200, 7, Duration::ZERO);
        let after_a_reload = place("one.example", "/");
        drop(one);
        assert_eq!(counted(), Some(7));
        drop(after_a_reload);
        assert_eq!(counted(), None);
        assert!(PLACES.lock().unwrap().keys().all(|key| &*key.0 != "one.example"), "nothing is left of it");
        assert!(STATUSES.is_sorted() && BUCKETS_S.is_sorted());
    }
}

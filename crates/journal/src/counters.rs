//! What this process counts: connections and what they do, requests, looks into caches.
//!
//! Each thread counts for itself, without a lock and without a write that another thread waits for; a reader
//! adds the threads' counts up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Connections that clients opened.
    Accepted,
    /// Connections among them that there was a place for.
    Handled,
    /// Requests, those included whose head broke the rules.
    Requests,
    /// Connections by which a head is being read, now.
    Reading,
    /// Connections by which a request is being answered, now.
    Writing,
    /// Connections that wait for a request, now.
    Waiting,
    /// Files that were found in a cache.
    FileCacheHits,
    /// Files that were looked for on the disk, although there is a cache.
    FileCacheMisses,
    /// Regular expressions that took too many steps and gave up.
    PatternsGivenUp,
}

impl Count {
    const ALL: usize = Count::PatternsGivenUp as usize + 1;
}

/// What one thread counted. Only that thread writes; differences of all threads together are what counts, so that
/// one may be below zero and wrap.
#[repr(align(128))]
struct Shard([AtomicU64; Count::ALL]);

static SHARDS: Mutex<Vec<&'static Shard>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: &'static Shard = register();
}

/// A thread's counts outlive it: what it counted was so.
fn register() -> &'static Shard {
    let shard: &'static Shard = Box::leak(Box::new(Shard([const { AtomicU64::new(0) }; Count::ALL])));
    SHARDS.lock().unwrap_or_else(PoisonError::into_inner).push(shard);
    shard
}

fn change(count: Count, change: impl Fn(u64) -> u64) {
    OWN.with(|own| {
        let cell = &own.0[count as usize];
        cell.store(change(cell.load(Relaxed)), Relaxed);
    });
}

/// Counts one more.
pub fn add(count: Count) {
    add_many(count, 1);
}

/// Counts so many more.
pub fn add_many(count: Count, many: u64) {
    change(count, |value| value.wrapping_add(many));
}

/// How many there are, of all threads.
pub fn total(count: Count) -> u64 {
    let shards = SHARDS.lock().unwrap_or_else(PoisonError::into_inner);
    shards.iter().map(|shard| shard.0[count as usize].load(Relaxed)).fold(0, u64::wrapping_add)
}

/// How many connections there are.
pub fn active() -> u64 {
    [Count::Reading, Count::Writing, Count::Waiting].map(total).into_iter().fold(0, u64::wrapping_add)
}

/// What a connection does, counted for as long as it lives.
#[derive(Debug)]
pub struct Activity(Cell<Count>);

impl Activity {
    /// A connection by which nothing came yet.
    pub fn new() -> Activity {
        add(Count::Waiting);
        Activity(Cell::new(Count::Waiting))
    }

    /// It waits for a request.
    pub fn waits(&self) {
        self.is(Count::Waiting);
    }

    /// A head is being read.
    pub fn reads(&self) {
        self.is(Count::Reading);
    }

    /// A request is being answered.
    pub fn answers(&self) {
        self.is(Count::Writing);
    }

    fn is(&self, now: Count) {
        let before = self.0.replace(now);
        if before != now {
            change(before, |value| value.wrapping_sub(1));
            add(now);
        }
    }
}

impl Default for Activity {
    fn default() -> Activity {
        Activity::new()
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        change(self.0.get(), |value| value.wrapping_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, Count, active, add, total};

    #[test]
    fn threads_are_added_up_and_connections_leave() {
        let before = (total(Count::Accepted), active());
        let threads = [(); 3].map(|()| std::thread::spawn(|| add(Count::Accepted)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(total(Count::Accepted) - before.0, 3);

        let one = Activity::new();
        let other = Activity::new();
        other.reads();
        other.answers();
        assert_eq!((active() - before.1, total(Count::Reading)), (2, 0));
        assert_eq!((total(Count::Waiting), total(Count::Writing)), (1, 1));
        drop((one, other));
        assert_eq!(active(), before.1);
    }
}

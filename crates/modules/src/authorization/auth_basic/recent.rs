//! Passwords that were right a moment ago, kept only as keyed hashes.

use contract::FileIdentity;
use contract::hash::Keyed;
use journal::clock::Time;
use sha2::{Digest, Sha256};
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many are kept; the oldest is dropped.
const CAPACITY: usize = 1024;

/// How long one is kept.
const LIFETIME: Duration = Duration::from_secs(300);

/// The key of this process; without one nothing is kept.
static KEY: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
    let mut key = [0; 32];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    (filled == Ok(key.len())).then_some(key)
});

/// Stands for a user, the stored password and the given one. Another process cannot use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tag([u8; 32]);

impl Tag {
    pub(super) fn new(user: &[u8], stored: &[u8], password: &[u8]) -> Option<Tag> {
        let key = (*KEY)?;
        let mut hash = Sha256::new_with_prefix(key);
        for part in [user, stored, password] {
            // With the length before each, no two triples are one text.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Some(Tag(hash.finalize().into()))
    }
}

/// Stands for a state of a file, and a field with credentials: what is seen without reading the file, and without
/// decoding the field. Another process cannot use it. The first part is a keyed hash of the field: no other
/// field with that hash can be found; the second ties it to the file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuickTag(u64, u64);

impl QuickTag {
    pub(super) fn new(file: &FileIdentity, field: &[u8]) -> QuickTag {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        QuickTag(KEYS.hash_one(field), Keyed::default().hash_one((file, field)))
    }
}

/// A bounded set of tags, each with its end.
pub(super) struct Recent<T>(Mutex<Tags<T>>);

struct Tags<T> {
    known: HashSet<T, Keyed>,
    /// In the order of their ends.
    queue: VecDeque<(Instant, T)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::new(Tags { known: HashSet::default(), queue: VecDeque::new() }))
    }
}

impl<T: Clone + Eq + Hash> Recent<T> {
    pub(super) fn has(&self, tag: &T) -> bool {
        let mut tags = self.tags();
        tags.expire(Time::now().instant);
        tags.known.contains(tag)
    }

    pub(super) fn add(&self, tag: T) {
        let mut tags = self.tags();
        if !tags.known.insert(tag.clone()) {
            return;
        }
        tags.queue.push_back((Instant::now() + LIFETIME, tag));
        if tags.queue.len() > CAPACITY {
            tags.drop_oldest();
        }
    }

    fn tags(&self) -> MutexGuard<'_, Tags<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Eq + Hash> Tags<T> {
    fn expire(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|(end, _)| *end <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, tag)) = self.queue.pop_front() {
            self.known.remove(&tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, LIFETIME, Recent, Tag};
    use std::time::Instant;

    fn tag(password: usize) -> Tag {
        Tag::new(b"u", b"stored", password.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn parts_do_not_run_together() {
        let tags = [Tag::new(b"ab", b"c", b""), Tag::new(b"a", b"bc", b""), Tag::new(b"a", b"b", b"c")];
        assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
        assert_eq!(Tag::new(b"a", b"b", b"c"), tags[2]);
    }

    #[test]
    fn there_are_only_so_many() {
        let recent = Recent::<Tag>::default();
        for n in 0..CAPACITY + 2 {
            recent.add(tag(n));
            recent.add(tag(n));
        }
        assert!(!recent.has(&tag(1)) && recent.has(&tag(2)) && recent.has(&tag(CAPACITY + 1)));
        assert_eq!(recent.tags().queue.len(), CAPACITY);
    }

    #[test]
    fn they_end() {
        let recent = Recent::default();
        recent.add(tag(0));
        recent.tags().expire(Instant::now());
        assert!(recent.has(&tag(0)));
        recent.tags().expire(Instant::now() + LIFETIME);
        assert!(!recent.has(&tag(0)));
    }
}

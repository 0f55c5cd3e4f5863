//! The places of the nodes of an index, by the hashes of their keys.
//!
//! If a table is full, another one follows, to which the places move a few at a time. While that lasts there are two. So
//! nobody waits until a million places have moved.

use crate::key::Key;
use hashbrown::HashTable;
use http::hash::Keyed;

/// How many places a table has room for at least.
const ROOM_MIN: usize = 32;

/// Set in the number of a bucket of each second table.
const SECOND: u32 = 1 << 31;

/// The places of nodes. What a look for a key needs stands at the start.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Places {
    now: HashTable<u32>,
    /// The table that was full, while it holds places that still have to move.
    before: Option<Box<HashTable<u32>>>,
    /// Clients choose the keys. The hash has a secret.
    keyed: Keyed,
    /// [`SECOND`] in each second table, and otherwise 0.
    table: u32,
}

/// Where a place stands: in which table, and in which of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket(u32);

impl Bucket {
    /// Of a node that has no place.
    pub(super) const NONE: Bucket = Bucket(u32::MAX);
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.now.len() + self.before.as_ref().map_or(0, |before| before.len())
    }

    /// The place of this key that is the right one.
    pub(super) fn find(&self, key: &Key, is_right: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(key);
        let found = self.now.find(hash, |&at| is_right(at));
        found.or_else(|| self.before.as_ref()?.find(hash, |&at| is_right(at))).copied()
    }

    fn hash(&self, key: &Key) -> u64 {
        self.keyed.hash_digest(&key.0)
    }

    /// Whether another table has to follow before a place is added.
    pub(super) fn is_full(&self) -> bool {
        self.now.len() == self.now.capacity()
    }

    /// Begins another table, with room for those that move and for some more. No move may be under way.
    pub(super) fn begin_move(&mut self) {
        debug_assert!(!self.is_moving(), "there are two tables at most");
        let room = self.len() + (self.len() / 8).max(ROOM_MIN);
        let before = std::mem::replace(&mut self.now, HashTable::with_capacity(room));
        self.before = Some(before).filter(|before| !before.is_empty()).map(Box::new);
        self.table ^= SECOND;
    }

    /// Whether there are places that still have to move.
    pub(super) fn is_moving(&self) -> bool {
        self.before.is_some()
    }

    /// Whether a place still has to move.
    pub(super) fn has_to_move(&self, bucket: Bucket) -> bool {
        self.is_moving() && bucket != Bucket::NONE && bucket.0 & SECOND != self.table
    }

    /// Adds the place of a key.
    pub(super) fn add(&mut self, key: &Key, at: u32) -> Bucket {
        let hash = self.hash(key);
        let rehash = |_: &u32| {
            debug_assert!(false, "no bucket may change: there has to be room");
            hash
        };
        let bucket = self.now.insert_unique(hash, at, rehash).bucket_index();
        Bucket(u32::try_from(bucket).unwrap_or(u32::MAX) & !SECOND | self.table)
    }

    /// Removes a place, and tells whether it was there. No other memory of the table has to be read.
    pub(super) fn remove(&mut self, bucket: Bucket) -> bool {
        let has_to_move = self.has_to_move(bucket);
        let table = match &mut self.before {
            Some(before) if has_to_move => before,
            _ => &mut self.now,
        };
        let Ok(place) = table.get_bucket_entry((bucket.0 & !SECOND) as usize) else { return false };
        place.remove();
        if has_to_move && table.is_empty() {
            self.before = None;
        }
        true
    }

    /// How many places do not have to move.
    #[cfg(test)]
    pub(super) fn moved(&self) -> usize {
        self.now.len()
    }

    /// How much memory it takes, in bytes.
    #[cfg(test)]
    pub(super) fn allocation_size(&self) -> usize {
        self.now.allocation_size() + self.before.as_ref().map_or(0, |before| before.allocation_size())
    }
}

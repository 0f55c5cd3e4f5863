//! Compressed forms of files that are kept, so that a file that many ask for is compressed once. Each thread keeps
//! its own, so no thread waits for another one.

use crate::shared::compression::Settings;
use bytes::Bytes;
use contract::FileIdentity;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// How many bytes a thread keeps.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The largest file whose compressed form is kept, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What an entry costs besides its content, in bytes, roughly.
const ENTRY_BYTES: usize = 256;

/// A state of a file, and how it was compressed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) file: FileIdentity,
    pub(super) settings: Settings,
}

thread_local! {
    static KEPT: RefCell<Kept<Key>> = RefCell::new(Kept::new(KEPT_BYTES_MAX));
}

/// The compressed form, if it is kept.
pub(super) fn get(key: &Key) -> Option<Bytes> {
    KEPT.with_borrow_mut(|kept| kept.get(key))
}

/// Keeps a compressed form; what was not asked for longest goes.
pub(super) fn put(key: Key, content: Bytes) {
    KEPT.with_borrow_mut(|kept| kept.put(key, content));
}

struct Kept<K> {
    entries: HashMap<K, Entry>,
    /// The keys by the turn of their last use.
    by_turn: BTreeMap<u64, K>,
    turn: u64,
    bytes: usize,
    limit: usize,
}

struct Entry {
    content: Bytes,
    turn: u64,
}

impl<K: Clone + Eq + std::hash::Hash> Kept<K> {
    fn new(limit: usize) -> Kept<K> {
        Kept { entries: HashMap::new(), by_turn: BTreeMap::new(), turn: 0, bytes: 0, limit }
    }

    fn get(&mut self, key: &K) -> Option<Bytes> {
        let entry = self.entries.get_mut(key)?;
        self.by_turn.remove(&entry.turn);
        self.turn += 1;
        entry.turn = self.turn;
        self.by_turn.insert(self.turn, key.clone());
        Some(entry.content.clone())
    }

    fn put(&mut self, key: K, content: Bytes) {
        self.remove(&key);
        self.bytes += content.len() + ENTRY_BYTES;
        self.turn += 1;
        self.by_turn.insert(self.turn, key.clone());
        self.entries.insert(key, Entry { content, turn: self.turn });
        while self.bytes > self.limit
            && let Some((_, oldest)) = self.by_turn.first_key_value()
        {
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_turn.remove(&entry.turn);
            self.bytes -= entry.content.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_BYTES, Kept};
    use bytes::Bytes;

    fn content(length: usize) -> Bytes {
        vec![0; length].into()
    }

    #[test]
    fn what_was_not_asked_for_longest_goes() {
        let mut kept = Kept::new(3 * (100 + ENTRY_BYTES));
        for key in 1..=3 {
            kept.put(key, content(100));
        }
        assert!(kept.get(&1).is_some());
        kept.put(4, content(100));
        let there: Vec<bool> = (1..=4).map(|key| kept.entries.contains_key(&key)).collect();
        assert_eq!(there, [true, false, true, true]);
        kept.put(5, content(101));
        assert_eq!(kept.entries.len(), 2, "one byte too many");
    }

    #[test]
    fn the_sum_is_right_after_all() {
        let mut kept = Kept::new(1000);
        kept.put(1, content(10));
        kept.put(1, content(20));
        assert_eq!((kept.bytes, kept.by_turn.len()), (20 + ENTRY_BYTES, 1));
        kept.put(2, content(5000));
        assert_eq!((kept.bytes, kept.entries.len(), kept.by_turn.len()), (0, 0, 0), "it fits nowhere");
    }
}

//! What a zone knows of its objects: by key, in the order in which they were last used.

use crate::key::Key;
use http::Status;
use std::collections::HashMap;

/// The end of the list.
const NONE: u32 = u32::MAX;

/// What is known of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// How much of the disk the file takes, in bytes; 0 where there is no file.
    pub(crate) disk_bytes: u64,
    /// Seconds since 1970 after which it is removed if nothing uses it.
    pub(crate) expires: i64,
    /// How often it was asked for.
    pub(crate) uses: u32,
    /// Whether there is a file.
    pub(crate) has_file: bool,
    /// Whether the content of the file was written by this process, or was compared with its checksum.
    pub(crate) is_checked: bool,
    /// A number that changes with the file.
    pub(crate) version: u32,
    /// Where the object is among those that are ready to be sent.
    pub(crate) resident: Option<u32>,
    /// A failure of the other server that is kept in place of a response: its status and how long it is kept.
    pub(crate) failure: Option<(Status, i64)>,
}

/// The objects of a zone.
#[derive(Debug)]
pub(crate) struct Index {
    places: HashMap<Key, u32>,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
    /// The first of the nodes that hold nothing.
    free: u32,
    disk_bytes: u64,
}

#[derive(Debug)]
struct Node {
    key: Key,
    entry: Entry,
    newer: u32,
    older: u32,
}

impl Index {
    pub(crate) fn new() -> Index {
        let (newest, oldest, free) = (NONE, NONE, NONE);
        Index { places: HashMap::new(), nodes: Vec::new(), newest, oldest, free, disk_bytes: 0 }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How much of the disk all files take, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// What is known of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        self.places.get(key).and_then(|&at| self.nodes.get(at as usize)).map(|node| &node.entry)
    }

    /// Changes where an object is ready to be sent. The order stays.
    pub(crate) fn place(&mut self, key: &Key, resident: Option<u32>) {
        let node = self.places.get(key).and_then(|&at| self.nodes.get_mut(at as usize));
        if let Some(node) = node {
            node.entry.resident = resident;
        }
    }

    /// Changes what is known of a key, which becomes the newest. `None` where nothing is known.
    pub(crate) fn touch<T>(&mut self, key: &Key, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let at = *self.places.get(key)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        let entry = &mut self.nodes.get_mut(at as usize)?.entry;
        let before = entry.disk_bytes;
        let result = change(entry);
        self.disk_bytes = self.disk_bytes.saturating_sub(before).saturating_add(entry.disk_bytes);
        Some(result)
    }

    /// Adds a key of which nothing is known, as the newest.
    pub(crate) fn insert(&mut self, key: Key, entry: Entry) {
        self.disk_bytes = self.disk_bytes.saturating_add(entry.disk_bytes);
        let node = Node { key, entry, newer: NONE, older: NONE };
        let at = self.free;
        let at = match self.nodes.get_mut(at as usize) {
            Some(place) => {
                self.free = place.older;
                *place = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
            }
        };
        self.places.insert(key, at);
        self.link(at);
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Entry> {
        let at = self.places.remove(key)?;
        self.unlink(at);
        let free = std::mem::replace(&mut self.free, at);
        let node = self.nodes.get_mut(at as usize)?;
        node.older = free;
        let entry = std::mem::take(&mut node.entry);
        self.disk_bytes = self.disk_bytes.saturating_sub(entry.disk_bytes);
        Some(entry)
    }

    /// The objects, the one first that was used longest ago.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            Some((&node.key, &node.entry))
        })
    }

    fn link(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.newer, node.older) = (NONE, before);
        }
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some((newer, older)) = self.nodes.get(at as usize).map(|node| (node.newer, node.older)) else {
            return;
        };
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Index};
    use crate::key::Key;
    use proptest::prelude::*;

    fn key(number: u8) -> Key {
        Key([number; 16])
    }

    fn order(index: &Index) -> Vec<u8> {
        index.oldest_first().map(|(key, _)| key.0[0]).collect()
    }

    #[test]
    fn the_order_is_that_of_the_last_use() {
        let mut index = Index::new();
        (1..=3).for_each(|number| index.insert(key(number), Entry { disk_bytes: 10, ..Entry::default() }));
        index.touch(&key(1), |entry| entry.disk_bytes = 5);
        assert_eq!((order(&index), index.disk_bytes()), (vec![2, 3, 1], 25));
        index.remove(&key(3));
        index.insert(key(4), Entry::default());
        assert_eq!((order(&index), index.disk_bytes(), index.len()), (vec![2, 1, 4], 15, 3));
        assert_eq!(index.nodes.len(), 3, "the place of the removed one is used again");
        assert!(index.touch(&key(3), |_| ()).is_none() && index.remove(&key(3)).is_none());
    }

    proptest! {
        #[test]
        fn any_changes_keep_the_order(steps in proptest::collection::vec((0_u8..3, 0_u8..8), 0..100)) {
            let (mut index, mut model) = (Index::new(), Vec::<u8>::new());
            for (step, number) in steps {
                let is_known = model.contains(&number);
                model.retain(|other| *other != number);
                match (step, is_known) {
                    (0, _) => drop(index.remove(&key(number))),
                    (_, true) => drop(index.touch(&key(number), |_| ())),
                    (_, false) => index.insert(key(number), Entry::default()),
                }
                if step > 0 {
                    model.push(number);
                }
                prop_assert_eq!(order(&index), model.clone());
            }
        }
    }
}

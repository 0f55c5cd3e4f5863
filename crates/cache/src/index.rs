//! What a zone knows of its objects: by key, in the order in which they were last used.
//!
//! There may be millions of them, so that each takes few bytes, and no node is copied when there are more. A look for a key
//! that is not there reads no node: their memory is seldom in the processor's cache.

mod places;

use crate::key::Key;
use crate::object::BLOCK;
use places::{Bucket, Places};

/// The end of the list.
const NONE: u32 = u32::MAX;

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// How many blocks of the disk the file takes; 0 where there is no file.
    blocks: u32,
    /// When it is removed if nothing uses it, in seconds.
    expires: u32,
    /// How often it was asked for.
    pub(crate) uses: u32,
    /// A number that changes with the object. If its file was checked, it is the stamp of that.
    pub(crate) version: u32,
    /// Where the object is among those that are ready to be sent, or [`NONE`].
    resident: u32,
    /// Whether there is a file.
    pub(crate) has_file: bool,
    /// Whether the content of the file with this version was written by this process, or was compared with its checksum.
    pub(crate) is_checked: bool,
    /// Whether a failure of the other server is kept in place of a response.
    pub(crate) has_failure: bool,
    /// Whether a request has begun to write the file of an object that is only in memory.
    pub(crate) is_being_filed: bool,
}

impl Entry {
    /// What is known of an object that was asked for once, and expires then.
    pub(crate) fn new(expires: i64) -> Entry {
        let mut entry = Entry {
            blocks: 0,
            expires: 0,
            uses: 1,
            version: 0,
            resident: NONE,
            has_file: false,
            is_checked: false,
            has_failure: false,
            is_being_filed: false,
        };
        entry.set_expires(expires);
        entry
    }

    /// When it is removed if nothing uses it, in seconds.
    pub(crate) fn expires(&self) -> i64 {
        i64::from(self.expires)
    }

    pub(crate) fn set_expires(&mut self, expires: i64) {
        self.expires = u32::try_from(expires.max(0)).unwrap_or(u32::MAX);
    }

    /// How much of the disk the file takes, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK
    }

    pub(crate) fn set_disk_bytes(&mut self, bytes: u64) {
        self.blocks = u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX);
    }

    /// Notes an object that is only in memory, its version, and its place among those that are ready to be sent.
    pub(crate) fn put_in_memory(&mut self, version: u32, place: Option<u32>) {
        (self.version, self.is_checked, self.is_being_filed) = (version, true, false);
        self.resident = place.unwrap_or(NONE);
    }

    /// Where the object is among those that are ready to be sent. A newcomer may be gone from there.
    pub(crate) fn resident(&self) -> Option<u32> {
        Some(self.resident).filter(|&at| at != NONE)
    }

    /// The same, and the object has no place any more.
    pub(crate) fn take_resident(&mut self) -> Option<u32> {
        let resident = self.resident();
        self.resident = NONE;
        resident
    }
}

/// The objects of a zone.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Index {
    places: Places,
    nodes: Nodes,
    /// The first node, from the oldest on, whose place may still have to move to another table.
    next_to_move: u32,
    newest: u32,
    oldest: u32,
    /// The first of the nodes that hold nothing.
    free: u32,
    disk_bytes: u64,
    /// How many keys have a file. Others were only requested, or their object is in memory.
    files: usize,
}

/// Nodes in pieces of memory that stay where they are.
#[derive(Debug, Default)]
struct Nodes(Vec<Vec<Node>>);

/// How many nodes there are in one piece of memory.
const PIECE: usize = 1024;

impl Nodes {
    fn get(&self, at: u32) -> Option<&Node> {
        let at = at as usize;
        self.0.get(at / PIECE)?.get(at % PIECE)
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut Node> {
        let at = at as usize;
        self.0.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }

    /// Adds a node, and returns its place.
    fn push(&mut self, node: Node) -> u32 {
        if self.0.last().is_none_or(|last| last.len() == PIECE) {
            // The first piece of memory grows with what is in it.
            self.0.push(if self.0.is_empty() { Vec::new() } else { Vec::with_capacity(PIECE) });
        }
        let before = (self.0.len() - 1) * PIECE;
        let Some(last) = self.0.last_mut() else { return NONE };
        last.push(node);
        u32::try_from(before + last.len() - 1).unwrap_or(NONE)
    }
}

#[derive(Debug)]
struct Node {
    key: Key,
    entry: Entry,
    newer: u32,
    older: u32,
    /// Where its place stands.
    bucket: Bucket,
}

/// How many places move to another table when a key is added. All have moved before that table is full.
const MOVES: usize = 16;

impl Index {
    pub(crate) fn new() -> Index {
        let (newest, oldest, free) = (NONE, NONE, NONE);
        Index {
            nodes: Nodes::default(),
            places: Places::default(),
            next_to_move: NONE,
            newest,
            oldest,
            free,
            disk_bytes: 0,
            files: 0,
        }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How much of the disk all files take, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// How many files there are.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// What is known of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        self.nodes.get(self.find(key)?).map(|node| &node.entry)
    }

    /// Changes where an object is ready to be sent. The order stays.
    pub(crate) fn place(&mut self, key: &Key, resident: Option<u32>) {
        let at = self.find(key).unwrap_or(NONE);
        if let Some(node) = self.nodes.get_mut(at) {
            node.entry.resident = resident.unwrap_or(NONE);
        }
    }

    /// Changes what is known of a key, which becomes the newest. `None` where nothing is known.
    pub(crate) fn touch<T>(&mut self, key: &Key, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let at = self.find(key)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        // What has to move is always older than what has moved.
        self.move_place(at);
        let entry = &mut self.nodes.get_mut(at)?.entry;
        let before = entry.disk_bytes();
        let result = change(entry);
        let after = entry.disk_bytes();
        self.account(before, after);
        Some(result)
    }

    /// Adds a key of which nothing is known, as the newest.
    pub(crate) fn insert(&mut self, key: Key, entry: Entry) {
        self.account(0, entry.disk_bytes());
        let node = Node { key, entry, newer: NONE, older: NONE, bucket: Bucket::NONE };
        let at = self.free;
        let at = match self.nodes.get_mut(at) {
            Some(place) => {
                self.free = place.older;
                *place = node;
                at
            }
            None => self.nodes.push(node),
        };
        if self.places.is_full() {
            self.move_places(usize::MAX);
            self.places.begin_move();
            self.next_to_move = self.oldest;
        }
        self.link(at);
        self.add_place(at);
        self.move_places(MOVES);
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Entry> {
        self.find(key).and_then(|at| self.remove_at(at)).map(|(_, entry)| entry)
    }

    /// Forgets the key that was used longest ago, but none that `is_held` names. It looks at up to so many.
    pub(crate) fn remove_oldest(
        &mut self,
        looks: usize,
        is_held: impl Fn(&Key) -> bool,
    ) -> Option<(Key, Entry)> {
        let mut at = self.oldest;
        for _ in 0..looks {
            let node = self.nodes.get(at)?;
            if !is_held(&node.key) {
                return self.remove_at(at);
            }
            at = node.newer;
        }
        None
    }

    fn remove_at(&mut self, at: u32) -> Option<(Key, Entry)> {
        if !self.places.remove(self.nodes.get(at)?.bucket) {
            return None;
        }
        self.unlink(at);
        let free = std::mem::replace(&mut self.free, at);
        let node = self.nodes.get_mut(at)?;
        (node.older, node.bucket) = (free, Bucket::NONE);
        let entry = std::mem::replace(&mut node.entry, Entry::new(0));
        let key = node.key;
        self.account(entry.disk_bytes(), 0);
        Some((key, entry))
    }

    /// Counts a file that took so much of the disk, and takes so much now.
    fn account(&mut self, before: u64, after: u64) {
        self.disk_bytes = self.disk_bytes.saturating_sub(before).saturating_add(after);
        self.files =
            self.files.saturating_sub(usize::from(before > 0)).saturating_add(usize::from(after > 0));
    }

    /// The objects, the one first that was used longest ago.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at)?;
            at = node.newer;
            Some((&node.key, &node.entry))
        })
    }

    /// The place of the node of a key.
    fn find(&self, key: &Key) -> Option<u32> {
        let is_right = |at: u32| self.nodes.get(at).is_some_and(|node| node.key == *key);
        self.places.find(key, is_right)
    }

    fn add_place(&mut self, at: u32) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.bucket = self.places.add(&node.key, at);
        }
    }

    /// Moves up to so many places to the table that follows, those of the oldest nodes first: that is their order in memory
    /// while no object is used again.
    fn move_places(&mut self, most: usize) {
        for _ in 0..most {
            if !self.places.is_moving() {
                return;
            }
            let at = self.next_to_move;
            let Some(node) = self.nodes.get(at) else { return };
            self.next_to_move = node.newer;
            self.move_place(at);
        }
    }

    /// Moves a place to the table that follows, if it has to.
    fn move_place(&mut self, at: u32) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if self.places.has_to_move(node.bucket) {
            self.places.remove(node.bucket);
            node.bucket = self.places.add(&node.key, at);
        }
    }

    fn link(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        if let Some(node) = self.nodes.get_mut(at) {
            (node.newer, node.older) = (NONE, before);
        }
        match self.nodes.get_mut(before) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some((newer, older)) = self.nodes.get(at).map(|node| (node.newer, node.older)) else {
            return;
        };
        if self.next_to_move == at {
            self.next_to_move = newer;
        }
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Entry, Index, Node, PIECE};
    use crate::key::Key;
    use proptest::prelude::*;

    fn entry(blocks: u32) -> Entry {
        Entry { blocks, ..Entry::new(0) }
    }

    fn key(number: u8) -> Key {
        Key([number; 16])
    }

    fn order(index: &Index) -> Vec<u8> {
        index.oldest_first().map(|(key, _)| key.0[0]).collect()
    }

    #[test]
    fn the_order_is_that_of_the_last_use() {
        let mut index = Index::new();
        (1..=3).for_each(|number| index.insert(key(number), entry(2)));
        index.touch(&key(1), |entry| entry.set_disk_bytes(1));
        assert_eq!((order(&index), index.disk_bytes()), (vec![2, 3, 1], 5 * BLOCK));
        index.remove(&key(3));
        index.insert(key(4), Entry::new(0));
        assert_eq!((order(&index), index.disk_bytes(), index.len()), (vec![2, 1, 4], 3 * BLOCK, 3));
        assert_eq!(index.files(), 2, "the key 4 has no file");
        index.touch(&key(1), |entry| entry.set_disk_bytes(0));
        assert_eq!(index.files(), 1);
        assert_eq!(index.nodes.0[0].len(), 3, "the place of the removed one is used again");
        assert!(index.touch(&key(3), |_| ()).is_none() && index.remove(&key(3)).is_none());
    }

    /// nginx documents that a megabyte holds about 8,000 keys.
    #[test]
    fn a_key_takes_less_memory_than_in_nginx() {
        const NGINX: usize = (1 << 20) / 8000;
        let mut index = Index::new();
        // The table of places has just become larger when this many are there.
        for number in 0..135_000_u128 {
            index.insert(Key(number.to_le_bytes()), Entry::new(0));
        }
        let nodes: usize = index.nodes.0.iter().map(|piece| piece.capacity() * size_of::<Node>()).sum();
        let bytes = nodes + index.places.allocation_size();
        assert!(bytes / index.len() <= NGINX / 2, "{} bytes", bytes / index.len());
        assert_eq!((index.nodes.0.len(), index.len()), (135_000_usize.div_ceil(PIECE), 135_000));
        assert!((0..135_000_u128).all(|number| index.get(&Key(number.to_le_bytes())).is_some()));
    }

    #[test]
    fn keys_that_come_and_go_need_no_more_memory() {
        let mut index = Index::new();
        let key = |number: u128| Key(number.to_le_bytes());
        (0..1000).for_each(|number| index.insert(key(number), Entry::new(0)));
        let bytes = index.places.allocation_size();
        for number in 1000..200_000 {
            assert!(index.remove(&key(number - 1000)).is_some());
            index.insert(key(number), Entry::new(0));
            assert!(index.get(&key(number - 1000)).is_none() && index.get(&key(number - 999)).is_some());
        }
        assert_eq!((index.len(), index.nodes.0.iter().map(Vec::len).sum::<usize>()), (1000, 1000));
        assert!(index.places.allocation_size() <= 2 * bytes);
        assert!((199_000..200_000).all(|number| index.get(&key(number)).is_some()));
    }

    #[test]
    fn large_numbers_are_kept_as_far_as_there_is_room() {
        let mut entry = Entry::new(-5);
        assert_eq!((entry.expires(), entry.disk_bytes(), entry.resident()), (0, 0, None));
        entry.set_expires(i64::MAX);
        entry.set_disk_bytes(u64::MAX);
        assert_eq!((entry.expires(), entry.disk_bytes()), (i64::from(u32::MAX), u64::from(u32::MAX) * BLOCK));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_changes_keep_the_order_and_what_is_known(
            steps in proptest::collection::vec((0_u8..4, any::<u8>()), 0..2000)
        ) {
            let (mut index, mut model) = (Index::new(), Vec::<u8>::new());
            for (step, number) in steps {
                let is_known = model.contains(&number);
                model.retain(|other| *other != number);
                match (step, is_known) {
                    (0, _) => prop_assert_eq!(index.remove(&key(number)).is_some(), is_known),
                    (_, true) => prop_assert!(index.touch(&key(number), |_| ()).is_some()),
                    (_, false) => index.insert(key(number), Entry::new(0)),
                }
                if step > 0 {
                    model.push(number);
                }
                prop_assert_eq!(index.get(&key(number)).is_some(), step > 0);
                prop_assert!(moves_end(&index));
            }
            prop_assert_eq!(order(&index), model.clone());
            for number in 0..=255 {
                prop_assert_eq!(index.get(&key(number)).is_some(), model.contains(&number));
            }
        }
    }

    /// Whether all places that have to move are next, and those of newer nodes have moved.
    fn moves_end(index: &Index) -> bool {
        let (mut at, mut are_next, mut others) = (index.next_to_move, 0, 0);
        while let Some(node) = index.nodes.get(at) {
            let has_to_move = index.places.has_to_move(node.bucket);
            if has_to_move && others > 0 {
                return false;
            }
            *if has_to_move { &mut are_next } else { &mut others } += 1;
            at = node.newer;
        }
        are_next == index.oldest_first().count() - index.places.moved()
    }

    /// The places of a full table move with so many insertions that the next table is far from full when they end.
    #[test]
    fn places_move_little_by_little() {
        let mut index = Index::new();
        let (mut moves, mut begun) = (0, 0);
        for number in 0..200_000_u128 {
            let (before, was_moving) = (index.len(), index.places.is_moving());
            index.insert(Key(number.to_le_bytes()), Entry::new(0));
            match (was_moving, index.places.is_moving()) {
                (false, true) => begun = before,
                (true, false) => {
                    assert!(before - begun <= begun / 16, "{begun} places moved with {}", before - begun);
                    moves += 1;
                }
                _ => {}
            }
        }
        assert!(moves > 5, "{moves}");
    }
}

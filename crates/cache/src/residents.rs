//! Objects that are ready to be sent: those in memory, and those whose files are kept open.
//!
//! They stand in a ring with a hand. A hit makes an object warmer; the hand that looks for room cools each object which
//! it passes, and removes a cold one. It passes few for each object that comes, so that a client that asks for
//! everything once or twice does not push out what others ask for often.

use crate::key::Key;
use crate::object::Object;
use std::sync::Arc;

/// How warm an object gets.
const WARM_MAX: u8 = 3;

/// How many objects the hand passes for one that comes.
const PASSES: usize = 32;

/// How many files are kept open.
const OPEN_MAX: usize = 256;

/// About how much memory an object takes besides its head and its content, in bytes.
const OVERHEAD: usize = 768;

/// For how many seconds an object is sent before its file is looked for again.
const CHECK_S: u64 = 1;

/// Objects that are ready to be sent.
#[derive(Debug)]
pub(crate) struct Residents {
    ring: Vec<Resident>,
    hand: usize,
    bytes: usize,
    max_bytes: usize,
    open_files: usize,
}

#[derive(Debug)]
struct Resident {
    key: Key,
    object: Arc<Object>,
    bytes: usize,
    warmth: u8,
    /// Seconds since 1970 when its file was there.
    checked: i64,
}

/// The places of objects that moved or are gone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Those that are gone.
    pub(crate) gone: Vec<Key>,
    /// Those that are at another place.
    pub(crate) moved: Vec<(Key, u32)>,
}

impl Residents {
    /// Room for so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Residents {
        Residents { ring: Vec::new(), hand: 0, bytes: 0, max_bytes, open_files: 0 }
    }

    /// How many bytes there may be.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// How many bytes the objects take, and how many objects there are.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.bytes, self.ring.len())
    }

    /// The object at a place, which becomes warmer; and whether its file has to be looked for.
    pub(crate) fn hit(&mut self, at: u32, now: i64) -> Option<(Arc<Object>, bool)> {
        let resident = self.ring.get_mut(at as usize)?;
        resident.warmth = (resident.warmth + 1).min(WARM_MAX);
        let is_due = now.saturating_sub(resident.checked).unsigned_abs() > CHECK_S;
        if is_due {
            resident.checked = now;
        }
        Some((Arc::clone(&resident.object), is_due))
    }

    /// Adds an object if there is room, and returns its place.
    pub(crate) fn add(&mut self, key: Key, object: &Arc<Object>, now: i64) -> (Option<u32>, Moves) {
        let in_memory = if object.is_in_memory() { object.head.length } else { 0 };
        // What is derived from the object takes about as much as its head.
        let bytes = usize::try_from((2 * object.start).saturating_add(in_memory)).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_add(OVERHEAD);
        let opens = usize::from(!object.is_in_memory());
        let mut moves = Moves::default();
        let mut passes = 0;
        while self.bytes.saturating_add(bytes) > self.max_bytes || self.open_files + opens > OPEN_MAX {
            if self.ring.is_empty() || passes == PASSES {
                return (None, moves);
            }
            passes += 1;
            self.hand %= self.ring.len();
            match self.ring[self.hand].warmth {
                0 => self.remove_into(self.hand, &mut moves),
                warmth => {
                    self.ring[self.hand].warmth = warmth - 1;
                    self.hand += 1;
                }
            }
        }
        self.bytes += bytes;
        self.open_files += opens;
        self.ring.push(Resident { key, object: Arc::clone(object), bytes, warmth: 1, checked: now });
        (u32::try_from(self.ring.len() - 1).ok(), moves)
    }

    /// Removes the object at a place, and returns the one that has the place now.
    pub(crate) fn remove(&mut self, at: u32) -> Moves {
        let mut moves = Moves::default();
        if (at as usize) < self.ring.len() {
            self.remove_into(at as usize, &mut moves);
        }
        moves
    }

    fn remove_into(&mut self, at: usize, moves: &mut Moves) {
        let gone = self.ring.swap_remove(at);
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        self.open_files -= usize::from(!gone.object.is_in_memory());
        moves.moved.retain(|(key, _)| *key != gone.key);
        moves.gone.push(gone.key);
        if let (Some(moved), Ok(at)) = (self.ring.get(at), u32::try_from(at)) {
            moves.moved.retain(|(key, _)| *key != moved.key);
            moves.moved.push((moved.key, at));
        }
    }
}

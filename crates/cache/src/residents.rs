//! Objects that are ready to be sent: those in memory, and those whose files are kept open.
//!
//! Objects without a file start among the [`Newcomers`]. The others stand in a ring with a hand. A hit makes an object
//! warmer; the hand that looks for room cools each object which it passes, and removes a cold one. It passes few for each
//! object that comes, so that a client that asks for everything once or twice does not push out what others ask for often.

use crate::key::Key;
use crate::newcomers::{Newcomers, Packed};
use crate::object::Object;
use std::sync::Arc;
use std::time::Duration;

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

/// After how long a zone no longer sends a response whose file another process has removed.
pub const REMOVAL_NOTICED_AFTER: Duration = Duration::from_secs(CHECK_S + 1);

/// The newcomers get one part of so many of the memory.
const NEWCOMERS_PART: usize = 4;

/// The bit of a place that is the number of a newcomer.
const NEW: u32 = 1 << 31;

/// Objects that are ready to be sent.
#[derive(Debug)]
pub(crate) struct Residents {
    newcomers: Newcomers,
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

/// What is at a place.
#[derive(Debug)]
pub(crate) enum Found {
    /// An object, and whether its file has to be looked for.
    Object(Arc<Object>, bool),
    /// A newcomer.
    Packed(Packed),
}

/// The places of objects in the ring that moved or are gone. Those of newcomers are compared with the key at each look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Those that are gone.
    pub(crate) gone: Vec<Key>,
    /// Those that are at another place.
    pub(crate) moved: Vec<(Key, u32)>,
}

impl Residents {
    /// Room for so many bytes. `has_newcomers` reserves a part of them for objects without a file.
    pub(crate) fn new(bytes: usize, has_newcomers: bool) -> Residents {
        let newcomers = Newcomers::new(if has_newcomers { bytes / NEWCOMERS_PART } else { 0 });
        let max_bytes = bytes - newcomers.max_bytes();
        Residents { newcomers, ring: Vec::new(), hand: 0, bytes: 0, max_bytes, open_files: 0 }
    }

    /// How many bytes there may be.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes + self.newcomers.max_bytes()
    }

    /// How many bytes the objects take, and how many objects there are.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.bytes + self.newcomers.bytes(), self.ring.len() + self.newcomers.len())
    }

    /// The key's object, which got this place; none if it is gone.
    pub(crate) fn get(&self, at: u32, key: &Key) -> Option<Found> {
        match number(at) {
            Some(number) => self.newcomers.get(number, key).map(|packed| Found::Packed(Arc::clone(packed))),
            None => {
                self.ring.get(at as usize).map(|resident| Found::Object(Arc::clone(&resident.object), false))
            }
        }
    }

    /// The same, for a request: the object becomes warmer.
    pub(crate) fn hit(&mut self, at: u32, key: &Key, now: i64) -> Option<Found> {
        if is_new(at) {
            return self.get(at, key);
        }
        let resident = self.ring.get_mut(at as usize)?;
        resident.warmth = (resident.warmth + 1).min(WARM_MAX);
        let is_due =
            resident.object.has_file() && now.saturating_sub(resident.checked).unsigned_abs() > CHECK_S;
        if is_due {
            resident.checked = now;
        }
        Some(Found::Object(Arc::clone(&resident.object), is_due))
    }

    /// Adds an object with these bytes to the newcomers, and returns its place. What is left in `bytes` is memory for the
    /// next one.
    pub(crate) fn add_newcomer(&mut self, key: Key, bytes: &mut Vec<u8>) -> Option<u32> {
        self.newcomers.add(key, bytes).map(|number| number | NEW)
    }

    /// Adds an object to the ring if there is room, and returns its place.
    pub(crate) fn add(&mut self, key: Key, object: &Arc<Object>, now: i64) -> (Option<u32>, Moves) {
        let bytes = memory_of(object);
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

    /// Removes the key's object, which got this place, and returns which one has the place now.
    pub(crate) fn remove(&mut self, at: u32, key: &Key) -> Moves {
        let mut moves = Moves::default();
        if let Some(number) = number(at) {
            self.newcomers.remove(number, key);
        } else if (at as usize) < self.ring.len() {
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

/// Some keys of objects without a file, and where to look for more of them.
pub(crate) type KeysWithoutFile = (Vec<Key>, Option<Cursor>);

/// How far a walk over the objects without a file has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Cursor {
    /// It starts.
    #[default]
    Start,
    /// It goes on with the newcomer of this number.
    Newcomer(u32),
    /// It goes on in the ring below this place.
    Ring(usize),
}

impl Residents {
    /// The keys of up to `most` objects without a file. A walk meets every object that is there from its start to its end, because objects
    /// only move from the newcomers to the ring, and there to lower places. It may meet one twice.
    pub(crate) fn without_file(&self, cursor: Cursor, most: usize) -> KeysWithoutFile {
        let below = match cursor {
            Cursor::Start | Cursor::Newcomer(_) => {
                let from = if let Cursor::Newcomer(number) = cursor { Some(number) } else { None };
                let (keys, next) = self.newcomers.from(from, most);
                return (keys, Some(next.map_or(Cursor::Ring(usize::MAX), Cursor::Newcomer)));
            }
            Cursor::Ring(below) => below.min(self.ring.len()),
        };
        let start = below.saturating_sub(most);
        let found = self.ring[start..below].iter().filter(|resident| !resident.object.has_file());
        (found.map(|resident| resident.key).collect(), (start > 0).then_some(Cursor::Ring(start)))
    }
}

/// Whether a place is that of a newcomer.
pub(crate) fn is_new(at: u32) -> bool {
    at & NEW != 0
}

/// The number of the newcomer at a place.
fn number(at: u32) -> Option<u32> {
    is_new(at).then_some(at & !NEW)
}

/// How much memory an object takes, in bytes.
fn memory_of(object: &Object) -> usize {
    let in_memory = if object.is_in_memory() { object.head.length } else { 0 };
    // What is derived from the object takes about as much as its head.
    let bytes = usize::try_from((2 * object.start).saturating_add(in_memory)).unwrap_or(usize::MAX);
    bytes.saturating_add(OVERHEAD)
}

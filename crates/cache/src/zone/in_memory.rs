//! Objects that are only in memory, until they were requested often enough to get a file (`disk_min_uses`).

use super::{ADMITTED_USES, State, Zone};
use crate::index::Entry;
use crate::key::Key;
use crate::object::{Content, Home, Object, disk_bytes};
use crate::residents::{Cursor, KeysWithoutFile, Residents};
use crate::writer::Whole;
use std::io;
use std::sync::{Arc, PoisonError};

/// When a response gets a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskUse {
    /// At the request with this number for it. Until then it is only in memory.
    At(u32),
    /// It never gets one.
    Never,
}

impl Default for DiskUse {
    fn default() -> DiskUse {
        DiskUse::At(1)
    }
}

/// How long the content may be of a response that is only in memory until it gets a file, in bytes. A longer one gets its file
/// at once: it is sent from there without a copy.
const IN_MEMORY_MAX: u64 = 48 * 1024;

/// The same where responses never get a file.
const NEVER_FILED_MAX: u64 = 1 << 20;

/// A content may take one part of so many of the memory.
const MEMORY_PARTS: u64 = 16;

impl Zone {
    /// Sets when responses get files. The default is at once.
    #[must_use]
    pub fn with_disk_use(mut self, disk_use: DiskUse) -> Zone {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let memory = state.residents.max_bytes();
        let max = match disk_use {
            DiskUse::At(0 | 1) => 0,
            DiskUse::At(_) => IN_MEMORY_MAX,
            DiskUse::Never => NEVER_FILED_MAX,
        };
        state.residents = Residents::new(memory, max > 0);
        self.disk_use = disk_use;
        self.in_memory_max = max.min(memory as u64 / MEMORY_PARTS);
        self
    }

    /// Whether a response with a content of this length may be kept at all.
    pub fn takes(&self, length: u64) -> bool {
        self.disk_use != DiskUse::Never || length <= self.in_memory_max
    }

    /// Whether the response for a key, whose content has this length, gets no file now.
    pub(crate) fn is_for_memory(&self, key: &Key, length: u64) -> bool {
        match self.disk_use {
            DiskUse::Never => true,
            DiskUse::At(_) if length > self.in_memory_max || self.in_memory_max == 0 => false,
            DiskUse::At(uses) => {
                self.lock().index.get(key).is_none_or(|entry| !entry.has_file && entry.uses < uses)
            }
        }
    }

    /// Keeps an object only in memory, unless one of the removals after the first `removals` ones concerns it.
    pub(crate) fn keep_in_memory(&self, key: &Key, mut object: Arc<Object>, (removals, expires): (u64, i64)) {
        let mut state = self.lock();
        if state.removals.was_removed_since(&object.head, removals) {
            return;
        }
        let mut had_file = self.is_cold();
        let change = |entry: &mut Entry| {
            had_file |= std::mem::take(&mut entry.has_file);
            entry.set_disk_bytes(0);
            entry.set_expires(expires);
            std::mem::take(&mut entry.has_failure)
        };
        let mut evicted = None;
        match state.index.touch(key, change) {
            Some(had_failure) => {
                if had_failure {
                    state.failures.remove(key);
                }
                state.place_in_memory(key, object);
            }
            None => {
                object.set_version(state.next_version());
                let (place, moves) = state.residents.add_newcomer(*key, &object);
                state.note_moves(moves);
                let mut entry = Entry::new(expires);
                entry.put_in_memory(&object, place);
                evicted = state.insert(*key, entry, self.capacity);
            }
        }
        drop(state);
        self.remove_files(&evicted);
        if had_file {
            // The file holds the response before this one.
            self.remove_files([key]);
        }
    }

    /// Writes the file of an object that is only in memory, once it was requested often enough.
    ///
    /// # Errors
    /// Those of writing. The object stays in memory.
    pub fn write_due(self: &Arc<Self>, key: &Key, object: &Object) -> io::Result<()> {
        let (Home::Memory(version), Content::Memory(content)) = (object.home, &object.content) else {
            return Ok(());
        };
        let Some(expires) = self.begin_filing(key, version) else { return Ok(()) };
        let content = [&content[..]];
        let (head, removals) = (object.head.parts(), self.removals());
        let whole = Whole { key: *key, head, content: &content, removals, expires };
        let size = whole.write(self, |out| out.extend_from_slice(&object.head.fields.lines()))?;
        let is_same = self.lock().index.get(key).is_some_and(|entry| entry.version == version);
        match size {
            Some(size) if is_same => self.note_file(key, disk_bytes(size), expires),
            // It was removed or replaced meanwhile.
            _ => drop(self.discard(key)),
        }
        Ok(())
    }

    /// Lets one request write the file of an object that is due, and tells until when the object stays.
    fn begin_filing(&self, key: &Key, version: u32) -> Option<i64> {
        let DiskUse::At(uses) = self.disk_use else { return None };
        let mut state = self.lock();
        let is_due = |entry: &&Entry| entry.version == version && entry.uses >= uses && !entry.is_being_filed;
        let expires = state.index.get(key).filter(is_due)?.expires();
        state.index.touch(key, |entry| entry.is_being_filed = true);
        Some(expires)
    }

    /// Puts an object in the place of the one with this version, if that is still there.
    pub(super) fn replace_in_memory(&self, key: &Key, object: Object, version: u32) {
        let mut state = self.lock();
        let is_same = |entry: &&Entry| entry.version == version && entry.resident().is_some();
        if state.index.get(key).filter(is_same).is_some() {
            state.place_in_memory(key, Arc::new(object));
        }
    }

    /// The object of a key, if it is only in memory.
    pub(super) fn without_file(&self, key: &Key) -> Option<Object> {
        let state = self.lock();
        let object = state.index.get(key)?.resident().and_then(|at| state.residents.get(at))?;
        (!object.has_file()).then(|| Object::clone(object))
    }

    /// The keys of up to `most` objects that are only in memory, and where to go on.
    pub(crate) fn keys_without_file(&self, cursor: Cursor, most: usize) -> KeysWithoutFile {
        self.lock().residents.without_file(cursor, most)
    }
}

impl State {
    /// Makes an object that of a known key, only in memory.
    fn place_in_memory(&mut self, key: &Key, mut object: Arc<Object>) {
        self.dismiss(key);
        object.set_version(self.next_version());
        let uses = self.index.get(key).map_or(0, |entry| entry.uses);
        // What was asked for before is no newcomer. Its file is never looked for, so the time does not matter.
        let (mut place, moves) = match uses >= ADMITTED_USES {
            true => self.residents.add(*key, &object, 0),
            false => Default::default(),
        };
        self.note_moves(moves);
        if place.is_none() {
            let (newcomer, moves) = self.residents.add_newcomer(*key, &object);
            self.note_moves(moves);
            place = newcomer;
        }
        self.index.touch(key, |entry| entry.put_in_memory(&object, place));
    }
}

#[cfg(test)]
mod tests;

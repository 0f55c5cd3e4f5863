//! Objects that are only in memory, until they were requested often enough to get a file (`disk_min_uses`).

use super::{Look, Reading, State, Zone};
use crate::head::Head;
use crate::index::Entry;
use crate::key::Key;
use crate::object::{Content, Home, Object};
use crate::residents::{Cursor, Found, KeysWithoutFile, Residents, is_new};
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
        let state = self.state.0.get_mut().unwrap_or_else(PoisonError::into_inner);
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

    /// Whether a response with a content of this length may stay without a file.
    pub(crate) fn may_stay_in_memory(&self, length: u64) -> bool {
        self.disk_use == DiskUse::Never || (self.in_memory_max > 0 && length <= self.in_memory_max)
    }

    /// Whether the next response for a key gets a file.
    fn is_due(&self, entry: &Entry) -> bool {
        matches!(self.disk_use, DiskUse::At(uses) if entry.has_file || entry.uses >= uses)
    }

    /// Keeps an object with these bytes only in memory, unless one of the removals after the first `removals` ones concerns
    /// it. What is left in `bytes` is memory for the next one. `false` where it is to get a file instead.
    pub(crate) fn keep_in_memory(
        &self,
        key: &Key,
        bytes: &mut Vec<u8>,
        (removals, expires): (u64, i64),
    ) -> bool {
        fit(bytes);
        let mut state = self.lock();
        let known = state.index.get(key);
        if known.is_some_and(|entry| self.is_due(entry)) {
            return false;
        }
        let is_known = known.is_some();
        let was_removed = |head: &Head| state.removals.was_removed_since(head, removals);
        if state.removals.count() > removals && Head::read(bytes).is_ok_and(|(head, _)| was_removed(&head)) {
            return true;
        }
        let mut had_file = self.is_cold();
        let evicted = if is_known {
            let change = |entry: &mut Entry| {
                had_file |= std::mem::take(&mut entry.has_file);
                entry.set_disk_bytes(0);
                entry.set_expires(expires);
                std::mem::take(&mut entry.has_failure)
            };
            if state.index.touch(key, change) == Some(true) {
                state.failures.remove(key);
            }
            state.replace_in_memory(key, bytes);
            None
        } else {
            let (version, place) = (state.next_version(), state.residents.add_newcomer(*key, bytes));
            let mut entry = Entry::new(expires);
            entry.put_in_memory(version, place);
            state.insert(*key, entry, self.capacity)
        };
        self.unpass(&mut state, key);
        drop(state);
        self.remove_files(&evicted);
        if had_file {
            // The file holds the response before this one.
            self.remove_files([key]);
        }
        true
    }

    /// The object of a newcomer with its version. If `admits` is set, it gets a place among those that were asked for more
    /// often, provided that it is still the key's object.
    pub(super) fn unpack(&self, key: &Key, (packed, version): (&[u8], u32), admits: bool) -> Look {
        let Some(object) = Object::unpack(packed, version).map(Arc::new) else {
            // It was never kept.
            return Look::Known { has_file: false, may_store: true, reading: Reading::default() };
        };
        if admits {
            let mut state = self.lock();
            let is_same = |entry: &&Entry| entry.version == version;
            let place = state.index.get(key).filter(is_same).and_then(Entry::resident);
            if let Some(at) = place.filter(|&at| is_new(at)) {
                // Its file is never looked for, so the time does not matter.
                let (place, moves) = state.residents.add(*key, &object, 0);
                if place.is_some() {
                    state.residents.remove(at, key);
                }
                state.note_place(key, place, moves);
            }
        }
        Look::Ready(object)
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
        let (head, lines, removals) = (object.head.parts(), object.head.fields.lines_max(), self.removals());
        let whole = Whole { key: *key, head, lines, content: &content, removals, expires };
        let written = whole.write(self, |out| out.extend_from_slice(&object.head.fields.lines()))?;
        let is_same = self.lock().index.get(key).is_some_and(|entry| entry.version == version);
        match written {
            Some(written) if is_same => self.note_file(key, written, expires),
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

    /// Puts an object with these bytes in the place of the one with this version, if that is still there.
    pub(super) fn update_in_memory(&self, key: &Key, mut bytes: Vec<u8>, version: u32) {
        fit(&mut bytes);
        let mut state = self.lock();
        let is_same = |entry: &&Entry| entry.version == version && entry.resident().is_some();
        if state.index.get(key).filter(is_same).is_some() {
            state.replace_in_memory(key, &mut bytes);
        }
    }

    /// The object of a key, if it is only in memory.
    pub(super) fn without_file(&self, key: &Key) -> Option<Object> {
        let state = self.lock();
        let (found, version) = (state.find(key)?, state.index.get(key)?.version);
        drop(state);
        match found {
            Found::Object(object, _) => (!object.has_file()).then(|| Object::clone(&object)),
            Found::Packed(packed) => Object::unpack(&packed, version),
        }
    }

    /// The keys of up to `most` objects that are only in memory, and where to go on.
    pub(crate) fn keys_without_file(&self, cursor: Cursor, most: usize) -> KeysWithoutFile {
        self.lock().residents.without_file(cursor, most)
    }
}

impl State {
    /// Makes an object with these bytes that of a known key, only in memory. It is a newcomer until the next request.
    fn replace_in_memory(&mut self, key: &Key, bytes: &mut Vec<u8>) {
        self.dismiss(key);
        let (version, place) = (self.next_version(), self.residents.add_newcomer(*key, bytes));
        self.index.touch(key, |entry| entry.put_in_memory(version, place));
    }
}

/// Gives back the memory after the bytes, if that is more than a quarter of what they take.
fn fit(bytes: &mut Vec<u8>) {
    if bytes.capacity() > bytes.len() + bytes.len() / 4 {
        bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests;

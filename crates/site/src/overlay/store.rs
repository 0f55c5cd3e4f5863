//! What all threads keep of compiled files, so that it takes memory once, and a bounded amount of it.

use super::Base;
use super::chain::{self, Chain, Failure};
use super::files::{Files, Found};
use contract::{Scope, SectionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From so many bytes on, the files of one way are compiled one at a time.
const LARGE_BYTES: u64 = 16 * 1024;

/// How much of what was compiled is kept, in bytes of memory.
const KEPT_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Directories that are kept.
const ENTRIES_MAX: usize = 4096;

/// Scopes of one directory: one for each set of blocks that counted for some request.
pub(super) const SCOPES_MAX: usize = 64;

/// Memory that is given back to the system as soon as it is free, in bytes.
const GIVEN_BACK_BYTES: usize = 4 * 1024 * 1024;

/// A level of a configuration and the path of the innermost file over it.
pub(super) type Key = (usize, SectionId, Box<[u8]>);

struct Entry {
    list: Vec<Found>,
    chain: Arc<Chain>,
    scopes: HashMap<Box<[bool]>, (Arc<Scope>, usize)>,
    /// About how much memory the chain and its scopes take.
    bytes: usize,
}

/// What was compiled for one site. Another site has its own.
struct Kept {
    /// Keeps the address that is part of the keys from becoming another's.
    base: Arc<Base>,
    entries: HashMap<Key, Entry>,
    /// The sum of the entries' bytes, so that none but a store that is full is searched.
    bytes: usize,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
static COMPILING: Mutex<()> = Mutex::new(());

pub(super) fn key(base: &Arc<Base>, files: &Files) -> Option<Key> {
    let is_there = !files.list.is_empty();
    is_there.then(|| (Arc::as_ptr(base).addr(), files.overlay.section, files.innermost().into()))
}

/// The files, compiled: what is kept, or else what they are now. This may take long, and is no work for an event loop.
pub(super) fn load(base: &Arc<Base>, files: &mut Files) -> Result<Arc<Chain>, Failure> {
    let is_large = files.bytes() >= LARGE_BYTES;
    let _turn = is_large.then(|| lock(&COMPILING));
    if let Some(chain) = find(base, files) {
        return Ok(chain);
    }
    let loaded = chain::load(base, files).map(Arc::new);
    if loaded.is_err() && is_large {
        net::process::release_memory();
    }
    let chain = loaded?;
    if !files.is_fresh {
        keep(base, files, &chain);
    }
    Ok(chain)
}

/// The scope of a chain that is kept, for these decisions.
pub(super) fn scope(key: &Key, chain: &Arc<Chain>, decisions: &[bool]) -> Option<Arc<Scope>> {
    let kept = lock(&KEPT);
    let entry = kept.as_ref()?.entries.get(key).filter(|entry| Arc::ptr_eq(&entry.chain, chain))?;
    entry.scopes.get(decisions).map(|(scope, _)| Arc::clone(scope))
}

/// Keeps a scope, and about how many bytes it takes, with its chain.
pub(super) fn keep_scope(key: &Key, chain: &Arc<Chain>, decisions: Box<[bool]>, scope: (Arc<Scope>, usize)) {
    let mut kept = lock(&KEPT);
    let Some(kept) = kept.as_mut() else { return };
    let Some(entry) = kept.entries.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.chain, chain)) else {
        return;
    };
    let past =
        if entry.scopes.len() >= SCOPES_MAX { std::mem::take(&mut entry.scopes) } else { HashMap::new() };
    let replaced = entry.scopes.insert(decisions, scope);
    let before = entry.bytes;
    entry.bytes =
        entry.scopes.values().map(|(_, bytes)| *bytes).fold(entry.chain.bytes(), usize::saturating_add);
    kept.bytes = kept.bytes.saturating_sub(before).saturating_add(entry.bytes);
    let removed = kept.make_room(key);
    drop((past, replaced, removed));
}

/// Forgets what was compiled for other sites than these.
pub(super) fn forget() {
    let past = lock(&KEPT).take();
    drop(past);
}

fn find(base: &Arc<Base>, files: &Files) -> Option<Arc<Chain>> {
    let key = key(base, files)?;
    let kept = lock(&KEPT);
    let entry = kept.as_ref()?.entries.get(&key).filter(|entry| entry.list == files.list)?;
    let chain = Arc::clone(&entry.chain);
    drop(kept);
    chain.touch();
    chain.looked.holds(files, None).unwrap_or(false).then_some(chain)
}

fn keep(base: &Arc<Base>, files: &Files, chain: &Arc<Chain>) {
    let Some(key) = key(base, files) else { return };
    let (list, scopes, bytes) = (files.list.clone(), HashMap::new(), chain.bytes());
    let entry = Entry { list, chain: Arc::clone(chain), scopes, bytes };
    let (past, removed) = {
        let mut kept = lock(&KEPT);
        let is_of_another = kept.as_ref().is_some_and(|kept| !Arc::ptr_eq(&kept.base, base));
        let past = if is_of_another { kept.take() } else { None };
        let empty = || Kept { base: Arc::clone(base), entries: HashMap::new(), bytes: 0 };
        (past, kept.get_or_insert_with(empty).insert(key, entry))
    };
    let bytes = removed.iter().map(|entry| entry.bytes).fold(0, usize::saturating_add);
    let bytes = bytes.saturating_add(past.as_ref().map_or(0, |past| past.bytes));
    drop((past, removed));
    if bytes >= GIVEN_BACK_BYTES {
        net::process::release_memory();
    }
}

impl Kept {
    /// Puts an entry in, and takes out what it replaces and what has no room any more.
    fn insert(&mut self, key: Key, entry: Entry) -> Vec<Entry> {
        self.bytes = self.bytes.saturating_add(entry.bytes);
        let replaced = self.entries.insert(key.clone(), entry);
        self.bytes -= replaced.as_ref().map_or(0, |entry| entry.bytes.min(self.bytes));
        let mut removed = self.make_room(&key);
        removed.extend(replaced);
        removed
    }

    /// Takes out what was not used for longest, but for one entry, if the limits are passed. More than needed goes, so that
    /// not every entry has to search for its room.
    fn make_room(&mut self, keeps: &Key) -> Vec<Entry> {
        let mut removed = Vec::new();
        if self.bytes <= KEPT_BYTES_MAX && self.entries.len() <= ENTRIES_MAX {
            return removed;
        }
        let others = self.entries.iter().filter(|(key, _)| *key != keeps);
        let mut by_use: Vec<(u64, Key)> =
            others.map(|(key, entry)| (entry.chain.used(), key.clone())).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if self.bytes <= part(KEPT_BYTES_MAX) && self.entries.len() <= part(ENTRIES_MAX) {
                break;
            }
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes = self.bytes.saturating_sub(entry.bytes);
                removed.push(entry);
            }
        }
        removed
    }
}

/// What of a limit is left when room was made.
const fn part(limit: usize) -> usize {
    limit / 16 * 15
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

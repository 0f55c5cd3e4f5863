//! What all threads keep of compiled files, so that it takes memory once, and a bounded amount of it.

use super::Base;
use super::chain::{self, Chain, Failure};
use super::files::{File, Files};
use contract::{Overlay, Scope, SectionId};
use std::collections::HashMap;
use std::path::PathBuf;
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

/// A level of a configuration and the innermost file over it.
pub(super) type Key = (usize, SectionId, PathBuf);

struct Entry {
    /// Keeps the address that is part of the key from becoming another's.
    base: Arc<Base>,
    list: Vec<File>,
    chain: Arc<Chain>,
    scopes: HashMap<Box<[bool]>, (Arc<Scope>, usize)>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.scopes.values().map(|(_, bytes)| *bytes).fold(self.chain.bytes(), usize::saturating_add)
    }
}

type Entries = HashMap<Key, Entry>;

static ENTRIES: Mutex<Option<Entries>> = Mutex::new(None);
static COMPILING: Mutex<()> = Mutex::new(());

pub(super) fn key(base: &Arc<Base>, overlay: Overlay, files: &Files) -> Option<Key> {
    let last = files.list.last()?;
    Some((Arc::as_ptr(base).addr(), overlay.section, last.path.clone()))
}

/// The files, compiled: what is kept, or else what they are now. This may take long, and is no work for an event loop.
pub(super) fn load(base: &Arc<Base>, overlay: Overlay, files: &mut Files) -> Result<Arc<Chain>, Failure> {
    let is_large = files.bytes() >= LARGE_BYTES;
    let _turn = is_large.then(|| lock(&COMPILING));
    if let Some(chain) = find(base, overlay, files) {
        return Ok(chain);
    }
    let loaded = chain::load(base, overlay, files).map(Arc::new);
    if loaded.is_err() && is_large {
        net::process::release_memory();
    }
    let chain = loaded?;
    if !files.is_fresh {
        keep(base, overlay, files, &chain);
    }
    Ok(chain)
}

/// The scope of a chain that is kept, for these decisions.
pub(super) fn scope(key: &Key, chain: &Arc<Chain>, decisions: &[bool]) -> Option<Arc<Scope>> {
    let mut entries = lock(&ENTRIES);
    let entry = entries.as_mut()?.get(key).filter(|entry| Arc::ptr_eq(&entry.chain, chain))?;
    entry.scopes.get(decisions).map(|(scope, _)| Arc::clone(scope))
}

/// Keeps a scope, and about how many bytes it takes, with its chain.
pub(super) fn keep_scope(key: &Key, chain: &Arc<Chain>, decisions: Box<[bool]>, scope: (Arc<Scope>, usize)) {
    let mut entries = lock(&ENTRIES);
    let Some(entries) = entries.as_mut() else { return };
    let Some(entry) = entries.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.chain, chain)) else { return };
    let past =
        if entry.scopes.len() >= SCOPES_MAX { std::mem::take(&mut entry.scopes) } else { HashMap::new() };
    entry.scopes.insert(decisions, scope);
    let removed = make_room(entries, key);
    drop((past, removed));
}

/// Forgets what was compiled for other sites than these.
pub(super) fn forget() {
    let past = lock(&ENTRIES).take();
    drop(past);
}

fn find(base: &Arc<Base>, overlay: Overlay, files: &Files) -> Option<Arc<Chain>> {
    let key = key(base, overlay, files)?;
    let mut entries = lock(&ENTRIES);
    let entry = entries.as_mut()?.get(&key).filter(|entry| entry.list == files.list)?;
    entry.chain.touch();
    Some(Arc::clone(&entry.chain))
}

fn keep(base: &Arc<Base>, overlay: Overlay, files: &Files, chain: &Arc<Chain>) {
    let Some(key) = key(base, overlay, files) else { return };
    let (list, scopes) = (files.list.clone(), HashMap::new());
    let entry = Entry { base: Arc::clone(base), list, chain: Arc::clone(chain), scopes };
    let removed = {
        let mut entries = lock(&ENTRIES);
        let entries = entries.get_or_insert_default();
        let mut removed: Vec<Entry> =
            entries.extract_if(|_, entry| !Arc::ptr_eq(&entry.base, base)).map(|(_, entry)| entry).collect();
        removed.extend(entries.insert(key.clone(), entry));
        removed.extend(make_room(entries, &key));
        removed
    };
    let bytes = removed.iter().map(Entry::bytes).fold(0, usize::saturating_add);
    drop(removed);
    if bytes >= GIVEN_BACK_BYTES {
        net::process::release_memory();
    }
}

/// Takes out what was not used for longest, but for one entry, until the rest is within the limits.
fn make_room(entries: &mut Entries, keeps: &Key) -> Vec<Entry> {
    let mut removed = Vec::new();
    loop {
        let bytes = entries.values().map(Entry::bytes).fold(0, usize::saturating_add);
        if bytes <= KEPT_BYTES_MAX && entries.len() <= ENTRIES_MAX {
            return removed;
        }
        let others = entries.iter().filter(|(key, _)| *key != keeps);
        let Some(key) = others.min_by_key(|(_, entry)| entry.chain.used()).map(|(key, _)| key.clone()) else {
            return removed;
        };
        removed.extend(entries.remove(&key));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What was compiled, kept per thread, so that nobody waits for a lock.

use super::chain::{Chain, Failure};
use super::files::{File, Files};
use super::{Base, Found, Wanted};
use contract::{Overlay, Scope, SectionId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Directories that a thread keeps; when there are more, it starts over.
const ENTRIES_MAX: usize = 512;

/// The same for the sizes of their files, in bytes, a file counting for each directory that it lies over.
const BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Scopes of one directory: one for each set of blocks that counted for some request.
const SCOPES_MAX: usize = 64;

/// What is known.
pub(super) enum Lookup {
    Scope(Arc<Scope>),
    Failure(Failure),
    /// The files are read, but not compiled for a request such as this.
    Uncompiled(Arc<Chain>),
    Unknown,
}

/// A level of a configuration and the innermost file over it.
type Key = (usize, SectionId, PathBuf);

struct Entry {
    /// The size of the files.
    bytes: u64,
    /// Keeps the address that is part of the key from becoming another's.
    _base: Arc<Base>,
    list: Vec<File>,
    chain: Result<Arc<Chain>, Failure>,
    scopes: HashMap<Box<[bool]>, Arc<Scope>>,
}

thread_local! {
    static ENTRIES: RefCell<HashMap<Key, Entry>> = RefCell::default();
}

pub(super) fn look_up(base: &Arc<Base>, wanted: &Wanted, files: &Files) -> Lookup {
    let Some(key) = key(base, wanted.overlay, files) else { return Lookup::Unknown };
    ENTRIES.with_borrow(|entries| {
        let Some(entry) = entries.get(&key).filter(|entry| entry.list == files.list) else {
            return Lookup::Unknown;
        };
        match &entry.chain {
            Err(failure) => Lookup::Failure(failure.clone()),
            Ok(chain) => match entry.scopes.get(&chain.decide(&wanted.candidate)) {
                Some(scope) => Lookup::Scope(Arc::clone(scope)),
                None => Lookup::Uncompiled(Arc::clone(chain)),
            },
        }
    })
}

/// Keeps what a job found.
pub(super) fn keep(base: &Arc<Base>, overlay: Overlay, found: Found) {
    let Found { files, chain, decisions, scope } = found;
    let Some(key) = key(base, overlay, &files) else { return };
    ENTRIES.with_borrow_mut(|entries| {
        if files.is_fresh {
            entries.remove(&key);
            return;
        }
        let bytes = files.bytes();
        let present: u64 = entries.iter().filter(|entry| *entry.0 != key).map(|entry| entry.1.bytes).sum();
        let is_full = entries.len() >= ENTRIES_MAX && !entries.contains_key(&key);
        if is_full || present.saturating_add(bytes) > BYTES_MAX {
            entries.clear();
        }
        let failure = scope.as_ref().err().cloned();
        let entry = entries.entry(key).or_insert_with(|| Entry {
            bytes,
            _base: Arc::clone(base),
            list: Vec::new(),
            chain: chain.clone(),
            scopes: HashMap::new(),
        });
        if entry.list != files.list {
            entry.list = files.list;
            entry.bytes = bytes;
            entry.scopes.clear();
        }
        entry.chain = failure.map_or(chain, Err);
        if entry.scopes.len() >= SCOPES_MAX {
            entry.scopes.clear();
        }
        entry.scopes.extend(scope.ok().map(|scope| (decisions, scope)));
    });
}

fn key(base: &Arc<Base>, overlay: Overlay, files: &Files) -> Option<Key> {
    let last = files.list.last()?;
    Some((Arc::as_ptr(base).addr(), overlay.section, last.path.clone()))
}

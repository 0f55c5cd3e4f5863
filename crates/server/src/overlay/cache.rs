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
    base: Arc<Base>,
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

/// Forgets all: another site serves, and nothing here may keep the one before in memory.
pub(super) fn forget() {
    ENTRIES.take();
}

/// Keeps what a job found. What other sites found goes, so that requests that began before a reload leave nothing behind
/// for long.
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
        entries.retain(|_, entry| Arc::ptr_eq(&entry.base, base));
        let failure = scope.as_ref().err().cloned();
        let entry = entries.entry(key).or_insert_with(|| Entry {
            bytes,
            base: Arc::clone(base),
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

#[cfg(test)]
mod tests {
    use super::{Arc, Base, ENTRIES, Failure, Files, Found, PathBuf, forget, keep};
    use crate::load::table;
    use crate::overlay::files::{File, Stamp};
    use conf::Arity;
    use contract::log::LogFiles;
    use contract::{Config, Directive, Overlay, Selection};
    use http::Status;

    static SELECTIONS: Directive<Selection> =
        Directive::new("Selections", |_, _| unreachable!()).args(Arity::Flag);

    fn base() -> Arc<Base> {
        Arc::new(Base {
            config: Arc::new(Config::new()),
            modules: Box::default(),
            table: Arc::new(table(&[])),
            prefix: PathBuf::new(),
            logs: LogFiles::default(),
        })
    }

    #[test]
    fn nothing_keeps_another_site() {
        let metadata = std::fs::metadata(".").unwrap();
        let (first, second) = (base(), base());
        let overlay = Overlay { section: Config::MAIN, file_name: "settings", selections: &SELECTIONS };
        for (base, counts) in [(&first, [2, 1]), (&second, [1, 2])] {
            let list = vec![File { path: PathBuf::from("settings"), stamp: Stamp::of(&metadata) }];
            let failure = || Failure { status: Status::FORBIDDEN, message: String::new() };
            let files = Files { list, opened: Vec::new(), name: Box::default(), is_fresh: false };
            let (chain, scope) = (Err(failure()), Err(failure()));
            keep(base, overlay, Found { files, chain, decisions: Box::default(), scope });
            assert_eq!([&first, &second].map(Arc::strong_count), counts);
        }
        forget();
        assert_eq!(Arc::strong_count(&second), 1);
        assert!(ENTRIES.with_borrow(|entries| entries.is_empty()));
    }
}

//! A thread's own cache of compiled files, which needs no lock. [`store`] keeps the files.

use super::chain::{Chain, Failure};
use super::files::{File, Files};
use super::store::{self, Key, SCOPES_MAX};
use super::{Base, Found};
use contract::{Budget, Exchange, Overlay, Scope, Spent};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Directories that a thread knows; when there are more, it starts over.
const ENTRIES_MAX: usize = 1024;

/// What is known.
pub(super) enum Lookup {
    Scope(Arc<Scope>),
    Failure(Failure),
    /// The files are read, but not compiled for a request such as this, for which these blocks count.
    Uncompiled(Arc<Chain>, Box<[bool]>),
    Unknown,
    /// The request may not take any longer.
    Spent,
}

struct Entry {
    /// Keeps the address that is part of the key from becoming another's.
    base: Weak<Base>,
    list: Vec<File>,
    chain: Result<Weak<Chain>, Failure>,
    /// By the blocks that count. There are few, so that looking through them takes less time than a table would.
    scopes: Vec<(Box<[bool]>, Weak<Scope>)>,
}

impl Entry {
    fn scope(&self, decisions: &[bool]) -> Option<Arc<Scope>> {
        let found = self.scopes.iter().find(|(known, _)| **known == *decisions)?;
        found.1.upgrade()
    }
}

thread_local! {
    static ENTRIES: RefCell<HashMap<Key, Entry>> = RefCell::default();
}

pub(super) fn look_up(
    base: &Arc<Base>,
    overlay: Overlay,
    files: &Files,
    (exchange, budget): (&Exchange, &Budget),
) -> Lookup {
    let Some(key) = store::key(base, overlay, files) else { return Lookup::Unknown };
    ENTRIES.with_borrow(|entries| {
        let Some(entry) = entries.get(&key).filter(|entry| entry.list == files.list) else {
            return Lookup::Unknown;
        };
        let chain = match &entry.chain {
            Err(failure) => return Lookup::Failure(failure.clone()),
            Ok(chain) => chain.upgrade(),
        };
        let Some(chain) = chain else { return Lookup::Unknown };
        chain.touch();
        match chain.decide(exchange, budget) {
            Err(Spent) => Lookup::Spent,
            Ok(decisions) => match entry.scope(&decisions) {
                Some(scope) => Lookup::Scope(scope),
                None => Lookup::Uncompiled(chain, decisions),
            },
        }
    })
}

/// Forgets all: another site serves, and nothing here may keep the one before in memory.
pub(super) fn forget() {
    ENTRIES.take();
    store::forget();
}

/// Notes what a job found. What other sites found goes, so that requests that began before a reload leave nothing behind
/// for long.
pub(super) fn note(base: &Arc<Base>, overlay: Overlay, found: Found) {
    let Found { files, chain, decisions, scope } = found;
    let Some(key) = store::key(base, overlay, &files) else { return };
    ENTRIES.with_borrow_mut(|entries| {
        if files.is_fresh {
            entries.remove(&key);
            return;
        }
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            entries.clear();
        }
        entries.retain(|_, entry| entry.base.as_ptr() == Arc::as_ptr(base));
        let known = scope.as_ref().err().cloned().map_or(chain, Err).map(|chain| Arc::downgrade(&chain));
        let entry = entries.entry(key).or_insert_with(|| Entry {
            base: Arc::downgrade(base),
            list: Vec::new(),
            chain: known.clone(),
            scopes: Vec::new(),
        });
        if entry.list != files.list || entry.scopes.len() >= SCOPES_MAX {
            entry.list = files.list;
            entry.scopes.clear();
        }
        entry.chain = known;
        if let Ok(scope) = scope {
            entry.scopes.retain(|(known, _)| *known != decisions);
            entry.scopes.push((decisions, Arc::downgrade(&scope)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Arc, Base, ENTRIES, Failure, Files, Found, forget, note};
    use crate::load::table;
    use crate::overlay::files::{File, Stamp};
    use conf::Arity;
    use contract::{Config, Directive, Overlay, Selection};
    use http::Status;
    use journal::LogFiles;
    use std::path::PathBuf;

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
        for base in [&first, &second] {
            let list = vec![File { path: PathBuf::from("settings"), stamp: Stamp::of(&metadata) }];
            let failure = || Failure { status: Status::FORBIDDEN, message: String::new() };
            let files = Files { list, opened: Vec::new(), is_fresh: false };
            let (chain, scope) = (Err(failure()), Err(failure()));
            note(base, overlay, Found { files, chain, decisions: Box::default(), scope });
            assert_eq!([&first, &second].map(Arc::strong_count), [1, 1]);
            assert_eq!(Arc::weak_count(base), 1, "what another site found goes");
        }
        forget();
        assert_eq!([&first, &second].map(Arc::weak_count), [0, 0]);
        assert!(ENTRIES.with_borrow(|entries| entries.is_empty()));
    }
}

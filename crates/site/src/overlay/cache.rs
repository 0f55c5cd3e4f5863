//! A thread's own cache of compiled files, which needs no lock. [`store`] keeps the files.

use super::chain::{Chain, Decisions, Failure};
use super::files::{Files, Found as FoundOnWay};
use super::store::{self, SCOPES_MAX};
use super::{Base, Found};
use contract::{Budget, Exchange, Scope, SectionId, Spent};
use http::hash::KeyedMap;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Directories that a thread knows; when there are more, it starts over.
const ENTRIES_MAX: usize = 1024;

/// What is known.
pub(super) enum Lookup {
    /// A scope, and whether nothing but the files decides that it is this one.
    Scope(Arc<Scope>, bool),
    Failure(Failure),
    /// The files are read, but not compiled for a request such as this, for which these blocks count.
    Uncompiled(Arc<Chain>, Box<[bool]>),
    /// The files are read. Which blocks count takes longer than a slice of time.
    Undecided(Arc<Chain>, Decisions),
    Unknown,
    /// The request may not take any longer.
    Spent,
}

/// The level of a site that the files lie over.
type Level = (usize, SectionId);

struct Entries {
    /// Keeps the address that is part of the level from becoming another's.
    base: Weak<Base>,
    /// By the paths of the innermost files.
    by_path: KeyedMap<Box<[u8]>, Entry>,
}

struct Entry {
    list: Vec<FoundOnWay>,
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
    static ENTRIES: RefCell<KeyedMap<Level, Entries>> = RefCell::default();
}

pub(super) fn look_up(base: &Arc<Base>, files: &Files, exchange: &Exchange, budget: &Budget) -> Lookup {
    ENTRIES.with_borrow(|levels| {
        let entries = levels.get(&level(base, files));
        let entry = entries.and_then(|entries| entries.by_path.get(files.innermost()));
        let Some(entry) = entry.filter(|entry| entry.list == files.list) else { return Lookup::Unknown };
        let chain = match &entry.chain {
            Err(failure) => return Lookup::Failure(failure.clone()),
            Ok(chain) => chain.upgrade(),
        };
        let Some(chain) = chain else { return Lookup::Unknown };
        chain.touch();
        match chain.looked.holds(files, Some(budget)) {
            Err(Spent) => return Lookup::Spent,
            Ok(false) => return Lookup::Unknown,
            Ok(true) => {}
        }
        let mut decisions = Decisions::default();
        match chain.decide(&mut decisions, exchange, budget) {
            Err(Spent) => Lookup::Spent,
            Ok(false) => Lookup::Undecided(chain, decisions),
            Ok(true) => match entry.scope(&decisions.counting) {
                Some(scope) => Lookup::Scope(scope, chain.is_fixed()),
                None => Lookup::Uncompiled(chain, decisions.counting.into()),
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
pub(super) fn note(base: &Arc<Base>, found: Found) {
    let Found { files, chain, decisions, scope } = found;
    ENTRIES.with_borrow_mut(|levels| {
        levels.retain(|_, entries| entries.base.as_ptr() == Arc::as_ptr(base));
        let is_full = levels.values().map(|entries| entries.by_path.len()).sum::<usize>() >= ENTRIES_MAX;
        let level = level(base, &files);
        let is_known =
            levels.get(&level).is_some_and(|entries| entries.by_path.contains_key(files.innermost()));
        if is_full && !is_known {
            levels.clear();
        }
        let empty = || Entries { base: Arc::downgrade(base), by_path: KeyedMap::default() };
        let entries = &mut levels.entry(level).or_insert_with(empty).by_path;
        // Which sections count, and with them a mistake, may depend on files that are there at the next request.
        let may_change = scope.is_err() && chain.as_ref().is_ok_and(|chain| !chain.looked.is_empty());
        if files.is_fresh || may_change {
            entries.remove(files.innermost());
            return;
        }
        let known = scope.as_ref().err().cloned().map_or(chain, Err).map(|chain| Arc::downgrade(&chain));
        let empty = || Entry { list: Vec::new(), chain: known.clone(), scopes: Vec::new() };
        let entry = entries.entry(files.innermost().into()).or_insert_with(empty);
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

fn level(base: &Arc<Base>, files: &Files) -> Level {
    (Arc::as_ptr(base).addr(), files.overlay.section)
}

#[cfg(test)]
mod tests {
    use super::{Arc, Base, ENTRIES, Failure, Files, Found, forget, note};
    use crate::load::table;
    use conf::{Arity, Sources};
    use contract::{Config, Directive, Overlay, Selection};
    use http::Status;
    use journal::LogFiles;
    use std::collections::HashMap;
    use std::path::{Path, PathBuf};

    static SELECTIONS: Directive<Selection> =
        Directive::new("Selections", |_, _| unreachable!()).args(Arity::Flag);

    fn base() -> Arc<Base> {
        Arc::new(Base {
            config: Arc::new(Config::within(inputs::origin())),
            modules: Box::default(),
            table: Arc::new(table(&[])),
            prefix: PathBuf::new(),
            logs: LogFiles::default(),
            layers: HashMap::new(),
            sources: Sources::default(),
        })
    }

    #[test]
    fn nothing_keeps_another_site() {
        let (first, second) = (base(), base());
        let names = Arc::from([Box::from(*b"lib.rs") as Box<[u8]>]);
        let (rules, selections) = (Box::from([(Box::default(), None)]), &SELECTIONS);
        let overlay = Arc::new(Overlay { section: Config::MAIN, names, rules, selections, share: 1 });
        for base in [&first, &second] {
            let directory = Path::new("src");
            let failure = || Failure::new(Status::FORBIDDEN, String::new());
            let files = Files::of(&overlay, directory, directory, 0).unwrap();
            let (chain, scope) = (Err(failure()), Err(failure()));
            note(base, Found { files, chain, decisions: Box::default(), scope });
            assert_eq!([&first, &second].map(Arc::strong_count), [1, 1]);
            assert_eq!(Arc::weak_count(base), 1, "what another site found goes");
        }
        forget();
        assert_eq!([&first, &second].map(Arc::weak_count), [0, 0]);
        assert!(ENTRIES.with_borrow(|entries| entries.is_empty()));
    }
}

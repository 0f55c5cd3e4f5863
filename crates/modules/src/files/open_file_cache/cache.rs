//! One cache of one thread: what was found at paths, for how long it counts, and who goes first.

use super::opened::Opened;
use crate::files::symlinks::Way;
use crate::shared::lru::Lru;
use journal::counters::{self, Count};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// How many bytes of small files a thread keeps in memory, in all of its caches.
pub(super) const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How what is in a cache may be used. Times are in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// How long something counts before it is looked at again.
    pub(super) valid: u64,
    /// How often a file must be asked for to be kept open.
    pub(super) min_uses: u64,
    /// Whether failures are kept, too.
    pub(super) errors: bool,
    /// Whether the content is not asked for.
    pub(super) only_look: bool,
    /// Which links on the way to it count.
    pub(super) way: Way,
}

/// A cache.
pub(super) struct Cache {
    entries: Lru<Entry>,
    max: usize,
    /// For how many seconds an entry may not be used before it goes.
    inactive: u64,
    memory: Rc<Memory>,
}

struct Entry {
    found: Found,
    uses: u64,
    /// When it was looked at, in seconds.
    created: u64,
    accessed: u64,
    /// By what way it was found.
    way: Way,
}

enum Found {
    /// A file that was not asked for often enough to be kept open.
    Seldom,
    Opened(Rc<Opened>, Option<HeldMemory>),
    Failed(i32),
}

/// How many bytes of files the thread keeps.
#[derive(Default)]
pub(super) struct Memory(Cell<u64>);

/// A part of the memory; it is given back at the end.
struct HeldMemory {
    memory: Rc<Memory>,
    bytes: u64,
}

impl HeldMemory {
    fn take(memory: &Rc<Memory>, bytes: u64) -> Option<HeldMemory> {
        let sum = memory.0.get() + bytes;
        (sum <= KEPT_BYTES_MAX).then(|| {
            memory.0.set(sum);
            HeldMemory { memory: Rc::clone(memory), bytes }
        })
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.memory.0.set(self.memory.0.get().saturating_sub(self.bytes));
    }
}

impl Cache {
    /// An empty cache for so many paths.
    pub(super) fn new(max: usize, inactive: u64, memory: Rc<Memory>) -> Cache {
        Cache { entries: Lru::default(), max, inactive, memory }
    }

    /// What is at a path; `now` is in seconds since 1970. Nothing counts when that clock was set back.
    pub(super) fn open(&mut self, path: &[u8], terms: &Terms, now: u64) -> io::Result<Rc<Opened>> {
        let result = match self.entries.get(path) {
            Some(entry) => {
                entry.uses += 1;
                entry.accessed = now;
                let result = entry.open(path, terms, now, &self.memory);
                if let Err(error) = &result
                    && !is_kept(error, terms)
                {
                    self.entries.remove(path);
                }
                result
            }
            None => self.open_unknown(path, terms, now),
        };
        self.expire(now);
        result
    }

    fn open_unknown(&mut self, path: &[u8], terms: &Terms, now: u64) -> io::Result<Rc<Opened>> {
        counters::add(Count::FileCacheMisses);
        let result = Opened::open(path, terms.way).map(Rc::new);
        if let Err(error) = &result
            && !is_kept(error, terms)
        {
            return result;
        }
        if self.entries.len() >= self.max {
            self.entries.pop_oldest();
        }
        let mut entry = Entry { found: Found::Seldom, uses: 1, created: now, accessed: now, way: terms.way };
        let result = entry.store(result, terms, now, &self.memory);
        self.entries.insert(path, entry);
        result
    }

    /// Drops one or two that were not asked for, so that no request pays for many.
    fn expire(&mut self, now: u64) {
        for _ in 0..2 {
            let Some((_, entry)) = self.entries.oldest() else { return };
            let idle = now.checked_sub(entry.accessed);
            if idle.is_some_and(|idle| idle <= self.inactive) {
                return;
            }
            self.entries.pop_oldest();
        }
    }
}

/// Whether a failure to open a file is kept.
fn is_kept(error: &io::Error, terms: &Terms) -> bool {
    terms.errors && error.raw_os_error().is_some()
}

impl Entry {
    fn open(&mut self, path: &[u8], terms: &Terms, now: u64, memory: &Rc<Memory>) -> io::Result<Rc<Opened>> {
        let is_young = now.checked_sub(self.created).is_some_and(|age| age < terms.valid);
        let is_valid = is_young && self.way == terms.way;
        let is_hit = is_valid && !matches!(self.found, Found::Seldom);
        counters::add(if is_hit { Count::FileCacheHits } else { Count::FileCacheMisses });
        let result = match &mut self.found {
            Found::Failed(number) if is_valid => return Err(io::Error::from_raw_os_error(*number)),
            Found::Opened(opened, share) if is_valid => {
                if !terms.only_look && share.is_none() {
                    *share = take_into_memory(Rc::make_mut(opened), now, memory);
                }
                return Ok(Rc::clone(opened));
            }
            Found::Seldom | Found::Failed(_) => Opened::open(path, terms.way),
            Found::Opened(before, _) => Opened::look(path, terms.way).and_then(|mut opened| {
                let is_same = opened.adopt(before);
                if is_same { Ok(opened) } else { Opened::open(path, terms.way) }
            }),
        };
        self.store(result.map(Rc::new), terms, now, memory)
    }

    /// Keeps what was found, for as long as the terms say.
    fn store(
        &mut self,
        result: io::Result<Rc<Opened>>,
        terms: &Terms,
        now: u64,
        memory: &Rc<Memory>,
    ) -> io::Result<Rc<Opened>> {
        (self.created, self.way) = (now, terms.way);
        // A share stays with its bytes.
        let before = std::mem::replace(&mut self.found, Found::Seldom);
        let share = match (&result, before) {
            (Ok(opened), Found::Opened(_, share)) if opened.is_in_memory() => share,
            _ => None,
        };
        let mut opened = result.inspect_err(|error| {
            self.found = error.raw_os_error().map_or(Found::Seldom, Found::Failed);
        })?;
        if opened.holds_file() && self.uses < terms.min_uses {
            return Ok(opened);
        }
        let known = Rc::make_mut(&mut opened);
        known.keep_head();
        let share = match share {
            None if !terms.only_look => take_into_memory(known, now, memory),
            share => share,
        };
        self.found = Found::Opened(Rc::clone(&opened), share);
        Ok(opened)
    }
}

/// Takes the content of a small file into memory, where there is room and it was left alone long enough.
fn take_into_memory(opened: &mut Opened, now: u64, memory: &Rc<Memory>) -> Option<HeldMemory> {
    let seconds = i64::try_from(now).unwrap_or(0);
    if !opened.fits_in_memory() || !opened.identity.is_settled(seconds) {
        return None;
    }
    let share = HeldMemory::take(memory, opened.identity.size())?;
    opened.read_into_memory().then_some(share)
}

#[cfg(test)]
mod tests {
    use super::{Cache, HeldMemory, KEPT_BYTES_MAX, Memory, Terms};
    use crate::files::open_file_cache::opened::{Kind, READ_BYTES_MAX};
    use crate::files::symlinks::Way;
    use contract::{Body, Piece};
    use journal::clock::Time;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;
    use std::rc::Rc;
    use tempfile::TempDir;

    const TERMS: Terms = Terms { valid: 10, min_uses: 1, errors: false, only_look: false, way: Way::Follow };

    struct Trial {
        directory: TempDir,
        memory: Rc<Memory>,
        cache: Cache,
    }

    impl Trial {
        fn new(max: usize, inactive: u64) -> Trial {
            let memory = Rc::<Memory>::default();
            let cache = Cache::new(max, inactive, Rc::clone(&memory));
            Trial { directory: tempfile::tempdir().unwrap(), memory, cache }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        /// Replaces this file by another one.
        fn file(&self, name: &str, text: &str) {
            let (path, other) = (self.path(name), self.path("other"));
            fs::write(&other, text).unwrap();
            fs::rename(other, path).unwrap();
        }

        /// What is sent at this time, or the number of the error.
        fn get(&mut self, name: &str, terms: &Terms, now: u64) -> Result<String, i32> {
            let path = self.path(name);
            match self.cache.open(path.as_os_str().as_bytes(), terms, now) {
                Ok(opened) if opened.kind == Kind::Directory => Ok("directory".to_owned()),
                Ok(opened) => Ok(match opened.body(false) {
                    Body::Piece(Piece::Bytes(bytes)) => String::from_utf8(bytes.into()).unwrap(),
                    Body::Piece(Piece::File { length, .. }) => format!("file of {length}"),
                    _ => String::new(),
                }),
                Err(error) => Err(error.raw_os_error().unwrap()),
            }
        }

        fn is_there(&mut self, name: &str) -> bool {
            let path = self.path(name);
            self.cache.entries.get(path.as_os_str().as_bytes()).is_some()
        }
    }

    const NOT_FOUND: i32 = rustix::io::Errno::NOENT.raw_os_error();

    #[test]
    fn a_file_counts_for_its_time() {
        let mut trial = Trial::new(10, 100);
        trial.file("a", "one");
        assert_eq!(trial.get("a", &TERMS, 0).unwrap(), "one");
        trial.file("a", "another");
        assert_eq!(trial.get("a", &TERMS, 9).unwrap(), "one");
        assert_eq!(trial.get("a", &TERMS, 10).unwrap(), "another");
        fs::remove_file(trial.path("a")).unwrap();
        assert_eq!(trial.get("a", &TERMS, 19).unwrap(), "another");
        assert_eq!(trial.get("a", &TERMS, 20), Err(NOT_FOUND));
        assert!(!trial.is_there("a"));
        fs::create_dir(trial.path("a")).unwrap();
        assert_eq!(trial.get("a", &TERMS, 20).unwrap(), "directory");
        fs::remove_dir(trial.path("a")).unwrap();
        trial.file("a", "file again");
        assert_eq!(trial.get("a", &TERMS, 29).unwrap(), "directory");
        assert_eq!(trial.get("a", &TERMS, 30).unwrap(), "file again");
    }

    #[test]
    fn a_file_that_was_changed_in_place_is_seen_after_its_time() {
        let mut trial = Trial::new(10, 100);
        trial.file("a", "12345");
        assert_eq!(trial.get("a", &TERMS, 0).unwrap(), "12345");
        fs::write(trial.path("a"), "123456789").unwrap();
        assert_eq!(trial.get("a", &TERMS, 9).unwrap().len(), 5);
        assert_eq!(trial.get("a", &TERMS, 10).unwrap(), "123456789");
    }

    #[test]
    fn failures_are_kept_if_they_shall_be() {
        let mut trial = Trial::new(10, 100);
        let keeps = Terms { errors: true, ..TERMS };
        assert_eq!(trial.get("a", &TERMS, 0), Err(NOT_FOUND));
        assert_eq!(trial.cache.entries.len(), 0);
        assert_eq!(trial.get("a", &keeps, 0), Err(NOT_FOUND));
        trial.file("a", "now");
        assert_eq!(trial.get("a", &keeps, 9), Err(NOT_FOUND));
        assert_eq!(trial.get("a", &keeps, 10).unwrap(), "now");
        fs::remove_file(trial.path("a")).unwrap();
        assert_eq!(trial.get("a", &keeps, 20), Err(NOT_FOUND));
        assert_eq!(trial.cache.entries.len(), 1);
        assert!(trial.cache.open(b"a\0", &keeps, 20).is_err());
        assert_eq!(trial.cache.entries.len(), 1, "no failure of the system");
    }

    #[test]
    fn a_file_is_kept_open_when_it_was_asked_for_often_enough() {
        let mut trial = Trial::new(10, 100);
        let often = Terms { min_uses: 3, ..TERMS };
        trial.file("a", "one");
        assert_eq!(trial.get("a", &often, 0).unwrap(), "one");
        trial.file("a", "two");
        assert_eq!(trial.get("a", &often, 0).unwrap(), "two");
        trial.file("a", "three");
        assert_eq!(trial.get("a", &often, 0).unwrap(), "three");
        trial.file("a", "four");
        assert_eq!(trial.get("a", &often, 0).unwrap(), "three");
    }

    #[test]
    fn the_least_used_goes_first() {
        let mut trial = Trial::new(2, 100);
        for name in ["a", "b", "a", "c"] {
            trial.file(name, name);
            trial.get(name, &TERMS, 0).unwrap();
        }
        assert_eq!((trial.is_there("a"), trial.is_there("b"), trial.is_there("c")), (true, false, true));
    }

    #[test]
    fn what_nobody_asks_for_goes() {
        let mut trial = Trial::new(10, 5);
        for name in ["a", "b", "c", "d"] {
            trial.file(name, name);
            trial.get(name, &TERMS, 0).unwrap();
        }
        trial.get("d", &TERMS, 5).unwrap();
        assert_eq!(trial.cache.entries.len(), 4);
        trial.get("d", &TERMS, 6).unwrap();
        assert_eq!(trial.cache.entries.len(), 2, "two at once");
        trial.get("d", &TERMS, 6).unwrap();
        assert_eq!(trial.cache.entries.len(), 1);
    }

    #[test]
    fn files_that_were_left_alone_are_in_memory() {
        let mut trial = Trial::new(10, 100);
        let small = Terms { valid: 0, ..TERMS };
        let made = Time::now().seconds.unsigned_abs();
        let later = made + 100;
        trial.file("a", "12345");
        trial.get("a", &TERMS, made).unwrap();
        assert_eq!(trial.memory.0.get(), 0, "it may change within the same second");
        trial.get("a", &Terms { only_look: true, ..small }, later).unwrap();
        assert_eq!(trial.memory.0.get(), 0, "nobody asked for the content");
        for _ in 0..3 {
            assert_eq!(trial.get("a", &small, later).unwrap(), "12345");
            assert_eq!(trial.memory.0.get(), 5, "it is still the same");
        }
        trial.file("large", &"x".repeat(70_000));
        assert_eq!(trial.get("large", &TERMS, later).unwrap(), "file of 70000");
        trial.file("empty", "");
        assert_eq!(trial.get("empty", &TERMS, later).unwrap(), "");
        assert_eq!(trial.memory.0.get(), 5);
        fs::write(trial.path("a"), "123456789").unwrap();
        assert_eq!(trial.get("a", &TERMS, later + 9).unwrap(), "12345");
        assert_eq!(trial.get("a", &TERMS, later + 10).unwrap(), "123456789");
        assert_eq!(trial.memory.0.get(), 9);
        fs::remove_file(trial.path("a")).unwrap();
        assert_eq!(trial.get("a", &TERMS, later + 19).unwrap(), "123456789");
        assert_eq!(trial.get("a", &TERMS, later + 20), Err(NOT_FOUND));
        assert_eq!(trial.memory.0.get(), 0);
    }

    #[test]
    fn nothing_counts_when_the_clock_was_set_back() {
        let mut trial = Trial::new(10, 100);
        trial.file("a", "one");
        assert_eq!(trial.get("a", &TERMS, 1000).unwrap(), "one");
        trial.file("a", "two");
        assert_eq!(trial.get("a", &TERMS, 990).unwrap(), "two");
        trial.get("b", &TERMS, 900).unwrap_err();
        assert!(!trial.is_there("a"));
    }

    #[test]
    fn memory_has_an_end() {
        let memory = Rc::<Memory>::default();
        let shares: Vec<_> = (0..).map_while(|_| HeldMemory::take(&memory, READ_BYTES_MAX)).collect();
        assert_eq!(shares.len() as u64, KEPT_BYTES_MAX / READ_BYTES_MAX);
        drop(shares);
        assert_eq!(memory.0.get(), 0);
    }
}

//! The cache of one `keys_zone`, which all threads share.

mod files;
mod fills;
mod in_memory;
mod passed;

use crate::head::Head;
use crate::index::{Entry, Index};
use crate::key::{Key, Levels};
use crate::lookup::CacheStatus;
use crate::newcomers::Packed;
use crate::object::{Check, Object, Stamp, Written, disk_bytes};
use crate::removals::Removals;
use crate::residents::{Found, Moves, Residents};
use crate::selection::Selection;
pub use fills::FillRight;
use fills::FillState;
use http::Status;
pub use in_memory::DiskUse;
use passed::Passed;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The cache of one `keys_zone`.
#[derive(Debug)]
pub struct Zone {
    directory: PathBuf,
    levels: Levels,
    /// How many objects there may be.
    capacity: usize,
    disk_use: DiskUse,
    /// How long the content of an object without a file may be, in bytes.
    in_memory_max: u64,
    state: Apart<Mutex<State>>,
    /// The directory, once it was opened.
    root: Mutex<Option<Arc<OwnedFd>>>,
    /// Whether files may be there that the index does not know.
    is_cold: AtomicBool,
    /// The number of requests for each result, in the order of [`CacheStatus::ALL`].
    counts: [AtomicU64; CacheStatus::ALL.len()],
    /// How old the kept responses were that were sent, together, in seconds.
    ages_s: AtomicU64,
    /// How many removals there were, and how many keys are passed: what requests ask for without the lock.
    removed: AtomicU64,
    passed: AtomicUsize,
}

/// A value that starts with a line of the processor's cache. Each request gets the lines that it reads from the processor
/// that had them before, so that what it needs should be in few of them.
#[derive(Debug)]
#[repr(align(64))]
struct Apart<T>(T);

/// What most requests need stands at the start: the lock and the start of the index are one line of the processor's cache.
#[derive(Debug)]
#[repr(C)]
struct State {
    index: Index,
    last_version: u32,
    /// Whether there was no room for an object since the manager looked.
    was_full: bool,
    evicted: u64,
    residents: Residents,
    removals: Removals,
    fills: HashMap<Key, FillState>,
    passed: Passed,
    /// The failures of the upstream server that are kept in place of responses: a status and how long it is kept, in
    /// seconds of the clock of [`Asking`].
    failures: HashMap<Key, (Status, i64)>,
    last_ticket: u64,
}

/// A request that looks for a key.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// A response is kept at this request for it.
    pub min_uses: u32,
    /// Whether the request counts. One that waited has been counted.
    pub counts: bool,
    /// Until when the object stays if nothing else uses it, in seconds of the clock of `now`.
    pub expires: i64,
    /// Seconds of a clock that is never set.
    pub now: i64,
}

/// What a zone says about a key.
#[derive(Clone, Debug)]
pub enum Look {
    /// The other server failed a while ago, with this status.
    Failed(Status),
    /// The object is ready to be sent.
    Ready(Arc<Object>),
    /// There may be an object.
    Known {
        /// Whether a file may be there.
        has_file: bool,
        /// Whether a response may be kept if there is no file.
        may_store: bool,
        /// How the file is read.
        reading: Reading,
    },
}

/// How the file of a key is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether the content of the file with this version is known to be what was written.
    is_checked: bool,
    /// Whether the object is to be ready for further requests.
    pub admits: bool,
    version: Stamp,
}

impl Reading {
    /// Whether the content has to be compared with its checksum.
    pub fn check(&self) -> Check {
        if self.is_checked { Check::Unless(self.version) } else { Check::Always }
    }
}

/// What a look finds under the lock.
enum Met {
    /// What the request gets.
    Told(Look),
    /// An object whose file has to be looked for.
    Unsure(Arc<Object>),
    /// An object that has no file yet, its version, and whether it is to be made ready for further requests.
    Newcomer(Packed, u32, bool),
}

/// How much a zone holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many keys the index knows. Some of them were only requested.
    pub objects: usize,
    /// How many objects have a file.
    pub files: usize,
    /// How much of the disk the files take, in bytes.
    pub disk_bytes: u64,
    /// How many objects are ready to be sent.
    pub ready_objects: usize,
    /// How much memory these take, in bytes.
    pub memory_bytes: usize,
    /// How many objects were removed so far because nothing used them or there was no room.
    pub evicted: u64,
    /// How old the kept responses were that were sent so far, together, in seconds.
    pub ages_s: u64,
}

/// How often an object is asked for until it is made ready for further requests: once to be kept, and twice after that.
const ADMITTED_USES: u32 = 3;

impl Zone {
    /// A zone that knows nothing of what is in its directory yet, with room for so many objects and for so many bytes of
    /// objects in memory.
    pub fn new(directory: &Path, levels: Levels, capacity: usize, memory_bytes: usize) -> Zone {
        let state = State {
            index: Index::new(),
            residents: Residents::new(memory_bytes, false),
            fills: HashMap::new(),
            passed: Passed::default(),
            failures: HashMap::new(),
            removals: Removals::default(),
            last_ticket: 0,
            last_version: 0,
            evicted: 0,
            was_full: false,
        };
        Zone {
            directory: directory.to_path_buf(),
            levels,
            capacity,
            disk_use: DiskUse::default(),
            in_memory_max: 0,
            state: Apart(Mutex::new(state)),
            root: Mutex::new(None),
            is_cold: AtomicBool::new(true),
            counts: Default::default(),
            ages_s: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            passed: AtomicUsize::new(0),
        }
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directories below it.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Whether files may be there that the index does not know.
    pub fn is_cold(&self) -> bool {
        // `Relaxed`: a thread that still reads `true` only looks for a file that the index knows already.
        self.is_cold.load(Ordering::Relaxed)
    }

    /// Notes that the index knows all files.
    pub fn warmed(&self) {
        self.is_cold.store(false, Ordering::Relaxed);
    }

    /// Counts a request with this result, and the age of the response in seconds if it was kept.
    pub fn count(&self, result: CacheStatus, age_s: Option<u64>) {
        self.counts[result as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(age_s) = age_s.filter(|age_s| *age_s > 0) {
            self.ages_s.fetch_add(age_s, Ordering::Relaxed);
        }
    }

    /// How many requests there were with each result.
    pub fn counts(&self) -> [(CacheStatus, u64); CacheStatus::ALL.len()] {
        CacheStatus::ALL.map(|result| (result, self.counts[result as usize].load(Ordering::Relaxed)))
    }

    /// How much it holds.
    pub fn totals(&self) -> Totals {
        let state = self.lock();
        let (memory_bytes, ready_objects) = state.residents.totals();
        let (objects, files, disk_bytes) = (state.index.len(), state.index.files(), state.index.disk_bytes());
        Totals {
            objects,
            files,
            disk_bytes,
            ready_objects,
            memory_bytes,
            evicted: state.evicted,
            ages_s: self.ages_s.load(Ordering::Relaxed),
        }
    }

    /// Looks for a key on behalf of a request.
    pub fn look(&self, key: &Key, asking: &Asking) -> Look {
        let (met, evicted) = self.meet(key, asking);
        self.remove_files(&evicted);
        match met {
            Met::Told(look) => look,
            Met::Unsure(object) if self.is_current(key, &object) => Look::Ready(object),
            Met::Unsure(_) => {
                // Another program has removed or replaced the file.
                self.note_changed(key);
                Look::Known { has_file: true, may_store: true, reading: Reading::default() }
            }
            Met::Newcomer(packed, version, admits) => self.unpack(key, (&packed, version), admits),
        }
    }

    fn meet(&self, key: &Key, asking: &Asking) -> (Met, Option<Key>) {
        let Asking { min_uses, counts, expires, now } = *asking;
        let is_cold = self.is_cold();
        let mut state = self.lock();
        let State { index, residents, failures, .. } = &mut *state;
        let may_admit = residents.max_bytes() > 0;
        let met = index.touch(key, |entry| {
            entry.uses = entry.uses.saturating_add(u32::from(counts));
            entry.set_expires(expires);
            if entry.has_failure {
                match failures.get(key) {
                    Some(&(status, until)) if until >= now => return Met::Told(Look::Failed(status)),
                    _ => failures.remove(key),
                };
                entry.has_failure = false;
            }
            let admits = may_admit && entry.uses >= ADMITTED_USES;
            match entry.resident().and_then(|at| residents.hit(at, key, now)) {
                Some(Found::Object(object, false)) => return Met::Told(Look::Ready(object)),
                Some(Found::Object(object, true)) => return Met::Unsure(object),
                Some(Found::Packed(packed)) => return Met::Newcomer(packed, entry.version, admits),
                None => {}
            }
            let reading = Reading { is_checked: entry.is_checked, admits, version: entry.version };
            let may_store = entry.has_file || entry.uses >= min_uses;
            Met::Told(Look::Known { has_file: entry.has_file, may_store, reading })
        });
        if let Some(met) = met {
            return (met, None);
        }
        let may_store = min_uses <= 1;
        // Counting uses needs a place at once. Without that a key gets one when there is a file.
        let evicted = match may_store {
            true => None,
            false => state.insert(*key, Entry::new(expires), self.capacity),
        };
        (Met::Told(Look::Known { has_file: is_cold, may_store, reading: Reading::default() }), evicted)
    }

    /// Notes that the file of a key was read and is right, and makes the object ready for further requests where that is wanted.
    pub fn note_read(&self, key: &Key, object: &Arc<Object>, reading: Reading, asking: &Asking) {
        let Some(stamp) = object.stamp() else { return };
        let was_right = reading.check() == Check::Unless(stamp);
        if was_right && !reading.admits {
            return;
        }
        let mut state = self.lock();
        let known = state.index.get(key).map(|entry| (entry.version, entry.resident().is_some()));
        match known {
            Some((version, _)) if version != reading.version => {}
            Some((_, is_resident)) => {
                state.index.touch(key, |entry| (entry.is_checked, entry.version) = (true, stamp));
                if reading.admits && !is_resident {
                    let (at, moves) = state.residents.add(*key, object, asking.now);
                    state.note_place(key, at, moves);
                }
            }
            None => {
                drop(state);
                self.note(key, object.disk_bytes(), asking.expires, Some(stamp));
            }
        }
    }

    /// Notes that the file of a key is not what it was.
    pub(crate) fn note_changed(&self, key: &Key) {
        let mut state = self.lock();
        let version = state.next_version();
        state.index.touch(key, |entry| (entry.is_checked, entry.version) = (false, version));
        state.dismiss(key);
    }

    /// Notes that only the head of a key's file was changed, by this process: what was known of its content before is still known.
    pub(crate) fn note_head_changed(&self, key: &Key, (before, after): (Stamp, Stamp)) {
        let mut state = self.lock();
        state.index.touch(key, |entry| {
            entry.is_checked &= entry.version == before;
            entry.version = after;
        });
        state.dismiss(key);
    }

    /// Keeps a failure of the upstream server in place of a response: its status and how long it is kept, in seconds
    /// of the clock of [`Asking`].
    pub fn note_failure(&self, key: &Key, failure: (Status, i64), expires: i64) {
        let mut state = self.lock();
        let noted = state.index.touch(key, |entry| entry.has_failure = true);
        let evicted = match noted {
            Some(()) => None,
            None => {
                let mut entry = Entry::new(expires);
                entry.has_failure = true;
                state.insert(*key, entry, self.capacity)
            }
        };
        state.failures.insert(*key, failure);
        drop(state);
        self.remove_files(&evicted);
    }

    /// Notes that the file of a key was written. Without its stamp its content is compared with its checksum at the next request.
    pub(crate) fn note_file(&self, key: &Key, file: Written, expires: i64) {
        self.note(key, disk_bytes(file.size), expires, file.stamp);
    }

    /// `stamp` is that of a file whose content is known to be right.
    fn note(&self, key: &Key, disk_bytes: u64, expires: i64, stamp: Option<Stamp>) {
        let mut state = self.lock();
        let (is_checked, version) = (stamp.is_some(), stamp.unwrap_or_else(|| state.next_version()));
        let change = |entry: &mut Entry| {
            (entry.has_file, entry.is_checked, entry.version) = (true, is_checked, version);
            entry.is_being_filed = false;
            entry.set_expires(expires);
            entry.set_disk_bytes(disk_bytes);
            (std::mem::take(&mut entry.has_failure), entry.take_resident())
        };
        self.unpass(&mut state, key);
        let evicted = match state.index.touch(key, change) {
            Some((had_failure, resident)) => {
                if had_failure {
                    state.failures.remove(key);
                }
                resident.into_iter().for_each(|at| state.leave(at, key));
                None
            }
            None => {
                let mut entry = Entry::new(expires);
                change(&mut entry);
                state.insert(*key, entry, self.capacity)
            }
        };
        drop(state);
        self.remove_files(&evicted);
    }

    /// Notes a file that a walk found, unless the key is known.
    pub fn note_found(&self, key: &Key, disk_bytes: u64, expires: i64) {
        let is_known = self.lock().index.get(key).is_some_and(|entry| entry.has_file);
        if !is_known {
            self.note(key, disk_bytes, expires, None);
        }
    }

    /// Notes that a file is not there, contrary to what the index says.
    pub fn note_missing(&self, key: &Key) {
        let mut state = self.lock();
        state.dismiss(key);
        state.index.touch(key, |entry| {
            entry.has_file = false;
            entry.set_disk_bytes(0);
        });
    }

    /// Removes a response that the caller knows to be out of date, so that no request finds its variants any more. A response that is
    /// arriving is not kept. Tells whether there was one.
    pub fn purge(&self, key: &Key) -> bool {
        self.purge_coming_of(key);
        self.discard(key)
    }

    /// Notes that a response with this main key is out of date: none that is on its way is kept.
    fn purge_coming_of(&self, key: &Key) {
        let mut state = self.lock();
        state.removals.note(*key);
        self.removed.store(state.removals.count(), Ordering::Release);
        let filling = state.fills.remove(key);
        drop(state);
        filling.into_iter().for_each(FillState::wake);
    }

    /// Notes that the responses of a selection are out of date: none of them that is on its way is kept. Requests that
    /// wait for a response of which nothing is known yet get it anew.
    pub fn purge_coming(&self, selection: &Selection) {
        let mut state = self.lock();
        state.removals.note_selection(selection);
        self.removed.store(state.removals.count(), Ordering::Release);
        let is_meant =
            |_: &Key, filling: &mut FillState| filling.head().is_none_or(|head| selection.has(head));
        let fills: Vec<_> = state.fills.extract_if(is_meant).collect();
        drop(state);
        fills.into_iter().for_each(|(_, filling)| filling.wake());
    }

    /// How many removals there were ([`Zone::purge`] and its like). A removal that is not counted yet only keeps a response from being
    /// kept.
    pub fn removals(&self) -> u64 {
        self.removed.load(Ordering::Acquire)
    }

    /// Whether one of the removals after the first `removals` ones concerns the response with this head.
    pub(crate) fn was_removed_since(&self, head: &Head, removals: u64) -> bool {
        // Mostly there was none, which needs no lock. One that is not counted yet removes the file afterwards.
        self.removals() > removals && self.lock().removals.was_removed_since(head, removals)
    }

    /// Forgets a key and removes its file. Tells whether there was one.
    pub fn discard(&self, key: &Key) -> bool {
        let mut state = self.lock();
        let was_in_memory =
            state.index.get(key).is_some_and(|entry| !entry.has_file) && state.find(key).is_some();
        let entry = state.forget(key);
        drop(state);
        let is_removed = self.unlink(key).is_ok();
        is_removed || was_in_memory || entry.is_some_and(|entry| entry.has_failure)
    }

    /// Forgets up to `most` objects that nothing has used for too long, by the clock of [`Asking`], and removes their files. Gives how many, and when
    /// the next one is due.
    pub fn expire(&self, now: i64, most: usize) -> (usize, Option<i64>) {
        let mut state = self.lock();
        let oldest = state.index.oldest_first().take(most);
        let expired: Vec<(Key, bool)> = oldest
            .take_while(|(_, entry)| entry.expires() < now)
            .map(|(key, entry)| (*key, entry.has_file))
            .collect();
        for (key, _) in &expired {
            state.forget(key);
            state.evicted += 1;
        }
        let next = state.index.oldest_first().next().map(|(_, entry)| entry.expires());
        drop(state);
        self.remove_files(expired.iter().filter(|(_, has_file)| *has_file).map(|(key, _)| key));
        (expired.len(), next)
    }

    /// Forgets up to `most` objects that were used longest ago, until there is room again, and removes their files.
    /// There is room if the files take no more than `max_bytes` and, after the zone was full, an eighth of it is free.
    pub fn make_room(&self, max_bytes: u64, most: usize) -> usize {
        let mut count = 0;
        while count < most {
            let mut state = self.lock();
            let is_crowded = state.was_full && state.index.len() > self.capacity - self.capacity / 8;
            if state.index.disk_bytes() <= max_bytes && !is_crowded {
                state.was_full = false;
                break;
            }
            let evicted = state.evict();
            drop(state);
            let Some(Evicted(file)) = evicted else { break };
            self.remove_files(&file);
            count += 1;
        }
        count
    }

    /// Forgets the object that was used longest ago and removes its file; tells whether there was one. Without files on the
    /// disk nothing is forgotten.
    pub fn evict_one(&self) -> bool {
        let mut state = self.lock();
        let evicted = if state.index.disk_bytes() > 0 { state.evict() } else { None };
        drop(state);
        let Some(Evicted(file)) = evicted else { return false };
        self.remove_files(&file);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many objects are looked at for one that may be removed.
const EVICTION_LOOKS: usize = 20;

/// An object that was forgotten, with the key of its file if it has one.
struct Evicted(Option<Key>);

impl State {
    /// Adds a key. Where there is no room, the object that was used longest ago is forgotten, whose file has to be
    /// removed.
    fn insert(&mut self, key: Key, entry: Entry, capacity: usize) -> Option<Key> {
        let mut evicted = None;
        if self.index.len() >= capacity {
            self.was_full = true;
            evicted = self.evict().and_then(|Evicted(file)| file);
        }
        self.index.insert(key, entry);
        evicted
    }

    /// Forgets the object that was used longest ago, but none that a request is getting anew.
    fn evict(&mut self) -> Option<Evicted> {
        let State { index, fills, .. } = self;
        let (key, entry) = index.remove_oldest(EVICTION_LOOKS, |key| fills.contains_key(key))?;
        self.evicted += 1;
        let has_file = entry.has_file;
        self.forget_ready(&key, entry);
        Some(Evicted(has_file.then_some(key)))
    }

    /// Forgets a key.
    fn forget(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.index.remove(key)?;
        self.forget_ready(key, entry);
        Some(entry)
    }

    /// Forgets what is in memory of a key that had this entry in the index.
    fn forget_ready(&mut self, key: &Key, mut entry: Entry) {
        entry.take_resident().into_iter().for_each(|at| self.leave(at, key));
        if entry.has_failure {
            self.failures.remove(key);
        }
    }

    /// The key's object, if it is ready to be sent.
    fn find(&self, key: &Key) -> Option<Found> {
        let at = self.index.get(key)?.resident()?;
        self.residents.get(at, key)
    }

    /// Forgets an object that is ready to be sent. Its file stays.
    fn dismiss(&mut self, key: &Key) {
        if let Some(at) = self.index.get(key).and_then(Entry::resident) {
            self.index.place(key, None);
            self.leave(at, key);
        }
    }

    /// Removes what is at the place of a key that the index says to have none any more.
    fn leave(&mut self, at: u32, key: &Key) {
        let moves = self.residents.remove(at, key);
        self.note_moves(moves);
    }

    /// Notes that an object got a place, if it did, and where others are now.
    fn note_place(&mut self, key: &Key, place: Option<u32>, moves: Moves) {
        self.note_moves(moves);
        if place.is_some() {
            self.index.place(key, place);
        }
    }

    fn note_moves(&mut self, moves: Moves) {
        moves.gone.iter().for_each(|key| self.index.place(key, None));
        moves.moved.iter().for_each(|(key, at)| self.index.place(key, Some(*at)));
    }

    fn next_version(&mut self) -> u32 {
        self.last_version = self.last_version.wrapping_add(1);
        self.last_version
    }
}

#[cfg(test)]
mod tests;

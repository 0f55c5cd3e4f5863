//! The cache of one `keys_zone`, which all threads share.

use crate::freshness::Freshness;
use crate::head::Head;
use crate::index::{Entry, Index};
use crate::key::{Key, Levels};
use crate::object::Object;
use http::Status;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, statvfs, unlinkat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The cache of one `keys_zone`.
#[derive(Debug)]
pub struct Zone {
    directory: PathBuf,
    levels: Levels,
    /// How many objects there may be.
    capacity: usize,
    state: Mutex<State>,
    /// The directory, once it was opened.
    root: Mutex<Option<Arc<OwnedFd>>>,
    /// Whether files may be there that the index does not know.
    is_cold: AtomicBool,
}

#[derive(Debug)]
struct State {
    index: Index,
    fills: HashMap<Key, Filling>,
    last_ticket: u64,
    /// Whether there was no room for an object since the manager looked.
    was_full: bool,
}

/// An object that one request gets from the other server.
#[derive(Debug)]
struct Filling {
    ticket: u64,
    /// When another request may do the same.
    until: Instant,
    waiting: Vec<Waker>,
}

/// What a zone says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The other server failed a while ago, with this status.
    Failed(Status),
    /// There may be an object.
    Known {
        /// Whether a file may be there.
        has_file: bool,
        /// Whether a response may be kept if there is no file.
        may_store: bool,
    },
}

/// How much a zone holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many objects the index knows.
    pub objects: usize,
    /// How much of the disk the files take, in bytes.
    pub disk_bytes: u64,
}

impl Zone {
    /// A zone that knows nothing of what is in its directory yet.
    pub fn new(directory: &Path, levels: Levels, capacity: usize) -> Zone {
        let state = State { index: Index::new(), fills: HashMap::new(), last_ticket: 0, was_full: false };
        Zone {
            directory: directory.to_path_buf(),
            levels,
            capacity,
            state: Mutex::new(state),
            root: Mutex::new(None),
            is_cold: AtomicBool::new(true),
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
        self.is_cold.load(Ordering::Relaxed)
    }

    /// Notes that the index knows all files.
    pub fn warmed(&self) {
        self.is_cold.store(false, Ordering::Relaxed);
    }

    /// How much it holds.
    pub fn totals(&self) -> Totals {
        let state = self.lock();
        Totals { objects: state.index.len(), disk_bytes: state.index.disk_bytes() }
    }

    /// Looks for a key on behalf of a request. A response is kept at the `min_uses`-th request.
    pub fn look(&self, key: &Key, min_uses: u32, expires: i64, now: i64) -> Look {
        let (look, evicted) = self.look_locked(key, min_uses, expires, now);
        evicted.iter().for_each(|key| self.remove_file(key));
        look
    }

    fn look_locked(&self, key: &Key, min_uses: u32, expires: i64, now: i64) -> (Look, Option<Key>) {
        let is_cold = self.is_cold();
        let mut state = self.lock();
        let look = state.index.touch(key, |entry| {
            entry.uses = entry.uses.saturating_add(1);
            entry.expires = expires;
            match entry.failure {
                Some((status, until)) if until >= now => return Look::Failed(status),
                Some(_) => entry.failure = None,
                None => {}
            }
            Look::Known { has_file: entry.has_file, may_store: entry.has_file || entry.uses >= min_uses }
        });
        if let Some(look) = look {
            return (look, None);
        }
        let may_store = min_uses <= 1;
        // Counting uses needs a place at once. Without that a key gets one when there is a file.
        let evicted = match may_store {
            true => None,
            false => state.insert(*key, Entry { uses: 1, expires, ..Entry::default() }, self.capacity),
        };
        (Look::Known { has_file: is_cold, may_store }, evicted)
    }

    /// Opens the file of a key, if there is one.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(&self, key: &Key) -> io::Result<Option<File>> {
        match self.open_file(&self.levels.path(key), OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the filling of an object for a request, unless another request has it and did not take longer than its
    /// `age`.
    pub fn fill(self: &Arc<Self>, key: &Key, age: Duration, now: Instant) -> Option<Fill> {
        let mut state = self.lock();
        if state.fills.get(key).is_some_and(|filling| now < filling.until) {
            return None;
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let waiting = state.fills.remove(key).map(|filling| filling.waiting).unwrap_or_default();
        state.fills.insert(*key, Filling { ticket, until: now + age, waiting });
        Some(Fill { zone: Arc::clone(self), key: *key, ticket })
    }

    /// How long the filling of an object may still take before another request may do it; `None` where no request fills
    /// it.
    pub fn fill_left(&self, key: &Key, now: Instant) -> Option<Duration> {
        let state = self.lock();
        state.fills.get(key).map(|filling| filling.until.saturating_duration_since(now))
    }

    /// Ready when no request fills an object; the task is woken then.
    pub fn poll_filled(&self, key: &Key, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let Some(filling) = state.fills.get_mut(key) else { return Poll::Ready(()) };
        if !filling.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            filling.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Keeps a failure of the other server in place of a response.
    pub fn note_failure(&self, key: &Key, failure: (Status, i64), expires: i64) {
        let mut state = self.lock();
        let noted = state.index.touch(key, |entry| entry.failure = Some(failure));
        let evicted = match noted {
            Some(()) => None,
            None => {
                let entry = Entry { uses: 1, expires, failure: Some(failure), ..Entry::default() };
                state.insert(*key, entry, self.capacity)
            }
        };
        drop(state);
        evicted.iter().for_each(|key| self.remove_file(key));
    }

    /// Notes that the file of a key is there.
    pub fn note_file(&self, key: &Key, disk_bytes: u64, expires: i64) {
        let mut state = self.lock();
        let noted = state.index.touch(key, |entry| {
            (entry.has_file, entry.disk_bytes, entry.failure) = (true, disk_bytes, None);
            entry.expires = expires;
        });
        let evicted = match noted {
            Some(()) => None,
            None => {
                let entry = Entry { uses: 1, expires, has_file: true, disk_bytes, ..Entry::default() };
                state.insert(*key, entry, self.capacity)
            }
        };
        drop(state);
        evicted.iter().for_each(|key| self.remove_file(key));
    }

    /// Notes a file that a walk found, unless the key is known.
    pub fn note_found(&self, key: &Key, disk_bytes: u64, expires: i64) {
        let is_known = self.lock().index.get(key).is_some_and(|entry| entry.has_file);
        if !is_known {
            self.note_file(key, disk_bytes, expires);
        }
    }

    /// Notes that a file is not there, contrary to what the index says.
    pub fn note_missing(&self, key: &Key) {
        self.lock().index.touch(key, |entry| (entry.has_file, entry.disk_bytes) = (false, 0));
    }

    /// Forgets a key and removes its file. Tells whether there was one.
    pub fn purge(&self, key: &Key) -> bool {
        let entry = self.lock().index.remove(key);
        let is_removed = self.unlink(key).is_ok();
        is_removed || entry.is_some_and(|entry| entry.failure.is_some())
    }

    /// Forgets up to `most` objects that nothing has used for too long, and removes their files. Gives how many, and when
    /// the next one is due.
    pub fn expire(&self, now: i64, most: usize) -> (usize, Option<i64>) {
        let mut state = self.lock();
        let due = |state: &State| {
            let mut all = state.index.oldest_first().take(most);
            let found: Vec<Key> =
                all.by_ref().take_while(|(_, entry)| entry.expires < now).map(|(key, _)| *key).collect();
            found
        };
        let expired = due(&state);
        for key in &expired {
            state.index.remove(key);
        }
        let next = state.index.oldest_first().next().map(|(_, entry)| entry.expires);
        drop(state);
        expired.iter().for_each(|key| self.remove_file(key));
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
            let Some(key) = evicted else { break };
            self.remove_file(&key);
            count += 1;
        }
        count
    }

    /// How many bytes of the file system are free.
    ///
    /// # Errors
    /// Those of `statvfs`.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let stat = statvfs(&self.directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Forgets the object that was used longest ago and removes its file; tells whether there was one.
    pub fn evict_one(&self) -> bool {
        let evicted = self.lock().evict();
        evicted.inspect(|key| self.remove_file(key)).is_some()
    }

    /// Writes a later freshness into the file of an object, if it is still the key's file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn refresh(&self, key: &Key, object: &Object, freshness: &Freshness, now: i64) -> io::Result<()> {
        let freshness = Freshness { vary: object.head.freshness.vary.clone(), ..freshness.clone() };
        let head = Head { freshness, date: now, ..object.head.clone() };
        let Some(bytes) = head.encode().filter(|bytes| bytes.len() as u64 == object.start) else {
            return Ok(());
        };
        let file = self.open_file(&self.levels.path(key), OFlags::WRONLY)?;
        let (theirs, ours) = (file.metadata()?, object.file.metadata()?);
        if (theirs.dev(), theirs.ino()) != (ours.dev(), ours.ino()) {
            return Ok(());
        }
        file.write_all_at(&bytes, 0)
    }

    /// Makes a file with a temporary name.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |root: &OwnedFd| openat(root, name, flags, Mode::RUSR | Mode::WUSR);
        match create(&*self.root()?) {
            // Somebody has replaced the directory.
            Err(Errno::NOENT) => {
                *self.root.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(create(&*self.root()?)?.into())
            }
            made => Ok(made?.into()),
        }
    }

    /// Gives a file with a temporary name the name of a key.
    pub(crate) fn rename(&self, name: &str, key: &Key) -> io::Result<()> {
        let (root, path) = (self.root()?, self.levels.path(key));
        match renameat(&*root, name, &*root, &path) {
            Err(Errno::NOENT) => {}
            done => return Ok(done?),
        }
        let mut directory = PathBuf::new();
        for level in self.levels.directories(&key.digits()) {
            directory.push(level);
            match mkdirat(&*root, &directory, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(renameat(&*root, name, &*root, &path)?)
    }

    pub(crate) fn remove_temporary(&self, name: &str) {
        if let Ok(root) = self.root() {
            // The file may be gone with its directory.
            let _ = unlinkat(&*root, name, AtFlags::empty());
        }
    }

    fn remove_file(&self, key: &Key) {
        // A file that is not there any more is as good as removed; another failure leaves it to the next start.
        let _ = self.unlink(key);
    }

    fn unlink(&self, key: &Key) -> io::Result<()> {
        Ok(unlinkat(&*self.root()?, self.levels.path(key), AtFlags::empty())?)
    }

    /// Opens a file below the root. No link is followed.
    fn open_file(&self, path: &Path, flags: OFlags) -> Result<File, Errno> {
        let root = self.root().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&*root, path, flags, Mode::empty(), resolve) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => openat(&*root, path, flags, Mode::empty()).map(File::from),
            opened => opened.map(File::from),
        }
    }

    fn root(&self) -> io::Result<Arc<OwnedFd>> {
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &*root {
            return Ok(Arc::clone(root));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, &self.directory, flags, Mode::empty())?;
        Ok(Arc::clone(root.insert(Arc::new(opened))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many objects are looked at for one that may be removed.
const EVICTION_LOOKS: usize = 20;

impl State {
    /// Adds a key. Where there is no room, the object that was used longest ago is forgotten, whose file has to be
    /// removed.
    fn insert(&mut self, key: Key, entry: Entry, capacity: usize) -> Option<Key> {
        let mut evicted = None;
        if self.index.len() >= capacity {
            self.was_full = true;
            evicted = self.evict();
        }
        self.index.insert(key, entry);
        evicted
    }

    /// Forgets the object that was used longest ago, but none that a request is getting anew.
    fn evict(&mut self) -> Option<Key> {
        let State { index, fills, .. } = self;
        let mut oldest = index.oldest_first().take(EVICTION_LOOKS).map(|(key, _)| *key);
        let key = oldest.find(|key| !fills.contains_key(key))?;
        drop(oldest);
        index.remove(&key);
        Some(key)
    }
}

/// The right of one request to fill an object, while others wait or get what there was before. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Fill {
    zone: Arc<Zone>,
    key: Key,
    ticket: u64,
}

impl Drop for Fill {
    fn drop(&mut self) {
        let mut state = self.zone.lock();
        let is_own = state.fills.get(&self.key).is_some_and(|filling| filling.ticket == self.ticket);
        // Another request may have taken the filling over.
        let filling = if is_own { state.fills.remove(&self.key) } else { None };
        drop(state);
        filling.into_iter().flat_map(|filling| filling.waiting).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;

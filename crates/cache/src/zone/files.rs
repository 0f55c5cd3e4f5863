//! The files of a zone. No link below its directory is followed.

use super::Zone;
use crate::freshness::Freshness;
use crate::head::Head;
use crate::key::Key;
use crate::object::{Check, Demand, Home, Object, Read, ReadError, file_id, stamp};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, statat, statvfs, unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

impl Zone {
    /// Opens the file of a key, if there is one.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(&self, key: &Key) -> io::Result<Option<File>> {
        match self.open_file(&self.levels.path(key), OFlags::RDONLY, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How many bytes of the file system are free.
    ///
    /// # Errors
    /// Those of `statvfs`.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let stat = statvfs(&self.directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Reads the head of a key's file, or gives the object that is only in memory; `None` where there is no object. It blocks.
    ///
    /// # Errors
    /// Those of opening and reading.
    pub fn read_head(&self, key: &Key) -> io::Result<Option<Object>> {
        self.read_head_by(key, &mut |file, buffer, offset| file.read_at(buffer, offset).map(Some))
    }

    /// The same, by a function that need not block: where it would have to wait, there is no object.
    ///
    /// # Errors
    /// Those of opening and reading.
    pub fn read_head_by(&self, key: &Key, read: &mut Read<'_>) -> io::Result<Option<Object>> {
        if let Some(object) = self.without_file(key) {
            return Ok(Some(object));
        }
        let Some(file) = self.open(key)? else { return Ok(None) };
        let demand = Demand { check: Check::Never, loads: 0, may_block: false };
        match Object::read(Arc::new(file), demand, read) {
            Ok(object) => Ok(Some(object)),
            Err(ReadError::Io(error)) => Err(error),
            Err(ReadError::Damaged | ReadError::Unfinished(_) | ReadError::Waits) => Ok(None),
        }
    }

    /// Makes an object one that is no longer valid.
    ///
    /// # Errors
    /// Those of writing.
    pub fn outdate(&self, key: &Key, object: &Object, now: i64) -> io::Result<()> {
        let freshness = &object.head.freshness;
        let valid_until = freshness.valid_until.min(now.saturating_sub(1));
        self.refresh(key, object, &Freshness { valid_until, ..freshness.clone() }, object.head.date)
    }

    /// Removes the file of a key.
    ///
    /// # Errors
    /// Those of removing.
    pub fn remove(&self, key: &Key) -> io::Result<()> {
        self.unlink(key)
    }

    /// Whether the file of an object is still the key's file, and has not changed. A file that cannot be looked for counts as there.
    pub(super) fn is_current(&self, key: &Key, object: &Object) -> bool {
        let (Ok(root), Home::File(id, time)) = (self.root(), object.home) else { return true };
        match statat(&*root, &*self.levels.path(key), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let changed = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
                (stat.st_dev, stat.st_ino) == id && changed == time
            }
            Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR),
        }
    }

    /// Writes a later freshness into an object, if it is still the key's object.
    ///
    /// # Errors
    /// Those of writing.
    pub fn refresh(&self, key: &Key, object: &Object, freshness: &Freshness, now: i64) -> io::Result<()> {
        let freshness = Freshness { vary: object.head.freshness.vary.clone(), ..freshness.clone() };
        self.replace_head(key, object, &Head { freshness, date: now, ..object.head.clone() }).map(drop)
    }

    /// Writes another head into an object, if it is still the key's object. Tells whether the head has room.
    ///
    /// # Errors
    /// Those of writing.
    pub fn replace_head(&self, key: &Key, object: &Object, head: &Head) -> io::Result<bool> {
        let id = match object.home {
            Home::File(id, _) => id,
            Home::Memory(version) => {
                let bytes = object.pack(head);
                bytes.into_iter().for_each(|bytes| self.update_in_memory(key, bytes, version));
                return Ok(true);
            }
        };
        let Some(bytes) = head.encode().filter(|bytes| bytes.len() as u64 == object.start) else {
            return Ok(false);
        };
        let file = self.open_file(&self.levels.path(key), OFlags::WRONLY, Mode::empty())?;
        let before = file.metadata()?;
        if file_id(&before) != id {
            return Ok(true);
        }
        match file.write_all_at(&bytes, 0).and_then(|()| file.metadata()) {
            Ok(after) => self.note_head_changed(key, (stamp(&before), stamp(&after))),
            Err(error) => {
                self.note_changed(key);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Makes the file of a key. `None` if there is one, or if its directory is missing.
    pub(crate) fn create_named(&self, key: &Key) -> io::Result<Option<File>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        match self.open_file(&self.levels.path(key), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::EXIST | Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file with a temporary name.
    pub(crate) fn create(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |root: &OwnedFd| openat(root, name, flags, Mode::RUSR | Mode::WUSR);
        match create(&*self.root()?) {
            // Another process has replaced the directory.
            Err(Errno::NOENT) => {
                *self.root.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(create(&*self.root()?)?.into())
            }
            made => Ok(made?.into()),
        }
    }

    /// Gives a file with a temporary name the name of a key.
    pub(crate) fn rename(&self, name: &[u8], key: &Key) -> io::Result<()> {
        let (root, path) = (self.root()?, self.levels.path(key));
        match renameat(&*root, name, &*root, &*path) {
            Err(Errno::NOENT) => {}
            done => return Ok(done?),
        }
        let mut directory = PathBuf::new();
        for level in self.levels.directories(key.digits().as_bytes()) {
            directory.push(OsStr::from_bytes(level));
            match mkdirat(&*root, &directory, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(renameat(&*root, name, &*root, &*path)?)
    }

    pub(crate) fn remove_temporary(&self, name: &[u8]) {
        if let Ok(root) = self.root() {
            // The file may be gone with its directory.
            let _ = unlinkat(&*root, name, AtFlags::empty());
        }
    }

    pub(super) fn remove_files<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            // A file that is not there any more is as good as removed; another failure leaves it to the next start.
            let _ = self.unlink(key);
        }
    }

    pub(super) fn unlink(&self, key: &Key) -> io::Result<()> {
        Ok(unlinkat(&*self.root()?, &*self.levels.path(key), AtFlags::empty())?)
    }

    /// Opens a file below the root, which gets this mode if it is new. No link is followed, and a pipe in the place of a file
    /// is opened without waiting for its other end; it cannot be read at an offset, so it is never taken for an object.
    fn open_file(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno> {
        let root = self.root().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&*root, path, flags, mode, resolve) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => openat(&*root, path, flags, mode).map(File::from),
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
}

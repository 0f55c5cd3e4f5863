//! Files for what is too long for memory. They have no name, so that nothing is left behind, unless one is asked for.

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is filled from its start and read by all holders of a range of it.
#[derive(Debug)]
pub struct Spool {
    file: Arc<File>,
    length: u64,
}

/// How many names are tried before the directory is given up.
const ATTEMPTS: u32 = 16;

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Spool {
    /// An empty file in a directory, which is made if it is not there, and what is around it is.
    pub fn new(directory: &Path) -> io::Result<Spool> {
        if let Ok(file) = unnamed(directory) {
            return Ok(Spool { file: Arc::new(file), length: 0 });
        }
        let (spool, name) = Spool::named(directory)?;
        name.remove().map(|()| spool)
    }

    /// As [`Spool::new`], with a name that others can open it by.
    pub fn named(directory: &Path) -> io::Result<(Spool, FileName)> {
        let (file, path) = create(directory).or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                // Another thread may be first.
                let made = std::fs::create_dir(directory);
                made.or_else(
                    |error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) },
                )?;
                create(directory)
            }
            _ => Err(error),
        })?;
        Ok((Spool { file: Arc::new(file), length: 0 }, FileName { path, stays: false }))
    }

    /// Adds bytes after the others and tells where they start.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let start = self.length;
        self.file.write_all_at(bytes, start)?;
        self.length += bytes.len() as u64;
        Ok(start)
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// The name of a file; it goes with this, unless it is to stay.
#[derive(Debug)]
pub struct FileName {
    path: PathBuf,
    stays: bool,
}

impl FileName {
    /// Gives a file a further name in a directory of the same file system. The file may be without a name so far.
    ///
    /// # Errors
    /// `EXDEV` for another file system; `ENOENT` if the file had a name before, and was deleted.
    pub fn link(file: &File, directory: &Path) -> io::Result<FileName> {
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        let (_, path) =
            unused(directory, |path| Ok(linkat(CWD, &*open, CWD, path, AtFlags::SYMLINK_FOLLOW)?))?;
        Ok(FileName { path, stays: false })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same name, which stays when this is gone.
    #[must_use]
    pub fn staying(mut self) -> FileName {
        self.stays = true;
        self
    }

    fn remove(mut self) -> io::Result<()> {
        self.stays = true;
        std::fs::remove_file(&self.path)
    }
}

impl Drop for FileName {
    fn drop(&mut self) {
        if !self.stays {
            // A receiver of the file's name may have moved the file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn create(directory: &Path) -> io::Result<(File, PathBuf)> {
    unused(directory, |path| options().create_new(true).open(path))
}

/// A file that never had a name. Not every file system has such files.
fn unnamed(directory: &Path) -> io::Result<File> {
    options().custom_flags(OFlags::TMPFILE.bits().cast_signed()).open(directory)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// What `make` makes of the first path in a directory that nothing has.
fn unused<T>(directory: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    for _ in 0..ATTEMPTS {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("fulmar-{}-{serial}", std::process::id()));
        match make(&path) {
            Ok(made) => return Ok((made, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::{FileName, Spool};
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_name_goes_or_stays() {
        let directory = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(directory.path()).unwrap().count();
        let (mut spool, name) = Spool::named(directory.path()).unwrap();
        spool.append(b"x").unwrap();
        assert_eq!(std::fs::read(name.path()).unwrap(), b"x");
        drop(name);
        assert_eq!(count(), 0);
        let (_, name) = Spool::named(directory.path()).unwrap();
        drop(name.staying());
        assert_eq!(count(), 1);
    }

    #[test]
    fn no_name_is_left_and_ranges_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a");
        assert!(Spool::new(&inner.join("b")).is_err(), "only the last level is made");
        let mut spool = Spool::new(&inner).unwrap();
        assert_eq!(spool.append(b"hello ").unwrap(), 0);
        assert_eq!(spool.append(b"world").unwrap(), 6);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0);
        let mut bytes = [0; 5];
        spool.file().read_exact_at(&mut bytes, 6).unwrap();
        assert_eq!((&bytes, spool.length()), (b"world", 11));
    }

    #[test]
    fn a_file_without_a_name_gets_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path()).unwrap();
        spool.append(b"whole").unwrap();
        let name = match FileName::link(spool.file(), directory.path()) {
            // The file had a name on a file system without files that never had one.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            linked => linked.unwrap(),
        };
        assert_eq!(std::fs::read(name.path()).unwrap(), b"whole");
        drop(name);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

//! A file that log lines are appended to.

use super::bell::Bell;
use super::buffer::{Buffer, Buffering};
use super::flood::Flood;
use super::health::Health;
use net::append::{self, Appended, Incomplete};
use net::process::redirect_stderr;
use net::system_message;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

/// A file that log lines are appended to, at once or gathered.
#[derive(Debug)]
pub struct LogFile {
    path: Option<PathBuf>,
    file: RwLock<Option<Appended>>,
    buffer: OnceLock<Buffer>,
    bell: Arc<Bell>,
    health: Health,
    pub(super) flood: Flood,
    takes_stderr: AtomicBool,
}

impl LogFile {
    /// The standard error stream.
    pub fn stderr() -> LogFile {
        append::prepare_stderr();
        LogFile::new(None, Arc::default())
    }

    /// A file that is not open yet.
    pub fn at(path: &Path) -> LogFile {
        LogFile::new(Some(path.to_path_buf()), Arc::default())
    }

    pub(super) fn new(path: Option<PathBuf>, bell: Arc<Bell>) -> LogFile {
        let (file, buffer, health) = (RwLock::default(), OnceLock::new(), Health::default());
        let flood = Flood::default();
        LogFile { path, file, buffer, bell, health, flood, takes_stderr: AtomicBool::new(false) }
    }

    /// Where it is; `None` is standard error.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Another handle of the open file, to be given to another process; none where nothing is open.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn share(&self) -> io::Result<Option<File>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.as_ref().map(|open| open.file().try_clone()).transpose()
    }

    /// Writes from now on to a file that another process opened.
    pub fn take_over(&self, file: File) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(file.into());
    }

    /// Has lines gathered from now on; whether that is what was wanted before, if anything was.
    pub fn gather(&self, settings: Buffering) -> bool {
        let buffer = self.buffer.get_or_init(|| Buffer::new(settings.clone(), Arc::clone(&self.bell)));
        buffer.has(&settings)
    }

    /// Opens the file, or opens it anew after its name was given to another (USR1); what was gathered until
    /// then goes where it would have gone.
    ///
    /// # Errors
    /// Those of open(2); the file stays as it was.
    pub fn open(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let opened = append::open(path)?;
        drop(self.flush());
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        if self.has_stderr() {
            self.take_stderr()?;
        }
        Ok(())
    }

    /// Whether the standard error stream ends here.
    pub fn has_stderr(&self) -> bool {
        self.takes_stderr.load(Ordering::Relaxed)
    }

    /// Lets the standard error stream of the process end here, now and whenever the file is opened anew.
    ///
    /// # Errors
    /// Those of dup2(2).
    pub fn take_stderr(&self) -> io::Result<()> {
        self.takes_stderr.store(true, Ordering::Relaxed);
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().map_or(Ok(()), |open| redirect_stderr(open.file()))
    }

    /// Whether the file that is open is the one at its path.
    pub fn is_current(&self) -> bool {
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Some(path)) = (guard.as_ref(), &self.path) else { return false };
        let (Ok(open), Ok(named)) = (file.file().metadata(), std::fs::metadata(path)) else { return false };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    /// Appends one or more whole lines, which may be gathered first. What is given back is to be told.
    #[must_use]
    pub fn append(&self, lines: &[u8]) -> Option<String> {
        match self.buffer.get() {
            Some(buffer) => buffer.append(self, lines),
            None => self.write(lines),
        }
    }

    /// Appends one or more whole lines with one write. What is given back is to be told. A line that cannot
    /// be written is lost: nobody waits for a log.
    #[must_use]
    pub fn write(&self, lines: &[u8]) -> Option<String> {
        self.try_write(lines, |file| {
            // Where the file ends within a line, that is ended first, so that no other one is joined to it.
            if self.health.is_torn() {
                put(file, b"\n").map_err(|failure| Incomplete { written: 0, ..failure })?;
            }
            put(file, lines)
        })
    }

    /// Appends lines in a form that is no text. Nobody could read on behind a part of it, so a part is taken back.
    pub(super) fn write_binary(&self, bytes: &[u8], lines: &[u8]) -> Option<String> {
        self.try_write(lines, |file| {
            let Some(open) = file else { return append::write_stderr(bytes) };
            let file = open.file();
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            open.write(bytes).map_err(|failure| {
                let whole = length + failure.written as u64;
                if failure.written > 0 && file.metadata().is_ok_and(|metadata| metadata.len() == whole) {
                    // What may only be appended to keeps the part.
                    let _ = file.set_len(length);
                }
                Incomplete { written: 0, ..failure }
            })
        })
    }

    /// Writes to what is open, if anything is; without a path to the standard error stream.
    fn try_write(
        &self,
        lines: &[u8],
        write: impl FnOnce(Option<&Appended>) -> Result<(), Incomplete>,
    ) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        if self.health.pauses() {
            self.health.lose(lines);
            return None;
        }
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let written = match (guard.as_ref(), &self.path) {
            (None, Some(_)) => Ok(()),
            (file, _) => write(file),
        };
        let name = || self.path.as_ref().map_or("stderr".into(), |path| path.to_string_lossy());
        match written {
            Ok(()) => {
                let lost = self.health.good()?;
                Some(format!("{lost} lines were not written to \"{}\", which had no room for them", name()))
            }
            Err(failure) if self.health.bad(&failure, lines) => {
                let reason = system_message(&failure.error);
                Some(format!("write() to \"{}\" failed ({reason})", name()))
            }
            Err(_) => None,
        }
    }

    /// Writes all that was gathered. What is given back is to be told.
    pub fn flush(&self) -> Option<String> {
        self.buffer.get()?.write(self, None)
    }

    /// Writes what was gathered long enough.
    pub(super) fn write_due(&self, now: Instant) -> Option<String> {
        self.buffer.get()?.write_due(self, now)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.flush());
    }
}

/// Appends to a file, or to the standard error stream.
fn put(file: Option<&Appended>, bytes: &[u8]) -> Result<(), Incomplete> {
    file.map_or_else(|| append::write_stderr(bytes), |file| file.write(bytes))
}

#[cfg(test)]
mod tests {
    use super::LogFile;
    use std::path::Path;

    #[test]
    fn a_failure_is_told_once() {
        let file = LogFile::at(Path::new("/dev/full"));
        assert_eq!(file.write(b"nobody opened it\n"), None);
        file.open().unwrap();
        let told = file.write(b"a line\n");
        assert_eq!(told.unwrap(), "write() to \"/dev/full\" failed (28: No space left on device)");
        assert_eq!(file.write(b"a line\n"), None);
    }

    #[test]
    fn a_file_that_was_renamed_is_not_current() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let file = LogFile::at(&path);
        assert!(!file.is_current());
        file.open().unwrap();
        assert!(file.is_current());
        std::fs::rename(&path, directory.path().join("b")).unwrap();
        assert!(!file.is_current());
        file.open().unwrap();
        assert!(file.is_current());
    }
}

//! A file that log lines are appended to.

use super::bell::Bell;
use super::buffer::{Buffer, Buffering};
use super::health::Health;
use net::append;
use net::system_message;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

/// A file that log lines are appended to, at once or gathered.
#[derive(Debug)]
pub struct LogFile {
    path: Option<PathBuf>,
    file: RwLock<Option<File>>,
    buffer: OnceLock<Buffer>,
    bell: Arc<Bell>,
    health: Health,
}

impl LogFile {
    /// The standard error stream.
    pub fn stderr() -> LogFile {
        LogFile::new(None, Arc::default())
    }

    /// A file that is not open yet.
    pub fn at(path: &Path) -> LogFile {
        LogFile::new(Some(path.to_path_buf()), Arc::default())
    }

    pub(super) fn new(path: Option<PathBuf>, bell: Arc<Bell>) -> LogFile {
        let (file, buffer, health) = (RwLock::default(), OnceLock::new(), Health::default());
        LogFile { path, file, buffer, bell, health }
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
        file.as_ref().map(File::try_clone).transpose()
    }

    /// Writes from now on to a file that another process opened.
    pub fn take_over(&self, file: File) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(file);
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
        Ok(())
    }

    /// Whether the file that is open is the one at its path.
    pub fn is_current(&self) -> bool {
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Some(path)) = (guard.as_ref(), &self.path) else { return false };
        let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
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
        self.write_after(lines, b"\n")
    }

    /// Appends what is no text.
    pub(super) fn write_binary(&self, bytes: &[u8]) -> Option<String> {
        self.write_after(bytes, b"")
    }

    /// Where the file ends within a line, it is ended first, so that no other one is joined to it.
    fn write_after(&self, bytes: &[u8], line_end: &[u8]) -> Option<String> {
        if bytes.is_empty() || self.health.pauses() {
            return None;
        }
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let put = |bytes: &[u8]| match (guard.as_ref(), &self.path) {
            (Some(file), _) => append::write(file, bytes),
            (None, None) => append::write_stderr(bytes),
            (None, Some(_)) => Ok(()),
        };
        let ended = if self.health.is_torn() { put(line_end) } else { Ok(()) };
        let (failure, bytes) = match ended.map(|()| put(bytes)) {
            Ok(Ok(())) => {
                self.health.good();
                return None;
            }
            Ok(Err(failure)) => (failure, bytes),
            Err(failure) => (failure, line_end),
        };
        if !self.health.bad(&failure, bytes) {
            return None;
        }
        let name = self.path.as_ref().map_or("stderr".into(), |path| path.to_string_lossy());
        Some(format!("write() to \"{name}\" failed ({})", system_message(&failure.error)))
    }

    /// Writes all that was gathered. What is given back is to be told.
    pub fn flush(&self) -> Option<String> {
        self.buffer.get()?.write(self, None)
    }

    /// Writes what was gathered long enough.
    pub(super) fn write_due(&self, now: Instant) -> Option<String> {
        self.buffer.get()?.write(self, Some(now))
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.flush());
    }
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

//! A file that log lines are appended to.

use super::buffer::{Buffer, Buffering};
use super::health::Health;
use super::sample::Sample;
use crate::clock::Time;
use crate::next_write::NextWrite;
use crate::rate_limit::RateLimit;
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

/// A file that log lines are appended to, buffered or not.
#[derive(Debug)]
pub struct LogFile {
    path: Option<PathBuf>,
    file: RwLock<Option<Appended>>,
    buffer: OnceLock<Buffer>,
    sample: OnceLock<Sample>,
    next_write: Arc<NextWrite>,
    health: Health,
    pub(super) rate_limit: RateLimit,
    takes_stderr: AtomicBool,
    is_named: AtomicBool,
    has_fallen_back: AtomicBool,
}

impl LogFile {
    /// The standard error stream.
    pub fn stderr() -> LogFile {
        append::prepare_stderr();
        LogFile::new(None, Arc::default())
    }

    /// A file that is not yet open.
    pub fn at(path: &Path) -> LogFile {
        LogFile::new(Some(path.to_path_buf()), Arc::default())
    }

    pub(super) fn new(path: Option<PathBuf>, next_write: Arc<NextWrite>) -> LogFile {
        let (file, health) = (RwLock::default(), Health::default());
        LogFile {
            path,
            file,
            buffer: OnceLock::new(),
            sample: OnceLock::new(),
            next_write,
            health,
            rate_limit: RateLimit::default(),
            takes_stderr: AtomicBool::new(false),
            is_named: AtomicBool::new(false),
            has_fallen_back: AtomicBool::new(false),
        }
    }

    /// The path; `None` for the standard error stream.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether a directive or a flag names the file. Otherwise it is a default of this program.
    pub fn is_named(&self) -> bool {
        self.is_named.load(Ordering::Relaxed)
    }

    pub(super) fn name(&self) {
        self.is_named.store(true, Ordering::Relaxed);
    }

    /// Duplicates the handle of the open file, for another process. `None` if no file is open.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn share(&self) -> io::Result<Option<File>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.as_ref().map(|open| open.file().try_clone()).transpose()
    }

    /// Replaces the file by one that another process opened: the log itself, or the stream that it fell back to.
    pub fn take_over(&self, file: File) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(file.into());
        self.has_fallen_back.store(!self.is_named() && !self.is_current(), Ordering::Relaxed);
    }

    /// Buffers lines from now on. Returns `false` if the file is already buffered with other settings.
    pub fn gather(&self, settings: Buffering) -> bool {
        let buffer = self.buffer.get_or_init(|| Buffer::new(settings.clone(), Arc::clone(&self.next_write)));
        buffer.has(&settings)
    }

    /// Writes at most this many lines per second from now on, and a count of the other lines. Returns `false` if the file
    /// already has another limit.
    pub fn sample(&self, lines_per_second: u64) -> bool {
        let sample = self.sample.get_or_init(|| Sample::new(lines_per_second, Arc::clone(&self.next_write)));
        sample.lines_per_second() == lines_per_second
    }

    /// Opens the file, or reopens it after its name was given to another file (USR1). Buffered lines are written to the
    /// previous file first.
    ///
    /// # Errors
    /// The errors of open(2). The previous file then stays open.
    pub fn open(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let opened = match append::open(path) {
            Err(_) if self.has_fallen_back() => return Ok(()),
            opened => opened?,
        };
        self.has_fallen_back.store(false, Ordering::Relaxed);
        drop(self.flush());
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        if self.has_stderr() {
            self.take_stderr()?;
        }
        Ok(())
    }

    /// Tests whether [`LogFile::open`] would succeed, without creating the file.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn check(&self) -> io::Result<()> {
        self.path.as_ref().map_or(Ok(()), |path| append::check(path))
    }

    /// Writes to the standard error stream until the file can be opened. It is for default files, which no directive names.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn fall_back(&self) -> io::Result<()> {
        append::stderr().map(|stream| self.take_over(stream))
    }

    /// Whether lines go to the standard error stream because the file could not be opened.
    pub fn has_fallen_back(&self) -> bool {
        self.has_fallen_back.load(Ordering::Relaxed)
    }

    /// Whether the standard error stream of the process is redirected to this file.
    pub fn has_stderr(&self) -> bool {
        self.takes_stderr.load(Ordering::Relaxed)
    }

    /// Redirects the standard error stream of the process to this file, now and whenever the file is reopened.
    ///
    /// # Errors
    /// The errors of dup2(2).
    pub fn take_stderr(&self) -> io::Result<()> {
        self.takes_stderr.store(true, Ordering::Relaxed);
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().map_or(Ok(()), |open| redirect_stderr(open.file()))
    }

    /// Whether the open file is still the file at its path.
    pub fn is_current(&self) -> bool {
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Some(path)) = (guard.as_ref(), &self.path) else { return false };
        let (Ok(open), Ok(named)) = (file.file().metadata(), std::fs::metadata(path)) else { return false };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    /// Appends a whole line. It may be buffered, or left out if the number of lines per second is limited. Report the
    /// complaint that is returned.
    #[must_use]
    pub fn append(&self, line: &[u8]) -> Option<String> {
        let Some(sample) = self.sample.get() else { return self.add(line) };
        let (is_written, before) = sample.judge(Time::now().instant);
        let complaint = before.and_then(|count| self.add(count.as_bytes()));
        if is_written { complaint.or(self.add(line)) } else { complaint }
    }

    fn add(&self, lines: &[u8]) -> Option<String> {
        match self.buffer.get() {
            Some(buffer) => buffer.append(self, lines),
            None => self.write(lines),
        }
    }

    /// Appends the number of lines that were left out, if their second has passed or no moment is given.
    fn add_count(&self, now: Option<Instant>) -> Option<String> {
        let count = self.sample.get()?.due(now)?;
        self.add(count.as_bytes())
    }

    /// Appends one or more whole lines with one write. A line that cannot be written is dropped: nothing waits for a log.
    /// Report the complaint that is returned.
    #[must_use]
    pub fn write(&self, lines: &[u8]) -> Option<String> {
        self.try_write(lines, |file| {
            // A part of a line at the end of the file is ended first, so that this line does not continue it.
            if self.health.is_torn() {
                put(file, b"\n").map_err(|failure| Incomplete { written: 0, ..failure })?;
            }
            put(file, lines)
        })
    }

    /// Appends lines in compressed form. A part that was written is removed: a reader could not read past it.
    pub(super) fn write_binary(&self, bytes: &[u8], lines: &[u8]) -> Option<String> {
        self.try_write(lines, |file| {
            let Some(open) = file else { return append::write_stderr(bytes) };
            open.write(bytes).map_err(|failure| {
                open.take_back(failure.written);
                Incomplete { written: 0, ..failure }
            })
        })
    }

    /// Writes to the open file, or to the standard error stream if there is no path.
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
        let path = self.path.as_ref().filter(|_| !self.has_fallen_back());
        let name = || path.map_or("stderr".into(), |path| path.to_string_lossy());
        match written {
            Ok(()) => {
                let lost = self.health.succeed()?;
                Some(format!("{lost} lines were not written to \"{}\", which had no room for them", name()))
            }
            Err(failure) if self.health.fail(&failure, lines) => {
                let reason = system_message(&failure.error);
                Some(format!("write() to \"{}\" failed ({reason})", name()))
            }
            Err(_) => None,
        }
    }

    /// Writes all buffered lines. Report the complaint that is returned.
    pub fn flush(&self) -> Option<String> {
        let complaint = self.add_count(None);
        complaint.or(self.buffer.get().and_then(|buffer| buffer.write(self, None)))
    }

    /// Writes the buffered lines that are due.
    pub(super) fn write_due(&self, now: Instant) -> Option<String> {
        let complaint = self.add_count(Some(now));
        complaint.or(self.buffer.get().and_then(|buffer| buffer.write_due(self, now)))
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.flush());
    }
}

/// Appends lines to a file, or to the standard error stream. A part of a line is removed if possible: other processes and the
/// next configuration append to the same file and do not know that it ends with a part of a line.
fn put(file: Option<&Appended>, lines: &[u8]) -> Result<(), Incomplete> {
    let Some(file) = file else { return append::write_stderr(lines) };
    file.write(lines).map_err(|failure| {
        let written = &lines[..failure.written];
        let whole = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let is_whole = whole == written.len() || file.take_back(written.len() - whole);
        if is_whole { Incomplete { written: whole, ..failure } } else { failure }
    })
}

#[cfg(test)]
mod tests {
    use super::LogFile;
    use crate::LogFiles;
    use std::path::Path;

    #[test]
    fn a_failure_is_reported_once() {
        let file = LogFile::at(Path::new("/dev/full"));
        assert_eq!(file.write(b"not open\n"), None);
        file.open().unwrap();
        let told = file.write(b"a line\n");
        assert_eq!(told.unwrap(), "write() to \"/dev/full\" failed (28: No space left on device)");
        assert_eq!(file.write(b"a line\n"), None);
    }

    #[test]
    fn a_default_log_falls_back_until_it_can_be_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none/log");
        let mut logs = LogFiles::default();
        logs.default_access_log.clone_from(&path);
        let file = logs.default_access_file();
        assert!(file.open().is_err() && !file.is_named());
        file.fall_back().unwrap();
        assert!(file.has_fallen_back() && logs.reopen().is_empty());
        let elsewhere = LogFile::at(&path);
        elsewhere.take_over(file.share().unwrap().unwrap());
        assert!(elsewhere.has_fallen_back(), "another process falls back, too");
        std::fs::create_dir(directory.path().join("none")).unwrap();
        assert!(logs.reopen().is_empty() && !file.has_fallen_back() && file.is_current());
        assert!(logs.file(&path).is_named() && file.is_named(), "the same file");
    }

    #[test]
    fn a_renamed_file_is_not_current() {
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

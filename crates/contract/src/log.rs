//! Log files, which every writer shares and which can be reopened, and the error log's lines.

use crate::clock::{self, Time};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use conf::Level;

/// A file that log lines are appended to.
#[derive(Debug)]
pub struct LogFile {
    path: Option<PathBuf>,
    file: RwLock<Option<File>>,
}

impl LogFile {
    /// The standard error stream.
    pub fn stderr() -> LogFile {
        LogFile { path: None, file: RwLock::new(None) }
    }

    /// A file that is not open yet.
    pub fn at(path: &Path) -> LogFile {
        LogFile { path: Some(path.to_path_buf()), file: RwLock::new(None) }
    }

    /// Where it is; `None` is standard error.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Opens the file, or opens it anew after its name was given to another (USR1).
    pub fn open(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        // A daemon's mask is empty: the mode itself keeps others from writing.
        let opened = OpenOptions::new().append(true).create(true).mode(0o644).open(path)?;
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    /// Appends one or more whole lines with one write. A log that cannot be written is no reason to
    /// fail a request, so errors end here.
    pub fn append(&self, lines: &[u8]) {
        let guard = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let result = match (guard.as_ref(), &self.path) {
            (Some(mut file), _) => file.write_all(lines),
            (None, None) => io::stderr().write_all(lines),
            (None, Some(_)) => Ok(()),
        };
        drop(result);
    }
}

/// All log files of a configuration, each path once. A clone is the same list, so that files that a
/// scope needs by default can be added while it is compiled.
#[derive(Clone, Debug)]
pub struct LogFiles {
    /// Where access is logged if nothing is written about it.
    pub default_access_log: PathBuf,
    /// Where errors are logged if nothing is written about it (`-e`); `None` is standard error.
    pub default_error_log: Option<PathBuf>,
    files: Arc<Mutex<Vec<Arc<LogFile>>>>,
}

impl LogFiles {
    /// The file at this path, shared with whoever asked for it before.
    pub fn file(&self, path: &Path) -> Arc<LogFile> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.iter().find(|file| file.path() == Some(path));
        known.map(Arc::clone).unwrap_or_else(|| {
            let file = Arc::new(LogFile::at(path));
            files.push(Arc::clone(&file));
            file
        })
    }

    /// The file for errors where nothing is written about it.
    pub fn default_error_file(&self) -> Arc<LogFile> {
        self.default_error_log.as_ref().map_or_else(|| Arc::new(LogFile::stderr()), |path| self.file(path))
    }

    /// Every file.
    pub fn iter(&self) -> impl Iterator<Item = Arc<LogFile>> + use<> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone().into_iter()
    }
}

impl Default for LogFiles {
    fn default() -> LogFiles {
        LogFiles {
            default_access_log: PathBuf::from("/var/log/fulmar/access.log"),
            default_error_log: Some(PathBuf::from("/var/log/fulmar/error.log")),
            files: Arc::default(),
        }
    }
}

/// Where the error log of a scope goes.
#[derive(Clone, Debug, Default)]
pub struct ErrorLog {
    targets: Vec<(Arc<LogFile>, Level)>,
}

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Names this thread in the lines that it writes; the first worker thread is 1.
pub fn name_thread(index: u32) {
    THREAD.set(index);
}

impl ErrorLog {
    /// A log with these targets.
    pub fn new(targets: Vec<(Arc<LogFile>, Level)>) -> ErrorLog {
        ErrorLog { targets }
    }

    /// The first file that it writes to; none if it writes to standard error only, or nowhere.
    pub fn path(&self) -> Option<&Path> {
        self.targets.iter().find_map(|(file, _)| file.path())
    }

    /// The least bad level that any target shows.
    pub fn shows(&self, level: Level) -> bool {
        self.targets.iter().any(|(_, limit)| level <= *limit)
    }

    /// Writes a line in nginx's form, which tools such as fail2ban read.
    pub fn write(&self, level: Level, message: &str) {
        if !self.shows(level) {
            return;
        }
        let time = clock::error_log_time(Time::now());
        let (process, thread) = (std::process::id(), THREAD.get());
        let name = level.name();
        let mut line = format!("{time} [{name}] {process}#{thread}: ");
        // A control character in a request must not forge a line.
        line.extend(message.chars().map(|c| if c.is_control() { '?' } else { c }));
        line.push('\n');
        for (file, limit) in &self.targets {
            if level <= *limit {
                file.append(line.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorLog, Level, LogFile};
    use std::sync::Arc;

    #[test]
    fn one_line_a_message_and_levels_filter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("error.log");
        let file = Arc::new(LogFile::at(&path));
        file.open().unwrap();
        let log = ErrorLog::new(vec![(file, Level::Error)]);
        log.write(Level::Warn, "quiet");
        log.write(Level::Error, "*1 loud\n2026/01/01 forged");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("[error]") && text.ends_with("*1 loud?2026/01/01 forged\n"), "{text}");
    }
}

//! All log files of a configuration.

use super::LogFile;
use crate::next_write::NextWrite;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// All log files of a configuration, each path once. Clones share one list, so that compiling a scope can add its default
/// files.
#[derive(Clone, Debug)]
pub struct LogFiles {
    /// The file of access logs if no directive names one.
    pub default_access_log: PathBuf,
    /// The file of error logs if no directive names one (`-e`); `None` for standard error.
    pub default_error_log: Option<PathBuf>,
    /// Whether the command line names [`LogFiles::default_error_log`].
    pub error_log_is_named: bool,
    files: Arc<Mutex<Files>>,
    next_write: Arc<NextWrite>,
    reopened: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Files {
    all: Vec<Arc<LogFile>>,
    by_path: HashMap<PathBuf, Arc<LogFile>>,
}

impl LogFiles {
    /// The file that a directive names. All users of a path share one file.
    pub fn file(&self, path: &Path) -> Arc<LogFile> {
        let file = self.shared(path);
        file.name();
        file
    }

    /// The file at this path, if the list has one.
    pub fn find(&self, path: &Path) -> Option<Arc<LogFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).by_path.get(path).cloned()
    }

    fn shared(&self, path: &Path) -> Arc<LogFile> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.by_path.get(path) {
            return Arc::clone(known);
        }
        let file = Arc::new(LogFile::new(Some(path.to_path_buf()), Arc::clone(&self.next_write)));
        files.all.push(Arc::clone(&file));
        files.by_path.insert(path.to_path_buf(), Arc::clone(&file));
        file
    }

    /// The file for requests where no directive names one.
    pub fn default_access_file(&self) -> Arc<LogFile> {
        self.shared(&self.default_access_log)
    }

    /// The file for errors where no directive names one.
    pub fn default_error_file(&self) -> Arc<LogFile> {
        let Some(path) = &self.default_error_log else { return Arc::new(LogFile::stderr()) };
        if self.error_log_is_named { self.file(path) } else { self.shared(path) }
    }

    /// Every file, in the order in which they were first asked for.
    pub fn iter(&self) -> impl Iterator<Item = Arc<LogFile>> + use<> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).all.clone().into_iter()
    }

    /// Reopens every file. Returns the files that could not be opened, with the errors.
    pub fn reopen(&self) -> Vec<(Arc<LogFile>, io::Error)> {
        self.reopened.fetch_add(1, Ordering::Relaxed);
        self.iter().filter_map(|file| file.open().err().map(|error| (file, error))).collect()
    }

    /// How often the files were reopened.
    pub fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// The next moment at which [`LogFiles::write_due`] must be called. The task is woken when this moment is set or moved
    /// forward.
    pub fn poll_due(&self, cx: &Context<'_>) -> Poll<Instant> {
        self.next_write.poll(cx)
    }

    /// Writes the buffered lines that are due, and full buffers. Report the complaints that are returned.
    pub fn write_due(&self, now: Instant) -> Vec<String> {
        self.next_write.reset();
        self.iter().filter_map(|file| file.write_due(now)).collect()
    }

    /// Writes all buffered lines. Report the complaints that are returned.
    pub fn flush(&self) -> Vec<String> {
        self.iter().filter_map(|file| file.flush()).collect()
    }
}

impl Default for LogFiles {
    fn default() -> LogFiles {
        LogFiles {
            default_access_log: PathBuf::from("/var/log/fulmar/access.log"),
            default_error_log: Some(PathBuf::from("/var/log/fulmar/error.log")),
            error_log_is_named: false,
            files: Arc::default(),
            next_write: Arc::default(),
            reopened: Arc::default(),
        }
    }
}

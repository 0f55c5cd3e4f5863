//! All log files of a configuration.

use super::LogFile;
use super::bell::Bell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// All log files of a configuration, each path once. A clone is the same list, so that files that a
/// scope needs by default can be added while it is compiled.
#[derive(Clone, Debug)]
pub struct LogFiles {
    /// Where access is logged if nothing is written about it.
    pub default_access_log: PathBuf,
    /// Where errors are logged if nothing is written about it (`-e`); `None` is standard error.
    pub default_error_log: Option<PathBuf>,
    files: Arc<Mutex<Files>>,
    bell: Arc<Bell>,
    reopened: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Files {
    all: Vec<Arc<LogFile>>,
    by_path: HashMap<PathBuf, Arc<LogFile>>,
}

impl LogFiles {
    /// The file at this path, shared with whoever asked for it before.
    pub fn file(&self, path: &Path) -> Arc<LogFile> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.by_path.get(path) {
            return Arc::clone(known);
        }
        let file = Arc::new(LogFile::new(Some(path.to_path_buf()), Arc::clone(&self.bell)));
        files.all.push(Arc::clone(&file));
        files.by_path.insert(path.to_path_buf(), Arc::clone(&file));
        file
    }

    /// The file for errors where nothing is written about it.
    pub fn default_error_file(&self) -> Arc<LogFile> {
        self.default_error_log.as_ref().map_or_else(|| Arc::new(LogFile::stderr()), |path| self.file(path))
    }

    /// Every file, in the order in which they were first asked for.
    pub fn iter(&self) -> impl Iterator<Item = Arc<LogFile>> + use<> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).all.clone().into_iter()
    }

    /// Opens every file anew; those that could not be opened, and why.
    pub fn reopen(&self) -> Vec<(Arc<LogFile>, io::Error)> {
        self.reopened.fetch_add(1, Ordering::Relaxed);
        self.iter().filter_map(|file| file.open().err().map(|error| (file, error))).collect()
    }

    /// How often they were opened anew.
    pub fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// The next moment at which [`LogFiles::write_due`] is needed. Who asks is woken when it becomes an earlier
    /// one.
    pub fn poll_due(&self, cx: &Context<'_>) -> Poll<Instant> {
        self.bell.poll(cx)
    }

    /// Writes what was gathered long enough, and buffers that are full. What is given back is to be told.
    pub fn write_due(&self, now: Instant) -> Vec<String> {
        self.bell.reset();
        self.iter().filter_map(|file| file.write_due(now)).collect()
    }

    /// Writes all that was gathered. What is given back is to be told.
    pub fn flush(&self) -> Vec<String> {
        self.iter().filter_map(|file| file.flush()).collect()
    }
}

impl Default for LogFiles {
    fn default() -> LogFiles {
        LogFiles {
            default_access_log: PathBuf::from("/var/log/fulmar/access.log"),
            default_error_log: Some(PathBuf::from("/var/log/fulmar/error.log")),
            files: Arc::default(),
            bell: Arc::default(),
            reopened: Arc::default(),
        }
    }
}

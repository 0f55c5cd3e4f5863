//! Logs whose names depend on requests, kept open: `open_log_file_cache`.

use crate::shared::lru::Lru;
use conf::{Diagnostic, Word, value};
use contract::{Args, Loading};
use journal::{LogFile, LogFiles};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The limits of one use of the directive, and the logs that are open under them, for all threads.
pub struct OpenLogs {
    max: usize,
    /// In seconds.
    inactive: u64,
    /// In seconds.
    valid: u64,
    min_uses: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    logs: Lru<Entry>,
    /// How often all logs had been opened anew when these were opened.
    reopened: u64,
}

/// A name that was asked for.
struct Entry {
    /// Nothing as long as it was not asked for often enough.
    log: Option<Arc<LogFile>>,
    uses: u64,
    used_at: u64,
    /// When it was last known to be the file of that name.
    seen_at: u64,
}

/// `open_log_file_cache off | max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]`
pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Option<Arc<OpenLogs>>, Diagnostic> {
    let mut open = OpenLogs { max: 0, inactive: 10, valid: 60, min_uses: 1, kept: Mutex::default() };
    let mut off = false;
    for word in args.words() {
        let wrong = || {
            let message = format!("invalid \"open_log_file_cache\" parameter \"{word}\"");
            Diagnostic::emerg(message).at(args.node.span).under(word.span)
        };
        let rest = |start: &str| {
            let text = word.text.strip_prefix(start.as_bytes())?;
            Some(Word { text: text.into(), ..*word })
        };
        if let Some(max) = rest("max=") {
            let max = value::number(&max).map_err(|_| wrong())?;
            open.max = usize::try_from(max).unwrap_or(usize::MAX);
        } else if let Some(time) = rest("inactive=") {
            open.inactive = value::time_s(&time).map_err(|_| wrong())?;
        } else if let Some(time) = rest("valid=") {
            open.valid = value::time_s(&time).map_err(|_| wrong())?;
        } else if let Some(uses) = rest("min_uses=") {
            open.min_uses = value::number(&uses).map_err(|_| wrong())?;
        } else if word.is("off") {
            off = true;
        } else {
            return Err(wrong());
        }
    }
    match open.max {
        _ if off => Ok(None),
        0 => {
            let message = "\"open_log_file_cache\" must have \"max\" parameter";
            Err(Diagnostic::emerg(message).at(args.node.span))
        }
        _ => Ok(Some(Arc::new(open))),
    }
}

/// Opens the log at a path.
pub(super) fn open(path: &Path) -> io::Result<Arc<LogFile>> {
    let log = LogFile::at(path);
    log.open()?;
    Ok(Arc::new(log))
}

impl OpenLogs {
    /// The log at a path, open; `now` in seconds.
    pub(super) fn open(&self, path: &Path, logs: &LogFiles, now: u64) -> io::Result<Arc<LogFile>> {
        let key = path.as_os_str().as_bytes();
        if let Some((log, is_fresh)) = self.find(key, logs.reopened(), now)
            && (is_fresh || log.is_current())
        {
            if !is_fresh {
                self.with(|kept| kept.logs.get(key).map_or((), |entry| entry.seen_at = now));
            }
            return Ok(log);
        }
        let opened = open(Path::new(OsStr::from_bytes(key)));
        self.with(|kept| match (&opened, kept.logs.get(key)) {
            (Ok(log), Some(entry)) if entry.uses >= self.min_uses => {
                (entry.log, entry.seen_at) = (Some(Arc::clone(log)), now);
            }
            (Err(_), Some(_)) => drop(kept.logs.remove(key)),
            _ => {}
        });
        opened
    }

    /// Counts a use. Gives the log if it is open, and whether it need not be looked at.
    fn find(&self, key: &[u8], reopened: u64, now: u64) -> Option<(Arc<LogFile>, bool)> {
        self.with(|kept| {
            if kept.reopened != reopened {
                *kept = Kept { logs: Lru::default(), reopened };
            }
            let is_unused = |entry: &Entry| now.saturating_sub(entry.used_at) > self.inactive;
            while kept.logs.oldest().is_some_and(|(_, entry)| is_unused(entry)) {
                kept.logs.pop_oldest();
            }
            if let Some(entry) = kept.logs.get(key) {
                entry.uses += 1;
                entry.used_at = now;
                let log = entry.log.as_ref().map(Arc::clone)?;
                return Some((log, now.saturating_sub(entry.seen_at) < self.valid));
            }
            if kept.logs.len() >= self.max {
                kept.logs.pop_oldest();
            }
            kept.logs.insert(key, Entry { log: None, uses: 1, used_at: now, seen_at: now });
            None
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, OpenLogs};
    use journal::LogFiles;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    fn limits(max: usize, min_uses: u64) -> OpenLogs {
        OpenLogs { max, inactive: 10, valid: 5, min_uses, kept: Mutex::new(Kept::default()) }
    }

    /// Whether two uses at these times are of one descriptor.
    fn is_kept(open: &OpenLogs, logs: &LogFiles, path: &Path, times: [u64; 2]) -> bool {
        let [first, second] = times.map(|now| open.open(path, logs, now).unwrap());
        Arc::ptr_eq(&first, &second)
    }

    #[test]
    fn what_is_used_often_enough_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (logs, path) = (LogFiles::default(), directory.path().join("a"));
        let open = limits(2, 2);
        assert!(!is_kept(&open, &logs, &path, [0, 0]));
        assert!(is_kept(&open, &logs, &path, [0, 10]), "used within the time");
        assert!(!is_kept(&open, &logs, &path, [10, 21]), "not used for too long");
        assert!(is_kept(&open, &logs, &path, [22, 23]));
        for other in ["b", "c"] {
            open.open(&directory.path().join(other), &logs, 23).unwrap();
        }
        assert!(!is_kept(&open, &logs, &path, [23, 23]), "too many");
    }

    #[test]
    fn what_was_kept_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let (logs, path) = (LogFiles::default(), directory.path().join("a"));
        let open = limits(2, 1);
        let first = open.open(&path, &logs, 0).unwrap();
        assert!(is_kept(&open, &logs, &path, [5, 9]), "the same file is seen at its place");
        std::fs::rename(&path, directory.path().join("b")).unwrap();
        assert!(Arc::ptr_eq(&first, &open.open(&path, &logs, 9).unwrap()), "not looked at yet");
        let second = open.open(&path, &logs, 10).unwrap();
        assert!(!Arc::ptr_eq(&first, &second) && path.exists());
        assert!(logs.reopen().is_empty());
        assert!(!Arc::ptr_eq(&second, &open.open(&path, &logs, 10).unwrap()), "all logs were opened anew");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(open.open(&path, &logs, 15).is_err());
    }
}

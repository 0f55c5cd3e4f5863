//! Failed writes of a log: when to complain, when to retry, how many lines were lost.

use net::append::Incomplete;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two complaints about one log.
const INTERVAL: Duration = Duration::from_secs(60);

/// How long writes pause after the device was full.
const PAUSE: Duration = Duration::from_secs(1);

/// Lines of all logs of this process that could not be written.
static LOST_LINES: AtomicU64 = AtomicU64::new(0);

/// How many lines this process could not write, in all logs.
pub fn lost_lines() -> u64 {
    LOST_LINES.load(Ordering::Relaxed)
}

/// Limits complaints to one a minute.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<Option<Instant>>);

impl Complaints {
    /// Whether a complaint is due. If so, the next one is due a minute later.
    pub fn are_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// The failures of a file. As long as writes succeed, a check costs one atomic load. The load is `Relaxed`: the lock
/// orders the failures themselves, and a check that comes too early finds the failure at the next line.
#[derive(Debug, Default)]
pub(super) struct Health {
    has_failures: AtomicBool,
    failures: Mutex<Failures>,
    complaints: Complaints,
}

#[derive(Debug, Default)]
struct Failures {
    full_since: Option<Instant>,
    /// Whether the file ends with a part of a line.
    is_torn: bool,
    /// Lost lines that no complaint has mentioned yet.
    lost: u64,
}

impl Health {
    /// Whether the device was full less than [`PAUSE`] ago.
    pub(super) fn pauses(&self) -> bool {
        self.has(|failures| failures.full_since.is_some_and(|since| since.elapsed() < PAUSE))
    }

    /// Whether the file ends with a part of a line.
    pub(super) fn is_torn(&self) -> bool {
        self.has(|failures| failures.is_torn)
    }

    fn has(&self, failure: impl FnOnce(&Failures) -> bool) -> bool {
        self.has_failures.load(Ordering::Relaxed)
            && failure(&self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a successful write. Returns the number of lines that were lost before, if a complaint is due.
    pub(super) fn succeed(&self) -> Option<u64> {
        if !self.has_failures.load(Ordering::Relaxed) {
            return None;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = failures.lost > 0 && self.complaints.are_due();
        let lost = if is_told { 0 } else { failures.lost };
        let before = std::mem::replace(&mut *failures, Failures { lost, ..Failures::default() });
        // Untold losses keep the slow path on, so that a later write reports them.
        self.has_failures.store(lost > 0, Ordering::Relaxed);
        is_told.then_some(before.lost)
    }

    /// Records lines that were dropped without an attempt to write them.
    pub(super) fn lose(&self, lines: &[u8]) {
        let count = count(lines);
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).lost += count;
        LOST_LINES.fetch_add(count, Ordering::Relaxed);
    }

    /// Records lines that were not written, or only in part. Returns whether a complaint is due.
    pub(super) fn fail(&self, failure: &Incomplete, lines: &[u8]) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = failure.written.checked_sub(1) {
            failures.is_torn = lines.get(last) != Some(&b'\n');
        }
        let is_full = matches!(
            failure.error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        );
        failures.full_since = is_full.then(Instant::now);
        let lost = count(lines.get(failure.written..).unwrap_or_default());
        failures.lost += lost;
        LOST_LINES.fetch_add(lost, Ordering::Relaxed);
        self.has_failures.store(true, Ordering::Relaxed);
        drop(failures);
        self.complaints.are_due()
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::{Complaints, Health};
    use net::append::Incomplete;
    use std::io::ErrorKind;

    #[test]
    fn complaints_are_due_once_a_minute() {
        let complaints = Complaints::default();
        assert_eq!([(); 3].map(|()| complaints.are_due()), [true, false, false]);
    }

    #[test]
    fn lost_lines_are_reported_once() {
        let health = Health::default();
        let full = |written| Incomplete { written, error: ErrorKind::WouldBlock.into() };
        health.lose(b"a\nb\n");
        assert_eq!(health.succeed(), None, "no write has failed");
        let later = |health: &Health| *health.complaints.0.lock().unwrap() = None;
        assert!(health.fail(&full(2), b"a\nb\nc\n"));
        assert_eq!(health.succeed(), None, "the last complaint is less than a minute old");
        later(&health);
        assert_eq!(health.succeed(), Some(4));
        later(&health);
        assert_eq!(health.succeed(), None);
    }

    #[test]
    fn writes_pause_after_a_full_device() {
        let health = Health::default();
        let full = |written| Incomplete { written, error: ErrorKind::StorageFull.into() };
        assert!(health.fail(&full(0), b"a\nb\n"));
        assert!(health.pauses() && !health.is_torn());
        assert!(!health.fail(&full(2), b"a\nb\n"));
        assert!(!health.is_torn());
        health.fail(&full(3), b"a\nb\n");
        assert!(health.is_torn());
        assert_eq!(health.succeed(), None, "the last complaint is less than a minute old");
        assert!(!health.pauses() && !health.is_torn());
        health.fail(&Incomplete { written: 0, error: ErrorKind::WouldBlock.into() }, b"a\n");
        assert!(!health.pauses());
    }
}

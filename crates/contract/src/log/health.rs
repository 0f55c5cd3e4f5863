//! What is known of a log that could not be written.

use crate::counters::{self, Count};
use net::append::Incomplete;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a log that fails is worth a line.
const INTERVAL: Duration = Duration::from_secs(60);

/// How long nothing is written to a device that was full.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets a complaint pass once a minute.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<Option<Instant>>);

impl Complaints {
    /// Whether it is time for a complaint; it then counts as made.
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

/// Whether a file can be written, at the cost of one look while it can.
#[derive(Debug, Default)]
pub(super) struct Health {
    is_ill: AtomicBool,
    illness: Mutex<Illness>,
    complaints: Complaints,
}

#[derive(Debug, Default)]
struct Illness {
    full_since: Option<Instant>,
    /// Whether the file ends within a line.
    is_torn: bool,
    /// Lines that were not written, of which nothing was told yet.
    lost: u64,
}

impl Health {
    /// Whether the device was full a moment ago.
    pub(super) fn pauses(&self) -> bool {
        self.looks(|illness| illness.full_since.is_some_and(|since| since.elapsed() < PAUSE))
    }

    /// Whether the file ends within a line.
    pub(super) fn is_torn(&self) -> bool {
        self.looks(|illness| illness.is_torn)
    }

    fn looks(&self, at: impl FnOnce(&Illness) -> bool) -> bool {
        self.is_ill.load(Ordering::Relaxed)
            && at(&self.illness.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lines were written; how many were not before, where that is to be told.
    pub(super) fn good(&self) -> Option<u64> {
        if !self.is_ill.load(Ordering::Relaxed) {
            return None;
        }
        let mut illness = self.illness.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = illness.lost > 0 && self.complaints.are_due();
        let lost = if is_told { 0 } else { illness.lost };
        let before = std::mem::replace(&mut *illness, Illness { lost, ..Illness::default() });
        // As long as there is something to tell it is looked for.
        self.is_ill.store(lost > 0, Ordering::Relaxed);
        is_told.then_some(before.lost)
    }

    /// These lines are not even tried.
    pub(super) fn lose(&self, lines: &[u8]) {
        let count = count(lines);
        self.illness.lock().unwrap_or_else(PoisonError::into_inner).lost += count;
        counters::add_many(Count::LostLogLines, count);
    }

    /// These lines were not written, or only in part; whether that is to be told.
    pub(super) fn bad(&self, failure: &Incomplete, lines: &[u8]) -> bool {
        let mut illness = self.illness.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = failure.written.checked_sub(1) {
            illness.is_torn = lines.get(last) != Some(&b'\n');
        }
        let is_full = matches!(
            failure.error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        );
        illness.full_since = is_full.then(Instant::now);
        let lost = count(lines.get(failure.written..).unwrap_or_default());
        illness.lost += lost;
        counters::add_many(Count::LostLogLines, lost);
        self.is_ill.store(true, Ordering::Relaxed);
        drop(illness);
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
    fn one_complaint_a_minute() {
        let complaints = Complaints::default();
        assert_eq!([(); 3].map(|()| complaints.are_due()), [true, false, false]);
    }

    #[test]
    fn what_was_lost_is_counted_and_told_once() {
        let health = Health::default();
        let full = |written| Incomplete { written, error: ErrorKind::WouldBlock.into() };
        health.lose(b"a\nb\n");
        assert_eq!(health.good(), None, "nothing is known to be wrong");
        let later = |health: &Health| *health.complaints.0.lock().unwrap() = None;
        assert!(health.bad(&full(2), b"a\nb\nc\n"));
        assert_eq!(health.good(), None, "told within the last minute");
        later(&health);
        assert_eq!(health.good(), Some(4));
        later(&health);
        assert_eq!(health.good(), None);
    }

    #[test]
    fn a_full_device_is_left_alone_for_a_moment() {
        let health = Health::default();
        let full = |written| Incomplete { written, error: ErrorKind::StorageFull.into() };
        assert!(health.bad(&full(0), b"a\nb\n"));
        assert!(health.pauses() && !health.is_torn());
        assert!(!health.bad(&full(2), b"a\nb\n"));
        assert!(!health.is_torn());
        health.bad(&full(3), b"a\nb\n");
        assert!(health.is_torn());
        assert_eq!(health.good(), None, "told within the last minute");
        assert!(!health.pauses() && !health.is_torn());
        health.bad(&Incomplete { written: 0, error: ErrorKind::WouldBlock.into() }, b"a\n");
        assert!(!health.pauses());
    }
}

//! A limit of lines per second for a log that a person reads live. A line counts the lines that were left out.

use crate::next_write::NextWrite;
use crate::readable;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The lines of this second, for one log.
#[derive(Debug)]
pub(super) struct Sample {
    lines_per_second: u64,
    second: Mutex<Second>,
    next_write: Arc<NextWrite>,
}

#[derive(Debug, Default)]
struct Second {
    ends: Option<Instant>,
    lines: u64,
    left_out: u64,
}

impl Second {
    /// The line that counts the lines that were left out, if there are any.
    fn end(&mut self) -> Option<String> {
        let left_out = std::mem::take(self).left_out;
        let requests = if left_out == 1 { "request" } else { "requests" };
        (left_out > 0).then(|| format!("… and {} more {requests} this second\n", readable::count(left_out)))
    }
}

impl Sample {
    pub(super) fn new(lines_per_second: u64, next_write: Arc<NextWrite>) -> Sample {
        Sample { lines_per_second, second: Mutex::default(), next_write }
    }

    pub(super) fn lines_per_second(&self) -> u64 {
        self.lines_per_second
    }

    /// Whether to write a line now, and the line to write before it.
    pub(super) fn judge(&self, now: Instant) -> (bool, Option<String>) {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match second.ends {
            Some(ends) if now < ends => None,
            _ => second.end(),
        };
        let ends = *second.ends.get_or_insert(now + Duration::from_secs(1));
        if second.lines < self.lines_per_second {
            second.lines += 1;
            return (true, before);
        }
        second.left_out += 1;
        if second.left_out == 1 {
            self.next_write.schedule(ends);
        }
        (false, before)
    }

    /// The line that is due because its second has passed. Without a moment, the line is due in any case.
    pub(super) fn due(&self, now: Option<Instant>) -> Option<String> {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        match (second.ends, now) {
            (Some(ends), Some(now)) if now < ends => {
                if second.left_out > 0 {
                    self.next_write.schedule(ends);
                }
                None
            }
            _ => second.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    #[test]
    fn lines_over_the_limit_are_counted() {
        let sample = Sample::new(2, Arc::default());
        let (start, later) = (Instant::now(), |ms| Duration::from_millis(ms));
        let judged: Vec<_> = (0..1236).map(|_| sample.judge(start + later(1))).collect();
        assert_eq!(judged.iter().filter(|(written, _)| *written).count(), 2);
        assert!(judged.iter().all(|(_, before)| before.is_none()));
        let told = Some("… and 1,234 more requests this second\n".to_owned());
        assert_eq!(sample.judge(start + later(1500)), (true, told));
        assert_eq!(sample.judge(start + later(1500)), (true, None));
        assert!(!sample.judge(start + later(1600)).0);
        assert_eq!(sample.due(Some(start + later(2499))), None);
        assert_eq!(
            sample.due(Some(start + later(2500))).as_deref(),
            Some("… and 1 more request this second\n")
        );
        assert_eq!(sample.due(None), None, "it is written once");
    }

    #[test]
    fn the_count_is_due_after_the_second() {
        let sample = Sample::new(1, Arc::default());
        let due = || sample.next_write.poll(&Context::from_waker(Waker::noop()));
        let start = Instant::now();
        sample.judge(start);
        assert_eq!(due(), Poll::Pending, "nothing was left out");
        sample.judge(start);
        assert_eq!(due(), Poll::Ready(start + Duration::from_secs(1)));
        sample.next_write.reset();
        assert_eq!(sample.due(Some(start)), None);
        assert_eq!(due(), Poll::Ready(start + Duration::from_secs(1)), "it stays due");
        assert!(sample.due(None).is_some(), "the log ends before the second");
    }
}

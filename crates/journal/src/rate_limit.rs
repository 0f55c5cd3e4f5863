//! A limit for the lines that clients can cause in an error log.

use super::Level;
use std::sync::{Mutex, PoisonError};

/// How many lines about clients a log accepts per second. Levels more severe than `error` are not limited, nor is `debug`,
/// which an administrator asked for.
pub(super) const LINES_PER_SECOND: u32 = 1000;

/// The lines of this second, for one log.
#[derive(Debug, Default)]
pub(super) struct RateLimit(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    second: i64,
    lines: u32,
    suppressed: u64,
}

/// What to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Write it.
    Pass,
    /// Write how many lines were suppressed, then the line.
    After(u64),
    /// Suppress it, and write that lines are suppressed from now on.
    Last,
    /// Suppress it.
    Suppress,
}

impl RateLimit {
    /// Decides about a line about a client. `second` is the current time in seconds.
    pub(super) fn judge(&self, level: Level, second: i64) -> Verdict {
        if level < Level::Error || level == Level::Debug {
            return Verdict::Pass;
        }
        let mut this = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut suppressed = 0;
        if this.second != second {
            suppressed = this.suppressed;
            *this = Second { second, lines: 0, suppressed: 0 };
        }
        if this.lines < LINES_PER_SECOND {
            this.lines += 1;
            return if suppressed > 0 { Verdict::After(suppressed) } else { Verdict::Pass };
        }
        this.suppressed += 1;
        if this.suppressed == 1 { Verdict::Last } else { Verdict::Suppress }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINES_PER_SECOND, Level, RateLimit, Verdict};

    #[test]
    fn lines_per_second_are_limited() {
        let rate_limit = RateLimit::default();
        let verdicts = |level, second, count: u32| {
            (0..count).map(|_| rate_limit.judge(level, second)).collect::<Vec<_>>()
        };
        assert!(verdicts(Level::Info, 1, LINES_PER_SECOND).iter().all(|&verdict| verdict == Verdict::Pass));
        assert_eq!(verdicts(Level::Error, 1, 3), [Verdict::Last, Verdict::Suppress, Verdict::Suppress]);
        assert_eq!(verdicts(Level::Crit, 1, 1), [Verdict::Pass]);
        assert_eq!(verdicts(Level::Debug, 1, 1), [Verdict::Pass]);
        assert_eq!(verdicts(Level::Error, 2, 2), [Verdict::After(3), Verdict::Pass]);
        assert_eq!(verdicts(Level::Error, 0, 1), [Verdict::Pass], "the clock was set back");
    }
}

//! A bound for what clients can have an error log say.

use super::Level;
use std::sync::{Mutex, PoisonError};

/// How many lines about clients a log takes in a second; those of the levels above `error` always get through, and so do
/// those of `debug`, which somebody asked for.
pub(super) const LINES_PER_SECOND: u32 = 1000;

/// The lines of this second, for one log.
#[derive(Debug, Default)]
pub(super) struct Flood(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    second: i64,
    lines: u32,
    suppressed: u64,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is written.
    Pass,
    /// It is written, and in front of it how many were not.
    After(u64),
    /// It is the first that is not written, which is to be told.
    Last,
    /// It is not written.
    Suppress,
}

impl Flood {
    /// Judges a line about a client, at a time in seconds.
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
    use super::{Flood, LINES_PER_SECOND, Level, Verdict};

    #[test]
    fn a_second_has_a_bound() {
        let flood = Flood::default();
        let verdicts =
            |level, second, count: u32| (0..count).map(|_| flood.judge(level, second)).collect::<Vec<_>>();
        assert!(verdicts(Level::Info, 1, LINES_PER_SECOND).iter().all(|&verdict| verdict == Verdict::Pass));
        assert_eq!(verdicts(Level::Error, 1, 3), [Verdict::Last, Verdict::Suppress, Verdict::Suppress]);
        assert_eq!(verdicts(Level::Crit, 1, 1), [Verdict::Pass]);
        assert_eq!(verdicts(Level::Debug, 1, 1), [Verdict::Pass]);
        assert_eq!(verdicts(Level::Error, 2, 2), [Verdict::After(3), Verdict::Pass]);
        assert_eq!(verdicts(Level::Error, 0, 1), [Verdict::Pass], "a clock that was set back");
    }
}

//! When a worker that died is replaced: at once, or after a pause that grows while new ones die at once.

use std::time::{Duration, Instant};

/// A worker that lived shorter died at once.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The next time at which a worker may be started.
#[derive(Debug)]
pub(crate) struct Respawn {
    at: Option<Instant>,
    pause: Duration,
}

impl Respawn {
    /// A worker may be started now.
    pub(crate) fn now() -> Respawn {
        Respawn { at: Some(Instant::now()), pause: Duration::ZERO }
    }

    /// When a worker may be started; none if another try would not help.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Whether a worker may be started.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// A worker died after this time.
    pub(crate) fn after(&mut self, life: Duration) {
        self.pause =
            if life < SHORT_LIFE { (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX) } else { Duration::ZERO };
        self.at = self.at.map(|_| Instant::now() + self.pause);
    }

    /// Another try would not help, until [`Respawn::reset`].
    pub(crate) fn never(&mut self) {
        self.at = None;
    }

    /// Forgets the past, for another configuration.
    pub(crate) fn reset(&mut self) {
        *self = Respawn::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_workers_die_at_once() {
        let mut respawn = Respawn::now();
        assert!(respawn.is_due(Instant::now()));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            respawn.after(Duration::from_millis(3));
            pauses.push(respawn.pause.as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert!(!respawn.is_due(Instant::now()));
        respawn.after(Duration::from_secs(60));
        assert!(respawn.is_due(Instant::now()), "one that lived is replaced at once");
    }

    #[test]
    fn what_cannot_work_is_not_tried_again() {
        let mut respawn = Respawn::now();
        respawn.never();
        respawn.after(Duration::from_secs(60));
        assert_eq!(respawn.at(), None);
        respawn.reset();
        assert!(respawn.is_due(Instant::now()));
    }
}

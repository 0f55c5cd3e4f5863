//! How many passwords are computed at a time, so that they take neither all processors nor all threads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many checks may wait for their turn.
const WAITING_MAX: usize = 64;

/// A door with a bounded queue before it.
pub(super) struct Gate {
    places: usize,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    inside: usize,
    waiting: usize,
}

/// A place inside, until it is dropped.
pub(super) struct Place<'a>(&'a Gate);

impl Gate {
    /// A gate for half of the processors: the others go on serving.
    pub(super) fn of_this_machine() -> Gate {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Gate::new((processors / 2).max(1))
    }

    fn new(places: usize) -> Gate {
        Gate { places, counts: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for a place; none if too many wait already.
    pub(super) fn enter(&self) -> Option<Place<'_>> {
        let mut counts = self.counts();
        if counts.inside >= self.places {
            if counts.waiting >= WAITING_MAX {
                return None;
            }
            counts.waiting += 1;
            let is_full = |counts: &mut Counts| counts.inside >= self.places;
            counts = self.changed.wait_while(counts, is_full).unwrap_or_else(PoisonError::into_inner);
            counts.waiting -= 1;
        }
        counts.inside += 1;
        Some(Place(self))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.counts().inside -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, WAITING_MAX};

    #[test]
    fn few_are_inside_and_not_many_wait() {
        let gate = Gate::new(1);
        std::thread::scope(|scope| {
            let place = gate.enter().unwrap();
            for _ in 0..WAITING_MAX {
                scope.spawn(|| assert!(gate.enter().is_some()));
            }
            while gate.counts().waiting < WAITING_MAX {
                std::thread::yield_now();
            }
            assert_eq!(gate.counts().inside, 1);
            assert!(gate.enter().is_none(), "the queue is full");
            drop(place);
        });
        assert_eq!(gate.counts().inside, 0, "all came in and went");
        assert!(gate.enter().is_some());
    }
}

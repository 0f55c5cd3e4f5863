//! Places for connections: how many a thread has, and how many connections close when places run out.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long connections that were asked to close have time before further ones are asked.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// A flood of clients must not become a flood of messages.
const MESSAGE_PAUSE: Duration = Duration::from_secs(1);

/// The places of a thread.
pub(crate) struct Places {
    limit: Cell<usize>,
    taken: Cell<usize>,
    /// How many connections should still close.
    wanted: Cell<usize>,
    /// Whether the system had no descriptor left for the last connection.
    lacking: Cell<bool>,
    asked: Cell<Option<Instant>>,
    complained: Cell<Option<Instant>>,
}

impl Places {
    /// So many places, all free.
    pub(crate) fn new(limit: usize) -> Places {
        Places {
            limit: Cell::new(limit),
            taken: Cell::new(0),
            wanted: Cell::new(0),
            lacking: Cell::new(false),
            asked: Cell::new(None),
            complained: Cell::new(None),
        }
    }

    /// How many connections there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// So many places from now on. Who has one keeps it.
    pub(crate) fn limit_to(&self, limit: usize) {
        self.limit.set(limit);
    }

    /// How many connections there are.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Takes a place; `false` where none is free.
    pub(crate) fn take(&self) -> bool {
        self.lacking.set(false);
        let free = self.taken.get() < self.limit();
        self.taken.set(self.taken.get() + usize::from(free));
        free
    }

    /// Gives a place back.
    pub(crate) fn release(&self) {
        self.taken.set(self.taken.get().saturating_sub(1));
        self.wanted.set(self.wanted.get().saturating_sub(1));
    }

    /// Takes note that there are fewer places than were promised, until one is taken again.
    pub(crate) fn lack(&self) {
        self.lacking.set(true);
    }

    /// How many idle connections should be closed now: none until a sixteenth of the places or less is free, as in nginx.
    ///
    /// To find the connections that have been idle for longest takes a look at all of them. So enough are asked for to
    /// make room for a while.
    pub(crate) fn asks(&self, now: Instant) -> Option<usize> {
        let unanswered = self.wanted.get() > 0 && !is_over(&self.asked, ASK_PAUSE, now);
        if !self.are_scarce() || unanswered {
            return None;
        }
        self.wanted.set(self.limit() / 32 + 1);
        self.asked.set(Some(now));
        Some(self.wanted.get())
    }

    /// Whether a connection whose client has its response already should be closed at once.
    pub(crate) fn are_wanted(&self) -> bool {
        if !self.are_scarce() {
            self.wanted.set(0);
        }
        self.wanted.get() > 0
    }

    /// Whether a message should warn again that places are scarce.
    pub(crate) fn complains(&self, now: Instant) -> bool {
        let again = is_over(&self.complained, MESSAGE_PAUSE, now);
        if again {
            self.complained.set(Some(now));
        }
        again
    }

    fn are_scarce(&self) -> bool {
        self.lacking.get() || self.limit().saturating_sub(self.taken.get()) <= self.limit() / 16
    }
}

fn is_over(since: &Cell<Option<Instant>>, pause: Duration, now: Instant) -> bool {
    since.get().is_none_or(|since| now.saturating_duration_since(since) >= pause)
}

#[cfg(test)]
mod tests {
    use super::Places;
    use std::time::{Duration, Instant};

    #[test]
    fn places_are_counted() {
        let places = Places::new(2);
        assert_eq!((places.take(), places.take(), places.take()), (true, true, false));
        places.release();
        assert_eq!((places.taken(), places.take()), (1, true));
    }

    #[test]
    fn connections_are_asked_to_close_while_places_are_scarce() {
        let (places, now) = (Places::new(64), Instant::now());
        (0..59).for_each(|_| assert!(places.take()));
        assert_eq!(places.asks(now), None, "there is room");
        assert!(!places.are_wanted());
        assert!(places.take());
        assert_eq!(places.asks(now), Some(3));
        assert_eq!(places.asks(now), None, "the first ones have time to close");
        assert!(places.are_wanted());
        places.release();
        assert!(!places.are_wanted(), "there is room again");
        assert!(places.take());
        assert_eq!(places.asks(now), Some(3));
        assert_eq!(places.asks(now + Duration::from_millis(100)), Some(3), "their time is over");
    }

    #[test]
    fn connections_are_asked_to_close_when_descriptors_run_out() {
        let (places, now) = (Places::new(100), Instant::now());
        assert!(places.take() && places.take() && places.asks(now).is_none());
        places.lack();
        assert!(places.asks(now).is_some() && places.are_wanted());
        places.release();
        assert!(places.take() && !places.are_wanted(), "there was a descriptor");
    }

    #[test]
    fn a_complaint_a_second() {
        let (places, now) = (Places::new(1), Instant::now());
        assert!(places.complains(now));
        assert!(!places.complains(now + Duration::from_millis(999)));
        assert!(places.complains(now + Duration::from_secs(1)));
    }
}

//! Places for connections: how many a thread has, and who gives way when they run out.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a connection that waits for its first request is no idle one.
const GRACE: Duration = Duration::from_secs(1);

/// How long those that were asked to go have time before others are asked.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// A flood of clients must not become a flood of messages.
const MESSAGE_PAUSE: Duration = Duration::from_secs(1);

/// The places of a thread.
pub(crate) struct Places {
    limit: Cell<usize>,
    taken: Cell<usize>,
    /// How many connections shall still go.
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

    /// Whether idle connections should be woken, so that some give way: a sixteenth of the places or less is
    /// free, as in nginx. Waking costs a look at each connection, so an eighth of them is asked for at once.
    pub(crate) fn asks(&self, now: Instant) -> bool {
        let unanswered = self.wanted.get() > 0 && !is_over(&self.asked, ASK_PAUSE, now);
        if !self.are_scarce() || unanswered {
            return false;
        }
        self.wanted.set((self.limit() / 8).max(1));
        self.asked.set(Some(now));
        true
    }

    /// Whether an idle connection is to go; a new one has not sent a request yet.
    pub(crate) fn give_way(&self, is_new: bool, accepted: Instant) -> bool {
        if self.wanted.get() == 0 || (is_new && accepted.elapsed() < GRACE) {
            return false;
        }
        let still = self.are_scarce();
        if !still {
            self.wanted.set(0);
        }
        still
    }

    /// Whether the administrator should be told again that places are scarce.
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
    fn the_idle_give_way_while_places_are_scarce() {
        let (places, now) = (Places::new(32), Instant::now());
        (0..29).for_each(|_| assert!(places.take()));
        assert!(!places.asks(now), "there is room");
        assert!(!places.give_way(false, now));
        assert!(places.take() && places.asks(now));
        assert!(!places.asks(now), "those that were asked have time");
        assert!(!places.give_way(true, now), "its request is on its way");
        assert!(places.give_way(false, now));
        places.release();
        assert!(!places.give_way(false, now), "there is room again");
        assert!(places.take() && places.asks(now), "nobody is asked any more");
        assert!(places.asks(now + Duration::from_millis(100)), "they had their time");
    }

    #[test]
    fn the_idle_give_way_where_descriptors_lack() {
        let (places, now) = (Places::new(100), Instant::now());
        assert!(places.take() && places.take() && !places.asks(now));
        places.lack();
        assert!(places.asks(now) && places.give_way(false, now));
        places.release();
        assert!(places.take() && !places.give_way(false, now), "there was a descriptor");
    }

    #[test]
    fn a_complaint_a_second() {
        let (places, now) = (Places::new(1), Instant::now());
        assert!(places.complains(now));
        assert!(!places.complains(now + Duration::from_millis(999)));
        assert!(places.complains(now + Duration::from_secs(1)));
    }
}

//! Polling instead of sleeping, and how much time it took.
//!
//! If a thread of the generator sleeps, the kernel wakes it within the call by which the server sends a response, so the
//! server's CPU time includes the wake-up. How often that happens depends on the generator: the less time it needs for
//! a request, the more often it sleeps. A thread that polls is awake already.

/// The polls between two events, on the clock of a thread.
pub(super) struct Polling {
    begun_ns: u64,
    limit_ns: u64,
    fruitless_ns: u64,
}

impl Polling {
    /// Polling that begins now. It ends with the first poll that finds nothing after the limit.
    pub(super) fn new(now_ns: u64, limit_ns: u64) -> Polling {
        Polling { begun_ns: now_ns, limit_ns, fruitless_ns: 0 }
    }

    /// A poll ended now and found nothing: whether another one follows.
    pub(super) fn found_nothing(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.begun_ns);
        // What is above the limit is mostly time of other programs.
        self.fruitless_ns = passed_ns.min(self.limit_ns);
        passed_ns < self.limit_ns
    }

    /// What the polls that found nothing took. A poll that found something is work.
    pub(super) fn fruitless_s(&self) -> f64 {
        self.fruitless_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_polls_that_find_nothing_count() {
        let mut polling = Polling::new(1_000, 50_000);
        assert_eq!(polling.fruitless_s(), 0.0, "the first poll found something");
        assert!(polling.found_nothing(3_000) && polling.found_nothing(8_000));
        assert_eq!(polling.fruitless_s(), 7e-6, "the third poll found something");
    }

    #[test]
    fn polling_ends_after_its_time() {
        let mut polling = Polling::new(0, 50_000);
        assert!(polling.found_nothing(49_999));
        assert!(!polling.found_nothing(50_000));
        let mut interrupted = Polling::new(0, 50_000);
        assert!(!interrupted.found_nothing(4_000_000), "another program ran for 4 ms");
        assert_eq!(interrupted.fruitless_s(), 50e-6);
    }
}

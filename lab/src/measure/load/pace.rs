//! Slow readers and writers: how many bytes a connection may move by now.

/// What is not used within a second is lost.
const MOST_NS: u64 = 1_000_000_000;

/// One direction of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    bytes_per_s: Option<u64>,
    credit_ns: u64,
    is_starved: bool,
}

impl Pace {
    /// So many bytes a second, or as many as there are.
    pub(super) fn new(bytes_per_s: Option<u64>) -> Pace {
        let bytes_per_s = bytes_per_s.map(|rate| rate.clamp(1, 1_000_000_000));
        Pace { bytes_per_s, credit_ns: 0, is_starved: false }
    }

    /// Bytes that may be moved now, of so many that could be. Where there are none, it is starved.
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        let Some(rate) = self.bytes_per_s else { return wanted };
        let bytes = self.credit_ns * rate / MOST_NS;
        self.is_starved = bytes == 0;
        wanted.min(usize::try_from(bytes).unwrap_or(wanted))
    }

    /// So many bytes were moved.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Some(rate) = self.bytes_per_s {
            let cost = (bytes as u64).saturating_mul(MOST_NS) / rate;
            self.credit_ns = self.credit_ns.saturating_sub(cost);
        }
    }

    /// Time has passed: whether what was starved may go on.
    pub(super) fn refill(&mut self, ns: u64) -> bool {
        self.credit_ns = self.credit_ns.saturating_add(ns).min(MOST_NS);
        std::mem::take(&mut self.is_starved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_clock() {
        let mut pace = Pace::new(Some(10));
        assert_eq!(pace.room(100), 0);
        assert!(pace.refill(50_000_000));
        assert_eq!(pace.room(100), 0);
        pace.refill(250_000_000);
        assert_eq!(pace.room(100), 3);
        pace.spend(2);
        assert_eq!(pace.room(100), 1);
        assert!(!pace.refill(u64::MAX));
        assert_eq!((pace.room(100), pace.room(4)), (10, 4));
        assert_eq!(Pace::new(None).room(100), 100);
    }
}

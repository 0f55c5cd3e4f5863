//! Numbers that look random and are always the same: what is made or judged with them can be made again.

/// The seed.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Marsaglia's xorshift with 64 bits, from one fixed seed.
pub(crate) struct XorShift {
    state: u64,
}

impl XorShift {
    pub(crate) fn new() -> XorShift {
        XorShift { state: SEED }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number below `end`. The bias of the remainder is far below what a bootstrap can show.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_spread_evenly() {
        let mut random = XorShift::new();
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_ne!(XorShift::new().next(), 0);
    }
}

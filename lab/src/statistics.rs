//! Medians, and how sure they are.

/// How many times a sample is drawn anew.
const RESAMPLES: usize = 10_000;

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// The median of a sample, and the interval that holds 95 % of the medians of samples drawn from it
    /// with replacement (the percentile bootstrap). The same sample gives the same interval.
    pub fn of(sample: &[f64]) -> Estimate {
        let mut random = XorShift::new();
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn: Vec<f64> = sample.iter().map(|_| sample[random.below(sample.len())]).collect();
                median(&drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let tail = RESAMPLES / 40;
        Estimate { median: median(sample), low: medians[tail], high: medians[RESAMPLES - 1 - tail] }
    }
}

/// The middle of a sample, or the mean of its two middles; of an empty one, not a number.
pub fn median(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Marsaglia's xorshift with 64 bits, from one fixed seed.
struct XorShift {
    state: u64,
}

impl XorShift {
    fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number below `end`. The bias of the remainder is far below what a bootstrap can show.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_generator_spreads_evenly() {
        let mut random = XorShift::new();
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_ne!(XorShift::new().next(), 0);
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        assert_eq!(Estimate::of(&[0.7; 5]), Estimate { median: 0.7, low: 0.7, high: 0.7 });
    }

    #[test]
    fn more_noise_gives_a_wider_interval() {
        let around_one = |noise: f64| -> Vec<f64> {
            (0..20).map(|index| 1.0 + noise * (f64::from(index) - 9.5) / 9.5).collect()
        };
        let (calm, wild) = (Estimate::of(&around_one(0.01)), Estimate::of(&around_one(0.3)));
        assert!([calm, wild].iter().all(|estimate| estimate.low <= 1.0 && 1.0 <= estimate.high));
        assert!(wild.high - wild.low > 10.0 * (calm.high - calm.low), "{calm:?} {wild:?}");
        assert_eq!(wild, Estimate::of(&around_one(0.3)), "it does not depend on chance");
    }

    #[test]
    fn the_interval_is_of_the_known_width() {
        // For the median of 0..=100 the exact 95 % interval by order statistics is about 40 to 60.
        let sample: Vec<f64> = (0..=100).map(f64::from).collect();
        let estimate = Estimate::of(&sample);
        assert_eq!(estimate.median, 50.0);
        assert!((36.0..=44.0).contains(&estimate.low), "{estimate:?}");
        assert!((56.0..=64.0).contains(&estimate.high), "{estimate:?}");
    }
}

//! Times of one kind: their exact mean and deviation, and a histogram with three digits for all else.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::model::block::Bar;

/// Significant decimal digits of a value: it is off by at most 0.1 %.
const DIGITS: u8 = 3;

/// Longer times than this (2^42 ns are 73 minutes) count as this.
const LONGEST_NS: u64 = (1 << 42) - 1;

/// Bars of the printed histogram for each tenfold.
const BARS_PER_DECADE: i32 = 20;

/// Times in nanoseconds, in constant memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub(super) struct Series {
    steps: Histogram<u64>,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

/// A series as one process hands it to another: only the steps that were met, each by its largest value.
#[derive(Serialize, Deserialize)]
struct Packed {
    steps: Vec<(u64, u64)>,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Series {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the bounds are constants, and a test makes one")]
        let steps = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constant bounds are valid");
        Self { steps, sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

impl Series {
    /// One more time.
    pub(super) fn add(&mut self, ns: u64) {
        self.steps.saturating_record(ns);
        let value = ns as f64;
        self.sum += value;
        self.squares += value * value;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// All times of another series.
    pub(super) fn merge(&mut self, other: &Series) {
        for (end, count) in other.steps() {
            self.steps.saturating_record_n(end, count);
        }
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The mean in milliseconds, 0 of none.
    pub(super) fn mean_ms(&self) -> f64 {
        self.sum / self.divisor() / 1e6
    }

    /// The standard deviation in milliseconds.
    pub(super) fn deviation_ms(&self) -> f64 {
        let mean = self.sum / self.divisor();
        (self.squares / self.divisor() - mean * mean).max(0.0).sqrt() / 1e6
    }

    /// The shortest in milliseconds.
    pub(super) fn min_ms(&self) -> f64 {
        if self.steps.is_empty() { 0.0 } else { self.min as f64 / 1e6 }
    }

    /// The longest in milliseconds.
    pub(super) fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// The time in milliseconds that so many per cent are not above.
    pub(super) fn percentile_ms(&self, per_cent: f64) -> f64 {
        if self.steps.is_empty() {
            return 0.0;
        }
        // 99.9 % of 1,000 are 999, which the product of the two exceeds by a rounding.
        let quantile = per_cent / 100.0 * (1.0 - 1e-12);
        self.steps.value_at_quantile(quantile).clamp(self.min, self.max) as f64 / 1e6
    }

    /// The steps that were met, in their order: the largest value of each, and how many times it holds.
    fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        self.steps.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
    }

    /// Bars of equal ratio, those at both ends not empty.
    pub(super) fn bars(&self) -> Vec<Bar> {
        let mut bars: Vec<Bar> = Vec::new();
        let mut bar = None;
        for (end, count) in self.steps() {
            let upto_ms = end as f64 / 1e6;
            let index = bar.get_or_insert_with(|| bar_of(upto_ms));
            while bar_end_ms(*index) < upto_ms {
                *index += 1;
                if !bars.is_empty() {
                    bars.push(Bar { upto_ms: bar_end_ms(*index), count: 0 });
                }
            }
            match bars.last_mut() {
                Some(last) => last.count += count,
                None => bars.push(Bar { upto_ms: bar_end_ms(*index), count }),
            }
        }
        bars
    }

    /// So many bars of equal width between the shortest and the longest time, as hey draws them.
    pub(super) fn equal_bars(&self, wanted: u32) -> Vec<Bar> {
        let width = (self.max_ms() - self.min_ms()) / f64::from(wanted);
        let end = |bar: u32| self.min_ms() + width * f64::from(bar);
        let mut bars: Vec<Bar> = (0..=wanted).map(|bar| Bar { upto_ms: end(bar), count: 0 }).collect();
        let mut at = 0;
        for (end, count) in self.steps() {
            let value = end.clamp(self.min, self.max) as f64 / 1e6;
            while at + 1 < bars.len() && bars[at].upto_ms < value {
                at += 1;
            }
            bars[at].count += count;
        }
        bars
    }

    fn divisor(&self) -> f64 {
        self.steps.len().max(1) as f64
    }
}

impl From<Packed> for Series {
    fn from(packed: Packed) -> Self {
        let mut series = Self::default();
        for (end, count) in packed.steps {
            series.steps.saturating_record_n(end, count);
        }
        Self { sum: packed.sum, squares: packed.squares, min: packed.min, max: packed.max, ..series }
    }
}

impl From<Series> for Packed {
    fn from(series: Series) -> Self {
        let steps = series.steps().collect();
        let Series { sum, squares, min, max, .. } = series;
        Self { steps, sum, squares, min, max }
    }
}

fn bar_of(ms: f64) -> i32 {
    let mut index = -6 * BARS_PER_DECADE;
    while bar_end_ms(index) < ms {
        index += 1;
    }
    index
}

fn bar_end_ms(index: i32) -> f64 {
    10f64.powf(f64::from(index) / f64::from(BARS_PER_DECADE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl IntoIterator<Item = u64>) -> Series {
        let mut series = Series::default();
        values.into_iter().for_each(|value| series.add(value));
        series
    }

    #[test]
    fn a_step_holds_its_values_and_errs_by_a_thousandth() {
        for value in (0..42).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, (1 << bit) * 5 / 3])
        {
            let steps: Vec<(u64, u64)> = series([value]).steps().collect();
            let [(end, 1)] = steps[..] else { panic!("{value}: {steps:?}") };
            assert!(end >= value && (end - value) as f64 <= value as f64 / 1000.0, "{value} {end}");
        }
    }

    #[test]
    fn moments_and_percentiles() {
        let series = series((1..=1000).map(|ms| ms * 1_000_000));
        assert_eq!(series.steps.len(), 1000);
        assert!((series.mean_ms() - 500.5).abs() < 1e-6);
        assert!((series.deviation_ms() - 288.675).abs() < 0.01, "{}", series.deviation_ms());
        assert_eq!((series.min_ms(), series.max_ms()), (1.0, 1000.0));
        for (per_cent, expected) in [(0.0, 1.0), (50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)]
        {
            let found = series.percentile_ms(per_cent);
            assert!((found / expected - 1.0).abs() < 0.001, "p{per_cent}: {found}");
        }
        assert_eq!(Series::default().percentile_ms(50.0), 0.0);
    }

    #[test]
    fn what_is_packed_or_merged_is_the_same() {
        let (one, other) = (series([5, 7_000, 123_456_789]), series([1, u64::MAX]));
        let text = serde_json::to_string(&one).unwrap();
        let mut merged: Series = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&merged).unwrap(), text);
        merged.merge(&other);
        assert_eq!(merged.steps.len(), 5);
        assert_eq!((merged.min, merged.max), (1, u64::MAX));
        assert_eq!(merged.steps, series([5, 7_000, 123_456_789, 1, u64::MAX]).steps);
    }

    #[test]
    fn bars_hold_every_time_once() {
        let series = series([900_000, 1_000_000, 1_000_001, 30_000_000]);
        for bars in [series.bars(), series.equal_bars(10)] {
            assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 4, "{bars:?}");
            assert!(bars.windows(2).all(|pair| pair[0].upto_ms < pair[1].upto_ms), "{bars:?}");
            assert_eq!(bars.last().unwrap().count, 1);
        }
        assert!(Series::default().bars().is_empty());
    }
}

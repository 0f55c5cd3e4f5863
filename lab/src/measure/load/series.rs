//! Times of one kind: their exact mean and deviation, and a histogram with three digits for all else.

use serde::{Deserialize, Serialize};

use crate::model::block::Bar;

/// Each power of two is divided into so many steps (as a power of two itself): a value is off by at most 0.1 %.
const STEP_BITS: u32 = 10;

/// Longer times than this (2^42 ns are 73 minutes) count as this.
const LONGEST_NS: u64 = (1 << 42) - 1;

/// Bars of the printed histogram for each tenfold.
const BARS_PER_DECADE: i32 = 20;

/// Times in nanoseconds, in constant memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub(super) struct Series {
    steps: Vec<u64>,
    count: u64,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

/// A series as one process hands it to another: only the steps that were met.
#[derive(Serialize, Deserialize)]
struct Packed {
    steps: Vec<(usize, u64)>,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Series {
    fn default() -> Self {
        let steps = vec![0; step_of(LONGEST_NS) + 1];
        Self { steps, count: 0, sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

impl Series {
    /// One more time.
    pub(super) fn add(&mut self, ns: u64) {
        self.steps[step_of(ns.min(LONGEST_NS))] += 1;
        self.count += 1;
        let value = ns as f64;
        self.sum += value;
        self.squares += value * value;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// All times of another series.
    pub(super) fn merge(&mut self, other: &Series) {
        for (count, more) in self.steps.iter_mut().zip(&other.steps) {
            *count += more;
        }
        self.count += other.count;
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
        if self.count == 0 { 0.0 } else { self.min as f64 / 1e6 }
    }

    /// The longest in milliseconds.
    pub(super) fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// The time in milliseconds that so many per cent are not above.
    pub(super) fn percentile_ms(&self, per_cent: f64) -> f64 {
        // 99.9 % of 1,000 are 999, which the product of the two exceeds by a rounding.
        let wanted = (per_cent / 100.0 * self.count as f64 * (1.0 - 1e-12)).ceil().max(1.0);
        let mut seen = 0;
        for (step, count) in self.steps.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return end_of(step).clamp(self.min, self.max) as f64 / 1e6;
            }
        }
        self.max_ms()
    }

    /// Bars of equal ratio, those at both ends not empty.
    pub(super) fn bars(&self) -> Vec<Bar> {
        let mut bars: Vec<Bar> = Vec::new();
        let mut bar = None;
        for (step, count) in self.steps.iter().enumerate().filter(|(_, count)| **count > 0) {
            let upto_ms = end_of(step) as f64 / 1e6;
            let index = bar.get_or_insert_with(|| bar_of(upto_ms));
            while bar_end_ms(*index) < upto_ms {
                *index += 1;
                if !bars.is_empty() {
                    bars.push(Bar { upto_ms: bar_end_ms(*index), count: 0 });
                }
            }
            match bars.last_mut() {
                Some(last) => last.count += count,
                None => bars.push(Bar { upto_ms: bar_end_ms(*index), count: *count }),
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
        for (step, count) in self.steps.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = end_of(step).clamp(self.min, self.max) as f64 / 1e6;
            while at + 1 < bars.len() && bars[at].upto_ms < value {
                at += 1;
            }
            bars[at].count += count;
        }
        bars
    }

    fn divisor(&self) -> f64 {
        self.count.max(1) as f64
    }
}

impl From<Packed> for Series {
    fn from(packed: Packed) -> Self {
        let mut series = Self::default();
        for (step, count) in packed.steps {
            if let Some(place) = series.steps.get_mut(step) {
                *place += count;
                series.count += count;
            }
        }
        Self { sum: packed.sum, squares: packed.squares, min: packed.min, max: packed.max, ..series }
    }
}

impl From<Series> for Packed {
    fn from(series: Series) -> Self {
        let steps = series.steps.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        let Series { sum, squares, min, max, .. } = series;
        Self { steps, sum, squares, min, max }
    }
}

/// Below 2^(STEP_BITS + 1) each value has its step; above, each power of two has 2^STEP_BITS of them.
fn step_of(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let step = (u64::from(shift) << STEP_BITS) + (ns >> shift);
    usize::try_from(step).unwrap_or(usize::MAX)
}

/// The largest value of a step.
fn end_of(step: usize) -> u64 {
    let step = step as u64;
    let shift = (step >> STEP_BITS).saturating_sub(1);
    let top = step - (shift << STEP_BITS);
    ((top + 1) << shift) - 1
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
            let end = end_of(step_of(value));
            assert!(end >= value && (end - value) as f64 <= value as f64 / 1000.0, "{value} {end}");
            assert_eq!(step_of(end), step_of(value));
            assert_eq!(step_of(end + 1), step_of(value) + 1);
        }
    }

    #[test]
    fn moments_and_percentiles() {
        let series = series((1..=1000).map(|ms| ms * 1_000_000));
        assert_eq!(series.count, 1000);
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
        assert_eq!(merged.count, 5);
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

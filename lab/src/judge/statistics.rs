//! Medians, how sure they are, and what chance alone would have given.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::random::XorShift;

pub use crate::model::experiment::FEWEST;

/// A result that chance gives less often than this is significant.
pub const CHANCE: f64 = 0.05;

/// How many turns can decide one of so many comparisons: with fewer, Holm's correction takes even the smallest possible
/// p-value, 2 / 2ⁿ, to [`CHANCE`] or beyond.
pub fn fewest_for(comparisons: usize) -> u32 {
    let smallest = |turns: u32| 2.0 * 0.5_f64.powi(turns.cast_signed()) * comparisons.max(1) as f64;
    (FEWEST..64).find(|turns| smallest(*turns) < CHANCE).unwrap_or(64)
}

/// How many times a sample is drawn anew.
pub const RESAMPLES: usize = 10_000;

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
    /// with replacement (the percentile bootstrap, wider for small samples). The same sample gives the same interval.
    pub fn of(sample: &[f64]) -> Estimate {
        let mut random = XorShift::new();
        let mut drawn = sample.to_vec();
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                drawn.fill_with(|| sample[random.below(sample.len())]);
                middle(&mut drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let tail = tail(sample.len());
        Estimate { median: median(sample), low: medians[tail], high: medians[RESAMPLES - 1 - tail] }
    }
}

/// What two series have in common: the values of both in each turn that both have, by turn. What drifts from turn to
/// turn meets both alike, so ratios are taken of such pairs.
pub fn paired(first: &BTreeMap<u32, f64>, second: &BTreeMap<u32, f64>) -> Vec<(f64, f64)> {
    first.iter().filter_map(|(turn, one)| Some((*one, *second.get(turn)?))).collect()
}

/// The middle of a sample, or the mean of its two middles; of an empty one, not a number.
pub fn median(sample: &[f64]) -> f64 {
    middle(&mut sample.to_vec())
}

/// How likely ratios as far from 1 as these are where nothing but chance makes them differ, on both sides. It is the
/// level at which the interval of [`Estimate::of`] just reaches 1: the part of the medians of resampled turns that lie
/// on the other side of 1, here not drawn but computed, widened for small samples in the same way. Where all turns lie on
/// one side, it is what remains: that chance puts them there. Of fewer than two ratios nothing can be said: 1.
pub fn p_value(ratios: &[f64]) -> f64 {
    let count = ratios.len();
    if count < 2 || ratios.iter().any(|ratio| !ratio.is_finite()) {
        return 1.0;
    }
    let part = |is_there: fn(&f64) -> bool| ratios.iter().filter(|ratio| is_there(ratio)).count() as f64;
    let (below, above) = (part(|ratio| *ratio < 1.0), part(|ratio| *ratio > 1.0));
    // A turn that shows no difference lies on both sides.
    let other_side = (below.min(above) + (count as f64 - below - above) / 2.0) / count as f64;
    let beyond = median_beyond(count, other_side.min(0.5));
    let one_side = 2.0 * 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if (1.0 - within(middle, 1000)) / 2.0 > beyond { low = middle } else { high = middle }
    }
    let narrowed = low * ((count - 1) as f64 / count as f64).sqrt();
    (1.0 - within(narrowed, count - 1)).max(one_side).min(1.0)
}

/// How often the median of so many draws lies on that side of a bound on which each draw lies with this probability. Of
/// an even number the two middle draws may lie on both sides: half of these count.
fn median_beyond(count: usize, probability: f64) -> f64 {
    let mut term = (1.0 - probability).powi(i32::try_from(count).unwrap_or(i32::MAX));
    let odds = probability / (1.0 - probability);
    let mut sum = 0.0;
    for drawn in 0..=count {
        match (2 * drawn).cmp(&count) {
            Ordering::Greater => sum += term,
            Ordering::Equal => sum += term / 2.0,
            Ordering::Less => {}
        }
        term *= odds * (count - drawn) as f64 / (drawn + 1) as f64;
    }
    sum
}

/// Holm's correction: what each of these p-values comes to when all of them are looked at together.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        largest = largest.max(p_values[place] * (p_values.len() - rank) as f64).min(1.0);
        corrected[place] = largest;
    }
    corrected
}

fn middle(sample: &mut [f64]) -> f64 {
    sample.sort_unstable_by(f64::total_cmp);
    let middle = sample.len() / 2;
    match sample.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => f64::midpoint(sample[middle - 1], sample[middle]),
        _ => sample[middle],
    }
}

/// The value below which a normally distributed one lies with this probability (from 0.5 to almost 1).
pub fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        // With many degrees of freedom Student's distribution is the normal one.
        if within(middle, 1000) < 2.0 * probability - 1.0 { low = middle } else { high = middle }
    }
    low
}

/// How many of the medians lie beyond each end of the interval. A bootstrap of few values is too narrow; the ends move
/// outwards as far as Student's interval is wider than the normal one (Hesterberg's expanded percentiles).
fn tail(count: usize) -> usize {
    if count < 2 {
        return 0;
    }
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if within(middle, count - 1) < 0.95 { low = middle } else { high = middle }
    }
    let expanded = low * (count as f64 / (count - 1) as f64).sqrt();
    // With many degrees of freedom Student's distribution is the normal one.
    let beyond = (1.0 - within(expanded, 1000)) / 2.0 * RESAMPLES as f64;
    (0..=RESAMPLES / 40).rev().find(|tail| *tail as f64 <= beyond).unwrap_or(0)
}

/// The part of Student's distribution between -t and t, by its finite series for whole degrees of freedom
/// (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = if odd { 3 } else { 2 };
    while power + 2 <= freedom {
        let power_f = power as f64;
        term *= cosine * cosine * (power_f - 1.0) / power_f;
        sum += term;
        power += 2;
    }
    if odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum }
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
    fn pairs_are_of_one_turn() {
        let first = BTreeMap::from([(0, 1.0), (2, 3.0), (5, 6.0)]);
        let second = BTreeMap::from([(5, 60.0), (2, 30.0), (1, 20.0)]);
        assert_eq!(paired(&first, &second), [(3.0, 30.0), (6.0, 60.0)]);
        assert!(paired(&first, &BTreeMap::new()).is_empty());
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

    #[test]
    fn a_known_ratio_lies_in_its_interval() {
        let mut random = XorShift::new();
        for (turns, noise) in [(6, 0.02), (10, 0.2)] {
            let held = (0..100).filter(|_| {
                let ratios = made(&mut random, 1.3, noise, turns);
                let estimate = Estimate::of(&ratios);
                estimate.low <= 1.3 && 1.3 <= estimate.high
            });
            let held = held.count();
            assert!(held >= 95, "{turns} turns: {held} of 100");
        }
    }

    #[test]
    fn chance_alone_wins_nothing() {
        let mut random = XorShift::new();
        for turns in [3, 8] {
            let won = (0..100).filter(|_| {
                let ratios = made(&mut random, 1.0, 0.05, turns);
                let estimate = Estimate::of(&ratios);
                (estimate.low > 1.0 || estimate.high < 1.0) && p_value(&ratios) < 0.05
            });
            let won = won.count();
            assert!(won <= 5, "{turns} turns: {won} of 100");
        }
    }

    /// The smallest number of turns at which two equal servers are seldom told apart, found by simulation.
    #[test]
    fn a_verdict_needs_as_many_turns_as_chance_does() {
        let mut random = XorShift::new();
        let mut wrong = |turns: usize| {
            let apart = |ratios: &Vec<f64>| {
                ratios.iter().all(|ratio| *ratio > 1.0) || ratios.iter().all(|ratio| *ratio < 1.0)
            };
            (0..4000).filter(|_| apart(&made(&mut random, 1.0, 0.05, turns))).count() as f64 / 4000.0
        };
        let smallest = (2..10).find(|turns| wrong(*turns) <= 0.05);
        assert_eq!(smallest, Some(FEWEST as usize));
        assert!((0.2..0.3).contains(&wrong(3)), "one of four");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, value) in [(0.5, 0.0), (0.8, 0.8416), (0.975, 1.96), (0.9995, 3.29)] {
            assert!((normal_quantile(probability) - value).abs() < 0.02, "{probability}");
        }
    }

    #[test]
    fn more_comparisons_need_more_turns() {
        assert_eq!([0, 1, 2, 24, 100].map(fewest_for), [FEWEST, FEWEST, 7, 10, 12]);
        for family in [1, 2, 24, 100] {
            let significant = |turns: u32| {
                let mut all = vec![p_value(&vec![2.0; turns as usize]); 1];
                all.resize(family, 1.0);
                holm(&all)[0] < CHANCE
            };
            let fewest = fewest_for(family);
            assert!(significant(fewest) && !significant(fewest - 1), "{family}");
        }
    }

    #[test]
    fn p_values_are_those_of_the_tables() {
        let table = [(12.706, 1), (4.303, 2), (3.182, 3), (2.776, 4), (2.262, 9), (2.086, 20)];
        for (t, freedom) in table {
            assert!((within(t, freedom) - 0.95).abs() < 1e-4, "{t} {freedom}");
        }
        assert_eq!(p_value(&[2.0]), 1.0);
        assert_eq!(p_value(&[1.0, 1.0, 1.0]), 1.0);
        assert_eq!([p_value(&[2.0; 2]), p_value(&[0.5; 3]), p_value(&[2.0; 5])], [0.5, 0.25, 0.0625]);
        assert!(p_value(&[2.0; 20]) < 1e-5);
        assert_eq!(p_value(&[1.9, 2.0, 2.1]), 0.25, "three turns on one side are chance in one case of four");
        assert!((p_value(&[1.9, 2.0, 2.1]) - p_value(&[1.0 / 1.9, 0.5, 1.0 / 2.1])).abs() < 1e-9);
    }

    /// The interval and the p-value are one procedure: one leaves 1 out where the other is below 5 %.
    #[test]
    fn the_interval_and_the_p_value_agree() {
        let mut random = XorShift::new();
        let mut apart = 0;
        for _ in 0..60 {
            let ratios = made(&mut random, 1.02, 0.05, 20);
            let estimate = Estimate::of(&ratios);
            let is_outside = estimate.low > 1.0 || estimate.high < 1.0;
            apart += usize::from(is_outside != (p_value(&ratios) < 0.05));
        }
        assert!(apart <= 6, "{apart} of 60");
        let sides =
            |other: usize| (0..20).map(|turn| if turn < other { 0.9 } else { 1.1 }).collect::<Vec<_>>();
        let p: Vec<f64> = (0..=10).map(|other| p_value(&sides(other))).collect();
        assert!(p.windows(2).all(|pair| pair[0] < pair[1]) && p[3] < 0.05 && p[7] > 0.05, "{p:?}");
    }

    #[test]
    fn many_comparisons_are_corrected() {
        let close = |corrected: &[f64], expected: &[f64]| {
            corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9)
        };
        assert!(close(&holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]));
        assert!(close(&holm(&[0.5, 0.9]), &[1.0, 1.0]));
        assert!(holm(&[]).is_empty());
    }

    /// Ratios about a known one, with normal noise on their logarithms.
    fn made(random: &mut XorShift, ratio: f64, noise: f64, turns: usize) -> Vec<f64> {
        let mut even = || (random.below(1_000_000) as f64 + 0.5) / 1e6;
        let normal = || (-2.0 * even().ln()).sqrt() * (std::f64::consts::TAU * even()).cos();
        std::iter::repeat_with(normal).take(turns).map(|value| ratio * (noise * value).exp()).collect()
    }
}

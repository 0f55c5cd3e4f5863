//! Two series of figures side by side, turn by turn.

use std::collections::BTreeSet;

use crate::judge::statistics::{Estimate, median, paired};
use crate::model::words;

use super::data::{Place, Series, Turns};

/// Two contenders, two loads or two numbers of clients, at one place.
pub(super) struct Pair {
    /// Where, for people.
    pub(super) at: String,
    /// The two medians.
    pub(super) values: (f64, f64),
    /// The first by the second, over the pairs of one turn.
    pub(super) ratio: Estimate,
    /// The ratio in each turn.
    pub(super) ratios: Vec<f64>,
}

impl Pair {
    /// `None` where the two have no turn in common. An inverted ratio is the second by the first, for figures of
    /// which less is better.
    pub(super) fn of(at: String, first: &Turns, second: &Turns, inverted: bool) -> Option<Pair> {
        let mut both = paired(first, second);
        both.retain(|(one, other)| *one > 0.0 && *other > 0.0);
        if both.is_empty() {
            return None;
        }
        let ratio = |(one, other): &(f64, f64)| if inverted { other / one } else { one / other };
        let ratios: Vec<f64> = both.iter().map(ratio).collect();
        let column = |pick: fn(&(f64, f64)) -> f64| median(&both.iter().map(pick).collect::<Vec<f64>>());
        Some(Pair {
            at,
            values: (column(|pair| pair.0), column(|pair| pair.1)),
            ratio: Estimate::of(&ratios),
            ratios,
        })
    }
}

/// A pair at each place that both series have.
pub(super) fn each(first: &Series, second: &Series, inverted: bool) -> Vec<Pair> {
    let places: Vec<Place> = first.keys().filter(|place| second.contains_key(place)).copied().collect();
    let many_cores = cores(first).len() > 1;
    let pair = |place: &Place| {
        let at = if many_cores {
            format!("{}, {}", with(place.0), words::clients(place.1))
        } else {
            words::clients(place.1)
        };
        Pair::of(at, &first[place], &second[place], inverted)
    };
    places.iter().filter_map(pair).collect()
}

/// A pair for each number of cores: the geometric mean over the numbers of clients that both series have.
pub(super) fn together(first: &Series, second: &Series, inverted: bool) -> Vec<Pair> {
    let pair = |cores: &u32| {
        let (one, other) = means((*cores, first), (*cores, second));
        Pair::of(with(*cores), &one, &other, inverted)
    };
    cores(first).iter().filter_map(pair).collect()
}

/// A pair of two numbers of cores.
pub(super) fn cores_apart(series: &Series, to: u32, from: u32) -> Option<Pair> {
    let (one, other) = means((to, series), (from, series));
    Pair::of(format!("{} by {}", with(to), with(from)), &one, &other, false)
}

/// For each number of cores a pair of two numbers of clients; the most and the fewest where none are given.
pub(super) fn clients_apart(series: &Series, to: Option<u32>, from: Option<u32>) -> Vec<Pair> {
    let pair = |cores: &u32| {
        let mut places = series.range((*cores, 0)..=(*cores, u32::MAX)).map(|(place, _)| place.1);
        let (from, to) = (from.or(places.next())?, to.or(places.next_back())?);
        let (one, other) = (series.get(&(*cores, to))?, series.get(&(*cores, from))?);
        let at = format!("{} by {}", words::clients(to), words::clients(from));
        Pair::of(at, one, other, false)
    };
    cores(series).iter().filter_map(pair).collect()
}

fn means(first: (u32, &Series), second: (u32, &Series)) -> (Turns, Turns) {
    let clients: Vec<u32> = first.1.keys().filter(|place| place.0 == first.0).map(|place| place.1).collect();
    let columns = clients
        .iter()
        .filter_map(|count| Some((first.1.get(&(first.0, *count))?, second.1.get(&(second.0, *count))?)));
    let columns: Vec<(&Turns, &Turns)> = columns.collect();
    let turns: BTreeSet<u32> = columns.iter().flat_map(|(one, _)| one.keys().copied()).collect();
    let mut means = (Turns::new(), Turns::new());
    for turn in turns {
        let of_turn = columns.iter().filter_map(|(one, other)| Some((*one.get(&turn)?, *other.get(&turn)?)));
        let of_turn: Vec<(f64, f64)> = of_turn.filter(|(one, other)| *one > 0.0 && *other > 0.0).collect();
        if !of_turn.is_empty() {
            means.0.insert(turn, geometric_mean(of_turn.iter().map(|pair| pair.0)));
            means.1.insert(turn, geometric_mean(of_turn.iter().map(|pair| pair.1)));
        }
    }
    means
}

fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

fn cores(series: &Series) -> BTreeSet<u32> {
    series.keys().map(|place| place.0).collect()
}

fn with(cores: u32) -> String {
    if cores == 1 { "1 core".into() } else { format!("{cores} cores") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(Place, &[f64])]) -> Series {
        let turns = |values: &[f64]| (0..).zip(values.iter().copied()).collect();
        values.iter().map(|(place, values)| (*place, turns(values))).collect()
    }

    #[test]
    fn pairs_are_of_one_turn() {
        let first = series(&[((1, 10), &[2.0, 20.0, 6.0]), ((1, 50), &[1.0])]);
        let second = series(&[((1, 10), &[1.0, 10.0]), ((1, 90), &[1.0])]);
        let pairs = each(&first, &second, false);
        assert_eq!(pairs.len(), 1);
        assert_eq!(
            (pairs[0].ratio.median, pairs[0].ratios.len(), pairs[0].at.as_str()),
            (2.0, 2, "10 clients")
        );
        assert_eq!(each(&first, &second, true)[0].ratio.median, 0.5);
    }

    #[test]
    fn numbers_of_clients_are_taken_together() {
        let first = series(&[((1, 10), &[8.0]), ((1, 50), &[2.0]), ((2, 10), &[16.0])]);
        let second = series(&[((1, 10), &[1.0]), ((1, 50), &[1.0]), ((2, 10), &[4.0])]);
        let pairs = together(&first, &second, false);
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio.median).collect();
        assert!((ratios[0] - 4.0).abs() < 1e-9 && (ratios[1] - 4.0).abs() < 1e-9, "{ratios:?}");
        assert!((cores_apart(&first, 2, 1).unwrap().ratio.median - 2.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_of_clients_apart() {
        let one = series(&[((1, 10), &[8.0]), ((1, 50), &[4.0]), ((1, 90), &[2.0])]);
        assert_eq!(clients_apart(&one, None, None)[0].ratio.median, 0.25);
        assert_eq!(clients_apart(&one, Some(50), None)[0].ratio.median, 0.5);
        assert!(clients_apart(&one, Some(51), None).is_empty());
    }
}

//! What a run will be able to show, before it is made: from the noise of earlier results.

use std::collections::BTreeMap;

use crate::judge::statistics::{CHANCE, fewest_for, median, normal_quantile};
use crate::model::block::{self, Block};
use crate::model::experiment::{Condition, Experiment};
use crate::model::figure::Figure;

/// How often a difference of the given size is shown.
const POWER: f64 = 0.8;

/// A median scatters so much more than a mean, if noise is normal.
const MEDIAN_BY_MEAN: f64 = 1.2533;

/// How much requests per second of two contenders differ from turn to turn, for each load of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise(BTreeMap<String, f64>);

impl Noise {
    /// The noise of an experiment's loads in these blocks: the standard deviation of the logarithm of the ratio of the requests
    /// per second of two contenders whose names follow each other, over all such pairs. A load needs two turns.
    pub fn of(experiment: &Experiment, blocks: &[Block]) -> Noise {
        let counts = |block: &&Block| {
            block.cell.experiment == experiment.id
                && block.failure.is_none()
                && !block.circumstances.is_busy()
                && block.figures.get(&Figure::Failed).is_none_or(|failed| *failed == 0.0)
        };
        let blocks: Vec<&Block> = blocks.iter().filter(counts).collect();
        let of_load = |load: &str| {
            let of_load: Vec<&Block> =
                blocks.iter().filter(|block| block.cell.load == load).copied().collect();
            Some((load.to_owned(), deviation(&of_load)?))
        };
        Noise(experiment.loads.iter().filter_map(|load| of_load(&load.id)).collect())
    }

    /// The difference that so many turns show in four runs of five, as a part of 1, and the load: the median of the loads, and
    /// the noisiest load. `None` if no load is known. The noise floor is not in it: a verdict needs a larger difference than
    /// that of two twins.
    pub fn shows(&self, turns: u32, comparisons: usize) -> Option<(f64, (f64, &str))> {
        let shown = |deviation: &f64| shown(*deviation, turns, comparisons);
        let (worst, deviation) = self.0.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
        let all: Vec<f64> = self.0.values().map(shown).collect();
        Some((median(&all), (shown(deviation), worst)))
    }
}

/// Of how many comparisons the family of an experiment is, if all loads are measured that a machine with so many cores can run.
pub fn comparisons(experiment: &Experiment, quick: bool, cores: u32) -> usize {
    let here = |all: &[u32]| all.iter().filter(|needed| **needed <= cores).count();
    let places = |load: &str, together: bool| {
        let load = experiment.loads.iter().find(|known| known.id == load);
        load.map_or(1, |load| {
            let clients = if together { 1 } else { load.clients(quick).len() };
            clients * here(load.cores(quick))
        })
    };
    let of = |condition: &Condition| match condition {
        Condition::Better { load, by, clients, cores, together, .. } => {
            let chosen = clients.as_ref().map_or(usize::MAX, |clients| clients.each().len());
            let cores = cores.as_ref().map_or(usize::MAX, |cores| here(cores));
            let size = if by.is_some_and(|by| by > 1.0) { 2 } else { 1 };
            size * places(load, *together).min(chosen.saturating_mul(cores))
        }
        Condition::Ratio { load, clients, cores, together, .. } => {
            let chosen = clients.as_ref().map_or(usize::MAX, |clients| clients.each().len());
            places(load, *together)
                .min(chosen.saturating_mul(cores.as_ref().map_or(usize::MAX, |cores| here(cores))))
        }
        Condition::Change { from_cores, to_cores, .. } => {
            usize::from(from_cores.max(to_cores).is_none_or(|needed| needed <= cores))
        }
        Condition::AgainstLoad { .. } => 1,
        Condition::AnswersAll { .. } | Condition::Fails { .. } => 0,
    };
    experiment.findings.iter().flat_map(|finding| &finding.holds_when).map(of).sum()
}

/// The smallest difference that so many turns show, where every comparison is corrected as the first one is by Holm.
fn shown(deviation: f64, turns: u32, comparisons: usize) -> f64 {
    if turns < fewest_for(comparisons) {
        return f64::INFINITY;
    }
    let level = CHANCE / comparisons.max(1) as f64 / 2.0;
    let errors = normal_quantile(1.0 - level) + normal_quantile(POWER);
    (errors * MEDIAN_BY_MEAN * deviation / f64::from(turns).sqrt()).exp_m1()
}

/// The logarithms of the rates of contenders.
type Rates<'a> = Vec<(&'a str, f64)>;

/// The pooled deviation of contenders whose names follow each other. They need not have been measured one after the other.
fn deviation(blocks: &[&Block]) -> Option<f64> {
    let mut turns: BTreeMap<(u32, u32, u32), Rates<'_>> = BTreeMap::new();
    for block in blocks {
        let cell = &block.cell;
        if let Some(rate) = block.figures.get(&Figure::RequestsPerS).filter(|rate| **rate > 0.0) {
            let place = (cell.cores, cell.clients, block.turn);
            turns.entry(place).or_default().push((&cell.contender, rate.ln()));
        }
    }
    let mut ratios: BTreeMap<(u32, u32, &str, &str), Vec<f64>> = BTreeMap::new();
    for ((cores, clients, _), mut of_turn) in turns {
        // By name, a twin next to its original: every turn has the same pairs, whatever its order.
        of_turn.sort_by_key(|(name, _)| (block::original_of(name).unwrap_or(name), *name));
        for pair in of_turn.windows(2) {
            let ((one, first), (other, second)) = (pair[0], pair[1]);
            ratios.entry((cores, clients, one, other)).or_default().push(first - second);
        }
    }
    let (mut squares, mut freedom) = (0.0, 0);
    for logs in ratios.values().filter(|logs| logs.len() > 1) {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    (freedom > 0).then(|| (squares / freedom as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::statistics::Estimate;
    use crate::model::block::tests::block;
    use crate::model::random::XorShift;

    fn experiment() -> Experiment {
        Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = [10, 20]\nseconds = 1.0\n\
             [[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [\
             { is = 'better', figure = 'requests_per_s', load = 'l', of = 'a', over = 'b', by = 1.5 }, \
             { is = 'change', figure = 'requests_per_s', load = 'l', of = 'a', low = 0.9 }]\n",
        )
        .unwrap()
    }

    /// Blocks of two contenders with a normal noise of 5 % between them.
    fn blocks(turns: u32, ratio: f64, random: &mut XorShift) -> Vec<Block> {
        let of_turn = |turn| {
            let mut even = || (random.below(1_000_000) as f64 + 0.5) / 1e6;
            let normal = (-2.0 * even().ln()).sqrt() * (std::f64::consts::TAU * even()).cos();
            let rates = [("a", ratio * 100.0 * (0.05 * normal).exp()), ("b", 100.0)];
            rates.map(|(name, rate)| Block { turn, ..block(name, "l", 10, &[(Figure::RequestsPerS, rate)]) })
        };
        (0..turns).flat_map(of_turn).collect()
    }

    #[test]
    fn noise_is_found_again() {
        let noise = Noise::of(&experiment(), &blocks(200, 1.3, &mut XorShift::new()));
        let found = noise.0["l"];
        assert!((0.045..0.055).contains(&found), "{found}");
        let once = Noise::of(&experiment(), &blocks(1, 1.3, &mut XorShift::new()));
        assert_eq!((once.shows(20, 1), &once), (None, &Noise::default()));
    }

    #[test]
    fn a_family_counts_places_and_directions() {
        assert_eq!(comparisons(&experiment(), false, 2), 5, "two numbers of clients, twice; and a change");
        let all = Experiment::built_in().unwrap();
        let cores = all.iter().find(|experiment| experiment.id == "static-cores").unwrap();
        assert_eq!([2, 4, 8, 64].map(|here| comparisons(cores, false, here)), [76, 115, 185, 185]);
        assert_eq!([2, 4, 8, 64].map(|here| comparisons(cores, true, here)), [76, 81, 101, 101]);
    }

    /// The promise is kept: of runs with such a difference, about four of five show it.
    #[test]
    fn what_a_run_shows_is_what_it_promises() {
        let noise = Noise([("l".to_owned(), 0.05)].into());
        let (promised, _) = noise.shows(20, 1).unwrap();
        assert!((0.03..0.05).contains(&promised), "{promised}");
        let mut random = XorShift::new();
        let shown = (0..60).filter(|_| {
            let blocks = blocks(20, 1.0 + promised, &mut random);
            let rates = blocks.iter().filter(|block| block.cell.contender == "a");
            let ratios: Vec<f64> = rates.map(|block| block.figures[&Figure::RequestsPerS] / 100.0).collect();
            Estimate::of(&ratios).low > 1.0
        });
        let shown = shown.count();
        assert!((39..=56).contains(&shown), "{shown} of 60");
        assert!(noise.shows(20, 50).unwrap().0 > promised && noise.shows(80, 1).unwrap().0 < promised / 1.9);
        assert_eq!(noise.shows(6, 50).unwrap().0, f64::INFINITY, "no difference is shown by so few turns");
    }
}

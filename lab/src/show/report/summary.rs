//! What the blocks say, before it is said in any form: medians and ratios. All of it is pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::statistics::{Estimate, median, paired};
use crate::model::block::{Block, Cell, original_of, twin_of};
use crate::model::experiment::{Experiment, KNEE_MS, Kind, Load, TURNS};
use crate::model::figure::Figure;

/// An interval of fewer turns says little.
pub(super) const TURNS_MIN: usize = 3;

/// All blocks by what they measured.
pub(super) struct Summary<'a> {
    blocks: &'a [Block],
    cells: BTreeMap<&'a Cell, Vec<&'a Block>>,
}

/// A load of an experiment on a number of cores, with all that was measured of it.
pub(super) struct Work<'a> {
    /// The experiment.
    pub(super) experiment: &'a Experiment,
    /// The load.
    pub(super) load: &'a Load,
    /// The cores of the contenders.
    pub(super) cores: u32,
    /// The numbers of clients, ascending.
    pub(super) clients: Vec<u32>,
    /// The contenders in the experiment's order, those that it does not name after them; no twins.
    pub(super) contenders: Vec<&'a str>,
    /// Whether any of its figures is of a quick run.
    pub(super) quick: bool,
    /// Whether it was repeated less often than a claim needs.
    pub(super) indicative: bool,
    /// To which part blocks were shortened, where they were.
    pub(super) share: Option<f64>,
}

/// A contender and its twin: the same program measured as if it were two.
pub(super) struct Twins<'a> {
    /// What was measured.
    pub(super) cell: &'a Cell,
    /// The twin's rate divided by the contender's.
    pub(super) ratio: Estimate,
    /// In how many turns.
    pub(super) turns: usize,
}

impl<'a> Summary<'a> {
    /// Sorts blocks by what they measured.
    pub(super) fn of(blocks: &'a [Block]) -> Summary<'a> {
        let mut cells: BTreeMap<&Cell, Vec<&Block>> = BTreeMap::new();
        for block in blocks {
            cells.entry(&block.cell).or_default().push(block);
        }
        for blocks in cells.values_mut() {
            blocks.sort_by(|a, b| a.turn.cmp(&b.turn).then(a.began_s.total_cmp(&b.began_s)));
        }
        Summary { blocks, cells }
    }

    /// All blocks as they were written.
    pub(super) fn blocks(&self) -> &'a [Block] {
        self.blocks
    }

    /// All that was measured, in its order.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        self.cells.keys().copied()
    }

    /// The blocks of a cell that have figures, by turn. Where there are some of a full run, those of quick runs
    /// are not among them.
    pub(super) fn measured(&self, cell: &Cell) -> Vec<&'a Block> {
        let good = self.all(cell).iter().filter(|block| block.failure.is_none());
        let any_full = good.clone().any(|block| !block.quick);
        good.filter(|block| !(any_full && block.quick)).copied().collect()
    }

    /// All blocks of a cell, those without figures too.
    pub(super) fn all(&self, cell: &Cell) -> &[&'a Block] {
        self.cells.get(cell).map(Vec::as_slice).unwrap_or_default()
    }

    /// A figure in each turn that has it.
    pub(super) fn turns(&self, cell: &Cell, figure: Figure) -> BTreeMap<u32, f64> {
        self.turns_where(cell, figure, |_| true)
    }

    /// The same of what began on a quiet machine: of nothing else is said who leads.
    pub(super) fn quiet_turns(&self, cell: &Cell, figure: Figure) -> BTreeMap<u32, f64> {
        self.turns_where(cell, figure, |block| !block.circumstances.is_busy())
    }

    fn turns_where(&self, cell: &Cell, figure: Figure, counts: fn(&Block) -> bool) -> BTreeMap<u32, f64> {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for block in self.measured(cell).into_iter().filter(|block| counts(block)) {
            if let Some(value) = block.figures.get(&figure) {
                values.entry(block.turn).or_default().push(*value);
            }
        }
        values.into_iter().map(|(turn, values)| (turn, median(&values))).collect()
    }

    /// The median of a figure over the turns, its interval, and how many turns there are.
    pub(super) fn estimate(&self, cell: &Cell, figure: Figure) -> Option<(Estimate, usize)> {
        let values: Vec<f64> = self.turns(cell, figure).into_values().collect();
        (!values.is_empty()).then(|| (interval(&values), values.len()))
    }

    /// The median of a figure with its smallest and largest value: what a chart shows of each of many points.
    pub(super) fn span(&self, cell: &Cell, figure: Figure) -> Option<Estimate> {
        let values: Vec<f64> = self.turns(cell, figure).into_values().collect();
        (!values.is_empty()).then(|| span(&values))
    }

    /// The block that is shown for a cell: the one whose figure is nearest to the median of all turns.
    pub(super) fn typical(&self, cell: &Cell, figure: Figure) -> Option<&'a Block> {
        let middle = self.span(cell, figure).map(|span| span.median);
        let distance = |block: &&Block| match (block.figures.get(&figure), middle) {
            (Some(value), Some(middle)) => (value - middle).abs(),
            _ => f64::INFINITY,
        };
        self.measured(cell).into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// The loads of an experiment with what was measured of them, in the order of its file.
    pub(super) fn works(&self, experiment: &'a Experiment) -> Vec<Work<'a>> {
        let of_load = |load: &'a Load| {
            let cells: Vec<&Cell> = self
                .cells()
                .filter(|cell| {
                    cell.experiment == experiment.id
                        && cell.load == load.id
                        && original_of(&cell.contender).is_none()
                })
                .collect();
            let cores: BTreeSet<u32> = cells.iter().map(|cell| cell.cores).collect();
            let works: Vec<Work<'a>> =
                cores.into_iter().map(|cores| self.work(experiment, load, cores, &cells)).collect();
            works
        };
        experiment.loads.iter().flat_map(of_load).collect()
    }

    fn work(&self, experiment: &'a Experiment, load: &'a Load, cores: u32, cells: &[&'a Cell]) -> Work<'a> {
        let cells = || cells.iter().filter(|cell| cell.cores == cores);
        let clients: BTreeSet<u32> = cells().map(|cell| cell.clients).collect();
        let place = |name: &str| {
            experiment
                .contenders
                .iter()
                .position(|known| known == name)
                .unwrap_or(experiment.contenders.len())
        };
        let names: BTreeSet<&str> = cells().map(|cell| cell.contender.as_str()).collect();
        let mut contenders: Vec<&str> = names.into_iter().collect();
        contenders.sort_by_key(|name| place(name));
        let blocks: Vec<Vec<&Block>> = cells().map(|cell| self.measured(cell)).collect();
        let quick = blocks.iter().flatten().any(|block| block.quick);
        let turns = blocks.iter().map(Vec::len).max().unwrap_or_default();
        Work {
            experiment,
            load,
            cores,
            clients: clients.into_iter().collect(),
            contenders,
            quick,
            indicative: turns < TURNS as usize,
            share: blocks.iter().flatten().filter_map(|block| block.share).reduce(f64::min),
        }
    }

    /// A figure in each turn that began on a quiet machine; where the load is raised until it breaks, the most clients that
    /// were all answered in time.
    pub(super) fn values(
        &self,
        work: &Work<'a>,
        name: &str,
        clients: u32,
        figure: Figure,
    ) -> BTreeMap<u32, f64> {
        if work.load.kind != Kind::Knee || figure != Figure::Connections {
            return self.quiet_turns(&work.cell(name, clients), figure);
        }
        let mut most = BTreeMap::new();
        for clients in &work.clients {
            let quiet = self.measured(&work.cell(name, *clients));
            for block in quiet.into_iter().filter(|block| !block.circumstances.is_busy()) {
                let value = |figure: Figure| block.figures.get(&figure).copied().unwrap_or_default();
                let slowest_ms = value(Figure::P99Ms).max(value(Figure::MeanMs));
                let is_answered = value(Figure::Failed) <= 0.0 && slowest_ms <= KNEE_MS;
                let held = if is_answered { f64::from(*clients) } else { 0.0 };
                let known = most.entry(block.turn).or_insert(held);
                *known = held.max(*known);
            }
        }
        most
    }

    /// Every contender that was measured besides its twin.
    pub(super) fn twins(&self) -> Vec<Twins<'a>> {
        let twin = |cell: &'a Cell| {
            let contender = twin_of(&cell.contender);
            let twin = self.turns(&Cell { contender, ..cell.clone() }, Figure::RequestsPerS);
            let ratios = ratios(&twin, &self.turns(cell, Figure::RequestsPerS));
            (!ratios.is_empty()).then(|| Twins { cell, ratio: interval(&ratios), turns: ratios.len() })
        };
        self.cells().filter_map(twin).collect()
    }
}

impl<'a> Work<'a> {
    /// The cell of a contender in this work.
    pub(super) fn cell(&self, contender: &str, clients: u32) -> Cell {
        Cell {
            experiment: self.experiment.id.clone(),
            load: self.load.id.clone(),
            contender: contender.into(),
            clients,
            cores: self.cores,
        }
    }

    /// Its name for people, with the cores where there may be several.
    pub(super) fn title(&self) -> String {
        match self.load.cores[..] {
            [only] if only == self.cores => self.load.title.clone(),
            _ => format!("{}, {}", self.load.title, super::format::cores(self.cores)),
        }
    }

    /// The figure that ranks the servers.
    pub(super) fn deciding(&self) -> Figure {
        self.load.ranked_by.unwrap_or(match self.load.kind {
            Kind::Idle => Figure::MemoryPerConnectionBytes,
            Kind::Knee => Figure::Connections,
            Kind::Load | Kind::Reload => Figure::RequestsPerS,
        })
    }

    /// The figure that is drawn over the number of clients.
    pub(super) fn drawn(&self) -> Figure {
        if self.load.kind == Kind::Idle { Figure::MemoryPerConnectionBytes } else { Figure::RequestsPerS }
    }

    /// The numbers of clients that were measured, for people.
    pub(super) fn at(&self, clients: u32) -> String {
        match (self.load.kind, clients) {
            (Kind::Idle, count) => format!("{} connections", super::format::count(count)),
            (_, 1) => "1 client".into(),
            (_, count) => format!("{} clients", super::format::count(count)),
        }
    }
}

/// The geometric mean, with which ratios are averaged; of none, not a number.
pub(super) fn geometric_mean(ratios: &[f64]) -> f64 {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (logs / ratios.len() as f64).exp()
}

/// The median with its bootstrap interval. For up to five values that interval is from the smallest to the largest:
/// a sample of five has one value as its median in 6 of 100 cases, more than either end of the interval leaves out.
pub(super) fn interval(values: &[f64]) -> Estimate {
    if values.len() <= 5 { span(values) } else { Estimate::of(values) }
}

fn span(values: &[f64]) -> Estimate {
    let ends = |(low, high): (f64, f64), value: &f64| (low.min(*value), high.max(*value));
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    Estimate { median: median(values), low, high }
}

/// One figure divided by another, in each turn that has both.
pub(super) fn ratios(dividend: &BTreeMap<u32, f64>, divisor: &BTreeMap<u32, f64>) -> Vec<f64> {
    paired(dividend, divisor)
        .into_iter()
        .map(|(value, by)| if value == by { 1.0 } else { value / by })
        .filter(|ratio| ratio.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::report::fixture;

    #[test]
    fn quick_blocks_and_failures_do_not_enter_medians() {
        let mut blocks = fixture::blocks_of(&[("nginx", &[100.0, 104.0, 1.0, 2.0])]);
        blocks[2].quick = true;
        blocks[3].failure = Some("refused".into());
        let summary = Summary::of(&blocks);
        let (estimate, turns) = summary.estimate(&blocks[0].cell, Figure::RequestsPerS).unwrap();
        assert_eq!((estimate.median, turns), (102.0, 2));
        blocks[0].failure = Some("refused".into());
        blocks[1].failure = Some("refused".into());
        let summary = Summary::of(&blocks);
        assert_eq!(summary.estimate(&blocks[0].cell, Figure::RequestsPerS).unwrap().0.median, 1.0);
    }

    #[test]
    fn works_follow_the_order_of_the_experiment() {
        let (experiments, blocks) = (fixture::experiments(), fixture::blocks());
        let summary = Summary::of(&blocks);
        let works = summary.works(&experiments[0]);
        assert_eq!(works[0].contenders[..2], ["fulmar", "nginx"]);
        assert!(works[0].clients.is_sorted() && works[0].clients.len() > 5);
    }

    #[test]
    fn the_short_way_to_an_interval_is_the_bootstrap() {
        for values in [&[3.0, 1.0][..], &[2.0, 9.0, 4.0], &[1.0, 2.0, 4.0, 8.0], &[5.0, 1.0, 3.0, 2.0, 9.0]] {
            assert_eq!(interval(values), Estimate::of(values));
        }
    }

    #[test]
    fn ratios_are_averaged_by_their_product() {
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }
}

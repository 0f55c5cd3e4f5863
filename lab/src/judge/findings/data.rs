//! The figures that findings are tested on, measured or published, and why one is not there.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::statistics::FEWEST;
use crate::model::block::{self, Block};
use crate::model::experiment::{Clients, Experiment, Kind, Load, TURNS};
use crate::model::figure::Figure;
use crate::model::machine::Machine;
use crate::model::words;

use super::short;

/// How many letters of a failure stand in a sentence.
const REASON_MAX: usize = 160;

/// A value for each turn.
pub(super) type Turns = BTreeMap<u32, f64>;

/// The number of cores and that of clients.
pub(super) type Place = (u32, u32);

/// A contender's values of one figure in one load.
pub(super) type Series = BTreeMap<Place, Turns>;

/// What is known of an experiment and of those that its findings name.
pub(super) struct Data<'a> {
    pub(super) experiment: &'a Experiment,
    /// All experiments, for those that a finding names.
    pub(super) others: &'a [Experiment],
    pub(super) machine: &'a Machine,
    /// So many turns a verdict needs.
    fewest: usize,
    rows: Vec<Row<'a>>,
    /// Blocks that began on a busy machine, of which nothing is said.
    busy: Vec<Row<'a>>,
}

/// One turn of one cell.
pub(super) struct Row<'a> {
    experiment: &'a str,
    load: &'a str,
    pub(super) contender: &'a str,
    pub(super) place: Place,
    turn: u32,
    /// Whether it is of a quick run, whose loads may be smaller.
    pub(super) quick: bool,
    /// Whether it was shortened, so that a full run kept to a time.
    pub(super) shortened: bool,
    pub(super) figures: &'a BTreeMap<Figure, f64>,
    pub(super) failure: Option<&'a str>,
}

impl<'a> Row<'a> {
    /// What a block says.
    pub(super) fn of(block: &'a Block) -> Row<'a> {
        Row {
            experiment: &block.cell.experiment,
            load: &block.cell.load,
            contender: &block.cell.contender,
            place: (block.cell.cores, block.cell.clients),
            turn: block.turn,
            quick: block.quick,
            shortened: !block.quick && block.share.is_some(),
            figures: &block.figures,
            failure: block.failure.as_deref(),
        }
    }
}

/// Which places count.
#[derive(Clone, Copy, Default)]
pub(super) struct Filter<'a> {
    pub(super) clients: Option<&'a Clients>,
    pub(super) cores: Option<&'a [u32]>,
}

impl<'a> Data<'a> {
    /// What was measured.
    pub(super) fn measured(
        experiment: &'a Experiment,
        others: &'a [Experiment],
        blocks: &'a [Block],
        machine: &'a Machine,
    ) -> Data<'a> {
        let (busy, quiet): (Vec<&Block>, Vec<&Block>) =
            blocks.iter().partition(|block| block.circumstances.is_busy());
        let rows = |blocks: Vec<&'a Block>| blocks.into_iter().map(Row::of).collect();
        Data { experiment, others, machine, fewest: FEWEST as usize, rows: rows(quiet), busy: rows(busy) }
    }

    /// What was published: one turn.
    pub(super) fn published(experiment: &'a Experiment, machine: &'a Machine) -> Data<'a> {
        let rows = experiment.published.iter().filter_map(|published| {
            let load = experiment.loads.iter().find(|load| load.id == published.load)?;
            let clients = published.clients.or(load.clients.each().first().copied())?;
            Some(Row {
                experiment: &experiment.id,
                load: &published.load,
                contender: &published.contender,
                place: (published.cores.or(load.cores.first().copied())?, clients),
                turn: 0,
                quick: false,
                shortened: false,
                figures: &published.figures,
                failure: None,
            })
        });
        Data { experiment, others: &[], machine, fewest: 1, rows: rows.collect(), busy: Vec::new() }
    }

    /// Whether this load was repeated less often than a claim needs.
    pub(super) fn few_turns(&self, load: &str) -> bool {
        let turns: BTreeSet<u32> = self.of_load(load).map(|row| row.turn).collect();
        turns.len() < TURNS as usize
    }

    /// How many turns a verdict on a load needs. Idle connections are counted once.
    pub(super) fn fewest(&self, load: &str) -> usize {
        let is_idle = self.load(load).is_some_and(|load| load.kind == Kind::Idle);
        if is_idle { 1 } else { self.fewest }
    }

    /// The twins that were measured in a load.
    pub(super) fn twins(&self, load: &str) -> BTreeSet<&str> {
        self.of_load(load)
            .map(|row| row.contender)
            .filter(|name| block::original_of(name).is_some())
            .collect()
    }

    /// The load's name for people.
    pub(super) fn title<'b>(&'b self, load: &'b str) -> &'b str {
        self.load(load).map_or(load, |load| &load.title)
    }

    /// Whether blocks of these contenders were long enough at the places that count. Otherwise in what they were not.
    pub(super) fn long_enough(
        &self,
        load: &str,
        contenders: &[&str],
        filter: Filter<'_>,
    ) -> Result<(), String> {
        let counts = |row: &&Row<'_>| contenders.contains(&row.contender) && filter.holds(row.place);
        let short =
            self.load(load).and_then(|known| short::too_short(known, self.of_load(load).filter(counts)));
        short.map_or(Ok(()), Err)
    }

    /// A contender's values, at the places that count. Otherwise the reason why there are none.
    pub(super) fn series(
        &self,
        load: &str,
        contender: &str,
        figure: Figure,
        filter: Filter<'_>,
    ) -> Result<Series, String> {
        let mut series = Series::new();
        for row in self.of_load(load).filter(|row| row.contender == contender && filter.holds(row.place)) {
            // A server that did not take all connections nevertheless held some.
            let counts = row.failure.is_none() || figure == Figure::Connections;
            let value = row.figures.get(&figure).filter(|value| value.is_finite() && counts);
            if let Some(value) = value {
                series.entry(row.place).or_default().insert(row.turn, *value);
            }
        }
        if series.is_empty() { Err(self.why_not(load, contender, figure, filter)) } else { Ok(series) }
    }

    fn why_not(&self, load: &str, contender: &str, figure: Figure, filter: Filter<'_>) -> String {
        if let Some(reason) = self.load(load).and_then(|load| load.not_yet.as_ref()) {
            return reason.clone();
        }
        let least = filter.cores.and_then(|cores| cores.iter().min().copied()).unwrap_or(0);
        if least > self.machine.cores {
            // The same words for all findings of the load, so that the report says them once.
            let more = self.load(load).into_iter().flat_map(|load| &load.cores);
            let more = more.filter(|cores| **cores > self.machine.cores);
            let more: Vec<String> = more.map(u32::to_string).collect();
            return format!(
                "{} cores are needed, and this machine has {}",
                more.join(" or "),
                self.machine.cores
            );
        }
        let of_contender = || self.of_load(load).filter(|row| row.contender == contender);
        let failed =
            of_contender().filter(|row| filter.cores.is_none_or(|cores| cores.contains(&row.place.0)));
        if let Some(failure) = failed.filter_map(|row| row.failure).next() {
            return format!("{contender}: {}", first_of(failure));
        }
        let here: BTreeSet<u32> =
            of_contender().filter(|row| row.figures.contains_key(&figure)).map(|row| row.place.1).collect();
        if !here.is_empty() {
            let counts: Vec<String> = here.into_iter().map(|count| words::number(f64::from(count))).collect();
            return format!(
                "{contender} was measured with {} clients only, or not on these cores",
                counts.join(", ")
            );
        }
        let (experiment, name) = self.split(load);
        let is_of_it =
            |row: &&Row<'_>| row.experiment == experiment && row.load == name && row.contender == contender;
        if of_contender().next().is_none() && self.busy.iter().any(|row| is_of_it(&row)) {
            let title = self.title(load);
            return format!("all runs of {contender} under “{title}” began on a busy machine");
        }
        if of_contender().next().is_some() {
            return format!("no figure of {contender} says {}", words::named(figure));
        }
        match self.load(load).and_then(|load| load.quick.as_ref()) {
            Some(quick) if quick.skip && self.of_load(load).next().is_none() => {
                format!("“{}” is left out of a quick run", self.title(load))
            }
            _ => format!("{contender} was not measured under “{}”", self.title(load)),
        }
    }

    /// The rows of a load.
    fn of_load<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Row<'a>> {
        let (experiment, load) = self.split(name);
        self.rows.iter().filter(move |row| row.experiment == experiment && row.load == load)
    }

    fn load(&self, name: &str) -> Option<&Load> {
        let (experiment, load) = self.split(name);
        let all = std::iter::once(self.experiment).chain(self.others);
        let mut loads = all.filter(|other| other.id == experiment).flat_map(|other| &other.loads);
        loads.find(|other| other.id == load)
    }

    fn split<'b>(&'b self, name: &'b str) -> (&'b str, &'b str) {
        name.split_once('/').unwrap_or((&self.experiment.id, name))
    }
}

impl Filter<'_> {
    /// Whether a place is among them.
    fn holds(&self, (cores, clients): Place) -> bool {
        self.clients.is_none_or(|counts| counts.each().contains(&clients))
            && self.cores.is_none_or(|counts| counts.contains(&cores))
    }
}

/// The beginning of a reason: what failed prints what it likes.
fn first_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

//! The figures that findings are tested on, measured or published, and why one is not there.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::statistics::{FEWEST, median};
use crate::model::block::{self, Block};
use crate::model::experiment::{Clients, Experiment, Load, TURNS};
use crate::model::figure::{FAILED_PERCENT_FEW, Figure, TIMEOUT_MS};
use crate::model::machine::Machine;
use crate::model::words;

use super::short;

/// How many letters of a failure stand in a sentence.
const REASON_MAX: usize = 160;

/// Why there are no figures, if a run would give some.
pub(super) const NOT_MEASURED: &str = "was not measured under";

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
    pub(super) fewest: usize,
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
    /// Whether the load tool had a core of the contender.
    shares_cores: bool,
    /// The tool that sent the load; empty where it is published.
    tool: &'a str,
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
            shares_cores: block.circumstances.tool_shares_cores(),
            tool: block.tool.split(' ').next().unwrap_or_default(),
            figures: &block.figures,
            failure: block.failure.as_deref(),
        }
    }
}

impl Row<'_> {
    fn failed_percent(&self) -> f64 {
        self.figures.get(&Figure::FailedPercent).copied().unwrap_or_default()
    }

    /// A figure. Where more than a few requests failed, latencies count each of them as a time-out: figures are those of
    /// correct responses, and would favour a server that refuses fast.
    fn value(&self, figure: Figure) -> Option<f64> {
        let percent = self.failed_percent();
        let value = self.figures.get(&figure).copied();
        if percent <= FAILED_PERCENT_FEW || !figure.is_latency() {
            return value;
        }
        let share = percent / 100.0;
        match figure {
            Figure::MinMs => value,
            Figure::MaxMs => Some(TIMEOUT_MS),
            Figure::MeanMs => Some((1.0 - share) * value.unwrap_or_default() + share * TIMEOUT_MS),
            Figure::DeviationMs => None,
            _ => {
                let (asked, _) = Figure::PERCENTILES.iter().find(|(_, known)| *known == figure)?;
                // Of all requests so many percent are so many of those that were answered rightly, if they are enough.
                let of_right = f64::from(*asked) / (1.0 - share);
                if of_right > 100.0 {
                    return Some(TIMEOUT_MS);
                }
                let above = Figure::PERCENTILES.iter().filter(|(known, _)| f64::from(*known) >= of_right);
                let mut above = above.map(|(_, figure)| figure).chain([&Figure::MaxMs]);
                above.find_map(|figure| self.figures.get(figure)).copied()
            }
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
                shares_cores: false,
                tool: "",
                figures: &published.figures,
                failure: None,
            })
        });
        Data { experiment, others: &[], machine, fewest: 1, rows: rows.collect(), busy: Vec::new() }
    }

    /// Whether the figures are measured, and not published.
    pub(super) fn is_measured(&self) -> bool {
        self.fewest > 1
    }

    /// Whether this load was repeated less often than a claim needs.
    pub(super) fn few_turns(&self, load: &str) -> bool {
        let turns: BTreeSet<u32> = self.of_load(load).map(|row| row.turn).collect();
        turns.len() < TURNS as usize
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
        let is_memory = matches!(figure, Figure::MemoryBytes | Figure::SystemMemoryBytes);
        if let Some(known) = self.load(load).filter(|_| is_memory) {
            let counts = |row: &&Row<'_>| row.contender == contender && filter.holds(row.place);
            // What is published was measured after the published time.
            let measured = self.of_load(load).filter(counts).filter(|row| !row.tool.is_empty());
            short::too_short_for_memory(known, measured).map_or(Ok(()), Err)?;
        }
        let mut series = Series::new();
        for row in self.of_load(load).filter(|row| row.contender == contender && filter.holds(row.place)) {
            // A server that did not take all connections nevertheless held some.
            let counts = row.failure.is_none() || figure == Figure::Connections;
            let value = row.value(figure).filter(|value| value.is_finite() && counts);
            if let Some(value) = value.filter(|_| !self.is_disturbed(load, row, figure)) {
                series.entry(row.place).or_default().insert(row.turn, value);
            }
        }
        if series.is_empty() { Err(self.why_not(load, contender, figure, filter)) } else { Ok(series) }
    }

    /// Whether the load tool took time from the contender, and the figure depends on that time. With `one_core` a load is
    /// meant to be so.
    fn is_disturbed(&self, load: &str, row: &Row<'_>, figure: Figure) -> bool {
        let is_meant = self.load(load).is_some_and(|load| load.one_core);
        row.shares_cores && figure.depends_on_tool() && !is_meant
    }

    /// Which part of its requests contenders failed, and what the others came to, where that was more than a few.
    pub(super) fn failing(&self, load: &str, contender: &str, filter: Filter<'_>) -> Option<String> {
        let rows = self.of_load(load).filter(|row| row.contender == contender && filter.holds(row.place));
        let mut places: BTreeMap<Place, Vec<&Row<'_>>> = BTreeMap::new();
        rows.filter(|row| row.failed_percent() > FAILED_PERCENT_FEW)
            .for_each(|row| places.entry(row.place).or_default().push(row));
        let middle = |rows: &[&Row<'_>], value: &dyn Fn(&Row<'_>) -> Option<f64>| {
            let values: Vec<f64> = rows.iter().filter_map(|row| value(row)).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let percent = |rows: &[&Row<'_>]| middle(rows, &|row| Some(row.failed_percent())).unwrap_or_default();
        let ((_, clients), rows) =
            places.into_iter().max_by(|one, other| percent(&one.1).total_cmp(&percent(&other.1)))?;
        let mut words = format!(
            "{} % of {contender}'s requests failed at {}; the rate is that of correct responses",
            words::number(percent(&rows)),
            words::clients(clients)
        );
        if let Some(rate) = middle(&rows, &|row| row.figures.get(&Figure::RequestsPerS).copied()) {
            words.push_str(&format!(" ({}/s)", words::number(rate)));
        }
        if let Some(mean) = middle(&rows, &|row| row.value(Figure::MeanMs)) {
            let each = words::number(TIMEOUT_MS / 1000.0);
            let mean = words::number(mean);
            words.push_str(&format!(", and the mean time is {mean} ms if each failure counts as {each} s"));
        }
        Some(words)
    }

    /// The tools that sent a load of this experiment instead of the published one, with the published one's name.
    pub(super) fn other_tools(&self, load: &str) -> Vec<String> {
        let Some(known) = self.load(load) else { return Vec::new() };
        let printed = known.printed_tool.unwrap_or(known.tool).to_string();
        let used: BTreeSet<&str> = self
            .of_load(load)
            .map(|row| row.tool)
            .filter(|tool| !tool.is_empty() && *tool != printed)
            .collect();
        used.into_iter().map(|tool| format!("{tool} instead of {printed}")).collect()
    }

    /// Why a load cannot speak against what was published, if it cannot.
    pub(super) fn not_comparable(&self, load: &str) -> Option<&str> {
        self.load(load)?.not_comparable.as_deref()
    }

    /// Whether a load runs the configuration that was published.
    pub(super) fn is_as_printed(&self, load: &str) -> bool {
        self.load(load).is_some_and(Load::is_as_printed)
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
        // Not measured at all, for example by `run --claims`.
        if least > 1 && least >= self.machine.cores && figure.depends_on_tool() {
            return self.shared_cores();
        }
        let of_contender = || self.of_load(load).filter(|row| row.contender == contender);
        let failed =
            of_contender().filter(|row| filter.cores.is_none_or(|cores| cores.contains(&row.place.0)));
        if let Some(failure) = failed.filter_map(|row| row.failure).next() {
            return format!("{contender}: {}", first_of(failure));
        }
        if of_contender().any(|row| filter.holds(row.place) && self.is_disturbed(load, row, figure)) {
            return self.shared_cores();
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
                format!("{contender} {NOT_MEASURED} “{}”, which is left out of a quick run", self.title(load))
            }
            _ => format!("{contender} {NOT_MEASURED} “{}”", self.title(load)),
        }
    }

    fn shared_cores(&self) -> String {
        format!("the load tool has to share the server's cores: this machine has {}", self.machine.cores)
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

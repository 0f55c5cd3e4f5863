//! `fulmar-lab compare`: two contenders with the same load, or one contender with two loads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail, ensure};
use clap::Args;

use super::progress::Progress;
use super::say::{self, say};
use super::threshold::Threshold;
use super::{Common, INTERRUPTED, interrupted};
use crate::judge::comparison::Comparison;
use crate::judge::findings;
use crate::judge::statistics::FEWEST;
use crate::measure::engine::{self, BLOCK_S, Event, Results, Settings};
use crate::model::block::{self, Block};
use crate::model::experiment::{Condition, Experiment, Kind, Load, TURNS};
use crate::model::figure::Figure;
use crate::model::machine::Machine;
use crate::model::words;

/// What a comparison takes.
#[derive(Clone, Debug, Args)]
pub(super) struct CompareArguments {
    /// A contender, or NAME@PROGRAM for a certain program of it.
    first: String,
    /// Another one, by which the first is divided. Without it, only loads that a finding compares are compared.
    second: Option<String>,
    /// EXPERIMENT or EXPERIMENT/LOAD; several may be given.
    #[arg(long = "workload", default_value = "costs")]
    workloads: Vec<String>,
    /// Pairs of blocks (as many as the experiment says, else 20; 6 with --quick, and of fewer nothing is said). A claim
    /// needs 20.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    /// Fewer pairs: the figures are indicative.
    #[arg(long)]
    quick: bool,
    /// The length of each block, instead of what the load says.
    #[arg(long, value_name = "S", value_parser = super::some_seconds)]
    seconds: Option<f64>,
    /// About how long all takes: long blocks end earlier. No pair is left out.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = super::some_minutes)]
    minutes: Option<f64>,
    /// Ends with status 3 if a ratio is shown to be beyond a bound, for example `cpu_us_per_request>1.05`. May be given
    /// several times.
    #[arg(long = "fail-if", value_name = "FIGURE>RATIO", requires = "second", value_parser = Threshold::parse)]
    thresholds: Vec<Threshold>,
    /// The folder of the results.
    #[arg(long, default_value = "target/compare")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Measures and prints a table.
pub(super) fn main(arguments: &CompareArguments) -> Result<ExitCode> {
    let names: Vec<&str> =
        std::iter::once(&arguments.first).chain(&arguments.second).map(String::as_str).collect();
    if let [first, second] = names[..] {
        ensure!(
            first != second,
            "the lab compares a contender with itself anyway: name another one, or only one"
        );
    }
    let lineup = arguments.common.lineup()?;
    for name in &names {
        let found = lineup.find(name)?;
        say!("{name}: {} ({})", found.version, found.origin);
    }
    let experiments = experiments(arguments, &names)?;
    let interrupted = interrupted()?;
    say::interrupt_when_unread(&interrupted);
    let turns = arguments.turns.unwrap_or(if arguments.quick { FEWEST } else { turns_of(&experiments) });
    let known = arguments.common.experiments()?;
    let settings = Settings {
        out: arguments.out.clone(),
        // The loads are those of a full run: only their repetitions are fewer.
        quick: false,
        minutes: arguments.minutes,
        turns: Some(turns),
        block_s: if arguments.seconds.is_some() { 0.0 } else { BLOCK_S },
        window: None,
        resume: false,
        known: &known,
        only: Vec::new(),
        selection: None,
        interrupted: &interrupted,
    };
    let _taken = Results::take(&arguments.out)?;
    let mut progress = Progress::new(false);
    let loads: usize = experiments.iter().map(|experiment| experiment.loads.len()).sum();
    let mut stopped = None;
    engine::run(&settings, &experiments, &lineup, &mut |event| {
        progress.tell(&event);
        if let Event::Block(block) = event
            && let Some(why) = cannot_run(block, loads)
        {
            stopped.get_or_insert(why);
            interrupted.store(true, Ordering::Relaxed);
        }
    })?;
    progress.end();
    if let Some(why) = stopped {
        bail!("{why}");
    }
    let blocks = block::read(&arguments.out.join(block::FILE))?;
    let mut is_compared = false;
    if let [first, second] = names[..] {
        is_compared = print(&blocks, [first, second], &experiments);
    }
    is_compared |= print_loads(&blocks, &names, &experiments);
    print_failures(&blocks);
    if turns < TURNS {
        say!("Fewer than 20 pairs: the figures are indicative.");
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    ensure!(is_compared, "there was nothing to compare: no two blocks of one turn gave figures");
    match names[..] {
        [first, second] => judge(&blocks, [first, second], &arguments.thresholds),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Why a comparison is pointless, if a side cannot run: it does not start, or answers differently, or the only load is not
/// for it. Of several loads, others may be.
fn cannot_run(block: &Block, loads: usize) -> Option<String> {
    let Block { cell, version, .. } = block;
    let why = block.failure.as_ref().filter(|_| block.command.is_empty())?;
    // A contender whose program was not looked at has no version: the load is not for it.
    let is_pointless = loads == 1 || !version.is_empty();
    is_pointless
        .then(|| format!("{} cannot run under {}/{}: {why}", cell.contender, cell.experiment, cell.load))
}

/// Says of each threshold whether a load is beyond it. Fails where nothing gave the figure of one.
fn judge(blocks: &[Block], pair: [&str; 2], thresholds: &[Threshold]) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for threshold in thresholds {
        let compared = cells(blocks);
        let compared =
            compared.iter().filter_map(|(_, blocks)| Comparison::of(blocks, pair, threshold.figure));
        let compared: Vec<Comparison> = compared.collect();
        ensure!(!compared.is_empty(), "--fail-if {threshold}: no load gave this figure");
        for row in compared {
            let (is_beyond, words) = threshold.judge(&row);
            say!("--fail-if {threshold}: {}: {words}", row.name);
            if is_beyond {
                code = ExitCode::from(super::BEYOND);
            }
        }
    }
    Ok(code)
}

type CellKey = (String, String, u32, u32);

/// The blocks of each load, number of clients and number of cores, in the order of measurement.
fn cells(blocks: &[Block]) -> Vec<(CellKey, Vec<&Block>)> {
    let mut cells: Vec<(CellKey, Vec<&Block>)> = Vec::new();
    for block in blocks {
        let cell = &block.cell;
        let key = (cell.experiment.clone(), cell.load.clone(), cell.clients, cell.cores);
        match cells.iter_mut().find(|(known, _)| *known == key) {
            Some((_, blocks)) => blocks.push(block),
            None => cells.push((key, vec![block])),
        }
    }
    cells
}

/// The turns that the experiments need; no fewer than a claim does.
fn turns_of(experiments: &[Experiment]) -> u32 {
    experiments.iter().filter_map(|experiment| experiment.turns).fold(TURNS, u32::max)
}

/// The experiments with the wanted loads and no other contenders.
fn experiments(arguments: &CompareArguments, names: &[&str]) -> Result<Vec<Experiment>> {
    let mut chosen: Vec<Experiment> = Vec::new();
    for workload in &arguments.workloads {
        let (name, load) =
            workload.split_once('/').map_or((workload.as_str(), None), |(name, load)| (name, Some(load)));
        let all = arguments.common.experiments()?;
        for mut experiment in super::chosen(all, &[name.to_owned()])? {
            let ids: Vec<String> = experiment.loads.iter().map(|load| load.id.clone()).collect();
            experiment.loads.retain(|one| load.is_none_or(|load| one.id == load));
            let missing = || format!("{name}: {}", words::unknown("load", load.unwrap_or_default(), &ids));
            ensure!(!experiment.loads.is_empty(), missing());
            experiment.contenders = names.iter().map(|name| (*name).to_owned()).collect();
            let is_own = experiment.source.is_none();
            experiment.loads.retain_mut(|load| takes_part(load, names, is_own));
            for load in experiment.loads.iter_mut().filter(|load| load.kind != Kind::Idle) {
                if arguments.seconds.is_some() {
                    (load.seconds, load.requests) = (arguments.seconds, None);
                }
            }
            match chosen.iter_mut().find(|other| other.id == experiment.id) {
                // What a finding compares is measured in turn, if it belongs to one experiment.
                Some(other) => {
                    experiment.loads.retain(|load| other.loads.iter().all(|known| known.id != load.id));
                    other.loads.extend(experiment.loads);
                }
                None => chosen.push(experiment),
            }
        }
    }
    Ok(chosen)
}

/// Whether one of these contenders takes part in a load. A published load can be put to any contender. A load of the
/// lab's own names its contenders.
fn takes_part(load: &mut Load, names: &[&str], is_own: bool) -> bool {
    let Some(named) = load.contenders.take().filter(|_| is_own) else { return true };
    let is_named = |name: &&str| named.iter().any(|named| name.split('@').next() == Some(named));
    let taking: Vec<String> = names.iter().copied().filter(is_named).map(str::to_owned).collect();
    if taking.is_empty() {
        say!("{} is left out: it is for {}", load.id, named.join(", "));
    }
    load.contenders = Some(taking);
    load.contenders.as_ref().is_some_and(|taking| !taking.is_empty())
}

/// Prints all comparisons of two contenders: whether there was one.
fn print(blocks: &[Block], pair: [&str; 2], experiments: &[Experiment]) -> bool {
    let mut is_compared = false;
    let cells = cells(blocks);
    let figures = [
        (Figure::CpuUsPerRequest, "server CPU a request, µs"),
        (Figure::RequestsPerS, "requests/s"),
        (Figure::P50Ms, "latency at an equal rate, median, ms"),
        (Figure::P99Ms, "latency at an equal rate, 99th percentile, ms"),
        (Figure::ContentBytes, "bytes of content, where they differ"),
        (Figure::MemoryPerConnectionBytes, "memory of an idle connection, bytes"),
    ];
    for (figure, title) in figures {
        let idle = figure == Figure::MemoryPerConnectionBytes;
        let latency = matches!(figure, Figure::P50Ms | Figure::P99Ms);
        let rows = cells
            .iter()
            .filter(|((experiment, load, ..), _)| !latency || has_rate(experiments, experiment, load));
        let rows = rows
            .map(|(_, blocks)| blocks)
            .filter(|blocks| blocks.iter().all(|block| (block.kind == Kind::Idle) == idle));
        let rows = rows.filter_map(|blocks| Comparison::of(blocks, pair, figure));
        let differ = |row: &Comparison| figure != Figure::ContentBytes || row.medians[0] != row.medians[1];
        let rows: Vec<Comparison> = rows.filter(differ).collect();
        if !rows.is_empty() {
            is_compared = true;
            say!("\n{title}: first {}, second {}\n{}", pair[0], pair[1], Comparison::HEADING);
        }
        for row in rows {
            say!("{row}");
        }
    }
    is_compared
}

/// Whether the requests of a load come at a constant rate. Without one, a faster contender gets more requests at once,
/// so that latencies say no more than rates.
fn has_rate(experiments: &[Experiment], experiment: &str, load: &str) -> bool {
    let of_experiment = experiments.iter().filter(|one| one.id == experiment);
    of_experiment.flat_map(|one| &one.loads).any(|one| one.id == load && one.rate.is_some())
}

/// Prints how each contender does under one load, divided by how it does under another one: whether there was a pair.
fn print_loads(blocks: &[Block], names: &[&str], experiments: &[Experiment]) -> bool {
    let mut is_compared = false;
    for (figure, title) in
        [(Figure::CpuUsPerRequest, "server CPU a request, µs"), (Figure::RequestsPerS, "requests/s")]
    {
        let rows = load_pairs(blocks, names, experiments, figure);
        if !rows.is_empty() {
            is_compared = true;
            say!("\n{title}: under one load, and under the other\n{}", Comparison::HEADING);
        }
        for row in rows {
            say!("{row}");
        }
    }
    let machine = Machine::this();
    let is_named = |condition: &Condition| matches!(condition, Condition::AgainstLoad { of, .. } if names.contains(&of.as_str()));
    for experiment in experiments {
        let answers = findings::answer(experiment, blocks, &machine);
        for (finding, answer) in experiment.findings.iter().zip(answers) {
            if finding.holds_when.iter().all(is_named) {
                say!("{answer}");
            }
        }
    }
    is_compared
}

/// Pairs of loads that a finding compares by this figure, for each contender alone.
fn load_pairs(
    blocks: &[Block],
    names: &[&str],
    experiments: &[Experiment],
    wanted: Figure,
) -> Vec<Comparison> {
    let mut rows = Vec::new();
    for experiment in experiments {
        let blocks: Vec<&Block> =
            blocks.iter().filter(|block| block.cell.experiment == experiment.id).collect();
        for condition in experiment.findings.iter().flat_map(|finding| &finding.holds_when) {
            let Condition::AgainstLoad { figure, load, against, .. } = condition else { continue };
            let both = [load.as_str(), against.as_str()];
            let of = |name: &&str| Comparison::of_loads(&blocks, name, both, wanted);
            rows.extend(names.iter().filter(|_| *figure == wanted).filter_map(of));
        }
    }
    rows
}

fn print_failures(blocks: &[Block]) {
    for block in blocks.iter().filter(|block| block.failure.is_some()) {
        let cell = &block.cell;
        say!("{} {}: {}", cell.load, cell.contender, block.failure.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::*;

    #[test]
    fn only_a_side_that_cannot_run_stops_a_comparison() {
        let block = |failure: Option<&str>, version: &str, command: &[&str]| Block {
            failure: failure.map(str::to_owned),
            version: version.into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..block::tests::block("nginx", "l", 1, &[])
        };
        let differs = Some("it is not compared, because it answers differently");
        let why = cannot_run(&block(differs, "1.31.3", &[]), 5).unwrap();
        assert!(why.starts_with("nginx cannot run under e/l: it is not compared"), "{why}");
        assert_eq!(cannot_run(&block(Some("a block failed"), "1.31.3", &["wrk"]), 1), None);
        let other = block(Some("it does not read nginx's configuration"), "", &[]);
        assert!(
            cannot_run(&other, 5).is_none() && cannot_run(&other, 1).is_some(),
            "other loads may be for it"
        );
        assert_eq!(cannot_run(&block(None, "1.31.3", &[]), 1), None);
    }

    #[test]
    fn loads_of_one_experiment_are_measured_together() {
        let line = "fulmar-lab compare fulmar --workload cache-hit/proxied-1k --workload costs/keepalive-1k \
                    --workload cache-hit/miss-1k-memory --workload cache-hit/proxied-1k";
        let Command::Compare(arguments) = Cli::parse_from(line.split_ascii_whitespace()).command else {
            panic!("another command");
        };
        let chosen = experiments(&arguments, &["fulmar"]).unwrap();
        let ids: Vec<(&str, Vec<&str>)> = chosen
            .iter()
            .map(|one| (one.id.as_str(), one.loads.iter().map(|load| load.id.as_str()).collect()))
            .collect();
        assert_eq!(
            ids,
            [("cache-hit", vec!["proxied-1k", "miss-1k-memory"]), ("costs", vec!["keepalive-1k"])]
        );
    }
}

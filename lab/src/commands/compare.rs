//! `fulmar-lab compare`: two contenders beside each other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use super::progress::Progress;
use super::{Common, interrupted};
use crate::block::{self, Block};
use crate::comparison::Comparison;
use crate::engine::{self, Settings};
use crate::experiment::{Experiment, Kind};
use crate::figure::Figure;

/// What a comparison takes.
#[derive(Clone, Debug, Args)]
pub(super) struct CompareArguments {
    /// A contender, or NAME@PROGRAM for a certain program of it.
    first: String,
    /// Another one, by which the first is divided.
    second: String,
    /// EXPERIMENT or EXPERIMENT/LOAD; several may be given.
    #[arg(long = "workload", default_value = "costs")]
    workloads: Vec<String>,
    /// Pairs of blocks (20; 3 with --quick). A claim needs 20.
    #[arg(long)]
    turns: Option<u32>,
    /// Fewer pairs: the figures are indicative.
    #[arg(long)]
    quick: bool,
    /// The folder of the results.
    #[arg(long, default_value = "target/compare")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Measures and prints a table.
pub(super) fn main(arguments: &CompareArguments) -> Result<ExitCode> {
    let pair = [arguments.first.as_str(), arguments.second.as_str()];
    ensure!(pair[0] != pair[1], "the lab compares a contender with itself anyway: name two");
    let lineup = arguments.common.lineup()?;
    for name in pair {
        let found = lineup.find(name)?;
        println!("{name}: {} ({})", found.version, found.origin);
    }
    let experiments = experiments(arguments, pair)?;
    let interrupted = interrupted()?;
    let turns = arguments.turns.unwrap_or(if arguments.quick { 3 } else { 20 });
    let known = arguments.common.experiments()?;
    let settings = Settings {
        out: arguments.out.clone(),
        // The loads are those of a full run: only their repetitions are fewer.
        quick: false,
        turns: Some(turns),
        resume: false,
        known: &known,
        only: Vec::new(),
        interrupted: &interrupted,
    };
    let mut progress = Progress::new(false);
    engine::run(&settings, &experiments, &lineup, &mut |event| progress.tell(&event))?;
    progress.end();
    let blocks = block::read(&arguments.out.join(block::FILE))?;
    print(&blocks, pair);
    if turns < 20 {
        println!("Fewer than 20 pairs: the figures are indicative.");
    }
    Ok(ExitCode::SUCCESS)
}

/// The experiments with the wanted loads and no other contenders.
fn experiments(arguments: &CompareArguments, pair: [&str; 2]) -> Result<Vec<Experiment>> {
    let mut chosen = Vec::new();
    for workload in &arguments.workloads {
        let (name, load) =
            workload.split_once('/').map_or((workload.as_str(), None), |(name, load)| (name, Some(load)));
        let all = arguments.common.experiments()?;
        let mut found: Vec<Experiment> = super::chosen(all, &[name.to_owned()])?;
        for experiment in &mut found {
            experiment.loads.retain(|one| load.is_none_or(|load| one.id == load));
            ensure!(!experiment.loads.is_empty(), "{name} has no load {}", load.unwrap_or_default());
            experiment.contenders = pair.map(str::to_owned).into();
            for load in &mut experiment.loads {
                load.contenders = None;
            }
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

fn print(blocks: &[Block], pair: [&str; 2]) {
    let mut cells: BTreeMap<(String, String, u32, u32), Vec<&Block>> = BTreeMap::new();
    let mut order = Vec::new();
    for block in blocks {
        let cell = &block.cell;
        let key = (cell.experiment.clone(), cell.load.clone(), cell.clients, cell.cores);
        if !cells.contains_key(&key) {
            order.push(key.clone());
        }
        cells.entry(key).or_default().push(block);
    }
    let figures = [
        (Figure::CpuUsPerRequest, "server CPU a request, µs"),
        (Figure::RequestsPerS, "requests/s"),
        (Figure::MemoryPerConnectionBytes, "memory of an idle connection, bytes"),
    ];
    for (figure, title) in figures {
        let idle = figure == Figure::MemoryPerConnectionBytes;
        let rows = order.iter().filter_map(|key| cells.get(key));
        let rows = rows.filter(|blocks| blocks.iter().all(|block| (block.kind == Kind::Idle) == idle));
        let rows: Vec<Comparison> = rows.filter_map(|blocks| Comparison::of(blocks, pair, figure)).collect();
        if !rows.is_empty() {
            println!("\n{title}: first {}, second {}\n{}", pair[0], pair[1], Comparison::HEADING);
        }
        for row in rows {
            println!("{row}");
        }
    }
    for block in blocks.iter().filter(|block| block.failure.is_some()) {
        let cell = &block.cell;
        println!("{} {}: {}", cell.load, cell.contender, block.failure.as_deref().unwrap_or_default());
    }
}

//! `fulmar-lab import`: what an exported load came to on other machines, as a part of the report.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Common;
use super::report;
use super::say::say;
use crate::measure::engine::Results;
use crate::model::block::{self, Block};
use crate::model::experiment::Experiment;
use crate::model::words;
use crate::show::import::{Import, import};

/// What `import` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct ImportArguments {
    /// The load that was exported.
    #[arg(value_name = "EXPERIMENT/LOAD")]
    load: String,
    /// The summary of k6 (`k6 run --summary-export FILE.json`) or the samples of JMeter (`jmeter -l FILE.csv`).
    result: PathBuf,
    /// The server that was loaded, by its name in the experiment.
    #[arg(long, value_name = "NAME")]
    server: String,
    /// The number of clients that were asked for.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// The server's version, as the report shows it.
    #[arg(long = "server-version", value_name = "TEXT", default_value = "not told")]
    version: String,
    /// The machine of the server, as the report shows it.
    #[arg(long, value_name = "TEXT", default_value = "another machine, which the import does not name")]
    machine: String,
    /// The cores that the server had (what the load names first).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Appends one run, and writes the report of all.
pub(super) fn main(arguments: &ImportArguments) -> Result<ExitCode> {
    let all = arguments.common.experiments_of(&arguments.out)?;
    let (id, load) = arguments.load.split_once('/').context("the load is named EXPERIMENT/LOAD")?;
    let experiment = all.iter().find(|experiment| experiment.id == id);
    let ids: Vec<&str> = all.iter().map(|experiment| experiment.id.as_str()).collect();
    let experiment = experiment.with_context(|| words::unknown("experiment", id, &ids))?;
    let _taken = Results::take(&arguments.out)?;
    let known = arguments.out.join(block::FILE);
    block::repair(&known)?;
    let asked = Import {
        experiment,
        load,
        server: &arguments.server,
        version: &arguments.version,
        machine: &arguments.machine,
        cores: arguments.cores,
        clients: arguments.clients,
        result: &arguments.result,
    };
    let run = import(&asked, &block::read(&known)?, &arguments.out)?;
    block::append(&known, &run)?;
    say!("{} of {} is now run {} of this load", arguments.result.display(), run.tool, run.turn + 1);
    let blocks = block::read(&known)?;
    let (known, unknown): (Vec<Block>, Vec<Block>) = blocks
        .into_iter()
        .partition(|block| all.iter().any(|known: &Experiment| known.id == block.cell.experiment));
    ensure!(
        unknown.is_empty(),
        "{} has runs of other experiments: give their files by --experiment, and `report` writes it",
        arguments.out.display()
    );
    report::write_and_tell(&arguments.out, &all, &known)
}

//! `fulmar-lab run`: experiments, and the report about them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::progress::Progress;
use super::{Common, chosen, interrupted};
use crate::block;
use crate::engine::{self, Settings};

/// What a run takes.
#[derive(Clone, Debug, Args)]
pub(super) struct RunArguments {
    /// The experiments; all of them where none is named.
    experiments: Vec<String>,
    /// Only these contenders.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Smaller loads and fewer repetitions: the figures are indicative.
    #[arg(long)]
    quick: bool,
    /// Goes on with the results that are there.
    #[arg(long)]
    resume: bool,
    /// Repetitions of each measurement (20; 2 with --quick).
    #[arg(long)]
    turns: Option<u32>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the experiments.
pub(super) fn main(arguments: &RunArguments) -> Result<ExitCode> {
    let turns = arguments.turns.unwrap_or(if arguments.quick { 2 } else { 20 });
    run(arguments, turns)
}

/// Starts and checks every contender, and measures nothing.
pub(super) fn check(arguments: &RunArguments) -> Result<ExitCode> {
    run(arguments, 0)
}

fn run(arguments: &RunArguments, turns: u32) -> Result<ExitCode> {
    let experiments = chosen(arguments.common.experiments()?, &arguments.experiments)?;
    let lineup = arguments.common.lineup()?;
    let interrupted = interrupted()?;
    let settings = Settings {
        out: arguments.out.clone(),
        quick: arguments.quick,
        turns,
        resume: arguments.resume,
        only: arguments.only.clone(),
        twin: !arguments.quick,
        interrupted: &interrupted,
    };
    let mut progress = Progress::new();
    engine::run(&settings, &experiments, &lineup, &mut |event| progress.tell(&event))?;
    progress.end();
    let blocks = block::read(&arguments.out.join("blocks.jsonl"))?;
    let failed = blocks.iter().filter(|block| block.failure.is_some()).count();
    println!("{} blocks in {}, {failed} of them without figures", blocks.len(), arguments.out.display());
    Ok(ExitCode::SUCCESS)
}

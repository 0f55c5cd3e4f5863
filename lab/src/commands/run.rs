//! `fulmar-lab run`: experiments, and the report about them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::progress::Progress;
use super::{BLOCKS, Common, chosen, interrupted, report};
use crate::block;
use crate::engine::{self, Settings};
use crate::experiment::Experiment;

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
    /// Repetitions of each measurement (what the experiment says, else 20; 2 with --quick).
    #[arg(long)]
    turns: Option<u32>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the experiments and writes the report.
pub(super) fn main(arguments: &RunArguments) -> Result<ExitCode> {
    let experiments = run(arguments, arguments.turns)?;
    let blocks = block::read(&arguments.out.join(BLOCKS))?;
    let failed = blocks.iter().filter(|block| block.failure.is_some()).count();
    println!("\n{} blocks in {}, {failed} of them without figures", blocks.len(), arguments.out.display());
    report::write_and_tell(&arguments.out, &experiments, &blocks)
}

/// Starts and checks every contender, and measures nothing. Fails if one answers differently.
pub(super) fn check(arguments: &RunArguments) -> Result<ExitCode> {
    run(arguments, Some(0))?;
    let blocks = block::read(&arguments.out.join(BLOCKS))?;
    let wrong = blocks.iter().filter(|block| !block.version.is_empty()).count();
    println!("{wrong} contenders that are here cannot take part as they should");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(arguments: &RunArguments, turns: Option<u32>) -> Result<Vec<Experiment>> {
    let experiments = chosen(arguments.common.experiments()?, &arguments.experiments)?;
    let lineup = arguments.common.lineup()?;
    for name in &arguments.only {
        lineup.find(name)?;
    }
    let interrupted = interrupted()?;
    let settings = Settings {
        out: arguments.out.clone(),
        quick: arguments.quick,
        turns,
        resume: arguments.resume,
        only: arguments.only.clone(),
        interrupted: &interrupted,
    };
    let mut progress = Progress::new(turns == Some(0));
    engine::run(&settings, &experiments, &lineup, &mut |event| progress.tell(&event))?;
    progress.end();
    Ok(experiments)
}

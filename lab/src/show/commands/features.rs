//! `fulmar-lab features`: what each contender can do.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::say::{self, say};
use super::{Common, INTERRUPTED, interrupted};
use crate::measure::features;

/// What `features` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct FeaturesArguments {
    /// Only these contenders.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The folder of the results: the matrix, and a transcript of each probe.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Probes all contenders that are there; interrupted, until the probe that runs has ended.
pub(super) fn main(arguments: &FeaturesArguments) -> Result<ExitCode> {
    let lineup = arguments.common.lineup()?;
    let names = if arguments.only.is_empty() { lineup.names() } else { arguments.only.clone() };
    let mut found = Vec::new();
    for name in names {
        match lineup.find(&name) {
            Ok(contender) => found.push(contender),
            Err(why) if arguments.only.is_empty() => say!("{name}: {why:#}"),
            Err(why) => return Err(why),
        }
    }
    ensure!(!found.is_empty(), "no contender is there");
    let interrupted = interrupted()?;
    say::interrupt_when_unread(&interrupted);
    // Some contenders start elsewhere.
    let out = std::path::absolute(&arguments.out)?;
    let Some(matrix) = features::probe(&found, &out, &interrupted)? else {
        say!("Interrupted. Transcripts of what was probed: {}", out.join("features").display());
        return Ok(ExitCode::from(INTERRUPTED));
    };
    say!("{}", matrix.terminal());
    let page = arguments.out.join("features.md");
    fs::write(&page, matrix.markdown()).with_context(|| page.display().to_string())?;
    say!("The matrix: {}\nTranscripts: {}", page.display(), arguments.out.join("features").display());
    Ok(ExitCode::SUCCESS)
}

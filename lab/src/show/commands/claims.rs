//! `fulmar-lab claims`: the register of claims, with the verdicts of measurements if there are some.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use super::say::say;
use super::{Common, chosen};
use crate::judge::findings::{self, Answer};
use crate::measure::digest;
use crate::model::block::{self, Block};
use crate::model::experiment::Experiment;
use crate::show::{archive, report};

/// What `claims` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct ClaimsArguments {
    /// The experiments that repeat a publication; all of them if none is named.
    experiments: Vec<String>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    /// An archive of `pack`, instead of a folder.
    #[arg(long, value_name = "ARCHIVE", conflicts_with = "out")]
    from: Option<PathBuf>,
    /// Writes the register as a page into this file, too.
    #[arg(long, value_name = "FILE.md")]
    write: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Prints each claim with its verdict.
pub(super) fn main(arguments: &ClaimsArguments) -> Result<ExitCode> {
    let known = arguments.common.experiments_of(&arguments.out)?;
    let (blocks, measured) = measured(arguments)?;
    let published = chosen(known, &arguments.experiments)?;
    let published = published.iter().filter(|experiment| experiment.source.is_some());
    let machine = blocks.last().map(|block| block.machine.clone()).unwrap_or_default();
    let mut claims: Vec<(&Experiment, Vec<Answer>)> = Vec::new();
    for experiment in published {
        let was_run = blocks.iter().any(|block| block.cell.experiment == experiment.id);
        let answers = if was_run { findings::answer(experiment, &blocks, &machine) } else { Vec::new() };
        claims.push((experiment, answers));
    }
    for (experiment, answers) in &claims {
        say!("\n{}", experiment.title);
        for finding in &experiment.findings {
            let answer = answers.iter().find(|answer| answer.finding == finding.id);
            let verdict = answer.map_or("not measured".to_owned(), |answer| answer.verdict.to_string());
            let quoted = finding.quoted.as_deref().unwrap_or("without a figure");
            say!("  {} {}\n     published: {quoted}\n     {verdict}", finding.id, finding.claim);
        }
    }
    let count: usize = claims.iter().map(|(experiment, _)| experiment.findings.len()).sum();
    say!("\n{count} claims of {} publications", claims.len());
    if let Some(path) = &arguments.write {
        let page = report::register(&claims, measured.as_deref());
        fs::write(path, page).with_context(|| path.display().to_string())?;
        say!("The register: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The blocks, and how the page names them; none where nothing was measured.
fn measured(arguments: &ClaimsArguments) -> Result<(Vec<Block>, Option<String>)> {
    let Some(archive) = &arguments.from else {
        let blocks = block::read(&arguments.out.join(block::FILE))?;
        let name = (!blocks.is_empty()).then(|| "results that were not packed".to_owned());
        return Ok((blocks, name));
    };
    let folder = tempfile::tempdir()?;
    archive::unpack(archive, folder.path())?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{name} with the SHA-256 {}", digest::of_file(archive)?);
    Ok((block::read(&folder.path().join(block::FILE))?, Some(name)))
}

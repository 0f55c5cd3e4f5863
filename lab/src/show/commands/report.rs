//! `fulmar-lab report` and `fulmar-lab audit`: what is said about blocks that were measured before.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use super::say::say;
use super::{Common, chosen};
use crate::judge::audit;
use crate::judge::findings::{self, Remedy, Verdict};
use crate::judge::statistics::FEWEST;
use crate::model::block::{self, Block};
use crate::model::experiment::Experiment;
use crate::model::machine::Machine;
use crate::show::{archive, report};

/// What `report` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct ReportArguments {
    #[command(flatten)]
    of: AuditArguments,
    /// Writes the report of an archive of `pack`. It is unpacked into --out, which is a new folder with the name of the
    /// archive if nothing else is said.
    #[arg(long, value_name = "ARCHIVE")]
    from: Option<PathBuf>,
    /// Writes brief.html and brief.md too, which stand alone: without raw output, configurations and links to files,
    /// and without paths of this machine.
    #[arg(long)]
    brief: bool,
    /// Writes the first page of the report in short into this folder too: short.md and its picture, short.svg.
    #[arg(long, value_name = "FOLDER")]
    readme: Option<PathBuf>,
    /// Writes each chart as an SVG file into this folder too.
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
}

/// What `audit` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct AuditArguments {
    /// The experiments; all of them where none is named.
    experiments: Vec<String>,
    /// The folder of the results (target/lab).
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// The folder of results where none is named.
const OUT: &str = "target/lab";

/// Writes the report again.
pub(super) fn main(all: &ReportArguments) -> Result<ExitCode> {
    let arguments = &all.of;
    let named = arguments.out.clone();
    let (out, known) = match &all.from {
        Some(archive) => {
            let out = named.map_or_else(|| archive::stem(archive).map(PathBuf::from), Ok)?;
            let opened = archive::unpack(archive, &out)?;
            say!("{} files of {} are in {}", opened.files.len(), archive.display(), out.display());
            (out, opened.experiments()?)
        }
        None => {
            let out = named.unwrap_or_else(|| OUT.into());
            let known = arguments.common.experiments_of(&out)?;
            (out, known)
        }
    };
    let experiments = chosen(known, &arguments.experiments)?;
    let blocks = of(&out, &experiments, !arguments.experiments.is_empty())?;
    let code = write_and_tell(&out, &experiments, &blocks)?;
    if all.brief {
        let written = report::write_brief(&out, &experiments, &blocks)?;
        say!("To be shown alone: {} and {}", written.html.display(), written.markdown.display());
    }
    if let Some(folder) = &all.charts {
        let charts = report::write_charts(folder, &out, &experiments, &blocks)?;
        say!("{} charts: {}", charts.len(), folder.display());
    }
    if let Some(folder) = &all.readme {
        let paths = report::write_short(folder, &out, &experiments, &blocks)?;
        paths.iter().for_each(|path| say!("In short: {}", path.display()));
    }
    Ok(code)
}

/// The blocks of these experiments. Fails where the report would have none of what was measured, or not all of it though
/// no experiment was named: it would take the place of one that had it.
fn of(out: &Path, experiments: &[Experiment], is_named: bool) -> Result<Vec<Block>> {
    let all = block::read(&out.join(block::FILE))?;
    let out = out.display();
    ensure!(!all.is_empty(), "nothing was measured in {out}: run `fulmar-lab run` first");
    let is_wanted =
        |block: &Block| experiments.iter().any(|experiment| experiment.id == block.cell.experiment);
    let (blocks, others): (Vec<Block>, Vec<Block>) = all.into_iter().partition(is_wanted);
    let ids: BTreeSet<&str> = others.iter().map(|block| block.cell.experiment.as_str()).collect();
    let ids = ids.into_iter().collect::<Vec<_>>().join(", ");
    ensure!(
        others.is_empty() || is_named,
        "{out} has blocks of {ids}: give the file of that experiment by --experiment, as for the run, or name the \
         experiments that the report is to have"
    );
    ensure!(
        !blocks.is_empty(),
        "{out} has no block of {}: those there are belong to {ids}",
        experiments.iter().map(|experiment| experiment.id.as_str()).collect::<Vec<_>>().join(", ")
    );
    Ok(blocks)
}

/// Looks whether figures, published and measured, fit together.
pub(super) fn audit(arguments: &AuditArguments) -> Result<ExitCode> {
    let out = arguments.out.clone().unwrap_or_else(|| OUT.into());
    let blocks = block::read(&out.join(block::FILE))?;
    for experiment in chosen(arguments.common.experiments_of(&out)?, &arguments.experiments)? {
        let remarks = audit::audit(&experiment, &blocks);
        audit::print(&mut io::stdout().lock(), &experiment, &remarks)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the report, and prints the answers to the findings and where it is.
pub(super) fn write_and_tell(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<ExitCode> {
    let machine = blocks.first().map_or_else(Machine::this, |block| block.machine.clone());
    for experiment in experiments.iter().filter(|experiment| !experiment.findings.is_empty()) {
        if !blocks.iter().any(|block| block.cell.experiment == experiment.id) {
            continue;
        }
        say!("\n{}", experiment.title);
        for answer in findings::answer(experiment, blocks, &machine) {
            let verdict = match &answer.verdict {
                Verdict::Holds => "holds".to_owned(),
                Verdict::DoesNotHold => "does not hold".to_owned(),
                Verdict::Undecided => match answer.remedy() {
                    Some(Remedy::Turns(turns)) => format!("undecided: about {turns} turns would be needed"),
                    Some(Remedy::EnoughTurns) => format!("undecided: a verdict needs {FEWEST} turns"),
                    _ => "undecided: a quieter machine would be needed".to_owned(),
                },
                Verdict::CannotBeTested(why) => format!("cannot be tested here: {why}"),
            };
            let indicative = if answer.indicative { " (indicative)" } else { "" };
            say!("  {} {}\n     {verdict}{indicative}", answer.finding, answer.claim);
        }
    }
    let written = report::write(out, experiments, blocks)?;
    say!("\nThe report: {}\nIts twin in Markdown: {}", written.html.display(), written.markdown.display());
    Ok(ExitCode::SUCCESS)
}

//! `fulmar-lab pack` and `fulmar-lab verify`: results as one file that others can check.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use super::Common;
use super::say::say;
use crate::measure::digest;
use crate::measure::engine::Results;
use crate::measure::environment::Program;
use crate::model::block::{self, Block};
use crate::model::experiment::Experiment;
use crate::model::words;
use crate::show::archive::{self, Contents};

/// What `pack` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct PackArguments {
    /// The archive (fulmar-lab-DAY.tar.gz in the current folder).
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Who measured, for CITATION.cff; several may be given.
    #[arg(long = "author", value_name = "NAME")]
    authors: Vec<String>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// What `verify` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct VerifyArguments {
    /// An archive of `pack`.
    archive: PathBuf,
}

/// Writes the report again, and packs it with all that it is computed from.
pub(super) fn pack(arguments: &PackArguments) -> Result<ExitCode> {
    let out = &arguments.out;
    ensure!(out.is_dir(), "--out {}: there is no such folder of results", out.display());
    let _taken = Results::take(out)?;
    let blocks = block::read(&out.join(block::FILE))?;
    ensure!(!blocks.is_empty(), "nothing was measured in {}: run `fulmar-lab run` first", out.display());
    let all = arguments.common.experiments_of(out)?;
    let is_of = |experiment: &Experiment, block: &Block| block.cell.experiment == experiment.id;
    let has_blocks = |experiment: &&Experiment| blocks.iter().any(|block| is_of(experiment, block));
    let experiments: Vec<Experiment> = all.iter().filter(has_blocks).cloned().collect();
    for block in &blocks {
        let is_known = experiments.iter().any(|experiment| is_of(experiment, block));
        let (out, id) = (out.display(), &block.cell.experiment);
        ensure!(is_known, "{out} has blocks of {id}: give the file of that experiment by --experiment");
    }
    let authors = &arguments.authors;
    let contents = Contents { out, experiments: &experiments, all: &all, blocks: &blocks, authors };
    let day = words::date(contents.times().1);
    let day = day.split(' ').next().unwrap_or_default();
    let archive = arguments.archive.clone();
    let archive = archive.unwrap_or_else(|| format!("fulmar-lab-{day}.tar.gz").into());
    let files = archive::pack(&contents, &archive)?;
    let digest = digest::of_file(&archive)?;
    say!("{}: {} measurements in {files} files, SHA-256 {digest}", archive.display(), blocks.len());
    if authors.is_empty() {
        say!("CITATION.cff names nobody: --author NAME says who measured.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks an archive, and computes its figures and its report again.
pub(super) fn verify(arguments: &VerifyArguments) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let verified = archive::verify(&arguments.archive, folder.path())?;
    let opened = &verified.opened;
    say!("{}: all {} files are as they were packed", arguments.archive.display(), opened.files.len());
    say!(
        "{} of {} measurements were read again from what the load tools printed (the others printed nothing, failed, or were \
         imported)",
        verified.read_again,
        verified.blocks
    );
    say!("{} files of the report were computed again", verified.report_files);
    let (packed_by, this) = (&opened.manifest.packed_by, Program::this());
    if packed_by.sha256 != this.sha256 {
        say!(
            "Another build packed it: {} {} (SHA-256 {}…); this is {} {} ({}…). Another build may write another report.",
            packed_by.name,
            packed_by.version,
            digest::beginning(&packed_by.sha256),
            this.name,
            this.version,
            digest::beginning(&this.sha256)
        );
    }
    for difference in &verified.differences {
        say!("  differs: {difference}");
    }
    Ok(match verified.differences.len() {
        0 => {
            say!("Everything is the same, byte for byte.");
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    })
}

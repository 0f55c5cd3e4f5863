//! The command line.

mod archive;
mod claims;
mod compare;
mod demo;
mod doctor;
mod export;
mod features;
mod import;
mod list;
mod load;
mod progress;
mod report;
mod run;
mod say;
mod threshold;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::measure::contender::Contender;
use crate::measure::engine::Lineup;
use crate::measure::load::LoadArguments;
use crate::measure::reference::ReferenceArguments;
use crate::model::experiment::{Experiment, Finding};
use crate::model::words;

/// With which code the program ends.
const CODES: &str = "Exit codes: 0 where something was measured, or what was asked for is there; 1 for an error, where \
    nothing could be measured, where no request of `load` was answered rightly (2xx or 101, and the expected length), \
    and where `check` found a contender that answers differently; 2 for options that are none; 3 where `compare` shows a ratio beyond a bound of --fail-if; 130 after Ctrl-C; 141 \
    where nobody read the output to its end, but for `run`, which goes on.";

/// Repeats published web-server benchmarks side by side on this machine, and shows the evidence.
#[derive(Debug, Parser)]
#[command(name = "fulmar-lab", version, after_help = CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Experiments, contenders and tools: what is there, and how to install what is missing.
    List(Common),
    /// Sees that all contenders answer alike, and measures nothing.
    Check(run::RunArguments),
    /// Runs experiments and writes the report.
    Run(run::RunArguments),
    /// Two servers that are installed, in a minute, with a small report.
    Demo(demo::DemoArguments),
    /// Writes the report of an earlier run again.
    Report(report::ReportArguments),
    /// Looks whether figures, published and measured, fit together.
    Audit(report::AuditArguments),
    /// Two contenders side by side: the ratio with its interval.
    Compare(compare::CompareArguments),
    /// What each contender can do, by probing it.
    Features(features::FeaturesArguments),
    /// Whether this machine can give figures that are worth something.
    Doctor(doctor::DoctorArguments),
    /// Sends requests: the lab's own load generator.
    Load(Box<LoadArguments>),
    /// Runs one of the reference servers of the experiment on architectures.
    #[command(version)]
    Reference(ReferenceArguments),
    /// Writes the loads as k6 scripts and JMeter plans, for more machines than one.
    Export(export::ExportArguments),
    /// Reads what k6 or JMeter measured elsewhere into the results, and writes the report.
    Import(import::ImportArguments),
    /// The register of claims: what was published, and the verdicts of the results.
    Claims(claims::ClaimsArguments),
    /// Packs results into one archive, from which others can compute the same report.
    Pack(archive::PackArguments),
    /// Checks an archive, and computes its figures and its report again.
    Verify(archive::VerifyArguments),
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
struct Common {
    /// The program of a contender, where it is not the one that would be found.
    #[arg(long = "program", value_name = "NAME=PATH", global = true)]
    programs: Vec<String>,
    /// Another contender: a folder with a contender.toml and its templates.
    #[arg(long = "contender", value_name = "FOLDER", global = true)]
    contender_folders: Vec<PathBuf>,
    /// Another experiment: a TOML file.
    #[arg(long = "experiment", value_name = "FILE", global = true)]
    experiment_files: Vec<PathBuf>,
    /// Another claim of an experiment: a TOML file as those of the register.
    #[arg(long = "claim", value_name = "FILE", global = true)]
    claim_files: Vec<PathBuf>,
}

/// The exit code of a program that was ended by SIGINT.
const INTERRUPTED: u8 = 130;

/// The exit code of a comparison that is beyond a bound of `--fail-if`.
const BEYOND: u8 = 3;

/// Runs what the command line says.
pub fn main() -> ExitCode {
    let command = Cli::parse().command;
    let keeps_results = matches!(command, Command::Run(_) | Command::Demo(_));
    let result = match command {
        Command::List(common) => list::main(&common),
        Command::Check(arguments) => run::check(&arguments),
        Command::Run(arguments) => run::main(&arguments),
        Command::Report(arguments) => report::main(&arguments),
        Command::Audit(arguments) => report::audit(&arguments),
        Command::Compare(arguments) => compare::main(&arguments),
        Command::Features(arguments) => features::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Load(arguments) => load::main(&arguments),
        Command::Reference(arguments) => crate::measure::reference::main(&arguments),
        Command::Export(arguments) => export::main(&arguments),
        Command::Import(arguments) => import::main(&arguments),
        Command::Claims(arguments) => claims::main(&arguments),
        Command::Pack(arguments) => archive::pack(&arguments),
        Command::Verify(arguments) => archive::verify(&arguments),
        Command::Demo(arguments) => demo::main(&arguments),
    };
    // Measured results keep their exit code, also if the output has no reader.
    let unheard = if keeps_results { None } else { say::unheard(&result) };
    let told = result.unwrap_or_else(|error| {
        if unheard.is_none() {
            // Who would be told that it cannot be told?
            let _ = writeln!(io::stderr(), "fulmar-lab: {error:#}");
            if is_disk_full(&error) {
                let _ = writeln!(io::stderr(), "{DISK_FULL}");
            }
        }
        ExitCode::FAILURE
    });
    unheard.unwrap_or(told)
}

/// What is to be done where the disk is full.
const DISK_FULL: &str = "The disk is full. All runs that were measured before are kept. Free some space: then `run --resume` \
    goes on, and `report` writes the report of what there is.";

fn is_disk_full(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    kinds.into_iter().any(|kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

impl Common {
    /// The contenders and tools. Fails for a program of nobody.
    fn lineup(&self) -> Result<Lineup> {
        let mut contenders = Contender::built_in()?;
        for folder in &self.contender_folders {
            contenders.extend(Contender::read(folder)?);
        }
        let mut given = BTreeMap::new();
        for program in &self.programs {
            let (name, path) = program.split_once('=').context("--program takes NAME=PATH")?;
            let known: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
            let unknown = || words::unknown("contender", name, &known);
            ensure!(known.contains(&name), "--program {program}: {}", unknown());
            given.insert(name.to_owned(), PathBuf::from(path));
        }
        Ok(Lineup::new(contenders, given))
    }

    /// The experiments, of which all that they name is there, but for contenders.
    fn experiments(&self) -> Result<Vec<Experiment>> {
        let mut all = Experiment::built_in()?;
        let own = self.own_experiments()?;
        all.extend(own.iter().map(|(_, _, experiment)| experiment.clone()));
        for (path, text, experiment) in own {
            experiment.check_names(&text, &all).with_context(|| path.display().to_string())?;
        }
        for path in &self.claim_files {
            add_claim(&mut all, path).with_context(|| path.display().to_string())?;
        }
        Ok(all)
    }

    /// The experiments as above, and those that a folder of results has besides.
    fn experiments_of(&self, out: &Path) -> Result<Vec<Experiment>> {
        let mut all = self.experiments()?;
        let kept = Experiment::kept(out)?;
        let known: Vec<String> = all.iter().map(|experiment| experiment.id.clone()).collect();
        all.extend(kept.into_iter().filter(|experiment| !known.contains(&experiment.id)));
        Ok(all)
    }

    /// Fails where an experiment of the command line names a contender that is not known.
    fn check_contenders(&self, lineup: &Lineup) -> Result<()> {
        for path in &self.claim_files {
            let claim = Finding::parse(&std::fs::read_to_string(path)?)?;
            let nobody = claim.stranger(&lineup.names());
            nobody.map_or(Ok(()), Err).with_context(|| path.display().to_string())?;
        }
        for (path, text, experiment) in self.own_experiments()? {
            let checked = experiment.check_contenders(&text, &lineup.names());
            checked.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// The experiments of the command line: each with its file and its text.
    fn own_experiments(&self) -> Result<Vec<(&PathBuf, String, Experiment)>> {
        let read = |path| -> Result<_> {
            let text = std::fs::read_to_string(path)?;
            let experiment = Experiment::parse(&text)?;
            Ok((path, text, experiment))
        };
        self.experiment_files
            .iter()
            .map(|path| read(path).with_context(|| path.display().to_string()))
            .collect()
    }
}

fn some_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.05..=600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.05 to 600 is needed".into())
}

fn some_minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && minutes.is_finite());
    minutes.ok_or_else(|| "a number of minutes is needed".into())
}

/// Adds the claim of a file to its experiment.
fn add_claim(all: &mut [Experiment], path: &Path) -> Result<()> {
    let claim = Finding::parse(&std::fs::read_to_string(path)?)?;
    Experiment::add_claim(all, claim.clone())?;
    let experiment = all.iter().find(|one| claim.experiment.as_ref() == Some(&one.id));
    experiment.map_or(Ok(()), |experiment| experiment.check_finding(&claim, all))
}

/// The experiments of these names, in the order of the program; all of them where no name is given.
fn chosen(all: Vec<Experiment>, names: &[String]) -> Result<Vec<Experiment>> {
    for name in names {
        let known: Vec<&str> = all.iter().map(|experiment| experiment.id.as_str()).collect();
        ensure!(known.contains(&name.as_str()), words::unknown("experiment", name, &known));
    }
    Ok(all.into_iter().filter(|experiment| names.is_empty() || names.contains(&experiment.id)).collect())
}

/// A flag that is set by Ctrl-C, by TERM, and when the terminal goes away. Nothing ends at once: all that was started
/// has to be ended first, which is bounded.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn experiments_are_chosen_by_name() {
        let all = Experiment::built_in().unwrap();
        assert_eq!(chosen(all.clone(), &[]).unwrap().len(), all.len());
        assert_eq!(chosen(all.clone(), &["costs".to_owned()]).unwrap().len(), 1);
        let error = chosen(all, &["colours".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("colours") && error.contains("costs"), "{error}");
    }
}

//! `fulmar-lab run`: experiments, and the report about them. `fulmar-lab check` is a run that measures nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::Args;

use super::progress::Progress;
use super::say::{self, say};
use super::{Common, INTERRUPTED, chosen, interrupted, report};
use crate::judge::findings::{self, PROCEDURE};
use crate::judge::statistics::FEWEST;
use crate::measure::engine::{self, Event, NIGHT_MINUTES, Results, Settings, TURNS_QUICK};
use crate::model::block::{self, Block};
use crate::model::experiment::{Experiment, TURNS};
use crate::model::machine::Machine;

/// The arguments of `run`.
#[derive(Clone, Debug, Args)]
pub(super) struct RunArguments {
    /// The experiments; all of them where none is named.
    experiments: Vec<String>,
    /// The experiments that repeat publications, and the lab's own experiments that these refer to.
    #[arg(long, conflicts_with = "experiments")]
    published: bool,
    /// Only these contenders.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Smaller loads and fewer repetitions: the figures are indicative.
    #[arg(long)]
    quick: bool,
    /// Small loads, six times, which a verdict needs, in about N minutes. If N is too small, each measurement is shortened
    /// by the same factor, and the report says so.
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = super::some_minutes)]
    minutes: Option<f64>,
    /// A full run in one night: all loads in all turns. Long blocks end after as many seconds as fit into ten hours, and a
    /// sweep over numbers of clients takes larger steps.
    #[arg(long, conflicts_with_all = ["quick", "minutes"])]
    night: bool,
    /// Prints how long the run takes, and measures nothing.
    #[arg(long, conflicts_with = "resume")]
    estimate: bool,
    /// Goes on with the results that are there. Without it they are moved into a separate folder.
    #[arg(long)]
    resume: bool,
    /// Repetitions of each measurement (what the experiment says, else 20; 2 with --quick, 6 with --minutes).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

impl RunArguments {
    /// What runs one experiment in full, with so many turns.
    pub(super) fn of(experiment: &str, out: PathBuf, turns: u32, common: Common) -> RunArguments {
        RunArguments {
            experiments: vec![experiment.to_owned()],
            published: false,
            only: Vec::new(),
            quick: false,
            minutes: None,
            night: false,
            estimate: false,
            resume: false,
            turns: Some(turns),
            out,
            common,
        }
    }
}

/// Runs the experiments and writes the report. Then it fails if it was interrupted, or if nothing could be measured.
pub(super) fn main(arguments: &RunArguments) -> Result<ExitCode> {
    if arguments.estimate {
        // Nothing is written, so earlier results stay where they are.
        let out = tempfile::tempdir()?;
        run(arguments, arguments.turns, out.path().to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    let done = run(arguments, arguments.turns, arguments.out.clone())?;
    let failed = done.blocks.iter().filter(|block| block.failure.is_some()).count();
    say!(
        "\n{} measurements are in the folder {}; {failed} of them failed",
        done.blocks.len(),
        arguments.out.display()
    );
    if done.is_interrupted && done.blocks.is_empty() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let code = report::write_and_tell(&arguments.out, &done.experiments, &done.blocks)?;
    let is_measured = done.blocks.iter().any(|block| block.failure.is_none());
    if done.is_interrupted {
        say!("Interrupted: `--resume` goes on where it was.");
    }
    Ok(match is_measured {
        _ if done.is_interrupted => ExitCode::from(INTERRUPTED),
        true => code,
        false => {
            say!("Nothing was measured: the report says of every contender why.");
            ExitCode::FAILURE
        }
    })
}

/// Starts and checks every contender, and measures nothing. Fails if an installed one does not give the expected
/// response. What was measured is left alone: the results of a check have their own folder.
pub(super) fn check(arguments: &RunArguments) -> Result<ExitCode> {
    let out = arguments.out.join("check");
    let done = run(arguments, Some(0), out)?;
    // A check writes a block only for a contender that failed. One without a version is not installed.
    let wrong = done.blocks.iter().filter(|block| !block.version.is_empty()).count();
    say!("{wrong} installed contenders failed the check");
    Ok(match wrong {
        _ if done.is_interrupted => ExitCode::from(INTERRUPTED),
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// What a run came to.
struct Done {
    experiments: Vec<Experiment>,
    /// All measured blocks, including those of an earlier run that was resumed.
    blocks: Vec<Block>,
    is_interrupted: bool,
    /// Nobody else writes into the folder before the report is there.
    _taken: Results,
}

fn run(arguments: &RunArguments, turns: Option<u32>, out: PathBuf) -> Result<Done> {
    let known = arguments.common.experiments()?;
    let experiments = match arguments.published {
        true => Experiment::answering_publications(&known).into_iter().cloned().collect(),
        false => chosen(known.clone(), &arguments.experiments)?,
    };
    let lineup = arguments.common.lineup()?;
    arguments.common.check_contenders(&lineup)?;
    for name in &arguments.only {
        lineup.find(name)?;
    }
    let taken = Results::take(&out)?;
    let interrupted = interrupted()?;
    let is_check = turns == Some(0);
    if is_check {
        say::interrupt_when_unread(&interrupted);
        forget(&out)?;
    }
    let settings = Settings {
        out,
        quick: arguments.quick || arguments.minutes.is_some(),
        minutes: arguments.minutes.or(arguments.night.then_some(NIGHT_MINUTES)),
        turns: turns.or(arguments.minutes.map(|_| FEWEST)),
        resume: arguments.resume,
        known: &known,
        only: arguments.only.clone(),
        interrupted: &interrupted,
    };
    let mut progress = Progress::new(is_check);
    let mut unwritten = Ok(());
    engine::run(&settings, &experiments, &lineup, &mut |event| {
        progress.tell(&event);
        // The estimate is the last event before the first block.
        let is_estimate = matches!(event, Event::Estimate(_));
        if is_estimate && !is_check {
            limits(&settings, &experiments).iter().for_each(|limit| say!("{limit}"));
        }
        if is_estimate && !is_check && !arguments.estimate {
            unwritten = state_procedure(&settings.out, &experiments);
        }
        let is_enough = arguments.estimate && is_estimate;
        interrupted.fetch_or(is_enough, Ordering::Relaxed);
    })?;
    progress.end();
    unwritten?;
    let blocks = block::read(&settings.out.join(block::FILE))?;
    Ok(Done { experiments, blocks, is_interrupted: interrupted.load(Ordering::Relaxed), _taken: taken })
}

/// The file that says before the first block how claims will be judged.
const PROCEDURE_FILE: &str = "procedure.txt";

/// Writes how claims will be judged, and of how many comparisons each family is.
fn state_procedure(out: &Path, experiments: &[Experiment]) -> Result<()> {
    let conditions = |experiment: &Experiment| -> usize {
        experiment.findings.iter().map(|finding| finding.holds_when.len()).sum()
    };
    let family =
        |experiment: &Experiment| format!("  {}: {} conditions\n", experiment.id, conditions(experiment));
    let families: String = experiments.iter().map(family).collect();
    let path = out.join(PROCEDURE_FILE);
    let untestable = untestable(experiments, &Machine::this());
    let untestable: String =
        untestable.iter().map(|(finding, reason)| format!("  {finding}: {reason}\n")).collect();
    let untestable = if untestable.is_empty() { "  none\n" } else { &untestable };
    let text = format!(
        "{PROCEDURE}- Families of this run:\n{families}- Findings that cannot be tested on this machine:\n{untestable}"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// What the run cannot decide, in sentences: for want of turns, or on this machine.
fn limits(settings: &Settings<'_>, experiments: &[Experiment]) -> Vec<String> {
    let turns = settings.turns.unwrap_or(if settings.quick { TURNS_QUICK } else { TURNS });
    let of_turns = match turns {
        few if few < FEWEST => Some(format!(
            "{few} turns give no verdict about a ratio: a verdict needs {FEWEST} turns, and a claim {TURNS} (--turns)"
        )),
        few if few < TURNS => {
            Some(format!("{few} turns give indicative verdicts: a claim needs {TURNS} turns (--turns)"))
        }
        _ => None,
    };
    let all: usize = experiments.iter().map(|experiment| experiment.findings.len()).sum();
    let untestable = untestable(experiments, &Machine::this()).len();
    let of_machine = (untestable > 0).then(|| {
        format!("{untestable} of {all} findings cannot be tested on this machine: {PROCEDURE_FILE} says of each why")
    });
    of_turns.into_iter().chain(of_machine).collect()
}

/// The findings that cannot be tested on a machine, with the reasons.
fn untestable(experiments: &[Experiment], machine: &Machine) -> Vec<(String, String)> {
    let of_one = |experiment: &Experiment| {
        let all = findings::untestable(experiment, machine).into_iter();
        all.map(|(finding, reason)| (format!("{} {finding}", experiment.id), reason)).collect::<Vec<_>>()
    };
    experiments.iter().flat_map(of_one).collect()
}

/// Deletes what an earlier check wrote.
fn forget(out: &Path) -> Result<()> {
    let path = out.join(block::FILE);
    if path.exists() {
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// On two cores the loads with four and eight cores are known not to run; what only was not measured yet is no reason.
    #[test]
    fn what_cannot_be_tested_is_said_before_the_run() {
        let all = Experiment::built_in().unwrap();
        let machine = |cores| Machine { cores, ..Machine::default() };
        let small = untestable(&all, &machine(2));
        let reason = |finding: &str| {
            small.iter().find(|(other, _)| other == finding).map(|(_, reason)| reason.as_str())
        };
        assert_eq!(reason("static-cores F4"), Some("4 or 8 cores are needed, and this machine has 2"));
        assert!(reason("windows-hey F1").is_some_and(|reason| reason.contains("Windows")), "{small:?}");
        assert_eq!(reason("modern-vps F1"), None, "{small:?}");
        assert!(small.iter().all(|(_, reason)| !reason.contains("not measured")), "{small:?}");
        let large = untestable(&all, &machine(64));
        assert!(
            large.len() < small.len() && large.iter().all(|(finding, _)| finding != "static-cores F4"),
            "{large:?}"
        );
    }

    #[test]
    fn too_few_turns_are_said_before_the_run() {
        let interrupted = AtomicBool::new(false);
        let settings = |turns, quick| Settings {
            out: PathBuf::new(),
            quick,
            minutes: None,
            turns,
            resume: false,
            known: &[],
            only: Vec::new(),
            interrupted: &interrupted,
        };
        let said = |turns, quick| limits(&settings(turns, quick), &[]).join(" ");
        assert!(said(None, true).starts_with("2 turns give no verdict"));
        assert!(said(Some(6), true).starts_with("6 turns give indicative verdicts"));
        assert_eq!([said(None, false), said(Some(20), true)], ["", ""]);
    }
}

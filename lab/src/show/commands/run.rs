//! `fulmar-lab run`: experiments, and the report about them. `fulmar-lab check` is a run that measures nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::progress::Progress;
use super::say::{self, say};
use super::{Common, INTERRUPTED, chosen, interrupted, report};
use crate::judge::findings::{self, PROCEDURE};
use crate::judge::power::{self, Noise};
use crate::judge::statistics::{FEWEST, fewest_for};
use crate::measure::engine::{self, BLOCK_S, Ended, Event, NIGHT_MINUTES, Results, Settings, TURNS_QUICK};
use crate::model::block::{self, Block};
use crate::model::experiment::{Experiment, Selection, TURNS, TURNS_DECIDE, is_judged};
use crate::model::machine::Machine;
use crate::model::words;
use crate::show::archive;

/// The arguments of `run`.
#[derive(Clone, Debug, Args)]
pub(super) struct RunArguments {
    /// The experiments; all of them where none is named.
    experiments: Vec<String>,
    /// The experiments that repeat publications, and the lab's own experiments that these refer to.
    #[arg(long, conflicts_with = "experiments")]
    published: bool,
    /// Only the blocks that the claims about publications and the needs of the report read, as small as in a quick run, in
    /// twelve turns: the shortest run that can decide every claim which can be decided here.
    #[arg(long, conflicts_with_all = ["experiments", "published", "minutes", "night"])]
    claims: bool,
    /// Only these contenders.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Smaller loads and fewer repetitions: the figures are indicative.
    #[arg(long)]
    quick: bool,
    /// Small loads, twelve times, which can decide claims of each publication, in about N minutes. If N is too small, each
    /// measurement is shortened by the same factor, to no less than two seconds, and the report says so.
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = super::some_minutes)]
    minutes: Option<f64>,
    /// A full run in one night: all loads in twelve turns, or in 13 with four cores or more. Long blocks end after as many
    /// seconds as fit into twelve hours, and a sweep over numbers of clients takes larger steps.
    #[arg(long, conflicts_with_all = ["quick", "minutes"])]
    night: bool,
    /// Prints how long the run takes, and measures nothing.
    #[arg(long, conflicts_with = "resume")]
    estimate: bool,
    /// Goes on with the results that are there. Without it they are moved into a separate folder.
    #[arg(long)]
    resume: bool,
    /// Pauses after about N minutes, between two measurements. `--resume` goes on, also on another day. The report names the
    /// sittings.
    #[arg(long, value_name = "N", value_parser = super::some_minutes)]
    window: Option<f64>,
    /// Earlier results, a folder or an archive of `pack`: their noise says which differences this run can show. Without it,
    /// those in --out, if there are some.
    #[arg(long, value_name = "RESULTS")]
    noise: Option<PathBuf>,
    /// Repetitions of each measurement (what the experiment says, else 20; 2 with --quick, 12 with --minutes or --claims,
    /// 12 or more with --night).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    /// The folder of the results.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
    /// Whether blocks may be shorter than a verdict needs: a demonstration takes a minute.
    #[arg(skip)]
    short_blocks: bool,
    #[command(flatten)]
    common: Common,
}

impl RunArguments {
    /// What runs one experiment in full, with so many turns and blocks as short as it says.
    pub(super) fn of(experiment: &str, out: PathBuf, turns: u32, common: Common) -> RunArguments {
        RunArguments {
            experiments: vec![experiment.to_owned()],
            published: false,
            claims: false,
            only: Vec::new(),
            quick: false,
            minutes: None,
            night: false,
            estimate: false,
            resume: false,
            window: None,
            noise: None,
            turns: Some(turns),
            out,
            short_blocks: true,
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
    if done.is_paused {
        say!("Paused, as --window says: the same command with `--resume` goes on.");
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
    /// Whether the window was over before the run was.
    is_paused: bool,
    /// Nobody else writes into the folder before the report is there.
    _taken: Results,
}

fn run(arguments: &RunArguments, turns: Option<u32>, out: PathBuf) -> Result<Done> {
    let known = arguments.common.experiments()?;
    let selection = arguments.claims.then(|| Selection::of_claims(&known));
    let experiments = match &selection {
        Some(all) => known.iter().filter(|experiment| all.has(&experiment.id)).cloned().collect(),
        None if arguments.published => {
            Experiment::answering_publications(&known).into_iter().cloned().collect()
        }
        None => chosen(known.clone(), &arguments.experiments)?,
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
        quick: arguments.quick || arguments.claims || arguments.minutes.is_some(),
        minutes: arguments.minutes.or(arguments.night.then_some(NIGHT_MINUTES)),
        turns: turns.or_else(|| {
            (arguments.minutes.is_some() || arguments.night || arguments.claims)
                .then(|| turns_that_decide(&experiments, !arguments.night, Machine::this().cores))
        }),
        block_s: 0.0,
        window: arguments.window.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        resume: arguments.resume,
        known: &known,
        only: arguments.only.clone(),
        selection,
        interrupted: &interrupted,
    };
    let is_long = is_judged(turns_of(&settings)) && !arguments.short_blocks;
    let settings = Settings { block_s: if is_long { BLOCK_S } else { 0.0 }, ..settings };
    let mut progress = Progress::new(is_check);
    let mut unwritten = Ok(());
    // Before they are moved aside.
    let earlier = if is_check { Vec::new() } else { earlier(arguments)? };
    let ended = engine::run(&settings, &experiments, &lineup, &mut |event| {
        progress.tell(&event);
        // The estimate is the last event before the first block.
        let is_estimate = matches!(event, Event::Estimate(_));
        if is_estimate && !is_check {
            limits(&settings, &experiments).iter().for_each(|limit| say!("{limit}"));
            powers(&settings, &experiments, &earlier).iter().for_each(|line| say!("{line}"));
        }
        if is_estimate && !is_check && !arguments.estimate {
            unwritten = state_procedure(&settings, &experiments, &earlier);
        }
        let is_enough = arguments.estimate && is_estimate;
        interrupted.fetch_or(is_enough, Ordering::Relaxed);
    })?;
    progress.end();
    unwritten?;
    let blocks = block::read(&settings.out.join(block::FILE))?;
    Ok(Done {
        experiments,
        blocks,
        is_interrupted: interrupted.load(Ordering::Relaxed),
        is_paused: ended == Ended::Paused,
        _taken: taken,
    })
}

/// The blocks of earlier results, whose noise is known.
fn earlier(arguments: &RunArguments) -> Result<Vec<Block>> {
    let Some(results) = &arguments.noise else { return block::read(&arguments.out.join(block::FILE)) };
    let reading = || format!("--noise {}", results.display());
    if results.is_dir() {
        let path = results.join(block::FILE);
        ensure!(
            path.exists(),
            "{}: this folder has no {}, so it is no folder of results",
            reading(),
            block::FILE
        );
        return block::read(&path).with_context(reading);
    }
    let folder = tempfile::tempdir()?;
    archive::unpack(results, folder.path()).with_context(reading)?;
    block::read(&folder.path().join(block::FILE)).with_context(reading)
}

/// The repetitions of a run.
fn turns_of(settings: &Settings<'_>) -> u32 {
    settings.turns.unwrap_or(if settings.quick { TURNS_QUICK } else { TURNS })
}

/// So many turns that each of these experiments can have a verdict on a machine with so many cores, [`TURNS_DECIDE`] or more.
fn turns_that_decide(experiments: &[Experiment], quick: bool, cores: u32) -> u32 {
    let needed = |experiment| fewest_for(power::comparisons(experiment, quick, cores));
    experiments.iter().map(needed).fold(TURNS_DECIDE, u32::max)
}

/// Which differences the run can show, a line for each publication, from the noise of earlier results. Empty if the run has too
/// few turns for verdicts.
fn powers(settings: &Settings<'_>, experiments: &[Experiment], earlier: &[Block]) -> Vec<String> {
    if !is_judged(turns_of(settings)) {
        return Vec::new();
    }
    let (mut lines, mut is_unknown) = (Vec::new(), false);
    let cores = Machine::this().cores;
    for experiment in experiments.iter().filter(|experiment| !experiment.findings.is_empty()) {
        let turns = settings.turns.or(experiment.turns).unwrap_or(TURNS);
        let comparisons = power::comparisons(experiment, settings.quick, cores);
        let noise = Noise::of(experiment, earlier);
        let needed = fewest_for(comparisons);
        let Experiment { id, .. } = experiment;
        match noise.shows(turns, comparisons) {
            _ if turns < needed => lines.push(format!(
                "{id}: {turns} turns decide none of about {comparisons} comparisons, {needed} can decide some"
            )),
            Some((typical, (worst, load))) => lines.push(format!(
                "{id}: {turns} turns will show differences of {} (median load) to {} (“{load}”), in one of about {comparisons} comparisons",
                percent(typical),
                percent(worst)
            )),
            None => is_unknown = true,
        }
    }
    if is_unknown {
        lines.push(
            "Which differences the other experiments can show is not known without earlier results of this machine: `run --quick` \
             gives some in minutes, and --noise names them"
                .into(),
        );
    }
    lines
}

fn percent(part: f64) -> String {
    format!("{} %", words::number(100.0 * part))
}

/// The file that says before the first block how claims will be judged.
const PROCEDURE_FILE: &str = "procedure.txt";

/// What `--claims` measures, before the list of it.
const SELECTED: &str = "\
- Measured (--claims): only what a claim about a publication reads, and all contenders of the loads that stand for a need. Left
  out are the lab's own questions, claims that no run on this system can test, and numbers of cores at which the load tool
  would share the contenders' cores. Two contenders of a load have twins if a claim compares its leader with the noise floor. A
  number of requests that was not published is as large as 20 for each client, up to that of a quick run, and as 2 s.
  The loads, with contenders and numbers of clients:
";

/// Writes how claims will be judged, of how many comparisons each family is, and what the run can and cannot decide.
fn state_procedure(settings: &Settings<'_>, experiments: &[Experiment], earlier: &[Block]) -> Result<()> {
    let machine = Machine::this();
    let family = |experiment: &Experiment| {
        let comparisons = power::comparisons(experiment, settings.quick, machine.cores);
        format!(
            "  {}: about {comparisons} comparisons, which need {} turns\n",
            experiment.id,
            fewest_for(comparisons)
        )
    };
    let families: String = experiments.iter().map(family).collect();
    let path = settings.out.join(PROCEDURE_FILE);
    let powers: String =
        powers(settings, experiments, earlier).iter().map(|line| format!("  {line}\n")).collect();
    let powers = if powers.is_empty() { "  not known: too few turns for verdicts\n" } else { &powers };
    let untestable = untestable(experiments, &machine);
    let untestable: String =
        untestable.iter().map(|(finding, reason)| format!("  {finding}: {reason}\n")).collect();
    let untestable = if untestable.is_empty() { "  none\n" } else { &untestable };
    let selected = settings.selection.as_ref().map_or(String::new(), |selection| {
        let lines = selection.lines(experiments).into_iter();
        format!("{SELECTED}{}", lines.map(|line| format!("  {line}\n")).collect::<String>())
    });
    let text = format!(
        "{PROCEDURE}{selected}- Families of this run:\n{families}- What it can show, in four of five such runs:\n{powers}- Findings that cannot be tested on this machine:\n{untestable}"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// What the run cannot decide, in sentences: for want of turns, or on this machine.
fn limits(settings: &Settings<'_>, experiments: &[Experiment]) -> Vec<String> {
    let of_turns = match turns_of(settings) {
        few if few < FEWEST => Some(format!(
            "{few} turns give no verdict about a ratio: a verdict needs {FEWEST} turns or more, and a claim {TURNS} (--turns)"
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
    use crate::model::block::tests;
    use crate::model::figure::Figure;

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
            block_s: 0.0,
            window: None,
            resume: false,
            known: &[],
            only: Vec::new(),
            selection: None,
            interrupted: &interrupted,
        };
        let said = |turns, quick| limits(&settings(turns, quick), &[]).join(" ");
        assert!(said(None, true).starts_with("2 turns give no verdict"));
        assert!(said(Some(6), true).starts_with("6 turns give indicative verdicts"));
        assert_eq!([said(None, false), said(Some(20), true)], ["", ""]);
        let all = Experiment::built_in().unwrap();
        let powers =
            |turns, earlier: &[Block]| powers(&settings(Some(turns), true), &all, earlier).join("\n");
        assert_eq!(powers(2, &[]), "");
        assert!(powers(6, &[]).contains("modern-vps: 6 turns decide none of about "));
        assert!(powers(20, &[]).starts_with("Which differences the other experiments can show is not known"));
        let of_turn = |(contender, turn, rate)| {
            let mut block =
                Block { turn, ..tests::block(contender, "small", 64, &[(Figure::RequestsPerS, rate)]) };
            block.cell.experiment = "modern-vps".into();
            block
        };
        let pilot = [("a", 0, 100.0), ("b", 0, 50.0), ("a", 1, 104.0), ("b", 1, 50.0)].map(of_turn);
        let known = powers(20, &pilot);
        assert!(known.contains("modern-vps: 20 turns will show differences of 3.28 %"), "{known}");
    }

    /// The turns that `--minutes` and `--night` plan can decide claims of every publication. Those of a full run compare more
    /// on a machine with more cores.
    #[test]
    fn planned_turns_decide_every_publication() {
        let all = Experiment::built_in().unwrap();
        for (quick, cores, planned) in
            [(true, 2, 12), (true, 64, 12), (false, 2, 12), (false, 4, 13), (false, 64, 13)]
        {
            assert_eq!(turns_that_decide(&all, quick, cores), planned, "quick {quick}, {cores} cores");
            for experiment in &all {
                let needed = fewest_for(power::comparisons(experiment, quick, cores));
                assert!(needed <= planned, "{}: {needed} turns on {cores} cores", experiment.id);
            }
        }
        assert_eq!(turns_that_decide(&[], true, 2), TURNS_DECIDE);
    }
}

//! Running experiments: starting the contenders of a load, seeing that they answer alike, and measuring them in turn.

mod application;
mod check;
mod cores;
mod earlier;
mod estimate;
pub mod fetch;
mod groups;
mod idle;
mod lineup;
mod measure;
mod memory;
mod process;
mod prose;
mod results;
mod schedule;
mod series;
pub mod site;
mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

pub use lineup::Lineup;
pub use results::Results;

use crate::measure::environment::Environment;
use crate::model::block::{self, Block};
use crate::model::experiment::{Experiment, Load, Selection, is_judged};
use crate::model::machine::Machine;
use crate::model::order::ToolName;
use application::Applications;
use cores::Division;
use estimate::Takes;
use series::{Prepared, Series};
use site::Site;

/// How experiments are run.
#[derive(Clone)]
pub struct Settings<'a> {
    /// The folder of results.
    pub out: PathBuf,
    /// Less of everything.
    pub quick: bool,
    /// In which time all is to be done, as far as guesses go. The blocks of a quick run are shortened to a part; in a full
    /// run long blocks end after as many seconds as fit.
    pub minutes: Option<f64>,
    /// Repetitions of each cell; as many as the experiment says where absent. With 0 nothing is measured: the
    /// contenders are started and checked.
    pub turns: Option<u32>,
    /// A block lasts at least so many seconds, and a warm-up precedes the first one after a start. 0 allows shorter blocks,
    /// without a warm-up.
    pub block_s: f64,
    /// After how long a run pauses, between two measurements of a group of loads.
    pub window: Option<Duration>,
    /// Whether cells that were measured before are left out.
    pub resume: bool,
    /// All experiments: their findings say which loads are compared with each other, and are measured in turn.
    pub known: &'a [Experiment],
    /// Only these contenders, if any are named.
    pub only: Vec<String>,
    /// Only these blocks; all where absent.
    pub selection: Option<Selection>,
    /// Ends the run after the current step.
    pub interrupted: &'a AtomicBool,
}

/// What a run reports to its caller.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// What was measured before has been moved into this folder.
    PutAside(&'a Path),
    /// Seconds that each experiment takes, about.
    Estimate(Vec<(&'a Experiment, f64)>),
    /// Blocks are shortened so that the run keeps to its time.
    Shortened(Shortened),
    /// So many blocks are to come in these loads, which are measured in turn.
    Loads {
        /// The turn and the number of turns, if they are measured one by one.
        turn: Option<(u32, u32)>,
        /// The experiment.
        experiment: &'a Experiment,
        /// The loads, each once.
        loads: Vec<&'a Load>,
        /// Blocks to come at most.
        blocks: usize,
    },
    /// A contender runs and answers as it should.
    Ready {
        /// Its name.
        contender: &'a str,
        /// Bytes of the head of its answer.
        head_bytes: usize,
    },
    /// A block is done, or cannot be.
    Block(&'a Block),
}

/// How blocks are shortened.
#[derive(Clone, Copy, Debug)]
pub enum Shortened {
    /// To this part of a quick run's.
    Part(f64),
    /// Those that would last longer end after so many seconds.
    Seconds(f64),
}

/// How long a run of all loads may take that is made in a night.
pub const NIGHT_MINUTES: f64 = 720.0;

/// Files that a process has open besides its connections.
const RESERVE: u64 = 1000;

/// Repetitions of a quick run.
pub const TURNS_QUICK: u32 = 2;

/// How long a block of a run that allows verdicts lasts at least.
pub const BLOCK_S: f64 = 2.0;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was measured, or the run was interrupted.
    Whole,
    /// The window was over.
    Paused,
}

/// At most so many turns are measured in addition to make up for blocks that began on a busy machine, and at most one for
/// so many turns.
const REPEATS_MAX: u32 = 2;
const TURNS_PER_REPEAT: u32 = 3;

/// For how long the blocks of a load may wait for a quiet machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs experiments, and appends each block to `blocks.jsonl` in the folder of results, which the caller has taken
/// ([`Results::take`]).
pub fn run(
    settings: &Settings<'_>,
    experiments: &[Experiment],
    lineup: &Lineup,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Ended> {
    fs::create_dir_all(&settings.out).with_context(|| settings.out.display().to_string())?;
    let path = settings.out.join(block::FILE);
    if settings.resume {
        block::repair(&path)?;
    } else if let Some(folder) = earlier::put_aside(&settings.out)? {
        tell(Event::PutAside(&folder));
    }
    let (begun, failed): (Vec<Block>, Vec<Block>) =
        block::read(&path)?.into_iter().partition(Block::took_part);
    let (done, tried): (Vec<Block>, Vec<Block>) =
        begun.into_iter().partition(|block| block.failure.is_none());
    let busy = done.iter().filter(|block| block.circumstances.is_busy());
    let busy = RefCell::new(busy.map(|block| (block.cell.clone(), block.turn)).collect());
    let [done, tried] = [done, tried]
        .map(|blocks| blocks.into_iter().map(|block| (block.cell, block.turn)).collect::<BTreeSet<_>>());
    let failed = RefCell::new(failed.into_iter().map(|block| block.cell).collect::<BTreeSet<block::Cell>>());
    if settings.turns != Some(0) {
        let tools = experiments.iter().flat_map(|experiment| &experiment.loads).map(|load| load.tool);
        Environment::this(tools.chain([ToolName::FulmarLab]).collect()).keep(&settings.out)?;
        Experiment::keep(&settings.out, experiments, settings.known)?;
    }
    let machine = Machine::this();
    let place = place()?;
    raise_limit(experiments)?;
    let applications = Applications::default();
    let (tell, share) = (RefCell::new(tell), Cell::new(1.0));
    let site = |experiment: &Experiment| Site::create(&place.path().join(&experiment.id), &experiment.files);
    let sites: Vec<Site> = experiments.iter().map(site).collect::<Result<_>>()?;
    let all_of = |(experiment, site)| {
        loads(settings, experiment, machine.cores).map(move |(load, cores)| (experiment, site, load, cores))
    };
    let series_of = |(experiment, site, load, cores)| Series {
        settings,
        lineup,
        experiment,
        load,
        cores,
        site,
        folder: place.path(),
        machine: &machine,
        applications: &applications,
        share: &share,
        done: &done,
        tried: &tried,
        busy: &busy,
        patience: Cell::new(PATIENCE),
        failed: &failed,
        starts: RefCell::default(),
        tell: &tell,
    };
    let all: Vec<Vec<Series<'_, '_>>> =
        experiments.iter().zip(&sites).map(|one| all_of(one).map(series_of).collect()).collect();
    measure_all(settings, experiments, &all, &share)
}

/// The loads that are run, each with each of its numbers of cores, of `here` cores.
fn loads<'a>(
    settings: &'a Settings<'_>,
    experiment: &'a Experiment,
    here: u32,
) -> impl Iterator<Item = (&'a Load, u32)> {
    let is_selected = |load: &&Load| {
        settings.selection.as_ref().is_none_or(|all| all.of(&experiment.id, &load.id).is_some())
    };
    let loads = experiment.loads.iter().filter(is_selected);
    // What a claim reads is measured, also if a quick run leaves it out.
    let is_quick = settings.quick && settings.selection.is_none();
    let loads = loads.filter(move |load| load.left_out(is_quick).is_none());
    let all = loads.flat_map(|load| load.cores(settings.quick).iter().map(move |cores| (load, *cores)));
    // The claims alone need no second number of cores at which the tool takes time from the contenders: its rates and times
    // give no verdict.
    let is_apart = move |cores: u32| cores == 1 || Division::apart(cores, here).tool_is_apart();
    all.filter(move |(_, cores)| settings.selection.is_none() || is_apart(*cores))
}

/// Measures all groups of series, round by round. Where all is to be done in a time, blocks are shortened so that they fit
/// into it, all by the same share.
fn measure_all(
    settings: &Settings<'_>,
    experiments: &[Experiment],
    all: &[Vec<Series<'_, '_>>],
    share: &Cell<f64>,
) -> Result<Ended> {
    let mut set_up = BTreeSet::new();
    let takes: Vec<Vec<Takes<'_>>> =
        all.iter().map(|series| series.iter().map(|one| one.takes(&mut set_up)).collect()).collect();
    let Some(tell) = all.iter().flatten().next().map(|series| series.tell) else { return Ok(Ended::Whole) };
    if let Some(minutes) = settings.minutes {
        share.set(estimate::share(minutes * 60.0, &takes.iter().flatten().collect::<Vec<_>>()));
    }
    let named = experiments.iter().zip(&takes);
    let named = named.map(|(experiment, takes)| (experiment, estimate::seconds(takes, share.get())));
    (tell.borrow_mut())(Event::Estimate(named.collect()));
    if settings.minutes.is_some() {
        (tell.borrow_mut())(Event::Shortened(schedule::shortening(settings, share.get())));
    }
    let end = settings.window.map(|window| Instant::now() + window);
    let mut groups = Vec::new();
    for (experiment, series) in experiments.iter().zip(all) {
        let places: Vec<groups::Place> = series.iter().map(Series::measures).collect();
        let of_experiment = groups::groups(&experiment.id, &places, settings.known);
        groups.extend(
            of_experiment
                .into_iter()
                .map(|group| Group { series: group.into_iter().map(|index| &series[index]).collect() }),
        );
    }
    for round in 0.. {
        let mut is_over = true;
        for group in groups.iter().filter(|group| group.has(round)) {
            if settings.interrupted.load(Ordering::Relaxed) {
                return Ok(Ended::Whole);
            }
            is_over = false;
            if group.is_measured(round) {
                continue;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(Ended::Paused);
            }
            group.measure(round)?;
        }
        if is_over {
            break;
        }
    }
    Ok(Ended::Whole)
}

/// Series that are measured in turn.
struct Group<'a, 'b, 'c> {
    series: Vec<&'c Series<'a, 'b>>,
}

impl Group<'_, '_, '_> {
    /// The turns that were planned.
    fn planned(&self) -> u32 {
        self.series.first().map_or(0, |first| first.turns())
    }

    /// The turns of a round, for all of which the contenders are started once. For blocks that began on a busy machine, more
    /// turns follow, since no verdict uses those blocks.
    fn turns(&self, round: u32) -> Range<u32> {
        let planned = self.planned();
        let per_round = turns_per_start(planned);
        let busy = self.series.iter().map(|one| one.busy_turns()).max().unwrap_or_default();
        let end = planned + repeats(planned, busy);
        (round * per_round).min(end)..((round + 1) * per_round).min(end)
    }

    /// Whether a round has something to do. The first one checks the contenders, also if nothing is measured.
    fn has(&self, round: u32) -> bool {
        round == 0 || !self.turns(round).is_empty()
    }

    /// Whether an earlier run has done a round.
    fn is_measured(&self, round: u32) -> bool {
        let turns = self.turns(round);
        !turns.is_empty() && turns.into_iter().all(|turn| self.series.iter().all(|one| one.is_measured(turn)))
    }

    /// Measures one turn after the other, each in the opposite order of the one before.
    fn measure(&self, round: u32) -> Result<()> {
        let Some(first) = self.series.first() else { return Ok(()) };
        let mut loads: Vec<&Load> = self.series.iter().map(|one| one.load).collect();
        loads.dedup_by_key(|load| &load.id);
        let (turns, planned) = (self.turns(round), self.planned());
        let blocks = self.series.iter().map(|one| one.blocks()).sum::<usize>() * turns.len();
        let turn = (turns.len() == 1 && planned > 1).then_some((turns.start + 1, planned));
        (first.tell.borrow_mut())(Event::Loads { turn, experiment: first.experiment, loads, blocks });
        let mut prepared = Vec::new();
        for one in &self.series {
            prepared.extend(one.prepare(turns.start, round)?.map(|prepared| (one, prepared)));
        }
        for turn in turns {
            let measure = |(one, prepared): &(&&Series<'_, '_>, Prepared)| one.turn(prepared, turn);
            if turn % 2 == 0 {
                prepared.iter().try_for_each(measure)?;
            } else {
                prepared.iter().rev().try_for_each(measure)?;
            }
        }
        Ok(())
    }
}

/// How many turns follow each other before the contenders are started anew. A run that is too short for verdicts starts
/// them once.
fn turns_per_start(planned: u32) -> u32 {
    if is_judged(planned) { 1 } else { planned.max(1) }
}

/// How many turns make up for those of which blocks began on a busy machine. Two turns are too few for a verdict anyway.
fn repeats(planned: u32, busy: u32) -> u32 {
    busy.min(REPEATS_MAX).min(planned / TURNS_PER_REPEAT)
}

/// Lets the contenders, which inherit it, and the generator have as many files open as the loads have clients, or as
/// many as this process may allow them.
fn raise_limit(experiments: &[Experiment]) -> Result<()> {
    let clients =
        experiments.iter().flat_map(|experiment| &experiment.loads).flat_map(|load| load.clients(false));
    // One that passes requests on has two for each client.
    let wanted = 2 * u64::from(clients.max().unwrap_or_default()) + RESERVE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Some users may raise the limit of their session, too.
    let above = Rlimit { current: Some(wanted), maximum: limit.maximum.map(|maximum| maximum.max(wanted)) };
    if setrlimit(Resource::Nofile, above).is_ok() {
        return Ok(());
    }
    let wanted = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).with_context(|| format!("{wanted} open files are needed"))
}

/// A folder for what is served and for the contenders that run, which is gone when the run ends. Contenders that give up
/// their privileges can enter it, wherever the results are.
fn place() -> Result<TempDir> {
    let place =
        tempfile::Builder::new().prefix("fulmar-lab-").tempdir().context("a folder for the contenders")?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full run.
    pub(super) fn settings(interrupted: &AtomicBool) -> Settings<'_> {
        Settings {
            out: PathBuf::new(),
            quick: false,
            minutes: None,
            turns: None,
            block_s: 0.0,
            window: None,
            resume: false,
            known: &[],
            only: Vec::new(),
            selection: None,
            interrupted,
        }
    }

    #[test]
    fn every_turn_of_a_verdict_has_a_start_of_its_own() {
        assert_eq!([0, 2, 5, 6, 20].map(turns_per_start), [1, 2, 5, 1, 1]);
    }

    #[test]
    fn busy_turns_are_made_up_for() {
        assert_eq!([repeats(6, 0), repeats(6, 1), repeats(6, 6), repeats(20, 6)], [0, 1, 2, 2]);
        assert_eq!([repeats(2, 2), repeats(0, 2)], [0, 0], "a quick run, and one that only checks");
    }
}

//! Running experiments: starting the contenders of a load, seeing that they answer alike, and measuring them in turn.

mod check;
pub mod fetch;
mod idle;
mod lineup;
mod measure;
mod series;
pub mod site;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tempfile::TempDir;

pub use lineup::Lineup;

use crate::block::{self, Block, Cell};
use crate::experiment::{Experiment, Load};
use crate::machine::Machine;
use series::Series;
use site::Site;

/// How experiments are run.
pub struct Settings<'a> {
    /// The folder of results.
    pub out: PathBuf,
    /// Less of everything; the figures are indicative.
    pub quick: bool,
    /// Repetitions of each cell; as many as the experiment says where absent. With 0 nothing is measured: the
    /// contenders are started and checked.
    pub turns: Option<u32>,
    /// Whether cells that were measured before are left out.
    pub resume: bool,
    /// Only these contenders, if any are named.
    pub only: Vec<String>,
    /// Ends the run after the current step.
    pub interrupted: &'a AtomicBool,
}

/// What the caller is told while a run goes on.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// So many blocks are to come in this load.
    Load {
        /// The experiment.
        experiment: &'a Experiment,
        /// The load.
        load: &'a Load,
        /// Blocks to come.
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

/// Repetitions of a quick run.
const TURNS_QUICK: u32 = 2;

/// Repetitions that a claim needs.
const TURNS: u32 = 20;

/// Runs experiments, and appends each block to `blocks.jsonl` in the folder of results.
pub fn run(
    settings: &Settings<'_>,
    experiments: &[Experiment],
    lineup: &Lineup,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    fs::create_dir_all(&settings.out).with_context(|| settings.out.display().to_string())?;
    let path = settings.out.join("blocks.jsonl");
    let before = if settings.resume { block::read(&path)? } else { Vec::new() };
    let (done, failed): (Vec<Block>, Vec<Block>) =
        before.into_iter().partition(|block| block.failure.is_none());
    let done: BTreeSet<(Cell, u32)> = done.into_iter().map(|block| (block.cell, block.turn)).collect();
    let failed: BTreeSet<Cell> = failed.into_iter().map(|block| block.cell).collect();
    if !settings.resume {
        fs::write(&path, "").with_context(|| path.display().to_string())?;
    }
    let machine = Machine::this();
    let place = place()?;
    let tell = RefCell::new(tell);
    for experiment in experiments {
        let site = Site::create(&place.path().join(&experiment.id), &experiment.files)?;
        let loads = experiment.loads.iter().filter(|load| load.left_out(settings.quick).is_none());
        let series =
            loads.flat_map(|load| load.cores(settings.quick).iter().map(move |cores| (load, *cores)));
        let series: Vec<Series<'_, '_>> = series
            .map(|(load, cores)| Series {
                settings,
                experiment,
                load,
                cores,
                site: &site,
                folder: place.path(),
                machine: &machine,
                done: &done,
                failed: &failed,
                tell: &tell,
            })
            .collect();
        if experiment.interleaved {
            interleaved(&series, lineup)?;
        } else {
            for one in &series {
                if !settings.interrupted.load(Ordering::Relaxed) {
                    one.run(lineup)?;
                }
            }
        }
    }
    Ok(())
}

/// Measures loads that are compared with each other turn by turn, in the next turn in the opposite order.
fn interleaved(series: &[Series<'_, '_>], lineup: &Lineup) -> Result<()> {
    let mut prepared = Vec::new();
    for one in series {
        prepared.extend(one.prepare(lineup)?.map(|prepared| (one, prepared)));
    }
    let turns = prepared.iter().map(|(one, _)| one.count_of_turns()).max().unwrap_or_default();
    for turn in 0..turns {
        for (one, prepared) in &prepared {
            one.turn(prepared, turn)?;
        }
        prepared.reverse();
    }
    Ok(())
}

/// A folder for what is served and for the contenders that run, which is gone when the run ends. Contenders that give up
/// their privileges can enter it, wherever the results are.
fn place() -> Result<TempDir> {
    let place =
        tempfile::Builder::new().prefix("fulmar-lab-").tempdir().context("a folder for the contenders")?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    Ok(place)
}

//! Running experiments: starting the contenders of a load, seeing that they answer alike, and measuring them in turn.

mod check;
pub mod fetch;
mod idle;
mod lineup;
mod measure;
mod series;
pub mod site;
pub mod tls;
mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

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
    /// Whether a second instance of one contender shows what noise is.
    pub twin: bool,
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

/// The folder of running contenders within that of the results.
const RUN: &str = "run";

/// The folder of what they serve.
const SITE: &str = "site";

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
    let before = block::read(&path)?.into_iter().filter(|block| settings.resume && block.failure.is_none());
    let done: BTreeSet<(Cell, u32)> = before.map(|block| (block.cell, block.turn)).collect();
    if !settings.resume {
        fs::write(&path, "").with_context(|| path.display().to_string())?;
    }
    let machine = Machine::this();
    let _swept = Swept(&settings.out);
    for experiment in experiments {
        let site = Site::create(&settings.out.join(SITE).join(&experiment.id), &experiment.files)?;
        for load in experiment.loads.iter().filter(|load| load.left_out(settings.quick).is_none()) {
            for &cores in load.cores(settings.quick) {
                let mut series = Series {
                    settings,
                    experiment,
                    load,
                    cores,
                    site: &site,
                    machine: &machine,
                    done: &done,
                    tell,
                };
                series.run(lineup)?;
                if settings.interrupted.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Removes, when a run ends however it ends, what was only there for the contenders.
struct Swept<'a>(&'a Path);

impl Drop for Swept<'_> {
    fn drop(&mut self) {
        for folder in [RUN, SITE] {
            // A folder that was never made is as good as one that is gone.
            let _ = fs::remove_dir_all(self.0.join(folder));
        }
    }
}

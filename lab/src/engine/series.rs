//! One load with one number of cores: the contenders are started, checked, and measured in turn.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::check::Expected;
use super::measure::{self, Bench, Measured};
use super::site::{self, Site};
use super::{Event, Lineup, Settings, TURNS, TURNS_QUICK, idle};
use crate::block::{self, Block, Cell, Circumstances};
use crate::contender::{Found, Place, Running};
use crate::experiment::{Experiment, KNEE_MS, Kind, Load, Protocol};
use crate::figure::{Figure, Phases};
use crate::machine::Machine;
use crate::tool::{self, Order, Tool, ToolName};

/// The folder of raw outputs within that of the results.
const RAW: &str = "raw";

/// The folder of the server that requests are passed on to.
const BACKEND: &str = "backend";

/// How often a contender is told to read its configuration anew while it is under load.
const RELOAD_EVERY: Duration = Duration::from_millis(250);

/// One load with one number of cores.
pub(super) struct Series<'a, 'b> {
    pub(super) settings: &'a Settings<'a>,
    pub(super) experiment: &'a Experiment,
    pub(super) load: &'a Load,
    pub(super) cores: u32,
    pub(super) site: &'a Site,
    /// Where the contenders run.
    pub(super) folder: &'a Path,
    pub(super) machine: &'a Machine,
    pub(super) done: &'a BTreeSet<(Cell, u32)>,
    /// What gave no figures in an earlier run, and was said then.
    pub(super) failed: &'a BTreeSet<Cell>,
    pub(super) tell: &'a RefCell<&'b mut dyn FnMut(Event<'_>)>,
}

/// The contenders of a series, running.
pub(super) struct Prepared {
    ready: Vec<Ready>,
    /// It ends after those that pass requests on to it.
    _backend: Option<Running>,
}

/// A contender that is ready to be measured, by the name of its cells.
struct Ready {
    label: String,
    running: Running,
    content_bytes: u64,
}

impl Series<'_, '_> {
    /// Starts and checks the contenders, and measures them.
    pub(super) fn run(&self, lineup: &Lineup) -> Result<()> {
        let Some(prepared) = self.prepare(lineup)? else { return Ok(()) };
        let turns = self.count_of_turns();
        match self.load.kind {
            _ if turns == 0 => Ok(()),
            Kind::Idle => self.idle(&prepared.ready),
            Kind::Knee => (0..turns).try_for_each(|turn| self.knee(&prepared.ready, turn)),
            Kind::Load | Kind::Reload => (0..turns).try_for_each(|turn| self.turn(&prepared, turn)),
        }
    }

    /// Starts and checks the contenders; `None` where the machine has too few cores.
    pub(super) fn prepare(&self, lineup: &Lineup) -> Result<Option<Prepared>> {
        let labels = self.labels();
        let counts = self.counts();
        let blocks = labels.len() * counts.len() * usize::try_from(self.count_of_turns())?;
        (self.tell.borrow_mut())(Event::Load { experiment: self.experiment, load: self.load, blocks });
        if self.cores > self.machine.cores {
            for label in &labels {
                let why = format!("{} cores are needed, and there are {}", self.cores, self.machine.cores);
                self.fail(label, counts[0], None, &why)?;
            }
            return Ok(None);
        }
        let backend = match &self.load.backend {
            Some(name) => {
                let started = lineup.find(name).and_then(|found| self.start(&found, None, BACKEND, None));
                Some(started.with_context(|| format!("the server behind, {name}"))?)
            }
            None => None,
        };
        let ready = self.start_all(&labels, lineup, backend.as_ref())?;
        Ok(Some(Prepared { ready, _backend: backend }))
    }

    /// One block for each number of clients and contender. The contenders of a number follow one another, in the next
    /// turn in the opposite order, so that what drifts meets all of them alike.
    pub(super) fn turn(&self, prepared: &Prepared, turn: u32) -> Result<()> {
        for clients in self.counts() {
            let mut order: Vec<&Ready> = prepared.ready.iter().collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for contender in order {
                if self.is_interrupted() {
                    return Ok(());
                }
                self.block(contender, clients, turn)?;
            }
        }
        Ok(())
    }

    /// Repetitions of each block.
    pub(super) fn count_of_turns(&self) -> u32 {
        let whole = if self.settings.quick { TURNS_QUICK } else { self.experiment.turns.unwrap_or(TURNS) };
        self.settings.turns.unwrap_or(whole)
    }

    /// The numbers of clients.
    fn counts(&self) -> Vec<u32> {
        self.load.clients(self.settings.quick)
    }

    fn is_interrupted(&self) -> bool {
        self.settings.interrupted.load(Ordering::Relaxed)
    }

    /// The contenders of the load, and the twin behind its original.
    fn labels(&self) -> Vec<String> {
        let all = self.load.contenders.as_ref().unwrap_or(&self.experiment.contenders);
        let only = &self.settings.only;
        let mut labels: Vec<String> =
            all.iter().filter(|name| only.is_empty() || only.contains(name)).cloned().collect();
        // A quick run has no time for it in its sweeps.
        let quick_sweep = self.settings.quick && self.load.clients(true).len() > 1;
        if self.load.kind == Kind::Load && !quick_sweep {
            let original = labels.iter().rposition(|label| label.starts_with("nginx"));
            if let Some(index) = original.or_else(|| labels.len().checked_sub(1)) {
                labels.insert(index + 1, block::twin_of(&labels[index]));
            }
        }
        labels
    }

    /// Starts all that can take part, and says of the others why they cannot.
    fn start_all(&self, labels: &[String], lineup: &Lineup, backend: Option<&Running>) -> Result<Vec<Ready>> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut expected = None;
        for label in labels {
            let found = lineup.find(block::original_of(label).unwrap_or(label));
            let found = found.and_then(|found| found.contender.offers(&self.options()).map(|()| found));
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    self.fail(label, self.clients(), None, &format!("{error:#}"))?;
                    continue;
                }
            };
            let behind = found.contender.family.behind.as_ref().map(|name| lineup.find(name)).transpose();
            let started = behind.and_then(|behind| self.start(&found, behind.as_ref(), label, backend));
            match started.and_then(|running| self.check(running, label, &mut expected)) {
                Ok(contender) => ready.push(contender),
                Err(error) => self.fail(label, self.clients(), Some(&found), &format!("{error:#}"))?,
            }
        }
        Ok(ready)
    }

    fn start(
        &self,
        found: &Found,
        behind: Option<&Found>,
        label: &str,
        backend: Option<&Running>,
    ) -> Result<Running> {
        let options = if label == BACKEND { BTreeMap::new() } else { self.options() };
        let place = Place {
            folder: self.folder.to_owned(),
            root: self.site.root.clone(),
            cores: cores(0, self.cores),
            threads: self.cores,
            configuration: self.load.configuration,
            options,
            certificate: self.site.certificate.clone(),
            key: self.site.key.clone(),
            backend: backend.map(|backend| backend.address),
        };
        let folder = measure::file_name(&[&self.load.id, &self.cores.to_string(), label]);
        Running::start(found, behind, &folder, &place)
    }

    /// What the load asks of a configuration.
    fn options(&self) -> BTreeMap<String, String> {
        let mut options = self.load.options.clone();
        if self.load.tls.is_some() {
            options.insert("tls".into(), "on".into());
        }
        if self.load.protocol == Protocol::Http2 {
            options.insert("http2".into(), "on".into());
        }
        options
    }

    fn check(&self, running: Running, label: &str, expected: &mut Option<Expected>) -> Result<Ready> {
        let load = self.load;
        if expected.is_none() {
            let path = load.path.split('?').next().unwrap_or_default();
            let path = if path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
            let mut files = self.experiment.files.iter();
            let file = files.find(|file| file.path.trim_start_matches('/') == path.trim_start_matches('/'));
            *expected = Some(match file.filter(|file| !file.path.ends_with(".php")) {
                Some(file) => Expected::content(site::content(&file.path, file.length)),
                None => Expected::from_answer(&running, load)?,
            });
        }
        let answer = match expected {
            Some(expected) => expected
                .check(&running, load)
                .context("it is not compared, because it answers differently")?,
            None => bail!("nothing to compare with"),
        };
        (self.tell.borrow_mut())(Event::Ready { contender: label, head_bytes: answer.head_bytes });
        self.keep_configuration(&running, label)?;
        Ok(Ready { label: label.to_owned(), running, content_bytes: answer.content.len() as u64 })
    }

    /// Keeps the configuration as it was run, under its digest.
    fn keep_configuration(&self, running: &Running, label: &str) -> Result<()> {
        let folder = self.settings.out.join("configurations").join(&running.digest);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for path in running.files() {
            let name = path.strip_prefix(running.folder()).unwrap_or(path).display().to_string();
            fs::copy(path, folder.join(measure::file_name(&[label, &name])))?;
        }
        Ok(())
    }

    /// Each contender by itself, with more and more clients, until it fails some of them or lets them wait.
    fn knee(&self, ready: &[Ready], turn: u32) -> Result<()> {
        for contender in ready {
            for clients in self.counts() {
                if self.is_interrupted() {
                    return Ok(());
                }
                let Some(block) = self.block(contender, clients, turn)? else { break };
                let figure = |figure: Figure| block.figures.get(&figure).copied().unwrap_or_default();
                let slowest = figure(Figure::P99Ms).max(figure(Figure::MeanMs));
                if block.failure.is_some() || figure(Figure::Failed) > 0.0 || slowest > KNEE_MS {
                    break;
                }
            }
        }
        Ok(())
    }

    fn idle(&self, ready: &[Ready]) -> Result<()> {
        let counts = self.counts();
        for contender in ready {
            let sizes = idle::memory(&contender.running, self.load, &counts);
            let sizes = match sizes {
                Ok(sizes) => sizes,
                Err(error) => {
                    let found = contender.running.found().clone();
                    self.fail(&contender.label, counts[0], Some(&found), &format!("{error:#}"))?;
                    continue;
                }
            };
            let first = sizes.iter().find_map(|(count, size)| Some((*count, *size.as_ref().ok()?)));
            for (count, size) in &sizes {
                let mut block = self.empty(&contender.label, *count, Some(contender.running.found()));
                block.configuration_digest.clone_from(&contender.running.digest);
                match size {
                    Ok(bytes) => {
                        block.figures.insert(Figure::Connections, f64::from(*count));
                        block.figures.insert(Figure::MemoryBytes, *bytes as f64);
                        if let Some((fewer, less)) = first.filter(|(fewer, _)| fewer < count) {
                            let slope = (*bytes as f64 - less as f64) / f64::from(count - fewer);
                            block.figures.insert(Figure::MemoryPerConnectionBytes, slope);
                        }
                    }
                    Err(error) => block.failure = Some(format!("{error:#}")),
                }
                self.write(&block)?;
            }
            if self.is_interrupted() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Measures one block and writes it; `None` where it was measured before.
    fn block(&self, contender: &Ready, clients: u32, turn: u32) -> Result<Option<Block>> {
        let mut block = self.empty(&contender.label, clients, Some(contender.running.found()));
        block.turn = turn;
        block.configuration_digest.clone_from(&contender.running.digest);
        if self.done.contains(&(block.cell.clone(), turn)) {
            return Ok(None);
        }
        match self.measure(contender, clients, turn, &mut block) {
            Ok(measured) => {
                block.began_s = measured.began_s;
                block.command = measured.command;
                block.figures = measured.report.figures;
                measure::complete(&mut block.figures, contender.content_bytes);
                block.phases = measured.report.phases;
                block.histogram = measured.report.histogram;
                block.samples = measured.samples;
                block.circumstances = measured.circumstances;
            }
            Err(_) if self.is_interrupted() => return Ok(None),
            Err(error) => block.failure = Some(format!("{error:#}")),
        }
        self.write(&block)?;
        Ok(Some(block))
    }

    fn measure(&self, contender: &Ready, clients: u32, turn: u32, block: &mut Block) -> Result<Measured> {
        let raw = Path::new(RAW).join(&self.experiment.id).join(measure::file_name(&[
            &self.load.id,
            &contender.label,
            &clients.to_string(),
            &self.cores.to_string(),
            &turn.to_string(),
        ]));
        let raw = raw.with_added_extension("txt");
        block.raw = raw.display().to_string();
        let raw = self.settings.out.join(raw);
        let (server_cores, tool_cores) = self.cores_of_both();
        let order = Order {
            address: contender.running.address,
            path: self.load.path.clone(),
            clients,
            amount: self.load.amount(self.settings.quick).context("neither requests nor seconds")?,
            keep_alive: self.load.keep_alive,
            pipeline: self.load.pipeline,
            tls: self.load.tls,
            protocol: self.load.protocol,
            rate: self.load.rate,
            fields: self.load.fields.clone(),
            threads: (self.machine.cores - self.cores).max(1),
            folder: raw.with_extension("d"),
        };
        let (tool, program, version) = choose(self.load.tool, &order)?;
        block.tool = version;
        let bench = Bench {
            tool,
            program: &program,
            server_cores: &server_cores,
            tool_cores: &tool_cores,
            raw,
            reload_every: (self.load.kind == Kind::Reload).then_some(RELOAD_EVERY),
            interrupted: self.settings.interrupted,
        };
        fs::create_dir_all(&order.folder).with_context(|| order.folder.display().to_string())?;
        let measured = bench.run(&contender.running, &order);
        // It stays where the tool has put something into it.
        let _ = fs::remove_dir(&order.folder);
        measured
    }

    /// The first number of clients, under which a contender that cannot take part is listed.
    fn clients(&self) -> u32 {
        self.load.clients(self.settings.quick).first().copied().unwrap_or(1)
    }

    /// The tool has the cores behind those of the contenders; where none is left, all.
    fn cores_of_both(&self) -> (String, String) {
        let all = self.machine.cores;
        let tool = if self.cores < all { cores(self.cores, all) } else { cores(0, all) };
        (cores(0, self.cores), tool)
    }

    fn fail(&self, label: &str, clients: u32, found: Option<&Found>, why: &str) -> Result<()> {
        let mut block = self.empty(label, clients, found);
        block.failure = Some(why.to_owned());
        self.write(&block)
    }

    fn write(&self, block: &Block) -> Result<()> {
        if block.failure.is_some() && self.failed.contains(&block.cell) {
            return Ok(());
        }
        block::append(&self.settings.out.join("blocks.jsonl"), block)?;
        (self.tell.borrow_mut())(Event::Block(block));
        Ok(())
    }

    fn empty(&self, label: &str, clients: u32, found: Option<&Found>) -> Block {
        Block {
            cell: Cell {
                experiment: self.experiment.id.clone(),
                load: self.load.id.clone(),
                contender: label.to_owned(),
                clients,
                cores: self.cores,
            },
            kind: self.load.kind,
            turn: 0,
            began_s: 0.0,
            quick: self.settings.quick,
            version: found.map_or_else(String::new, |found| found.version.clone()),
            origin: found.map_or_else(String::new, |found| found.origin.clone()),
            configuration: self.load.configuration,
            configuration_digest: String::new(),
            tool: String::new(),
            command: Vec::new(),
            figures: BTreeMap::new(),
            phases: Phases::new(),
            histogram: Vec::new(),
            samples: Vec::new(),
            circumstances: Circumstances::default(),
            machine: self.machine.clone(),
            raw: String::new(),
            failure: None,
        }
    }
}

/// The tool of the publication with its program and version; the lab's own where that one is missing or refuses the order.
fn choose(name: ToolName, order: &Order) -> Result<(&'static Tool, PathBuf, String)> {
    let mut reasons = Vec::new();
    for name in [name, ToolName::FulmarLab] {
        let Some(tool) = tool::named(name) else { continue };
        if let Some(why) = tool.cannot(order) {
            reasons.push(why);
            continue;
        }
        let program =
            if name == ToolName::FulmarLab { std::env::current_exe()? } else { PathBuf::from(tool.program) };
        match (tool.version)(&program) {
            Some(version) => return Ok((tool, program, version)),
            None => reasons.push(format!("{name} is missing: {}", tool.install)),
        }
    }
    bail!("no tool for this load: {}", reasons.join("; "))
}

/// Cores from the first up to the one before the last, as taskset takes them.
fn cores(from: u32, upto: u32) -> String {
    match upto - from {
        1 => from.to_string(),
        _ => format!("{from}-{}", upto - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_as_taskset_takes_them() {
        assert_eq!(cores(0, 1), "0");
        assert_eq!(cores(1, 2), "1");
        assert_eq!(cores(0, 4), "0-3");
    }
}

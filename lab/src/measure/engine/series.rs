//! One load with one number of cores: the contenders are started, checked, and measured in turn.

use std::cell::{Cell as Mutable, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::application::{Application, Applications, Key, Plan};
use super::check::{self, Expected};
use super::cores::{Cores, Division};
use super::estimate::Takes;
use super::groups::Place as Measures;
use super::idle::Idling;
use super::measure::{self, Bench, Measured};
use super::memory::{Idle, Memory};
use super::schedule::Schedule;
use super::site::{self, Site};
use super::{Event, Lineup, Settings};
use crate::measure::contender::{Found, Place, Running};
use crate::measure::digest;
use crate::measure::tool::FoundTool;
use crate::model::block::{self, Block, Cell, Circumstances};
use crate::model::experiment::{Experiment, KNEE_MS, Kind, Load, NginxConf, SiteFile};
use crate::model::figure::{Figure, Phases};
use crate::model::machine::Machine;
use crate::model::order::{Amount, Order, ToolName};

/// The folder of raw outputs within that of the results.
pub(super) const RAW: &str = "raw";

/// The folder of configurations as they were run, each by its digest.
pub(super) const CONFIGURATIONS: &str = "configurations";

/// The folder of the server that requests are passed on to.
const BACKEND: &str = "backend";

/// How often a contender reloads its configuration while it is under load.
const RELOAD_EVERY: Duration = Duration::from_millis(250);

/// One load with one number of cores.
pub(super) struct Series<'a, 'b> {
    pub(super) settings: &'a Settings<'a>,
    pub(super) lineup: &'a Lineup,
    pub(super) experiment: &'a Experiment,
    pub(super) load: &'a Load,
    pub(super) cores: u32,
    pub(super) site: &'a Site,
    /// Where the contenders run.
    pub(super) folder: &'a Path,
    pub(super) machine: &'a Machine,
    pub(super) applications: &'a Applications,
    /// To which part its blocks are shortened now.
    pub(super) share: &'a Mutable<f64>,
    pub(super) done: &'a BTreeSet<(Cell, u32)>,
    /// The blocks of an earlier run that began and failed.
    pub(super) tried: &'a BTreeSet<(Cell, u32)>,
    /// The blocks that began on a busy machine.
    pub(super) busy: &'a RefCell<BTreeSet<(Cell, u32)>>,
    /// For how long its blocks may still wait for a quiet machine.
    pub(super) patience: Mutable<Duration>,
    /// Contenders that cannot take part, in this run or an earlier one, of which that was said.
    pub(super) failed: &'a RefCell<BTreeSet<Cell>>,
    /// Whether a contender could take part when this run first tried to start it.
    pub(super) starts: RefCell<BTreeMap<String, bool>>,
    pub(super) tell: &'a RefCell<&'b mut dyn FnMut(Event<'_>)>,
}

/// The contenders of a series, running.
pub(super) struct Prepared {
    ready: Vec<Ready>,
    /// Which start of theirs it is, from 0.
    start: u32,
    /// It ends after those that need it.
    _shared: Shared,
}

/// A turn, and which start of the contenders it belongs to.
type When = (u32, u32);

/// What the contenders of a series share.
#[derive(Default)]
struct Shared {
    /// The server that they pass requests on to.
    backend: Option<Running>,
    /// What they serve instead of files.
    application: Option<Rc<Application>>,
}

/// A contender that is ready to be measured, by the name of its cells.
struct Ready {
    label: String,
    running: Running,
    content_bytes: u64,
    /// What it needs besides its program, with versions.
    parts: Vec<String>,
    /// What its start cost the machine.
    idle: Idle,
    /// Right responses per second in its warm-up, if it had one.
    rate: Option<f64>,
}

/// What tells the application of a load from those of others.
pub(super) fn application_key(load: &Load, cores: u32) -> Option<Key> {
    load.application.as_ref().map(|name| (name.clone(), load.backend_options.clone(), cores))
}

impl Drop for Prepared {
    /// All of them end at once, instead of one after the other.
    fn drop(&mut self) {
        self.ready.iter_mut().for_each(|contender| contender.running.ask_to_end());
    }
}

impl Series<'_, '_> {
    /// What of the load is measured, and how much.
    pub(super) fn schedule(&self) -> Schedule<'_> {
        Schedule { settings: self.settings, experiment: self.experiment, load: self.load }
    }

    /// What its time depends on. `set_up` has the applications of the loads before it.
    pub(super) fn takes(&self, set_up: &mut BTreeSet<Key>) -> Takes<'_> {
        let mut contenders = self.schedule().labels();
        contenders.retain(|label| self.cores <= self.machine.cores && self.found(label).is_ok());
        let key = application_key(self.load, self.cores).filter(|_| !contenders.is_empty());
        let left = (0..self.turns()).filter(|turn| !self.is_measured(*turn)).count();
        Takes {
            schedule: self.schedule(),
            contenders,
            sets_up: key.is_some_and(|key| set_up.insert(key)),
            turns: u32::try_from(left).unwrap_or(u32::MAX),
        }
    }

    /// How often everything is measured.
    pub(super) fn turns(&self) -> u32 {
        self.schedule().turns()
    }

    /// Whether an earlier run has measured this turn, of all contenders that can take part.
    pub(super) fn is_measured(&self, turn: u32) -> bool {
        if self.done.is_empty() {
            return false;
        }
        let labels = self.schedule().labels();
        let counts = match self.load.kind {
            // It ends where a contender fails.
            Kind::Knee => vec![self.clients()],
            _ => self.schedule().counts(),
        };
        let cell = |label: &String, clients: u32| self.cell(label, clients);
        let takes_part = |label: &&String| {
            self.found(label).is_ok() && !self.failed.borrow().contains(&cell(label, self.clients()))
        };
        let blocks = |label: &String, clients: u32| {
            !self.schedule().has_block(label, clients) || self.is_over(&cell(label, clients), turn)
        };
        let is_over = |label: &String| counts.iter().all(|clients| blocks(label, *clients));
        labels.iter().filter(takes_part).all(is_over)
    }

    /// Whether an earlier run has measured this block, or has tried to.
    fn is_over(&self, cell: &Cell, turn: u32) -> bool {
        let block = (cell.clone(), turn);
        self.done.contains(&block) || self.tried.contains(&block)
    }

    /// What it measures.
    pub(super) fn measures(&self) -> Measures {
        Measures { load: self.load.id.clone(), kind: self.load.kind, cores: self.cores }
    }

    /// How many blocks a turn has at most.
    pub(super) fn blocks(&self) -> usize {
        let (labels, counts) = (self.schedule().labels(), self.schedule().counts());
        let of_label = |label: &String| {
            counts.iter().filter(|clients| self.schedule().has_block(label, **clients)).count()
        };
        labels.iter().map(of_label).sum()
    }

    /// Starts and checks the contenders before a turn, for the `start`th time in a run; `None` where none of them can take
    /// part, which is said of each. A contender that this run could not start at first is not started again.
    pub(super) fn prepare(&self, turn: u32, start: u32) -> Result<Option<Prepared>> {
        let mut labels = self.schedule().labels();
        labels.retain(|label| self.starts.borrow().get(label) != Some(&false));
        if labels.is_empty() {
            return Ok(None);
        }
        let shared = match self.shared() {
            Ok(shared) => shared,
            Err(why) => {
                for label in &labels {
                    self.fail(label, None, &format!("{why:#}"), (turn, start))?;
                }
                return Ok(None);
            }
        };
        let ready = self.start_all(&labels, &shared, (turn, start))?;
        Ok(Some(Prepared { ready, start, _shared: shared }))
    }

    /// The server behind the contenders and the application that they serve, where the load has them. Fails where
    /// nothing can be measured without them, or on so few cores.
    fn shared(&self) -> Result<Shared> {
        let here = self.machine.cores;
        ensure!(self.cores <= here, "{} cores are needed, and there are {here}", self.cores);
        let start = |name: &String| {
            let started = self.lineup.find(name).and_then(|found| self.start_shared(&found, BACKEND));
            started.with_context(|| format!("the server behind, {name}"))
        };
        let backend = self.load.backend.as_ref().map(start).transpose()?;
        let application = self.load.application.as_ref().map(|name| self.application(name)).transpose()?;
        Ok(Shared { backend, application })
    }

    /// An application with its services.
    fn application(&self, name: &str) -> Result<Rc<Application>> {
        let key = application_key(self.load, self.cores).context("the load has no application")?;
        self.applications.get(key, |number| self.set_up(name, &number.to_string()))
    }

    fn set_up(&self, name: &str, number: &str) -> Result<Application> {
        let plan = Plan::of(name)?;
        let interpreter = self.lineup.find(&plan.interpreter).with_context(|| plan.interpreter.clone())?;
        let service = |name: &String| {
            let started = self
                .lineup
                .find(name)
                .and_then(|found| self.start_shared(&found, &format!("{name}-{number}")));
            started.with_context(|| format!("what the application needs, {name}"))
        };
        let services = plan.services.iter().map(service).collect::<Result<_>>()?;
        let place = self.folder.join(format!("application-{number}"));
        Application::set_up(name, &place, interpreter, services)
    }

    /// Measures everything once.
    pub(super) fn turn(&self, prepared: &Prepared, turn: u32) -> Result<()> {
        match self.load.kind {
            Kind::Idle => self.idle(&prepared.ready, (turn, prepared.start)),
            Kind::Knee => self.knee(prepared, turn),
            Kind::Load | Kind::Reload => self.blocks_of(prepared, turn),
        }
    }

    /// One block for each number of clients and contender. The contenders of a number follow one another, in the next
    /// turn in the opposite order, so that what drifts meets all of them alike.
    fn blocks_of(&self, prepared: &Prepared, turn: u32) -> Result<()> {
        for clients in self.schedule().counts() {
            let is_measured = |ready: &&Ready| self.schedule().has_block(&ready.label, clients);
            let mut order: Vec<&Ready> = prepared.ready.iter().filter(is_measured).collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for contender in order {
                if self.is_interrupted() {
                    return Ok(());
                }
                self.block(contender, clients, (turn, prepared.start))?;
            }
        }
        Ok(())
    }

    /// How many of the blocks of one contender and one number of clients began on a busy machine, at most.
    pub(super) fn busy_turns(&self) -> u32 {
        let mut counts: BTreeMap<&Cell, u32> = BTreeMap::new();
        let busy = self.busy.borrow();
        let own = |(cell, _): &&(Cell, u32)| {
            (&cell.experiment, &cell.load, cell.cores) == (&self.experiment.id, &self.load.id, self.cores)
        };
        busy.iter().filter(own).for_each(|(cell, _)| *counts.entry(cell).or_default() += 1);
        counts.into_values().max().unwrap_or_default()
    }

    fn is_interrupted(&self) -> bool {
        self.settings.interrupted.load(Ordering::Relaxed)
    }

    /// Starts all that can take part, before a turn and for a start, and says of the others why they cannot.
    fn start_all(&self, labels: &[String], shared: &Shared, when: When) -> Result<Vec<Ready>> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut expected = BTreeMap::new();
        for label in labels {
            if self.is_interrupted() {
                break;
            }
            let found = match self.found(label) {
                Ok(found) => found,
                Err(error) => {
                    self.fail(label, None, &format!("{error:#}"), when)?;
                    continue;
                }
            };
            let same = |other: &&Ready| {
                let is_twin = block::original_of(label).is_some_and(|original| original == other.label);
                !is_twin && found.is_same_as(other.running.found())
            };
            if let Some(other) = ready.iter().find(same) {
                let why = format!(
                    "it is the same file as {} (SHA-256 {}…), and one program is not compared with itself",
                    other.label,
                    digest::beginning(&found.digest)
                );
                self.fail(label, Some(&found), &why, when)?;
                continue;
            }
            let before = Memory::of(&[]);
            let started = self.start(&found, label, shared);
            let ready_one = started.and_then(|running| self.check(running, label, before, &mut expected));
            let services = shared.application.iter().flat_map(|application| application.parts());
            let ready_one = ready_one.map(|mut ready| {
                ready.parts.extend(services);
                ready
            });
            match ready_one.and_then(|contender| Ok(Ready { rate: self.warm_up(&contender)?, ..contender })) {
                Ok(contender) => {
                    self.starts.borrow_mut().insert(label.clone(), true);
                    ready.push(contender);
                }
                Err(error) => self.fail(label, Some(&found), &format!("{error:#}"), when)?,
            }
        }
        Ok(ready)
    }

    /// The contender of a label, if it can take part. The error says why it cannot.
    pub(super) fn found(&self, label: &str) -> Result<Found> {
        let found = self.lineup.find(block::original_of(label).unwrap_or(label))?;
        self.schedule().suits(&found.contender)?;
        Ok(found)
    }

    /// Starts a contender with its backend, or with the application's interpreter if it has none inside.
    fn start(&self, found: &Found, label: &str, shared: &Shared) -> Result<Running> {
        let mut backend =
            found.contender.family.behind.as_ref().map(|name| self.lineup.find(name)).transpose()?;
        let mut place = self.place();
        if let Some(application) = &shared.application {
            place.root.clone_from(&application.root);
            let interpreter = &application.interpreter;
            let has_it = found.contender.includes.contains(&interpreter.contender.name);
            backend = backend.or_else(|| (!has_it).then(|| interpreter.clone()));
        }
        place.options = self.schedule().options_of(&found.contender);
        place.directives = self.load.nginx_conf.clone().unwrap_or_default();
        place.backend = shared.backend.as_ref().map(|backend| backend.address);
        Running::start(found, backend.as_ref(), &self.folder_of(label), &place)
    }

    /// Starts what all contenders share. It gets none of the load's own options.
    fn start_shared(&self, found: &Found, label: &str) -> Result<Running> {
        let mut place = self.place();
        place.options = found.contender.known_options(&self.load.backend_options);
        if label == BACKEND {
            let (cores, threads) = self.backend_cores();
            (place.cores, place.threads) = (cores.to_string(), threads);
        }
        Running::start(found, None, &self.folder_of(label), &place)
    }

    /// Where a contender of this series runs and what it serves, without options.
    fn place(&self) -> Place {
        Place {
            folder: self.folder.to_owned(),
            root: self.site.root.clone(),
            cores: self.division().server.to_string(),
            threads: self.cores,
            connections: self.connections(),
            configuration: self.load.configuration,
            options: BTreeMap::new(),
            backend_options: self.load.backend_options.clone(),
            directives: NginxConf::default(),
            certificate: self.site.certificate.clone(),
            key: self.site.key.clone(),
            backend: None,
        }
    }

    fn folder_of(&self, label: &str) -> String {
        measure::file_name(&[&self.load.id, &self.cores.to_string(), label])
    }

    /// How many connections a contender has: twice as many where it passes requests on.
    fn connections(&self) -> u32 {
        let clients = self.schedule().counts().into_iter().max().unwrap_or(1);
        if self.load.backend.is_some() || self.load.application.is_some() { 2 * clients } else { clients }
    }

    /// Sees that a contender answers as it should: as the others that were asked for the same path did, by `expected`.
    /// `before` is the memory before its start.
    fn check(
        &self,
        running: Running,
        label: &str,
        before: Memory,
        expected: &mut BTreeMap<String, Expected>,
    ) -> Result<Ready> {
        let load = self.load;
        let path = load.path_for(&running.found().contender.name);
        if !expected.contains_key(path) {
            let is_static = |file: &&SiteFile| !file.path.ends_with(".php");
            let first = match self.schedule().file(path).filter(is_static) {
                Some(file) => Expected::content(site::bytes_of(file)),
                None => Expected::from_answer(&running, load)?,
            };
            expected.insert(path.to_owned(), first);
        }
        let expected = expected.get_mut(path).context("nothing to compare with")?;
        let answer =
            expected.check(&running, load).context("it is not compared, because it answers differently")?;
        check::resumes(&running, load)
            .context("it is not compared, because it does not resume TLS sessions")?;
        check::calls(&running, load).context("it is not compared, because calls fail")?;
        check::logs(&running, load).context("it is not compared, because its log is not as the others'")?;
        (self.tell.borrow_mut())(Event::Ready { contender: label, head_bytes: answer.head_bytes });
        self.keep_configuration(&running, label)?;
        let idle = Memory::of(&running.processes()).since_start(before);
        let (parts, content_bytes) = (running.parts(), answer.content.len() as u64);
        Ok(Ready { label: label.to_owned(), running, content_bytes, parts, idle, rate: None })
    }

    /// Keeps the configuration as it was run, under its digest.
    fn keep_configuration(&self, running: &Running, label: &str) -> Result<()> {
        let folder = self.settings.out.join(CONFIGURATIONS).join(&running.digest);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for path in running.files() {
            let name = path.strip_prefix(running.folder()).unwrap_or(path).display().to_string();
            fs::copy(path, folder.join(measure::file_name(&[label, &name])))?;
        }
        Ok(())
    }

    /// Each contender by itself, with more and more clients, until it fails some of them or lets them wait.
    fn knee(&self, prepared: &Prepared, turn: u32) -> Result<()> {
        for contender in &prepared.ready {
            for clients in self.schedule().counts() {
                if self.is_interrupted() {
                    return Ok(());
                }
                let Some(block) = self.block(contender, clients, (turn, prepared.start))? else { break };
                let figure = |figure: Figure| block.figures.get(&figure).copied().unwrap_or_default();
                let slowest = figure(Figure::P99Ms).max(figure(Figure::MeanMs));
                if block.failure.is_some() || figure(Figure::Failed) > 0.0 || slowest > KNEE_MS {
                    break;
                }
            }
        }
        Ok(())
    }

    fn idle(&self, ready: &[Ready], (turn, start): When) -> Result<()> {
        let mut order: Vec<&Ready> = ready.iter().collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            let mut counts = self.schedule().counts();
            counts.retain(|clients| self.schedule().has_block(&contender.label, *clients));
            let block = |count| Block { start, ..self.empty_for(contender, count, turn) };
            let mut blocks: Vec<Block> = counts.into_iter().map(block).collect();
            if self.is_interrupted() || blocks.iter().all(|block| self.is_over(&block.cell, turn)) {
                continue;
            }
            let measured = self.hold(contender, &mut blocks);
            if self.is_interrupted() {
                return Ok(());
            }
            if let Err(error) = measured {
                blocks.truncate(1);
                // It began, unlike a contender that cannot take part.
                blocks[0].raw = self.raw(&blocks[0].cell, turn).display().to_string();
                blocks[0].failure = Some(format!("{error:#}"));
            }
            blocks.iter().try_for_each(|block| self.write(block))?;
        }
        Ok(())
    }

    /// Fills the blocks of idle connections. After a number that was not reached no larger one is tried: there, too, the
    /// contender holds what it held.
    fn hold(&self, contender: &Ready, blocks: &mut [Block]) -> Result<()> {
        let division = self.division();
        let idling = Idling {
            running: &contender.running,
            load: self.load,
            cores: division.tool,
            threads: division.tool_threads,
            idle: contender.idle,
            interrupted: self.settings.interrupted,
        };
        let raws: Vec<PathBuf> = blocks.iter().map(|block| self.raw(&block.cell, block.turn)).collect();
        let counts =
            blocks.iter().zip(&raws).map(|(block, raw)| (block.cell.clients, self.settings.out.join(raw)));
        let steps = idling.steps(&counts.collect::<Vec<_>>())?;
        let version = self.lineup.own_version();
        if let Some(last) = steps.last().filter(|step| step.seen.is_err()) {
            for block in blocks.iter_mut().skip(steps.len()) {
                block.figures.insert(Figure::Connections, f64::from(last.held));
                block.failure =
                    Some(format!("not tried: it held {} of {} connections", last.held, last.connections));
            }
        }
        let mut first = None;
        for ((block, step), raw) in blocks.iter_mut().zip(steps).zip(raws) {
            block.tool.clone_from(&version);
            block.command = step.command;
            block.raw = raw.display().to_string();
            block.circumstances.server_cores = division.server.to_string();
            block.circumstances.tool_cores = division.tool.to_string();
            match step.seen {
                Ok(seen) => {
                    let open = f64::from(seen.open);
                    let figures = &mut block.figures;
                    figures.insert(Figure::Connections, open);
                    figures.insert(Figure::Failed, f64::from(step.connections.saturating_sub(seen.open)));
                    figures.insert(Figure::MemoryBytes, seen.memory_bytes);
                    figures.insert(Figure::SystemMemoryBytes, seen.system_bytes);
                    let (fewer, less) = *first.get_or_insert((open, seen.memory_bytes));
                    if open > fewer {
                        let slope = (seen.memory_bytes - less) / (open - fewer);
                        figures.insert(Figure::MemoryPerConnectionBytes, slope);
                    }
                }
                Err(error) => {
                    block.figures.insert(Figure::Connections, f64::from(step.held));
                    block.failure = Some(format!("{error:#}"));
                }
            }
        }
        Ok(())
    }

    /// Measures one block and writes it; `None` where it was measured before.
    fn block(&self, contender: &Ready, clients: u32, (turn, start): (u32, u32)) -> Result<Option<Block>> {
        let mut block = Block { start, ..self.empty_for(contender, clients, turn) };
        if self.done.contains(&(block.cell.clone(), turn)) {
            return Ok(None);
        }
        match self.measure(contender, clients, &mut block) {
            Ok(measured) => {
                block.command = measured.command;
                block.figures = measured.report.figures;
                measure::complete(&mut block.figures, contender.content_bytes);
                block.phases = measured.report.phases;
                block.histogram = measured.report.histogram;
                block.samples = measured.samples;
                block.circumstances = measured.circumstances;
                let backend = self.load.backend.as_ref().map(|_| self.backend_cores().0.to_string());
                block.circumstances.backend_cores = backend.unwrap_or_default();
            }
            Err(error) => block.failure = Some(format!("{error:#}")),
        }
        self.write(&block)?;
        Ok(Some(block))
    }

    fn measure(&self, contender: &Ready, clients: u32, block: &mut Block) -> Result<Measured> {
        let raw = self.raw(&block.cell, block.turn);
        block.raw = raw.display().to_string();
        let raw = self.settings.out.join(raw);
        let amount = self
            .schedule()
            .amount(self.share.get(), clients, contender.rate)
            .context("neither requests nor seconds")?;
        let order = self.order(contender, clients, amount, &raw);
        let found = self.lineup.tool(self.load.tool, &order)?;
        block.tool.clone_from(&found.version);
        self.bench(contender, &found, &order, raw)
    }

    /// Lets a contender know beforehand what it can remember, and finds out how fast it is. Fails only where the load asks for
    /// a warm-up.
    fn warm_up(&self, contender: &Ready) -> Result<Option<f64>> {
        let Some(amount) = self.schedule().warm_up() else { return Ok(None) };
        // One client would say little of the rate of many.
        let clients = self.load.clients(self.settings.quick).first().copied().unwrap_or(1);
        let raw = self.raw(&self.cell(&contender.label, clients), 0);
        let raw = self.settings.out.join(raw).with_extension("warm-up.txt");
        // A constant rate would only take longer.
        let order = Order { rate: None, ..self.order(contender, clients, amount, &raw) };
        let found = self
            .lineup
            .tool(ToolName::FulmarLab, &order)
            .or_else(|_| self.lineup.tool(self.load.tool, &order));
        let measured = found.and_then(|found| self.bench(contender, &found, &order, raw));
        let rate = measured.map(|measured| measured.report.figures.get(&Figure::RequestsPerS).copied());
        if self.load.warm_up.is_some() { rate.context("warming up") } else { Ok(rate.unwrap_or_default()) }
    }

    fn order(&self, contender: &Ready, clients: u32, amount: Amount, raw: &Path) -> Order {
        Order {
            address: contender.running.address,
            path: self.load.path_for(&contender.running.found().contender.name).to_owned(),
            clients,
            amount,
            keep_alive: self.load.keep_alive,
            pipeline: self.load.pipeline,
            tls: self.load.tls,
            protocol: self.load.protocol,
            rate: self.load.rate,
            fields: self.load.fields.clone(),
            numbers: self.load.numbers,
            body_bytes: self.load.body_bytes,
            threads: self.division().tool_threads,
            has_own_cores: self.division().tool_is_apart() && !self.load.backend_beside_tool,
            folder: raw.with_extension("d"),
        }
    }

    fn bench(&self, contender: &Ready, found: &FoundTool, order: &Order, raw: PathBuf) -> Result<Measured> {
        let bench = Bench {
            tool: found.tool,
            program: &found.program,
            division: self.division(),
            raw,
            idle: contender.idle,
            reload_every: (self.load.kind == Kind::Reload).then_some(RELOAD_EVERY),
            patience: &self.patience,
            interrupted: self.settings.interrupted,
        };
        fs::create_dir_all(&order.folder).with_context(|| order.folder.display().to_string())?;
        let measured = bench.run(&contender.running, order);
        // It stays where the tool has put something into it.
        let _ = fs::remove_dir(&order.folder);
        measured
    }

    /// The first number of clients, under which a contender that cannot take part is listed.
    fn clients(&self) -> u32 {
        self.schedule().counts().first().copied().unwrap_or(1)
    }

    /// Where the tool's output goes, below the folder of results.
    fn raw(&self, cell: &Cell, turn: u32) -> PathBuf {
        let name = [
            &cell.load,
            &cell.contender,
            &cell.clients.to_string(),
            &cell.cores.to_string(),
            &turn.to_string(),
        ];
        let path = Path::new(RAW).join(&cell.experiment).join(measure::file_name(&name.map(String::as_str)));
        path.with_added_extension("txt")
    }

    /// Which cores contenders, tool and lab have.
    fn division(&self) -> Division {
        if self.load.one_core {
            Division::one_core(self.machine.cores)
        } else {
            Division::apart(self.cores, self.machine.cores)
        }
    }

    /// The cores of the server behind the contenders, and the number of its threads.
    fn backend_cores(&self) -> (Cores, u32) {
        let Division { server, tool, tool_threads, .. } = self.division();
        if self.load.backend_beside_tool { (tool, tool_threads) } else { (server, self.cores) }
    }

    /// Says why a contender cannot take part, under the first number of clients: once, and not again when a run is resumed.
    fn fail(&self, label: &str, found: Option<&Found>, why: &str, when: When) -> Result<()> {
        let (turn, start) = when;
        let failure = Some(why.to_owned());
        let block = Block { turn, start, failure, ..self.empty(label, self.clients(), found) };
        self.starts.borrow_mut().entry(label.to_owned()).or_insert(false);
        let is_new = self.failed.borrow_mut().insert(block.cell.clone());
        if is_new { self.write(&block) } else { Ok(()) }
    }

    fn cell(&self, label: &str, clients: u32) -> Cell {
        Cell {
            experiment: self.experiment.id.clone(),
            load: self.load.id.clone(),
            contender: label.to_owned(),
            clients,
            cores: self.cores,
        }
    }

    fn write(&self, block: &Block) -> Result<()> {
        // What was interrupted has not failed.
        if block.failure.is_some() && self.is_interrupted() {
            return Ok(());
        }
        block::append(&self.settings.out.join(block::FILE), block)?;
        if block.circumstances.is_busy() {
            self.busy.borrow_mut().insert((block.cell.clone(), block.turn));
        }
        (self.tell.borrow_mut())(Event::Block(block));
        Ok(())
    }

    fn empty_for(&self, contender: &Ready, clients: u32, turn: u32) -> Block {
        let running = &contender.running;
        Block {
            turn,
            parts: contender.parts.clone(),
            configuration_digest: running.digest.clone(),
            ..self.empty(&contender.label, clients, Some(running.found()))
        }
    }

    /// A block that begins now.
    fn empty(&self, label: &str, clients: u32, found: Option<&Found>) -> Block {
        Block {
            cell: self.cell(label, clients),
            kind: self.load.kind,
            turn: 0,
            start: 0,
            began_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            quick: self.settings.quick,
            share: self.schedule().part(self.share.get(), clients),
            version: found.map_or_else(String::new, |found| found.version.clone()),
            origin: found.map_or_else(String::new, |found| found.origin.clone()),
            program_digest: found.map_or_else(String::new, |found| found.digest.clone()),
            parts: Vec::new(),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::tests::settings;
    use super::*;
    use crate::measure::contender::Contender;

    /// That a contender cannot take part is said once. All of its blocks that begin and fail are kept.
    #[test]
    fn only_what_cannot_take_part_is_said_once() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nseconds = 1.0\n";
        let experiment = Experiment::parse(text).unwrap();
        let (folder, interrupted) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let settings = Settings { out: folder.path().to_owned(), ..settings(&interrupted) };
        let lineup = Lineup::new(Contender::built_in().unwrap(), BTreeMap::new());
        let site = Site::create(folder.path(), &[]).unwrap();
        let (machine, applications) = (Machine::this(), Applications::default());
        let (share, done, tried) = (Mutable::new(1.0), BTreeSet::new(), BTreeSet::new());
        let (busy, failed) = (RefCell::new(BTreeSet::new()), RefCell::new(BTreeSet::new()));
        let mut quiet = |_: Event<'_>| {};
        let tell: RefCell<&mut dyn FnMut(Event<'_>)> = RefCell::new(&mut quiet);
        let series = Series {
            settings: &settings,
            lineup: &lineup,
            experiment: &experiment,
            load: &experiment.loads[0],
            cores: 1,
            site: &site,
            folder: folder.path(),
            machine: &machine,
            applications: &applications,
            share: &share,
            done: &done,
            tried: &tried,
            busy: &busy,
            patience: Mutable::new(Duration::ZERO),
            failed: &failed,
            starts: RefCell::default(),
            tell: &tell,
        };
        // No contender has these names: none can start, in no turn.
        assert!(series.prepare(3, 2).unwrap().unwrap().ready.is_empty());
        assert!(series.prepare(4, 3).unwrap().is_none(), "they are not started again");
        series.fail("a", None, "it is gone", (5, 4)).unwrap();
        for turn in [6, 7] {
            let failure = Some("the tool failed".to_owned());
            let raw = "raw/a.txt".to_owned();
            series.write(&Block { turn, raw, failure, ..series.empty("a", 10, None) }).unwrap();
        }
        let blocks = block::read(&folder.path().join(block::FILE)).unwrap();
        let kept: Vec<(u32, u32, bool)> = blocks
            .iter()
            .filter(|block| block.cell.contender == "a")
            .map(|block| (block.turn, block.start, block.took_part()))
            .collect();
        assert_eq!(kept, [(3, 2, false), (6, 0, true), (7, 0, true)]);
    }
}

//! What idle connections cost. The lab's own generator opens them and holds them: it comes from several addresses of
//! the loopback and runs in several processes where one has too few ports or descriptors. What remains as the limit
//! is how many files a process of the contender may have open.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, mem, thread};

use anyhow::{Context, Result, bail, ensure};

use super::cores::Cores;
use super::memory::{Idle, Memory};
use super::process::Process;
use crate::measure::contender::Running;
use crate::measure::load::document::{Document, Point};
use crate::measure::load::sources_for;
use crate::measure::{process, system};
use crate::model::experiment::Load;

/// How long a contender has to come to rest.
const REST: Duration = Duration::from_millis(500);

/// How often the generator is looked at.
const STEP: Duration = Duration::from_millis(20);

/// How long so many connections may take, and those that a contender closes.
const LIMIT: Duration = Duration::from_secs(600);

/// Seconds that one answer may take.
const TIMEOUT_S: u32 = 10;

/// How idle connections are held.
pub(super) struct Idling<'a> {
    pub(super) running: &'a Running,
    pub(super) load: &'a Load,
    /// Cores of the generator. The lab itself keeps to them meanwhile.
    pub(super) cores: Cores,
    /// Threads of the generator.
    pub(super) threads: u32,
    /// What the contender's start cost the machine.
    pub(super) idle: Idle,
    /// Ends it when it is set.
    pub(super) interrupted: &'a AtomicBool,
}

/// A number of connections, and what memory the contender has when it holds so many.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) connections: u32,
    /// The generator's command line.
    pub(super) command: Vec<String>,
    /// How many of them, with those of earlier steps, were answered as they should be and stayed open.
    pub(super) held: u32,
    /// What was seen then, or why nothing was.
    pub(super) seen: Result<Seen>,
}

/// A look at a contender that holds connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// How many are open. A contender may have closed some meanwhile, to save memory or because it was busy.
    pub(super) open: u32,
    /// The memory of its processes.
    pub(super) memory_bytes: f64,
    /// What the machine uses because of it, without the generator.
    pub(super) system_bytes: f64,
}

impl Idling<'_> {
    /// Opens more and more connections, each with one request. The numbers rise, and each comes with the file for the
    /// generator's output. The first number that is not reached ends it.
    pub(super) fn steps(&self, counts: &[(u32, PathBuf)]) -> Result<Vec<Step>> {
        let _confined = self.cores.confine()?;
        let most = counts.iter().map(|(count, _)| *count).max().unwrap_or_default();
        let before = Memory::of(&self.running.processes());
        let (mut generators, mut seen) = (Vec::new(), Vec::new());
        let mut open = 0;
        for (count, raw) in counts {
            let mut generator = Generator::start(self, count.saturating_sub(open), most, raw)?;
            let is_reached = generator.held(self.interrupted)? == u64::from(generator.connections);
            generators.push(generator);
            seen.push(self.look(before, &generators));
            if !is_reached {
                break;
            }
            open = *count;
        }
        let mut steps = Vec::new();
        for ((mut generator, seen), (count, _)) in generators.into_iter().zip(seen).zip(counts) {
            let held = generator.held(self.interrupted)?;
            let point = generator.end(self.interrupted)?;
            let command = mem::take(&mut generator.process.command);
            let seen = self.wrong(&point, held).map_or(Ok(seen), |why| bail!(why));
            let before = count.saturating_sub(generator.connections);
            let held =
                before + u32::try_from(held).unwrap_or(u32::MAX).saturating_sub(self.wrong_statuses(&point));
            steps.push(Step { connections: *count, command, held, seen });
        }
        Ok(steps)
    }

    /// How many connections got another status than the expected one.
    fn wrong_statuses(&self, point: &Point) -> u32 {
        let expected = self.load.expected_status();
        let wrong = point.statuses.iter().filter(|(status, _)| **status != expected);
        wrong.map(|(_, count)| u32::try_from(*count).unwrap_or(u32::MAX)).sum()
    }

    /// Why a number of connections was not reached, if it was not.
    fn wrong(&self, point: &Point, held: u64) -> Option<String> {
        let expected = self.load.expected_status();
        if let Some((status, count)) = point.statuses.iter().find(|(status, _)| **status != expected) {
            return Some(format!("status {status} instead of {expected} on {count} connections"));
        }
        if held >= u64::from(point.clients) {
            return None;
        }
        let mut words = format!("it took {held} of {} more connections", point.clients);
        for (what, count) in point.failed.named() {
            words += &format!(", {what}: {count}");
        }
        let files = self.running.processes().iter().filter_map(|pid| process::open_files_max(*pid)).min();
        words += &files.map_or(String::new(), |files| format!("; a process of it may open {files} files"));
        Some(words)
    }

    fn look(&self, before: Memory, generators: &[Generator]) -> Seen {
        thread::park_timeout(REST);
        let now = Memory::of(&self.running.processes());
        let own = generators.iter().flat_map(|generator| process::family(generator.process.id()));
        let own_bytes = process::pss_bytes(&own.collect::<Vec<_>>()) as f64;
        Seen {
            open: system::connections_to(self.running.address.port()),
            memory_bytes: now.processes_bytes,
            system_bytes: now.system_bytes(before, self.idle) - own_bytes,
        }
    }

    /// Arguments of the generator for so many connections, of `most` in all.
    fn arguments(&self, connections: u32, most: u32) -> Vec<String> {
        let words = ["load", "--idle", "--json", "-t", &self.threads.to_string()];
        let mut arguments: Vec<String> = words.map(str::to_owned).into();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("-c", connections.to_string());
        add("--timeout", TIMEOUT_S.to_string());
        if sources_for(most) > 1 {
            add("--sources", sources_for(most).to_string());
        }
        for field in &self.load.fields {
            add("-H", field.clone());
        }
        let name = &self.running.found().contender.name;
        let scheme = if self.load.tls.is_some() { "https" } else { "http" };
        arguments.push(format!("{scheme}://{}{}", self.running.address, self.load.path_for(name)));
        arguments
    }
}

/// A generator that opens connections and holds them until its input ends.
struct Generator {
    process: Process,
    input: Option<ChildStdin>,
    connections: u32,
    raw: PathBuf,
}

impl Generator {
    fn start(idling: &Idling<'_>, connections: u32, most: u32, raw: &Path) -> Result<Generator> {
        let arguments = idling.arguments(connections, most);
        let mut process =
            Process::start(&env::current_exe()?, &arguments, idling.cores, Stdio::piped(), raw)?;
        let input = process.take_input();
        Ok(Generator { process, input, connections, raw: raw.to_owned() })
    }

    /// Waits until no more connections are opened, and says how many are open.
    fn held(&mut self, interrupted: &AtomicBool) -> Result<u64> {
        self.says(interrupted, |text| {
            let (first, _) = text.split_once('\n')?;
            serde_json::from_str::<serde_json::Value>(first).ok()?.get("held")?.as_u64()
        })
    }

    /// Closes all connections, and says the result.
    fn end(&mut self, interrupted: &AtomicBool) -> Result<Point> {
        self.input = None;
        self.says(interrupted, |text| {
            let document: Document = serde_json::from_str(text.lines().last()?).ok()?;
            document.points.into_iter().next()
        })
    }

    /// Waits for something in what it prints.
    fn says<T>(&mut self, interrupted: &AtomicBool, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let end = Instant::now() + LIMIT;
        loop {
            let ended = self.process.ended()?;
            let text = fs::read_to_string(&self.raw).with_context(|| self.raw.display().to_string())?;
            if let Some(found) = find(&text) {
                return Ok(found);
            }
            if let Some(status) = ended {
                bail!("the generator: {status}: {}", text.trim_end());
            }
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
            ensure!(Instant::now() < end, "the generator takes longer than {} s", LIMIT.as_secs());
            thread::park_timeout(STEP);
        }
    }
}

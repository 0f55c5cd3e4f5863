//! One block: a tool loads one contender while both are watched.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, mem, thread};

use anyhow::{Context, Result, bail, ensure};

use super::cores::Division;
use super::memory::{Idle, Memory};
use super::process::Process;
use super::watch::{Seen, Watch};
use crate::measure::contender::Running;
use crate::measure::system::Ticks;
use crate::measure::tool::{Report, Tool};
use crate::measure::{process, system};
use crate::model::block::{Circumstances, Sample};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};
use crate::model::words;

/// What one block came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) report: Report,
    pub(super) command: Vec<String>,
    pub(super) samples: Vec<Sample>,
    pub(super) circumstances: Circumstances,
}

/// How a block is run.
pub(super) struct Bench<'a> {
    pub(super) tool: &'a Tool,
    pub(super) program: &'a Path,
    /// Which cores the contender, the tool and the lab have meanwhile.
    pub(super) division: Division,
    /// Where the tool's output goes.
    pub(super) raw: PathBuf,
    /// Tells the contender to read its configuration anew, that often.
    pub(super) reload_every: Option<Duration>,
    /// What the contender's start cost the machine.
    pub(super) idle: Idle,
    /// For how long blocks of this load may still wait for a quiet machine, besides a moment each.
    pub(super) patience: &'a Cell<Duration>,
    /// Ends the block when it is set.
    pub(super) interrupted: &'a AtomicBool,
}

/// How often the tool is looked at.
const STEP: Duration = Duration::from_millis(5);

/// Of what a tool said so many letters are shown.
const SAID: usize = 400;

/// What a tool may take besides the time that its order says.
const PATIENCE: Duration = Duration::from_secs(60);

impl Bench<'_> {
    /// Runs the tool once.
    pub(super) fn run(&self, running: &Running, order: &Order) -> Result<Measured> {
        if let Some(how) = running.death() {
            bail!("the server is not running any more: it ended {how}");
        }
        let arguments = (self.tool.arguments)(order)?;
        let _confined = self.division.lab.confine()?;
        let (load_average, busy_before) = (system::load_average(), self.quiet());
        let before = Counters::of(running);
        let start = Instant::now();
        let mut tool =
            Process::start(self.program, &arguments, self.division.tool, Stdio::null(), &self.raw)?;
        let watch = Watch::start(running.roots());
        let ended = self.wait(&mut tool, running, order);
        let seconds = start.elapsed().as_secs_f64();
        let command = mem::take(&mut tool.command);
        // What it took is known once it has been waited for.
        drop(tool);
        let after = Counters::of(running);
        let seen = watch.stop();
        let text = fs::read_to_string(&self.raw).unwrap_or_default();
        let said = || format!("{}: {}", self.tool.name, last_lines(&text));
        let status = ended.with_context(said)?;
        let read = (self.tool.read)(order, &text);
        // The lab's own tool says in its figures why it failed.
        let is_told = self.tool.name == ToolName::FulmarLab && read.is_ok();
        if let Some(how) = running.death() {
            bail!("the server ended in the middle of this run, {how}");
        }
        ensure!(status.success() || is_told, "{}: {status}", said());
        running.empty_logs();

        let mut report = read?;
        ensure!(report.requests > 0, "{}", unanswered(self.tool, order, &report, &text));
        report.figures.insert(Figure::Connections, f64::from(order.clients));
        self.add_figures(&mut report, [&before, &after], &seen, seconds);
        let circumstances = Circumstances {
            server_cores: self.division.server.to_string(),
            tool_cores: self.division.tool.to_string(),
            backend_cores: String::new(),
            tool_busy: busy_cores(after.tool_s - before.tool_s, report.polled_s, seconds),
            steal_s: after.ticks.stolen_s() - before.ticks.stolen_s(),
            context_switches: after.switches.saturating_sub(before.switches),
            load_average,
            busy_before,
        };
        Ok(Measured { report, command, samples: seen.samples, circumstances })
    }

    /// Waits until other programs have ended what they do, as far as there is patience, and says how many cores they keep
    /// busy then: the contenders have nothing to do yet. A contender that was just started, or that had many clients a
    /// moment ago, may still be at work.
    fn quiet(&self) -> f64 {
        let mut looks = 0;
        loop {
            let (before, start) = (Ticks::now(), Instant::now());
            thread::park_timeout(LOOK);
            let busy = Ticks::now().busy_cores(before, start.elapsed());
            looks += 1;
            let is_busy = Circumstances { busy_before: busy, ..Circumstances::default() }.is_busy();
            if !is_busy || self.interrupted.load(Ordering::Relaxed) || !looks_again(looks, self.patience) {
                return busy;
            }
        }
    }

    /// What the contender and the machine spent on the requests.
    fn add_figures(&self, report: &mut Report, [before, after]: [&Counters; 2], seen: &Seen, seconds: f64) {
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        let figures = &mut report.figures;
        // Also of what failed: a server pays for it, and nobody got anything for it.
        if report.right > 0 {
            figures.insert(Figure::CpuUsPerRequest, cpu_ns / 1000.0 / report.right as f64);
        }
        figures.insert(Figure::CpuPercent, cpu_ns / 1e9 / seconds * 100.0);
        let peak = seen.samples.iter().map(|sample| sample.cpu_percent).fold(0.0, f64::max);
        figures.insert(Figure::CpuPeakPercent, peak);
        figures.insert(Figure::MemoryBytes, after.memory.processes_bytes);
        figures.insert(Figure::SystemMemoryBytes, after.memory.system_bytes(before.memory, self.idle));
        let system =
            after.ticks.percent_since(before.ticks).map(|percent| (Figure::SystemCpuPercent, percent));
        let peak = seen.system_cpu_peak_percent.map(|percent| (Figure::SystemCpuPeakPercent, percent));
        figures.extend(system.into_iter().chain(peak));
    }

    /// Waits for the tool. Fails where it takes too long or the lab is to end.
    fn wait(&self, tool: &mut Process, running: &Running, order: &Order) -> Result<ExitStatus> {
        let limit = match order.amount {
            Amount::Seconds(seconds) => Duration::from_secs_f64(seconds) + PATIENCE,
            Amount::Requests(_) => PATIENCE * 2,
        };
        let start = Instant::now();
        let mut reloaded = start;
        loop {
            if let Some(status) = tool.ended()? {
                return Ok(status);
            }
            ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
            ensure!(start.elapsed() <= limit, "it took longer than {} s", limit.as_secs());
            if self.reload_every.is_some_and(|every| reloaded.elapsed() >= every) {
                running.reload()?;
                reloaded = Instant::now();
            }
            thread::park_timeout(STEP);
        }
    }
}

/// How many cores a tool kept busy that had so much CPU time, and only waited for a part of it.
fn busy_cores(cpu_s: f64, polled_s: f64, seconds: f64) -> f64 {
    (cpu_s - polled_s).max(0.0) / seconds
}

/// How long one look at the idle machine takes, and how often each block looks at a busy one in any case.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 6;

/// Whether a block that has looked so often at a busy machine looks once more. Then it takes that time from the patience.
fn looks_again(looks: u32, patience: &Cell<Duration>) -> bool {
    if looks < LOOKS {
        return true;
    }
    let left = patience.get().checked_sub(LOOK);
    patience.set(left.unwrap_or_default());
    left.is_some()
}

/// What only ever grows, and the memory.
struct Counters {
    cpu_ns: u64,
    switches: u64,
    tool_s: f64,
    ticks: Ticks,
    memory: Memory,
}

impl Counters {
    fn of(running: &Running) -> Counters {
        let processes = running.processes();
        Counters {
            cpu_ns: process::cpu_ns(&processes),
            switches: process::context_switches(&processes),
            tool_s: process::children_cpu_s(),
            ticks: Ticks::now(),
            memory: Memory::of(&processes),
        }
    }
}

/// That nothing was answered, in as few words as there are for it.
fn unanswered(tool: &Tool, order: &Order, report: &Report, text: &str) -> String {
    let figure = |figure| report.figures.get(&figure).copied().unwrap_or_default();
    let seconds = words::number(figure(Figure::TotalS));
    let nothing = format!("no request of {} was answered in {seconds} s", words::clients(order.clients));
    if tool.name == ToolName::FulmarLab {
        return nothing;
    }
    format!("{nothing}: {}", last_lines(text))
}

/// What a tool said last, as far as a reader bears it.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).rev().take(5).collect();
    let said = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
    match said.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    }
}

/// Nothing but these letters in names of files.
pub(super) fn file_name(parts: &[&str]) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' };
    parts.join("-").chars().map(plain).collect()
}

/// Figures that follow from others: bytes of an answer, and the content's.
pub(super) fn complete(figures: &mut BTreeMap<Figure, f64>, content_bytes: u64) {
    if let (Some(bytes), Some(rate)) = (figures.get(&Figure::BytesPerS), figures.get(&Figure::RequestsPerS)) {
        let answer = bytes / rate;
        if answer.is_finite() {
            figures.entry(Figure::BytesPerAnswer).or_insert(answer);
        }
    }
    figures.entry(Figure::ContentBytes).or_insert(content_bytes as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tool;
    use crate::model::order::Protocol;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name(&["a b", "nginx@/x", "1.2"]), "a_b-nginx__x-1.2");
    }

    #[test]
    fn what_was_not_answered_is_told_in_a_sentence() {
        let order = Order {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/".into(),
            clients: 1000,
            amount: Amount::Seconds(1.0),
            keep_alive: false,
            pipeline: 1,
            tls: None,
            protocol: Protocol::Http1,
            rate: None,
            fields: Vec::new(),
            body_bytes: None,
            numbers: None,
            threads: 1,
            has_own_cores: false,
            folder: ".".into(),
        };
        let report = Report { figures: [(Figure::TotalS, 1.1)].into(), ..Report::default() };
        let of = |name| unanswered(tool::named(name).unwrap(), &order, &report, "Socket errors: connect 9");
        let nothing = "no request of 1,000 clients was answered in 1.10 s";
        assert_eq!(of(ToolName::FulmarLab), nothing);
        assert_eq!(of(ToolName::Wrk), format!("{nothing}: Socket errors: connect 9"));
        assert_eq!(last_lines(&"é".repeat(3000)).chars().count(), SAID + 1);
    }

    #[test]
    fn patience_is_shared_by_the_blocks_of_a_load() {
        let patience = Cell::new(LOOK * 10);
        let waits = || (1..).take_while(|looks| looks_again(*looks, &patience)).count() + 1;
        assert_eq!(
            [waits(), waits()],
            [16, 6],
            "in looks: a moment for each block, the rest for the first one"
        );
    }

    #[test]
    fn a_tool_that_waits_is_not_busy() {
        assert_eq!([busy_cores(2.0, 0.0, 2.0), busy_cores(2.0, 1.5, 2.0)], [1.0, 0.25]);
        assert_eq!(busy_cores(0.99, 1.0, 2.0), 0.0, "the kernel counts CPU time in coarse steps");
    }

    #[test]
    fn bytes_of_an_answer_follow() {
        let mut figures = BTreeMap::from([(Figure::BytesPerS, 1000.0), (Figure::RequestsPerS, 4.0)]);
        complete(&mut figures, 200);
        assert_eq!((figures[&Figure::BytesPerAnswer], figures[&Figure::ContentBytes]), (250.0, 200.0));
    }
}

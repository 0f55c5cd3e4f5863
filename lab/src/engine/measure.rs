//! One block: a tool loads one contender while both are watched.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::watch::Watch;
use crate::block::{Circumstances, Sample};
use crate::contender::Running;
use crate::figure::Figure;
use crate::tool::{Amount, Order, Report, Tool};
use crate::{machine, process};

/// What one block came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) began_s: f64,
    pub(super) report: Report,
    pub(super) command: Vec<String>,
    pub(super) samples: Vec<Sample>,
    pub(super) circumstances: Circumstances,
}

/// How a block is run.
pub(super) struct Bench<'a> {
    pub(super) tool: &'a Tool,
    pub(super) program: &'a Path,
    /// Cores of the contender and of the tool, as taskset takes them.
    pub(super) server_cores: &'a str,
    pub(super) tool_cores: &'a str,
    /// Where the tool's output goes.
    pub(super) raw: PathBuf,
    /// Tells the contender to read its configuration anew, that often.
    pub(super) reload_every: Option<Duration>,
    /// Ends the block when it is set.
    pub(super) interrupted: &'a AtomicBool,
}

/// How often the tool is looked at.
const STEP: Duration = Duration::from_millis(5);

/// What a tool may take beside the time that its order says.
const PATIENCE: Duration = Duration::from_secs(60);

impl Bench<'_> {
    /// Runs the tool once.
    pub(super) fn run(&self, running: &Running, order: &Order) -> Result<Measured> {
        let arguments = (self.tool.arguments)(order)?;
        let program = self.program.display().to_string();
        let words: Vec<String> =
            ["taskset", "--cpu-list", self.tool_cores, &program].map(str::to_owned).into();
        let command = [words, arguments].concat();
        // As it is written down, without the folder of the program, which is nobody's business.
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let told = command.iter().map(|word| if *word == program { name.clone() } else { word.clone() });
        let told = told.collect();
        let roots = running.roots();
        let before = Counters::of(running);
        let load_average = machine::load_average();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let watch = Watch::start(roots);
        let start = Instant::now();
        let ended = self.spawn(&command).and_then(|child| self.wait(child, running, order));
        let seconds = start.elapsed().as_secs_f64();
        let samples = watch.stop();
        let after = Counters::of(running);
        let text = fs::read_to_string(&self.raw).unwrap_or_default();
        ended.with_context(|| format!("{}: {}", self.tool.name, last_lines(&text)))?;
        running.empty_logs();

        let mut report = (self.tool.read)(order, &text)?;
        ensure!(report.requests > 0, "no request was answered: {}", last_lines(&text));
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        let figures = &mut report.figures;
        figures.insert(Figure::CpuUsPerRequest, cpu_ns / 1000.0 / report.requests as f64);
        figures.insert(Figure::CpuPercent, cpu_ns / 1e9 / seconds * 100.0);
        let peak = samples.iter().map(|sample| sample.cpu_percent).fold(0.0, f64::max);
        figures.insert(Figure::CpuPeakPercent, peak);
        figures.insert(Figure::MemoryBytes, process::pss_bytes(&running.processes()) as f64);
        figures.insert(Figure::Connections, f64::from(order.clients));
        let circumstances = Circumstances {
            server_cores: self.server_cores.to_owned(),
            tool_cores: self.tool_cores.to_owned(),
            tool_busy: (after.tool_s - before.tool_s) / seconds,
            steal_s: after.steal_s - before.steal_s,
            context_switches: after.switches.saturating_sub(before.switches),
            load_average,
        };
        Ok(Measured { began_s: began.as_secs_f64(), report, command: told, samples, circumstances })
    }

    fn spawn(&self, command: &[String]) -> Result<Child> {
        let folder = self.raw.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let output = File::create(&self.raw).with_context(|| self.raw.display().to_string())?;
        let errors = output.try_clone()?;
        let (program, arguments) = command.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        command.spawn().with_context(|| format!("running {program}"))
    }

    /// Waits for the tool, and ends it where it takes too long or the lab is to end.
    fn wait(&self, mut child: Child, running: &Running, order: &Order) -> Result<()> {
        let limit = match order.amount {
            Amount::Seconds(seconds) => Duration::from_secs_f64(seconds) + PATIENCE,
            Amount::Requests(_) => PATIENCE * 2,
        };
        let start = Instant::now();
        let mut reloaded = start;
        let failure = loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "{status}");
                return Ok(());
            }
            if self.interrupted.load(Ordering::Relaxed) {
                break "interrupted".to_owned();
            }
            if start.elapsed() > limit {
                break format!("it took longer than {} s", limit.as_secs());
            }
            if self.reload_every.is_some_and(|every| reloaded.elapsed() >= every) {
                running.reload()?;
                reloaded = Instant::now();
            }
            thread::park_timeout(STEP);
        };
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        child.wait()?;
        bail!(failure)
    }
}

/// What only ever grows.
struct Counters {
    cpu_ns: u64,
    switches: u64,
    tool_s: f64,
    steal_s: f64,
}

impl Counters {
    fn of(running: &Running) -> Counters {
        let processes = running.processes();
        Counters {
            cpu_ns: process::cpu_ns(&processes),
            switches: process::context_switches(&processes),
            tool_s: process::children_cpu_s(),
            steal_s: machine::steal_s(),
        }
    }
}

/// What a tool said last.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
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
        figures.entry(Figure::BytesPerAnswer).or_insert(answer);
    }
    figures.entry(Figure::ContentBytes).or_insert(content_bytes as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name(&["a b", "nginx@/x", "1.2"]), "a_b-nginx__x-1.2");
    }

    #[test]
    fn bytes_of_an_answer_follow() {
        let mut figures = BTreeMap::from([(Figure::BytesPerS, 1000.0), (Figure::RequestsPerS, 4.0)]);
        complete(&mut figures, 200);
        assert_eq!((figures[&Figure::BytesPerAnswer], figures[&Figure::ContentBytes]), (250.0, 200.0));
    }
}

//! One block of measurement, as it is written: a line of JSON in `blocks.jsonl`, which is only ever appended to.
//! The report reads nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::model::experiment::{Configuration, Kind};
use crate::model::figure::{FAILED_PERCENT_FEW, Figure, Phases};
use crate::model::machine::Machine;

/// The file of blocks in the folder of results.
pub const FILE: &str = "blocks.jsonl";

/// What is measured: everything that has to be equal for two blocks to be repetitions of each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// The experiment's name.
    pub experiment: String,
    /// The load's name within it.
    pub load: String,
    /// The contender's name. A twin's is made by [`twin_of`].
    pub contender: String,
    /// The number of clients.
    pub clients: u32,
    /// The cores of the contender.
    pub cores: u32,
}

/// How the name of a contender's twin ends: a second instance of it, measured only for the noise floor.
const TWIN: &str = "-twin";

/// The name of a contender's twin.
pub fn twin_of(contender: &str) -> String {
    format!("{contender}{TWIN}")
}

/// The name of the contender whose twin this is, if it is one.
pub fn original_of(contender: &str) -> Option<&str> {
    contender.strip_suffix(TWIN)
}

/// Everything about one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// What was measured.
    pub cell: Cell,
    /// What was done.
    pub kind: Kind,
    /// Which repetition it is, from 0. Blocks of one turn were measured one after the other.
    pub turn: u32,
    /// Which start of the contender's processes it belongs to, from 0: they are started anew several times within a run.
    #[serde(default)]
    pub start: u32,
    /// When it began, in seconds since 1970.
    pub began_s: f64,
    /// Whether it belongs to a quick run, whose figures are only indicative.
    pub quick: bool,
    /// The part of its amount to which it was shortened, where the whole run kept to a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The contender's version as it says it.
    pub version: String,
    /// Where that program came from: a package with its version, or a path.
    pub origin: String,
    /// SHA-256 of that program's file. Blocks of earlier versions have its first 16 digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program_digest: String,
    /// What it needs besides its program, with versions: an interpreter, a database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Which configuration, and a digest of it as it was run.
    pub configuration: Configuration,
    /// SHA-256 of that configuration, its first 16 hexadecimal digits.
    pub configuration_digest: String,
    /// The tool and its version.
    pub tool: String,
    /// The tool's command line.
    pub command: Vec<String>,
    /// The figures that the tool printed, and those that were measured next to it.
    pub figures: BTreeMap<Figure, f64>,
    /// How the parts of a request's time spread, where the tool says so.
    #[serde(default, skip_serializing_if = "Phases::is_empty")]
    pub phases: Phases,
    /// How many requests took at most so many milliseconds more than the step before, where the tool says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bar>,
    /// CPU and memory of the contender while the load ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// What else ran, that a reader has to know to believe the rest.
    pub circumstances: Circumstances,
    /// The machine.
    pub machine: Machine,
    /// The tool's own output: a path below the folder of results.
    pub raw: String,
    /// Why there are no figures, where there are none: nothing is dropped silently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A bar of a histogram of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The upper end of the bar.
    pub upto_ms: f64,
    /// Requests between the bar before and this end.
    pub count: u64,
}

/// One look at a contender under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the block began.
    pub at_s: f64,
    /// CPU since the sample before: 100 is one core.
    pub cpu_percent: f64,
    /// Memory of all its processes (PSS).
    pub memory_bytes: u64,
}

/// What else took part in a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The cores of the contender, as taskset takes them.
    pub server_cores: String,
    /// The cores of the tool. Where they are the contender's too, the two took time from each other.
    pub tool_cores: String,
    /// The cores of the server that requests are passed on to. Empty where there is none.
    #[serde(default)]
    pub backend_cores: String,
    /// How busy the load tool was: 1 is one core.
    pub tool_busy: f64,
    /// How much the hypervisor took from this machine's cores, in seconds.
    pub steal_s: f64,
    /// Context switches of the contender, by its own will and not.
    pub context_switches: u64,
    /// Load average of the machine before the block.
    pub load_average: f64,
    /// How many cores other programs kept busy just before the block.
    #[serde(default)]
    pub busy_before: f64,
}

/// A block that begins while other programs keep more of a core busy than this is not judged.
const BUSY: f64 = 0.3;

impl Circumstances {
    /// Whether the block began on a busy machine, so that nothing is said of it.
    pub fn is_busy(&self) -> bool {
        self.busy_before > BUSY
    }

    /// Whether the load tool had a core of the contender, so that the two took time from each other.
    pub fn tool_shares_cores(&self) -> bool {
        let tool = core_numbers(&self.tool_cores);
        core_numbers(&self.server_cores).iter().any(|core| tool.contains(core))
    }
}

/// The cores of a list as taskset takes it: `0-1,3`.
pub fn core_numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Appends a block to a file of results.
pub fn append(path: &Path, block: &Block) -> Result<()> {
    let file = File::options().create(true).append(true).open(path);
    let mut file = file.with_context(|| path.display().to_string())?;
    let mut line = serde_json::to_string(block)?;
    line.push('\n');
    file.write_all(line.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// All blocks of a file; none if it does not exist. A last line that was cut short, because the lab was killed
/// while it wrote it, is left out.
pub fn read(path: &Path) -> Result<Vec<Block>> {
    let text = text_of(path)?;
    let (whole, cut) = split(&text);
    let mut blocks = Vec::new();
    for (number, line) in whole.lines().enumerate() {
        let block = serde_json::from_str(line);
        blocks.push(block.with_context(|| format!("{}:{}", path.display(), number + 1))?);
    }
    blocks.extend(serde_json::from_str::<Block>(cut).ok());
    blocks.iter_mut().for_each(Block::count_right_answers);
    Ok(blocks)
}

impl Block {
    /// Whether it began. A contender that cannot take part has neither output nor figures.
    pub(crate) fn took_part(&self) -> bool {
        self.failure.is_none() || !self.raw.is_empty() || !self.figures.is_empty()
    }

    /// Earlier versions wrote the rate of all answers, failed ones too, and did not write which part failed. What can be
    /// right of it remains: at least so many answers were. Times and bytes of a mixture say nothing.
    fn count_right_answers(&mut self) {
        let figure = |figure| self.figures.get(&figure).copied();
        let known = (figure(Figure::FailedPercent), figure(Figure::Failed), figure(Figure::RequestsPerS));
        let ((None, Some(failed), Some(rate)), Some(total_s)) = (known, figure(Figure::TotalS)) else {
            return;
        };
        let answers = rate * total_s;
        let right = (answers - failed).max(0.0);
        let share = if failed > 0.0 { failed / (right + failed) } else { 0.0 };
        self.figures.insert(Figure::FailedPercent, 100.0 * share);
        self.figures.insert(Figure::RequestsPerS, right / total_s);
        match self.figures.get_mut(&Figure::CpuUsPerRequest) {
            Some(cpu) if right > 0.0 => *cpu *= answers / right,
            _ => drop(self.figures.remove(&Figure::CpuUsPerRequest)),
        }
        if 100.0 * share > FAILED_PERCENT_FEW {
            let of_mixture = |figure: Figure| figure.is_latency() || figure == Figure::BytesPerS;
            self.figures.retain(|figure, _| !of_mixture(*figure));
            self.phases.clear();
            self.histogram.clear();
        }
    }
}

/// Makes a file fit to be appended to: a last line that was cut short is cut off, and ended where only its end is
/// missing.
pub fn repair(path: &Path) -> Result<()> {
    let text = text_of(path)?;
    let (whole, cut) = split(&text);
    if cut.is_empty() {
        return Ok(());
    }
    let mut file = File::options().append(true).open(path)?;
    let repaired = match serde_json::from_str::<Block>(cut) {
        Ok(_) => file.write_all(b"\n"),
        Err(_) => file.set_len(whole.len() as u64),
    };
    repaired.with_context(|| format!("repairing {}", path.display()))
}

/// The text of a file, which may end within a letter; of one that does not exist, none.
fn text_of(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// The lines that were written to their end, and what follows them.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.rfind('\n').map_or(0, |end| end + 1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A block for tests, with these figures.
    pub(crate) fn block(contender: &str, load: &str, clients: u32, figures: &[(Figure, f64)]) -> Block {
        Block {
            cell: Cell {
                experiment: "e".into(),
                load: load.into(),
                contender: contender.into(),
                clients,
                cores: 1,
            },
            kind: Kind::Load,
            turn: 0,
            start: 0,
            began_s: 0.0,
            quick: false,
            share: None,
            version: format!("{contender}/1"),
            origin: "made".into(),
            program_digest: String::new(),
            parts: Vec::new(),
            configuration: Configuration::Tuned,
            configuration_digest: "0".into(),
            tool: "none".into(),
            command: Vec::new(),
            figures: figures.iter().copied().collect(),
            phases: Phases::new(),
            histogram: Vec::new(),
            samples: Vec::new(),
            circumstances: Circumstances::default(),
            machine: Machine::default(),
            raw: String::new(),
            failure: None,
        }
    }

    #[test]
    fn shared_cores_are_seen() {
        let of = |server: &str, tool: &str| {
            let (server_cores, tool_cores) = (server.into(), tool.into());
            Circumstances { server_cores, tool_cores, ..Circumstances::default() }.tool_shares_cores()
        };
        assert!(of("0-1", "0-1") && of("0,2-3", "3") && !of("0", "1-3") && !of("", ""));
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks.jsonl");
        assert!(read(&path).unwrap().is_empty());
        let written = block("nginx", "l", 10, &[(Figure::RequestsPerS, 1234.5)]);
        append(&path, &written).unwrap();
        append(&path, &written).unwrap();
        let blocks = read(&path).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[1].cell, written.cell);
        assert_eq!(blocks[1].figures, written.figures);
    }

    #[test]
    fn failed_answers_of_an_earlier_version_are_not_throughput() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks.jsonl");
        let figures = [
            (Figure::RequestsPerS, 3000.0),
            (Figure::TotalS, 1.0),
            (Figure::Failed, 2700.0),
            (Figure::CpuUsPerRequest, 100.0),
            (Figure::P99Ms, 1.0),
        ];
        append(&path, &block("apache", "l", 1000, &figures)).unwrap();
        let figures = read(&path).unwrap().remove(0).figures;
        assert_eq!([figures[&Figure::RequestsPerS], figures[&Figure::CpuUsPerRequest]], [300.0, 1000.0]);
        assert_eq!((figures[&Figure::FailedPercent], figures.get(&Figure::P99Ms)), (90.0, None));
    }

    #[test]
    fn a_line_that_was_cut_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks.jsonl");
        append(&path, &block("nginx", "l", 10, &[])).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{}", &text[..20])).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        fs::write(&path, format!("{}\n{text}", &text[..20])).unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with(":1"));
    }

    #[test]
    fn a_file_that_was_cut_can_be_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        repair(&path).unwrap();
        assert!(!path.exists());
        for contender in ["a", "b"] {
            append(&path, &block(contender, "l", 10, &[])).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let second = text.find('\n').unwrap() + 1;
        // Cut in the middle of the second line, before its end, after it, and in the first.
        for (length, expected) in [(second + 9, "ac"), (text.len() - 1, "abc"), (text.len(), "abc"), (9, "c")]
        {
            fs::write(&path, &text[..length]).unwrap();
            repair(&path).unwrap();
            append(&path, &block("c", "l", 10, &[])).unwrap();
            let names: String = read(&path).unwrap().into_iter().map(|block| block.cell.contender).collect();
            assert_eq!(names, expected);
        }
    }
}

//! What a run was made with besides the contenders, whose programs the blocks name: the lab itself, the machine with
//! its settings, the installed packages and the load tools. A reader needs it to repeat a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::{env, str};

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::digest;
use super::tool::{self, FoundTool};
use crate::model::machine::Machine;
use crate::model::order::ToolName;
use crate::model::random;

/// The file of environments in the folder of results: a line of JSON for each run, unless it is as the line before.
pub const FILE: &str = "environment.jsonl";

/// What a run was made with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The lab.
    pub lab: Program,
    /// The seed of all numbers that look random: of made files, and of turns that are resampled.
    pub seed: String,
    /// The machine.
    pub machine: Machine,
    /// What the kernel says of the first core, and which weaknesses of it are worked around.
    pub processor: BTreeMap<String, String>,
    /// Settings of the kernel by their names in sysctl.
    pub settings: BTreeMap<String, String>,
    /// How many files a process may have open.
    pub open_files: Option<u64>,
    /// The load tools.
    pub tools: Vec<Program>,
    /// Installed packages of the system with their versions.
    pub packages: Vec<String>,
}

/// A program, to be known again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The version, as the program says it.
    pub version: String,
    /// Where it came from, if that is known.
    pub origin: String,
    /// SHA-256 of its file.
    pub sha256: String,
}

/// Lines of `/proc/cpuinfo` that matter; what changes from moment to moment is not among them.
const PROCESSOR: &[&str] = &[
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "microcode",
    "cache size",
    "flags",
    "bugs",
    "CPU implementer",
    "CPU part",
    "CPU revision",
    "Features",
];

/// Where the kernel says how it works around weaknesses of processors.
const WEAKNESSES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Settings that change what a server can do.
const SETTINGS: &[&str] = &[
    "fs.file-max",
    "fs.nr_open",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.overcommit_memory",
    "vm.swappiness",
];

impl Environment {
    /// What is here now, with the tools of these names as far as they are here.
    pub fn this(tools: BTreeSet<ToolName>) -> Environment {
        let tools = tools.into_iter().filter_map(tool::named).filter_map(|tool| tool::find(tool).ok());
        Environment {
            lab: Program::this(),
            seed: format!("{:#x}", random::SEED),
            machine: Machine::this(),
            processor: processor(),
            settings: settings(),
            open_files: getrlimit(Resource::Nofile).current,
            tools: tools.map(|tool| Program::of(&tool)).collect(),
            packages: packages(),
        }
    }

    /// Appends it to the file in a folder of results, unless the last line says the same.
    pub fn keep(&self, out: &Path) -> Result<()> {
        if Environment::kept(out)?.last() == Some(self) {
            return Ok(());
        }
        let path = out.join(FILE);
        let file = File::options().create(true).append(true).open(&path);
        let line = serde_json::to_string(self)? + "\n";
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.with_context(|| path.display().to_string())
    }

    /// The environments of a folder of results, in the order of its runs; none where nothing was written of them. A line
    /// that was cut short is left out.
    pub fn kept(out: &Path) -> Result<Vec<Environment>> {
        let path = out.join(FILE);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

impl Program {
    /// The lab that runs.
    pub fn this() -> Program {
        let sha256 = env::current_exe().ok().and_then(|path| digest::of_file(&path).ok());
        Program {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origin: String::new(),
            sha256: sha256.unwrap_or_default(),
        }
    }

    fn of(tool: &FoundTool) -> Program {
        Program {
            name: tool.tool.name.to_string(),
            version: tool.version.clone(),
            origin: tool.origin.clone(),
            sha256: digest::of_file(&tool.program).unwrap_or_default(),
        }
    }
}

fn processor() -> BTreeMap<String, String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = text.lines().take_while(|line| !line.is_empty());
    let pairs = first.filter_map(|line| line.split_once(':'));
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    let mut all: BTreeMap<String, String> =
        pairs.filter(|(name, _)| PROCESSOR.contains(&name.as_str())).collect();
    for entry in fs::read_dir(WEAKNESSES).into_iter().flatten().flatten() {
        let value = fs::read_to_string(entry.path()).unwrap_or_default();
        all.insert(format!("weakness {}", entry.file_name().to_string_lossy()), value.trim().to_owned());
    }
    all
}

fn settings() -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).ok()?;
        Some(((*name).to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SETTINGS.iter().filter_map(read).collect()
}

/// What dpkg or rpm has installed; nothing where the system has neither.
fn packages() -> Vec<String> {
    let commands: [(&str, &[&str]); 2] = [
        ("dpkg-query", &["-W", "-f", "${Package} ${Version}\\n"]),
        ("rpm", &["-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"]),
    ];
    let listed = |(program, arguments): (&str, &[&str])| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let mut lines: Vec<String> =
            str::from_utf8(&output.stdout).ok()?.lines().map(str::to_owned).collect();
        lines.sort();
        (!lines.is_empty()).then_some(lines)
    };
    commands.into_iter().find_map(listed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_run_in_another_environment() {
        let out = tempfile::tempdir().unwrap();
        assert!(Environment::kept(out.path()).unwrap().is_empty());
        let here = Environment::this([ToolName::FulmarLab].into());
        assert_eq!((here.lab.sha256.len(), here.tools.len()), (64, 1), "{here:?}");
        assert!(here.settings.contains_key("net.core.somaxconn"), "{:?}", here.settings);
        let other = Environment { open_files: Some(1), ..here.clone() };
        for environment in [&here, &here, &other] {
            environment.keep(out.path()).unwrap();
        }
        assert_eq!(Environment::kept(out.path()).unwrap(), [here, other]);
    }
}

//! The process that serves, seen from outside: its descriptors and memory, and limits set to them.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::site::Running;
use crate::wait;

/// A worker is there within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The worker of a server that has one. Panics when there is none.
pub fn of(running: &Running) -> Pid {
    let mut found = None;
    wait::until(PATIENCE, || {
        found = Running::children(running.pid()).first().copied();
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("no worker:\n{}", running.all_logs()))
}

/// Waits for a worker that is another one than `before`. Panics when none comes.
pub fn after(running: &Running, before: Pid) -> Pid {
    let replaced = || Running::children(running.pid()).iter().any(|&pid| pid != before);
    assert!(wait::until(PATIENCE, replaced), "not replaced:\n{}", running.all_logs());
    let all = Running::children(running.pid());
    all.into_iter().find(|&pid| pid != before).unwrap_or_else(|| of(running))
}

/// How many descriptors a process has open.
pub fn descriptors(process: Pid) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// The bytes of address space that a process uses.
pub fn address_space(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap_or_default();
    size.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// The bytes of data that a process has in memory. Pages of the program's file do not count: each part of it that runs for the
/// first time adds some.
pub fn resident(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    size.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Clock ticks that a process has computed for (`utime` and `stime`).
pub fn ticks(process: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Sets a limit of a running process; `None` is as much as it may have. The upper limit stays.
pub fn limit(process: Pid, resource: Resource, most: Option<u64>) {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let name = match resource {
        Resource::Nofile => "Max open files ",
        Resource::Fsize => "Max file size ",
        Resource::As => "Max address space ",
        Resource::Nproc => "Max processes ",
        Resource::Core => "Max core file size ",
        other => panic!("{other:?} is not known here"),
    };
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).expect("its limits");
    let maximum = line.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    let current = most.or(maximum);
    prlimit(Some(process), resource, Rlimit { current, maximum }).expect("a limit");
}

//! What the system knows of a server's processes: their CPU time and their memory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A process and everything that it started, parents first.
pub fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(parent) = family.get(at) {
        family.extend(children.remove(parent).unwrap_or_default());
        at += 1;
    }
    family
}

/// Runs a command in a folder until it ends. The error is what it said.
pub fn complete(words: &[String], folder: &Path) -> Result<()> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {program}"))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&said).trim());
    Ok(())
}

/// Whether a process that was seen before is still one that works in this folder, and not another one that was
/// given its number meanwhile.
pub fn works_in(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|current| current.starts_with(folder))
}

/// Nanoseconds that these processes ran, and their children that have ended. A process that ends between two looks
/// at it takes the whole of its time to its parent, which must therefore be among the processes.
pub fn cpu_ns(processes: &[u32]) -> u64 {
    processes.iter().map(|pid| own_cpu_ns(*pid)).sum()
}

/// What a process and its threads ran. The sum over the living threads is exact; where threads have ended, the
/// kernel's own total is more, in steps of its clock.
fn own_cpu_ns(pid: u32) -> u64 {
    let mut living = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        living += run_time_ns(&text).unwrap_or_default();
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some([user, system, children_user, children_system]) = times_ns(&stat) else { return living };
    let total = user + system;
    let own = if total > living + 2 * TICK_NS { total } else { living };
    own + children_user + children_system
}

/// Switches between contexts of these processes, by their own will and not.
pub fn context_switches(processes: &[u32]) -> u64 {
    let tasks = processes.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let statuses =
        tasks.flatten().flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.map(|status| switches_of(&status)).sum()
}

/// Bytes of memory of these processes, shared pages counted in proportion (PSS).
pub fn pss_bytes(processes: &[u32]) -> u64 {
    let texts =
        processes.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
    texts.filter_map(|text| pss_of(&text)).sum()
}

/// Seconds of CPU that the children took for which this process has waited.
pub fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let [_, _, user, system] = times_ns(&stat).unwrap_or_default();
    (user + system) as f64 / 1e9
}

/// How many files a process may have open, where it is there and limited.
pub fn open_files_max(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// The kernel's unit of times in `stat`, on every Linux there is.
const TICK_NS: u64 = 10_000_000;

/// The first number is the time on a CPU.
fn run_time_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// The second field after the name, which stands in parentheses and may hold anything.
fn parent_of(stat: &str) -> Option<u32> {
    fields(stat)?.nth(1)?.parse().ok()
}

/// Fields 14 to 17: the time in user and system mode of the process, and of its children that have ended.
fn times_ns(stat: &str) -> Option<[u64; 4]> {
    let mut times = fields(stat)?.skip(11).map_while(|field| Some(field.parse::<u64>().ok()? * TICK_NS));
    Some([times.next()?, times.next()?, times.next()?, times.next()?])
}

fn switches_of(status: &str) -> u64 {
    let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
    lines.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum()
}

fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

fn pss_of(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a) b (c) S 5 7 7 0 -1 4194560 1 2 3 4 11 12 130 20 20 0 1 0 100";

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(parent_of(STAT), Some(5));
        assert_eq!(times_ns(STAT), Some([110_000_000, 120_000_000, 1_300_000_000, 200_000_000]));
        assert_eq!(switches_of("x:\t1\nvoluntary_ctxt_switches:\t2\nnonvoluntary_ctxt_switches:\t3\n"), 5);
        assert_eq!(parent_of(""), None);
        assert_eq!(run_time_ns("123456 99 7\n"), Some(123_456));
        assert_eq!(pss_of("Rss:  9 kB\nPss:                 120 kB\nPss_Dirty: 1 kB\n"), Some(122_880));
        assert_eq!(pss_of("Rss: 9 kB\n"), None);
    }

    #[test]
    fn this_process_is_its_own_family_and_has_run() {
        let own = std::process::id();
        assert_eq!(family(own).first(), Some(&own));
        assert!(cpu_ns(&[own]) > 0);
        assert!(pss_bytes(&[own]) > 0);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        assert_eq!(open_files_max(own), limit);
        assert_eq!(cpu_ns(&[u32::MAX]), 0);
    }
}

//! What the system knows of a server's processes: their CPU time and their memory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A process and everything that it started, parents first.
pub(super) fn family(pid: u32) -> Vec<u32> {
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

/// Nanoseconds that all threads of these processes ran.
pub(super) fn cpu_ns(processes: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in processes {
        let tasks = format!("/proc/{pid}/task");
        for task in fs::read_dir(&tasks).with_context(|| format!("process {pid} is gone"))? {
            // A thread may end between the listing and the reading; what it did is then missing.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += run_time_ns(&text).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// Bytes of memory of these processes, shared pages counted in proportion.
pub(super) fn pss_bytes(processes: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in processes {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(Path::new(&path)).with_context(|| format!("reading {path}"))?;
        sum += pss_of(&text).with_context(|| format!("no Pss in {path}"))?;
    }
    Ok(sum)
}

/// Seconds of CPU that the children took for which this process has waited.
pub(super) fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).unwrap_or_default() / TICKS_PER_SECOND
}

/// The kernel's unit of times in `stat`, on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// The first number is the time on a CPU.
fn run_time_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// The second field behind the name, which stands in parentheses and may hold anything.
fn parent_of(stat: &str) -> Option<u32> {
    fields(stat)?.nth(1)?.parse().ok()
}

/// Fields 16 and 17: `cutime` and `cstime`.
fn children_ticks(stat: &str) -> Option<f64> {
    let mut times = fields(stat)?.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    Some(times.next()? + times.next()?)
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
        assert_eq!(children_ticks(STAT), Some(150.0));
        assert_eq!(parent_of(""), None);
        assert_eq!(run_time_ns("123456 99 7\n"), Some(123_456));
        assert_eq!(pss_of("Rss:  9 kB\nPss:                 120 kB\nPss_Dirty: 1 kB\n"), Some(122_880));
        assert_eq!(pss_of("Rss: 9 kB\n"), None);
    }

    #[test]
    fn this_process_is_its_own_family_and_has_run() {
        let own = std::process::id();
        assert_eq!(family(own).first(), Some(&own));
        assert!(cpu_ns(&[own]).unwrap() > 0);
        assert!(pss_bytes(&[own]).unwrap() > 0);
        assert!(cpu_ns(&[u32::MAX]).is_err());
    }
}

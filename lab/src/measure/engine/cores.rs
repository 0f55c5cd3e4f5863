//! Cores of the machine, and work that is confined to some of them.

use std::fmt;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Neighbouring cores. As text they are what taskset takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    first: u32,
    last: u32,
}

impl Cores {
    /// So many cores (at least one) behind the first ones.
    pub(super) fn behind(first: u32, count: u32) -> Cores {
        Cores { first, last: first + count.max(1) - 1 }
    }

    /// All cores after the first ones; where none is left, all.
    fn after(first: u32, all: u32) -> Cores {
        if first < all { Cores::behind(first, all - first) } else { Cores::behind(0, all) }
    }

    /// Confines this thread, and those that it starts, to these cores, as long as what is returned lives.
    pub(super) fn confine(self) -> Result<Confined> {
        let before = sched_getaffinity(THIS)?;
        let mut own = CpuSet::new();
        for core in self.first..=self.last {
            own.set(usize::try_from(core)?)?;
        }
        sched_setaffinity(THIS, &own).with_context(|| format!("running on cores {self}"))?;
        Ok(Confined { before })
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            last if last == self.first => write!(out, "{last}"),
            last => write!(out, "{}-{last}", self.first),
        }
    }
}

/// Which cores the programs of a series run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// The contenders' cores.
    pub(super) server: Cores,
    /// The tool's cores.
    pub(super) tool: Cores,
    /// The threads of the tool.
    pub(super) tool_threads: u32,
    /// The lab's own cores, while it measures.
    pub(super) lab: Cores,
}

impl Division {
    /// The contenders have the first cores. The tool and the lab have the others, or all cores if none is left.
    pub(super) fn apart(server: u32, all: u32) -> Division {
        let others = Cores::after(server, all);
        let tool_threads = all.saturating_sub(server).max(1);
        Division { server: Cores::behind(0, server), tool: others, tool_threads, lab: others }
    }

    /// Contenders and tool share the first core. The lab has the others, so that it takes no time from them.
    pub(super) fn one_core(all: u32) -> Division {
        let core = Cores::behind(0, 1);
        Division { server: core, tool: core, tool_threads: 1, lab: Cores::after(1, all) }
    }

    /// Whether the contenders run on none of the tool's cores.
    pub(super) fn tool_is_apart(&self) -> bool {
        self.server.last < self.tool.first || self.tool.last < self.server.first
    }
}

/// A thread that runs on some cores only.
pub(super) struct Confined {
    before: CpuSet,
}

impl Drop for Confined {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(THIS, &self.before);
    }
}

/// The kernel's name for the thread that asks.
const THIS: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn cores_as_taskset_takes_them() {
        assert_eq!(Cores::behind(0, 1).to_string(), "0");
        assert_eq!(Cores::behind(1, 1).to_string(), "1");
        assert_eq!(Cores::behind(0, 4).to_string(), "0-3");
    }

    #[test]
    fn cores_are_divided() {
        let text = |division: Division| {
            [division.server, division.tool, division.lab].map(|cores| cores.to_string()).join(" ")
        };
        let apart = |server, all| text(Division::apart(server, all));
        assert_eq!([apart(1, 2), apart(2, 8), apart(2, 2)], ["0 1 1", "0-1 2-7 2-7", "0-1 0-1 0-1"]);
        let one_core = |all| text(Division::one_core(all));
        assert_eq!([one_core(1), one_core(2), one_core(4)], ["0 0 0", "0 0 1", "0 0 1-3"]);
        let are_apart = [Division::apart(1, 2), Division::apart(2, 2), Division::one_core(4)];
        assert_eq!(are_apart.map(|division| division.tool_is_apart()), [true, false, false]);
        let threads = [Division::apart(1, 4), Division::apart(4, 4), Division::one_core(4)];
        assert_eq!(threads.map(|division| division.tool_threads), [3, 1, 1]);
    }

    #[test]
    fn a_thread_and_those_that_it_starts_are_confined() {
        let allowed = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.unwrap().trim().to_owned()
        };
        let before = allowed();
        let first: u32 = before.split([',', '-']).next().unwrap().parse().unwrap();
        let confined = Cores::behind(first, 1).confine().unwrap();
        assert_eq!(
            [allowed(), thread::spawn(allowed).join().unwrap()],
            [first.to_string(), first.to_string()]
        );
        drop(confined);
        assert_eq!(allowed(), before);
        assert!(Cores::behind(1_000, 1).confine().is_err(), "no such core");
        assert_eq!(allowed(), before);
    }
}

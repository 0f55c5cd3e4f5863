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

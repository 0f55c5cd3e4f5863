//! The memory of a contender, and what the whole machine uses because of it.
//!
//! The kernel's share (sockets, their buffers, page tables) is in no process. It is found as the publications found
//! it, by what the machine uses less what it used without the contender. Contenders that are compared run at once, and
//! what one of them frees after its load another one would seem to save; so the machine is looked at just before and
//! just after the contender's start, and before and after each load, and what its processes have is counted between.

use crate::measure::{process, system};

/// One look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Of the contender's processes (PSS).
    pub(super) processes_bytes: f64,
    used_bytes: f64,
}

/// What a contender's start cost the machine besides the memory of its processes. Where they use pages of files that
/// the machine would give away any time, it is less than nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    beside_bytes: f64,
}

impl Memory {
    /// Now. Without processes, before they are started.
    pub(super) fn of(processes: &[u32]) -> Memory {
        Memory {
            processes_bytes: process::pss_bytes(processes) as f64,
            used_bytes: system::used_memory_bytes() as f64,
        }
    }

    /// What the machine uses because of the contender, after a load and since it was `idle`.
    pub(super) fn system_bytes(self, before: Memory, idle: Idle) -> f64 {
        idle.beside_bytes + before.processes_bytes + self.used_bytes - before.used_bytes
    }

    /// What the start between two looks cost.
    pub(super) fn since_start(self, before: Memory) -> Idle {
        Idle { beside_bytes: self.used_bytes - before.used_bytes - self.processes_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_contenders_do_meanwhile_does_not_count() {
        let look = |processes_bytes, used_bytes| Memory { processes_bytes, used_bytes };
        // It starts with 10 in its processes and 2 in the kernel.
        let idle = look(10.0, 112.0).since_start(look(0.0, 100.0));
        // Its first load makes it grow by 5 and leaves 3 in sockets.
        assert_eq!(look(15.0, 120.0).system_bytes(look(10.0, 112.0), idle), 20.0);
        // The sockets are gone and another contender has taken 50 when the second load adds nothing.
        assert_eq!(look(15.0, 167.0).system_bytes(look(15.0, 167.0), idle), 17.0);
    }

    #[test]
    fn memory_that_is_written_to_is_seen() {
        let own = [std::process::id()];
        let before = Memory::of(&own);
        let taken = vec![1_u8; 300 << 20];
        let after = Memory::of(&own);
        assert!(after.processes_bytes - before.processes_bytes > f64::from(250 << 20));
        drop(taken);
    }
}

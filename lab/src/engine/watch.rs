//! Looking at a contender while it is under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::block::Sample;
use crate::process;

/// How often CPU is looked at.
const STEP: Duration = Duration::from_millis(100);

/// Memory is dearer to look at: every so many steps.
const STEPS_FOR_MEMORY: usize = 5;

/// A thread that looks until it is told to stop.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Watch {
    /// Begins to look at the family of these processes.
    pub(super) fn start(roots: Vec<u32>) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::spawn(move || samples(&roots, &seen));
        Watch { stop, thread }
    }

    /// What was seen.
    pub(super) fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

fn samples(roots: &[u32], stop: &AtomicBool) -> Vec<Sample> {
    let began = Instant::now();
    let mut samples = Vec::new();
    let mut before = (began, process::cpu_ns(&families(roots)));
    let mut memory_bytes = process::pss_bytes(&families(roots));
    while !stop.load(Ordering::Relaxed) {
        thread::park_timeout(STEP);
        let processes = families(roots);
        let now = (Instant::now(), process::cpu_ns(&processes));
        let passed = now.0.duration_since(before.0);
        if passed < STEP / 2 {
            continue;
        }
        if samples.len() % STEPS_FOR_MEMORY == STEPS_FOR_MEMORY - 1 {
            memory_bytes = process::pss_bytes(&processes);
        }
        let cpu_percent = now.1.saturating_sub(before.1) as f64 / passed.as_nanos() as f64 * 100.0;
        samples.push(Sample { at_s: now.0.duration_since(began).as_secs_f64(), cpu_percent, memory_bytes });
        before = now;
    }
    samples
}

fn families(roots: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = roots.iter().flat_map(|root| process::family(*root)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

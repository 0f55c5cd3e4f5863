//! Looking at a contender and the machine while a load goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::measure::process;
use crate::measure::system::Ticks;
use crate::model::block::Sample;

/// How often CPU is looked at.
const STEP: Duration = Duration::from_millis(100);

/// Memory is dearer to look at: every so many steps.
const STEPS_FOR_MEMORY: usize = 5;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The contender.
    pub(super) samples: Vec<Sample>,
    /// The highest CPU of the machine between two looks, if there were two: 100 is all of its cores.
    pub(super) system_cpu_peak_percent: Option<f64>,
}

/// A thread that looks until it is stopped. It runs on the cores of the thread that starts it.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Begins to look at the family of these processes.
    pub(super) fn start(roots: Vec<u32>) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::spawn(move || look(&roots, &seen));
        Watch { stop, thread }
    }

    /// What was seen.
    pub(super) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

fn look(roots: &[u32], stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let processes = families(roots);
    let mut memory_bytes = process::pss_bytes(&processes);
    let began = Instant::now();
    let mut before = (began, process::cpu_ns(&processes), Ticks::now());
    while !stop.load(Ordering::Relaxed) {
        thread::park_timeout(STEP);
        let passed = before.0.elapsed();
        if passed < STEP / 2 {
            continue;
        }
        let processes = families(roots);
        let now = (Instant::now(), process::cpu_ns(&processes), Ticks::now());
        let passed = now.0.duration_since(before.0);
        if seen.samples.len() % STEPS_FOR_MEMORY == STEPS_FOR_MEMORY - 1 {
            memory_bytes = process::pss_bytes(&processes);
        }
        let cpu_percent = now.1.saturating_sub(before.1) as f64 / passed.as_nanos() as f64 * 100.0;
        seen.samples.push(Sample {
            at_s: now.0.duration_since(began).as_secs_f64(),
            cpu_percent,
            memory_bytes,
        });
        let system = now.2.percent_since(before.2);
        seen.system_cpu_peak_percent = highest(seen.system_cpu_peak_percent, system);
        before = now;
    }
    seen
}

fn highest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

fn families(roots: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = roots.iter().flat_map(|root| process::family(*root)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

//! The event loop of a thread, and what the worker tells all of them.

use crate::pulse::Pulse;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// How many jobs off the event loop of a thread run at once; more wait for their turn. It is what a thread
/// pool of nginx has by default.
const JOBS: usize = 32;

/// How long a thread for jobs waits for the next one.
const FOR_EVER: Duration = Duration::from_secs(0xffff_ffff);

/// A command to all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Serve,
    Drain,
    Stop,
}

/// An event loop with a permanent thread for jobs: where the system has no other one left, jobs wait for
/// that one instead of failing.
/// The pulse, if any, tells whether the loop runs or waits.
pub(crate) fn runtime(pulse: Option<&Arc<Pulse>>) -> io::Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(JOBS).thread_keep_alive(FOR_EVER);
    if let Some(pulse) = pulse {
        let (parks, wakes) = (Arc::clone(pulse), Arc::clone(pulse));
        builder.on_thread_park(move || parks.park()).on_thread_unpark(move || wakes.wake());
    }
    let runtime = builder.build_local(LocalOptions::default())?;
    // A pool without any thread panics when it gets none: whether there is one is found out before.
    drop(std::thread::Builder::new().spawn(|| ())?.join());
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

#[cfg(test)]
mod tests {
    use super::{JOBS, runtime};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn many_slow_jobs_do_not_take_all_threads_of_the_system() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let job = || {
            let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::park_timeout(Duration::from_millis(5));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            running
        };
        runtime(None).unwrap().block_on(async {
            let jobs: Vec<_> = (0..10 * JOBS).map(|_| tokio::task::spawn_blocking(job)).collect();
            for job in jobs {
                assert!(job.await.unwrap() <= JOBS);
            }
        });
    }
}

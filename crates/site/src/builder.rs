//! Threads that compile configurations.
//!
//! A compiled configuration is called a site. glibc's allocator gives each thread an area of memory. When a thread ends,
//! its area goes to the next new thread, so two sites can share an area. If one of them is dropped, many pages are half
//! free, and such pages cannot be given back to the system. So a thread stays until the site that it compiled is gone.
//! Meanwhile no other site is allocated in its area, and then the whole area is free.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use tokio::task::spawn_blocking;

/// How many threads stay at most. There is a limit, because old connections can keep any number of old sites alive.
const STAYING_MAX: usize = 8;

/// How many threads stay.
static STAYING: AtomicUsize = AtomicUsize::new(0);

/// Keeps the thread that compiled a site. The thread ends when this is dropped.
pub struct ThreadGuard {
    _stays: mpsc::Sender<Infallible>,
}

impl ThreadGuard {
    /// The guard of a thread, and the receiver that fails when the guard is dropped. `None` if [`STAYING_MAX`] threads stay
    /// already.
    fn new() -> Option<(ThreadGuard, mpsc::Receiver<Infallible>)> {
        let one_more = |staying| (staying < STAYING_MAX).then_some(staying + 1);
        STAYING.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        let (stays, gone) = mpsc::channel();
        Some((ThreadGuard { _stays: stays }, gone))
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        STAYING.fetch_sub(1, Relaxed);
    }
}

/// Runs a job on a separate thread, which stays as long as the guard that the job gets exists. If no thread can be
/// started, the job runs in Tokio's pool for blocking jobs, without a guard. If enough threads stay already, the job gets
/// no guard either, and its thread ends after the job.
pub fn run(job: impl FnOnce(Option<ThreadGuard>) + Send + 'static) {
    let (jobs, received) = mpsc::channel::<Box<dyn FnOnce(Option<ThreadGuard>) + Send>>();
    let work = move || {
        let Ok(job) = received.recv() else { return };
        let (guard, gone) = ThreadGuard::new().unzip();
        job(guard);
        if let Some(gone) = gone {
            // No value can be sent, so this returns when the guard is dropped.
            let Err(mpsc::RecvError) = gone.recv();
        }
    };
    match std::thread::Builder::new().name("compile".to_owned()).spawn(work) {
        // The job is sent afterwards: if it were part of `work`, a failed `spawn` would drop it.
        Ok(_) => drop(jobs.send(Box::new(job))),
        Err(_) => drop(spawn_blocking(move || job(None))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_stay_and_no_longer_than_their_guards() {
        let guards: Vec<_> = (0..2 * STAYING_MAX).map(|_| ThreadGuard::new()).collect();
        assert_eq!(guards.iter().flatten().count(), STAYING_MAX);
        drop(guards);
        assert!(ThreadGuard::new().is_some());
        let (given, taken) = mpsc::channel();
        struct AtEnd(mpsc::Sender<&'static str>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                let _ = self.0.send("ended");
            }
        }
        thread_local!(static END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) });
        let (ends, ended) = mpsc::channel();
        run(move |guard| {
            END.set(Some(AtEnd(ends)));
            drop(given.send(guard));
        });
        let guard = taken.recv().unwrap();
        assert!(guard.is_some());
        assert!(ended.try_recv().is_err());
        drop(guard);
        assert_eq!(ended.recv(), Ok("ended"));
    }
}

//! Threads that compile configurations.
//!
//! glibc's allocator gives each thread an area of memory, and gives the area of a thread that ended to the next one that
//! starts. Two sites in one area, one of which is dropped, leave an area of which half of each page is free, and such
//! pages cannot be given back to the system. So a thread stays until the site that it compiled is gone: no other site is
//! allocated in its area meanwhile, and then the whole area is free.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use tokio::task::spawn_blocking;

/// How many threads stay at most. Old connections may keep any number of sites.
const STAYING_MAX: usize = 8;

/// How many threads stay.
static STAYING: AtomicUsize = AtomicUsize::new(0);

/// Keeps the thread of a site. The thread ends when this is dropped.
pub struct Builder {
    _stays: mpsc::Sender<Infallible>,
}

impl Builder {
    /// The builder for a thread that stays until the receiver fails; none where enough threads stay.
    fn new() -> Option<(Builder, mpsc::Receiver<Infallible>)> {
        let one_more = |staying| (staying < STAYING_MAX).then_some(staying + 1);
        STAYING.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        let (stays, gone) = mpsc::channel();
        Some((Builder { _stays: stays }, gone))
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        STAYING.fetch_sub(1, Relaxed);
    }
}

/// Runs a job on a separate thread, which stays as long as the builder that the job gets exists. Where the
/// system has no further thread, the job runs among those off the event loop, without a builder; where enough threads
/// stay, this one does not.
pub fn run(job: impl FnOnce(Option<Builder>) + Send + 'static) {
    let (jobs, received) = mpsc::channel::<Box<dyn FnOnce(Option<Builder>) + Send>>();
    let work = move || {
        let Ok(job) = received.recv() else { return };
        let (builder, gone) = Builder::new().unzip();
        job(builder);
        if let Some(gone) = gone {
            // It returns when the builder is gone: nothing can be sent.
            let Err(mpsc::RecvError) = gone.recv();
        }
    };
    match std::thread::Builder::new().name("compile".to_owned()).spawn(work) {
        // The thread waits for it.
        Ok(_) => drop(jobs.send(Box::new(job))),
        Err(_) => drop(spawn_blocking(move || job(None))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_stay_and_no_longer_than_their_builders() {
        let builders: Vec<_> = (0..2 * STAYING_MAX).map(|_| Builder::new()).collect();
        assert_eq!(builders.iter().flatten().count(), STAYING_MAX);
        drop(builders);
        assert!(Builder::new().is_some());
        let (given, taken) = mpsc::channel();
        struct AtEnd(mpsc::Sender<&'static str>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                let _ = self.0.send("ended");
            }
        }
        thread_local!(static END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) });
        let (ends, ended) = mpsc::channel();
        run(move |builder| {
            END.set(Some(AtEnd(ends)));
            drop(given.send(builder));
        });
        let builder = taken.recv().unwrap();
        assert!(builder.is_some());
        assert!(ended.try_recv().is_err());
        drop(builder);
        assert_eq!(ended.recv(), Ok("ended"));
    }
}

//! The threads of one process, and what ends them early.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::claims::Shared;
use super::plan::Plan;
use super::tally::Tally;
use super::thread::Thread;

/// How often a process looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What a run listens to, and tells, while it goes on.
pub(super) struct Control<'a> {
    /// Set by a signal: what was measured so far is the result.
    pub(super) interrupted: &'a AtomicBool,
    /// The end of standard input is the end of the run.
    pub(super) follows_input: bool,
    /// Called once when all idle connections are open, with their number.
    pub(super) held: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl Control<'_> {
    /// Whether the run is to end before its time.
    pub(super) fn is_over(&mut self) -> Result<bool> {
        if self.follows_input {
            let stdin = io::stdin();
            let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            let is_ready = rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1);
            self.follows_input = !(is_ready && rustix::io::read(stdin.as_fd(), &mut [0; 256])? == 0);
            return Ok(!self.follows_input || self.interrupted.load(Ordering::Relaxed));
        }
        Ok(self.interrupted.load(Ordering::Relaxed))
    }
}

/// Runs a plan in threads of this process. Fails where a thread could not begin, or the caller could not be told.
pub(super) fn run(plan: &Plan, control: &mut Control<'_>) -> Result<Tally> {
    let shared = Shared::new(plan);
    let (parts, batch) = (plan.parts(plan.threads), plan.batch());
    let (barrier, zero) = (Barrier::new(parts.len()), OnceLock::new());
    let wakeup = Wakeup { finished: AtomicU32::new(0), socket: eventfd(0, EventfdFlags::CLOEXEC)? };
    thread::scope(|scope| {
        let work = |part| {
            let thread = Thread::new(part, &shared, &batch);
            barrier.wait();
            let zero = *zero.get_or_init(Instant::now);
            let tally = thread.and_then(|thread| thread.run(zero));
            wakeup.wake();
            tally
        };
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || work(part))).collect();
        let watched = watch(plan, control, &shared, &wakeup);
        shared.stop.store(true, Ordering::Relaxed);
        let mut total = Tally::default();
        for thread in threads {
            total.merge(&thread.join().map_err(|_| anyhow!("a thread of the generator broke"))??);
        }
        total.unsent += shared.untaken();
        watched.map(|()| total)
    })
}

/// Waits until all threads have finished, or tells them to.
fn watch(plan: &Plan, control: &mut Control<'_>, shared: &Shared, wakeup: &Wakeup) -> Result<()> {
    let threads = plan.parts(plan.threads).len();
    let is_all = |counter: &AtomicU32| counter.load(Ordering::Acquire) as usize == threads;
    let mut end = None;
    let mut is_told = false;
    while !is_all(&wakeup.finished) {
        wakeup.wait()?;
        if plan.idle && !is_told && is_all(&shared.holding) {
            is_told = true;
            end = plan.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
            (control.held)(shared.held.load(Ordering::Acquire))?;
        }
        if control.is_over()? || end.is_some_and(|end| Instant::now() >= end) {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Wakes who waits for the threads.
struct Wakeup {
    finished: AtomicU32,
    socket: OwnedFd,
}

impl Wakeup {
    fn wake(&self) {
        self.finished.fetch_add(1, Ordering::Release);
        // Who waits looks by himself soon.
        let _unheard = rustix::io::write(&self.socket, &1u64.to_ne_bytes());
    }

    /// Waits for a thread or the next look.
    fn wait(&self) -> Result<()> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        match rustix::event::poll(&mut fds, Some(&look)) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Ok(rustix::io::read(&self.socket, &mut [0; 8]).map(|_| ())?),
            Err(error) => Err(error.into()),
        }
    }
}

//! Signs of life: what a serving thread tells the [watchdog](crate::watchdog) while it serves.

use engine::ServedScope;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};
use tokio::sync::Notify;

/// The signs of life of one thread. Only that thread writes them.
///
/// All accesses are `Relaxed`: the watchdog compares values of different moments, and reads no other memory through them.
#[derive(Default)]
pub(crate) struct Pulse {
    /// Changes with each turn of the event loop. Odd while the thread runs, even while it waits for events.
    beats: AtomicU64,
    /// The number of the connection that was polled last; 0 if it is over.
    connection: AtomicU64,
    /// The scope of the request that the thread works on.
    served: Arc<ServedScope>,
    /// The kernel's number of the thread; 0 until the thread has started.
    thread: AtomicI32,
    alarm: Arc<Alarm>,
}

/// Wakes the watchdog, which sleeps while all threads wait for events.
#[derive(Default)]
pub(crate) struct Alarm {
    pub(crate) is_set: AtomicBool,
    pub(crate) rings: Notify,
}

impl Pulse {
    /// The pulse of a thread that has not started yet.
    pub(crate) fn new(alarm: &Arc<Alarm>) -> Arc<Pulse> {
        Arc::new(Pulse { alarm: Arc::clone(alarm), ..Pulse::default() })
    }

    /// The calling thread is the one whose pulse this is.
    pub(crate) fn begin(&self) {
        self.thread.store(net::threads::id(), Relaxed);
        self.served.begin();
        self.wake();
    }

    /// The thread goes on.
    pub(crate) fn beat(&self) {
        self.beats.store(self.beats.load(Relaxed).wrapping_add(2), Relaxed);
    }

    /// The thread begins to wait for events.
    pub(crate) fn park(&self) {
        self.beats.store((self.beats.load(Relaxed) | 1).wrapping_add(1), Relaxed);
    }

    /// The thread goes on after it waited for events.
    pub(crate) fn wake(&self) {
        self.beats.store(self.beats.load(Relaxed).wrapping_add(1) | 1, Relaxed);
        // A load before the swap: threads share the alarm, and a swap would move its cache line at each turn.
        if self.alarm.is_set.load(Relaxed) && self.alarm.is_set.swap(false, Relaxed) {
            self.alarm.rings.notify_one();
        }
    }

    /// The thread polls the connection of this number.
    pub(crate) fn polls(&self, connection: u64) {
        self.connection.store(connection, Relaxed);
        self.served.clear();
    }

    /// How often the thread went on, and whether it runs.
    pub(crate) fn beats(&self) -> Beats {
        Beats(self.beats.load(Relaxed))
    }

    /// The number of the connection that the thread polls, if it polls one.
    pub(crate) fn connection(&self) -> Option<u64> {
        Some(self.connection.load(Relaxed)).filter(|&number| number > 0)
    }

    /// The scope of the request that the thread works on.
    pub(crate) fn served(&self) -> &ServedScope {
        &self.served
    }

    /// What the kernel says that the thread does.
    pub(crate) fn activity(&self) -> Option<net::threads::Activity> {
        net::threads::activity(self.thread.load(Relaxed))
    }
}

/// A look at a pulse. Two that are equal mean that the thread did not go on in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beats(u64);

impl Beats {
    /// Whether the thread runs. If not, it waits for events.
    pub(crate) fn is_running(self) -> bool {
        self.0 % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::{Alarm, Pulse};
    use std::sync::Arc;

    type Step = fn(&Pulse);

    #[test]
    fn beats_tell_whether_a_thread_runs() {
        let pulse = Pulse::new(&Arc::new(Alarm::default()));
        let mut last = pulse.beats();
        assert!(!last.is_running());
        let (wake, beat, park): (Step, Step, Step) = (Pulse::wake, Pulse::beat, Pulse::park);
        let steps = [(wake, true), (beat, true), (park, false), (wake, true), (park, false), (park, false)];
        for (step, runs) in steps {
            step(&pulse);
            assert_eq!(pulse.beats().is_running(), runs);
            assert_ne!(pulse.beats(), last);
            last = pulse.beats();
        }
    }
}

//! Watches the serving threads. A thread that stands still, such as one that waits for a disk, computes for long or was
//! stopped, cannot accept connections; another thread then accepts them in its place, and the log says so.
//!
//! The watchdog looks at the threads ten times a second while any of them runs. While all wait for events it looks once a
//! second, because a thread may have been stopped while it waited: no thread wakes for a client of that one. A thread
//! that no other thread can help is skipped while it waits.

use crate::pulse::{Alarm, Beats, Pulse};
use engine::ServedScope;
use net::threads::Activity;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often the watchdog looks.
const TICK: Duration = Duration::from_millis(100);

/// How often the watchdog looks while all threads wait for events.
const QUIET_TICK: Duration = Duration::from_secs(1);

/// After how long without a sign of life a thread stands still. A busy machine may keep a thread waiting for a processor
/// for a while; another thread then accepts a few of its connections, which does no harm.
const STANDS_AFTER: Duration = Duration::from_millis(300);

/// After how long the log says so.
const LOGGED_AFTER: Duration = Duration::from_secs(1);

/// Watches the threads of a worker.
pub(crate) struct Watchdog {
    threads: Vec<Watched>,
    alarm: Arc<Alarm>,
    next: Instant,
    /// Whether the last look found that all threads wait for events.
    is_quiet: bool,
}

struct Watched {
    pulse: Arc<Pulse>,
    beats: Beats,
    /// Since when the thread has something to do and gives no sign of life.
    since: Option<Instant>,
    is_logged: bool,
    /// The thread that accepts in its place.
    helper: Option<usize>,
}

/// What the watchdog saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A thread stands still: another one should accept connections in its place.
    NeedsHelp { thread: usize, helper: usize },
    /// A thread goes on that had help.
    GoesOn { thread: usize },
    /// The log should say that a thread stands still, and what it serves.
    StandsStill { thread: usize, message: String },
    /// The log should say that a thread goes on.
    Message(String),
}

impl Watchdog {
    /// Watches threads by their pulses, which ring this alarm.
    pub(crate) fn new(pulses: Vec<Arc<Pulse>>, alarm: Arc<Alarm>) -> Watchdog {
        let watched =
            |pulse| Watched { pulse, beats: Beats::default(), since: None, is_logged: false, helper: None };
        let threads = pulses.into_iter().map(watched).collect();
        Watchdog { threads, alarm, next: Instant::now() + TICK, is_quiet: false }
    }

    /// Waits for the next sign. `has_connections` tells whether connections wait to be accepted by a thread. The future may
    /// be dropped without loss.
    pub(crate) async fn sign(&mut self, has_connections: impl Fn(usize) -> bool) -> Sign {
        loop {
            if self.is_quiet && self.alarm.is_set.load(Relaxed) {
                let is_woken = self.sleep().await;
                self.is_quiet = !is_woken;
                if is_woken {
                    self.next = Instant::now() + TICK;
                }
            }
            sleep_until(self.next).await;
            if let Some(sign) = self.look(Instant::now(), &has_connections) {
                return sign;
            }
            self.next = Instant::now() + TICK;
            // The alarm is set one look before the watchdog relies on it: that look sees a thread that woke before.
            self.is_quiet &= self.alarm.is_set.swap(self.is_quiet, Relaxed);
        }
    }

    /// The scope of the request that a thread works on.
    pub(crate) fn served(&self, thread: usize) -> &ServedScope {
        self.threads[thread].pulse.served()
    }

    /// Sleeps until a thread wakes, or until the next look is due. Returns whether a thread woke.
    async fn sleep(&self) -> bool {
        let rings = self.alarm.rings.notified();
        if self.threads.len() == 1 {
            rings.await;
            return true;
        }
        timeout_at(self.next + QUIET_TICK - TICK, rings).await.is_ok()
    }

    /// Looks at all threads, until there is something to tell.
    fn look(&mut self, now: Instant, has_connections: &impl Fn(usize) -> bool) -> Option<Sign> {
        self.is_quiet = true;
        for thread in 0..self.threads.len() {
            let sign = self.look_at(thread, now, has_connections);
            self.is_quiet &= sign.is_none();
            if sign.is_some() {
                return sign;
            }
        }
        None
    }

    fn look_at(
        &mut self,
        thread: usize,
        now: Instant,
        has_connections: &impl Fn(usize) -> bool,
    ) -> Option<Sign> {
        let watched = &mut self.threads[thread];
        let beats = watched.pulse.beats();
        if std::mem::replace(&mut watched.beats, beats) != beats {
            self.is_quiet = false;
            return watched.goes_on(thread, now);
        }
        if watched.since.is_none() && watched.helper.take().is_some() {
            return Some(Sign::GoesOn { thread });
        }
        let is_waited_for = beats.is_running() || watched.since.is_some() || has_connections(thread);
        if !is_waited_for {
            return None;
        }
        self.is_quiet = false;
        let silent = now.duration_since(*watched.since.get_or_insert(now));
        if silent >= LOGGED_AFTER && !std::mem::replace(&mut watched.is_logged, true) {
            return Some(Sign::StandsStill { thread, message: watched.complaint(thread, silent) });
        }
        let is_helped = watched.helper.is_some_and(|helper| self.threads[helper].since.is_none());
        if silent < STANDS_AFTER || is_helped {
            return None;
        }
        let count = self.threads.len();
        let helper = (1..count)
            .map(|next| (thread + next) % count)
            .find(|&other| self.threads[other].since.is_none())?;
        self.threads[thread].helper = Some(helper);
        Some(Sign::NeedsHelp { thread, helper })
    }
}

impl Watched {
    /// The thread gave a sign of life. Returns what the log should say about it.
    fn goes_on(&mut self, thread: usize, now: Instant) -> Option<Sign> {
        let since = self.since.take();
        let silent = Seconds(now.duration_since(since.unwrap_or(now)));
        let text = format!("thread {} goes on after {silent}", thread + 1);
        std::mem::take(&mut self.is_logged).then_some(Sign::Message(text))
    }

    fn complaint(&self, thread: usize, silent: Duration) -> String {
        let cause = match self.pulse.activity() {
            Some(Activity::Runs) => "it computes, or waits for a processor",
            Some(Activity::Sleeps) => "it waits in a system call",
            Some(Activity::WaitsForDisk) => "it waits for a disk",
            Some(Activity::IsStopped) => "a signal or a debugger stopped it",
            None => "the cause is unknown",
        };
        let connection =
            self.pulse.connection().map(|number| format!(" while it served connection *{number}"));
        let help =
            self.helper.map(|helper| format!("; thread {} accepts connections in its place", helper + 1));
        let (number, silent) = (thread + 1, Seconds(silent));
        let (connection, help) = (connection.unwrap_or_default(), help.unwrap_or_default());
        format!("thread {number} has not served for {silent}{connection}: {cause}{help}")
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::{LOGGED_AFTER, STANDS_AFTER, Sign, TICK, Watchdog};
    use crate::pulse::{Alarm, Pulse};
    use std::sync::Arc;
    use tokio::time::Instant;

    fn watch(threads: usize) -> (Watchdog, Vec<Arc<Pulse>>) {
        let alarm = Arc::new(Alarm::default());
        let pulses: Vec<_> = (0..threads).map(|_| Pulse::new(&alarm)).collect();
        (Watchdog::new(pulses.clone(), alarm), pulses)
    }

    #[test]
    fn a_thread_that_runs_without_a_beat_needs_help_until_it_goes_on() {
        let (mut watchdog, pulses) = watch(3);
        let started = Instant::now();
        pulses[0].wake();
        assert_eq!(watchdog.look(started, &|_| false), None, "it went on");
        assert!(!watchdog.is_quiet);
        assert_eq!(watchdog.look(started + TICK, &|_| false), None, "it is silent since now");
        let later = started + TICK + STANDS_AFTER;
        let help = Sign::NeedsHelp { thread: 0, helper: 1 };
        assert_eq!(watchdog.look(later, &|_| false), Some(help));
        assert_eq!(watchdog.look(later, &|_| false), None);
        let told = watchdog.look(started + TICK + LOGGED_AFTER, &|_| false);
        let Some(Sign::StandsStill { thread: 0, message }) = told else { panic!("{told:?}") };
        assert!(message.starts_with("thread 1 has not served for 1.0 s: "), "{message}");
        pulses[0].beat();
        let text = "thread 1 goes on after 1.0 s".to_owned();
        assert_eq!(watchdog.look(started + TICK + LOGGED_AFTER, &|_| false), Some(Sign::Message(text)));
        assert_eq!(watchdog.look(later, &|_| false), Some(Sign::GoesOn { thread: 0 }));
        pulses[0].park();
        assert_eq!(watchdog.look(later, &|_| false), None);
        assert_eq!(watchdog.look(later, &|_| false), None);
        assert!(watchdog.is_quiet);
    }

    #[test]
    fn a_thread_that_waits_for_events_is_expected_to_take_its_connections() {
        let (mut watchdog, _pulses) = watch(2);
        let started = Instant::now();
        assert_eq!(watchdog.look(started, &|thread| thread == 1), None);
        let help = Sign::NeedsHelp { thread: 1, helper: 0 };
        assert_eq!(watchdog.look(started + STANDS_AFTER, &|_| false), Some(help));
        assert!(!watchdog.is_quiet, "it is watched until it goes on");
    }

    #[test]
    fn a_helper_that_stands_still_is_replaced() {
        let (mut watchdog, pulses) = watch(3);
        let started = Instant::now();
        pulses[0].wake();
        watchdog.look(started, &|_| false);
        watchdog.look(started, &|_| false);
        let later = started + STANDS_AFTER;
        assert_eq!(watchdog.look(later, &|_| false), Some(Sign::NeedsHelp { thread: 0, helper: 1 }));
        pulses[1].wake();
        watchdog.look(later, &|_| false);
        watchdog.look(later, &|_| false);
        assert_eq!(watchdog.look(later, &|_| false), Some(Sign::NeedsHelp { thread: 0, helper: 2 }));
    }

    #[test]
    fn the_watchdog_sleeps_until_a_thread_wakes() {
        let (mut watchdog, pulses) = watch(1);
        let pulse = Arc::clone(&pulses[0]);
        crate::event_loop::runtime(None).unwrap().block_on(async {
            let alarm = Arc::clone(&watchdog.alarm);
            let woken = tokio::task::spawn_local(async move {
                while !alarm.is_set.load(super::Relaxed) {
                    tokio::time::sleep(TICK).await;
                }
                tokio::time::sleep(3 * TICK).await;
                pulse.wake();
            });
            let Sign::StandsStill { message: text, .. } = watchdog.sign(|_| false).await else {
                panic!("a thread helps itself")
            };
            assert!(text.contains("has not served"), "{text}");
            woken.await.unwrap();
        });
    }
}

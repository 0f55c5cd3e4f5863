//! What is known of one peer. It does not depend on a configuration: the settings are given with each question.
//! Counts are `Relaxed`: they are for metrics, and decide nothing.

use crate::server::PeerSettings;
use crate::timing::{LeastTime, Timing, Until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What is known of a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// How near its turn is.
    pub(crate) current: i64,
    /// By how much failures lessen its weight.
    lost_weight: i64,
    /// How many requests are in progress.
    pub(crate) requests: u32,
    fails: u32,
    /// When it failed last, in milliseconds of uptime.
    failed: Option<u64>,
    /// When its failures were looked at last, in the same.
    pub(crate) checked: Option<u64>,
    pub(crate) timing: Timing,
    pub(crate) sums: Sums,
}

/// What was counted of a peer since it is known.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) failures: u64,
    pub(crate) time_ms: u64,
    pub(crate) connections: Arc<Connections>,
}

/// The connections to a peer.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) opened: AtomicU64,
    pub(crate) open: AtomicU64,
}

impl Connections {
    /// Counts a connection that was opened.
    pub(crate) fn count(self: Arc<Connections>) -> Counted {
        self.opened.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        Counted(self)
    }
}

/// A connection to a peer that is open. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Connections>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// How a request to a server ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) is_failed: bool,
    /// No other server could be asked, so failures do not count.
    pub(crate) is_single: bool,
    /// In milliseconds of uptime.
    pub(crate) now_ms: u64,
    /// When the server was chosen, in the same.
    pub(crate) started_ms: u64,
    /// What is measured for `least_time`.
    pub(crate) measured: Option<Measured>,
}

/// What is measured of a request for `least_time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) least: LeastTime,
    /// Whether it counts as being in progress.
    pub(crate) in_flight: bool,
    /// How long the head of the response took, or the first byte where that is measured, if it came.
    pub(crate) head_ms: Option<u64>,
}

impl PeerState {
    /// Brings its turn nearer by its weight, less what failures took; gives by how much. A part of what was lost comes back.
    #[inline]
    pub(crate) fn come_nearer(&mut self, settings: &PeerSettings) -> i64 {
        let step = (i64::from(settings.weight) - self.lost_weight).max(0);
        self.current += step;
        self.lost_weight = (self.lost_weight - 1).max(0);
        step
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, settings: &PeerSettings, now_ms: u64) {
        self.requests += 1;
        self.sums.requests += 1;
        if self.checked.is_none_or(|checked| since(now_ms, checked) > settings.fail_timeout) {
            self.checked = Some(now_ms);
        }
    }

    /// A request is over; tells whether the server is left alone from now on.
    pub(crate) fn end(&mut self, settings: &PeerSettings, ended: Ended) -> bool {
        let Ended { is_failed, is_single, now_ms, started_ms, measured } = ended;
        self.requests = self.requests.saturating_sub(1);
        self.sums.failures += u64::from(is_failed);
        let took_ms = now_ms.saturating_sub(started_ms);
        self.sums.time_ms += took_ms;
        if let Some(measured) = measured {
            self.measure(measured, took_ms, now_ms, is_failed);
        }
        if is_single {
            return false;
        }
        if !is_failed {
            self.forgive();
            return false;
        }
        self.fails += 1;
        (self.failed, self.checked) = (Some(now_ms), Some(now_ms));
        if settings.max_fails == 0 {
            return false;
        }
        let weight = i64::from(settings.weight);
        self.lost_weight = (self.lost_weight + weight / i64::from(settings.max_fails)).min(weight);
        self.fails >= settings.max_fails
    }

    /// Forgets failures, if a request began since the last one: the server is back.
    pub(crate) fn forgive(&mut self) {
        if self.failed < self.checked {
            self.fails = 0;
        }
    }

    /// Takes note of how long a request took. One that failed does not count: a server that fails quickly is not quick.
    fn measure(&mut self, measured: Measured, took_ms: u64, now_ms: u64, is_failed: bool) {
        let Measured { least, in_flight, head_ms } = measured;
        if in_flight {
            self.timing.end(took_ms, now_ms);
        }
        let Some(head_ms) = head_ms.filter(|_| !is_failed) else { return };
        self.timing.note_response(took_ms);
        // Otherwise it was noted when the head came.
        if !least.in_flight || least.until == Until::LastByte {
            self.timing.note_head(head_ms);
        }
    }

    /// Whether it failed too often, and is left alone.
    #[inline]
    pub(crate) fn is_failed(&self, settings: &PeerSettings, now_ms: u64) -> bool {
        let PeerSettings { max_fails, fail_timeout, .. } = *settings;
        // No time is over at once, also where the clock did not tick since.
        let recently = |checked| !fail_timeout.is_zero() && since(now_ms, checked) <= fail_timeout;
        max_fails > 0 && self.fails >= max_fails && self.checked.is_some_and(recently)
    }

    /// Whether it has as many requests as it may have.
    #[inline]
    pub(crate) fn is_full(&self, settings: &PeerSettings) -> bool {
        settings.max_conns > 0 && self.requests >= settings.max_conns
    }
}

/// The time from one point of the uptime to a later one, both in milliseconds.
pub(crate) fn since(now_ms: u64, before_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(before_ms))
}

#[cfg(test)]
impl PeerState {
    /// One request fails at this time.
    pub(crate) fn fail_at(&mut self, now_ms: u64) {
        let settings = PeerSettings::DEFAULT;
        self.begin(&settings, now_ms);
        let failed = Ended { is_failed: true, is_single: false, now_ms, started_ms: now_ms, measured: None };
        self.end(&settings, failed);
    }

    pub(crate) fn failures(&self) -> u64 {
        self.sums.failures
    }
}

#[cfg(test)]
mod tests {
    use super::PeerState;
    use crate::server::PeerSettings;
    use std::time::Duration;

    #[test]
    fn other_settings_apply_to_the_same_state_at_once() {
        let mut state = PeerState::default();
        let of = |weight, max_fails, max_conns| PeerSettings {
            weight,
            max_fails,
            max_conns,
            ..PeerSettings::DEFAULT
        };
        let mut step = |weight| state.come_nearer(&of(weight, 1, 0));
        assert_eq!([step(1), step(5), step(2)], [1, 5, 2]);
        state.fail_at(1000);
        state.begin(&PeerSettings::DEFAULT, 1000);
        let failed = |max_fails| state.is_failed(&of(1, max_fails, 0), 1500);
        assert_eq!([failed(1), failed(2), failed(0)], [true, false, false]);
        let short = PeerSettings { fail_timeout: Duration::from_millis(400), ..PeerSettings::DEFAULT };
        assert!(!state.is_failed(&short, 1500));
        assert_eq!([0, 1, 2].map(|most| state.is_full(&of(1, 1, most))), [false, true, false]);
    }

    #[test]
    fn weight_that_failures_took_comes_back_step_by_step() {
        let settings = PeerSettings { weight: 3, ..PeerSettings::DEFAULT };
        let mut state = PeerState::default();
        state.fail_at(1000);
        state.fail_at(1000);
        state.fail_at(1000);
        let steps = [(); 5].map(|()| state.come_nearer(&settings));
        // A failure under the weight 1 takes all of that weight, and no more.
        assert_eq!(steps, [2, 3, 3, 3, 3]);
    }
}

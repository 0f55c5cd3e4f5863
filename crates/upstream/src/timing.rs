//! How long the responses of a server take, which `least_time` chooses by. The sums are nginx's.

use std::time::Duration;

/// What the time of a request is measured to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The head of the response; in `stream`, the open connection.
    Answer,
    /// The first byte that a server of `stream` sends.
    FirstByte,
    /// The end.
    LastByte,
}

/// Which times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTime {
    /// What they are measured to.
    pub until: Until,
    /// Whether the requests in progress count.
    pub in_flight: bool,
}

/// How long the responses of a server take, in milliseconds on average.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    /// Until the answer or the first byte.
    head_ms: u64,
    response_ms: u64,
    /// How long the requests in progress have taken so far.
    flight_ms: u64,
    /// How many requests are in progress.
    flights: u64,
    /// How long they had taken together when their number changed last, and when that was.
    flights_ms: u64,
    changed_ms: u64,
}

/// Servers that take longer are alike, in milliseconds.
const SLOWEST: u64 = 5000;

/// Servers that differ by less are alike, in milliseconds.
const STEP: u64 = 20;

impl Timing {
    /// A request begins.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.flights_ms += now_ms.saturating_sub(self.changed_ms) * self.flights;
        self.changed_ms = now_ms;
        self.flights += 1;
    }

    /// A request ends that took so long.
    pub(crate) fn end(&mut self, took_ms: u64, now_ms: u64) {
        let together = self.flights_ms + now_ms.saturating_sub(self.changed_ms) * self.flights;
        self.flights = self.flights.saturating_sub(1);
        (self.flights_ms, self.changed_ms) = match self.flights {
            0 => (0, now_ms),
            _ => (together.saturating_sub(took_ms), now_ms),
        };
    }

    /// The head of a response, or what is measured in its place, took so long.
    pub(crate) fn note_head(&mut self, took_ms: u64) {
        average(&mut self.head_ms, took_ms);
    }

    /// A response took so long.
    pub(crate) fn note_response(&mut self, took_ms: u64) {
        average(&mut self.response_ms, took_ms);
    }

    /// Looks at the requests in progress.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if let Some(each) = self.flights_ms.checked_div(self.flights) {
            average(&mut self.flight_ms, each + now_ms.saturating_sub(self.changed_ms));
        }
    }

    /// How long the server may take to answer one more request besides so many. A server that was left alone for long is
    /// tried again: its time is halved for each `fail_timeout`.
    pub(crate) fn estimate(
        &self,
        least: LeastTime,
        (alone, fail_timeout): (Duration, Duration),
        requests: u32,
    ) -> u64 {
        let known = match least.until {
            Until::Answer | Until::FirstByte => self.head_ms,
            Until::LastByte => self.response_ms,
        };
        let (alone, pause) = (alone.as_secs(), fail_timeout.as_secs());
        let halvings = if alone > pause { alone / (pause + 1) } else { 0 };
        let known = u32::try_from(halvings).ok().and_then(|times| known.checked_shr(times)).unwrap_or(0);
        let time = if self.flights > 0 { known.max(self.flight_ms) } else { known };
        let time = if time > SLOWEST { SLOWEST } else { time + STEP - time % STEP };
        time * (1 + u64::from(requests))
    }
}

/// Adds a value to an average, of which it is a twentieth.
fn average(known: &mut u64, value: u64) {
    *known = if *known == 0 { value } else { (value + 19 * *known + 10) / 20 };
}

#[cfg(test)]
mod tests {
    use super::{LeastTime, Timing, Until, average};
    use std::time::Duration;

    const HEAD: LeastTime = LeastTime { until: Until::Answer, in_flight: false };
    const ALL: LeastTime = LeastTime { until: Until::LastByte, in_flight: true };
    const NOW: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(10));

    #[test]
    fn averages_follow_slowly() {
        let mut known = 0;
        for (value, expected) in [(100, 100), (200, 105), (105, 105), (0, 100)] {
            average(&mut known, value);
            assert_eq!(known, expected);
        }
    }

    #[test]
    fn head_and_response_have_their_times() {
        let mut timing = Timing::default();
        timing.note_head(35);
        timing.note_response(110);
        assert_eq!((timing.estimate(HEAD, NOW, 0), timing.estimate(ALL, NOW, 0)), (40, 120));
        assert_eq!(timing.estimate(HEAD, NOW, 2), 120);
        let slow = Timing { response_ms: 90_000, ..Timing::default() };
        assert_eq!(slow.estimate(ALL, NOW, 1), 10_000);
    }

    #[test]
    fn a_server_that_is_left_alone_is_tried_again() {
        let timing = Timing { response_ms: 400, ..Timing::default() };
        let after = |seconds, pause| {
            timing.estimate(ALL, (Duration::from_secs(seconds), Duration::from_secs(pause)), 0)
        };
        assert_eq!([after(10, 10), after(11, 10), after(22, 10), after(4000, 10)], [420, 220, 120, 20]);
        assert_eq!(after(2, 0), 120);
    }

    #[test]
    fn requests_in_progress_count() {
        let mut timing = Timing::default();
        timing.begin(1000);
        timing.begin(1100);
        timing.look(1200);
        // One has taken 200 ms and one 100.
        assert_eq!((timing.flight_ms, timing.estimate(ALL, NOW, 0)), (150, 160));
        timing.end(300, 1300);
        timing.look(1400);
        assert_eq!(timing.flight_ms, (300 + 19 * 150 + 10) / 20);
        timing.end(300, 1400);
        timing.look(9000);
        assert_eq!((timing.flights, timing.flights_ms, timing.estimate(ALL, NOW, 0)), (0, 0, 20));
    }
}

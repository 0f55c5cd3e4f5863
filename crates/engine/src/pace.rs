//! How slowly a client may send a body or take a response: between two pieces, and over all of it. And how fast a
//! response goes out.

use contract::policy::{RequestBodyPolicy, SendingPolicy};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::Throttle;
use wire::{Elapsed, Timer};

/// The waiting for one client over one body or one response. What the server does meanwhile does not count.
#[derive(Debug)]
pub struct Pace {
    /// How long one wait may last.
    timeout: Duration,
    /// Bytes a second, after the first `timeout`; 0 sets no limit for the whole.
    min_rate: u64,
    waited: Duration,
    /// Since when the client is waited for, if it is.
    waits_since: Option<Instant>,
    bytes: u64,
    throttle: Option<Box<Throttle>>,
}

impl Pace {
    /// For a body.
    pub fn of_body(policy: &RequestBodyPolicy) -> Pace {
        Pace::new(policy.client_body_timeout, policy.client_body_min_rate)
    }

    /// For a response.
    pub fn of_response(policy: &SendingPolicy) -> Pace {
        Pace::new(policy.send_timeout, policy.send_min_rate)
    }

    /// From now on no faster than this.
    pub fn limit_to(&mut self, throttle: Option<Throttle>) {
        self.throttle = throttle.map(Box::new);
    }

    /// For anything, with a limit for each wait and a least rate.
    pub fn new(timeout: Duration, min_rate: u64) -> Pace {
        Pace { timeout, min_rate, waited: Duration::ZERO, waits_since: None, bytes: 0, throttle: None }
    }

    /// Whether it may go no faster than something.
    pub fn is_limited(&self) -> bool {
        self.throttle.is_some()
    }

    /// Waits until something may be sent, and gives how many bytes that may be.
    pub fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        match &mut self.throttle {
            None => Poll::Ready(usize::MAX),
            Some(throttle) => throttle.poll_allowance(cx),
        }
    }

    /// Passes on what polling the client came to, or an error where the client has no time left. What is ready at once
    /// costs no timer.
    pub fn limit<T>(
        &mut self,
        timer: &Timer,
        cx: &mut Context<'_>,
        polled: Poll<T>,
    ) -> Poll<Result<T, Elapsed>> {
        if let Poll::Ready(value) = polled {
            self.stop(timer);
            return Poll::Ready(Ok(value));
        }
        if self.waits_since.is_none() {
            let left = if self.min_rate == 0 { self.timeout } else { self.left() };
            if left.is_zero() {
                return Poll::Ready(Err(Elapsed));
            }
            timer.set(left);
            self.waits_since = Some(Instant::now());
        }
        ready!(timer.poll(cx));
        self.stop(timer);
        Poll::Ready(Err(Elapsed))
    }

    /// Stops waiting, if the client is waited for.
    pub fn stop(&mut self, timer: &Timer) {
        if let Some(since) = self.waits_since.take() {
            timer.clear();
            self.waited += since.elapsed();
        }
    }

    /// Notes bytes that came or went, which ends a wait.
    pub fn moved(&mut self, bytes: u64, timer: Option<&Timer>) {
        timer.into_iter().for_each(|timer| self.stop(timer));
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(throttle) = &mut self.throttle {
            throttle.moved(bytes, Instant::now());
        }
    }

    /// What is left for the next wait: the timeout once for the whole, and a second for as many bytes as the rate
    /// says.
    fn left(&self) -> Duration {
        let earned =
            Duration::from_millis((self.bytes.saturating_mul(1000)).div_euclid(self.min_rate.max(1)));
        self.timeout.saturating_add(earned).saturating_sub(self.waited).min(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    #[test]
    fn bytes_earn_time() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(10 * second, 100);
        assert_eq!(pace.left(), 10 * second);
        pace.waited = 9 * second;
        assert_eq!(pace.left(), second);
        pace.moved(250, None);
        assert_eq!(pace.left(), Duration::from_millis(3500));
        pace.moved(u64::MAX, None);
        assert_eq!(pace.left(), 10 * second, "one wait is never longer than the timeout");
    }

    #[test]
    fn time_that_is_over_stays_over() {
        let mut pace = Pace::new(Duration::from_secs(1), u64::MAX);
        pace.waited = Duration::from_secs(2);
        pace.moved(1000, None);
        assert_eq!(pace.left(), Duration::ZERO);
    }
}

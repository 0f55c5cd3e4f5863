//! How slowly a client may send a body or take a response: between two pieces, and over all of it. And how fast a
//! response goes out.

use super::throttle::Throttle;
use crate::timer::{Elapsed, Timer};
use contract::policy::{RequestBodyPolicy, SendingPolicy};
use std::time::{Duration, Instant};

/// The waiting for one client over one body or one response. What the server does meanwhile does not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long one wait may last.
    timeout: Duration,
    /// Bytes a second, after the first `timeout`; 0 sets no limit for the whole.
    min_rate: u64,
    waited: Duration,
    bytes: u64,
    throttle: Option<Throttle>,
}

impl Pace {
    /// For a body.
    pub(crate) fn of_body(policy: &RequestBodyPolicy) -> Pace {
        Pace::new(policy.client_body_timeout, policy.client_body_min_rate)
    }

    /// For a response.
    pub(crate) fn of_response(policy: &SendingPolicy) -> Pace {
        Pace::new(policy.send_timeout, policy.send_min_rate)
    }

    /// The same, and no faster than this.
    pub(crate) fn limited(self, throttle: Option<Throttle>) -> Pace {
        Pace { throttle, ..self }
    }

    /// For anything, with a limit for each wait and a least rate.
    pub(crate) fn new(timeout: Duration, min_rate: u64) -> Pace {
        Pace { timeout, min_rate, waited: Duration::ZERO, bytes: 0, throttle: None }
    }

    /// Whether it may go no faster than something.
    pub(crate) fn is_limited(&self) -> bool {
        self.throttle.is_some()
    }

    /// Waits until something may be sent, and gives how much of the bytes that is.
    pub(crate) async fn room(&self, bytes: usize) -> usize {
        match &self.throttle {
            None => bytes,
            Some(throttle) => throttle.room(bytes).await,
        }
    }

    /// Waits for the client, as long as it may still take.
    pub(crate) async fn within<T>(
        &mut self,
        timer: &Timer,
        client: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        if self.min_rate == 0 {
            return timer.within(self.timeout, client).await;
        }
        let left = self.left();
        if left.is_zero() {
            return Err(Elapsed);
        }
        let started = Instant::now();
        let result = timer.within(left, client).await;
        self.waited += started.elapsed();
        result
    }

    /// Takes note of bytes that came or went.
    pub(crate) fn moved(&mut self, bytes: u64) {
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
        pace.moved(250);
        assert_eq!(pace.left(), Duration::from_millis(3500));
        pace.moved(u64::MAX);
        assert_eq!(pace.left(), 10 * second, "one wait is never longer than the timeout");
    }

    #[test]
    fn time_that_is_over_stays_over() {
        let mut pace = Pace::new(Duration::from_secs(1), u64::MAX);
        pace.waited = Duration::from_secs(2);
        pace.moved(1000);
        assert_eq!(pace.left(), Duration::ZERO);
    }
}

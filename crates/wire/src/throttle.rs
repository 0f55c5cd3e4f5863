//! Limits the speed of transfers (`limit_rate`, `proxy_limit_rate`), counted as in nginx. The first second's bytes go at once, and
//! whatever has moved is paused for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep};

/// The limit of one response, as it is sent or as it is read.
#[derive(Debug)]
pub struct Throttle {
    /// Bytes a second; not zero.
    rate: u64,
    /// How many bytes go before the limit counts.
    after: u64,
    started: Instant,
    moved: u64,
    paused_until: Option<Instant>,
    /// What is waited for.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Throttle {
    /// So many bytes a second, which are counted from then on; the first `after` bytes do not count. `None` for a rate of 0,
    /// which is no limit.
    pub fn new(rate: u64, after: u64, started: Instant) -> Option<Throttle> {
        (rate > 0).then_some(Throttle { rate, after, started, moved: 0, paused_until: None, sleep: None })
    }

    /// Waits until something may move, and gives how many bytes that may be.
    pub fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            let delay = match (self.paused_until.take(), self.allowance(Instant::now())) {
                (Some(until), _) => until.saturating_duration_since(Instant::now()),
                (None, Ok(allowance)) => {
                    return Poll::Ready(usize::try_from(allowance).unwrap_or(usize::MAX));
                }
                (None, Err(delay)) => delay,
            };
            self.sleep = Some(Box::pin(sleep(delay)));
        }
    }

    /// Takes note of bytes that went.
    pub fn moved(&mut self, bytes: u64, now: Instant) {
        let before = self.moved.saturating_sub(self.after);
        self.moved = self.moved.saturating_add(bytes);
        let limited = self.moved.saturating_sub(self.after) - before;
        let pause = Duration::from_millis(limited.saturating_mul(1000) / self.rate);
        self.paused_until = now.checked_add(pause).filter(|_| !pause.is_zero());
    }

    /// How many bytes may move now, at least one; or how long to wait for the first.
    fn allowance(&self, now: Instant) -> Result<u64, Duration> {
        let seconds = now.saturating_duration_since(self.started).as_secs() + 1;
        let allowed = self.rate.saturating_mul(seconds).saturating_add(self.after);
        match allowed.checked_sub(self.moved) {
            Some(0) => Err(Duration::from_millis(1)),
            Some(allowance) => Ok(allowance),
            None => {
                let over = self.moved - allowed;
                Err(Duration::from_millis((over.saturating_mul(1000) / self.rate).saturating_add(1)))
            }
        }
    }
}

/// A piece of fewer bytes than this is small.
const SMALL: usize = 4 * 1024;

/// Small pieces are in a row where each comes within this time of the one before.
const RECENT: Duration = Duration::from_millis(4);

/// How many small pieces in a row are read as they come.
const ROW: u8 = 8;

/// How long pieces are collected after that.
const PAUSE: Duration = Duration::from_millis(1);

/// Collects content that comes in many small pieces within a short time. Without it each piece would be a frame or a segment
/// for the client, and some clients end a connection with too many small frames.
#[derive(Debug, Default)]
pub struct Trickle {
    /// How many small pieces came in a row.
    row: u8,
    /// When the last small piece came.
    last: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Trickle {
    /// Ready when the next piece may be read.
    pub fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
        Poll::Ready(())
    }

    /// Takes note of a piece of so many bytes. A pause follows a long row of small pieces.
    pub fn moved(&mut self, bytes: usize) {
        if bytes >= SMALL {
            self.row = 0;
        } else if self.has_row(Instant::now()) {
            self.sleep = Some(Box::pin(sleep(PAUSE)));
        }
    }

    /// Takes note of a small piece. Tells whether the row is long.
    fn has_row(&mut self, now: Instant) -> bool {
        let is_recent = self.last.is_some_and(|last| now.saturating_duration_since(last) <= RECENT);
        self.row = if is_recent { self.row.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.row > ROW
    }
}

#[cfg(test)]
mod tests {
    use super::{RECENT, ROW, Throttle, Trickle};
    use std::time::{Duration, Instant};

    const MS: Duration = Duration::from_millis(1);

    fn throttle(rate: u64, after: u64) -> Throttle {
        Throttle { rate, after, started: Instant::now(), moved: 0, paused_until: None, sleep: None }
    }

    #[test]
    fn a_second_s_bytes_at_once_and_a_second_for_them() {
        let mut throttle = throttle(1000, 0);
        let start = throttle.started;
        assert_eq!(throttle.allowance(start), Ok(1000));
        throttle.moved(1000, start);
        assert_eq!(throttle.paused_until, Some(start + 1000 * MS));
        assert_eq!(throttle.allowance(start + 999 * MS), Err(MS));
        assert_eq!(throttle.allowance(start + 1000 * MS), Ok(1000));
        throttle.moved(500, start + 1000 * MS);
        assert_eq!(throttle.paused_until, Some(start + 1500 * MS));
        assert_eq!(throttle.allowance(start + 1500 * MS), Ok(500));
        throttle.moved(0, start + 1500 * MS);
        assert_eq!(throttle.paused_until, None);
    }

    #[test]
    fn what_goes_before_is_not_paused_for() {
        let mut throttle = throttle(1000, 5000);
        let start = throttle.started;
        assert_eq!(throttle.allowance(start), Ok(6000));
        throttle.moved(4000, start);
        assert_eq!(throttle.paused_until, None);
        throttle.moved(1500, start);
        assert_eq!(throttle.paused_until, Some(start + 500 * MS));
        throttle.moved(2500, start);
        assert_eq!(throttle.allowance(start), Err(2001 * MS), "more than was allowed went");
    }

    #[test]
    fn the_largest_numbers_are_no_limit() {
        let mut throttle = throttle(u64::MAX, u64::MAX);
        assert_eq!(throttle.allowance(throttle.started), Ok(u64::MAX));
        throttle.moved(u64::MAX, throttle.started);
        assert_eq!(throttle.paused_until, None);
    }

    #[test]
    fn only_a_long_row_of_small_pieces_is_collected() {
        let (mut trickle, mut now) = (Trickle::default(), Instant::now());
        let mut pieces = |count: u8, gap: Duration| {
            let rows: Vec<bool> = (0..count)
                .map(|_| {
                    now += gap;
                    trickle.has_row(now)
                })
                .collect();
            rows.iter().filter(|has_row| **has_row).count()
        };
        assert_eq!(pieces(ROW, MS), 0);
        assert_eq!(pieces(100, MS), 100);
        assert_eq!(pieces(100, RECENT + MS), 0, "each piece comes long after the one before");
        assert_eq!(pieces(ROW, MS), 1);
        trickle.moved(1 << 20);
        assert_eq!(trickle.row, 0, "a large piece ends the row");
        assert!(trickle.sleep.is_none());
    }
}

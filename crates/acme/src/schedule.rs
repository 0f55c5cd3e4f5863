//! When certificates are renewed, and when a failed attempt is repeated. Times are in seconds since 1970.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A certificate of a shorter life is renewed after half of it, and others after two thirds.
const SHORT_LIFE: i64 = 10 * DAY;

/// How long to wait after so many failures in a row. Let's Encrypt allows five failures an hour.
const PAUSES: [i64; 7] = [MINUTE, 5 * MINUTE, 20 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];

/// The longest pause.
const PAUSE_MAX: i64 = DAY;

/// How many orders of one issuer may begin in an hour. Let's Encrypt allows 300 in three hours.
const ORDERS_PER_HOUR: usize = 90;

/// When a certificate that is valid between two times is renewed. `number` is any number that differs between certificates: it
/// moves the time up to a twentieth of the life forward, so that certificates of the same age are not all renewed at once.
pub(crate) fn renewal((begin, end): (i64, i64), number: u64) -> i64 {
    let life = end.saturating_sub(begin).max(0);
    let share = if life < SHORT_LIFE { life / 2 } else { life / 3 * 2 };
    let spread = i64::try_from(number % 1000).unwrap_or(0) * (life / 20) / 1000;
    begin.saturating_add(share).saturating_sub(spread)
}

/// When the next attempt is made after `failures` failures in a row, at least one. By `number`, as in [`renewal`], the pause is
/// up to a quarter longer, so that many certificates do not fail together again.
pub(crate) fn retry(now: i64, failures: u32, number: u64) -> i64 {
    let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let pause = PAUSES.get(index).copied().unwrap_or(PAUSE_MAX);
    let more = i64::try_from(number % 1000).unwrap_or(0) * pause / 4000;
    now.saturating_add(pause + more)
}

/// Keeps the orders of one issuer below [`ORDERS_PER_HOUR`].
#[derive(Debug, Default)]
pub(crate) struct Limit {
    begun: Vec<i64>,
    /// No order begins between these two times, because the authority said so.
    held: (i64, i64),
}

impl Limit {
    /// When the next order may begin: `now` if it may begin at once.
    pub(crate) fn next(&self, now: i64) -> i64 {
        if (self.held.0..self.held.1).contains(&now) {
            return self.held.1;
        }
        let recent = self.begun.iter().filter(|&&at| at > now - HOUR && at <= now);
        match recent.clone().count() {
            0..ORDERS_PER_HOUR => now,
            _ => recent.min().map_or(now, |first| first + HOUR),
        }
    }

    /// Delays all orders until a time, but for an hour at most: the authority does not say whether its limit is for the account or
    /// for one name, and other names should not wait for days.
    pub(crate) fn hold(&mut self, now: i64, until: i64) {
        self.held = (now, until.min(now.saturating_add(HOUR)));
    }

    /// Takes note of an order.
    pub(crate) fn count(&mut self, now: i64) {
        // Times in the future were written while the clock was wrong.
        self.begun.retain(|&at| at > now - HOUR && at <= now);
        self.begun.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_leaves_time_for_failures() {
        let of = |days: i64, number| renewal((0, days * DAY), number);
        assert_eq!(of(90, 0), 60 * DAY);
        assert!((of(90, 999) - 60 * DAY).abs() < 5 * DAY && of(90, 999) < of(90, 0));
        assert_eq!(of(6, 0), 3 * DAY);
        assert_eq!(renewal((10, 0), 7), 10, "a life that ends before it begins");
    }

    #[test]
    fn pauses_grow_to_a_day() {
        let pauses: Vec<i64> = (1..=9).map(|failures| retry(0, failures, 0) / MINUTE).collect();
        assert_eq!(pauses, [1, 5, 20, 60, 180, 360, 720, 1440, 1440]);
        assert_eq!(retry(0, 1, 999), MINUTE + 14);
        let in_the_first_hour = (1..=9).scan(0, |at, failures| {
            *at = retry(*at, failures, 0);
            Some(*at)
        });
        assert!(in_the_first_hour.filter(|at| *at < HOUR).count() < 5, "an authority's limit");
    }

    #[test]
    fn orders_of_an_hour_are_limited() {
        let mut limit = Limit::default();
        for at in 0..ORDERS_PER_HOUR as i64 {
            assert_eq!(limit.next(at), at);
            limit.count(at);
        }
        assert_eq!(limit.next(100), HOUR);
        assert_eq!(limit.next(HOUR), HOUR);
        limit.count(HOUR);
        assert_eq!(limit.next(HOUR), HOUR + 1);
        assert_eq!(limit.next(-HOUR), -HOUR, "the clock went back");
    }

    #[test]
    fn authority_that_wants_a_pause_gets_one() {
        let mut limit = Limit::default();
        limit.hold(1000, 1000 + 5 * MINUTE);
        assert_eq!([limit.next(1001), limit.next(1000 + 5 * MINUTE)], [1000 + 5 * MINUTE; 2]);
        limit.hold(1000, 1000 + 7 * DAY);
        assert_eq!(limit.next(1001), 1000 + HOUR, "the limit of one name is not that of all");
        assert_eq!(limit.next(1000 - DAY), 1000 - DAY, "the clock went back");
    }
}

//! Who sends the next request, and when it is due.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::plan::Plan;

/// No limit, or not known yet.
const NONE: u64 = u64::MAX;

/// What the threads of a process share.
pub(super) struct Shared {
    left: AtomicU64,
    length: AtomicU64,
    /// Ends all threads soon.
    pub(super) stop: AtomicBool,
    /// Threads whose clients are all connected and idle.
    pub(super) holding: AtomicU32,
    /// The connections of those.
    pub(super) held: AtomicU64,
}

impl Shared {
    /// At the beginning of a plan.
    pub(super) fn new(plan: &Plan) -> Shared {
        let requests = if plan.idle { Some(u64::from(plan.clients)) } else { plan.requests };
        Shared {
            left: AtomicU64::new(requests.unwrap_or(NONE)),
            length: AtomicU64::new(plan.length.unwrap_or(NONE)),
            stop: AtomicBool::new(false),
            holding: AtomicU32::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// The length that content has to have: the one given here, unless there is one already.
    pub(super) fn expect(&self, length: u64) -> u64 {
        match self.length.compare_exchange(NONE, length, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => length,
            Err(known) => known,
        }
    }

    /// That length, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Relaxed)).filter(|length| *length != NONE)
    }

    /// Requests that are counted, and that nobody took.
    pub(super) fn untaken(&self) -> u64 {
        Some(self.left()).filter(|left| *left != NONE).unwrap_or_default()
    }

    fn take(&self) -> bool {
        let less = |left: u64| if left == NONE { Some(left) } else { left.checked_sub(1) };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

/// The requests of one thread.
pub(super) struct Claims<'a> {
    shared: &'a Shared,
    is_counted: bool,
    schedule: Option<Schedule>,
    end_ns: u64,
}

/// Requests at a constant rate. When one is due depends on nothing that the server does.
struct Schedule {
    interval_s: f64,
    offset_s: f64,
    claimed: u64,
}

impl<'a> Claims<'a> {
    /// Those of a thread's part of a plan.
    pub(super) fn new(plan: &Plan, shared: &'a Shared) -> Claims<'a> {
        let schedule = plan.rate.map(|rate| Schedule {
            interval_s: 1.0 / rate,
            offset_s: plan.offset / rate,
            claimed: 0,
        });
        let end_ns = if plan.idle { NONE } else { plan.seconds.map_or(NONE, ns) };
        Claims { shared, is_counted: shared.left() != NONE, schedule, end_ns }
    }

    /// When the next request is due if one may be sent now.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns().unwrap_or(now_ns);
        let is_free = due_ns <= now_ns && now_ns < self.end_ns && (!self.is_counted || self.shared.take());
        if let (true, Some(schedule)) = (is_free, &mut self.schedule) {
            schedule.claimed += 1;
        }
        is_free.then_some(due_ns)
    }

    /// When the next request is due, where that is settled.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.schedule.as_ref().map(|schedule| schedule.at_ns(schedule.claimed))
    }

    /// When no more are sent, `u64::MAX` for never.
    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Whether all requests are taken.
    pub(super) fn are_taken(&self) -> bool {
        self.is_counted && self.shared.left() == 0
    }

    /// Requests that were due by now and that nobody took, where they are not counted for all threads together.
    pub(super) fn overdue(&self, now_ns: u64) -> u64 {
        let Some(schedule) = self.schedule.as_ref().filter(|_| !self.is_counted) else { return 0 };
        let now_ns = now_ns.min(self.end_ns.saturating_sub(1));
        let is_due = |request: &u64| schedule.at_ns(*request) <= now_ns;
        (schedule.claimed..).take_while(is_due).count() as u64
    }
}

impl Schedule {
    fn at_ns(&self, request: u64) -> u64 {
        ns(self.offset_s + self.interval_s * request as f64)
    }
}

/// Seconds in nanoseconds.
pub(super) fn ns(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds).map_or(NONE, |time| u64::try_from(time.as_nanos()).unwrap_or(NONE))
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn a_rate_is_kept_whatever_happens() {
        let plan = Plan { rate: Some(1000.0), offset: 0.5, requests: None, seconds: Some(0.1), ..plan() };
        let shared = Shared::new(&plan);
        let mut claims = Claims::new(&plan, &shared);
        assert_eq!(claims.next(499_999), None);
        assert_eq!(claims.next(500_000), Some(500_000));
        assert_eq!(claims.next(600_000), None);
        assert_eq!(claims.due_ns(), Some(1_500_000));
        assert_eq!((shared.untaken(), claims.are_taken()), (0, false));
        let late: Vec<Option<u64>> = (0..4).map(|_| claims.next(3_600_000)).collect();
        assert_eq!(late, [Some(1_500_000), Some(2_500_000), Some(3_500_000), None]);
        assert_eq!(claims.next(100_000_000), None);
        assert_eq!(claims.overdue(3_600_000), 0);
        assert_eq!(claims.overdue(u64::MAX), 96);
    }

    #[test]
    fn counted_requests_are_taken_once() {
        let plan = Plan { requests: Some(3), ..plan() };
        let shared = Shared::new(&plan);
        let (mut one, mut other) = (Claims::new(&plan, &shared), Claims::new(&plan, &shared));
        assert_eq!((one.next(7), other.next(8)), (Some(7), Some(8)));
        assert!(!one.are_taken());
        assert_eq!((shared.untaken(), one.next(9)), (1, Some(9)));
        assert!(one.are_taken());
        assert_eq!((one.next(10), other.next(10)), (None, None));
    }

    #[test]
    fn the_first_length_is_expected() {
        let shared = Shared::new(&plan());
        assert_eq!((shared.length(), shared.expect(5), shared.expect(6)), (None, 5, 5));
        assert_eq!(Shared::new(&Plan { length: Some(9), ..plan() }).expect(5), 9);
    }
}

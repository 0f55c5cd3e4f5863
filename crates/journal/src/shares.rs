//! Which sites used this thread's processor time lately, and which clients made their rules expensive.
//!
//! A tenant's rules, pages and listings may cost more than others should wait for. Such work stops after a slice
//! ([`SLICE_NS`]) and asks for another turn ([`yield_turn`]). The thread then serves all other connections first, and goes on
//! with the site that used least, and of its requests with the one that used least. A site that used more than its share lately begins its requests at the end of a turn, too.
//! What a site with several shares uses is divided by their number. Nothing is refused for that: the use of a site only
//! decides the order.
//!
//! A client whose request used up its whole budget gets no more than a slice from the same rules for a while. What costs
//! less than a slice goes on, so that no client can switch off pages for others at the same address.

use crate::clock::Time;
use http::hash::KeyedMap;
use std::cell::{Cell, RefCell};

/// How much processor time expensive work uses before it lets others go first, in nanoseconds.
pub const SLICE_NS: u64 = 500_000;

/// The time over which the use of a site is counted, in milliseconds.
const WINDOW_MS: u64 = 100;

/// What a site may use in a window before its requests begin at the end of a turn, in nanoseconds.
const SHARE_NS: u64 = 10_000_000;

/// How long a client gets no more than a slice, in milliseconds.
const PENALTY_MS: u64 = 10_000;

/// How many penalties a thread remembers. When there are more, it forgets those that ended, or else all.
const PENALTIES_MAX: usize = 4096;

/// A site, by its root directory; none has the number 0.
pub type Account = u64;

/// The place of a request that yields: after those of sites that used less, and of its site after those that used less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The site.
    pub account: Account,
    /// What the request itself used, in nanoseconds.
    pub used_ns: u64,
}

/// A client's address and the rules that its request met.
pub type Offence = (u64, u64);

#[derive(Default)]
struct Shares {
    /// The window that is counted now, in numbers of windows since the process started.
    window: u64,
    /// What sites used in this window and in the one before, in nanoseconds.
    used: [KeyedMap<Account, u64>; 2],
    /// Until when a client gets no more than a slice, in milliseconds of uptime.
    penalties: KeyedMap<Offence, u64>,
}

thread_local! {
    static SHARES: RefCell<Shares> = RefCell::default();
    /// Whether a site used more than its share since the windows were last empty.
    static IS_STRAINED: Cell<bool> = const { Cell::new(false) };
    /// The number of the turn: one poll of a request.
    static TURN: Cell<u64> = const { Cell::new(0) };
    /// The place of the connection that is polled now, if it yields.
    static YIELDS: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Charges a site for processor time.
pub fn charge(account: Account, ns: u64) {
    let used = with(|shares| {
        let used = shares.used[0].entry(account).or_default();
        *used = used.saturating_add(ns);
        shares.of(account)
    });
    if used > SHARE_NS {
        IS_STRAINED.set(true);
    }
}

/// What a site used lately, in nanoseconds.
pub fn used(account: Account) -> u64 {
    with(|shares| shares.of(account))
}

/// Whether any site of this thread used more than its share lately. Most often none did, which costs one look.
#[inline]
pub fn is_strained() -> bool {
    IS_STRAINED.get()
}

/// Whether a site used more than its share lately.
pub fn is_over(account: Account) -> bool {
    used(account) > SHARE_NS
}

/// Notes that a client's request used up its budget with these rules.
pub fn penalise(offence: Offence) {
    let now = Time::now().uptime_ms;
    with(|shares| {
        if shares.penalties.len() >= PENALTIES_MAX {
            shares.penalties.retain(|_, until| *until > now);
        }
        if shares.penalties.len() >= PENALTIES_MAX {
            shares.penalties.clear();
        }
        shares.penalties.insert(offence, now.saturating_add(PENALTY_MS));
    });
}

/// For how many more seconds a client gets no more than a slice from these rules.
pub fn penalty(offence: Offence) -> Option<u64> {
    let now = Time::now().uptime_ms;
    let until = with(|shares| shares.penalties.get(&offence).copied())?;
    (until > now).then(|| (until - now).div_ceil(1000))
}

/// Begins a turn of a request.
#[inline]
pub fn begin_turn() {
    TURN.set(TURN.get().wrapping_add(1));
}

/// The number of the turn.
pub fn turn() -> u64 {
    TURN.get()
}

/// Lets other connections go before the one that is polled now, and gives it this place.
pub fn yield_turn(place: Place) {
    YIELDS.set(Some(place));
}

/// Whether the connection that is polled now yields.
#[inline]
pub fn yields() -> bool {
    YIELDS.get().is_some()
}

/// Takes the place of the connection that was polled, if it yields.
#[inline]
pub fn take_yield() -> Option<Place> {
    YIELDS.take()
}

fn with<T>(use_shares: impl FnOnce(&mut Shares) -> T) -> T {
    SHARES.with_borrow_mut(|shares| {
        shares.go_to(Time::now().uptime_ms / WINDOW_MS);
        use_shares(shares)
    })
}

impl Shares {
    fn go_to(&mut self, window: u64) {
        if self.window == window {
            return;
        }
        let is_next = self.window + 1 == window;
        self.window = window;
        self.used.swap(0, 1);
        self.used[0].clear();
        if !is_next {
            self.used[1].clear();
        }
        if self.used[1].is_empty() {
            IS_STRAINED.set(false);
        }
    }

    /// What a site used in both windows.
    fn of(&self, account: Account) -> u64 {
        let [now, before] = &self.used;
        let in_window = |used: &KeyedMap<Account, u64>| used.get(&account).copied().unwrap_or(0);
        in_window(now).saturating_add(in_window(before))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        IS_STRAINED, Offence, PENALTIES_MAX, SHARE_NS, Shares, charge, is_over, is_strained, penalise,
        penalty, used,
    };

    #[test]
    fn a_site_over_its_share_is_known() {
        charge(1, SHARE_NS);
        assert!(!is_strained() && !is_over(1));
        charge(2, 1);
        charge(1, 1);
        assert!(is_strained() && is_over(1) && !is_over(2));
        assert_eq!((used(1), used(2), used(3)), (SHARE_NS + 1, 1, 0));
    }

    #[test]
    fn what_was_used_is_forgotten_after_two_windows() {
        let mut shares = Shares::default();
        shares.go_to(7);
        shares.used[0].insert(1, 5);
        shares.go_to(8);
        assert_eq!(shares.of(1), 5);
        shares.used[0].insert(1, 2);
        assert_eq!(shares.of(1), 7);
        IS_STRAINED.set(true);
        shares.go_to(9);
        assert!(shares.of(1) == 2 && is_strained());
        shares.go_to(11);
        assert!(shares.of(1) == 0 && !is_strained());
    }

    #[test]
    fn penalties_are_for_one_client_and_its_rules_and_are_bounded() {
        penalise((1, 1));
        assert!(penalty((1, 1)).is_some_and(|seconds| (9..=10).contains(&seconds)));
        assert!(penalty((1, 2)).is_none() && penalty((2, 1)).is_none());
        let offence = |number: usize| -> Offence { (number as u64, 0) };
        (0..PENALTIES_MAX).for_each(|number| penalise(offence(number)));
        assert!(penalty((1, 1)).is_none(), "all were forgotten");
        assert!(penalty(offence(PENALTIES_MAX - 1)).is_some());
    }
}

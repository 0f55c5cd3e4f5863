//! The states of a zone: how far each key is ahead of its rate, in thousandths of a request.

use crate::shared::bounded::Bounded;
use crate::shared::zones::{Named, Shards, ZoneSpec};
use contract::{Origin, Template};
use std::sync::Arc;

/// A zone of `limit_req_zone`.
pub(super) struct Zone {
    pub(super) spec: ZoneSpec,
    pub(super) key: Template,
    key_text: String,
    /// Thousandths of a request a second.
    rate: i64,
    /// They outlive a configuration where the next one has the same zone.
    states: Arc<Shards<Bounded<State>>>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Thousandths of a request over the rate at `last`.
    excess: i64,
    /// In milliseconds; none until a request was counted.
    last: Option<u64>,
}

/// What a zone says about a request, with the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within(i64),
    Over(i64),
    /// There is no room for the key's state.
    Full,
}

/// What nginx spends on a state besides its key, in bytes.
const STATE_ACCOUNT: usize = 80;

/// A state that was unused for this time, in milliseconds, is dropped if it has no excess left.
const IDLE: u64 = 60_000;

impl Named for Zone {
    fn name(&self) -> &[u8] {
        &self.spec.name
    }

    fn key(&self) -> &str {
        &self.key_text
    }
}

impl Zone {
    pub(super) fn new(
        spec: ZoneSpec,
        (key, key_text): (Template, String),
        rate: i64,
        origin: &Origin,
    ) -> Zone {
        let make = || Shards::new(&spec, |capacity| Bounded::new(capacity, STATE_ACCOUNT));
        let states = origin.keep(spec.identity(&key_text), make);
        Zone { spec, key, key_text, rate, states }
    }

    /// Judges a request; counts it if `counts`, and if it is within the burst. Times are in milliseconds since any moment
    /// that is the same for all requests.
    pub(super) fn check(&self, key: &[u8], burst: i64, counts: bool, now: u64) -> Verdict {
        let mut states = self.states.of(key);
        if let Some(state) = states.get(key) {
            let excess = state.next(self.rate, now);
            if excess > burst {
                return Verdict::Over(excess);
            }
            if counts {
                state.count(excess, now);
            }
            return Verdict::Within(excess);
        }
        self.expire(&mut states, now);
        if !states.has_room(key) {
            states.drop_oldest();
            self.expire(&mut states, now);
            if !states.has_room(key) {
                return Verdict::Full;
            }
        }
        states.insert(key, State { excess: 0, last: counts.then_some(now) });
        Verdict::Within(0)
    }

    /// Counts a request that was judged before, and gives the excess.
    pub(super) fn count(&self, key: &[u8], now: u64) -> i64 {
        let mut states = self.states.of(key);
        // Another request may have taken the state's room meanwhile.
        let Some(state) = states.get(key) else { return 0 };
        let excess = state.next(self.rate, now);
        state.count(excess, now);
        excess
    }

    /// How long an excess takes to pass, in milliseconds.
    pub(super) fn delay(&self, excess: i64) -> u64 {
        u64::try_from(excess.saturating_mul(1000) / self.rate.max(1)).unwrap_or(0)
    }

    /// Drops one or two states that mean nothing any more.
    fn expire(&self, states: &mut Bounded<State>, now: u64) {
        for _ in 0..2 {
            let is_spent = states.oldest().is_some_and(|state| {
                let idle = state.last.map_or(u64::MAX, |last| now.abs_diff(last));
                idle >= IDLE && state.excess <= passed(self.rate, idle)
            });
            if !is_spent {
                return;
            }
            states.drop_oldest();
        }
    }
}

impl State {
    /// The excess with one more request.
    fn next(&self, rate: i64, now: u64) -> i64 {
        // Threads read the clock one after the other, so that the last time may be ahead a little.
        let Some(last) = self.last else { return 0 };
        (self.excess - passed(rate, now.saturating_sub(last)) + 1000).max(0)
    }

    fn count(&mut self, excess: i64, now: u64) {
        self.excess = excess;
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }
}

/// What a rate makes up for in so many milliseconds, in thousandths of a request.
fn passed(rate: i64, milliseconds: u64) -> i64 {
    rate.saturating_mul(i64::try_from(milliseconds).unwrap_or(i64::MAX)) / 1000
}

#[cfg(test)]
mod tests {
    use super::{Verdict, Zone};
    use crate::shared::zones::ZoneSpec;
    use contract::{Args, Template};
    use proptest::prelude::*;

    fn zone(size: &str, rate: i64) -> Zone {
        let text = format!("z:{size}");
        let node = conf::parse_bytes(format!("z {text};").as_bytes()).nodes.remove(0);
        let args = Args { node: &node, context: conf::Contexts::HTTP, opened: None };
        let spec = ZoneSpec::parse(&args, &node.args[0], text.as_bytes()).unwrap();
        Zone::new(spec, (Template::literal(b"k"), "k".into()), rate, &inputs::origin())
    }

    #[test]
    fn an_excess_grows_by_requests_and_shrinks_by_time() {
        let zone = zone("1m", 2000);
        let verdicts = [0, 0, 0, 100, 600, 600, 5000].map(|now| zone.check(b"k", 1000, true, now));
        use Verdict::{Over, Within};
        let expected = [Within(0), Within(1000), Over(2000), Over(1800), Within(800), Over(1800), Within(0)];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn what_is_not_counted_leaves_no_trace() {
        let zone = zone("1m", 1000);
        assert_eq!(zone.check(b"k", 0, false, 0), Verdict::Within(0));
        assert_eq!(zone.check(b"k", 0, false, 0), Verdict::Within(0));
        assert_eq!(zone.count(b"k", 0), 0);
        assert_eq!(zone.check(b"k", 0, false, 0), Verdict::Over(1000));
        assert_eq!(zone.count(b"k", 500), 500);
        assert_eq!(zone.count(b"other", 0), 0);
    }

    #[test]
    fn a_full_zone_forgets_the_oldest() {
        let zone = zone("32k", 1);
        let key = |n: u32| n.to_be_bytes();
        for n in 0..1000 {
            assert_eq!(zone.check(&key(n), 0, true, 0), Verdict::Within(0));
        }
        assert_eq!(zone.check(&key(999), 0, true, 0), Verdict::Over(1000));
        assert_eq!(zone.check(&key(0), 0, true, 0), Verdict::Within(0), "forgotten");
        assert_eq!(zone.check(&[0; 60_000], 0, true, 0), Verdict::Full);
    }

    #[test]
    fn states_without_excess_go() {
        let zone = zone("32k", 1000);
        zone.check(b"a", 0, true, 0);
        zone.check(b"b", 0, true, 59_999);
        let has = |key: &[u8]| zone.states.of(key).get(key).is_some();
        assert!(has(b"a") && has(b"b"), "a was idle for less than a minute");
        zone.check(b"c", 0, true, 60_000);
        assert!(!has(b"a") && has(b"b") && has(b"c"));
    }

    proptest! {
        /// However requests are spread, no more pass than the burst, one, and what the rate allows.
        #[test]
        fn no_more_pass_than_the_rate_allows(
            rate in 1i64..100_000,
            burst in 0i64..20,
            pauses in proptest::collection::vec(0u64..2000, 1..100),
        ) {
            let zone = zone("1m", rate);
            let mut now = 0;
            let mut passed = 0i64;
            for pause in pauses {
                now += pause;
                if let Verdict::Within(excess) = zone.check(b"k", burst * 1000, true, now) {
                    passed += 1;
                    prop_assert!((0..=burst * 1000).contains(&excess));
                }
                let elapsed = i64::try_from(now).unwrap();
                prop_assert!((passed - burst - 1) * 1000 <= rate * elapsed / 1000 + 1);
            }
        }
    }
}

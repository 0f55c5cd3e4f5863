//! How long a run takes, before it begins, and to which part its blocks are shortened where it is to keep to a time.

use std::iter::Sum;

use super::series::Series;
use crate::model::experiment::{ANSWERS_ENOUGH, Kind};
use crate::model::order::{Amount, ToolName};

/// To start a contender, and to see that it answers.
const START_S: f64 = 0.5;

/// To start the services of an application, and to fill its database.
const SET_UP_S: f64 = 15.0;

/// Next to the tool's time: to start it, and to look at the contender before and afterwards.
const BLOCK_S: f64 = 0.17;

/// To look at idle connections, once they are open.
const LOOK_S: f64 = 1.0;

/// Guesses: connections that are opened in a second, requests that are answered, and bytes that are sent.
const CONNECTED_PER_S: f64 = 5000.0;
const ANSWERED_PER_S: f64 = 12_000.0;
const ANSWERED_KEPT_PER_S: f64 = 15_000.0;
const ANSWERED_BY_PHP_PER_S: f64 = 800.0;
const SENT_BYTES_PER_S: f64 = 1e9;

/// Blocks are not shortened to less than this part, nor to less than this time, nor to so few requests that no finding
/// could be answered.
const SHARE_MIN: f64 = 0.4;
const SECONDS_MIN: f64 = 0.5;
const REQUESTS_MIN: u32 = ANSWERS_ENOUGH;

/// Requests are counted out in such parts.
const PARTS: u64 = 100;

/// What a part of a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Takes {
    /// However short its blocks are.
    pub(super) fixed_s: f64,
    /// In blocks that can be shortened, before they are.
    pub(super) load_s: f64,
}

impl Takes {
    /// All of it, with blocks shortened to this part.
    pub(super) fn seconds(self, share: f64) -> f64 {
        self.fixed_s + self.load_s * share
    }
}

impl Sum for Takes {
    fn sum<I: Iterator<Item = Takes>>(parts: I) -> Takes {
        parts.fold(Takes::default(), |sum, part| Takes {
            fixed_s: sum.fixed_s + part.fixed_s,
            load_s: sum.load_s + part.load_s,
        })
    }
}

/// To which part blocks are shortened so that what is still to come fits into the time that is left.
pub(super) fn share(left_s: f64, to_come: Takes) -> f64 {
    if to_come.load_s <= 0.0 {
        return 1.0;
    }
    ((left_s - to_come.fixed_s) / to_come.load_s).clamp(SHARE_MIN, 1.0)
}

/// An amount for so many clients, shortened.
pub(super) fn shortened(amount: Amount, share: f64, clients: u32) -> Amount {
    match amount {
        Amount::Seconds(seconds) => Amount::Seconds((seconds * share).max(SECONDS_MIN.min(seconds))),
        Amount::Requests(requests) => {
            let least = requests.min(u64::from(REQUESTS_MIN) * u64::from(clients));
            let parts = (1..=PARTS).filter(|part| *part as f64 <= share * PARTS as f64).count() as u64;
            Amount::Requests((requests * parts / PARTS).max(least))
        }
    }
}

impl Series<'_, '_> {
    /// What it takes, with the contenders that are here.
    pub(super) fn takes(&self) -> Takes {
        let contenders = self.labels().iter().filter(|label| self.found(label).is_ok()).count() as f64;
        let turns = f64::from(self.count_of_turns());
        if self.cores > self.machine.cores || turns == 0.0 {
            return Takes::default();
        }
        let warm_up_s = self.load.warm_up.map_or(0.0, |requests| requests as f64 * self.answer_s());
        let set_up_s = self.load.application.as_ref().filter(|_| contenders > 0.0).map_or(0.0, |_| SET_UP_S);
        let mut takes = Takes { fixed_s: set_up_s + contenders * (START_S + warm_up_s), load_s: 0.0 };
        for clients in self.counts() {
            let connecting = f64::from(clients) / CONNECTED_PER_S;
            if self.load.kind == Kind::Idle {
                takes.fixed_s += contenders * (connecting + LOOK_S);
                continue;
            }
            let (fixed_s, load_s) = self.seconds();
            takes.fixed_s += contenders * turns * (connecting + BLOCK_S + fixed_s);
            takes.load_s += contenders * turns * load_s;
        }
        takes
    }

    /// What a block takes, as far as it cannot be shortened, and as far as it can.
    fn seconds(&self) -> (f64, f64) {
        let Some(amount) = self.load.amount(self.settings.quick) else { return (0.0, 0.0) };
        let most = self.counts().into_iter().max().unwrap_or(1);
        let is_shorter = shortened(amount, SHARE_MIN, most) != amount;
        let seconds = match amount {
            // wrk counts whole seconds.
            Amount::Seconds(seconds) if self.load.tool == ToolName::Wrk && seconds <= 1.0 => {
                return (1.0, 0.0);
            }
            Amount::Seconds(seconds) => seconds,
            Amount::Requests(requests) => requests as f64 * self.answer_s(),
        };
        if is_shorter && self.load.is_smaller_when_quick() { (0.0, seconds) } else { (seconds, 0.0) }
    }

    /// What an answer takes, by a guess.
    fn answer_s(&self) -> f64 {
        if self.load.application.is_some() {
            return 1.0 / ANSWERED_BY_PHP_PER_S;
        }
        let length = self.file(&self.load.path).map_or(0, |file| file.length);
        let answered_per_s = if self.load.keep_alive { ANSWERED_KEPT_PER_S } else { ANSWERED_PER_S };
        1.0 / answered_per_s + length as f64 / SENT_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_come_fits_into_the_time() {
        let takes = Takes { fixed_s: 20.0, load_s: 100.0 };
        assert_eq!(share(70.0, takes), 0.5);
        assert_eq!((share(1000.0, takes), share(0.0, takes)), (1.0, SHARE_MIN), "at least that");
        assert_eq!(share(0.0, Takes { fixed_s: 5.0, load_s: 0.0 }), 1.0);
        assert_eq!([takes, takes].into_iter().sum::<Takes>().seconds(0.5), 140.0);
    }

    #[test]
    fn blocks_are_not_shortened_to_nothing() {
        assert_eq!(shortened(Amount::Seconds(2.0), 0.5, 64), Amount::Seconds(1.0));
        assert_eq!(shortened(Amount::Seconds(1.0), 0.01, 64), Amount::Seconds(SECONDS_MIN));
        assert_eq!(shortened(Amount::Requests(30_000), 0.5, 400), Amount::Requests(15_000));
        assert_eq!(shortened(Amount::Requests(30_000), 0.2, 400), Amount::Requests(8000));
        assert_eq!(shortened(Amount::Requests(100), 0.2, 400), Amount::Requests(100));
    }
}

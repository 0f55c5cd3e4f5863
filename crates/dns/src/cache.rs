//! What was found, for as long as it is valid.

use crate::name::Name;
use crate::query::{Answer, Found, Wanted};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How many answers are kept. Where there are more, the one that expires next is dropped.
const ANSWERS_MAX: usize = 1024;

/// What was found, for as long as it is valid. Errors are not kept.
#[derive(Debug)]
pub struct Cache {
    answers: HashMap<(Name, Wanted), Kept>,
    /// How long answers are valid, in place of what they say themselves.
    valid: Option<Duration>,
}

#[derive(Debug)]
struct Kept {
    answer: Answer,
    until: Instant,
}

impl Cache {
    /// A cache of answers that are valid for this time, or for the time that their records give.
    pub fn new(valid: Option<Duration>) -> Cache {
        Cache { answers: HashMap::new(), valid }
    }

    /// What was found about a name, and until when it is valid.
    pub fn get(&self, name: &Name, wanted: Wanted, now: Instant) -> Option<(Answer, Instant)> {
        let kept = self.answers.get(&(name.clone(), wanted)).filter(|kept| kept.until > now)?;
        Some((kept.answer.clone(), kept.until))
    }

    /// Keeps an answer; returns until when it is valid.
    pub fn put(&mut self, (name, wanted): (Name, Wanted), found: &Found, now: Instant) -> Instant {
        let lasts = self.valid.unwrap_or(Duration::from_secs(u64::from(found.ttl_s)));
        let until = now.checked_add(lasts).unwrap_or(now);
        if until <= now {
            return until;
        }
        let key = (name, wanted);
        if self.answers.len() >= ANSWERS_MAX && !self.answers.contains_key(&key) {
            self.make_room(now);
        }
        self.answers.insert(key, Kept { answer: found.answer.clone(), until });
        until
    }

    fn make_room(&mut self, now: Instant) {
        self.answers.retain(|_, kept| kept.until > now);
        if self.answers.len() < ANSWERS_MAX {
            return;
        }
        let next = self.answers.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| key.clone());
        next.and_then(|key| self.answers.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWERS_MAX, Cache};
    use crate::query::{Answer, Found, Wanted};
    use crate::testing::name;
    use std::time::{Duration, Instant};

    fn found(ttl_s: u32) -> Found {
        Found { answer: Answer::Alias(name("x")), ttl_s }
    }

    #[test]
    fn answers_expire() {
        let (mut cache, now) = (Cache::new(None), Instant::now());
        let key = (name("a"), Wanted::Addresses);
        let second = Duration::from_secs(1);
        assert_eq!(cache.put(key.clone(), &found(2), now), now + 2 * second);
        assert!(cache.get(&key.0, Wanted::Addresses, now + second).is_some());
        assert!(cache.get(&key.0, Wanted::Services, now).is_none());
        assert!(cache.get(&key.0, Wanted::Addresses, now + 2 * second).is_none());
        let mut fixed = Cache::new(Some(5 * second));
        fixed.put(key.clone(), &found(0), now);
        assert!(fixed.get(&key.0, Wanted::Addresses, now + 4 * second).is_some());
        let other = name("b");
        cache.put((other.clone(), Wanted::Addresses), &found(0), now);
        assert!(cache.get(&other, Wanted::Addresses, now).is_none());
    }

    #[test]
    fn the_number_of_answers_is_bounded() {
        let (mut cache, now) = (Cache::new(None), Instant::now());
        let of = |index: usize| (name(&format!("n{index}")), Wanted::Addresses);
        for index in 0..2 * ANSWERS_MAX {
            cache.put(of(index), &found(u32::try_from(index + 1).unwrap()), now);
        }
        assert_eq!(cache.answers.len(), ANSWERS_MAX);
        assert!(cache.get(&of(0).0, Wanted::Addresses, now).is_none());
        assert!(cache.get(&of(2 * ANSWERS_MAX - 1).0, Wanted::Addresses, now).is_some());
    }
}

//! What was removed while responses were on their way: what was asked for before is not kept after that.

use crate::head::Head;
use crate::key::Key;
use crate::selection::Selection;
use std::collections::{HashMap, VecDeque};

/// How many keys are known by themselves. With more of them every key counts as removed at the last of these times.
const KEYS_MAX: usize = 4096;

/// How many removals of a selection are known. With more of them all keys count as removed at the oldest one.
const SELECTIONS_MAX: usize = 64;

/// What was removed, and when.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// How many removals there were.
    count: u64,
    /// The last removal of a key, by its number and in seconds since 1970.
    keys: HashMap<Key, (u64, i64)>,
    /// The last removals of a selection, the oldest first.
    selections: VecDeque<(u64, Selection)>,
    /// The last removal that counts for all keys.
    all: u64,
    /// What counts as the time of a removal for keys that are not known by themselves; none before the first request.
    before: Option<i64>,
}

impl Removals {
    /// Notes a request. Responses from before the first request count as removed, because earlier removals are unknown.
    pub(crate) fn begin(&mut self, now: i64) {
        self.before.get_or_insert(now.saturating_sub(1));
    }

    /// How many removals there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Notes the removal of a response with all of its variants.
    pub(crate) fn note(&mut self, key: Key, now: i64) {
        self.count += 1;
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            self.keys.clear();
            (self.all, self.before) = (self.count, Some(now));
        }
        self.keys.insert(key, (self.count, now));
    }

    /// Notes the removal of the responses of a selection.
    pub(crate) fn note_selection(&mut self, selection: &Selection) {
        self.count += 1;
        self.selections.push_back((self.count, selection.clone()));
        if self.selections.len() > SELECTIONS_MAX
            && let Some((number, _)) = self.selections.pop_front()
        {
            self.all = self.all.max(number);
        }
    }

    /// Whether a response with this head was removed after so many removals.
    pub(crate) fn has_since(&self, head: &Head, count: u64) -> bool {
        if self.count <= count {
            return false;
        }
        let mut later = self.selections.iter().rev().take_while(|(number, _)| *number > count);
        self.all > count
            || self.keys.get(&Key::of(&head.key)).is_some_and(|&(number, _)| number > count)
            || later.any(|(_, selection)| selection.has(head))
    }

    /// When a response was removed the last time, as far as that is known.
    pub(crate) fn time(&self, key: &Key) -> i64 {
        self.keys.get(key).map_or(self.before.unwrap_or(i64::MAX), |&(_, time)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, Removals, SELECTIONS_MAX};
    use crate::head::Head;
    use crate::key::Key;
    use crate::selection::Selection;
    use http::Fields;

    fn head(key: &str) -> Head {
        Head::plain(key, Fields::new())
    }

    #[test]
    fn removals_are_known_by_number_and_time() {
        let (a, b) = (Key::of(b"a"), Key::of(b"b"));
        let mut removals = Removals::default();
        removals.begin(6);
        removals.begin(8);
        assert_eq!(removals.time(&a), 5);
        removals.note(a, 9);
        let has_since = |removals: &Removals, key: &str, count| removals.has_since(&head(key), count);
        assert_eq!(
            (has_since(&removals, "a", 0), has_since(&removals, "a", 1), has_since(&removals, "b", 0)),
            (true, false, false)
        );
        assert_eq!((removals.time(&a), removals.time(&b)), (9, 5));
        removals.note_selection(&Selection::Prefix(b"b".as_slice().into()));
        assert_eq!(
            (has_since(&removals, "bc", 1), has_since(&removals, "bc", 2), has_since(&removals, "c", 1)),
            (true, false, false)
        );
        removals.note_selection(&Selection::All);
        assert_eq!((has_since(&removals, "c", 2), has_since(&removals, "c", 3)), (true, false));
    }

    #[test]
    fn too_many_removals_count_for_all_keys() {
        let mut removals = Removals::default();
        for number in 0..=KEYS_MAX {
            removals.note(Key::of(&number.to_le_bytes()), 7);
        }
        assert_eq!(removals.keys.len(), 1);
        assert!(removals.has_since(&head("a"), 0));
        assert_eq!(removals.time(&Key::of(b"a")), 7);
        let mut removals = Removals::default();
        for _ in 0..=SELECTIONS_MAX {
            removals.note_selection(&Selection::Key(b"b".as_slice().into()));
        }
        assert_eq!((removals.has_since(&head("a"), 0), removals.has_since(&head("a"), 1)), (true, false));
    }
}

//! Remembers what was removed from a cache lately.
//!
//! A response that was requested from the upstream server before its removal, and arrives after it, must not be kept.

use crate::head::Head;
use crate::key::Key;
use crate::selection::Selection;
use std::collections::{HashMap, VecDeque};

/// How many removed keys are remembered one by one. If there are more, all are forgotten, and every key counts as removed
/// at that moment.
const KEYS_MAX: usize = 4096;

/// How many removals of a selection are remembered. If there are more, the oldest is forgotten, and every key counts as
/// removed by it.
const SELECTIONS_MAX: usize = 64;

/// What was removed, and when.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// How many removals there were.
    count: u64,
    /// The number of the last removal of a key.
    keys: HashMap<Key, u64>,
    /// The last removals of a selection, the oldest first.
    selections: VecDeque<(u64, Selection)>,
    /// The last removal that counts for all keys.
    all: u64,
}

impl Removals {
    /// How many removals there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Notes the removal of a response.
    pub(crate) fn note(&mut self, key: Key) {
        self.count += 1;
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            self.keys.clear();
            self.all = self.count;
        }
        self.keys.insert(key, self.count);
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

    /// Whether one of the removals after the first `count` ones concerns the response with this head.
    pub(crate) fn was_removed_since(&self, head: &Head, count: u64) -> bool {
        if self.count <= count {
            return false;
        }
        let mut later = self.selections.iter().rev().take_while(|(number, _)| *number > count);
        self.all > count
            || self.keys.get(&Key::of(&head.key)).is_some_and(|&number| number > count)
            || later.any(|(_, selection)| selection.has(head))
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
    fn removals_are_known_by_their_numbers() {
        let mut removals = Removals::default();
        removals.note(Key::of(b"a"));
        let was_removed =
            |removals: &Removals, key: &str, count| removals.was_removed_since(&head(key), count);
        assert_eq!(
            (was_removed(&removals, "a", 0), was_removed(&removals, "a", 1), was_removed(&removals, "b", 0)),
            (true, false, false)
        );
        removals.note_selection(&Selection::Prefix(b"b".as_slice().into()));
        assert_eq!(
            (
                was_removed(&removals, "bc", 1),
                was_removed(&removals, "bc", 2),
                was_removed(&removals, "c", 1)
            ),
            (true, false, false)
        );
        removals.note_selection(&Selection::All);
        assert_eq!((was_removed(&removals, "c", 2), was_removed(&removals, "c", 3)), (true, false));
    }

    #[test]
    fn too_many_removals_count_for_all_keys() {
        let mut removals = Removals::default();
        for number in 0..=KEYS_MAX {
            removals.note(Key::of(&number.to_le_bytes()));
        }
        assert_eq!(removals.keys.len(), 1);
        assert!(removals.was_removed_since(&head("a"), 0));
        let mut removals = Removals::default();
        for _ in 0..=SELECTIONS_MAX {
            removals.note_selection(&Selection::Key(b"b".as_slice().into()));
        }
        assert_eq!(
            (removals.was_removed_since(&head("a"), 0), removals.was_removed_since(&head("a"), 1)),
            (true, false)
        );
    }
}

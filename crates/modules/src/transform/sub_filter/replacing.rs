//! Replacing texts in content that comes in pieces; how it is cut makes no difference.

use super::automaton::{Automaton, Index, State};
use crate::shared::changed::Change;
use std::sync::Arc;

/// A replacement in the middle of its work.
pub(super) struct Replacing {
    automaton: Arc<Automaton>,
    /// The replacement of each text.
    replacements: Vec<Box<[u8]>>,
    /// Texts that are no longer looked for, where each is replaced once.
    used: Option<Vec<bool>>,
    /// How many are still looked for.
    left: usize,
    /// What was not given on yet, because a text may have begun in it.
    held: Vec<u8>,
    /// What was read of it.
    read: usize,
    state: State,
    best: Option<Match>,
}

/// A text in what is held.
#[derive(Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    index: Index,
}

impl Replacing {
    pub(super) fn new(automaton: Arc<Automaton>, replacements: Vec<Box<[u8]>>, once: bool) -> Replacing {
        let left = replacements.len();
        Replacing {
            automaton,
            used: once.then(|| vec![false; left]),
            replacements,
            left,
            held: Vec::new(),
            read: 0,
            state: Automaton::START,
            best: None,
        }
    }

    /// Reads what is held from `from` on, and appends what is known; returns where what is not begins.
    fn run(&mut self, mut from: usize, out: &mut Vec<u8>) -> usize {
        while self.read < self.held.len() && self.left > 0 {
            if self.state == Automaton::START && self.best.is_none() {
                self.read += self.automaton.skip(&self.held[self.read..]);
                if self.read == self.held.len() {
                    break;
                }
            }
            self.state = self.automaton.next(self.state, self.held[self.read]);
            self.read += 1;
            self.look();
            if let Some(found) = self.best.filter(|found| self.is_decided(found)) {
                from = self.replace(from, found, out);
            }
        }
        if self.left == 0 {
            self.read = self.held.len();
        }
        let begins = self.read - self.automaton.depth(self.state);
        let known = self.best.map_or(begins, |found| found.start.min(begins)).max(from);
        out.extend_from_slice(&self.held[from..known]);
        known
    }

    /// Takes note of a text that ends here: what begins first counts, then what was written first.
    fn look(&mut self) {
        for (index, length) in self.automaton.ends(self.state) {
            let start = self.read - length;
            let is_used = self.used.as_ref().is_some_and(|used| used[index]);
            let is_better = self.best.is_none_or(|best| (start, index) < (best.start, best.index));
            if !is_used && is_better {
                self.best = Some(Match { start, end: self.read, index });
            }
        }
    }

    /// Whether nothing that is still to come can count more.
    fn is_decided(&self, found: &Match) -> bool {
        let begins = self.read - self.automaton.depth(self.state);
        let is_first = self.automaton.earliest(self.state) >= found.index;
        begins > found.start || begins == found.start && is_first
    }

    /// Replaces a text; what is behind it is read anew.
    fn replace(&mut self, from: usize, found: Match, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&self.held[from..found.start]);
        out.extend_from_slice(&self.replacements[found.index]);
        if let Some(used) = &mut self.used {
            used[found.index] = true;
            self.left -= 1;
        }
        self.best = None;
        self.state = Automaton::START;
        self.read = found.end;
        found.end
    }
}

impl Change for Replacing {
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.left == 0 {
            out.extend_from_slice(bytes);
            return;
        }
        self.held.extend_from_slice(bytes);
        let known = self.run(0, out);
        self.held.drain(..known);
        self.read -= known;
        if let Some(best) = &mut self.best {
            best.start -= known;
            best.end -= known;
        }
        if self.left == 0 {
            self.state = Automaton::START;
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let mut from = 0;
        while let Some(found) = self.best {
            from = self.replace(from, found, out);
            from = self.run(from, out);
        }
        out.extend_from_slice(&self.held[from..]);
        self.held.clear();
        self.read = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Automaton, Replacing};
    use crate::shared::changed::Change;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn replacing(pairs: &[(&str, &str)], once: bool) -> Replacing {
        let automaton = Arc::new(Automaton::new(pairs.iter().map(|(text, _)| text.as_bytes())));
        Replacing::new(automaton, pairs.iter().map(|(_, with)| with.as_bytes().into()).collect(), once)
    }

    fn replaced(pairs: &[(&str, &str)], once: bool, pieces: &[&str]) -> String {
        let mut replacing = replacing(pairs, once);
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| replacing.add(piece.as_bytes(), &mut out));
        replacing.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The same, by trying all texts at every place.
    fn plainly(pairs: &[(String, String)], once: bool, text: &str) -> String {
        let lower = text.to_ascii_lowercase();
        let mut used = vec![false; pairs.len()];
        let (mut at, mut out) = (0, String::new());
        while at < text.len() {
            let begins = |index: &usize| !used[*index] && lower[at..].starts_with(&pairs[*index].0);
            match (0..pairs.len()).find(begins) {
                Some(index) => {
                    used[index] = once;
                    out.push_str(&pairs[index].1);
                    at += pairs[index].0.len();
                }
                None => {
                    out.push_str(&text[at..=at]);
                    at += 1;
                }
            }
        }
        out
    }

    #[test]
    fn what_begins_first_counts_then_what_was_written_first() {
        let all = |pairs: &[(&str, &str)], text: &str| replaced(pairs, false, &[text]);
        assert_eq!(all(&[("foo", "bar")], "FooxFOO fo"), "barxbar fo");
        assert_eq!(all(&[("abc", "1"), ("ab", "2")], "abcabd"), "12d");
        assert_eq!(all(&[("ab", "2"), ("abc", "1")], "abcabd"), "2c2d");
        assert_eq!(all(&[("bc", "1"), ("abcd", "2")], "abcdabce"), "2a1e");
        assert_eq!(all(&[("abc", "1"), ("ab", "2")], "ab"), "2", "the end decides, too");
        assert_eq!(all(&[("aab", "+")], "aaaab"), "aa+");
        assert_eq!(all(&[("a", "aa")], "aa"), "aaaa", "replacements are not searched again");
        assert_eq!(all(&[("a", "")], "banana"), "bnn");
    }

    #[test]
    fn each_text_once() {
        let once = |pairs: &[(&str, &str)], text: &str| replaced(pairs, true, &[text]);
        assert_eq!(once(&[("aab", "+"), ("yyz", "-")], "yyzyyzaabaabyyz"), "-yyz+aabyyz");
        assert_eq!(once(&[("a", "1"), ("a", "2")], "aaa"), "12a");
        assert_eq!(once(&[("abc", "1"), ("ab", "2")], "abcabcabc"), "12cabc");
    }

    #[test]
    fn no_more_is_held_back_than_may_be_a_text() {
        let mut replacing = replacing(&[("za", "ZA")], true);
        let mut out = Vec::new();
        replacing.add(b"xyz", &mut out);
        assert_eq!(out, b"xy");
        replacing.add(b"b", &mut out);
        assert_eq!(out, b"xyzb");
    }

    proptest! {
        #[test]
        fn cutting_makes_no_difference(
            pairs in proptest::collection::vec(("[ab]{1,6}", "[abX]{0,2}"), 1..5),
            text in "[abAc]{0,60}",
            cuts in proptest::collection::vec(0..60_usize, 0..8),
            once in any::<bool>(),
        ) {
            let expected = plainly(&pairs, once, &text);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(text, with)| (&**text, &**with)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(replaced(&pairs, once, &pieces), expected.clone());
            let bytes: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
            prop_assert_eq!(replaced(&pairs, once, &bytes), expected);
        }
    }
}

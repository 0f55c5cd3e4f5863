//! Patterns of which the first that matches counts, tried at once.

use super::Pattern;
use regex::bytes::{RegexSet, RegexSetBuilder};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How many patterns share an automaton: it stays small enough for what subjects it meets to be kept.
const TOGETHER: usize = 128;

/// From how many patterns on one pass over the subject costs less than one for each.
const FEWEST: usize = 3;

/// How large an automaton may become, in bytes.
const BYTES_MAX: usize = 10 * 1024 * 1024;

/// Patterns in their order. What matches in linear time is looked for in one pass; what backtracks is tried by itself,
/// as long as nothing in front of it matches.
pub struct PatternSet {
    parts: Box<[Part]>,
}

/// Some neighbouring patterns.
struct Part {
    patterns: Range<usize>,
    set: Option<RegexSet>,
    /// Which patterns the set is made of.
    members: Box<[usize]>,
}

/// What is known of a pattern that may be the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// It matches; only what it captures is not known.
    Matches,
    /// It has to be tried.
    Untried,
}

impl PatternSet {
    /// The set of these patterns.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> PatternSet {
        let patterns: Vec<&Pattern> = patterns.into_iter().collect();
        let starts = (0..patterns.len()).step_by(TOGETHER);
        let part = |start: usize| Part::new(&patterns, start..(start + TOGETHER).min(patterns.len()));
        PatternSet { parts: starts.map(part).collect() }
    }

    /// The first pattern that matches. `judge` is asked about candidates in their order, until it says that one does.
    ///
    /// # Errors
    /// That of `judge`.
    pub fn first<E>(
        &self,
        subject: &[u8],
        mut judge: impl FnMut(usize, Candidate) -> Result<bool, E>,
    ) -> Result<Option<usize>, E> {
        for part in &self.parts {
            let found = match &part.set {
                // What nginx's `$` means in front of a final newline only PCRE2 knows.
                Some(set) if !subject.ends_with(b"\n") => part.first(set, subject, &mut judge)?,
                _ => try_each(part.patterns.clone(), &mut judge)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl Part {
    fn new(all: &[&Pattern], patterns: Range<usize>) -> Part {
        if patterns.len() < FEWEST {
            return Part { patterns, set: None, members: Box::default() };
        }
        let texts = patterns.clone().filter_map(|index| Some((index, all[index].linear_text()?)));
        let (members, texts): (Vec<usize>, Vec<String>) = texts.unzip();
        let build = || RegexSetBuilder::new(texts).unicode(false).size_limit(BYTES_MAX).build().ok();
        let set = if members.len() < FEWEST { None } else { build() };
        Part { patterns, set, members: members.into() }
    }

    fn first<E>(
        &self,
        set: &RegexSet,
        subject: &[u8],
        judge: &mut impl FnMut(usize, Candidate) -> Result<bool, E>,
    ) -> Result<Option<usize>, E> {
        let found = set.matches(subject).iter().next().and_then(|at| self.members.get(at)).copied();
        let end = found.unwrap_or(self.patterns.end);
        let is_alone = |index: &usize| self.members.binary_search(index).is_err();
        if let Some(earlier) = try_each((self.patterns.start..end).filter(is_alone), judge)? {
            return Ok(Some(earlier));
        }
        match found {
            Some(index) if judge(index, Candidate::Matches)? => Ok(Some(index)),
            _ => Ok(None),
        }
    }
}

fn try_each<E>(
    indices: impl Iterator<Item = usize>,
    judge: &mut impl FnMut(usize, Candidate) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    for index in indices {
        if judge(index, Candidate::Untried)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

impl fmt::Debug for PatternSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.parts.last().map_or(0, |part| part.patterns.end);
        write!(f, "PatternSet({count})")
    }
}

/// The sets of a configuration by what they are made of: very many servers have the same list of patterns.
#[derive(Default)]
pub struct PatternSets(HashMap<Box<[Arc<Pattern>]>, Arc<PatternSet>>);

impl PatternSets {
    /// The set of these patterns, which was made before or is made now.
    pub fn share(&mut self, patterns: Box<[Arc<Pattern>]>) -> Arc<PatternSet> {
        if let Some(set) = self.0.get(&patterns) {
            return Arc::clone(set);
        }
        let set = Arc::new(PatternSet::new(patterns.iter().map(AsRef::as_ref)));
        self.0.insert(patterns, Arc::clone(&set));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, PatternSet};
    use crate::value::{Captures, Language, Pattern};
    use proptest::prelude::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        let pattern = |text: &&str| match text.strip_prefix('*') {
            Some(text) => Pattern::new(text.as_bytes(), true, Language::Nginx).unwrap(),
            None => Pattern::new(text.as_bytes(), false, Language::Nginx).unwrap(),
        };
        texts.iter().map(pattern).collect()
    }

    /// The first pattern that matches, and how many were tried by themselves.
    fn first(patterns: &[Pattern], subject: &str) -> (Option<usize>, usize) {
        let set = PatternSet::new(patterns);
        let mut tried = 0;
        let found = set.first(subject.as_bytes(), |index, candidate| {
            tried += usize::from(candidate == Candidate::Untried);
            patterns[index].try_captures(subject.as_bytes(), &mut Captures::default())
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn the_order_counts_and_not_the_place_in_the_subject() {
        let some = patterns(&["b", "a", "(?i)^/C|d$", "*E", "a|z"]);
        assert_eq!(first(&some, "ab"), (Some(0), 0));
        assert_eq!(first(&some, "za"), (Some(1), 0));
        assert_eq!(first(&some, "/cx"), (Some(2), 0));
        assert_eq!(first(&some, "xd"), (Some(2), 0));
        assert_eq!(first(&some, "e"), (Some(3), 0));
        assert_eq!(first(&some, "q"), (None, 0));
    }

    #[test]
    fn what_backtracks_is_tried_only_in_front_of_what_matches() {
        let some = patterns(&["b", "(?=c)c", "d", "e", "(?=f)f"]);
        assert_eq!(first(&some, "b c"), (Some(0), 0));
        assert_eq!(first(&some, "c d"), (Some(1), 1));
        assert_eq!(first(&some, "d"), (Some(2), 1));
        assert_eq!(first(&some, "f"), (Some(4), 2));
    }

    #[test]
    fn a_final_newline_is_left_to_each() {
        let some = patterns(&["x$", "b", "c", "a$"]);
        assert_eq!(first(&some, "a\n"), (Some(3), 4));
    }

    #[test]
    fn many_patterns_keep_their_order() {
        let texts: Vec<String> = (0..1000).map(|n| format!("^/{n}(/|$)")).collect();
        let many = patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for index in [0, 127, 128, 500, 999] {
            assert_eq!(first(&many, &format!("/{index}/x")), (Some(index), 0));
        }
        assert_eq!(first(&many, "/1000"), (None, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn the_first_is_the_one_that_is_found_by_trying_each(
            texts in proptest::collection::vec(r"(\*|)[\^]?[ab.(]?[ab]?[)*+?]?(\||\(\?=a\)|)[ab]?[$]?", 0..8),
            subject in "[abA\n]{0,6}",
            is_apache: bool,
        ) {
            let language = if is_apache { Language::Apache } else { Language::Nginx };
            let pattern = |text: &String| Pattern::new(text.trim_start_matches('*').as_bytes(), text.starts_with('*'), language);
            let valid: Vec<Pattern> = texts.iter().filter_map(|text| pattern(text).ok()).collect();
            let expected = valid.iter().position(|pattern| pattern.is_match(subject.as_bytes()));
            prop_assert_eq!(first(&valid, &subject).0, expected);
        }
    }
}

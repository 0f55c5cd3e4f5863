//! A regular expression whose captures become the exchange's.

use crate::{Definition, Exchange, VariableId, Variables};
use conf::value::{Candidate, Captures, Pattern, PatternSet, PatternSets, TooManySteps};
use journal::Level;
use journal::counters::{self, Count};
use std::convert::Infallible;
use std::sync::Arc;

/// A pattern bound to the variables of its named captures.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: Arc<Pattern>,
    named: Box<[(usize, VariableId)]>,
}

impl Regex {
    /// Binds a pattern.
    pub(crate) fn new(pattern: Arc<Pattern>, variables: &mut Variables) -> Regex {
        let mut define = |(index, name): (usize, &Option<Box<str>>)| {
            let name = name.as_deref()?;
            Some((index, variables.define(name, Definition::Slot)))
        };
        let named = pattern.names().iter().enumerate().filter_map(&mut define).collect();
        Regex { pattern, named }
    }

    /// Whether the pattern matches; if so the exchange gets its captures. A pattern that gives up does not match.
    pub fn matches(&self, exchange: &Exchange, subject: &[u8]) -> bool {
        self.try_matches(exchange, subject).unwrap_or(false)
    }

    /// As [`Regex::matches`], telling whether the pattern gave up, which is logged and counted.
    ///
    /// # Errors
    /// [`TooManySteps`].
    pub fn try_matches(&self, exchange: &Exchange, subject: &[u8]) -> Result<bool, TooManySteps> {
        let mut captures = Captures::default();
        let found = self.pattern.try_captures(subject, &mut captures).inspect_err(|_| {
            counters::add(Count::PatternsGivenUp);
            let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            let (pattern, subject) = (shown(self.text()), shown(subject));
            let message =
                format!("pcre2_match() failed: match limit exceeded on \"{subject}\" using \"{pattern}\"");
            exchange.log(Level::Error, &message);
        })?;
        if found {
            for &(index, id) in &self.named {
                exchange.set_slot(id, captures.get(index, subject).unwrap_or_default());
            }
            exchange.set_captures(captures, if self.captures_anything() { subject } else { b"" });
        }
        Ok(found)
    }

    /// Whether the pattern matches; no capture is kept.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.pattern.is_match(subject)
    }

    /// Whether there is any group besides the whole.
    fn captures_anything(&self) -> bool {
        self.pattern.names().len() > 1
    }

    /// The pattern as written.
    pub fn text(&self) -> &[u8] {
        self.pattern.text()
    }
}

/// Patterns of which the first that matches counts. They are tried at once.
#[derive(Debug, Default)]
pub struct Regexes {
    regexes: Box<[Regex]>,
    /// None of no patterns.
    set: Option<Arc<PatternSet>>,
}

impl Regexes {
    /// These patterns, in their order.
    pub fn new(regexes: Vec<Regex>) -> Regexes {
        Regexes::sharing(regexes, &mut PatternSets::default())
    }

    /// These patterns, in their order, with the automaton of such a list that was made before.
    pub fn sharing(regexes: Vec<Regex>, sets: &mut PatternSets) -> Regexes {
        if regexes.is_empty() {
            return Regexes::default();
        }
        let set = sets.share(regexes.iter().map(|regex| Arc::clone(&regex.pattern)).collect());
        Regexes { set: Some(set), regexes: regexes.into() }
    }

    /// The first pattern that matches; its captures are the exchange's from now on.
    ///
    /// # Errors
    /// [`TooManySteps`] if a pattern gave up, because the first match is then unknown.
    pub fn first(&self, exchange: &Exchange, subject: &[u8]) -> Result<Option<usize>, TooManySteps> {
        let Some(set) = &self.set else { return Ok(None) };
        set.first(subject, |index, candidate| match self.regexes.get(index) {
            Some(regex) if candidate == Candidate::Matches && !regex.captures_anything() => {
                exchange.set_captures(Captures::default(), b"");
                Ok(true)
            }
            Some(regex) => regex.try_matches(exchange, subject),
            None => Ok(false),
        })
    }

    /// The first pattern that matches, where no capture is needed. A pattern that gives up does not match.
    pub fn find(&self, subject: &[u8]) -> Option<usize> {
        let judge = |index: usize, candidate: Candidate| -> Result<bool, Infallible> {
            Ok(candidate == Candidate::Matches
                || self.regexes.get(index).is_some_and(|regex| regex.is_match(subject)))
        };
        let Ok(found) = self.set.as_ref()?.first(subject, judge);
        found
    }

    /// The patterns.
    pub fn iter(&self) -> std::slice::Iter<'_, Regex> {
        self.regexes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{PatternSets, Regex, Regexes};
    use crate::Loading;
    use conf::{FileId, Span, Word};
    use std::path::Path;
    use std::sync::Arc;

    fn regexes(loading: &mut Loading, texts: &[&str]) -> Vec<Regex> {
        let span = Span { file: FileId(0), start: 0, end: 0, line: 1 };
        let regex = |text: &&str| {
            let word = Word { text: text.as_bytes().into(), quoted: false, span };
            loading.regex(&word, text.as_bytes(), text.ends_with('X')).unwrap()
        };
        texts.iter().map(regex).collect()
    }

    #[test]
    fn the_same_text_is_compiled_once_and_the_same_list_put_together_once() {
        let mut loading = Loading::new(Path::new("/"), Path::new("/"));
        let one = regexes(&mut loading, &["a", "b(?<n>.)", "cX"]);
        let two = regexes(&mut loading, &["a", "b(?<n>.)", "cX"]);
        for (one, two) in one.iter().zip(&two) {
            assert!(Arc::ptr_eq(&one.pattern, &two.pattern));
            assert_eq!(one.named, two.named);
        }
        assert!(one[2].is_match(b"Cx"));
        let word = Word {
            text: (*b"cX").into(),
            quoted: false,
            span: Span { file: FileId(0), start: 0, end: 0, line: 1 },
        };
        assert!(!loading.regex(&word, b"cX", false).unwrap().is_match(b"Cx"), "case counts in another one");
        let other = vec![two[1].clone(), two[0].clone(), two[2].clone()];
        let mut sets = PatternSets::default();
        let [one, two, other] = [one, two, other].map(|list| Regexes::sharing(list, &mut sets));
        let set = |regexes: &Regexes| regexes.set.clone().unwrap();
        assert!(Arc::ptr_eq(&set(&one), &set(&two)));
        assert!(!Arc::ptr_eq(&set(&one), &set(&other)), "their order counts");
        assert_eq!((one.find(b"bya"), other.find(b"bya")), (Some(0), Some(0)));
        assert_eq!((one.find(b"by"), other.find(b"by")), (Some(1), Some(0)));
    }

    #[test]
    fn found_without_captures() {
        let mut loading = Loading::new(Path::new("/"), Path::new("/"));
        let some = Regexes::new(regexes(&mut loading, &["(x)y", "(?=z)z", "b$", "^(a+)+$(?=)", "q"]));
        for (subject, found) in
            [("axy", Some(0)), ("zq", Some(1)), ("b\n", Some(2)), ("q", Some(4)), ("p", None)]
        {
            assert_eq!(some.find(subject.as_bytes()), found, "{subject}");
        }
        let endless = [&[b'a'; 64][..], b"!q"].concat();
        assert_eq!(some.find(&endless), Some(4), "what gives up does not match");
        assert_eq!(Regexes::default().find(b""), None);
    }
}

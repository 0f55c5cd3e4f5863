//! A regular expression whose captures become the exchange's.

use crate::counters::{self, Count};
use crate::log::Level;
use crate::{Definition, Exchange, VariableId, Variables};
use conf::value::{Candidate, Captures, Pattern, PatternSet, TooManySteps, ValueError};
use std::sync::Arc;

/// A pattern bound to the variables of its named captures.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: Arc<Pattern>,
    named: Box<[(usize, VariableId)]>,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`ValueError::Pattern`].
    pub fn new(text: &[u8], ignore_case: bool, variables: &mut Variables) -> Result<Regex, ValueError> {
        let pattern = Pattern::new(text, ignore_case)?;
        let mut define = |(index, name): (usize, &Option<Box<str>>)| {
            let name = name.as_deref()?;
            Some((index, variables.define(name, Definition::Slot)))
        };
        let named = pattern.names().iter().enumerate().filter_map(&mut define).collect();
        Ok(Regex { pattern: Arc::new(pattern), named })
    }

    /// Whether the pattern matches; if so its captures are the exchange's from now on. A pattern that gives up does
    /// not match.
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

    /// Whether there is any group beside the whole.
    fn captures_anything(&self) -> bool {
        self.pattern.names().len() > 1
    }

    /// The pattern as written.
    pub fn text(&self) -> &[u8] {
        self.pattern.text()
    }
}

/// Patterns of which the first that matches counts. They are tried at once.
#[derive(Debug)]
pub struct Regexes {
    regexes: Box<[Regex]>,
    set: PatternSet,
}

impl Regexes {
    /// These patterns, in their order.
    pub fn new(regexes: Vec<Regex>) -> Regexes {
        let set = PatternSet::new(regexes.iter().map(|regex| &*regex.pattern));
        Regexes { regexes: regexes.into(), set }
    }

    /// The first pattern that matches; its captures are the exchange's from now on.
    ///
    /// # Errors
    /// [`TooManySteps`] where a pattern gave up, so that nobody knows which is the first.
    pub fn first(&self, exchange: &Exchange, subject: &[u8]) -> Result<Option<usize>, TooManySteps> {
        self.set.first(subject, |index, candidate| match self.regexes.get(index) {
            Some(regex) if candidate == Candidate::Matches && !regex.captures_anything() => {
                exchange.set_captures(Captures::default(), b"");
                Ok(true)
            }
            Some(regex) => regex.try_matches(exchange, subject),
            None => Ok(false),
        })
    }

    /// The patterns.
    pub fn iter(&self) -> std::slice::Iter<'_, Regex> {
        self.regexes.iter()
    }
}

impl Default for Regexes {
    fn default() -> Regexes {
        Regexes::new(Vec::new())
    }
}

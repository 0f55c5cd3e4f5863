//! Traps in configurations that load: what is written is allowed, and probably not what was meant.
//!
//! A [`Rule`] looks at the tree of a configuration and knows no feature. A false finding costs more than a missed
//! one, so a rule reports only what the tree shows for certain. The examples of a rule are its tests and its
//! page of the manual.

#![forbid(unsafe_code)]

mod regex;
mod rules;
#[cfg(test)]
mod tests;
mod tree;
mod weaknesses;

use conf::{Level, Node, Span};
use tree::Tree;

pub use weaknesses::{Version, Weakness, check_weaknesses, weaknesses};

/// A trap.
#[derive(Debug)]
pub struct Rule {
    /// Its name, which stays.
    pub id: &'static str,
    /// `error` for what lets strangers do what they may not, `warn` for what does not do what it says, `notice` for
    /// what could be better.
    pub level: Level,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// Why it is a trap, and the fix.
    pub why: &'static str,
    /// A configuration that has it: the content of `http {}`.
    pub bad: &'static str,
    /// The same without it.
    pub good: &'static str,
    check: Check,
}

/// Looks for the places of one trap.
type Check = fn(&Tree<'_>) -> Vec<Found>;

/// A place where a rule has something to say.
#[derive(Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The directive.
    pub place: Span,
    /// The part of it that is meant.
    pub under: Span,
    /// What is wrong here.
    pub text: String,
    /// What to write instead.
    pub fix: String,
}

/// What a check gives.
struct Found {
    place: Span,
    under: Span,
    text: String,
    fix: String,
}

/// All rules, in the order of the manual.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::ALL.iter().copied()
}

/// All findings in a configuration, in the order of the text.
pub fn check(nodes: &[Node]) -> Vec<Finding> {
    findings(&Tree::new(nodes), rules())
}

/// What these rules find.
fn findings(tree: &Tree<'_>, rules: impl Iterator<Item = &'static Rule>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules
        .flat_map(|rule| {
            let finding = move |found: Found| {
                let Found { place, under, text, fix } = found;
                Finding { rule, place, under, text, fix }
            };
            (rule.check)(tree).into_iter().map(finding)
        })
        .collect();
    findings.sort_by_key(|finding| (finding.place.file.0, finding.place.start, finding.rule.id));
    findings
}

impl Found {
    /// A finding about a whole directive.
    fn at(node: &Node, text: impl Into<String>, fix: impl Into<String>) -> Found {
        Found { place: node.span, under: node.name.span, text: text.into(), fix: fix.into() }
    }

    /// The same, about one word of it.
    fn under(self, under: Span) -> Found {
        Found { under, ..self }
    }
}

//! Habits as tests. Each rule is one file below and reads the whole [`Tree`]; a ban names its
//! replacement.

mod architecture;
mod circles;
mod dependencies;
mod features;
mod fields;
mod files;
mod floors;
mod inheritance;
mod levels;
mod limits;
pub(crate) mod links;
mod policy;
mod protocol;
mod sizes;
mod spdx;
mod test_layout;
mod thread_locals;
mod unsafe_code;
mod walls;
mod words;

use std::fmt;

use anyhow::Result;

use crate::tree::Tree;

/// Looks at the whole project and gives every place that breaks the rule.
type Check = fn(&Tree) -> Vec<Finding>;

/// The rules, by the name that a finding shows.
const RULES: &[(&str, Check)] = &[
    ("levels", levels::check),
    ("floors", floors::check),
    ("circle", circles::check),
    ("wall", walls::check),
    ("protocol", protocol::check),
    ("unsafe", unsafe_code::check),
    ("feature", features::check),
    ("limit", limits::check),
    ("fields", fields::check),
    ("size", sizes::check),
    ("policy", policy::check),
    ("inheritance", inheritance::check),
    ("thread-local", thread_locals::check),
    ("word", words::check),
    ("file", files::check),
    ("link", links::check),
    ("dependency", dependencies::check),
    ("architecture", architecture::check),
    ("test-layout", test_layout::check),
];

/// One place that breaks a rule, and what to do there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
    instead: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.message, self.instead)
    }
}

/// Runs every rule on the checkout and prints the findings; true when there are none.
pub(crate) fn run() -> Result<bool> {
    let tree = Tree::load()?;
    let mut found: Vec<(Finding, &str)> = Vec::new();
    for (rule, check) in RULES {
        found.extend(check(&tree).into_iter().map(|finding| (finding, *rule)));
    }
    found.sort();
    found.dedup();
    for (finding, rule) in &found {
        println!("{}:{}: {rule}: {finding}", finding.path, finding.line);
    }
    for line in sizes::report(&tree).into_iter().chain(architecture::report(&tree)) {
        eprintln!("tidy: {line}");
    }
    if !found.is_empty() {
        eprintln!("tidy: {} finding(s)", found.len());
    }
    Ok(found.is_empty())
}

/// Whether `phrase` stands in `text` with no letter, digit or `_` next to it.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let end = at + phrase.len();
        !text[..at].ends_with(is_part) && !text[end..].starts_with(is_part)
    })
}

/// The paths and lines of what a rule finds, for the rules' tests.
#[cfg(test)]
fn places(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
}

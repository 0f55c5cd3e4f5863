//! What an experiment names has to be there: this is seen when its file is read, and not after a day of measuring.

use anyhow::{Result, anyhow, ensure};

use super::{Condition, Experiment, Finding};
use crate::model::words;

impl Experiment {
    /// Sees that loads and findings of one file have their own names, and that all loads that are named are there,
    /// here or in another one of `all` experiments, this one among them. The error begins with the number of a line.
    pub fn check_names(&self, text: &str, all: &[Experiment]) -> Result<()> {
        let is_alone = all.iter().filter(|experiment| experiment.id == self.id).count() == 1;
        ensure!(is_alone, at(text, &self.id, &format!("another experiment is called {} already", self.id)));
        let loads: Vec<&str> = self.loads.iter().map(|load| load.id.as_str()).collect();
        let findings: Vec<&str> = self.findings.iter().map(|finding| finding.id.as_str()).collect();
        for (what, names) in [("load", &loads), ("finding", &findings)] {
            for (index, name) in names.iter().enumerate() {
                let is_first = !names[..index].contains(name);
                ensure!(is_first, at_last(text, name, &format!("another {what} is called {name} already")));
            }
        }
        for published in &self.published {
            let name = published.load.as_str();
            let there = loads.join(", ");
            ensure!(
                loads.contains(&name),
                at(text, name, &format!("figures of a load {name}; there are {there}"))
            );
        }
        self.findings.iter().try_for_each(|finding| self.check_finding(finding, all))
    }

    /// Sees that a finding has conditions, and that the loads are there that they name. The error begins with the number of
    /// a line in the finding's file, or in that of the experiment.
    pub fn check_finding(&self, finding: &Finding, all: &[Experiment]) -> Result<()> {
        let text = self.text_of(finding);
        let none = || format!("finding {}: there is no condition under which it holds", finding.id);
        ensure!(!finding.holds_when.is_empty(), at(text, &finding.id, &none()));
        for name in finding.holds_when.iter().flat_map(Condition::loads) {
            let missing = || format!("finding {}: no load is called {name}", finding.id);
            ensure!(self.has_load(name, all), at(text, name, &missing()));
        }
        Ok(())
    }

    /// The file in which a finding stands.
    fn text_of<'a>(&'a self, finding: &'a Finding) -> &'a str {
        if finding.text.is_empty() { &self.text } else { &finding.text }
    }

    /// Checks that all names are contenders, and that those take part of which figures, loads and findings
    /// are. The error begins with the number of a line.
    pub fn check_contenders(&self, text: &str, contenders: &[String]) -> Result<()> {
        let known = |name: &str| is_known(name, contenders);
        let behind = self.loads.iter().filter_map(|load| load.backend.as_ref());
        for name in self.contenders.iter().chain(behind) {
            let nobody = || words::unknown("contender", name, contenders);
            ensure!(known(name), at(text, name, &nobody()));
        }
        let loaded =
            self.loads.iter().flat_map(|load| load.contenders.iter().flatten().chain(load.paths.keys()));
        let published = self.published.iter().map(|published| &published.contender);
        for name in loaded.chain(published) {
            let stranger = || format!("{name} is not among the contenders of {}", self.id);
            ensure!(self.contenders.contains(name), at(text, name, &stranger()));
        }
        let stranger = |finding: &Finding| finding.stranger_in(self.text_of(finding), contenders);
        self.findings.iter().find_map(stranger).map_or(Ok(()), Err)
    }

    /// Whether there is a load of this name: `load`, or `experiment/load`.
    fn has_load(&self, name: &str, all: &[Experiment]) -> bool {
        let (of, load) = name.split_once('/').unwrap_or((&self.id, name));
        let mut of = all.iter().filter(|experiment| experiment.id == of);
        of.any(|of| of.loads.iter().any(|other| other.id == load))
    }
}

impl Finding {
    /// What is wrong with the file of a claim that names a contender which is not known.
    pub fn stranger(&self, contenders: &[String]) -> Option<anyhow::Error> {
        self.stranger_in(&self.text, contenders)
    }

    fn stranger_in(&self, text: &str, contenders: &[String]) -> Option<anyhow::Error> {
        let mut names = self.holds_when.iter().flat_map(Condition::contenders);
        let name = names.find(|name| !is_known(name, contenders))?;
        Some(at(text, name, &format!("finding {}: no contender is called {name}", self.id)))
    }
}

/// Whether this is the name of a contender, or `name@program`.
fn is_known(name: &str, contenders: &[String]) -> bool {
    let bare = name.split('@').next().unwrap_or(name);
    contenders.iter().any(|contender| contender == bare)
}

impl Condition {
    /// Whom it is about.
    pub(crate) fn contenders(&self) -> Vec<&str> {
        match self {
            Condition::Better { of, over, .. } | Condition::Ratio { of, over, .. } => vec![of, over],
            Condition::Change { of, .. }
            | Condition::AnswersAll { of, .. }
            | Condition::Fails { of, .. }
            | Condition::AgainstLoad { of, .. } => vec![of],
        }
    }
}

/// What is wrong, with the number of the line that first has this name in quotation marks.
pub(super) fn at(text: &str, name: &str, wrong: &str) -> anyhow::Error {
    placed(lines_with(text, name).next(), wrong)
}

/// What is wrong, with the number of the last line that gives this name to something.
fn at_last(text: &str, name: &str, wrong: &str) -> anyhow::Error {
    let names =
        |line: &usize| text.lines().nth(line - 1).is_some_and(|line| line.trim_start().starts_with("id"));
    placed(lines_with(text, name).filter(names).last(), wrong)
}

fn placed(line: Option<usize>, wrong: &str) -> anyhow::Error {
    match line {
        Some(line) => anyhow!("line {line}: {wrong}"),
        None => anyhow!("{wrong}"),
    }
}

fn lines_with<'a>(text: &'a str, name: &str) -> impl Iterator<Item = usize> + use<'a> {
    // A key of a table may stand without quotation marks, and at the beginning of a line.
    let written = [format!("\"{name}\""), format!("'{name}'"), format!(" {name} =")];
    let numbered = text.lines().zip(1..);
    numbered
        .filter(move |(line, _)| {
            let line = format!(" {line}");
            written.iter().any(|name| line.contains(name))
        })
        .map(|(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"id = "own"
title = "Own"
question = "?"
contenders = ["a", "b"]
[[loads]]
id = "one"
title = "One"
clients = 1
requests = 1
[[loads]]
id = "two"
title = "Two"
clients = 1
requests = 1
contenders = ["b"]
[[findings]]
id = "F1"
claim = "?"
holds_when = [
    { is = "better", figure = "requests_per_s", load = "one", of = "a", over = "b" },
    { is = "answers_all", load = "own/two", of = "b" },
]
"#;

    fn check(text: &str, others: &[Experiment]) -> Result<()> {
        let experiment = Experiment::parse(text)?;
        let mut all = others.to_vec();
        all.push(experiment.clone());
        experiment.check_names(text, &all)?;
        experiment.check_contenders(text, &["a".into(), "b".into(), "c".into()])
    }

    #[test]
    fn names_that_are_not_there_are_told_with_their_line() {
        check(TEXT, &[]).unwrap();
        let cases = [
            (r#"load = "one""#, r#"load = "three""#, "line 20: finding F1: no load is called three"),
            ("own/two", "other/two", "line 21: finding F1: no load is called other/two"),
            (r#"id = "two""#, r#"id = "one""#, "line 11: another load is called one already"),
            (r#"["a", "b"]"#, r#"["a", "b", "d"]"#, "line 4: no contender is called d; there are a, b, c"),
            (r#"["b"]"#, r#"["c"]"#, "line 15: c is not among the contenders of own"),
            (r#"over = "b""#, r#"over = "d""#, "line 20: finding F1: no contender is called d"),
            (r#"requests = 1"#, "", "line 6: load one: give either requests or seconds"),
        ];
        for (right, wrong, told) in cases {
            assert!(TEXT.contains(right), "{right}");
            let error = check(&TEXT.replacen(right, wrong, 1), &[]).unwrap_err();
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn an_experiment_has_a_name_of_its_own() {
        let other = Experiment::parse(TEXT).unwrap();
        let error = check(TEXT, &[other]).unwrap_err().to_string();
        assert_eq!(error, "line 1: another experiment is called own already");
    }
}

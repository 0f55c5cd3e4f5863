//! The answers to findings: *holds*, *does not hold*, or *cannot be tested here, because …*, each with its evidence.
//!
//! Blocks of one turn are pairs; a ratio is the median of its pairs with a bootstrap interval. That one contender is
//! better than another is said of a full run only where the interval excludes 1, where a twin does not differ as much
//! from its original, and where Holm's correction over all such comparisons of the experiment leaves no doubt. A quick
//! run with fewer turns than a claim needs, or one without repetitions, is indicative.

mod condition;
mod data;
mod pairs;

use std::fmt;

use crate::block::Block;
use crate::experiment::{Experiment, Finding};
use crate::machine::Machine;
use crate::statistics::{Estimate, holm};

use condition::Tested;
use data::Data;

/// The answer to a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The experiment's name.
    pub experiment: String,
    /// The finding's: `F1`.
    pub finding: String,
    /// What was concluded.
    pub claim: String,
    /// Whether it is so.
    pub verdict: Verdict,
    /// Whether the figures only hint at it: a quick run with few turns, or one without repetitions.
    pub indicative: bool,
    /// Whether some of its conditions could not be tested, though the verdict stands without them.
    pub partly: bool,
    /// What each condition came to.
    pub evidence: Vec<Evidence>,
}

/// Whether a finding is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Holds,
    /// It is not.
    DoesNotHold,
    /// It cannot be tested here, because …
    CannotBeTested(String),
}

/// What a condition came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Whether it is met; `None` where it cannot be tested.
    pub holds: Option<bool>,
    /// The figures in words, or why there are none.
    pub text: String,
    /// The ratio, where it is one; of several places the weakest.
    pub ratio: Option<Estimate>,
}

/// Answers all findings of an experiment. The blocks may be those of several experiments.
pub fn answer(experiment: &Experiment, blocks: &[Block], machine: &Machine) -> Vec<Answer> {
    let others = Experiment::built_in().unwrap_or_default();
    answer_from(&Data::measured(experiment, &others, blocks, machine))
}

/// Answers all findings of an experiment by its own published figures.
pub fn answer_published(experiment: &Experiment) -> Vec<Answer> {
    let any = Machine { cores: u32::MAX, ..Machine::default() };
    answer_from(&Data::published(experiment, &any))
}

fn answer_from(data: &Data<'_>) -> Vec<Answer> {
    let test = |finding: &Finding| -> Vec<Tested> {
        finding.holds_when.iter().map(|condition| condition::test(data, condition)).collect()
    };
    let findings = &data.experiment.findings;
    let tested: Vec<Vec<Tested>> = findings.iter().map(test).collect();
    let claims = tested.iter().flatten().flat_map(|tested| match tested {
        Tested::Pairs(pairs) => pairs.p_values(),
        Tested::Fact { .. } | Tested::Open(_) => Vec::new(),
    });
    let mut corrected = holm(&claims.collect::<Vec<f64>>()).into_iter();
    let mut answers = Vec::new();
    for (finding, tested) in findings.iter().zip(&tested) {
        let indicative = tested.iter().any(|tested| match tested {
            Tested::Pairs(pairs) => pairs.indicative(),
            Tested::Fact { quick, .. } => *quick,
            Tested::Open(_) => false,
        });
        let evidence: Vec<Evidence> = tested.iter().map(|tested| evidence(tested, &mut corrected)).collect();
        let verdict = verdict(finding, &evidence);
        answers.push(Answer {
            experiment: data.experiment.id.clone(),
            finding: finding.id.clone(),
            claim: finding.claim.clone(),
            indicative,
            partly: verdict == Verdict::Holds && evidence.iter().any(|evidence| evidence.holds.is_none()),
            verdict,
            evidence,
        });
    }
    answers
}

fn evidence(tested: &Tested, corrected: &mut impl Iterator<Item = f64>) -> Evidence {
    match tested {
        Tested::Pairs(pairs) => {
            let corrected: Vec<f64> = corrected.take(pairs.p_values().len()).collect();
            let judged = pairs.judge(&corrected);
            Evidence { holds: Some(judged.holds), text: judged.text, ratio: Some(judged.estimate) }
        }
        Tested::Fact { holds, text, .. } => Evidence { holds: Some(*holds), text: text.clone(), ratio: None },
        Tested::Open(reason) => Evidence { holds: None, text: reason.clone(), ratio: None },
    }
}

/// One condition that is not met is enough; one that cannot be tested leaves it open, unless the finding does without.
fn verdict(finding: &Finding, evidence: &[Evidence]) -> Verdict {
    if let Some(reason) = &finding.cannot_be_tested {
        return Verdict::CannotBeTested(reason.clone());
    }
    if evidence.iter().any(|evidence| evidence.holds == Some(false)) {
        return Verdict::DoesNotHold;
    }
    let mut reasons: Vec<&str> = Vec::new();
    for open in evidence.iter().filter(|evidence| evidence.holds.is_none()) {
        if !reasons.contains(&open.text.as_str()) {
            reasons.push(&open.text);
        }
    }
    let enough = finding.partly && evidence.iter().any(|evidence| evidence.holds.is_some());
    if reasons.is_empty() || enough { Verdict::Holds } else { Verdict::CannotBeTested(reasons.join("; ")) }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Holds => out.write_str("holds"),
            Verdict::DoesNotHold => out.write_str("does not hold"),
            Verdict::CannotBeTested(reason) => write!(out, "cannot be tested here, because {reason}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partly = if self.partly { ", as far as it can be tested here" } else { "" };
        let indicative = if self.indicative { " (indicative)" } else { "" };
        write!(
            out,
            "{} {}: {} – {}{partly}{indicative}",
            self.experiment, self.finding, self.claim, self.verdict
        )
    }
}

#[cfg(test)]
mod tests;

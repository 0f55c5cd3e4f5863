//! The answers to findings: *holds*, *does not hold*, *undecided*, or *cannot be tested here, because …*, each with its
//! evidence.
//!
//! There is one procedure for every claim ([`PROCEDURE`]). A block is one measurement of one contender under one load.
//! Blocks of one turn are pairs; a ratio is the median of its turns, and turns are resampled for its interval.
//!
//! - A condition asks for a range. It is met if the whole interval lies inside the range, unmet if the whole interval lies
//!   outside, and undecided otherwise. That two are alike within a range with two ends is shown by two one-sided tests.
//! - If one contender is to be better than another, the ratio must also be farther beyond the limit than the noise floor:
//!   the largest difference between the medians of two copies of one program (twins) at the same place.
//! - After Holm's correction over all comparisons of the publication the result must still be significant, whatever the number
//!   of turns. Otherwise it is undecided.
//! - With fewer than six turns there is no verdict. With fewer than 20 a verdict is indicative: noise may be larger than it
//!   seems.
//! - Blocks that began on a busy machine do not count. Blocks that were too short ([`short`]) give no verdict.

mod condition;
mod data;
mod pairs;
mod parts;
mod ratio;
mod short;

use std::fmt;

use crate::judge::statistics::{Estimate, holm};
use crate::model::block::Block;
use crate::model::experiment::{Experiment, Finding, Load};
use crate::model::machine::Machine;

pub use parts::{Comparability, Direction, Parts, Position, Size};
pub use ratio::{Ratio, Test};

use condition::Tested;
use data::{Data, NOT_MEASURED, Row};

/// How every claim is judged, in words. A run states it before it begins.
pub const PROCEDURE: &str = "\
Every claim is judged by one procedure, which is fixed before the run.
- Unit: the turn. A ratio is taken within each turn; the estimate is the median over the turns. If the run has six turns or
  more, every turn starts all processes anew, so that turns are independent of each other.
- Block: one measurement. If the run has six turns or more, a warm-up that does not count precedes it, and it lasts at least two
  seconds: a published number of requests that takes less is repeated within the block. With fewer turns blocks may be shorter.
- Interval: 95 %, by resampling turns 10,000 times (percentiles of the medians, widened for few turns).
- p-value: the level at which that interval reaches the bound; at least 2 / 2^turns.
- Alike within a margin: two one-sided tests of the same kind, each at 5 %.
- Noise floor: the largest difference between the medians of two copies of one program, at the same number of clients, over
  two such pairs of copies (twins). A lead that is not larger counts for nothing.
- Family: all comparisons of one publication (one experiment), by Holm's correction, whatever the number of turns. If a lead
  has to be of a certain size, size and direction are two comparisons. A family of N comparisons needs so many turns that
  N * 2 / 2^turns is below 5 %. With fewer than 20 turns a verdict is marked as indicative; with fewer than 6 there is none.
- Failures: rates, CPU and latencies are those of correct responses. With more than 0.1 % failures each failed request
  counts as 10 s of latency.
";

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
    /// Whether the figures only hint at it: there were fewer turns than a claim needs.
    pub indicative: bool,
    /// Whether some of its conditions could not be tested, though the verdict stands without them.
    pub partly: bool,
    /// Direction, size and comparability.
    pub parts: Parts,
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
    /// The figures allow both: more turns, or a quieter machine, would tell.
    Undecided,
    /// It cannot be tested here, because …
    CannotBeTested(String),
}

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is not.
    Unmet,
    /// The figures allow both.
    Undecided,
    /// It is.
    Met,
    /// It cannot be tested.
    Untested,
}

/// What a condition came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Whether it is met.
    pub outcome: Outcome,
    /// The figures in words, or why there are none.
    pub text: String,
    /// The ratio, if the condition is about one. If it is about several contenders or loads: the one nearest to its limit.
    pub ratio: Option<Estimate>,
    /// Whether the lead is there that a condition asks for, however large, if it asks for one.
    pub direction: Option<Direction>,
    /// What would decide it, if it is undecided.
    pub remedy: Option<Remedy>,
    /// Each ratio that was tested; none if the condition is about failures or was not tested.
    pub ratios: Vec<Ratio>,
}

/// What would decide an undecided condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// About so many turns, if the ratio stays as it is.
    Turns(usize),
    /// A quieter machine: the ratio is so near to its bound that turns alone would hardly decide.
    QuieterMachine,
    /// As many turns as a verdict needs. What those would show is not known.
    EnoughTurns,
}

/// Answers all findings of an experiment. The blocks may be those of several experiments.
pub fn answer(experiment: &Experiment, blocks: &[Block], machine: &Machine) -> Vec<Answer> {
    let others = Experiment::built_in().unwrap_or_default();
    answer_from(&Data::measured(experiment, &others, blocks, machine), &answer_published(experiment))
}

/// The findings that no run on this machine can test, each with the reason: what was published is something else, more cores are
/// needed, or the load cannot be measured yet.
pub fn untestable(experiment: &Experiment, machine: &Machine) -> Vec<(String, String)> {
    let others = Experiment::built_in().unwrap_or_default();
    let data = Data::measured(experiment, &others, &[], machine);
    let source = experiment.source.as_ref().and_then(|source| source.not_comparable.as_ref());
    let reason = |finding: &Finding| -> Option<String> {
        let tested = || finding.holds_when.iter().map(|condition| condition::test(&data, condition));
        let open = tested().find_map(|tested| match tested {
            Tested::Open(reason) if !reason.contains(NOT_MEASURED) && !finding.partly => Some(reason),
            _ => None,
        });
        finding.not_comparable.as_ref().or(source).cloned().or(open)
    };
    experiment.findings.iter().filter_map(|finding| Some((finding.id.clone(), reason(finding)?))).collect()
}

/// Answers all findings of an experiment by its own published figures.
pub fn answer_published(experiment: &Experiment) -> Vec<Answer> {
    let any = Machine { cores: u32::MAX, ..Machine::default() };
    answer_from(&Data::published(experiment, &any), &[])
}

/// `told` has the same findings by the publication's own figures; none while those are what is judged.
fn answer_from(data: &Data<'_>, told: &[Answer]) -> Vec<Answer> {
    let test = |finding: &Finding| -> Vec<Tested> {
        finding.holds_when.iter().map(|condition| condition::test(data, condition)).collect()
    };
    let findings = &data.experiment.findings;
    let tested: Vec<Vec<Tested>> = findings.iter().map(test).collect();
    let claims = tested.iter().flatten().flat_map(|tested| match tested {
        Tested::Pairs(pairs) => pairs.p_values(),
        Tested::Fact { .. } | Tested::Open(_) => Vec::new(),
    });
    let claims: Vec<f64> = claims.collect();
    let (mut corrected, family) = (holm(&claims).into_iter(), claims.len());
    let mut answers = Vec::new();
    for (finding, tested) in findings.iter().zip(&tested) {
        let indicative = tested.iter().any(|tested| match tested {
            Tested::Pairs(pairs) => pairs.indicative(),
            Tested::Fact { indicative, .. } => *indicative,
            Tested::Open(_) => false,
        });
        let evidence: Vec<Evidence> =
            tested.iter().map(|tested| evidence(tested, &mut corrected, family)).collect();
        let told = told.iter().find(|answer| answer.finding == finding.id);
        let parts = parts::of(data, finding, &evidence, told);
        let verdict = verdict(finding, &evidence);
        let verdict = if data.is_measured() { parts::said(verdict, &parts, data, finding) } else { verdict };
        answers.push(Answer {
            experiment: data.experiment.id.clone(),
            finding: finding.id.clone(),
            claim: finding.claim.clone(),
            indicative: indicative && !matches!(verdict, Verdict::CannotBeTested(_)),
            partly: matches!(verdict, Verdict::Holds | Verdict::Undecided)
                && evidence.iter().any(|evidence| evidence.outcome == Outcome::Untested),
            verdict,
            parts,
            evidence,
        });
    }
    answers
}

fn evidence(tested: &Tested, corrected: &mut impl Iterator<Item = f64>, family: usize) -> Evidence {
    let without_ratio = |outcome, text: &str, remedy| Evidence {
        outcome,
        text: text.to_owned(),
        ratio: None,
        direction: None,
        remedy,
        ratios: Vec::new(),
    };
    match tested {
        Tested::Pairs(pairs) => {
            let corrected: Vec<f64> = corrected.take(pairs.p_values().len()).collect();
            pairs.judge(&corrected, family)
        }
        Tested::Fact { outcome, text, remedy, .. } => without_ratio(*outcome, text, *remedy),
        Tested::Open(reason) => without_ratio(Outcome::Untested, reason, None),
    }
}

/// If a condition is unmet, the finding does not hold. Otherwise, if one cannot be tested, the finding cannot be tested,
/// unless it allows that (`partly`) and another condition was tested. This comes before undecided conditions, because more
/// turns would not help. Otherwise one undecided condition makes the finding undecided.
fn verdict(finding: &Finding, evidence: &[Evidence]) -> Verdict {
    let any = |outcome: Outcome| evidence.iter().any(|evidence| evidence.outcome == outcome);
    if any(Outcome::Unmet) {
        return Verdict::DoesNotHold;
    }
    let mut reasons: Vec<&str> = Vec::new();
    for open in evidence.iter().filter(|evidence| evidence.outcome == Outcome::Untested) {
        if !reasons.contains(&open.text.as_str()) {
            reasons.push(&open.text);
        }
    }
    let enough = finding.partly && (any(Outcome::Met) || any(Outcome::Undecided));
    if !reasons.is_empty() && !enough {
        return Verdict::CannotBeTested(reasons.join("; "));
    }
    if any(Outcome::Undecided) { Verdict::Undecided } else { Verdict::Holds }
}

impl Answer {
    /// What would decide the finding, if it is undecided.
    pub fn remedy(&self) -> Option<Remedy> {
        let undecided = self.evidence.iter().filter(|_| self.verdict == Verdict::Undecided);
        undecided.filter_map(|evidence| evidence.remedy).max()
    }
}

impl Verdict {
    /// The verdict in few words, without a reason.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::Undecided => "undecided",
            Verdict::CannotBeTested(_) => "cannot be tested here",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())?;
        match self {
            Verdict::CannotBeTested(reason) => write!(out, ", because {reason}"),
            _ => Ok(()),
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

/// Why nothing can be said of these blocks of one load, if they were too short for that.
pub(crate) fn too_short<'a>(load: &Load, blocks: impl IntoIterator<Item = &'a Block>) -> Option<String> {
    let rows: Vec<Row<'_>> = blocks.into_iter().map(Row::of).collect();
    short::too_short(load, rows.iter())
}

#[cfg(test)]
mod tests;

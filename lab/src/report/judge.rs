//! The answers to findings and the remarks of the audit, as the report shows them.

use crate::block::Block;
use crate::experiment::Experiment;
use crate::machine::Machine;

use super::document::Badge;

/// A finding's answer.
pub(super) struct Answer {
    /// The finding.
    pub(super) finding: String,
    /// Whether it holds.
    pub(super) badge: Badge,
    /// By which figures.
    pub(super) evidence: String,
}

/// The answers to an experiment's findings.
pub(super) fn answers(experiment: &Experiment, blocks: &[Block], machine: &Machine) -> Vec<Answer> {
    let _ = (blocks, machine);
    let answer = |finding: &crate::experiment::Finding| Answer {
        finding: finding.id.clone(),
        badge: Badge::Open,
        evidence: finding.cannot_be_tested.clone().unwrap_or_default(),
    };
    experiment.findings.iter().map(answer).collect()
}

/// What does not fit together in the figures of an experiment.
pub(super) fn remarks(experiment: &Experiment, blocks: &[Block]) -> Vec<String> {
    let _ = (experiment, blocks);
    Vec::new()
}

/// A verdict in words.
pub(super) fn words(badge: Badge) -> &'static str {
    match badge {
        Badge::Yes => "holds",
        Badge::No => "does not hold",
        Badge::Open => "cannot be tested here",
    }
}

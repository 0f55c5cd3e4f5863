//! A ratio as data files have it: what was tested, by which test, and the result.

use super::Outcome;
use crate::judge::statistics::Estimate;

/// A ratio that a condition was tested on.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The number of clients; with the number of cores if the condition has several.
    pub place: String,
    /// The medians of the two figures.
    pub medians: (f64, f64),
    /// The median over the turns, with its 95 % interval. For a lead, a ratio above 1 means that the first is better.
    pub estimate: Estimate,
    /// Turns that both have.
    pub turns: usize,
    /// The bounds of the condition. A lead that names no size has the bound 1.
    pub at_least: Option<f64>,
    /// The upper bound.
    pub at_most: Option<f64>,
    /// The test that gave `p`.
    pub test: Test,
    /// The p-value without correction. `None` for a single turn.
    pub p: Option<f64>,
    /// The p-value after Holm's correction. `None` for a single turn.
    pub p_holm: Option<f64>,
    /// If a lead has to be of a certain size: the p-value of its direction, after the same correction.
    pub p_direction_holm: Option<f64>,
    /// Whether the ratio is as the condition asks.
    pub outcome: Outcome,
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Two-sided, against the bound that is harder to tell from the ratio.
    Bound,
    /// Two one-sided tests: the ratio lies between two bounds.
    Alike,
}

impl Test {
    /// The test's name in data files.
    pub fn name(self) -> &'static str {
        match self {
            Test::Bound => "two-sided bootstrap of the median",
            Test::Alike => "TOST by bootstrap of the median",
        }
    }
}

impl Outcome {
    /// The outcome's name in data files.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Unmet => "not met",
            Outcome::Undecided => "undecided",
            Outcome::Untested => "untested",
        }
    }
}

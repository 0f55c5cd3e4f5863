//! A verdict in three parts: does one lead, by as much as was published, and can the two be compared.

use std::fmt;

use crate::judge::statistics::Estimate;
use crate::model::experiment::{Condition, Finding};

use super::data::Data;
use super::{Answer, Evidence, Verdict};

/// What a verdict consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Whether the one that is said to lead does. `None` where nobody is said to lead.
    pub direction: Option<Direction>,
    /// Where the published ratio lies, for each condition that has one.
    pub sizes: Vec<Size>,
    /// How far what was measured is what was published.
    pub comparability: Comparability,
}

/// Whether a lead is there, however large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The other one leads.
    DoesNotHold,
    /// The interval holds 1, or the lead is no larger than the noise.
    Undecided,
    /// It is.
    Holds,
}

/// A measured ratio beside the published one.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// What was measured.
    pub here: Estimate,
    /// What was published: one ratio, or the ends of a range.
    pub published: (f64, f64),
}

/// How far what was measured is what was published. Machine and versions always differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparability {
    /// Whether contenders run the published configuration. `None` for the lab's own experiments.
    pub as_printed: Option<bool>,
    /// Tools that took the place of published ones.
    pub tools: Vec<String>,
    /// Why it cannot be compared, if it cannot.
    pub not: Vec<String>,
}

/// On which side of the interval the published ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Within it.
    Inside,
    /// What was measured is larger.
    LargerHere,
    /// What was measured is smaller.
    SmallerHere,
}

impl Size {
    /// Where the published ratio lies.
    pub fn position(&self) -> Position {
        match self.here {
            Estimate { low, .. } if low > self.published.1 => Position::LargerHere,
            Estimate { high, .. } if high < self.published.0 => Position::SmallerHere,
            _ => Position::Inside,
        }
    }
}

impl Parts {
    /// Whether the direction holds and a published size does not.
    pub fn only_direction_holds(&self) -> bool {
        let is_inside = |size: &Size| size.position() == Position::Inside;
        self.direction == Some(Direction::Holds) && !self.sizes.iter().all(is_inside)
    }
}

/// The parts of an answer. `told` has the same finding by the publication's own figures.
pub(super) fn of(data: &Data<'_>, finding: &Finding, evidence: &[Evidence], told: Option<&Answer>) -> Parts {
    let mut parts = Parts { comparability: comparability(data, finding), ..Parts::default() };
    for (index, (condition, evidence)) in finding.holds_when.iter().zip(evidence).enumerate() {
        let told = told.and_then(|told| told.evidence.get(index)).and_then(|told| told.ratio);
        let Some(here) = evidence.ratio else { continue };
        let mut published = told.map(|told| (told.median, told.median));
        if let Condition::Better { published: printed, .. } = condition {
            let direction = evidence.direction.unwrap_or(Direction::Undecided);
            parts.direction = Some(parts.direction.map_or(direction, |other| other.min(direction)));
            let ends = printed.iter().copied();
            let ends = ends.clone().reduce(f64::min).zip(ends.reduce(f64::max));
            published = ends.or(published);
        }
        parts.sizes.extend(published.map(|published| Size { here, published }));
    }
    parts
}

fn comparability(data: &Data<'_>, finding: &Finding) -> Comparability {
    let mut found = Comparability::default();
    let Some(source) = &data.experiment.source else { return found };
    found.not.extend(source.not_comparable.clone().or_else(|| finding.not_comparable.clone()));
    // What is asked of another experiment is the lab's own way to test it.
    let own = finding.holds_when.iter().flat_map(Condition::loads).filter(|load| !load.contains('/'));
    for load in own {
        found.as_printed = Some(found.as_printed.unwrap_or(true) && data.is_as_printed(load));
        let not = data.not_comparable(load).map(str::to_owned);
        for (all, new) in
            [(&mut found.tools, data.other_tools(load)), (&mut found.not, not.into_iter().collect())]
        {
            for one in new {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
    }
    found
}

/// The verdict that may be said: what cannot be compared with a publication does not speak against it, and what another
/// system is needed for is not tested.
pub(super) fn said(verdict: Verdict, parts: &Parts, data: &Data<'_>, finding: &Finding) -> Verdict {
    let source = data.experiment.source.as_ref().and_then(|source| source.not_comparable.as_ref());
    let never = finding.not_comparable.as_ref().or(source).cloned();
    let not = Some(parts.comparability.not.join("; "));
    let now = not.filter(|not| verdict == Verdict::DoesNotHold && !not.is_empty());
    never.or(now).map_or(verdict, Verdict::CannotBeTested)
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Direction::Holds => "direction holds",
            Direction::Undecided => "direction undecided",
            Direction::DoesNotHold => "direction does not hold",
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { median, low, high } = self.here;
        let what = match self.position() {
            Position::Inside => "size as published",
            Position::LargerHere => "size does not hold, larger here",
            Position::SmallerHere => "size does not hold, smaller here",
        };
        write!(out, "{what}: {median:.2} ({low:.2} to {high:.2}), published {:.2}", self.published.0)?;
        if self.published.0 < self.published.1 {
            write!(out, " to {:.2}", self.published.1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(as_printed) = self.as_printed else { return Ok(()) };
        let how = if as_printed { "as printed or packaged" } else { "the lab's own configuration" };
        write!(out, "{how}, another machine and other versions")?;
        if !self.tools.is_empty() {
            write!(out, ", another tool: {}", self.tools.join(", "))?;
        }
        if !self.not.is_empty() {
            write!(out, ", not comparable: {}", self.not.join("; "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = self.direction.iter().map(ToString::to_string);
        let sizes = self.sizes.iter().map(ToString::to_string);
        let comparability = Some(self.comparability.to_string()).filter(|words| !words.is_empty());
        let all: Vec<String> = direction.chain(sizes).chain(comparability).collect();
        out.write_str(&all.join("; "))
    }
}

//! The audit: whether figures, published or measured, can be true together. Little's law, lengths that have to
//! be whole numbers, heads, percentiles, memory, networks, tools; and whether a publication's conclusions follow from
//! its own figures.

mod alone;
mod beside;
mod row;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use crate::judge::findings::{self, Outcome, Verdict};
use crate::model::block::Block;
use crate::model::experiment::Experiment;
use crate::model::words;

use row::Row;

/// A load tool that used more than this part of its cores' time had none left.
pub const TOOL_FULL: f64 = 0.95;

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The experiment's name.
    pub experiment: String,
    /// The load's, if it is about one.
    pub load: Option<String>,
    /// The contender's, if it is about one.
    pub contender: Option<String>,
    /// The number of clients, if it is about one.
    pub clients: Option<u32>,
    /// Whether the figures are published; measured otherwise.
    pub published: bool,
    /// What was checked.
    pub rule: Rule,
    /// What does not fit, in plain words.
    pub text: String,
}

/// What is checked; what weighs most against a figure comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// More work is not done in less time, and a repetition is within reach of what it repeats.
    Impossible,
    /// What was concluded follows from the figures.
    Conclusion,
    /// All answered with the same.
    SamePage,
    /// The page is one that a package installs.
    KnownPage,
    /// A network carries it.
    Link,
    /// A transfer ends within the run.
    TransferTime,
    /// Two tools see the same.
    Tools,
    /// A few requests take as long as the run.
    Stragglers,
    /// Bytes are whole.
    WholeBytes,
    /// Memory grows by what a connection takes.
    MemoryPerConnection,
    /// Percentiles rise, and the mean lies among them.
    Percentiles,
    /// Rate times duration is the number of requests.
    Requests,
    /// Heads are as long as the server makes them.
    HeadSize,
    /// Rate times mean time is the number of busy clients.
    LittlesLaw,
    /// The tool has its own cores.
    SharedCores,
    /// The tool has time left.
    ToolBusy,
}

/// Whom a remark is about.
struct About<'a> {
    load: Option<&'a str>,
    contender: Option<&'a str>,
    clients: Option<u32>,
    published: bool,
}

/// Checks the published figures of an experiment, and those of its blocks.
pub fn audit(experiment: &Experiment, blocks: &[Block]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for rows in [Row::published(experiment), Row::measured(experiment, blocks)] {
        for row in &rows {
            let found = alone::CHECKS.iter().filter_map(|(rule, check)| Some((*rule, check(row)?)));
            for (rule, text) in found {
                remarks.push(About::contender(row).remark(experiment, rule, text));
            }
        }
        for (rule, check) in beside::CHECKS {
            let found = check(&rows).into_iter();
            remarks.extend(found.map(|(about, text)| about.remark(experiment, *rule, text)));
        }
    }
    remarks.extend(
        beside::out_of_reach(&Row::published(experiment), &Row::measured(experiment, blocks))
            .into_iter()
            .map(|(about, text)| about.remark(experiment, Rule::Impossible, text)),
    );
    remarks.extend(conclusions(experiment));
    merged(remarks)
}

/// The remarks that weigh most, at most `count`: the first one of each rule, then the second ones, and so on. Remarks on the load
/// tool are not among them, because its headroom is shown beside them.
pub fn weightiest(remarks: &[Remark], count: usize) -> Vec<&Remark> {
    let mut seen: BTreeMap<Rule, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, &Remark)> = Vec::new();
    for remark in remarks.iter().filter(|remark| remark.rule < Rule::SharedCores) {
        let earlier = seen.entry(remark.rule).or_default();
        ranked.push((*earlier, remark));
        *earlier += 1;
    }
    ranked.sort_by_key(|(earlier, remark)| (*earlier, remark.rule));
    ranked.into_iter().take(count).map(|(_, remark)| remark).collect()
}

/// Prints the remarks on an experiment for a terminal.
pub fn print(out: &mut impl Write, experiment: &Experiment, remarks: &[Remark]) -> io::Result<()> {
    writeln!(out, "{}: {}", experiment.id, experiment.title)?;
    if remarks.is_empty() {
        return writeln!(out, "  nothing that does not fit");
    }
    for remark in remarks {
        writeln!(out, "  {remark}")?;
    }
    Ok(())
}

impl<'a> About<'a> {
    fn contender(row: &'a Row<'_>) -> About<'a> {
        About { contender: Some(row.contender), clients: row.clients, ..About::load(row) }
    }

    fn load(row: &'a Row<'_>) -> About<'a> {
        About { load: Some(&row.load.id), contender: None, clients: None, published: row.published.is_some() }
    }

    fn remark(&self, experiment: &Experiment, rule: Rule, text: String) -> Remark {
        Remark {
            experiment: experiment.id.clone(),
            load: self.load.map(str::to_owned),
            contender: self.contender.map(str::to_owned),
            clients: self.clients,
            published: self.published,
            rule,
            text,
        }
    }
}

/// Findings that the publication's own figures contradict.
fn conclusions(experiment: &Experiment) -> Vec<Remark> {
    let nobody = About { load: None, contender: None, clients: None, published: true };
    let answers = findings::answer_published(experiment).into_iter();
    let wrong = answers.filter(|answer| answer.verdict == Verdict::DoesNotHold).map(|answer| {
        let against = answer.evidence.iter().filter(|evidence| evidence.outcome == Outcome::Unmet);
        let against: Vec<&str> = against.map(|evidence| evidence.text.as_str()).collect();
        let text = format!(
            "{} does not follow from the published figures. It says: {}. {}.",
            answer.finding,
            answer.claim,
            against.join(". ")
        );
        nobody.remark(experiment, Rule::Conclusion, text)
    });
    wrong.collect()
}

/// One remark for all that a rule finds of a contender under a load, or, where it was measured, of the load.
fn merged(remarks: Vec<Remark>) -> Vec<Remark> {
    let mut merged: Vec<(Remark, usize)> = Vec::new();
    for remark in remarks {
        let same = |(other, _): &&mut (Remark, usize)| {
            let contender = !remark.published || other.contender == remark.contender;
            other.rule == remark.rule
                && other.published == remark.published
                && other.load == remark.load
                && contender
        };
        match merged.iter_mut().find(same) {
            Some((_, more)) if remark.load.is_some() => *more += 1,
            _ => merged.push((remark, 0)),
        }
    }
    let finish = |(mut remark, more): (Remark, usize)| {
        match more {
            0 => {}
            1 => remark.text.push_str(" The like is true of one more measurement."),
            _ => remark.text.push_str(&format!(" The like is true of {more} more measurements.")),
        }
        remark
    };
    merged.into_iter().map(finish).collect()
}

impl fmt::Display for Remark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.published { "published" } else { "measured" })?;
        if let Some(load) = &self.load {
            write!(out, ", {load}")?;
        }
        if let Some(contender) = &self.contender {
            write!(out, ", {contender}")?;
        }
        if let Some(clients) = self.clients {
            write!(out, ", {}", words::clients(clients))?;
        }
        write!(out, ": {}", self.text)
    }
}

#[cfg(test)]
mod tests;

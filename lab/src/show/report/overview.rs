//! The first page: who leads, which findings hold, what to choose, and what it costs.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::Chart;
use super::choices::{choices, faultless};
use super::claims;
use super::document::{Badge, Entry, Group, Part, Row, Section, Span, Table, Target, Text, slug};
use super::doubts;
use super::format;
use super::leads::Leads;
use super::plots::{Plots, Styles};
use super::prices::Prices;
use super::summary::{Summary, Work};
use super::verdict;
use crate::judge::audit::Remark;
use crate::judge::findings::{Answer, Remedy};
use crate::judge::statistics::FEWEST;
use crate::model::block::{Block, original_of};
use crate::model::experiment::{Experiment, TURNS};

/// The verdicts, in the order in which they are counted.
const VERDICTS: [Badge; 4] = [Badge::Yes, Badge::No, Badge::Undecided, Badge::Open];

/// What the first page is made of.
pub(super) struct Overview<'a> {
    /// What was measured.
    pub(super) summary: &'a Summary<'a>,
    /// The works, experiment by experiment.
    pub(super) works: &'a [Work<'a>],
    /// Who leads in them.
    pub(super) leads: &'a Leads<'a>,
    /// The experiments with the answers to their findings.
    pub(super) answers: &'a [(&'a Experiment, Vec<Answer>)],
    /// What the audit says of all experiments.
    pub(super) remarks: &'a [Remark],
    /// The prices.
    pub(super) prices: &'a Prices,
    /// The styles of the charts.
    pub(super) styles: &'a Styles,
}

impl Overview<'_> {
    /// The sections of the first page.
    pub(super) fn sections(&self) -> Vec<Section> {
        let section = |id: &str, title: &str, parts: Vec<Part>| {
            let group = Group::Overview;
            (!parts.is_empty()).then(|| Section { id: id.into(), title: title.into(), parts, group })
        };
        let sections = [
            section("short", "In short", self.in_short()),
            section("leads", "Which server is fastest, and how sure that is", self.leads.overview()),
            section("findings", "Which published findings hold", self.findings(true)),
            section("own-questions", "The lab's own questions", self.findings(false)),
            section("choices", "What to choose when", self.choices()),
            section("costs", "What it costs", self.costs()),
        ];
        sections.into_iter().flatten().collect()
    }

    /// What fits on one screen: which server to use, what was claimed and its result, and how sure that is.
    fn in_short(&self) -> Vec<Part> {
        let claims = claims::repeated(self.answers);
        let mut table = self.leads.uses();
        if let Some(claim) = claims.first() {
            // On a phone the first rows alone are seen without scrolling.
            table.rows.insert(0, Row::Cells(claim.row().map(Entry::from).into()));
        }
        let mut left = if table.rows.is_empty() { Vec::new() } else { vec![Part::Table(table)] };
        if self.leads.all.is_empty() && !self.works.is_empty() {
            let words =
                "No server is ranked: every run began while other programs kept the machine busy, or failed.";
            left.push(Part::Note(words.into()));
        }
        left.extend(self.published_in_short().map(Part::Text));
        let picture = claims::picture(&claims).or_else(|| self.first_chart());
        let programs = programs(self.summary.blocks());
        let mut parts = match picture {
            Some(chart) if !left.is_empty() => {
                let mut right = vec![Part::Charts(vec![chart])];
                right.extend(names(&programs).map(Part::Text));
                vec![Part::Columns([left, right])]
            }
            _ => left,
        };
        let items = self.sure_in_short();
        if !items.is_empty() {
            parts.push(Part::List(items));
        }
        parts.extend(self.audit_in_short());
        let list = |names: &BTreeSet<&str>| {
            format::list(&names.iter().copied().map(str::to_owned).collect::<Vec<_>>())
        };
        let program = |(program, names): (&Program<'_>, &BTreeSet<&str>)| {
            Text::from(format!("{}: {} ({})", list(names), program.version, program.origin))
        };
        let programs: Vec<Text> = programs.iter().map(program).collect();
        if !programs.is_empty() {
            parts
                .push(Part::Fold("The programs, with version and origin".into(), vec![Part::List(programs)]));
        }
        parts
    }

    /// Where no publication was repeated, the first load that answers a question is the picture.
    fn first_chart(&self) -> Option<Chart> {
        let work = self.works.iter().find(|work| work.load.need.is_some())?;
        let clients = work.clients.last().copied()?;
        let plots = Plots { summary: self.summary, work, clients, styles: self.styles, full: false };
        let chart = plots.all().into_iter().next()?;
        Some(Chart { title: format!("{}: {}", work.title(), chart.title), ..chart })
    }

    /// The result of the published findings.
    fn published_in_short(&self) -> Option<Text> {
        let counts @ [yes, no, undecided, open] = self.counts(true);
        let all: usize = counts.iter().sum();
        let words = format!(
            "of {all} findings {yes} hold on this machine, {no} do not, {undecided} are undecided, and {open} cannot be \
             tested here. "
        );
        let link = Span::Link("Each with its evidence".into(), Target::Here("findings".into()));
        (all > 0).then(|| Text::default().stress("What was published: ").say(words).and(link).say("."))
    }

    fn sure_in_short(&self) -> Vec<Text> {
        let mut items = self.leads.in_short();
        items.extend(doubts::headroom(self.summary, self.works));
        if let Some(choice) = choices(self.summary, self.works).into_iter().next() {
            let indicative = choice.turns.map(|turns| format!(" ({})", indicative(turns)));
            items.push(
                Text::default()
                    .stress("What to choose: ")
                    .say(format!(
                        "for {}: {}{}. ",
                        choice.need,
                        format::list(&choice.first),
                        indicative.unwrap_or_default()
                    ))
                    .and(Span::Link("Other needs have other answers".into(), Target::Here("choices".into())))
                    .say("."),
            );
        }
        items
    }

    /// What the audit says of the experiments that were run.
    fn audit_in_short(&self) -> Vec<Part> {
        let was_run = |id: &str| self.works.iter().any(|work| work.experiment.id == id);
        let experiments: Vec<&Experiment> = self
            .answers
            .iter()
            .map(|(experiment, _)| *experiment)
            .filter(|experiment| was_run(&experiment.id))
            .collect();
        let remarks: Vec<Remark> =
            self.remarks.iter().filter(|remark| was_run(&remark.experiment)).cloned().collect();
        doubts::audit(&experiments, &remarks)
    }

    /// How many findings of what was run have each verdict, in the order of [`VERDICTS`]: those of publications, or the
    /// lab's own.
    fn counts(&self, published: bool) -> [usize; 4] {
        let was_run =
            |experiment: &Experiment| self.works.iter().any(|work| work.experiment.id == experiment.id);
        let run = self
            .answers
            .iter()
            .filter(|(experiment, _)| was_run(experiment) && experiment.source.is_some() == published);
        let badges: Vec<Badge> = run.flat_map(|(_, answers)| answers).map(verdict::badge).collect();
        VERDICTS.map(|badge| badges.iter().filter(|other| **other == badge).count())
    }

    /// The findings of publications, or the lab's own questions.
    fn findings(&self, published: bool) -> Vec<Part> {
        let was_run =
            |experiment: &Experiment| self.works.iter().any(|work| work.experiment.id == experiment.id);
        let (run, not_run): (Vec<_>, Vec<_>) = self
            .answers
            .iter()
            .filter(|(experiment, answers)| !answers.is_empty() && experiment.source.is_some() == published)
            .partition(|(experiment, _)| was_run(experiment));
        let counts @ [yes, no, undecided, open] = self.counts(published);
        let all: usize = counts.iter().sum();
        if all == 0 {
            return Vec::new();
        }
        let mut table = Table::new(
            "Findings by experiment; each leads to its evidence",
            ["Experiment", "#hold", "#do not", "#undecided", "#not testable here", "Findings"],
        );
        for (experiment, answers) in &run {
            let count = |badge: Badge| {
                answers.iter().filter(|answer| verdict::badge(answer) == badge).count().to_string()
            };
            let title = Span::Link(experiment.title.clone(), Target::Here(slug(&experiment.id)));
            let mut cells: Vec<Entry> = vec![Text::from(title).into()];
            cells.extend(VERDICTS.map(|badge| Entry::from(count(badge))));
            cells.push(marks(experiment, answers).into());
            table.row(cells);
        }
        let whose = if published { "published findings" } else { "answers to the lab's own questions" };
        let sentence = Text::default()
            .stress(yes.to_string())
            .say(format!(" of the {all} {whose} hold on this machine, "))
            .stress(no.to_string())
            .say(" do not, ")
            .stress(undecided.to_string())
            .say(" are undecided, and ")
            .stress(open.to_string())
            .say(format!(
                " cannot be tested here; each says why. A verdict needs {FEWEST} turns.{}",
                undecided_words(run.iter().flat_map(|(_, answers)| answers))
            ));
        let mut parts = vec![Part::Text(sentence), Part::Table(table)];
        if !not_run.is_empty() {
            let names: Vec<String> = not_run.iter().map(|(experiment, _)| experiment.title.clone()).collect();
            parts.push(Part::Text(format!("Not run, and so not answered: {}.", format::list(&names)).into()));
        }
        parts
    }

    fn choices(&self) -> Vec<Part> {
        let choices = choices(self.summary, self.works);
        if choices.is_empty() {
            return Vec::new();
        }
        let mut table =
            Table::new("What follows from the figures above", ["You need", "Choose", "The next", "The rule"]);
        for choice in choices {
            let mut next = Text::from(choice.next.map_or_else(
                || if choice.first.is_empty() { "–" } else { "all are as good" }.into(),
                |(name, share)| format!("{name}, {}", format::percent(share)),
            ));
            if !choice.failed.is_empty() {
                next = next.say(format!("; not chosen, for failures: {}", format::list(&choice.failed)));
            }
            let indicative = choice.turns.map(indicative).unwrap_or_default();
            let first = match choice.first.is_empty() {
                true => Text::from("none: two copies of one program differ by too much"),
                false => Text::default().stress(format::list(&choice.first)).aside(indicative),
            };
            table.row([choice.need.into(), first, next, choice.rule.into()]);
        }
        if let Some(found) = faultless(self.summary, self.works) {
            let mut next = match found.bad.is_empty() {
                true => "none failed".to_owned(),
                false => format!("failures: {}", format::list(&found.bad)),
            };
            if !found.absent.is_empty() {
                next.push_str(&format!("; not in all of these loads: {}", format::list(&found.absent)));
            }
            let first = Text::default().stress(format::list(&found.good));
            table.row(["no failed request".into(), first, next.into(), found.rule.into()]);
        }
        let mut words = "The choice rests on what was measured here and on nothing else: not on features, habits or names. \
                     Servers within 3 %, or within the noise floor, are as good a choice.".to_owned();
        if self.works.iter().any(|work| work.indicative) {
            words.push_str(" Of fewer turns than a claim needs it is only indicative.");
        }
        vec![Part::Text(words.into()), Part::Table(table)]
    }
}

/// What undecided means, and what would decide.
fn undecided_words<'a>(answers: impl Iterator<Item = &'a Answer>) -> String {
    let remedies: Vec<Remedy> = answers.filter_map(Answer::remedy).collect();
    if remedies.is_empty() {
        return String::new();
    }
    let count = |is_it: &dyn Fn(Remedy) -> bool| remedies.iter().filter(|remedy| is_it(**remedy)).count();
    let claim = TURNS as usize;
    let of_each = [
        (
            count(&|one| one == Remedy::EnoughTurns),
            format!("have fewer turns than a verdict needs ({FEWEST})"),
        ),
        (
            count(&|one| one <= Remedy::Turns(claim)),
            format!("would be decided by {claim} turns, if the ratios stay"),
        ),
        (
            count(&|one| matches!(one, Remedy::Turns(turns) if turns > claim)),
            "would be decided by up to 100 turns".to_owned(),
        ),
        (
            count(&|one| one == Remedy::QuieterMachine),
            "lie so near to their bounds that 100 turns would hardly decide".to_owned(),
        ),
    ];
    let of_each = of_each.iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = of_each.map(|(count, words)| format!("{count} {words}")).collect();
    format!(" Undecided means that the figures allow both: {}.", said.join("; "))
}

/// A program that was measured.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Program<'a> {
    /// The first word of the names of its contenders.
    name: &'a str,
    version: &'a str,
    origin: &'a str,
}

/// The programs that were measured, with the names of their contenders.
fn programs(blocks: &[Block]) -> BTreeMap<Program<'_>, BTreeSet<&str>> {
    let mut programs: BTreeMap<Program<'_>, BTreeSet<&str>> = BTreeMap::new();
    let known = |block: &&Block| original_of(&block.cell.contender).is_none() && !block.version.is_empty();
    for block in blocks.iter().filter(known) {
        let name = block.cell.contender.split('-').next().unwrap_or_default();
        let program = Program { name, version: &block.version, origin: &block.origin };
        programs.entry(program).or_default().insert(&block.cell.contender);
    }
    programs
}

/// What a reader of the first page needs to know of the names: which programs of one name there are, and that Apache's
/// names end in its process model.
fn names(programs: &BTreeMap<Program<'_>, BTreeSet<&str>>) -> Option<Text> {
    let is_twice = |name: &str| programs.keys().filter(|program| program.name == name).count() > 1;
    let twice = programs.iter().filter(|(program, _)| is_twice(program.name));
    let mut words: Vec<String> = twice
        .filter_map(|(program, names)| {
            let first = names.first()?;
            Some(format!("{first} is {} {} ({})", program.name, program.version, program.origin))
        })
        .collect();
    if programs.values().flatten().any(|name| name.starts_with("apache-")) {
        words.push("the word after “apache-” is Apache's process model".to_owned());
    }
    (!words.is_empty()).then(|| Text::default().stress("Names: ").say(format!("{}.", words.join("; "))))
}

/// What is said next to a choice that no claim rests on.
fn indicative(turns: usize) -> String {
    format!("indicative: {}", format::counted(turns, "measurement"))
}

/// A short mark for each finding, that leads to it.
fn marks(experiment: &Experiment, answers: &[Answer]) -> Text {
    let mut text = Text::default();
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 {
            text = text.say(" ");
        }
        let target = Target::Here(slug(&format!("{}-{}", experiment.id, answer.finding)));
        text = text.and(Span::Link(format!("{}\u{a0}{}", answer.finding, verdict::sign(answer)), target));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    #[test]
    fn names_of_two_programs_are_explained() {
        let of = |name: &str, version: &str| Block { version: version.into(), ..block(name, "l", 1, &[]) };
        let said =
            |blocks: &[Block]| names(&programs(blocks)).map(|text| format!("{text:?}")).unwrap_or_default();
        let mut blocks = vec![of("nginx", "1.31"), of("nginx-apache", "1.31"), of("fulmar", "0.2")];
        assert_eq!(said(&blocks), "");
        blocks.push(of("nginx-debian", "1.22"));
        let two = "nginx-debian is nginx 1.22 (made); nginx is nginx 1.31 (made).";
        assert!(said(&blocks).contains(two), "{}", said(&blocks));
        blocks.push(of("apache-event", "2.4"));
        assert!(said(&blocks).contains("process model"));
    }
}

//! One experiment in full: what was asked and published, what was measured, and the evidence for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::chart::Chart;
use super::document::{Entry, Group, Part, Section, Span, Table, Target, Text, slug};
use super::evidence::{self, Evidence};
use super::plots::{Plots, Styles};
use super::summary::{Summary, Work};
use super::{Form, failures, format, verdict};
use crate::judge::audit::Remark;
use crate::judge::findings::{Answer, Verdict};
use crate::judge::statistics::median;
use crate::model::block::Cell;
use crate::model::experiment::{Experiment, Generator, Published};
use crate::model::figure::{Figure, Phase, Spread};
use crate::model::order::{Amount, Protocol};
use crate::model::words;

/// A table shows so many numbers of clients; the rest is in the CSV file.
const CLIENTS_MAX: usize = 8;
/// The figures of the table of what was measured; the rest is in the CSV file.
const FIGURES: &[Figure] = &[
    Figure::RequestsPerS,
    Figure::BytesPerS,
    Figure::P50Ms,
    Figure::P99Ms,
    Figure::MaxMs,
    Figure::Failed,
    Figure::CpuUsPerRequest,
    Figure::CpuPercent,
    Figure::MemoryBytes,
    Figure::MemoryPerConnectionBytes,
    Figure::Connections,
];

/// What the section of an experiment is made of.
pub(super) struct Detail<'a> {
    /// The folder of results, for raw output and configurations.
    pub(super) out: &'a Path,
    /// What was measured.
    pub(super) summary: &'a Summary<'a>,
    /// The experiment.
    pub(super) experiment: &'a Experiment,
    /// The answers to its findings.
    pub(super) answers: &'a [Answer],
    /// What the audit says of its figures.
    pub(super) remarks: &'a [&'a Remark],
    /// Who leads in it.
    pub(super) leads: Option<Part>,
    /// The styles of the charts.
    pub(super) styles: &'a Styles,
    /// Whether commands, output and configurations are shown in full.
    pub(super) form: Form,
}

impl Detail<'_> {
    /// The section.
    pub(super) fn section(mut self) -> Section {
        let works = self.summary.works(self.experiment);
        let mut parts = vec![Part::Text(Text::default().stress(self.experiment.question.clone()))];
        if works.is_empty() {
            parts.push(Part::Note("This experiment was not run.".into()));
        }
        let mut loads: Vec<Part> = Vec::new();
        for (index, work) in works.iter().enumerate() {
            let mut charts = self.charts(work, self.form == Form::Whole || index == 0);
            // The first chart is seen without scrolling; the others are in the load's own fold.
            if index == 0 && !charts.is_empty() {
                let chart = vec![Part::Heading(work.title()), Part::Charts(vec![charts.remove(0)])];
                match self.verdicts() {
                    verdicts if verdicts.is_empty() => parts.extend(chart),
                    verdicts => parts.push(Part::Columns([chart, verdicts])),
                }
            }
            loads.push(Part::Fold(work.title(), self.work(work, charts)));
        }
        parts.extend(self.leads.take());
        parts.extend(self.findings());
        parts.extend(self.published(&works));
        parts.extend(self.audit());
        let introduction = match &self.experiment.source {
            Some(_) => "The publication, and what is different here",
            None => "How it is measured",
        };
        parts.push(Part::Fold(introduction.into(), self.introduction()));
        if !loads.is_empty() {
            parts.push(Part::Heading("Every load in full".into()));
        }
        parts.extend(loads);
        parts.extend(failures::of_experiment(self.summary, self.experiment));
        if self.form == Form::Whole {
            parts.extend(self.configurations(&works));
        }
        let title = self.experiment.title.clone();
        Section { id: slug(&self.experiment.id), title, parts, group: Group::Experiment }
    }

    fn introduction(&self) -> Vec<Part> {
        let experiment = self.experiment;
        let mut parts = Vec::new();
        if let Some(source) = &experiment.source {
            let authors =
                if source.authors.is_empty() { String::new() } else { format!("{}, ", source.authors) };
            let generator = match source.generator {
                Generator::SameMachine => " The load came from the same machine.",
                Generator::OtherMachine => " The load came from another machine.",
                Generator::Unknown => " Where the load came from is not said.",
            };
            let machine = source.machine.trim_end_matches('.');
            let cited =
                format!("Published: {authors}“{}”, {}. {machine}.{generator}", source.title, source.year);
            parts.push(Part::Text(cited.into()));
        } else {
            parts.push(Part::Text("The lab's own question; nothing was published to compare with.".into()));
        }
        if !experiment.departures.is_empty() {
            let is_published = experiment.source.is_some();
            let lead = if is_published { "What is different here:" } else { "What to know of it:" };
            parts.push(Part::Text(lead.into()));
            parts.push(Part::List(experiment.departures.iter().map(|words| words.clone().into()).collect()));
        }
        parts
    }

    /// Each finding with its verdict, which leads to the evidence. Findings that cannot be tested for the same reason are
    /// one item, which tells the reason.
    fn verdicts(&self) -> Vec<Part> {
        if self.answers.is_empty() {
            return Vec::new();
        }
        let item = |answer: &Answer| {
            let target = Target::Here(slug(&format!("{}-{}", self.experiment.id, answer.finding)));
            let badge = Span::BadgeLink(verdict::badge(answer), verdict::word(answer).into(), target);
            let alike = self.alike(answer);
            let words = match (&answer.verdict, &alike[..]) {
                (_, []) => return None,
                (Verdict::CannotBeTested(reason), [_, _, ..]) => {
                    let names: Vec<String> = alike.iter().map(|other| other.finding.clone()).collect();
                    format!("{}: {reason}", format::list(&names))
                }
                _ => answer.claim.clone(),
            };
            Some(Text::from(badge).say(format!(" {words}")))
        };
        let title = if self.experiment.source.is_some() { "What was published" } else { "What was asked" };
        vec![Part::Heading(title.into()), Part::List(self.answers.iter().filter_map(item).collect())]
    }

    /// The findings that have the verdict of this one for the same reason; none where an earlier finding has it.
    fn alike(&self, answer: &Answer) -> Vec<&Answer> {
        let is_alike = |other: &&Answer| match &other.verdict {
            Verdict::CannotBeTested(_) => other.verdict == answer.verdict,
            _ => other.finding == answer.finding,
        };
        let alike: Vec<&Answer> = self.answers.iter().filter(is_alike).collect();
        if alike.first().is_some_and(|first| first.finding == answer.finding) { alike } else { Vec::new() }
    }

    fn findings(&self) -> Vec<Part> {
        if self.experiment.findings.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(
            "The published findings, and what they come to here",
            ["Finding", "What was concluded", "Verdict", "Evidence"],
        );
        let anchored = |answer: &&Answer| {
            let anchor = Span::Anchor(slug(&format!("{}-{}", self.experiment.id, answer.finding)));
            Text::from(anchor).say(answer.finding.clone())
        };
        for answer in self.answers {
            let alike = self.alike(answer);
            let claim = |other: &&Answer| match &alike[..] {
                [_] => Text::from(other.claim.clone()),
                _ => Text::from(format!("{}: {}", other.finding, other.claim)),
            };
            if !alike.is_empty() {
                let names = Text::lines(alike.iter().map(anchored));
                let claims = Text::lines(alike.iter().map(claim));
                table.row([names, claims, verdict::verdict(answer), verdict::evidence(&alike)]);
            }
        }
        vec![Part::Heading("Findings".into()), Part::Table(table)]
    }

    fn audit(&self) -> Vec<Part> {
        if self.remarks.is_empty() {
            return Vec::new();
        }
        let items = self.remarks.iter().map(|remark| remark.to_string().into()).collect();
        let title = format!(
            "What does not fit together in the figures: {}",
            format::counted(self.remarks.len(), "remark")
        );
        vec![Part::Fold(title, vec![Part::List(items)])]
    }

    /// Published next to measured: a row a figure, two columns a contender.
    fn published(&self, works: &[Work<'_>]) -> Vec<Part> {
        let published = &self.experiment.published;
        let stated: Vec<Text> = self
            .experiment
            .stated
            .iter()
            .filter(|one| one.feature.is_none())
            .map(|one| {
                Text::default().stress(one.subject.clone()).say(format!(", {}: {}", one.contender, one.says))
            })
            .collect();
        let stated = (!stated.is_empty())
            .then(|| [Part::Heading("Published, and no figure".into()), Part::List(stated)]);
        if published.is_empty() {
            return stated.into_iter().flatten().collect();
        }
        let mut contenders: Vec<&str> = Vec::new();
        for one in published {
            if !contenders.contains(&one.contender.as_str()) {
                contenders.push(&one.contender);
            }
        }
        let columns =
            contenders.iter().flat_map(|name| [format!("#{name}, published"), format!("#{name}, here")]);
        let columns = std::iter::once("Figure".to_owned()).chain(columns);
        let caption = "Absolute numbers differ between machines; what is tested is the findings";
        let mut table = Table::new(caption, columns);
        for ((load, clients, cores), of_place) in self.places() {
            let title =
                self.experiment.loads.iter().find(|known| known.id == load).map_or(load, |load| &load.title);
            let clients_named =
                clients.map(|count| format!("{} clients", format::count(count))).unwrap_or_default();
            let title = format::titled(title, &clients_named);
            table.group(format::titled(&title, &cores.map(format::cores).unwrap_or_default()));
            for row in self.rows(works, &contenders, (load, clients, cores), &of_place) {
                table.row(row);
            }
        }
        if works.is_empty() {
            let parts = std::iter::once(Part::Table(table)).chain(stated.into_iter().flatten());
            return vec![Part::Fold("What was published".into(), parts.collect())];
        }
        let parts = std::iter::once(Part::Table(table)).chain(stated.into_iter().flatten());
        vec![Part::Fold("Published beside measured".into(), parts.collect())]
    }

    /// A row for each figure and each phase that was published of a place.
    fn rows(
        &self,
        works: &[Work<'_>],
        contenders: &[&str],
        place: Place<'_>,
        published: &[&Published],
    ) -> Vec<Vec<Entry>> {
        let of = |name: &str| published.iter().find(|one| one.contender == name);
        let figures: BTreeSet<Figure> =
            published.iter().flat_map(|one| one.figures.keys().copied()).collect();
        let mut rows: Vec<Vec<Entry>> = Vec::new();
        for figure in figures {
            let (title, scale) = format::unit(figure);
            let mut cells: Vec<Entry> = vec![title.into()];
            for name in contenders {
                let told = of(name).and_then(|one| one.figures.get(&figure));
                cells.push(told.map_or_else(|| "–".into(), |value| format::tick(value / scale)).into());
                cells.push(self.here(works, place, name, figure).into());
            }
            rows.push(cells);
        }
        let phases: BTreeSet<Phase> = published.iter().flat_map(|one| one.phases.keys().copied()).collect();
        for phase in phases {
            let title = format!("{}, ms: {}", phase.title(), Spread::NAMES.join(", "));
            let mut cells: Vec<Entry> = vec![title.into()];
            for name in contenders {
                let told = of(name).and_then(|one| one.phases.get(&phase));
                cells.push(told.map_or_else(|| "–".into(), |told| spread(*told)).into());
                cells.push(self.spread_here(works, place, name, phase).into());
            }
            rows.push(cells);
        }
        rows
    }

    /// Published figures by load, clients and cores, in the order of the file.
    fn places(&self) -> Vec<(Place<'_>, Vec<&Published>)> {
        let mut places: Vec<(Place<'_>, Vec<&Published>)> = Vec::new();
        for one in &self.experiment.published {
            let place = (one.load.as_str(), one.clients, one.cores);
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, all)) => all.push(one),
                None => places.push((place, vec![one])),
            }
        }
        places
    }

    /// What was measured where something was published. Where clients or cores were not published, the most that
    /// were measured stand for them.
    fn here(&self, works: &[Work<'_>], place: Place<'_>, name: &str, figure: Figure) -> Text {
        let Some(cell) = cell_of(works, place, name) else { return "not measured".into() };
        let estimate = self.summary.estimate(&cell, figure);
        estimate
            .map_or_else(|| "not measured".into(), |(value, turns)| format::estimate(figure, value, turns))
    }

    /// The medians over all turns of a phase's five numbers, where the tool that was used here tells them.
    fn spread_here(&self, works: &[Work<'_>], place: Place<'_>, name: &str, phase: Phase) -> String {
        let Some(cell) = cell_of(works, place, name) else { return "not measured".into() };
        let told = self.summary.measured(&cell).into_iter().filter_map(|block| block.phases.get(&phase));
        let turns: Vec<[f64; 5]> = told.map(|spread| (*spread).into()).collect();
        if turns.is_empty() {
            return "not measured".into();
        }
        let number = |at| median(&turns.iter().map(|times| times[at]).collect::<Vec<_>>());
        spread(Spread::from([0, 1, 2, 3, 4].map(number)))
    }

    /// The number of clients of charts that show one only.
    fn clients(&self, work: &Work<'_>) -> u32 {
        let clients = self.summary.lead(work, work.drawn()).map(|lead| lead.clients);
        clients.or(work.clients.last().copied()).unwrap_or_default()
    }

    fn charts(&self, work: &Work<'_>, full: bool) -> Vec<Chart> {
        let clients = self.clients(work);
        Plots { summary: self.summary, work, clients, styles: self.styles, full }.all()
    }

    fn work(&self, work: &Work<'_>, charts: Vec<Chart>) -> Vec<Part> {
        let clients = self.clients(work);
        let mut parts = vec![Part::Text(self.described(work))];
        if !charts.is_empty() {
            parts.push(Part::Charts(charts));
        }
        parts.push(Part::Table(self.measured(work)));
        parts.extend(match self.form {
            Form::Whole => self.commands(work, clients),
            Form::Brief => self.command(work, clients),
        });
        parts
    }

    fn described(&self, work: &Work<'_>) -> Text {
        let load = work.load;
        let amount = match load.amount(work.quick) {
            Some(Amount::Requests(requests)) => {
                format!("{} requests at each number of clients", format::count(requests))
            }
            Some(Amount::Seconds(seconds)) => {
                format!("{} s at each number of clients", format::number(seconds))
            }
            None => "connections that are used once and then left idle".to_owned(),
        };
        let quick = if work.quick { " in a quick run" } else { "" };
        let is_part = |_: &f64| !work.quick || load.is_smaller_when_quick();
        let part = work
            .share
            .filter(is_part)
            .map_or_else(String::new, |share| format!(", of which runs had {}", format::percent(share)));
        let rate =
            load.rate.map(|rate| format!(", {} requests/s in all", format::number(rate))).unwrap_or_default();
        let pipeline =
            if load.pipeline > 1 { format!(", {} in flight on each", load.pipeline) } else { String::new() };
        let behind = load.backend.as_ref().map(|name| format!(", passed on to {name}")).unwrap_or_default();
        let application =
            load.application.as_ref().map(|name| format!(", the application {name}")).unwrap_or_default();
        let connections =
            if load.keep_alive { "connections are kept" } else { "a connection for each request" };
        let tls = match load.tls {
            Some(tls) if tls.resume => ", TLS with sessions that are resumed",
            Some(_) => ", TLS with a new session for each connection",
            None => "",
        };
        let protocol = if load.protocol == Protocol::Http2 { ", HTTP/2" } else { "" };
        let cores = if load.one_core { ", all programs on one core" } else { "" };
        let configuration = format!("{:?}", load.configuration).to_lowercase();
        let options: String = load.options.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        Text::default()
            .and(Span::Code(load.path.clone()))
            .say(format!(", {amount}{quick}{part}{rate}, {connections}{pipeline}{protocol}{tls}{behind}{application}{cores}; {configuration} configurations{options}."))
    }

    fn measured(&self, work: &Work<'_>) -> Table {
        let shown = chosen(&work.clients);
        let has = |figure: &&Figure| {
            let cells =
                shown.iter().flat_map(|clients| work.contenders.iter().map(|name| work.cell(name, *clients)));
            cells.into_iter().any(|cell| !self.summary.turns(&cell, **figure).is_empty())
        };
        let figures: Vec<Figure> = FIGURES.iter().filter(has).copied().collect();
        let columns = figures.iter().map(|figure| format!("#{}", format::unit(*figure).0));
        let columns = std::iter::once("Server".to_owned()).chain(columns).chain(["#turns".to_owned()]);
        let left_out = work.clients.len() - shown.len();
        let more = if left_out > 0 {
            format!("; {left_out} more numbers of clients are in the CSV file")
        } else {
            String::new()
        };
        let mut table = Table::new(format!("Measured: medians with 95 % intervals{more}"), columns);
        for clients in shown {
            table.group(work.at(clients));
            for name in &work.contenders {
                let cell = work.cell(name, clients);
                let turns = self.summary.measured(&cell).len();
                let mut cells = vec![Text::from(*name)];
                cells.extend(figures.iter().map(|figure| {
                    let estimate = self.summary.estimate(&cell, *figure);
                    estimate
                        .map_or_else(|| "–".into(), |(value, turns)| format::estimate(*figure, value, turns))
                }));
                cells.push(turns.to_string().into());
                table.row(cells);
            }
        }
        table
    }

    /// The command of one block.
    fn command(&self, work: &Work<'_>, clients: u32) -> Vec<Part> {
        let typical = |name: &&str| self.summary.typical(&work.cell(name, clients), work.drawn());
        let mut blocks = work.contenders.iter().filter_map(typical);
        let block = blocks.find(|block| !block.command.is_empty());
        block.map_or_else(Vec::new, |block| {
            let words = format!("The command, here for {}:", block.cell.contender);
            vec![Part::Text(words.into()), Part::Code(shell(&block.command))]
        })
    }

    /// The command and the output of one block a contender; the CSV file names those of all blocks.
    fn commands(&self, work: &Work<'_>, clients: u32) -> Vec<Part> {
        let mut parts = Vec::new();
        for name in &work.contenders {
            let Some(block) = self.summary.typical(&work.cell(name, clients), work.drawn()) else {
                continue;
            };
            if !block.command.is_empty() {
                let turn = format!("{name}, turn {}, began {}:", block.turn + 1, words::date(block.began_s));
                parts.push(Part::Text(turn.into()));
                parts.push(Part::Code(shell(&block.command)));
            }
            match evidence::file(self.out, &block.raw) {
                Some(file) => parts.extend(shown_file("The output", &file)),
                None if block.raw.is_empty() => {}
                None => parts.push(Part::Text(
                    format!("Its output, {}, is not beside this report.", block.raw).into(),
                )),
            }
        }
        if parts.is_empty() {
            return parts;
        }
        vec![Part::Fold(format!("Commands and raw output of {}", work.title()), parts)]
    }

    fn configurations(&self, works: &[Work<'_>]) -> Vec<Part> {
        let mut digests: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for block in self.summary.blocks().iter().filter(|block| block.cell.experiment == self.experiment.id)
        {
            let key = (block.cell.contender.as_str(), block.configuration_digest.as_str());
            digests.entry(key).or_default().insert(&block.cell.load);
        }
        let known = |name: &str| works.iter().any(|work| work.contenders.contains(&name));
        let mut parts = Vec::new();
        for ((name, digest), loads) in digests.into_iter().filter(|((name, _), _)| known(name)) {
            let files = evidence::configuration(self.out, digest);
            let loads: Vec<String> = loads.into_iter().map(str::to_owned).collect();
            let words = Text::default().stress(name).say(", ").and(Span::Code(digest.to_owned()));
            parts.push(Part::Text(words.say(format!(", for {}", format::list(&loads)))));
            if files.is_empty() {
                parts.push(Part::Text("Its files are not beside this report.".into()));
            }
            parts.extend(files.iter().flat_map(|file| shown_file("File", file)));
        }
        if parts.is_empty() {
            return parts;
        }
        vec![Part::Fold("Configurations, as they were run".into(), parts)]
    }
}

/// Load, clients and cores of published figures.
type Place<'a> = (&'a str, Option<u32>, Option<u32>);

/// The cell that stands for a published place.
fn cell_of(works: &[Work<'_>], (load, clients, cores): Place<'_>, name: &str) -> Option<Cell> {
    let is_it = |work: &&Work<'_>| work.load.id == load && cores.is_none_or(|cores| cores == work.cores);
    let work = works.iter().rev().find(is_it)?;
    let clients = clients.or(work.clients.last().copied()).unwrap_or_default();
    Some(work.cell(name, clients))
}

/// The five numbers of a phase, short.
fn spread(spread: Spread) -> String {
    <[f64; 5]>::from(spread).map(format::tick).join(" / ")
}

fn shown_file(what: &str, file: &Evidence) -> [Part; 2] {
    let link = Span::Link(file.path.clone(), Target::File(file.path.clone()));
    [Part::Text(Text::from(format!("{what}: ")).and(link)), Part::Code(file.excerpt.clone())]
}

/// Evenly chosen numbers, the first and the last among them.
fn chosen(clients: &[u32]) -> Vec<u32> {
    if clients.len() <= CLIENTS_MAX {
        return clients.to_vec();
    }
    (0..CLIENTS_MAX).map(|index| clients[index * (clients.len() - 1) / (CLIENTS_MAX - 1)]).collect()
}

/// A command as it is typed into a shell.
fn shell(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed() {
        let command = ["wrk", "-H", "A: b'c", "", "http://127.0.0.1:80/1k"].map(str::to_owned);
        assert_eq!(shell(&command), "wrk -H 'A: b'\\''c' '' http://127.0.0.1:80/1k");
    }

    #[test]
    fn long_sweeps_are_thinned() {
        let sweep: Vec<u32> = (0..=100).map(|step| (step * 10).max(1)).collect();
        assert_eq!(chosen(&sweep), [1, 140, 280, 420, 570, 710, 850, 1000]);
        assert_eq!(chosen(&[1, 10]), [1, 10]);
    }
}

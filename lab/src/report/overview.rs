//! The first page: who leads, which findings hold, what to choose, and what it costs.

use super::choices::{AS_GOOD, choices, faultless};
use super::document::{Badge, Entry, Part, Section, Span, Table, Target, Text, slug};
use super::format;
use super::prices::Prices;
use super::summary::{Lead, Summary, Work, is_twin, level};
use super::verdict;
use crate::experiment::{Experiment, Kind};
use crate::figure::Figure;
use crate::findings::Answer;

/// What the first page is made of.
pub(super) struct Overview<'a> {
    /// What was measured.
    pub(super) summary: &'a Summary<'a>,
    /// The works, experiment by experiment.
    pub(super) works: &'a [Work<'a>],
    /// The experiments with the answers to their findings.
    pub(super) answers: &'a [(&'a Experiment, Vec<Answer>)],
    /// The prices.
    pub(super) prices: &'a Prices,
}

impl Overview<'_> {
    /// The sections of the first page.
    pub(super) fn sections(&self) -> Vec<Section> {
        let section = |id: &str, title: &str, parts: Vec<Part>| {
            (!parts.is_empty()).then(|| Section { id: id.into(), title: title.into(), parts })
        };
        let sections = [
            section("leads", "Who leads, and how sure that is", self.leads()),
            section("findings", "Which published findings hold", self.findings()),
            section("choices", "What to choose when", self.choices()),
            section("costs", "What it costs", self.costs()),
        ];
        sections.into_iter().flatten().collect()
    }

    fn leads(&self) -> Vec<Part> {
        let noise = self.summary.noise();
        let leads: Vec<(&Work<'_>, Lead<'_>)> = self
            .works
            .iter()
            .filter_map(|work| Some((work, self.summary.lead(work, work.deciding())?)))
            .collect();
        let contenders = self.contenders();
        if leads.is_empty() {
            return vec![Part::Note("Nothing was measured yet.".into())];
        }
        let columns = ["Work", "First", "How sure"].into_iter().map(str::to_owned);
        let names = contenders.iter().map(|name| format!("#{name}"));
        let caption = "Each contender's share of the best";
        let mut table = Table::new(caption, columns.chain(names));
        let mut group = "";
        let level = level(&leads.iter().map(|(_, lead)| lead).collect::<Vec<_>>(), noise, AS_GOOD);
        for ((work, lead), level) in leads.iter().zip(level) {
            if group != work.experiment.id {
                group = &work.experiment.id;
                table.group(work.experiment.title.clone());
            }
            table.row(lead_row((work, lead), &level, &contenders));
        }
        let mut parts = vec![Part::Text(
            "The best contender of each line is 100 %; small numbers are 95 % intervals.".into(),
        )];
        if self.works.iter().any(|work| work.quick) {
            let words = "Some of this is of a quick run, with few and short turns: it is marked indicative, and no claim rests on it.";
            parts.push(Part::Note(words.into()));
        }
        parts.extend([Part::Table(table), Part::Text(self.reading(noise))]);
        parts
    }

    fn reading(&self, noise: f64) -> Text {
        let floor = if self.summary.twins().is_empty() {
            "No contender was measured against its twin, so the noise floor is not known.".to_owned()
        } else {
            format!("Equal programs differed by up to {} here.", format::percent(noise))
        };
        Text::from(
            "Ratios are taken between blocks that ran one after the other; what is shown is their median. For times and \
             memory less is better, and half the share means twice as much. A lead is clear where it is more than the \
             noise floor and significant at 5 % with all comparisons of this table looked at together (Holm's \
             correction); otherwise the contenders are called level. ",
        )
        .say(floor)
    }

    /// All contenders of the works, in the order in which they first appear.
    fn contenders(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.works.iter().flat_map(|work| &work.contenders) {
            if !is_twin(name) && !names.iter().any(|known| known == name) {
                names.push((*name).to_owned());
            }
        }
        names
    }

    fn findings(&self) -> Vec<Part> {
        let count = |badge: Badge| {
            self.answers
                .iter()
                .flat_map(|(_, answers)| answers)
                .filter(|answer| verdict::badge(answer) == badge)
                .count()
        };
        let [yes, no, open] = [Badge::Yes, Badge::No, Badge::Open].map(count);
        if yes + no + open == 0 {
            return Vec::new();
        }
        let mut table = Table::new(
            "Findings by experiment; each leads to its evidence",
            ["Experiment", "#hold", "#do not", "#not testable here", "Findings"],
        );
        for (experiment, answers) in self.answers.iter().filter(|(_, answers)| !answers.is_empty()) {
            let count = |badge: Badge| {
                answers.iter().filter(|answer| verdict::badge(answer) == badge).count().to_string()
            };
            let title = Span::Link(experiment.title.clone(), Target::Here(slug(&experiment.id)));
            let mut cells: Vec<Entry> = vec![Text::from(title).into()];
            cells.extend([Badge::Yes, Badge::No, Badge::Open].map(|badge| Entry::from(count(badge))));
            cells.push(marks(experiment, answers).into());
            table.row(cells);
        }
        let words = format!(" of the {} published findings hold on this machine, ", yes + no + open);
        let sentence = Text::default()
            .stress(yes.to_string())
            .say(words)
            .stress(no.to_string())
            .say(" do not, and ")
            .stress(open.to_string())
            .say(" cannot be tested here; each says why.");
        vec![Part::Text(sentence), Part::Table(table)]
    }

    fn choices(&self) -> Vec<Part> {
        let choices = choices(self.summary, self.works);
        if choices.is_empty() {
            return Vec::new();
        }
        let mut table =
            Table::new("What follows from the figures above", ["You need", "Choose", "The next", "The rule"]);
        for choice in choices {
            let next = choice.next.map_or_else(
                || "all are as good".into(),
                |(name, share)| format!("{name}, {}", format::percent(share)),
            );
            let first = Text::default().stress(format::list(&choice.first));
            table.row([choice.need.into(), first, next.into(), choice.rule.into()]);
        }
        let (good, bad) = faultless(self.summary, self.works);
        let rule = "no request failed or was answered wrongly in anything that was measured".to_owned();
        let next =
            if bad.is_empty() { "none failed".into() } else { format!("failures: {}", format::list(&bad)) };
        table.row([
            "no failed request".into(),
            Text::default().stress(format::list(&good)),
            next.into(),
            rule.into(),
        ]);
        let words = "The choice rests on what was measured here and on nothing else: not on features, habits or names. \
                     Contenders within 3 %, or within the noise floor, are as good a choice.";
        vec![Part::Text(words.into()), Part::Table(table)]
    }

    fn costs(&self) -> Vec<Part> {
        let Some((work, clients)) = self.costed() else { return Vec::new() };
        let prices = self.prices;
        let columns =
            ["Contender", "#CPU, µs a request", "#memory, MiB", "#requests/s of one core"].map(str::to_owned);
        let rates =
            prices.rates.iter().map(|rate| format!("#a month at {} requests/s", format::number(*rate)));
        let caption = format!("What “{}” costs, by {}", work.title(), work.at(clients));
        let mut table = Table::new(caption, columns.into_iter().chain(rates));
        let mut rows: Vec<(f64, Vec<Text>)> = Vec::new();
        for name in &work.contenders {
            let cell = work.cell(name, clients);
            let estimate = |figure| self.summary.estimate(&cell, figure);
            let (Some((cpu, turns)), Some((memory, _))) =
                (estimate(Figure::CpuUsPerRequest), estimate(Figure::MemoryBytes))
            else {
                continue;
            };
            let month = |rate: &f64| prices.month(*rate, cpu.median, memory.median);
            let mut cells = vec![
                (*name).into(),
                format::estimate(Figure::CpuUsPerRequest, cpu, turns),
                format::value(Figure::MemoryBytes, memory.median).into(),
                format::number((1e6 / cpu.median).round()).into(),
            ];
            cells.extend(prices.rates.iter().map(|rate| Text::from(prices.amount(month(rate)))));
            rows.push((prices.rates.iter().map(month).fold(0.0, f64::max), cells));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (_, cells) in rows {
            table.row(cells);
        }
        vec![Part::Text(self.assumptions(work).into()), Part::Table(table)]
    }

    fn assumptions(&self, work: &Work<'_>) -> String {
        let prices = self.prices;
        format!(
            "Reckoned from CPU time and memory measured in “{}” of “{}”, the first load for which most contenders have \
             both, at its largest number of clients. Assumed: a core costs {} and a GiB {} a month ({}); a core is kept at most {} busy, so that peaks \
             find room; the system takes {} GiB beside the server; a core there does what a core here does, and cost \
             grows evenly with cores. Bandwidth, disks and work are not in it. Other prices: lab/prices.toml.",
            work.load.title,
            work.experiment.title,
            prices.amount(prices.core_month),
            prices.amount(prices.gib_month),
            prices.source,
            format::percent(prices.busy_max),
            format::number(prices.system_gib),
        )
    }

    /// The load that costs are reckoned from: the first with the most contenders whose CPU and memory are known, at
    /// the largest number of clients.
    fn costed(&self) -> Option<(&Work<'_>, u32)> {
        let known = |work: &Work<'_>, clients: u32| {
            let has = |name: &&&str| {
                let cell = work.cell(name, clients);
                [Figure::CpuUsPerRequest, Figure::MemoryBytes]
                    .iter()
                    .all(|figure| !self.summary.turns(&cell, *figure).is_empty())
            };
            work.contenders.iter().filter(has).count()
        };
        let loads = self.works.iter().filter(|work| work.load.kind == Kind::Load);
        let all = loads.flat_map(|work| work.clients.iter().rev().map(move |clients| (work, *clients)));
        let mut best: Option<(&Work<'_>, u32, usize)> = None;
        for (work, clients) in all {
            let count = known(work, clients);
            if count > best.map_or(0, |(_, _, most)| most) {
                best = Some((work, clients, count));
            }
        }
        best.map(|(work, clients, _)| (work, clients))
    }
}

fn lead_row((work, lead): (&Work<'_>, &Lead<'_>), level: &[&str], contenders: &[String]) -> Vec<Entry> {
    let clients = match work.load.kind {
        Kind::Knee => "the most clients that were all answered in time".into(),
        _ => work.at(lead.clients),
    };
    let title = Span::Link(work.title(), Target::Here(slug(&work.experiment.id)));
    let first = &lead.shares[0];
    let mut cells: Vec<Entry> = vec![
        Text::from(title).aside(clients).into(),
        Text::default()
            .stress(first.contender)
            .aside(format::with_unit(lead.figure, first.value.median))
            .into(),
        sureness(work, lead, level).into(),
    ];
    for name in contenders {
        let share = lead.share(name);
        let text =
            share.map_or_else(|| "–".into(), |share| format::percent_range(share.of_best, share.turns));
        cells.push(Entry { text, share: share.map(|share| share.of_best.median) });
    }
    cells
}

fn sureness(work: &Work<'_>, lead: &Lead<'_>, level: &[&str]) -> String {
    let names: Vec<String> = level.iter().map(|name| (*name).to_owned()).collect();
    let words = match names.len() {
        _ if lead.shares.len() == 1 => "alone".to_owned(),
        0 => "clear".to_owned(),
        _ => format!("level with {}", format::list(&names)),
    };
    if work.quick || !lead.has_interval() { format!("indicative: {words}") } else { words }
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

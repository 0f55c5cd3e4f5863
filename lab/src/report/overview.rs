//! The first page: who leads, which findings hold, what to choose, and what it costs.

use super::choices::{choices, faultless};
use super::document::{Badge, Entry, Part, Section, Span, Table, Target, Text, slug};
use super::format;
use super::leads::Leads;
use super::prices::Prices;
use super::summary::{Summary, Work};
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
    /// Who leads in them.
    pub(super) leads: &'a Leads<'a>,
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
            section("leads", "Who leads, and how sure that is", self.leads.overview()),
            section("findings", "Which findings hold", self.findings()),
            section("choices", "What to choose when", self.choices()),
            section("costs", "What it costs", self.costs()),
        ];
        sections.into_iter().flatten().collect()
    }

    fn findings(&self) -> Vec<Part> {
        let was_run =
            |experiment: &Experiment| self.works.iter().any(|work| work.experiment.id == experiment.id);
        let (run, not_run): (Vec<_>, Vec<_>) = self
            .answers
            .iter()
            .filter(|(_, answers)| !answers.is_empty())
            .partition(|(experiment, _)| was_run(experiment));
        let count = |badge: Badge| {
            run.iter()
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
        for (experiment, answers) in &run {
            let count = |badge: Badge| {
                answers.iter().filter(|answer| verdict::badge(answer) == badge).count().to_string()
            };
            let title = Span::Link(experiment.title.clone(), Target::Here(slug(&experiment.id)));
            let mut cells: Vec<Entry> = vec![Text::from(title).into()];
            cells.extend([Badge::Yes, Badge::No, Badge::Open].map(|badge| Entry::from(count(badge))));
            cells.push(marks(experiment, answers).into());
            table.row(cells);
        }
        let words = format!(" of the {} findings hold on this machine, ", yes + no + open);
        let sentence = Text::default()
            .stress(yes.to_string())
            .say(words)
            .stress(no.to_string())
            .say(" do not, and ")
            .stress(open.to_string())
            .say(" cannot be tested here; each says why.");
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
        let mut words = "The choice rests on what was measured here and on nothing else: not on features, habits or names. \
                     Contenders within 3 %, or within the noise floor, are as good a choice.".to_owned();
        if self.works.iter().any(|work| work.quick) {
            words.push_str(" As long as runs are quick it is only indicative.");
        }
        vec![Part::Text(words.into()), Part::Table(table)]
    }

    fn costs(&self) -> Vec<Part> {
        let Some((work, clients)) = self.costed() else { return Vec::new() };
        let prices = self.prices;
        let columns =
            ["Contender", "#CPU, µs a request", "#memory, MiB", "#requests/s of one core"].map(str::to_owned);
        let rates =
            prices.rates.iter().map(|rate| format!("#a month at {} requests/s", format::number(*rate)));
        let caption = format!("What it costs: {}", format::titled(&work.title(), &work.at(clients)));
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
            format::tick(prices.system_gib),
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

//! Which server is fastest: one line for each experiment on the first page, and one line for each load in the
//! experiment's own section.

use std::collections::BTreeSet;

use super::document::{Entry, Part, Span, Table, Target, Text, slug};
use super::format;
use super::lead::{FAILED_MAX, Lead, Share, Standing, standings};
use super::summary::{Summary, Work, geometric_mean};
use crate::judge::findings::too_short;
use crate::judge::statistics::FEWEST;
use crate::model::experiment::Kind;
use crate::model::figure::Figure;

/// So many contenders that are level with the first are named on the first page; of more, the experiment's section
/// tells the names.
const PARTNERS_MAX: usize = 3;

/// The text instead of a leader, if the best are not shown to differ, or if there are too few turns.
const NO_DIFFERENCE: &str = "no difference shown";
const NO_VERDICT: &str = "too few turns";

/// So many contenders are named in short.
const AHEAD_MAX: usize = 4;

/// All leads, judged together.
pub(super) struct Leads<'a> {
    pub(super) all: Vec<Judged<'a>>,
}

/// The lead of one work.
pub(super) struct Judged<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) lead: Lead<'a>,
    /// How the others compare with the leader, in the order of their shares.
    pub(super) standings: Vec<Standing>,
    /// How many runs of one contender do not count, at most, because they began on a busy machine.
    pub(super) busy: usize,
    /// Why nothing can be said for sure, if blocks were too short for that.
    short: Option<String>,
}

/// The result of a contender in one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The leader; all others are slower for sure.
    Clear,
    /// First by the figures; too few turns, or an unknown noise floor, to say that it is clear.
    Ahead,
    /// Level with the leader, or a leader with a contender level.
    Level,
    /// First, or after, and neither is shown.
    Unshown,
    /// Surely slower.
    Behind,
    /// It did not answer all.
    Failed,
}

/// A contender's places over several works.
struct Count<'a> {
    contender: &'a str,
    first: usize,
    clear: usize,
    failed: usize,
}

impl<'a> Leads<'a> {
    /// The leads of these works; Holm's correction is over all of them.
    pub(super) fn of(summary: &Summary<'a>, works: &'a [Work<'a>]) -> Leads<'a> {
        let lead = |work: &'a Work<'a>| Some((work, summary.lead(work, work.deciding())?));
        let leads: Vec<(&Work<'_>, Lead<'_>)> = works.iter().filter_map(lead).collect();
        let standings = standings(&leads.iter().map(|(_, lead)| lead).collect::<Vec<_>>());
        let judged = leads.into_iter().zip(standings);
        let all = judged.map(|((work, lead), standings)| {
            let cells: Vec<_> =
                lead.shares.iter().map(|share| work.cell(share.contender, lead.clients)).collect();
            let short = too_short(work.load, cells.iter().flat_map(|cell| summary.measured(cell)));
            let busy = |cell| {
                let (all, quiet) = (summary.turns(cell, lead.figure), summary.quiet_turns(cell, lead.figure));
                all.len() - quiet.len()
            };
            let busy = cells.iter().map(busy).max().unwrap_or_default();
            Judged { work, lead, standings, busy, short }
        });
        Leads { all: all.collect() }
    }

    /// What the first page says: a line for each experiment and figure.
    pub(super) fn overview(&self) -> Vec<Part> {
        if self.all.is_empty() {
            return vec![Part::Note(
                "No server is ranked: nothing was measured on a quiet machine yet.".into(),
            )];
        }
        let contenders = self.contenders();
        let groups = self.groups();
        let has_column = |share: &Share<'_>| contenders.contains(&share.contender);
        let has_others = !self.all.iter().flat_map(|judged| &judged.lead.shares).all(has_column);
        let columns = ["Experiment", "Best server", "How sure"].map(str::to_owned).into_iter();
        let columns = columns.chain(contenders.iter().map(|name| format!("#{name}")));
        let columns = columns.chain(has_others.then(|| "Others".to_owned()));
        let mut table = Table::new("Each server's share of the best", columns);
        for group in &groups {
            table.row(group_row(group, &contenders, has_others));
        }
        let mut parts = Vec::new();
        if self.all.iter().any(Judged::is_indicative) {
            let words = "Some results have fewer turns than a claim needs, or runs so short that they mostly measure how \
                         connections are opened. They are marked “indicative”. Do not rest a claim on them.";
            parts.push(Part::Note(words.into()));
        }
        if self.all.iter().any(|judged| judged.work.quick && !judged.is_indicative()) {
            let words = "Some results have all the turns that a claim needs, but smaller loads than a full run: fewer numbers \
                         of clients, and shorter runs. Each load says how large it was.";
            parts.push(Part::Note(words.into()));
        }
        let lead = format!(
            "A share compares a server with the best server of the same load, which has 100 %. For several loads, the \
             table shows the mean share, and below it the smallest and the largest one. For one load, it shows the 95 % \
             interval. A server is not ranked in a load if it failed more than {} of the requests, or if a run of it has \
             no figures: rates and times count only requests that were answered.",
            format::percent(FAILED_MAX)
        );
        parts.extend([Part::Text(lead.into()), Part::Table(table), Part::Text(self.reading())]);
        parts
    }

    /// What a manager reads first: who is ahead, and how sure that is, in plain words. Loads that few contenders took
    /// say nothing about it.
    pub(super) fn in_short(&self) -> Vec<Text> {
        let most = self.all.iter().map(|judged| judged.lead.count()).max().unwrap_or_default();
        let is_for_many = |judged: &&Judged<'_>| {
            let count = judged.lead.count();
            let load = judged.work.load;
            count > 1 && count * 2 >= most && load.kind != Kind::Idle && load.ranked_by.is_none()
        };
        let works: Vec<&Judged<'a>> = self.all.iter().filter(is_for_many).collect();
        let led: Vec<&Judged<'a>> =
            works.iter().copied().filter(|judged| judged.lead.first().is_some()).collect();
        if led.is_empty() {
            return Vec::new();
        }
        let clear = led.iter().filter(|judged| judged.is_clear()).count();
        let named = counts(&works).into_iter().filter(|count| count.clear > 0).take(AHEAD_MAX);
        let named: Vec<String> = named.map(|count| count.words()).collect();
        let named = if named.is_empty() { String::new() } else { format!(": {}", format::list(&named)) };
        let ahead = led.iter().filter(|judged| judged.is_ahead() && !judged.is_clear()).count();
        let mut others = match ahead {
            0 => String::new(),
            ahead => format!(" In {ahead} one server is ahead, with fewer turns than a claim needs."),
        };
        if clear + ahead < led.len() {
            others.push_str(" In the others, no difference between the best servers is shown.");
        }
        let open = works.len() - led.len();
        let open = if open == 0 { String::new() } else { format!(" In {open} no server is ranked.") };
        let ahead = Text::default().stress("The fastest: ").say(format!(
            "in {clear} of {} that most servers ran, one server is clearly the fastest{named}.{others}{open}",
            format::counted(works.len(), "load"),
        ));
        vec![ahead, Text::default().stress("How sure: ").say(self.sure_of_it(&led))]
    }

    fn sure_of_it(&self, works: &[&Judged<'_>]) -> String {
        let floor = works.iter().filter_map(|judged| judged.lead.floor).reduce(f64::max);
        let noise = match floor {
            Some(floor) => format!("Two copies of one program differed by up to {}", format::percent(floor)),
            None => "How much two copies of one program differ was not measured".to_owned(),
        };
        let turns = works.iter().filter_map(|judged| Some(judged.lead.first()?.turns)).min();
        let turns = format::counted(turns.unwrap_or_default(), "measurement");
        if works.iter().any(|judged| judged.has_few_turns()) {
            return format!(
                "not very. Some figures are the median of only {turns}, so chance may explain them. {noise}: a smaller \
                 difference says nothing. A full run repeats each measurement often enough for a claim."
            );
        }
        let short = match works.iter().filter(|judged| judged.short.is_some()).count() {
            0 => String::new(),
            short => format!(
                " In {} the runs were so short that they mostly measure how connections are opened. No server is called \
                 clearly the fastest there.",
                format::counted(short, "load")
            ),
        };
        format!(
            "if all servers were equal, at most one report of twenty would call one clearly the fastest. Each figure is the \
             median of {turns} or more. {noise}. A smaller difference never makes a server the fastest.{short}"
        )
    }

    /// The leads of one experiment, a line a load.
    pub(super) fn of_experiment(&self, experiment: &str) -> Option<Part> {
        let judged: Vec<&Judged<'_>> =
            self.all.iter().filter(|judged| judged.work.experiment.id == experiment).collect();
        let mut contenders: Vec<&str> = Vec::new();
        for name in judged.iter().flat_map(|judged| &judged.work.contenders) {
            if !contenders.contains(name) {
                contenders.push(name);
            }
        }
        let columns = ["Load", "Best server", "How sure"].map(str::to_owned).into_iter();
        let columns = columns.chain(contenders.iter().map(|name| format!("#{name}")));
        let mut table = Table::new(
            "The best server of each load, and each server's share of it with its 95 % interval",
            columns,
        );
        for judged in &judged {
            table.row(judged.row(&contenders));
        }
        (!table.rows.is_empty()).then_some(Part::Table(table))
    }

    fn reading(&self) -> Text {
        let mut floors: Vec<(Figure, Option<f64>)> = Vec::new();
        for lead in self.all.iter().map(|judged| &judged.lead) {
            if !floors.iter().any(|(figure, _)| *figure == lead.figure) {
                floors.push((lead.figure, lead.floor));
            }
        }
        let floor = |(figure, floor): &(Figure, Option<f64>)| match floor {
            Some(floor) => format!("{} by up to {}", format::named(*figure), format::percent(*floor)),
            None => {
                format!("{} by an unknown amount, since no twin was measured for it", format::named(*figure))
            }
        };
        let floors: Vec<String> = floors.iter().map(floor).collect();
        Text::from(
            "In each turn, the servers run one after the other. The lab divides their results of the same turn, and shows \
             the median over all turns. For times and memory less is better: half the share means twice as much. A \
             server is “level” if its median is within the noise floor of the best one. It is “slower” if it is farther \
             off, the interval does not reach 100 %, and the difference is significant at 5 % after Holm's correction \
             over all comparisons of this report. Otherwise it is “not shown to differ”. “Clear” means: all other servers \
             are slower, there are as many turns as a claim needs, the runs are long enough, and the noise floor is known. \
             “Ahead” means that one of the last three is missing. The noise floor is the largest difference between two \
             copies of one program. It is rather too low: a copy runs directly after its original, and other servers do \
             not. Two copies differed in ",
        )
        .say(format!("{}.", format::list(&floors)))
    }

    /// The works of one experiment with the same figure. Of these, works in which few took part would make those few
    /// the first: they are left to the experiment's own section, and so are those in which nobody leads.
    fn groups(&self) -> Vec<Vec<&Judged<'a>>> {
        let mut groups: Vec<Vec<&Judged<'a>>> = Vec::new();
        for judged in &self.all {
            let key = |judged: &Judged<'_>| (judged.work.experiment.id.clone(), judged.lead.figure);
            match groups.iter_mut().find(|group| group.first().is_some_and(|first| key(first) == key(judged)))
            {
                Some(group) => group.push(judged),
                None => groups.push(vec![judged]),
            }
        }
        for group in &mut groups {
            let most = group.iter().map(|judged| judged.lead.count()).max().unwrap_or_default();
            group.retain(|judged| judged.lead.count() * 2 >= most && judged.lead.first().is_some());
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// The contenders that get a column: those of more than one experiment, where there are several experiments.
    /// They stand in the order in which they first appear.
    fn contenders(&self) -> Vec<&'a str> {
        let mut found: Vec<(&str, BTreeSet<&str>)> = Vec::new();
        for judged in &self.all {
            for name in &judged.work.contenders {
                let id = judged.work.experiment.id.as_str();
                match found.iter_mut().find(|(known, _)| known == name) {
                    Some((_, ids)) => _ = ids.insert(id),
                    None => found.push((name, BTreeSet::from([id]))),
                }
            }
        }
        let most = found.iter().map(|(_, ids)| ids.len()).max().unwrap_or_default();
        found.into_iter().filter(|(_, ids)| ids.len() >= most.min(2)).map(|(name, _)| name).collect()
    }
}

impl<'a> Judged<'a> {
    fn row(&self, contenders: &[&str]) -> Vec<Entry> {
        let (work, lead) = (self.work, &self.lead);
        let at = match work.load.kind {
            Kind::Knee => "the most clients that were all answered in time".into(),
            _ => work.at(lead.clients),
        };
        let first = self.named_first();
        let mut cells: Vec<Entry> = vec![
            Text::from(work.title())
                .aside(if work.title().contains(&at) { String::new() } else { at })
                .into(),
            first.into(),
            self.sureness().into(),
        ];
        cells.extend(contenders.iter().map(|name| self.entry(name)));
        cells
    }

    /// The first with its figure, if all others are surely slower.
    fn named_first(&self) -> Text {
        let Some(first) = self.lead.first() else { return "none".into() };
        let figure = format::with_unit(self.lead.figure, first.value.median);
        match self.standings.iter().all(|standing| *standing == Standing::Behind) {
            _ if !self.has_verdict() => NO_VERDICT.into(),
            true => Text::default().stress(first.contender).aside(figure),
            false => NO_DIFFERENCE.into(),
        }
    }

    /// Whether there are as many turns as a verdict needs.
    pub(super) fn has_verdict(&self) -> bool {
        let turns = self.lead.shares.iter().map(|share| share.turns).min().unwrap_or_default();
        turns >= FEWEST as usize
    }

    /// A contender's share with its interval, or why it has none.
    fn entry(&self, name: &str) -> Entry {
        if let Some(fault) = self.lead.fault(name) {
            return Text::from("–").aside(fault.words()).into();
        }
        let share = self.lead.share(name);
        let text =
            share.map_or_else(|| "–".into(), |share| format::percent_range(share.of_best, share.turns));
        Entry { text, share: share.map(|share| share.of_best.median) }
    }

    fn sureness(&self) -> String {
        let named = |standing: Standing| -> Vec<String> {
            let others = self.behind().filter(|(_, other)| *other == standing);
            others.map(|(share, _)| share.contender.to_owned()).collect()
        };
        let (level, unshown) = (named(Standing::Level), named(Standing::Unshown));
        let mut words = Vec::new();
        if let Some(only) = self.lead.only {
            words.push(format!("only {only} answered all requests"));
        } else if self.lead.shares.is_empty() {
            words.push("no server answered all requests".to_owned());
        } else if self.lead.count() == 1 {
            words.push("the only server".to_owned());
        } else if level.is_empty() && unshown.is_empty() {
            words.push(if self.is_clear() { "clear" } else { "ahead" }.to_owned());
        }
        if !level.is_empty() {
            words.push(format!("level with {}", format::list(&level)));
        }
        if !unshown.is_empty() {
            words.push(format!("not shown to differ from {}", format::list(&unshown)));
        }
        let words = words.join("; ");
        if self.is_indicative() { format!("indicative: {words}") } else { words }
    }

    /// Those behind the first, and how they stand.
    fn behind(&self) -> impl Iterator<Item = (&Share<'a>, Standing)> {
        self.lead.shares.iter().skip(1).zip(self.standings.iter().copied())
    }

    fn place(&self, name: &str) -> Option<Place> {
        if self.lead.fault(name).is_some() {
            return Some(Place::Failed);
        }
        if self.lead.first()?.contender != name {
            let (_, standing) = self.behind().find(|(share, _)| share.contender == name)?;
            return Some(match standing {
                Standing::Level => Place::Level,
                Standing::Unshown => Place::Unshown,
                Standing::Behind => Place::Behind,
            });
        }
        let has = |standing| self.standings.contains(&standing);
        Some(match (has(Standing::Level), has(Standing::Unshown)) {
            (true, _) => Place::Level,
            (_, true) => Place::Unshown,
            _ if self.is_clear() => Place::Clear,
            _ => Place::Ahead,
        })
    }

    /// Whether the first is ahead of all others, and a claim may rest on it.
    fn is_clear(&self) -> bool {
        self.is_ahead() && self.lead.floor.is_some() && !self.is_indicative()
    }

    /// Whether all others are surely slower than the first, by as many turns as a verdict needs.
    fn is_ahead(&self) -> bool {
        let are_behind = self.standings.iter().all(|standing| *standing == Standing::Behind);
        are_behind && !self.standings.is_empty() && self.has_verdict()
    }

    /// Those who are level with this contender, where it is one of the first.
    fn level_with(&self, name: &str) -> Vec<&'a str> {
        let level = self.behind().filter(|(_, standing)| *standing == Standing::Level);
        let first = self.lead.first().map(|first| first.contender);
        let all: Vec<&'a str> = first.into_iter().chain(level.map(|(share, _)| share.contender)).collect();
        if all.contains(&name) {
            all.into_iter().filter(|other| *other != name).collect()
        } else {
            Vec::new()
        }
    }

    /// Whether no claim may rest on it.
    fn is_indicative(&self) -> bool {
        self.has_few_turns() || self.short.is_some()
    }

    fn has_few_turns(&self) -> bool {
        self.work.indicative || !self.lead.has_interval()
    }
}

impl Count<'_> {
    /// `fulmar in 9 (in 1 not ranked, for failures)`.
    fn words(&self) -> String {
        let failed = (self.failed > 0).then(|| format!(" (in {} not ranked, for failures)", self.failed));
        format!("{} in {}{}", self.contender, self.clear, failed.unwrap_or_default())
    }
}

/// How often each was first, who was that most often before the others. Each load counts for one contender only, and
/// to be level counts for nobody: so nobody gains where figures scatter.
fn counts<'a>(works: &[&Judged<'a>]) -> Vec<Count<'a>> {
    let mut names: Vec<&'a str> = Vec::new();
    for name in works.iter().flat_map(|judged| judged.work.contenders.iter().copied()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let count = |contender: &'a str| {
        let places =
            |place: Place| works.iter().filter(|judged| judged.place(contender) == Some(place)).count();
        let is_first =
            |judged: &&&Judged<'_>| judged.lead.first().is_some_and(|first| first.contender == contender);
        Count {
            contender,
            first: works.iter().filter(is_first).count(),
            clear: places(Place::Clear),
            failed: places(Place::Failed),
        }
    };
    let mut counts: Vec<Count<'a>> = names.into_iter().map(count).filter(|count| count.first > 0).collect();
    counts.sort_by_key(|count| std::cmp::Reverse((count.first, count.clear)));
    counts
}

fn group_row(group: &[&Judged<'_>], contenders: &[&str], has_others: bool) -> Vec<Entry> {
    let judged = group[0];
    let experiment = judged.work.experiment;
    let title = Span::Link(experiment.title.clone(), Target::Here(slug(&experiment.id)));
    let loads = if group.len() == 1 { String::new() } else { format!("{} loads, ", group.len()) };
    let title = Text::from(title).aside(format!("{loads}{}", format::named(judged.lead.figure)));
    let mut names: Vec<&str> = Vec::new();
    for share in group.iter().flat_map(|judged| &judged.lead.shares) {
        if !names.contains(&share.contender) {
            names.push(share.contender);
        }
    }
    let mut means: Vec<(&str, f64)> = names.iter().map(|name| (*name, mean(group, name))).collect();
    let everywhere = |name: &str| group.iter().all(|judged| judged.lead.share(name).is_some());
    means.sort_by(|(a, x), (b, y)| everywhere(b).cmp(&everywhere(a)).then(y.total_cmp(x)));
    let only = judged.lead.first().filter(|_| group.len() == 1).map(|first| first.contender);
    let first = only.or(means.first().map(|(name, _)| *name)).unwrap_or_default();
    let (named, sure) = match group {
        [one] => (one.named_first(), one.sureness()),
        _ => (group_first(group, first), format!("{first}: {}", standing(group, first))),
    };
    let mut cells: Vec<Entry> = vec![title.into(), named.into(), sure.into()];
    for name in contenders {
        cells.push(group_entry(group, name));
    }
    if has_others {
        let others = means.iter().filter(|(name, _)| !contenders.contains(name));
        let others: Vec<String> =
            others.map(|(name, mean)| format!("{name} {}", format::percent(*mean))).collect();
        cells.push(others.join(", ").into());
    }
    cells
}

/// The first of several works, where all others are surely slower in each of them.
fn group_first(group: &[&Judged<'_>], first: &str) -> Text {
    let leads = |judged: &&Judged<'_>| matches!(judged.place(first), Some(Place::Clear | Place::Ahead));
    match group.iter().all(leads) {
        _ if !group.iter().all(|judged| judged.has_verdict()) => NO_VERDICT.into(),
        true => Text::default().stress(first),
        false => NO_DIFFERENCE.into(),
    }
}

/// A contender's mean share over the works that it took part in, with the least and the most.
fn group_entry(group: &[&Judged<'_>], name: &str) -> Entry {
    if group.len() == 1 {
        return group[0].entry(name);
    }
    let failed = group.iter().filter(|judged| judged.lead.fault(name).is_some()).count();
    let failed = if failed > 0 { format!("without {failed} for failures") } else { String::new() };
    let shares: Vec<f64> =
        group.iter().filter_map(|judged| Some(judged.lead.share(name)?.of_best.median)).collect();
    if shares.is_empty() {
        return Text::from("–").aside(failed).into();
    }
    let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shares.iter().copied().fold(0.0, f64::max);
    let text = format::percent_between(mean(group, name), low, high).aside(failed);
    Entry { text, share: Some(mean(group, name)) }
}

fn mean(group: &[&Judged<'_>], name: &str) -> f64 {
    let shares: Vec<f64> =
        group.iter().filter_map(|judged| Some(judged.lead.share(name)?.of_best.median)).collect();
    geometric_mean(&shares)
}

/// In how many of several works a contender leads, is level with others, and is behind.
fn standing(group: &[&Judged<'_>], first: &str) -> String {
    let mut partners: Vec<String> = Vec::new();
    for name in group.iter().flat_map(|judged| judged.level_with(first)) {
        if !partners.iter().any(|known| known == name) {
            partners.push(name.to_owned());
        }
    }
    let partners = match partners.len() {
        0..=PARTNERS_MAX => format!(" with {}", format::list(&partners)),
        many => format!(" with {many} others"),
    };
    let places = [
        (Place::Clear, "clear", ""),
        (Place::Ahead, "ahead", ""),
        (Place::Level, "level", partners.as_str()),
        (Place::Unshown, "not shown to differ", ""),
        (Place::Behind, "slower", ""),
        (Place::Failed, "not ranked", ""),
    ];
    let count = |place: Place| group.iter().filter(|judged| judged.place(first) == Some(place)).count();
    let counted = places.map(|(place, word, more)| (count(place), word, more)).into_iter();
    let counts: Vec<String> = counted
        .filter(|(count, ..)| *count > 0)
        .map(|(count, word, more)| format!("{word} in {count} of {}{more}", group.len()))
        .collect();
    let words = counts.join(", ");
    if group.iter().any(|judged| judged.is_indicative()) { format!("indicative: {words}") } else { words }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::model::block::Block;
    use crate::model::block::tests::block;
    use crate::model::experiment::Experiment;

    #[test]
    fn the_first_page_has_a_line_an_experiment() {
        let (experiments, blocks) = (fixture::experiments(), fixture::blocks());
        let summary = Summary::of(&blocks);
        let works: Vec<Work<'_>> =
            experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
        let leads = Leads::of(&summary, &works);
        let table = leads.overview().into_iter().find_map(|part| match part {
            Part::Table(table) => Some(table),
            _ => None,
        });
        let table = table.unwrap();
        assert_eq!(table.rows.len(), experiments.len());
        let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles[3..5], ["fulmar", "nginx"]);
        assert_eq!(*titles.last().unwrap(), "Others", "h2o and others took part in one experiment only");
        assert!(leads.of_experiment("static-cores").is_some() && leads.of_experiment("none").is_none());
    }

    #[test]
    fn idle_connections_that_were_measured_once_have_no_verdict() {
        let (experiments, mut blocks) = (fixture::experiments(), fixture::blocks());
        blocks.retain(|block| block.cell.experiment == "idle-connections");
        let again = |turn: u32| blocks.iter().map(move |block| Block { turn, ..block.clone() });
        let verdicts = |turns: u32| {
            let blocks: Vec<Block> = (0..turns).flat_map(again).collect();
            let summary = Summary::of(&blocks);
            let works: Vec<Work<'_>> =
                experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
            let leads = Leads::of(&summary, &works);
            leads.groups().concat().iter().map(|judged| judged.has_verdict()).collect::<Vec<bool>>()
        };
        assert_eq!([verdicts(1), verdicts(6)], [vec![false], vec![true]]);
    }

    #[test]
    fn loads_of_few_make_nobody_the_first() {
        let (experiments, mut blocks) = (fixture::experiments(), fixture::blocks());
        // Of one of two loads only the slowest is left.
        let work =
            |block: &crate::model::block::Block| (block.cell.experiment.clone(), block.cell.load.clone());
        let of_few = work(blocks.iter().find(|block| block.cell.experiment == "windows-hey").unwrap());
        blocks.retain(|block| work(block) != of_few || block.cell.contender == "apache-event");
        let summary = Summary::of(&blocks);
        let works: Vec<Work<'_>> =
            experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
        let leads = Leads::of(&summary, &works);
        let groups = leads.groups();
        let group = groups.iter().find(|group| group[0].work.experiment.id == "windows-hey").unwrap();
        assert_eq!(group.len(), 1, "the other load is compared by nobody");
        assert_ne!(group[0].lead.shares[0].contender, "apache-event");
    }

    #[test]
    fn what_is_said_first_is_plain() {
        let (experiments, mut blocks) = (fixture::experiments(), fixture::blocks());
        let said = |blocks: &[crate::model::block::Block]| {
            let summary = Summary::of(blocks);
            let works: Vec<Work<'_>> =
                experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
            format!("{:?}", Leads::of(&summary, &works).in_short())
        };
        let again = |round: u32| {
            let later = |block: &Block| Block { turn: block.turn + 3 * round, ..block.clone() };
            blocks.iter().map(later).collect::<Vec<Block>>()
        };
        let full = said(&(0..7).flat_map(again).collect::<Vec<Block>>());
        assert!(
            full.contains("in 2 of 2 loads that most servers ran, one server is clearly the fastest: "),
            "{full}"
        );
        assert!(full.contains("clearly the fastest: fulmar in 2."), "{full}");
        assert!(
            full.contains("one report of twenty") && full.contains("Two copies of one program"),
            "{full}"
        );
        blocks.iter_mut().for_each(|block| block.quick = true);
        let quick = said(&blocks);
        assert!(quick.contains("not very") && quick.contains("only 3 measurements"), "{quick}");
        assert_eq!(said(&[]), "[]");
    }

    #[test]
    fn what_is_different_is_not_averaged() {
        let (experiments, blocks) = (fixture::experiments(), fixture::blocks());
        let summary = Summary::of(&blocks);
        let works: Vec<Work<'_>> =
            experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
        let leads = Leads::of(&summary, &works);
        let groups = leads.groups();
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(standing(&groups[1], "apache-event"), "indicative: slower in 2 of 2");
        assert_eq!(standing(&groups[1], "fulmar"), "indicative: ahead in 2 of 2");
        let (first, second) =
            (groups[0][0].lead.share("lighttpd").unwrap(), groups[0][1].lead.share("lighttpd").unwrap());
        let mean = mean(&groups[0], "lighttpd");
        assert!((mean * mean - first.of_best.median * second.of_best.median).abs() < 1e-12);
    }

    /// Blocks of 20 turns with these mean rates that scatter by 1 %, each block one second long.
    fn scattered(rates: &[(&str, f64)]) -> Vec<Block> {
        let of = |(name, rate): &(&str, f64)| {
            let of_turn = |turn: u32| {
                let rate = rate * (1.0 + f64::from((turn * 7 + turn / 3) % 5) / 200.0);
                let figures = [(Figure::RequestsPerS, rate), (Figure::TotalS, 1.0), (Figure::Failed, 0.0)];
                Block { turn, raw: "raw/x".into(), ..block(name, "l", 10, &figures) }
            };
            (0..20).map(of_turn).collect::<Vec<Block>>()
        };
        rates.iter().flat_map(of).collect()
    }

    /// The words and the cells of the only load's row.
    fn row(blocks: &[Block]) -> (String, String) {
        let experiment = Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b', 'c']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nseconds = 9.0\nquick = { seconds = 1.0 }\n",
        )
        .unwrap();
        let summary = Summary::of(blocks);
        let works = summary.works(&experiment);
        let leads = Leads::of(&summary, &works);
        let cells = leads.all[0].row(&["a", "b", "c"]);
        (leads.all[0].sureness(), format!("{cells:?} {:?} {:?}", leads.overview(), leads.in_short()))
    }

    #[test]
    fn clear_is_what_a_claim_may_rest_on() {
        let blocks = scattered(&[("a", 1000.0), ("b", 500.0), ("a-twin", 1010.0)]);
        assert_eq!(row(&blocks).0, "clear");
        assert!(row(&blocks).1.contains("clearly the fastest: a in 1."));
        let few: Vec<Block> = blocks.iter().filter(|block| block.turn < 19).cloned().collect();
        assert_eq!(row(&few).0, "indicative: ahead", "a claim needs 20 turns");
        let one: Vec<Block> = blocks.iter().filter(|block| block.turn < 1).cloned().collect();
        assert_eq!(row(&one).0, "indicative: ahead");
        assert!(row(&one).1.contains("too few turns"));
        let alone: Vec<Block> =
            blocks.iter().filter(|block| block.cell.contender != "a-twin").cloned().collect();
        assert_eq!(row(&alone).0, "ahead", "the noise floor is not known");
        let mut short = blocks.clone();
        for block in &mut short {
            block.quick = true;
            block.figures.insert(Figure::TotalS, 0.3);
        }
        assert_eq!(row(&short).0, "indicative: ahead");
        assert!(row(&short).1.contains("In 1 load the runs were so short"));
        let near = scattered(&[("a", 1000.0), ("b", 950.0), ("c", 500.0), ("a-twin", 900.0)]);
        assert_eq!(row(&near).0, "level with b");
    }

    #[test]
    fn what_scatters_is_neither_level_nor_behind() {
        let mut blocks = scattered(&[("a", 1000.0), ("b", 800.0), ("a-twin", 990.0)]);
        for block in blocks.iter_mut().filter(|block| block.cell.contender == "b") {
            let rate = block.figures.get_mut(&Figure::RequestsPerS).unwrap();
            *rate *= [0.5, 1.0, 1.9][block.turn as usize % 3];
        }
        assert_eq!(row(&blocks).0, "not shown to differ from b");
        assert!(row(&blocks).1.contains(
            "clearly the fastest. In the others, no difference between the best servers is shown."
        ));
        assert!(row(&blocks).1.contains("no difference shown") && !row(&blocks).1.contains("Stress(\"a\")"));
    }

    #[test]
    fn who_failed_has_no_share_and_does_not_lead() {
        let mut blocks = scattered(&[("a", 1000.0), ("b", 500.0), ("c", 4000.0), ("a-twin", 1010.0)]);
        for block in blocks.iter_mut().filter(|block| block.cell.contender == "c") {
            block.figures.insert(Figure::Failed, 1000.0);
        }
        let (sureness, said) = row(&blocks);
        assert_eq!(sureness, "clear");
        assert!(said.contains("Aside(\"20\\u{a0}% failed\")"), "{said}");
        assert!(said.contains("a in 1") && !said.contains("c in 1"), "{said}");
        for block in blocks.iter_mut().filter(|block| block.cell.contender == "b") {
            block.figures.insert(Figure::Failed, 1000.0);
        }
        let (sureness, said) = row(&blocks);
        assert_eq!(sureness, "only a answered all requests");
        assert!(said.contains("none"), "{said}");
    }
}

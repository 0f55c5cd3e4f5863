//! Who leads: a line an experiment for the first page, and a line a load for the experiment's own section.

use std::collections::BTreeSet;

use super::choices::AS_GOOD;
use super::document::{Entry, Part, Span, Table, Target, Text, slug};
use super::format;
use super::summary::{Lead, Share, Summary, Work, geometric_mean, level};
use crate::experiment::Kind;

/// So many contenders that are level with the first are named on the first page; of more, the experiment's section
/// tells the names.
const PARTNERS_MAX: usize = 3;

/// So many contenders are named in short.
const AHEAD_MAX: usize = 4;

/// All leads, judged together.
pub(super) struct Leads<'a> {
    all: Vec<Judged<'a>>,
    noise: f64,
    has_twins: bool,
}

/// The lead of one work.
struct Judged<'a> {
    work: &'a Work<'a>,
    lead: Lead<'a>,
    level: Vec<&'a str>,
}

/// How often a contender was ahead in several works.
#[derive(Default)]
struct Standing {
    clear: usize,
    level: usize,
    behind: usize,
}

impl<'a> Leads<'a> {
    /// The leads of these works; Holm's correction is over all of them.
    pub(super) fn of(summary: &Summary<'a>, works: &'a [Work<'a>]) -> Leads<'a> {
        let noise = summary.noise();
        let lead = |work: &'a Work<'a>| Some((work, summary.lead(work, work.deciding())?));
        let leads: Vec<(&Work<'_>, Lead<'_>)> = works.iter().filter_map(lead).collect();
        let level = level(&leads.iter().map(|(_, lead)| lead).collect::<Vec<_>>(), noise, AS_GOOD);
        let judged = leads.into_iter().zip(level).map(|((work, lead), level)| Judged { work, lead, level });
        Leads { all: judged.collect(), noise, has_twins: !summary.twins().is_empty() }
    }

    /// What the first page says: a line for each experiment and figure.
    pub(super) fn overview(&self) -> Vec<Part> {
        if self.all.is_empty() {
            return vec![Part::Note("Nothing was measured yet.".into())];
        }
        let contenders = self.contenders();
        let groups = self.groups();
        let has_column = |share: &Share<'_>| contenders.contains(&share.contender);
        let has_others = !self.all.iter().flat_map(|judged| &judged.lead.shares).all(has_column);
        let columns = ["Experiment", "First", "How sure"].map(str::to_owned).into_iter();
        let columns = columns.chain(contenders.iter().map(|name| format!("#{name}")));
        let columns = columns.chain(has_others.then(|| "Others".to_owned()));
        let mut table = Table::new("Each contender's share of the best", columns);
        for group in &groups {
            table.row(group_row(group, &contenders, has_others));
        }
        let mut parts = Vec::new();
        if self.all.iter().any(|judged| judged.work.indicative) {
            let words = "Some of this is of a quick run, with few and short turns: it is marked indicative, and no claim \
                         rests on it.";
            parts.push(Part::Note(words.into()));
        }
        if self.all.iter().any(|judged| judged.work.quick && !judged.work.indicative) {
            let words = "Some of this has all the turns that a claim needs, but smaller loads than a full run: fewer numbers \
                         of clients, and shorter blocks. What each was is said beside it.";
            parts.push(Part::Note(words.into()));
        }
        let lead = "The best contender of a load is 100 %. Where an experiment has several loads, the mean over them is \
                    shown, with the least and the most below it; for one load, its 95 % interval.";
        parts.extend([Part::Text(lead.into()), Part::Table(table), Part::Text(self.reading())]);
        parts
    }

    /// What a manager is told first: who is ahead, and how sure that is, in plain words. Loads that few contenders took
    /// say nothing about it.
    pub(super) fn in_short(&self) -> Vec<Text> {
        let most = self.all.iter().map(|judged| judged.lead.shares.len()).max().unwrap_or_default();
        let is_for_many = |judged: &&Judged<'_>| {
            let count = judged.lead.shares.len();
            count > 1 && count * 2 >= most && judged.work.load.kind != Kind::Idle
        };
        let works: Vec<&Judged<'_>> = self.all.iter().filter(is_for_many).collect();
        let mut ahead: Vec<(&str, usize)> = Vec::new();
        for judged in &works {
            for name in std::iter::once(judged.lead.shares[0].contender).chain(judged.level.iter().copied()) {
                match ahead.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => ahead.push((name, 1)),
                }
            }
        }
        if ahead.is_empty() {
            return Vec::new();
        }
        ahead.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = ahead.iter().take(AHEAD_MAX).map(|(name, count)| format!("{name} in {count}"));
        let ahead = Text::default().stress("Who is ahead: ").say(format!(
            "of {} that most contenders took, these were most often first, or level with the first: {}.",
            format::counted(works.len(), "load"),
            format::list(&named.collect::<Vec<_>>())
        ));
        vec![ahead, Text::default().stress("How sure: ").say(self.sure_of_it(&works))]
    }

    fn sure_of_it(&self, works: &[&Judged<'_>]) -> String {
        let noise = match self.has_twins {
            true => format!("Two copies of one program differed by up to {}", format::percent(self.noise)),
            false => "How much two copies of one program differ was not measured".to_owned(),
        };
        let turns = works.iter().map(|judged| judged.lead.shares[0].turns).min().unwrap_or_default();
        if works.iter().any(|judged| judged.is_indicative()) {
            return format!(
                "not very. A figure is the middle of as few as {}, so chance has a large part in it. {noise}: a lesser \
                 difference says nothing. A full run repeats each measurement until claims can rest on it.",
                format::counted(turns, "measurement")
            );
        }
        format!(
            "a lead that is called clear would come about by chance in at most one report of twenty. A figure is the \
             middle of {} or more. {noise}, and a lesser difference is never called a lead.",
            format::counted(turns, "measurement")
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
        let columns = ["Load", "First", "How sure"].map(str::to_owned).into_iter();
        let columns = columns.chain(contenders.iter().map(|name| format!("#{name}")));
        let mut table = Table::new("Who leads: shares of the best with 95 % intervals", columns);
        for judged in &judged {
            table.row(judged.row(&contenders));
        }
        (!table.rows.is_empty()).then_some(Part::Table(table))
    }

    fn reading(&self) -> Text {
        let floor = match self.has_twins {
            true => format!("Equal programs differed by up to {} here.", format::percent(self.noise)),
            false => {
                "No contender was measured against its twin, so the noise floor is not known.".to_owned()
            }
        };
        Text::from(
            "Ratios are taken between blocks that ran one after the other; what is shown is their median. For times and \
             memory less is better, and half the share means twice as much. A lead is clear where it is more than the \
             noise floor and significant at 5 % with all comparisons of this report looked at together (Holm's \
             correction); otherwise the contenders are called level. ",
        )
        .say(floor)
    }

    /// The works of one experiment with the same figure. Of these, works in which few took part would make those few
    /// the first: they are left to the experiment's own section.
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
            let most = group.iter().map(|judged| judged.lead.shares.len()).max().unwrap_or_default();
            group.retain(|judged| judged.lead.shares.len() * 2 >= most);
        }
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

impl Judged<'_> {
    fn row(&self, contenders: &[&str]) -> Vec<Entry> {
        let (work, lead) = (self.work, &self.lead);
        let at = match work.load.kind {
            Kind::Knee => "the most clients that were all answered in time".into(),
            _ => work.at(lead.clients),
        };
        let first = &lead.shares[0];
        let figure = format::with_unit(lead.figure, first.value.median);
        let mut cells: Vec<Entry> = vec![
            Text::from(work.title())
                .aside(if work.title().contains(&at) { String::new() } else { at })
                .into(),
            Text::default().stress(first.contender).aside(figure).into(),
            self.sureness().into(),
        ];
        for name in contenders {
            let share = lead.share(name);
            let text =
                share.map_or_else(|| "–".into(), |share| format::percent_range(share.of_best, share.turns));
            cells.push(Entry { text, share: share.map(|share| share.of_best.median) });
        }
        cells
    }

    fn sureness(&self) -> String {
        let names: Vec<String> = self.level.iter().map(|name| (*name).to_owned()).collect();
        let words = match names.len() {
            _ if self.lead.shares.len() == 1 => "alone".to_owned(),
            0 => "clear".to_owned(),
            _ => format!("level with {}", format::list(&names)),
        };
        if self.is_indicative() { format!("indicative: {words}") } else { words }
    }

    /// Those who are level with this contender, where it is one of the first.
    fn level_with(&self, name: &str) -> Vec<&str> {
        let first = self.lead.shares[0].contender;
        if name != first && !self.level.contains(&name) {
            return Vec::new();
        }
        let all = std::iter::once(first).chain(self.level.iter().copied());
        all.filter(|other| *other != name).collect()
    }

    fn is_indicative(&self) -> bool {
        self.work.indicative || !self.lead.has_interval()
    }
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
    let first = if group.len() == 1 { judged.lead.shares[0].contender } else { means[0].0 };
    let sure = if group.len() == 1 { judged.sureness() } else { standing(group, first) };
    let mut cells: Vec<Entry> = vec![title.into(), Text::default().stress(first).into(), sure.into()];
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

/// A contender's mean share over the works that it took part in, with the least and the most.
fn group_entry(group: &[&Judged<'_>], name: &str) -> Entry {
    let shares: Vec<&Share<'_>> = group.iter().filter_map(|judged| judged.lead.share(name)).collect();
    let text = match shares[..] {
        [] => return "–".into(),
        [only] if group.len() == 1 => format::percent_range(only.of_best, only.turns),
        _ => {
            let ends = |(low, high): (f64, f64), share: &&Share<'_>| {
                (low.min(share.of_best.median), high.max(share.of_best.median))
            };
            let (low, high) = shares.iter().fold((f64::INFINITY, 0.0), ends);
            format::percent_between(mean(group, name), low, high)
        }
    };
    Entry { text, share: Some(mean(group, name)) }
}

fn mean(group: &[&Judged<'_>], name: &str) -> f64 {
    let shares: Vec<f64> =
        group.iter().filter_map(|judged| Some(judged.lead.share(name)?.of_best.median)).collect();
    geometric_mean(&shares)
}

/// In how many of several works a contender leads, is level with who leads, and is behind.
fn standing(group: &[&Judged<'_>], first: &str) -> String {
    let mut standing = Standing::default();
    for judged in group.iter().filter(|judged| judged.lead.share(first).is_some()) {
        let leads = judged.lead.shares[0].contender == first;
        match (leads, judged.level.is_empty(), judged.level.contains(&first)) {
            (true, true, _) => standing.clear += 1,
            (true, false, _) | (false, _, true) => standing.level += 1,
            _ => standing.behind += 1,
        }
    }
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
    let counts = [
        (standing.clear, "clear", ""),
        (standing.level, "level", partners.as_str()),
        (standing.behind, "behind", ""),
    ];
    let counts = counts.iter().filter(|(count, ..)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, word, more)| format!("{word} in {count} of {}{more}", group.len())).collect();
    let words = counts.join(", ");
    if group.iter().any(|judged| judged.is_indicative()) { format!("indicative: {words}") } else { words }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

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
    fn loads_of_few_make_nobody_the_first() {
        let (experiments, mut blocks) = (fixture::experiments(), fixture::blocks());
        // Of one of two loads only the slowest is left.
        let work = |block: &crate::block::Block| (block.cell.experiment.clone(), block.cell.load.clone());
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
        let said = |blocks: &[crate::block::Block]| {
            let summary = Summary::of(blocks);
            let works: Vec<Work<'_>> =
                experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
            format!("{:?}", Leads::of(&summary, &works).in_short())
        };
        let full = said(&blocks);
        assert!(full.contains("of 2 loads that most contenders took"), "{full}");
        assert!(
            full.contains("one report of twenty") && full.contains("Two copies of one program"),
            "{full}"
        );
        blocks.iter_mut().for_each(|block| block.quick = true);
        let quick = said(&blocks);
        assert!(quick.contains("not very") && quick.contains("as few as 3 measurements"), "{quick}");
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
        assert_eq!(standing(&groups[1], "apache-event"), "behind in 2 of 2");
        assert_eq!(standing(&groups[1], "fulmar"), "level in 2 of 2 with nginx");
        let (first, second) =
            (groups[0][0].lead.share("lighttpd").unwrap(), groups[0][1].lead.share("lighttpd").unwrap());
        let mean = mean(&groups[0], "lighttpd");
        assert!((mean * mean - first.of_best.median * second.of_best.median).abs() < 1e-12);
    }
}

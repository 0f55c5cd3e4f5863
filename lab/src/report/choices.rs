//! What to choose when: rules over the measured figures. Each rule is printed beside what follows from it.

use super::format;
use super::summary::{Lead, Summary, Work, geometric_mean};
use crate::experiment::Kind;
use crate::figure::Figure;

/// Contenders nearer than this to the first are as good a choice, if the noise floor is not higher anyway.
pub(super) const AS_GOOD: f64 = 0.03;

/// A need with its answer.
pub(super) struct Choice {
    /// What somebody needs.
    pub(super) need: &'static str,
    /// The rule by which it is answered.
    pub(super) rule: String,
    /// The first by that rule, then those that are as good.
    pub(super) first: Vec<String>,
    /// The next behind them, and how good it is compared with the first.
    pub(super) next: Option<(String, f64)>,
}

struct Need {
    need: &'static str,
    kind: Kind,
    figure: Figure,
    /// Whether the worst share counts, and not the mean.
    is_worst: bool,
}

const NEEDS: &[Need] = &[
    Need {
        need: "the most requests from a given machine",
        kind: Kind::Load,
        figure: Figure::RequestsPerS,
        is_worst: false,
    },
    Need {
        need: "no load at which it falls far behind",
        kind: Kind::Load,
        figure: Figure::RequestsPerS,
        is_worst: true,
    },
    Need { need: "few slow answers", kind: Kind::Load, figure: Figure::P99Ms, is_worst: false },
    Need { need: "the least CPU", kind: Kind::Load, figure: Figure::CpuUsPerRequest, is_worst: false },
    Need {
        need: "the least memory under load",
        kind: Kind::Load,
        figure: Figure::MemoryBytes,
        is_worst: false,
    },
    Need {
        need: "many connections that are mostly idle",
        kind: Kind::Idle,
        figure: Figure::MemoryPerConnectionBytes,
        is_worst: false,
    },
];

/// The needs that the measured figures can answer.
pub(super) fn choices(summary: &Summary<'_>, works: &[Work<'_>]) -> Vec<Choice> {
    NEEDS.iter().filter_map(|need| choice(need, summary, works)).collect()
}

/// Contenders of which no request failed in anything that was measured, and those of which some did.
pub(super) fn faultless(summary: &Summary<'_>, works: &[Work<'_>]) -> (Vec<String>, Vec<String>) {
    let mut names: Vec<&str> = works.iter().flat_map(|work| work.contenders.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let values = |name: &str, figure: Figure| -> Vec<f64> {
        let cells =
            works.iter().flat_map(|work| work.clients.iter().map(|clients| work.cell(name, *clients)));
        cells.flat_map(|cell| summary.turns(&cell, figure).into_values()).collect()
    };
    // Who was never measured has not failed, and has not answered either.
    names.retain(|name| !values(name, Figure::RequestsPerS).is_empty());
    let failed = |name: &&str| values(name, Figure::Failed).iter().any(|failed| *failed > 0.0);
    let (bad, good): (Vec<&str>, Vec<&str>) = names.into_iter().partition(failed);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (owned(good), owned(bad))
}

fn choice(need: &Need, summary: &Summary<'_>, works: &[Work<'_>]) -> Option<Choice> {
    let noise = summary.noise();
    let leads: Vec<Lead<'_>> = works
        .iter()
        .filter(|work| work.load.kind == need.kind)
        .filter_map(|work| summary.lead(work, need.figure))
        .collect();
    let (common, leads) = together(&leads);
    if common.len() < 2 {
        return None;
    }
    let mut scores: Vec<(&str, f64)> = common.iter().map(|name| (*name, score(need, name, &leads))).collect();
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let best = scores.first()?.1;
    let is_as_good = |score: f64| score >= best * (1.0 - noise.max(AS_GOOD));
    let first =
        scores.iter().filter(|(_, score)| is_as_good(*score)).map(|(name, _)| (*name).to_owned()).collect();
    let next = scores.iter().find(|(_, score)| !is_as_good(*score));
    let next = next.map(|(name, score)| ((*name).to_owned(), score / best));
    Some(Choice { need: need.need, rule: rule(need, leads.len(), common.len()), first, next })
}

/// The largest set of contenders that were measured together, and the leads in which all of them are.
fn together<'a, 'b>(leads: &'b [Lead<'a>]) -> (Vec<&'b str>, Vec<&'b Lead<'a>>) {
    let Some(most) = leads.iter().rev().max_by_key(|lead| lead.shares.len()) else {
        return Default::default();
    };
    let names: Vec<&str> = most.shares.iter().map(|share| share.contender).collect();
    let has_all = |lead: &&Lead<'_>| names.iter().all(|name| lead.share(name).is_some());
    let leads = leads.iter().filter(has_all).collect();
    (names, leads)
}

fn score(need: &Need, name: &str, leads: &[&Lead<'_>]) -> f64 {
    let shares: Vec<f64> = leads
        .iter()
        .filter_map(|lead| Some(lead.share(name)?.of_best.median))
        .filter(|share| share.is_finite())
        .collect();
    if need.is_worst { shares.iter().copied().fold(f64::INFINITY, f64::min) } else { geometric_mean(&shares) }
}

fn rule(need: &Need, works: usize, contenders: usize) -> String {
    let how = if need.is_worst { "the highest worst share" } else { "the highest mean share" };
    let works = if works == 1 { "the one load".into() } else { format!("the {works} loads") };
    let figure = format::unit(need.figure).0.split(", ").next().unwrap_or_default();
    let figure = if need.figure == Figure::CpuUsPerRequest { "CPU time a request" } else { figure };
    format!("{how} of the best {figure}, over {works} that all {contenders} contenders were measured in")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::block::tests::block;
    use crate::experiment::Experiment;

    fn experiment() -> Experiment {
        Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b', 'c']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nrequests = 1\n\
             [[loads]]\nid = 'm'\ntitle = 'm'\nclients = 10\nrequests = 1\n",
        )
        .unwrap()
    }

    #[test]
    fn the_mean_and_the_worst_may_choose_differently() {
        let rate = |name: &str, load: &str, rate: f64| -> Block {
            block(name, load, 10, &[(Figure::RequestsPerS, rate)])
        };
        // a: 100 %, 40 %; b: 60 %, 60 %; c: 30 %, 100 %.
        let blocks = [
            rate("a", "l", 100.0),
            rate("b", "l", 60.0),
            rate("c", "l", 30.0),
            rate("a", "m", 40.0),
            rate("b", "m", 60.0),
            rate("c", "m", 100.0),
        ];
        let (summary, experiment) = (Summary::of(&blocks), experiment());
        let choices = choices(&summary, &summary.works(&experiment));
        let first = |need: &str| &choices.iter().find(|choice| choice.need.contains(need)).unwrap().first;
        assert_eq!(first("most requests"), &["a"]);
        assert_eq!(first("falls far behind"), &["b"]);
        assert!(choices.iter().all(|choice| !choice.need.contains("idle")), "nothing idle was measured");
    }

    #[test]
    fn only_loads_that_all_took_part_in_are_compared() {
        let rate = |name: &str, load: &str, rate: f64| -> Block {
            block(name, load, 10, &[(Figure::RequestsPerS, rate)])
        };
        let blocks =
            [rate("a", "l", 100.0), rate("b", "l", 90.0), rate("c", "l", 99.0), rate("b", "m", 100.0)];
        let (summary, experiment) = (Summary::of(&blocks), experiment());
        let works = summary.works(&experiment);
        let choice = &choices(&summary, &works)[0];
        assert_eq!(choice.first, ["a", "c"], "1 % is as good");
        assert_eq!(choice.next.as_ref().unwrap().0, "b");
        assert!(choice.rule.contains("the one load that all 3"), "{}", choice.rule);
        assert_eq!(faultless(&summary, &works).0, ["a", "b", "c"]);
    }
}

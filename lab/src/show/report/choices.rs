//! What to choose when: rules over the measured figures. Each rule is printed with its results.

use super::format;
use super::lead::{FAILED_MAX, Fault, Lead};
use super::summary::{Summary, TURNS_MIN, Work, geometric_mean};
use crate::judge::statistics::FEWEST;
use crate::model::experiment::Kind;
use crate::model::figure::Figure;

/// Contenders nearer than this to the first are as good a choice, if the noise floor is not higher anyway.
pub(super) const AS_GOOD: f64 = 0.03;

/// If two copies of one program differ by more, nothing is chosen: nearly every server would be as good.
const NOISE_MAX: f64 = 0.2;

/// A need with its answer.
pub(super) struct Choice {
    /// A purpose of a server.
    pub(super) need: &'static str,
    /// The rule by which it is answered.
    pub(super) rule: String,
    /// The first by that rule, then those that are as good. None where the noise floor is too high to choose.
    pub(super) first: Vec<String>,
    /// The next after them, and how good it is compared with the first.
    pub(super) next: Option<(String, f64)>,
    /// Who is not chosen because it did not answer all, and what.
    pub(super) failed: Vec<String>,
    /// How few measurements the figures are the middle of, where no claim can rest on them.
    pub(super) turns: Option<usize>,
}

/// Who answered all of what all of them were asked.
pub(super) struct Faultless {
    /// Of whom no request failed.
    pub(super) good: Vec<String>,
    /// The others, and what failed.
    pub(super) bad: Vec<String>,
    /// Who is not compared, since it did not take part in all of those loads.
    pub(super) absent: Vec<String>,
    /// The rule.
    pub(super) rule: String,
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

/// Contenders of which no request failed, and those of which some did, in the loads that all of them took part in:
/// more contenders in more loads go before fewer.
pub(super) fn faultless<'a>(summary: &Summary<'a>, works: &[Work<'a>]) -> Option<Faultless> {
    let begun = |work: &Work<'a>| -> Vec<Fault<'a>> {
        let faults = work.contenders.iter().map(|name| summary.fault(work, name));
        faults.filter(|fault| fault.of_blocks > 0).collect()
    };
    let all: Vec<Vec<Fault<'a>>> =
        works.iter().filter(|work| work.load.kind != Kind::Knee).map(begun).collect();
    let has = |work: &[Fault<'_>], name: &str| work.iter().any(|fault| fault.contender == name);
    let holds =
        |work: &[Fault<'_>], others: &[Fault<'_>]| others.iter().all(|other| has(work, other.contender));
    let loads_of = |set: &[Fault<'_>]| all.iter().filter(|work| holds(work, set)).count();
    let set = all.iter().rev().max_by_key(|set| set.len() * loads_of(set))?;
    if set.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = all.iter().flatten().map(|fault| fault.contender).collect();
    names.sort_unstable();
    names.dedup();
    let (compared, absent): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| has(set, name));
    let common: Vec<&Vec<Fault<'a>>> = all.iter().filter(|work| holds(work, set)).collect();
    let rule = format!(
        "no failed request and no run without figures, over {} that all {} servers ran, with those of idle connections \
         and reloads",
        the_loads(common.len()),
        set.len()
    );
    let mut found = Faultless {
        good: Vec::new(),
        bad: Vec::new(),
        absent: absent.into_iter().map(str::to_owned).collect(),
        rule,
    };
    for name in compared.into_iter().filter(|name| !is_toy(name)) {
        let own = || common.iter().copied().flatten().filter(|fault| fault.contender == name);
        let requests: f64 = own().map(|fault| fault.requests).sum();
        let blocks: usize = own().map(|fault| fault.blocks).sum();
        let requests =
            (requests > 0.0).then(|| format!("{} failed", format::value(Figure::Failed, requests)));
        let blocks = (blocks > 0).then(|| format!("{} without figures", format::counted(blocks, "run")));
        let failed: Vec<String> = requests.into_iter().chain(blocks).collect();
        match failed.is_empty() {
            true => found.good.push(name.to_owned()),
            false => found.bad.push(format!("{name} ({})", failed.join(", "))),
        }
    }
    Some(found)
}

fn choice(need: &Need, summary: &Summary<'_>, works: &[Work<'_>]) -> Option<Choice> {
    let noise = summary.floor(need.figure).unwrap_or_default();
    let works: Vec<&Work<'_>> = works.iter().filter(|work| work.load.kind == need.kind).collect();
    let leads: Vec<(bool, Lead<'_>)> = works
        .into_iter()
        .filter_map(|work| Some((work.indicative, summary.lead(work, need.figure)?)))
        .collect();
    let (common, leads) = together(&leads);
    let failed: Vec<String> = common.iter().filter_map(|name| failed(name, &leads)).collect();
    let ranked = common.iter().filter(|name| leads.iter().all(|(_, lead)| lead.share(name).is_some()));
    let mut scores: Vec<(&str, f64)> = ranked.map(|name| (*name, score(need, name, &leads))).collect();
    if common.len() < 2 || scores.is_empty() {
        return None;
    }
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let best = scores.first()?.1;
    if noise > NOISE_MAX {
        let rule = format!("two copies of one program differ by {} here", format::percent(noise));
        return Some(Choice { need: need.need, rule, first: Vec::new(), next: None, failed, turns: None });
    }
    let is_as_good = |score: f64| score >= best * (1.0 - noise.max(AS_GOOD));
    let first =
        scores.iter().filter(|(_, score)| is_as_good(*score)).map(|(name, _)| (*name).to_owned()).collect();
    let next = scores.iter().find(|(_, score)| !is_as_good(*score));
    let next = next.map(|(name, score)| ((*name).to_owned(), score / best));
    let rule = format!(
        "{}; within {} is as good",
        rule(need, leads.len(), common.len()),
        format::percent(noise.max(AS_GOOD))
    );
    let turns = leads.iter().flat_map(|(_, lead)| &lead.shares).map(|share| share.turns).min();
    // Unlike other loads, idle connections are measured only once in a run of few turns.
    if need.kind == Kind::Idle && turns.is_some_and(|turns| turns < FEWEST as usize) {
        return None;
    }
    let is_indicative = |turns: &usize| *turns < TURNS_MIN || leads.iter().any(|(indicative, _)| *indicative);
    Some(Choice { need: need.need, rule, first, next, failed, turns: turns.filter(is_indicative) })
}

/// What a contender did not answer, in the load in which that was most.
fn failed(name: &str, leads: &[&(bool, Lead<'_>)]) -> Option<String> {
    let faults = leads.iter().filter_map(|(_, lead)| lead.fault(name));
    let lost = |fault: &Fault<'_>| fault.failed + fault.blocks as f64 / fault.of_blocks as f64;
    let worst = faults.max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    Some(format!("{name} ({})", worst.words()))
}

/// The largest set of contenders that were measured together, and the leads in which all of them are. Who took part
/// and did not answer all is among them.
fn together<'a, 'b>(leads: &'b [(bool, Lead<'a>)]) -> (Vec<&'a str>, Vec<&'b (bool, Lead<'a>)>) {
    let Some((_, most)) = leads.iter().rev().max_by_key(|(_, lead)| lead.count()) else {
        return Default::default();
    };
    let names: Vec<&str> = most.contenders().into_iter().filter(|name| !is_toy(name)).collect();
    let has_all = |(_, lead): &&(bool, Lead<'a>)| {
        let here = lead.contenders();
        names.iter().all(|name| here.contains(name))
    };
    let leads = leads.iter().filter(has_all).collect();
    (names, leads)
}

/// Whether a contender is one of the lab's own small servers, which nobody can run a site with.
fn is_toy(name: &str) -> bool {
    name.starts_with("reference-")
}

fn score(need: &Need, name: &str, leads: &[&(bool, Lead<'_>)]) -> f64 {
    let shares: Vec<f64> = leads
        .iter()
        .filter_map(|(_, lead)| Some(lead.share(name)?.of_best.median))
        .filter(|share| share.is_finite())
        .collect();
    if need.is_worst { shares.iter().copied().fold(f64::INFINITY, f64::min) } else { geometric_mean(&shares) }
}

fn rule(need: &Need, works: usize, contenders: usize) -> String {
    let how = if need.is_worst { "the highest worst share" } else { "the highest mean share" };
    let figure = format::unit(need.figure).0.split(", ").next().unwrap_or_default();
    let figure = if need.figure == Figure::CpuUsPerRequest { "CPU time a request" } else { figure };
    format!(
        "{how} of the best {figure}, over {} that all {contenders} servers ran; a server that failed more than {} of the \
         requests of one load is not chosen",
        the_loads(works),
        format::percent(FAILED_MAX)
    )
}

fn the_loads(count: usize) -> String {
    if count == 1 { "the one load".into() } else { format!("the {count} loads") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::Block;
    use crate::model::block::tests::block;
    use crate::model::experiment::Experiment;

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
    fn idle_connections_that_were_measured_once_choose_nothing() {
        let mut experiment = experiment();
        experiment.loads[0].kind = Kind::Idle;
        let needs = |turns: u32| {
            let of = |name: &'static str, bytes: f64| {
                (0..turns).map(move |turn| Block {
                    turn,
                    ..block(name, "l", 10, &[(Figure::MemoryPerConnectionBytes, bytes)])
                })
            };
            let blocks: Vec<Block> = of("a", 500.0).chain(of("b", 900.0)).collect();
            let summary = Summary::of(&blocks);
            choices(&summary, &summary.works(&experiment)).len()
        };
        assert_eq!([needs(1), needs(6)], [0, 1]);
    }

    /// The lab's own small servers serve nobody's site.
    #[test]
    fn toys_are_not_recommended() {
        let rate = |name: &str, rate: f64| block(name, "l", 10, &[(Figure::RequestsPerS, rate)]);
        let mut blocks = vec![rate("reference-thread", 1000.0), rate("a", 100.0), rate("b", 60.0)];
        let most = |blocks: &[Block]| {
            let (summary, experiment) = (Summary::of(blocks), experiment());
            choices(&summary, &summary.works(&experiment)).remove(0)
        };
        assert_eq!(most(&blocks).first, ["a"]);
        // Where two copies of one program are that far apart, every server would be as good.
        blocks.push(rate("a-twin", 180.0));
        let choice = most(&blocks);
        assert!(choice.first.is_empty() && choice.next.is_none(), "{:?}", choice.first);
        assert!(choice.rule.contains("two copies of one program differ by 80"), "{}", choice.rule);
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
        assert_eq!(faultless(&summary, &works).unwrap().good, ["a", "b", "c"]);
    }

    #[test]
    fn who_failed_is_not_chosen_for_what_it_did_answer() {
        let answered = |name: &str, load: &str, ms: f64, failed: f64| -> Block {
            let figures = [
                (Figure::P99Ms, ms),
                (Figure::RequestsPerS, 1000.0),
                (Figure::TotalS, 1.0),
                (Figure::Failed, failed),
            ];
            Block { raw: "raw/x".into(), ..block(name, load, 10, &figures) }
        };
        let mut blocks = vec![
            answered("a", "l", 1.0, 30.0),
            answered("b", "l", 5.0, 1.0),
            answered("c", "l", 9.0, 0.0),
            answered("a", "m", 1.0, 0.0),
            answered("b", "m", 5.0, 0.0),
            answered("c", "m", 9.0, 0.0),
        ];
        let experiment = experiment();
        let chosen = |blocks: &[Block]| {
            let summary = Summary::of(blocks);
            let mut choices = choices(&summary, &summary.works(&experiment));
            choices.remove(choices.iter().position(|choice| choice.need == "few slow answers").unwrap())
        };
        let choice = chosen(&blocks);
        assert_eq!((choice.first, choice.next.unwrap().0), (vec!["b".to_owned()], "c".to_owned()));
        assert_eq!(choice.failed, ["a (2.9\u{a0}% failed)"], "and one of 1,001 of b's is little");
        assert_eq!(choice.turns, Some(1), "no claim rests on one turn");
        assert!(choice.rule.contains("the 2 loads that all 3"), "{}", choice.rule);
        // Who gave no figures at all in one load took part in it nevertheless.
        blocks[4].failure = Some("it ended".into());
        blocks[4].figures.clear();
        let choice = chosen(&blocks);
        assert_eq!(choice.first, ["c"]);
        assert!(choice.failed.contains(&"b (1 of 1 run without figures)".to_owned()), "{:?}", choice.failed);
    }

    #[test]
    fn no_failure_is_said_of_loads_that_all_took_part_in() {
        let answered = |name: &str, load: &str, failed: f64| -> Block {
            block(name, load, 10, &[(Figure::RequestsPerS, 100.0), (Figure::Failed, failed)])
        };
        let mut blocks = vec![
            answered("a", "l", 0.0),
            answered("b", "l", 0.0),
            answered("c", "l", 0.0),
            answered("a", "m", 0.0),
            answered("b", "m", 7.0),
        ];
        let experiment = experiment();
        let told = |blocks: &[Block]| {
            let summary = Summary::of(blocks);
            let found = faultless(&summary, &summary.works(&experiment)).unwrap();
            (found.good, found.bad, found.absent, found.rule)
        };
        // Three contenders in one load are less than two in two: c never took part in what b failed in.
        let (good, bad, absent, rule) = told(&blocks);
        assert_eq!(
            (good, bad, absent),
            (vec!["a".into()], vec!["b (7 failed)".into()], vec!["c".to_owned()])
        );
        assert!(rule.contains("the 2 loads that all 2 servers"), "{rule}");
        blocks.push(Block {
            failure: Some("it ended".into()),
            raw: "raw/x".into(),
            ..answered("c", "m", 0.0)
        });
        let (_, bad, absent, _) = told(&blocks);
        assert_eq!(bad, ["b (7 failed)", "c (1 run without figures)"]);
        assert!(absent.is_empty());
    }
}

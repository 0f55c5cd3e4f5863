//! Who is first in a load by one figure, who is not ranked in it and why, and how far behind the others are for sure.

use std::collections::{BTreeMap, BTreeSet};

use super::choices::AS_GOOD;
use super::format;
use super::summary::{Summary, TURNS_MIN, Work, interval, ratios};
use crate::judge::statistics::{Estimate, FEWEST, holm, median, p_value, paired};
use crate::model::block::{Block, twin_of};
use crate::model::experiment::Kind;
use crate::model::figure::Figure;

/// Who failed to answer more of a load than this part is not ranked in it: rates and times are of what was answered.
pub(super) const FAILED_MAX: f64 = 0.001;

/// More unlikely than this is not taken for chance.
const CHANCE: f64 = 0.05;

/// A figure by turn.
type Turns = BTreeMap<u32, f64>;

/// A contender's place in a work.
pub(super) struct Share<'a> {
    /// Who.
    pub(super) contender: &'a str,
    /// Its figure.
    pub(super) value: Estimate,
    /// How good it is, compared with the first in the same turn: 1 is as good, 0.5 half as good.
    pub(super) of_best: Estimate,
    /// How many turns both have.
    pub(super) turns: usize,
    /// How likely such ratios are where both are equally good.
    pub(super) p: f64,
}

/// A contender that did not answer all of a work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault<'a> {
    /// Who.
    pub(super) contender: &'a str,
    /// The part of the requests that failed, at the number of clients at which most did.
    pub(super) failed: f64,
    /// How many failed at all.
    pub(super) requests: f64,
    /// Blocks that began and gave no figures.
    pub(super) blocks: usize,
    /// Of so many.
    pub(super) of_blocks: usize,
}

/// Who leads in a work.
pub(super) struct Lead<'a> {
    /// By which figure.
    pub(super) figure: Figure,
    /// At how many clients.
    pub(super) clients: u32,
    /// The first, and the others by their shares. None where nobody leads.
    pub(super) shares: Vec<Share<'a>>,
    /// Who is not ranked.
    pub(super) faults: Vec<Fault<'a>>,
    /// Who alone answered all of it, where others took part that did not.
    pub(super) only: Option<&'a str>,
    /// How far equal programs were apart in this figure, if that was measured.
    pub(super) floor: Option<f64>,
}

/// How a contender compares with the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Within the noise floor.
    Level,
    /// Farther after than that, but it may be chance.
    Unshown,
    /// Behind.
    Behind,
}

impl<'a> Summary<'a> {
    /// Who leads in a work by a figure, at the largest number of clients at which most contenders have it.
    /// `None` where nobody has that figure, or more of it is neither better nor worse.
    pub(super) fn lead(&self, work: &Work<'a>, figure: Figure) -> Option<Lead<'a>> {
        let higher = figure.higher_is_better()?;
        let having = |clients: u32| {
            let has = |name: &&&str| !self.values(work, name, clients, figure).is_empty();
            work.contenders.iter().filter(has).count()
        };
        let most = work.clients.iter().map(|clients| having(*clients)).max().filter(|most| *most > 0)?;
        let clients = *work.clients.iter().rev().find(|clients| having(**clients) == most)?;
        let faults = self.faults(work);
        let is_ranked = |name: &str| !faults.iter().any(|fault| fault.contender == name);
        let mut ranked: Vec<(&'a str, Turns)> = work
            .contenders
            .iter()
            .filter(|name| is_ranked(name))
            .map(|name| (*name, self.values(work, name, clients, figure)))
            .filter(|(_, turns)| !turns.is_empty())
            .collect();
        // What one alone answered ranks nobody.
        let only = ranked.first().filter(|_| ranked.len() == 1 && !faults.is_empty()).map(|(name, _)| *name);
        if only.is_some() {
            ranked.clear();
        }
        let floor = self.floor(figure);
        Some(Lead { figure, clients, shares: shares(&ranked, higher), faults, only, floor })
    }

    /// How far the medians of equal programs were apart at most in a figure: 0.02 is 2 %. `None` where no twin was
    /// measured.
    pub(super) fn floor(&self, figure: Figure) -> Option<f64> {
        let distance = |cell| {
            let mut twin = crate::model::block::Cell::clone(cell);
            twin.contender = twin_of(&cell.contender);
            let ratios = ratios(&self.quiet_turns(&twin, figure), &self.quiet_turns(cell, figure));
            (!ratios.is_empty()).then(|| (median(&ratios) - 1.0).abs())
        };
        self.cells().filter_map(distance).reduce(f64::max)
    }

    /// Who did not answer all of a work, at any number of clients. Where the load is raised until it breaks, failures
    /// are what is measured.
    pub(super) fn faults(&self, work: &Work<'a>) -> Vec<Fault<'a>> {
        if work.load.kind == Kind::Knee {
            return Vec::new();
        }
        let faults = work.contenders.iter().map(|name| self.fault(work, name));
        faults.filter(|fault| fault.failed > FAILED_MAX || fault.blocks > 0).collect()
    }

    /// What a contender did not answer of a work, however little.
    pub(super) fn fault(&self, work: &Work<'a>, contender: &'a str) -> Fault<'a> {
        let mut fault = Fault { contender, failed: 0.0, requests: 0.0, blocks: 0, of_blocks: 0 };
        for clients in &work.clients {
            let cell = work.cell(contender, *clients);
            let measured = self.measured(&cell);
            let (requests, part) = failed(&measured);
            fault.requests += requests;
            fault.failed = fault.failed.max(part);
            // What did not begin has no output, and what was measured later has figures.
            let done: BTreeSet<u32> = measured.iter().map(|block| block.turn).collect();
            let is_full = measured.iter().any(|block| !block.quick);
            let lost = |block: &&Block| {
                block.failure.is_some() && !block.raw.is_empty() && !(is_full && block.quick)
            };
            let lost = self.all(&cell).iter().copied().filter(lost);
            let lost = lost.filter(|block| !done.contains(&block.turn)).count();
            fault.blocks += lost;
            fault.of_blocks += measured.len() + lost;
        }
        fault
    }
}

impl<'a> Lead<'a> {
    /// The leader, if there is one.
    pub(super) fn first(&self) -> Option<&Share<'a>> {
        self.shares.first()
    }

    /// Whether the interval rests on enough turns to be one.
    pub(super) fn has_interval(&self) -> bool {
        self.shares.iter().all(|share| share.turns >= TURNS_MIN)
    }

    /// A contender's place.
    pub(super) fn share(&self, contender: &str) -> Option<&Share<'a>> {
        self.shares.iter().find(|share| share.contender == contender)
    }

    /// Why a contender is not ranked.
    pub(super) fn fault(&self, contender: &str) -> Option<&Fault<'a>> {
        self.faults.iter().find(|fault| fault.contender == contender)
    }

    /// All who took part, ranked or not.
    pub(super) fn contenders(&self) -> Vec<&'a str> {
        let ranked = self.shares.iter().map(|share| share.contender).chain(self.only);
        ranked.chain(self.faults.iter().map(|fault| fault.contender)).collect()
    }

    /// How many took part.
    pub(super) fn count(&self) -> usize {
        self.contenders().len()
    }
}

impl Fault<'_> {
    /// What was not answered: `17 % failed, 2 of 20 blocks without figures`.
    pub(super) fn words(&self) -> String {
        let failed = (self.failed > 0.0).then(|| format!("{} failed", format::percent(self.failed)));
        let of = format::counted(self.of_blocks, "run");
        let blocks = (self.blocks > 0).then(|| format!("{} of {of} without figures", self.blocks));
        failed.into_iter().chain(blocks).collect::<Vec<_>>().join(", ")
    }
}

/// For each lead, how the others compare with the leader. A contender is slower if it is beyond the noise floor and the interval leaves
/// out 1, and it is significant when all comparisons of all leads are looked at together (Holm's correction): all leads are
/// one family, since they are one table. The correction counts from as many turns as a verdict needs. Where
/// there are too few turns for an interval, the distance alone counts.
pub(super) fn standings(leads: &[&Lead<'_>]) -> Vec<Vec<Standing>> {
    let p_values: Vec<f64> = leads
        .iter()
        .filter(|lead| lead.has_interval())
        .flat_map(|lead| lead.shares.iter().skip(1))
        .filter(|share| is_corrected(share))
        .map(|share| share.p)
        .collect();
    let mut corrected = holm(&p_values).into_iter();
    let mut standing = |lead: &Lead<'_>, share: &Share<'_>| {
        let is_sure = match lead.has_interval() {
            true => {
                let p = if is_corrected(share) { corrected.next() } else { None };
                share.of_best.high < 1.0 && p.is_none_or(|p| p < CHANCE)
            }
            false => true,
        };
        let floor = lead.floor.unwrap_or(0.0);
        let floor = if lead.has_interval() { floor } else { floor.max(AS_GOOD) };
        match 1.0 - share.of_best.median {
            distance if distance <= floor => Standing::Level,
            distance if is_sure && distance.is_finite() => Standing::Behind,
            _ => Standing::Unshown,
        }
    };
    let of_lead =
        |lead: &&Lead<'_>| lead.shares.iter().skip(1).map(|share| standing(lead, share)).collect::<Vec<_>>();
    leads.iter().map(of_lead).collect()
}

/// Whether a share has as many turns as a verdict needs.
fn is_corrected(share: &Share<'_>) -> bool {
    share.turns >= FEWEST as usize
}

/// How many requests of some blocks failed, and what part of all that is.
fn failed(blocks: &[&Block]) -> (f64, f64) {
    let sum = |figure: &dyn Fn(&Block) -> f64| blocks.iter().map(|block| figure(block)).sum::<f64>();
    let value = |block: &Block, figure: Figure| block.figures.get(&figure).copied().unwrap_or_default();
    let failed = sum(&|block| value(block, Figure::Failed));
    let answered = sum(&|block| value(block, Figure::RequestsPerS) * value(block, Figure::TotalS));
    (failed, if failed > 0.0 { failed / (failed + answered) } else { 0.0 })
}

/// The shares of all, the first before the others.
fn shares<'a>(values: &[(&'a str, Turns)], higher: bool) -> Vec<Share<'a>> {
    let Some(first) = first(values, higher) else { return Vec::new() };
    let best = &values[first].1;
    let share = |(contender, turns): &(&'a str, Turns)| {
        let ratios = if higher { ratios(turns, best) } else { ratios(best, turns) };
        let of_best = interval(&ratios);
        let median = if ratios.is_empty() { f64::NAN } else { ratio(turns, best, higher) };
        Share {
            contender,
            value: interval(&turns.values().copied().collect::<Vec<_>>()),
            of_best: Estimate { median, low: of_best.low.min(median), high: of_best.high.max(median) },
            turns: ratios.len(),
            p: p_value(&ratios),
        }
    };
    let mut shares: Vec<Share<'a>> = values.iter().map(share).collect();
    let first = shares.remove(first);
    let place = |share: &Share<'_>| if share.of_best.median.is_nan() { -1.0 } else { share.of_best.median };
    shares.sort_by(|a, b| place(b).total_cmp(&place(a)));
    shares.insert(0, first);
    shares
}

/// The leader: no other contender has a median ratio above 1 against it. If each is beaten by another one, as in a circle,
/// it is who is beaten least; of several that are equal, the one with the better median, then the one named first.
fn first(values: &[(&str, Turns)], higher: bool) -> Option<usize> {
    let rank = |index: usize| {
        let (_, own) = &values[index];
        let others = values
            .iter()
            .enumerate()
            .filter(|(other, (_, turns))| *other != index && !paired(own, turns).is_empty());
        let against: Vec<f64> = others.map(|(_, (_, turns))| ratio(turns, own, higher)).collect();
        let middle = median(&own.values().copied().collect::<Vec<_>>());
        let worst = against.iter().copied().fold(1.0, f64::max);
        // Logarithms and back: what is equal may differ in its last digits.
        let worst = (worst * 1e9).round();
        (against.len(), worst, if higher { middle } else { -middle })
    };
    (0..values.len())
        .map(|index| (rank(index), index))
        .reduce(|best, next| {
            let ((count, worst, middle), (more, better, higher)) = (best.0, next.0);
            let order = more.cmp(&count).then(worst.total_cmp(&better)).then(higher.total_cmp(&middle));
            if order.is_gt() { next } else { best }
        })
        .map(|(_, index)| index)
}

/// How good one is compared with another: the median of the ratios of their turns. The middle of an even number is
/// taken by their product, so that the ratio the other way round is its inverse.
fn ratio(one: &Turns, other: &Turns, higher: bool) -> f64 {
    let log = |(one, other): (f64, f64)| if one == other { 0.0 } else { one.ln() - other.ln() };
    let logs: Vec<f64> = paired(one, other).into_iter().map(log).collect();
    let middle = median(&logs);
    let ratio = if middle.is_nan() { 1.0 } else { middle.exp() };
    if higher { ratio } else { 1.0 / ratio }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;
    use crate::model::experiment::Experiment;
    use crate::show::report::fixture::blocks_of;

    fn experiment() -> Experiment {
        Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['nginx', 'apache', 'caddy']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nrequests = 1\n",
        )
        .unwrap()
    }

    /// What a lead looks like: the shares in percent, and how those behind the first stand.
    fn judged(blocks: &[Block], figure: Figure) -> (Vec<(String, f64)>, Vec<Standing>) {
        let (summary, experiment) = (Summary::of(blocks), experiment());
        let works = summary.works(&experiment);
        let lead = summary.lead(&works[0], figure).unwrap();
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        let shares = lead.shares.iter().map(|share| (share.contender.into(), percent(share.of_best.median)));
        (shares.collect(), standings(&[&lead]).remove(0))
    }

    fn named(shares: &[(&str, f64)]) -> Vec<(String, f64)> {
        shares.iter().map(|(name, share)| ((*name).into(), *share)).collect()
    }

    #[test]
    fn nobody_leads_by_what_began_on_a_busy_machine() {
        let mut blocks = blocks_of(&[("nginx", &[100.0, 100.0]), ("apache", &[80.0, 300.0])]);
        let first = |blocks: &[Block]| judged(blocks, Figure::RequestsPerS).0[0].0.clone();
        assert_eq!(first(&blocks), "apache");
        blocks[3].circumstances.busy_before = 2.0;
        assert_eq!(first(&blocks), "nginx", "the other turn counts alone");
        blocks.iter_mut().for_each(|block| block.circumstances.busy_before = 2.0);
        let (summary, experiment) = (Summary::of(&blocks), experiment());
        assert!(summary.lead(&summary.works(&experiment)[0], Figure::RequestsPerS).is_none());
    }

    #[test]
    fn ratios_are_taken_within_a_turn() {
        // Both are slower in the second turn, as when the machine was busy: the ratio is the same.
        let rates = [100.0, 50.0, 80.0, 90.0, 60.0, 70.0];
        let blocks = blocks_of(&[("nginx", &rates), ("apache", &rates.map(|rate| rate * 0.8))]);
        let (shares, standings) = judged(&blocks, Figure::RequestsPerS);
        assert_eq!(shares, named(&[("nginx", 100.0), ("apache", 80.0)]));
        assert_eq!(standings, [Standing::Behind]);
    }

    #[test]
    fn the_first_is_who_is_ahead_in_the_same_turns() {
        // By the medians of the rates apache is first, 100 to 90; in the same turns nginx is, by 9 % and more.
        let blocks = blocks_of(&[("apache", &[100.0, 50.0, 110.0]), ("nginx", &[109.0, 60.0, 90.0])]);
        let (shares, _) = judged(&blocks, Figure::RequestsPerS);
        assert_eq!(shares, named(&[("nginx", 100.0), ("apache", 91.7)]));
    }

    #[test]
    fn nobody_has_more_than_the_first_of_an_even_number_of_turns() {
        // The means of the middle ratios are 1.25 either way.
        let blocks = blocks_of(&[("nginx", &[100.0, 100.0]), ("apache", &[50.0, 200.0])]);
        let (shares, _) = judged(&blocks, Figure::RequestsPerS);
        assert_eq!(shares, named(&[("apache", 100.0), ("nginx", 100.0)]), "the better median breaks the tie");
    }

    #[test]
    fn of_a_circle_the_least_beaten_is_first() {
        // nginx beats apache in two turns of three, apache caddy, and caddy nginx.
        let blocks = blocks_of(&[
            ("nginx", &[100.0, 60.0, 100.0]),
            ("apache", &[80.0, 100.0, 90.0]),
            ("caddy", &[70.0, 80.0, 101.0]),
        ]);
        let (shares, _) = judged(&blocks, Figure::RequestsPerS);
        assert_eq!(shares[0].0, "nginx", "caddy beats it by 1 % only");
        assert_eq!(shares.len(), 3);
    }

    #[test]
    fn level_is_who_is_near_and_not_who_scatters() {
        let stands = |rates: &[f64], twin: &[f64]| {
            let first = [100.0, 100.0, 100.0, 100.0];
            let mut blocks = blocks_of(&[("nginx", &first), ("nginx-twin", twin), ("apache", rates)]);
            blocks.retain(|block| block.turn < u32::try_from(rates.len()).unwrap());
            judged(&blocks, Figure::RequestsPerS).1[0]
        };
        let quiet = [100.0, 100.0, 100.0, 100.0];
        assert_eq!(stands(&[80.0, 81.0, 79.0, 80.0], &quiet), Standing::Behind);
        assert_eq!(
            stands(&[80.0, 130.0, 60.0, 90.0], &quiet),
            Standing::Unshown,
            "the turns contradict each other"
        );
        assert_eq!(stands(&[80.0, 81.0, 79.0, 80.0], &[75.0; 4]), Standing::Level, "within the noise floor");
        assert_eq!(stands(&[80.0], &quiet), Standing::Behind, "one turn: by its distance alone");
        assert_eq!(stands(&[98.0], &quiet), Standing::Level);
    }

    #[test]
    fn less_is_better_for_times() {
        let mut blocks = blocks_of(&[("nginx", &[1.0]), ("apache", &[1.0])]);
        blocks[0].figures = [(Figure::P99Ms, 2.0)].into();
        blocks[1].figures = [(Figure::P99Ms, 8.0)].into();
        let (shares, _) = judged(&blocks, Figure::P99Ms);
        assert_eq!(shares, named(&[("nginx", 100.0), ("apache", 25.0)]));
    }

    #[test]
    fn twins_give_the_noise_floor_of_a_figure() {
        let blocks = blocks_of(&[("nginx", &[100.0, 100.0, 100.0]), ("nginx-twin", &[97.0, 103.0, 98.0])]);
        let (summary, experiment) = (Summary::of(&blocks), experiment());
        assert!((summary.floor(Figure::RequestsPerS).unwrap() - 0.02).abs() < 1e-9);
        assert_eq!(summary.floor(Figure::MemoryBytes), None, "that of one figure says nothing of another");
        assert_eq!(summary.works(&experiment)[0].contenders, ["nginx"]);
    }

    #[test]
    fn who_did_not_answer_all_is_not_ranked() {
        let mut blocks = blocks_of(&[
            ("nginx", &[1000.0, 1000.0, 1000.0]),
            ("apache", &[4000.0, 4000.0, 4000.0]),
            ("caddy", &[500.0, 500.0, 500.0]),
        ]);
        let told = |blocks: &[Block]| {
            let (summary, experiment) = (Summary::of(blocks), experiment());
            let works = summary.works(&experiment);
            let lead = summary.lead(&works[0], Figure::RequestsPerS).unwrap();
            let faults: Vec<String> =
                lead.faults.iter().map(|fault| format!("{}: {}", fault.contender, fault.words())).collect();
            (lead.first().map(|first| first.contender.to_owned()), lead.only.map(str::to_owned), faults)
        };
        assert_eq!(told(&blocks), (Some("apache".into()), None, vec![]));
        blocks[3].figures.insert(Figure::Failed, 12.0);
        assert_eq!(told(&blocks).0.unwrap(), "apache", "a thousandth is little");
        blocks[3].figures.insert(Figure::Failed, 500.0);
        assert_eq!(told(&blocks), (Some("nginx".into()), None, vec!["apache: 4.0\u{a0}% failed".into()]));
        // A block that began and gave no figures; one that could not begin, and one that was measured later, are none.
        let lost = Block { failure: Some("it ended".into()), figures: BTreeMap::new(), ..blocks[0].clone() };
        blocks.push(Block { turn: 3, raw: String::new(), ..lost.clone() });
        blocks.push(Block { turn: 1, ..lost.clone() });
        assert_eq!(told(&blocks).0.unwrap(), "nginx");
        blocks.push(Block { turn: 3, ..lost });
        let (first, only, faults) = told(&blocks);
        assert_eq!((first, only), (None, Some("caddy".into())), "one alone leads nobody");
        assert_eq!(faults[0], "nginx: 1 of 4 runs without figures");
    }

    #[test]
    fn the_knee_is_the_most_clients_that_are_answered_in_time() {
        let mut experiment = experiment();
        experiment.loads[0].kind = Kind::Knee;
        let at = |name: &str, clients: u32, p99_ms: f64, failed: f64| {
            let figures = [(Figure::P99Ms, p99_ms), (Figure::Failed, failed), (Figure::Connections, 0.0)];
            block(name, "l", clients, &figures)
        };
        let blocks = [
            at("nginx", 10, 1.0, 0.0),
            at("nginx", 100, 20.0, 0.0),
            at("nginx", 1000, 1500.0, 0.0),
            at("apache", 10, 1.0, 0.0),
            at("apache", 100, 20.0, 7.0),
        ];
        let summary = Summary::of(&blocks);
        let works = summary.works(&experiment);
        let lead = summary.lead(&works[0], works[0].deciding()).unwrap();
        let held: Vec<(&str, f64)> =
            lead.shares.iter().map(|share| (share.contender, share.value.median)).collect();
        assert_eq!(held, [("nginx", 100.0), ("apache", 10.0)]);
    }
}

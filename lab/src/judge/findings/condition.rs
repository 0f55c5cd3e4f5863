//! One condition of a finding, tested.

use std::collections::BTreeMap;

use crate::judge::statistics::{CHANCE, Estimate, fewest_for, p_value};
use crate::model::block;
use crate::model::experiment::{Clients, Condition, TURNS};
use crate::model::figure::Figure;
use crate::model::words;

use super::data::{Data, Filter, Series};
use super::pairs::{self, Pair};
use super::{Direction, Evidence, Outcome, Ratio, Remedy, Test};

/// What the data say about a condition, before all p-values of the publication are corrected together.
pub(super) enum Tested {
    /// Pairs, each of which has to lie within bounds.
    Pairs(Pairs),
    /// Something that is so or is not.
    Fact { outcome: Outcome, text: String, indicative: bool, remedy: Option<Remedy> },
    /// It cannot be tested, because …
    Open(String),
}

/// Pairs and what is asked of them.
pub(super) struct Pairs {
    /// What stands before the figures.
    words: String,
    figure: Figure,
    pairs: Vec<Pair>,
    bound: Bound,
    /// So many turns a verdict needs.
    fewest: usize,
    /// Which contenders failed more than a few requests, in words; empty where none did.
    failing: String,
}

enum Bound {
    /// The first is better, by this factor, and by more than the noise floor (by the pair's place).
    Better { by: f64, noise: Noise },
    /// The ratio lies between.
    Within { low: Option<f64>, high: Option<f64> },
}

/// Where a ratio lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Inside,
    Above,
}

/// Why a condition is undecided, and what would decide it.
struct Doubt {
    words: String,
    remedy: Remedy,
}

/// How likely chance gives as much as a pair shows.
#[derive(Clone, Copy)]
struct Chance {
    /// By Holm's correction.
    p: f64,
    /// Over so many comparisons.
    family: usize,
}

/// More turns than these take too long.
const TURNS_MOST: usize = 100;

/// With more places than this, only the weakest is put into words.
const PLACES_MAX: usize = 4;

/// Looks a condition up in the data.
pub(super) fn test(data: &Data<'_>, condition: &Condition) -> Tested {
    let pairs = match condition {
        Condition::AnswersAll { load, of, clients } => {
            return failures(data, load, of, clients.as_ref(), false);
        }
        Condition::Fails { load, of, clients } => return failures(data, load, of, clients.as_ref(), true),
        Condition::Better { figure, load, of, over, by, clients, cores, together, .. } => {
            let filter = Filter { clients: clients.as_ref(), cores: cores.as_deref() };
            let asked = Asked { figure: *figure, load, filter, together: *together };
            better(data, &asked, of, over).map(|(words, pairs, noise)| {
                (words, pairs, Bound::Better { by: by.unwrap_or(1.0).max(1.0), noise })
            })
        }
        Condition::Ratio { figure, load, of, over, low, high, clients, cores, together } => {
            let filter = Filter { clients: clients.as_ref(), cores: cores.as_deref() };
            let asked = Asked { figure: *figure, load, filter, together: *together };
            ratio(data, &asked, of, over)
                .map(|(words, pairs)| (words, pairs, Bound::Within { low: Some(*low), high: Some(*high) }))
        }
        Condition::Change { low, high, .. } => change(data, condition)
            .map(|(words, pairs)| (words, pairs, Bound::Within { low: *low, high: *high })),
        Condition::AgainstLoad { figure, load, against, of, low, high } => {
            against_load(data, *figure, [load, against], of)
                .map(|(words, pairs)| (words, pairs, Bound::Within { low: *low, high: *high }))
        }
    };
    match pairs {
        Ok((words, pairs, bound)) if !pairs.is_empty() => {
            let (figure, failing) = (condition.figure(), failing(data, condition));
            Tested::Pairs(Pairs { words, figure, pairs, bound, fewest: data.fewest, failing })
        }
        Ok((words, ..)) => Tested::Open(format!("{words}: the two have no measurement in common")),
        Err(reason) => Tested::Open(reason),
    }
}

/// Which contenders of a condition failed more than a few requests.
fn failing(data: &Data<'_>, condition: &Condition) -> String {
    let clients = match condition {
        Condition::Better { clients, .. } | Condition::Ratio { clients, .. } => clients.as_ref(),
        _ => None,
    };
    let filter = Filter { clients, cores: None };
    let of_load =
        |load| condition.contenders().into_iter().filter_map(move |name| data.failing(load, name, filter));
    condition.loads().into_iter().flat_map(of_load).collect::<Vec<_>>().join("; ")
}

impl Pairs {
    /// The p-values of all comparisons: of each pair with its bound; then, if a lead of a certain size is asked for, of each
    /// pair with 1, which is its direction. Published figures are of one turn and have none.
    pub(super) fn p_values(&self) -> Vec<f64> {
        if self.fewest <= 1 {
            return Vec::new();
        }
        let bounds = self.pairs.iter().map(|pair| self.bound.p_value(pair));
        let directions = self.pairs.iter().filter(|_| self.has_size()).map(|pair| p_value(&pair.ratios));
        bounds.chain(directions).collect()
    }

    /// Whether a lead has to be of a certain size.
    fn has_size(&self) -> bool {
        matches!(self.bound, Bound::Better { by, .. } if by > 1.0)
    }

    /// Whether the figures only hint, because there are fewer turns than a claim needs.
    pub(super) fn indicative(&self) -> bool {
        self.pairs.iter().any(|pair| pair.ratios.len() < TURNS as usize)
    }

    /// Judges all pairs. `corrected` has the [p-values](Pairs::p_values) after Holm's correction, over a family of so many
    /// comparisons.
    pub(super) fn judge(&self, corrected: &[f64], family: usize) -> Evidence {
        let chance = |index: usize| corrected.get(index).map(|p| Chance { p: *p, family });
        let judged: Vec<(Outcome, String, Option<Remedy>)> =
            self.pairs.iter().enumerate().map(|(index, pair)| self.judge_pair(pair, chance(index))).collect();
        let of_direction = corrected.get(self.pairs.len()..).unwrap_or_default();
        let directions = if self.has_size() { of_direction } else { corrected };
        let direction = |(index, pair): (usize, &Pair)| self.direction(pair, directions.get(index).copied());
        let mut order: Vec<usize> = (0..judged.len()).collect();
        let room = |index: usize| self.bound.room(self.pairs[index].ratio.median);
        order.sort_by(|one, other| {
            judged[*one].0.cmp(&judged[*other].0).then(room(*one).total_cmp(&room(*other)))
        });
        let weakest = order.first().copied().unwrap_or_default();
        let text = if judged.len() <= PLACES_MAX {
            judged.iter().map(|(_, text, _)| text.as_str()).collect::<Vec<_>>().join("; ")
        } else {
            let count = |outcome| judged.iter().filter(|(other, ..)| *other == outcome).count();
            let undecided = match count(Outcome::Undecided) {
                0 => String::new(),
                some => format!(", undecided at {some}"),
            };
            let (so, weakest) = (count(Outcome::Met), &judged[weakest].1);
            format!("so at {so} of {}{undecided}, weakest {weakest}", judged.len())
        };
        let ratio = |(index, pair): (usize, &Pair)| Ratio {
            p_holm: corrected.get(index).copied(),
            p_direction_holm: of_direction.get(index).copied(),
            ..self.bound.ratio(pair, judged[index].0)
        };
        Evidence {
            outcome: judged[weakest].0,
            text: match self.failing.as_str() {
                "" => format!("{}: {text}", self.words),
                failing => format!("{}: {text}; {failing}", self.words),
            },
            ratio: Some(self.pairs[weakest].ratio),
            direction: self.pairs.iter().enumerate().filter_map(direction).min(),
            remedy: judged.iter().filter_map(|(.., remedy)| *remedy).max(),
            ratios: self.pairs.iter().enumerate().map(ratio).collect(),
        }
    }

    /// Whether the first one of a pair leads, where one is asked to. `p` is corrected.
    fn direction(&self, pair: &Pair, p: Option<f64>) -> Option<Direction> {
        let Bound::Better { noise, .. } = &self.bound else { return None };
        let floor = noise.get(&pair.at).copied().unwrap_or_default();
        let is_within = pair.ratio.median.ln().abs() <= floor && floor > 0.0;
        let is_chance = p.is_some_and(|p| p >= CHANCE) || pair.ratios.len() < self.fewest;
        Some(match pair.ratio {
            _ if is_within || is_chance => Direction::Undecided,
            Estimate { low, .. } if low > 1.0 => Direction::Holds,
            Estimate { high, .. } if high < 1.0 => Direction::DoesNotHold,
            _ => Direction::Undecided,
        })
    }

    /// Whether a pair is as asked for, its words, and what would decide it if it is undecided.
    fn judge_pair(&self, pair: &Pair, chance: Option<Chance>) -> (Outcome, String, Option<Remedy>) {
        let ratio = pair.ratio;
        let (low, high) = (words::number(ratio.low), words::number(ratio.high));
        let interval = if pair.ratios.len() > 1 { format!(" ({low} to {high})") } else { String::new() };
        let value = |value: f64| words::scaled(self.figure, value);
        let values = format!("{} and {}", value(pair.values.0), value(pair.values.1));
        let mut text = format!("{}: {values}, {} ×{interval}", pair.at, words::number(ratio.median));
        let doubt = too_few(pair.ratios.len(), self.fewest).or_else(|| self.bound.doubt(pair, chance));
        let outcome = match self.bound.side(ratio.median) {
            _ if doubt.is_some() => Outcome::Undecided,
            Side::Inside => Outcome::Met,
            Side::Below | Side::Above => Outcome::Unmet,
        };
        match &self.bound {
            Bound::Better { by, .. } if *by > 1.0 => text.push_str(&format!(", {}", asked(Some(*by), None))),
            Bound::Better { .. } if outcome == Outcome::Unmet => text.push_str(", not better"),
            Bound::Better { .. } => (),
            Bound::Within { low, high } => text.push_str(&format!(", {}", asked(*low, *high))),
        }
        if self.bound.shows_alike(ratio.median) && pair.ratios.len() >= self.fewest {
            let (p, shows) = (self.bound.p_value(pair), (ratio.high / ratio.low).sqrt() - 1.0);
            let percent = words::number(100.0 * shows);
            text.push_str(&format!(" (alike by two one-sided tests: p = {p:.3}; {percent} % would show)"));
        }
        if let Some(doubt) = &doubt {
            text.push_str(&format!(", undecided: {}", doubt.words));
        }
        (outcome, text, doubt.map(|doubt| doubt.remedy))
    }
}

impl Bound {
    /// The ends of what is asked for. Better means more than 1.
    fn ends(&self) -> (Option<f64>, Option<f64>) {
        match self {
            Bound::Better { by, .. } => (Some(*by), None),
            Bound::Within { low, high } => (*low, *high),
        }
    }

    fn side(&self, ratio: f64) -> Side {
        let (low, high) = self.ends();
        let is_level = matches!(self, Bound::Better { .. }) && ratio <= 1.0;
        if is_level || low.is_some_and(|low| ratio < low) {
            Side::Below
        } else if high.is_some_and(|high| ratio > high) {
            Side::Above
        } else {
            Side::Inside
        }
    }

    /// How far a ratio is inside: 1 is at the end of what is asked for.
    fn room(&self, ratio: f64) -> f64 {
        let (low, high) = self.ends();
        let above = low.map_or(f64::INFINITY, |low| ratio / low);
        above.min(high.map_or(f64::INFINITY, |high| high / ratio))
    }

    /// How likely chance alone takes a ratio to its side, from that end which is harder to tell from it.
    fn p_value(&self, pair: &Pair) -> f64 {
        let (low, high) = self.ends();
        let ends = match self.side(pair.ratio.median) {
            Side::Below => [low, None],
            Side::Above => [None, high],
            Side::Inside => [low, high],
        };
        let by_chance = |end: f64| p_value(&pair.ratios.iter().map(|ratio| ratio / end).collect::<Vec<_>>());
        let p = ends.into_iter().flatten().map(by_chance).fold(0.0, f64::max);
        // Two one-sided tests show that two are alike: each end is looked at from one side.
        if self.shows_alike(pair.ratio.median) { p / 2.0 } else { p }
    }

    /// A judged pair as data files have it, without correction.
    fn ratio(&self, pair: &Pair, outcome: Outcome) -> Ratio {
        let (at_least, at_most) = self.ends();
        Ratio {
            place: pair.at.clone(),
            medians: pair.values,
            estimate: pair.ratio,
            turns: pair.ratios.len(),
            at_least,
            at_most,
            test: if self.shows_alike(pair.ratio.median) { Test::Alike } else { Test::Bound },
            p: (pair.ratios.len() > 1).then(|| self.p_value(pair)),
            p_holm: None,
            p_direction_holm: None,
            outcome,
        }
    }

    /// Whether a ratio lies between two ends, which have to be told from it.
    fn shows_alike(&self, ratio: f64) -> bool {
        matches!(self.ends(), (Some(_), Some(_))) && self.side(ratio) == Side::Inside
    }

    /// Why nothing can be said of a pair, if nothing can.
    fn doubt(&self, pair: &Pair, chance: Option<Chance>) -> Option<Doubt> {
        let ratio = pair.ratio;
        let is_lead = self.ends() == (Some(1.0), None);
        let is_shown_alike = self.shows_alike(ratio.median) && self.p_value(pair) < CHANCE;
        if self.side(ratio.low) != self.side(ratio.high) && !is_shown_alike {
            let words = if is_lead { "the interval holds 1" } else { "the interval reaches over the bound" };
            let remedy = self.turns_needed(pair).map_or(Remedy::QuieterMachine, Remedy::Turns);
            let takes = match remedy {
                Remedy::Turns(turns) => format!("about {turns} turns would decide"),
                _ => format!("{TURNS_MOST} turns would not be enough"),
            };
            return Some(Doubt { words: format!("{words}; {takes}"), remedy });
        }
        if let Bound::Better { by, noise } = self
            && let Some(floor) = noise.get(&pair.at)
        {
            let room = (ratio.median / by).ln().abs();
            if *floor > 0.0 && room <= *floor {
                let of_what = if is_lead { "" } else { " of the bound" };
                let percent = floor.exp_m1() * 100.0;
                // Medians of copies come nearer to each other with more turns, as intervals become narrower.
                let needed = pair.ratios.len() as f64 * (floor / room).powi(2);
                let turns = (pair.ratios.len() + 1..=TURNS_MOST).find(|turns| *turns as f64 > needed);
                let takes = turns.map_or_else(
                    || format!("{TURNS_MOST} turns would hardly be enough"),
                    |turns| format!("about {turns} turns would decide"),
                );
                let words = format!(
                    "within {percent:.1} %{of_what}, by which two copies of one program differ; {takes}"
                );
                return Some(Doubt { words, remedy: turns.map_or(Remedy::QuieterMachine, Remedy::Turns) });
            }
        }
        chance.filter(|chance| chance.p >= CHANCE).map(|chance| chance.doubt(pair.ratios.len()))
    }

    /// With how many turns the interval of a pair would end before the bounds that lie in it, if the ratio stayed: an
    /// interval of four times as many turns is half as wide. `None` if that takes more than [`TURNS_MOST`].
    fn turns_needed(&self, pair: &Pair) -> Option<usize> {
        let Estimate { median, low, high } = pair.ratio;
        let factor = |end: f64| {
            let room = (median / end).ln().abs();
            let width = if end < median { median / low } else { high / median }.ln();
            if room > 0.0 { (width / room).powi(2) } else { f64::INFINITY }
        };
        let (lower, upper) = self.ends();
        let inside = [lower, upper].into_iter().flatten().filter(|end| low <= *end && *end <= high);
        let turns = pair.ratios.len();
        let needed = turns as f64 * inside.map(factor).fold(1.0, f64::max);
        (turns + 1..=TURNS_MOST).find(|turns| *turns as f64 >= needed)
    }
}

impl Chance {
    /// Why a pair of so many turns is undecided.
    fn doubt(self, turns: usize) -> Doubt {
        let Chance { p, family } = self;
        let needed = fewest_for(family) as usize;
        if turns < needed {
            let words = format!(
                "{turns} turns cannot decide one of {family} comparisons (Holm's correction), {needed} can"
            );
            return Doubt { words, remedy: Remedy::Turns(needed) };
        }
        let words =
            format!("chance gives as much with p = {p:.2}, by Holm's correction for {family} comparisons");
        Doubt { words, remedy: Remedy::Turns(2 * turns) }
    }
}

type Found = Result<(String, Vec<Pair>), String>;
/// The noise floor at a place: the largest logarithm of the median ratio of two copies of one program.
type Noise = BTreeMap<String, f64>;

/// What of two contenders is compared.
struct Asked<'a> {
    figure: Figure,
    load: &'a str,
    filter: Filter<'a>,
    /// Whether all places count as one.
    together: bool,
}

fn better(
    data: &Data<'_>,
    asked: &Asked<'_>,
    of: &str,
    over: &str,
) -> Result<(String, Vec<Pair>, Noise), String> {
    let Asked { figure, load, filter, together } = *asked;
    let inverted = figure.higher_is_better() == Some(false);
    let (first, second) = (data.series(load, of, figure, filter)?, data.series(load, over, figure, filter)?);
    data.long_enough(load, &[of, over], filter)?;
    let how: fn(&Series, &Series, bool) -> Vec<Pair> = if together { pairs::together } else { pairs::each };
    let words = format!("{}, {} of {of} and {over}", data.title(load), words::named(figure));
    let mut noise = Noise::new();
    for twin in data.twins(load) {
        let original = block::original_of(twin).unwrap_or(twin);
        let both = data
            .series(load, twin, figure, filter)
            .and_then(|twin| Ok((twin, data.series(load, original, figure, filter)?)));
        if let Ok((twin, original)) = both {
            for pair in how(&twin, &original, false) {
                let floor = noise.entry(pair.at).or_insert(0.0);
                *floor = floor.max(pair.ratio.median.ln().abs());
            }
        }
    }
    Ok((words, how(&first, &second, inverted), noise))
}

fn ratio(data: &Data<'_>, asked: &Asked<'_>, of: &str, over: &str) -> Found {
    let Asked { figure, load, filter, together } = *asked;
    let (first, second) = (data.series(load, of, figure, filter)?, data.series(load, over, figure, filter)?);
    data.long_enough(load, &[of, over], filter)?;
    let pairs =
        if together { pairs::together(&first, &second, false) } else { pairs::each(&first, &second, false) };
    Ok((format!("{}, {} of {of} and {over}", data.title(load), words::named(figure)), pairs))
}

fn change(data: &Data<'_>, condition: &Condition) -> Found {
    let Condition::Change { figure, load, of, from_clients, to_clients, from_cores, to_cores, .. } =
        condition
    else {
        return Err("not a change".into());
    };
    let words = format!("{}, {} of {of}", data.title(load), words::named(*figure));
    if let (Some(from), Some(to)) = (from_cores, to_cores) {
        let one =
            |cores: &u32| data.series(load, of, *figure, Filter { clients: None, cores: Some(&[*cores]) });
        let mut both = one(to)?;
        both.extend(one(from)?);
        data.long_enough(load, &[of], Filter { clients: None, cores: Some(&[*to, *from]) })?;
        return Ok((words, pairs::cores_apart(&both, *to, *from).into_iter().collect()));
    }
    // Only what is compared has to be long enough.
    let series = data.series(load, of, *figure, Filter::default())?;
    let counts = || series.keys().map(|place| place.1);
    for count in [from_clients.or(counts().min()), to_clients.or(counts().max())].into_iter().flatten() {
        let count = Clients::One(count);
        let filter = Filter { clients: Some(&count), cores: None };
        data.series(load, of, *figure, filter)?;
        data.long_enough(load, &[of], filter)?;
    }
    Ok((words, pairs::clients_apart(&series, *to_clients, *from_clients)))
}

fn against_load(data: &Data<'_>, figure: Figure, [load, against]: [&str; 2], of: &str) -> Found {
    let first = data.series(load, of, figure, Filter::default())?;
    let second = data.series(against, of, figure, Filter::default())?;
    for load in [load, against] {
        data.long_enough(load, &[of], Filter::default())?;
    }
    let words =
        format!("{} of {of}, “{}” by “{}”", words::named(figure), data.title(load), data.title(against));
    let single = (first.len(), second.len()) == (1, 1);
    let pairs = match (first.iter().next(), second.iter().next()) {
        // The two loads may differ in their clients.
        (Some(((_, clients), one)), Some((_, other))) if single => {
            Pair::of(words::clients(*clients), one, other, false).into_iter().collect()
        }
        _ => pairs::each(&first, &second, false),
    };
    Ok((words, pairs))
}

fn failures(data: &Data<'_>, load: &str, of: &str, clients: Option<&Clients>, wanted: bool) -> Tested {
    let filter = Filter { clients, cores: None };
    let series = match data.series(load, of, Figure::Failed, filter) {
        Ok(series) => series,
        Err(reason) => return Tested::Open(reason),
    };
    let failed = series.iter().filter_map(|((_, clients), turns)| {
        let failed: f64 = turns.values().sum();
        (failed > 0.0).then(|| format!("{} failed at {}", words::number(failed), words::clients(*clients)))
    });
    let failed: Vec<String> = failed.collect();
    // What failed has failed, however short that was; that nothing did says little then.
    if let (true, Err(reason)) = (failed.is_empty(), data.long_enough(load, &[of], filter)) {
        return Tested::Open(reason);
    }
    let title = data.title(load);
    let text = match failed.as_slice() {
        [] => format!("{title}: {of} answered every request"),
        some => format!("{title}: of {of}'s answers {}", some.join(", ")),
    };
    let turns = series.values().map(BTreeMap::len).min().unwrap_or_default();
    // A request that failed has failed. That none did may be chance.
    let doubt = too_few(turns, data.fewest).filter(|_| failed.is_empty());
    let outcome = match (&doubt, failed.is_empty() != wanted) {
        (Some(_), _) => Outcome::Undecided,
        (None, true) => Outcome::Met,
        (None, false) => Outcome::Unmet,
    };
    let remedy = doubt.as_ref().map(|doubt| doubt.remedy);
    let text = doubt.map_or(text.clone(), |doubt| format!("{text}, undecided: {}", doubt.words));
    Tested::Fact { outcome, text, indicative: data.few_turns(load), remedy }
}

/// That there are too few turns for a verdict, if there are.
fn too_few(turns: usize, fewest: usize) -> Option<Doubt> {
    let many = if turns == 1 { "turn" } else { "turns" };
    let words = format!("{turns} {many}, and a verdict needs {fewest}");
    (turns < fewest).then_some(Doubt { words, remedy: Remedy::EnoughTurns })
}

fn asked(low: Option<f64>, high: Option<f64>) -> String {
    match (low.map(words::number), high.map(words::number)) {
        (Some(low), Some(high)) => format!("asked for {low} to {high}"),
        (Some(low), None) => format!("asked for at least {low}"),
        (None, Some(high)) => format!("asked for at most {high}"),
        (None, None) => "nothing asked for".into(),
    }
}

//! One condition of a finding, tested.

use std::collections::BTreeMap;

use crate::block;
use crate::experiment::{Clients, Condition};
use crate::figure::Figure;
use crate::statistics::Estimate;
use crate::words;

use super::data::{Data, Filter, Series};
use super::pairs::{self, Pair};

/// What the data say about a condition, before all p-values of the experiment are corrected together.
pub(super) enum Tested {
    /// Pairs, each of which has to lie within bounds.
    Pairs(Pairs),
    /// Something that is so or is not.
    Fact { holds: bool, text: String, quick: bool },
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
    /// Whether a figure comes from a quick run that repeated it less often than a claim needs.
    pub(super) quick: bool,
}

enum Bound {
    /// The first is better, by this factor, and by more than a twin differs from its original (by the pair's place).
    Better { by: f64, noise: BTreeMap<String, Estimate> },
    /// The ratio lies between.
    Within { low: Option<f64>, high: Option<f64> },
}

/// A pair, judged.
pub(super) struct Judged {
    pub(super) holds: bool,
    pub(super) text: String,
    pub(super) estimate: Estimate,
}

/// A p-value from which on chance is thought able to have done it.
const CHANCE: f64 = 0.05;

/// With more places than this, only the weakest is put into words.
const PLACES_MAX: usize = 4;

/// Looks a condition up in the data.
pub(super) fn test(data: &Data<'_>, condition: &Condition) -> Tested {
    let pairs = match condition {
        Condition::AnswersAll { load, of, clients } => {
            return failures(data, load, of, clients.as_ref(), false);
        }
        Condition::Fails { load, of, clients } => return failures(data, load, of, clients.as_ref(), true),
        Condition::Better { figure, load, of, over, by, clients, cores, together } => {
            let filter = Filter { clients: clients.as_ref(), cores: cores.as_deref() };
            better(data, (*figure, load), (of, over), filter, *together)
                .map(|(words, pairs, noise)| (words, pairs, Bound::Better { by: by.unwrap_or(1.0), noise }))
        }
        Condition::Ratio { figure, load, of, over, low, high, clients, cores, together } => {
            let filter = Filter { clients: clients.as_ref(), cores: cores.as_deref() };
            ratio(data, (*figure, load), (of, over), filter, *together)
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
            let quick = condition.loads().iter().any(|load| data.quick(load));
            Tested::Pairs(Pairs { words, figure: condition.figure(), pairs, bound, quick })
        }
        Ok((words, ..)) => Tested::Open(format!("{words}: the two have no measurement in common")),
        Err(reason) => Tested::Open(reason),
    }
}

impl Pairs {
    /// How likely each pair is by chance, where it claims that one is better.
    pub(super) fn p_values(&self) -> Vec<f64> {
        match self.bound {
            Bound::Better { .. } => self.pairs.iter().map(|pair| pair.p).collect(),
            Bound::Within { .. } => Vec::new(),
        }
    }

    /// Whether the figures only hint, because the run was short or nothing was repeated.
    pub(super) fn indicative(&self) -> bool {
        self.quick || self.pairs.iter().any(|pair| pair.turns < 2)
    }

    /// Judges all pairs, with their corrected p-values where they have some.
    pub(super) fn judge(&self, corrected: &[f64]) -> Judged {
        let judged: Vec<(bool, f64, String)> = self
            .pairs
            .iter()
            .enumerate()
            .map(|(index, pair)| self.judge_pair(pair, corrected.get(index).copied()))
            .collect();
        let holds = judged.iter().all(|(holds, ..)| *holds);
        let mut order: Vec<usize> = (0..judged.len()).collect();
        order.sort_by(|one, other| judged[*one].1.total_cmp(&judged[*other].1));
        let weakest = order.first().copied().unwrap_or_default();
        let text = if judged.len() <= PLACES_MAX {
            judged.iter().map(|(_, _, text)| text.as_str()).collect::<Vec<_>>().join("; ")
        } else {
            let so = judged.iter().filter(|(holds, ..)| *holds).count();
            format!("so at {so} of {}, weakest {}", judged.len(), judged[weakest].2)
        };
        Judged { holds, text: format!("{}: {text}", self.words), estimate: self.pairs[weakest].ratio }
    }

    /// Whether a pair holds, how far it is inside its bounds, and its words.
    fn judge_pair(&self, pair: &Pair, p: Option<f64>) -> (bool, f64, String) {
        let ratio = pair.ratio;
        let (low, high) = (words::number(ratio.low), words::number(ratio.high));
        let interval = if pair.turns > 1 { format!(" ({low} to {high})") } else { String::new() };
        let value = |value: f64| words::scaled(self.figure, value);
        let values = format!("{} and {}", value(pair.values.0), value(pair.values.1));
        let shown = format!("{}: {values}, {} ×{interval}", pair.at, words::number(ratio.median));
        match &self.bound {
            Bound::Better { by, noise } => {
                let doubt = self.doubt(pair, *by, noise.get(&pair.at), p);
                let text = doubt.as_ref().map_or(shown.clone(), |doubt| format!("{shown}, {doubt}"));
                (doubt.is_none(), ratio.median, text)
            }
            Bound::Within { low, high } => {
                let inside =
                    |value: f64| low.is_none_or(|low| value >= low) && high.is_none_or(|high| value <= high);
                let sure =
                    inside(ratio.low) == inside(ratio.median) && inside(ratio.high) == inside(ratio.median);
                let doubt = if sure { "" } else { ", though the interval reaches over the bound" };
                let room = low
                    .map_or(f64::INFINITY, |low| ratio.median / low)
                    .min(high.map_or(f64::INFINITY, |high| high / ratio.median));
                (inside(ratio.median), room, format!("{shown}, {}{doubt}", asked(*low, *high)))
            }
        }
    }

    /// Why it cannot be said that the first is better, if it cannot.
    fn doubt(&self, pair: &Pair, by: f64, noise: Option<&Estimate>, p: Option<f64>) -> Option<String> {
        let ratio = pair.ratio;
        let floor = noise.map_or(1.0, |twin| (twin.low.ln().abs().max(twin.high.ln().abs())).exp());
        let percent = |factor: f64| format!("{:.1}", (factor - 1.0) * 100.0);
        if ratio.median <= 1.0 {
            return Some("not better".into());
        }
        if ratio.median <= floor {
            return Some(format!(
                "within the {} % by which a twin differs from its original",
                percent(floor)
            ));
        }
        if !self.indicative() && ratio.low <= 1.0 {
            return Some("not for sure: the interval holds 1".into());
        }
        if let Some(p) = p.filter(|p| !self.indicative() && *p >= CHANCE) {
            return Some(format!("not for sure: chance gives as much with p = {p:.2}, by Holm's correction"));
        }
        (ratio.median < by).then(|| format!("less than {} ×, which is asked for", words::number(by)))
    }
}

type Found = Result<(String, Vec<Pair>), String>;
type Noise = BTreeMap<String, Estimate>;

fn better(
    data: &Data<'_>,
    (figure, load): (Figure, &str),
    (of, over): (&str, &str),
    filter: Filter<'_>,
    together: bool,
) -> Result<(String, Vec<Pair>, Noise), String> {
    let inverted = figure.higher_is_better() == Some(false);
    let (first, second) = (data.series(load, of, figure, filter)?, data.series(load, over, figure, filter)?);
    let how: fn(&Series, &Series, bool) -> Vec<Pair> = if together { pairs::together } else { pairs::each };
    let words = format!("{}, {} of {of} and {over}", data.title(load), words::named(figure));
    let mut noise = Noise::new();
    for twin in data.twins(load) {
        let original = block::original_of(twin).unwrap_or(twin);
        let both = data
            .series(load, twin, figure, filter)
            .and_then(|twin| Ok((twin, data.series(load, original, figure, filter)?)));
        if let Ok((twin, original)) = both {
            noise.extend(how(&twin, &original, false).into_iter().map(|pair| (pair.at, pair.ratio)));
        }
    }
    Ok((words, how(&first, &second, inverted), noise))
}

fn ratio(
    data: &Data<'_>,
    (figure, load): (Figure, &str),
    (of, over): (&str, &str),
    filter: Filter<'_>,
    together: bool,
) -> Found {
    let (first, second) = (data.series(load, of, figure, filter)?, data.series(load, over, figure, filter)?);
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
        return Ok((words, pairs::cores_apart(&both, *to, *from).into_iter().collect()));
    }
    for count in [from_clients, to_clients].into_iter().flatten() {
        data.series(load, of, *figure, Filter { clients: Some(&Clients::One(*count)), cores: None })?;
    }
    let series = data.series(load, of, *figure, Filter::default())?;
    Ok((words, pairs::clients_apart(&series, *to_clients, *from_clients)))
}

fn against_load(data: &Data<'_>, figure: Figure, [load, against]: [&str; 2], of: &str) -> Found {
    let first = data.series(load, of, figure, Filter::default())?;
    let second = data.series(against, of, figure, Filter::default())?;
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
    let series = match data.series(load, of, Figure::Failed, Filter { clients, cores: None }) {
        Ok(series) => series,
        Err(reason) => return Tested::Open(reason),
    };
    let failed = series.iter().filter_map(|((_, clients), turns)| {
        let failed: f64 = turns.values().sum();
        (failed > 0.0).then(|| format!("{} failed at {}", words::number(failed), words::clients(*clients)))
    });
    let failed: Vec<String> = failed.collect();
    let title = data.title(load);
    let text = match failed.as_slice() {
        [] => format!("{title}: {of} answered every request"),
        some => format!("{title}: of {of}'s answers {}", some.join(", ")),
    };
    Tested::Fact { holds: failed.is_empty() != wanted, text, quick: data.quick(load) }
}

fn asked(low: Option<f64>, high: Option<f64>) -> String {
    match (low.map(words::number), high.map(words::number)) {
        (Some(low), Some(high)) => format!("asked for {low} to {high}"),
        (Some(low), None) => format!("asked for at least {low}"),
        (None, Some(high)) => format!("asked for at most {high}"),
        (None, None) => "nothing asked for".into(),
    }
}

//! `--fail-if`: a bound on a ratio, for checks that run by themselves.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

use crate::judge::comparison::Comparison;
use crate::judge::statistics::{Estimate, FEWEST};
use crate::model::figure::Figure;

/// A ratio that should not be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    /// The figure of which the ratio is.
    pub(super) figure: Figure,
    is_above: bool,
    bound: f64,
}

impl Threshold {
    /// Reads `figure>1.05` or `figure<0.95`, with the name that the figure has in data files.
    pub(super) fn parse(text: &str) -> Result<Threshold, String> {
        let form = || "FIGURE>RATIO or FIGURE<RATIO is needed, such as requests_per_s<0.95".to_owned();
        let place = text.find(['<', '>']).ok_or_else(form)?;
        let (name, rest) = text.split_at(place);
        let name = name.trim();
        let deserializer: StrDeserializer<'_, Error> = serde::de::IntoDeserializer::into_deserializer(name);
        let figure = Figure::deserialize(deserializer).map_err(|_| {
            format!("no figure is called {name}; there are cpu_us_per_request, requests_per_s, mean_ms, p50_ms, p99_ms, memory_bytes and others")
        })?;
        let bound = rest[1..].trim().parse().ok().filter(|bound: &f64| *bound > 0.0 && bound.is_finite());
        Ok(Threshold { figure, is_above: rest.starts_with('>'), bound: bound.ok_or_else(form)? })
    }

    /// Whether the whole interval is beyond the bound, and the same in words.
    pub(super) fn judge(self, row: &Comparison) -> (bool, String) {
        let Estimate { median, low, high } = row.ratio;
        let (near, is_beyond) = match self.is_above {
            true => (high > self.bound, low > self.bound),
            false => (low < self.bound, high < self.bound),
        };
        let words = match (row.pairs < FEWEST as usize, near, is_beyond) {
            (true, ..) => format!("undecided, {FEWEST} pairs are needed"),
            (_, _, true) => "beyond".to_owned(),
            (_, true, _) => "undecided, the interval reaches over the bound".to_owned(),
            _ => "not beyond".to_owned(),
        };
        let is_shown = is_beyond && row.pairs >= FEWEST as usize;
        (is_shown, format!("{words}: {median:.3} ({low:.3} to {high:.3})"))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self.figure).unwrap_or_default();
        let sign = if self.is_above { '>' } else { '<' };
        write!(out, "{}{sign}{}", name.as_str().unwrap_or_default(), self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::Block;
    use crate::model::block::tests::block;

    fn row(cpu: f64, turns: u32) -> Comparison {
        let blocks: Vec<Block> = (0..turns)
            .flat_map(|turn| {
                let one = |name: &str, cpu: f64| Block {
                    turn,
                    ..block(name, "l", 1, &[(Figure::CpuUsPerRequest, cpu)])
                };
                let noise = 1.0 + f64::from(turn % 3) / 100.0;
                [one("a", cpu * noise), one("b", 100.0)]
            })
            .collect();
        let blocks: Vec<&Block> = blocks.iter().collect();
        Comparison::of(&blocks, ["a", "b"], Figure::CpuUsPerRequest).unwrap()
    }

    #[test]
    fn only_a_whole_interval_beyond_the_bound_fails() {
        let above = Threshold::parse("cpu_us_per_request > 1.05").unwrap();
        let below = Threshold::parse("cpu_us_per_request<0.95").unwrap();
        let said = |threshold: Threshold, cpu: f64, turns: u32| {
            let (fails, words) = threshold.judge(&row(cpu, turns));
            (fails, words.split([':', ',']).next().unwrap().to_owned())
        };
        assert_eq!(said(above, 110.0, 9), (true, "beyond".into()));
        assert_eq!(said(above, 110.0, 5), (false, "undecided".into()));
        assert_eq!(said(above, 104.0, 9), (false, "undecided".into()));
        assert_eq!(said(above, 100.0, 9), (false, "not beyond".into()));
        assert_eq!((said(below, 90.0, 9), said(below, 110.0, 9).0), ((true, "beyond".into()), false));
        assert_eq!(above.to_string(), "cpu_us_per_request>1.05");
    }

    #[test]
    fn what_is_no_bound_is_told() {
        assert!(Threshold::parse("cpu").unwrap_err().contains("FIGURE>RATIO"));
        assert!(
            Threshold::parse("speed>1").unwrap_err().contains("no figure is called speed; there are cpu_us")
        );
        for text in ["p99_ms>x", "p99_ms>0", "p99_ms<inf"] {
            assert!(Threshold::parse(text).is_err(), "{text}");
        }
    }
}

//! Two contenders side by side: what a request cost each, the ratio, and how sure it is.

use std::collections::BTreeMap;
use std::fmt;

use crate::judge::statistics::{Estimate, FEWEST, median, paired};
use crate::model::block::{self, Block};
use crate::model::figure::Figure;

/// What a load came to for two contenders.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The load and the number of clients.
    pub name: String,
    /// The figure that is compared.
    pub figure: Figure,
    /// The names of the two.
    pub contenders: [String; 2],
    /// Their medians.
    pub medians: [f64; 2],
    /// The first by the second: the median of the pairs, one of each turn.
    pub ratio: Estimate,
    /// What noise alone does: the second's twin by the second, where there was one, or else the first's by the first.
    pub noise: Option<Estimate>,
    /// Pairs of blocks.
    pub pairs: usize,
    /// How busy the tool was, at most: 1 is one core.
    pub tool_busy: f64,
}

impl Comparison {
    /// The columns of [`Display`](fmt::Display).
    pub const HEADING: &'static str = "load                                  first     second   ratio  95 % interval   \
        A/A     95 % interval   tool busy";

    /// Compares two contenders over blocks of one load, one number of clients and one of cores. `None` where not both
    /// have been measured in the same turn at least once.
    pub fn of(blocks: &[&Block], [first, second]: [&str; 2], figure: Figure) -> Option<Comparison> {
        let turns = |contender: &str| turns(blocks, figure, |block| block.cell.contender == contender);
        let cell = &blocks.first()?.cell;
        let name = format!("{}, {} clients", cell.load, cell.clients);
        let both = [&turns(first), &turns(second)];
        let comparison = Comparison::between(name, figure, [first, second], both)?;
        let noise_of = |name| estimate(&paired(&turns(&block::twin_of(name)), &turns(name)));
        let noise = noise_of(second).or_else(|| noise_of(first));
        Some(Comparison { noise, tool_busy: tool_busy(blocks), ..comparison })
    }

    /// Compares what one contender does under a load with what it does under another one.
    pub fn of_loads(
        blocks: &[&Block],
        contender: &str,
        [first, second]: [&str; 2],
        figure: Figure,
    ) -> Option<Comparison> {
        let of_load = |load: &str| -> Vec<&Block> {
            let of_load = |block: &&&Block| block.cell.load == load && block.cell.contender == contender;
            blocks.iter().filter(of_load).copied().collect()
        };
        let (one, other) = (of_load(first), of_load(second));
        let both = [&turns(&one, figure, |_| true), &turns(&other, figure, |_| true)];
        let name = format!("{contender}, {first} by {second}");
        let comparison = Comparison::between(name, figure, [first, second], both)?;
        let twin = block::twin_of(contender);
        let of_twin = |block: &Block| block.cell.load == second && block.cell.contender == twin;
        let noise = estimate(&paired(&turns(blocks, figure, of_twin), both[1]));
        Some(Comparison { noise, tool_busy: tool_busy(&[one, other].concat()), ..comparison })
    }

    fn between(
        name: String,
        figure: Figure,
        names: [&str; 2],
        [first, second]: [&BTreeMap<u32, f64>; 2],
    ) -> Option<Comparison> {
        let measured = paired(first, second);
        let column = |pick: fn(&(f64, f64)) -> f64| median(&measured.iter().map(pick).collect::<Vec<_>>());
        Some(Comparison {
            name,
            figure,
            contenders: names.map(str::to_owned),
            medians: [column(|pair| pair.0), column(|pair| pair.1)],
            ratio: estimate(&measured)?,
            noise: None,
            pairs: measured.len(),
            tool_busy: 0.0,
        })
    }

    /// What may be said: that one is better only where the interval leaves out 1 and all that a contender differs from
    /// itself.
    pub fn verdict(&self) -> String {
        if self.figure == Figure::MemoryPerConnectionBytes {
            // A contender that had connections does not begin as it began.
            return "measured once".into();
        }
        if self.pairs < FEWEST as usize {
            return "too few pairs to tell".into();
        }
        // By as much as a twin is better it could have been worse.
        let high = self.noise.map_or(1.0, |noise| noise.high.max(1.0 / noise.low).max(1.0));
        let low = 1.0 / high;
        let higher = self.figure.higher_is_better().unwrap_or(false);
        let better = match (self.ratio.high < low, self.ratio.low > high) {
            (true, _) => Some(usize::from(higher)),
            (_, true) => Some(usize::from(!higher)),
            _ => None,
        };
        better.map_or("no difference shown".into(), |index| format!("{} is better", self.contenders[index]))
    }
}

/// The ratios of pairs; `None` where there are none.
fn estimate(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let ratios: Vec<f64> = pairs.iter().map(|(one, other)| one / other).collect();
    (!ratios.is_empty()).then(|| Estimate::of(&ratios))
}

fn turns(blocks: &[&Block], figure: Figure, is_of: impl Fn(&Block) -> bool) -> BTreeMap<u32, f64> {
    let blocks = blocks.iter().filter(|block| is_of(block));
    blocks.filter_map(|block| Some((block.turn, *block.figures.get(&figure)?))).collect()
}

fn tool_busy(blocks: &[&Block]) -> f64 {
    blocks.iter().map(|block| block.circumstances.tool_busy).fold(0.0, f64::max)
}

impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.medians;
        write!(out, "{:<34}{first:>9.2}  {second:>9.2}", self.name)?;
        let Estimate { median, low, high } = self.ratio;
        write!(out, " {median:>7.3}  {low:.3} – {high:.3} ")?;
        match self.noise {
            Some(Estimate { median, low, high }) => write!(out, " {median:>7.3}  {low:.3} – {high:.3}")?,
            None => write!(out, "{:>23}", "–")?,
        }
        write!(out, "{:>9.0} %   {}", self.tool_busy * 100.0, self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    fn blocks(figures: &[[f64; 3]]) -> Vec<Block> {
        let names = ["fulmar", "nginx", "nginx-twin"];
        let turns = figures.iter().zip(0..);
        let blocks = turns.flat_map(|(values, turn)| {
            let values = values.iter().zip(names);
            values.map(move |(value, name)| Block {
                turn,
                ..block(name, "l", 64, &[(Figure::CpuUsPerRequest, *value)])
            })
        });
        blocks.collect()
    }

    fn compare(figures: &[[f64; 3]]) -> Comparison {
        let blocks = blocks(figures);
        let blocks: Vec<&Block> = blocks.iter().collect();
        Comparison::of(&blocks, ["fulmar", "nginx"], Figure::CpuUsPerRequest).unwrap()
    }

    #[test]
    fn ratios_are_of_blocks_of_one_turn() {
        // The machine gets twice as slow; pairs of one turn do not see that.
        let slow = (0..20).map(|turn| 1.0 + f64::from(turn) / 20.0);
        let figures: Vec<_> = slow.map(|slow| [6.0 * slow, 8.0 * slow, 8.0 * slow]).collect();
        let comparison = compare(&figures);
        assert!((comparison.ratio.median - 0.75).abs() < 1e-9);
        assert!(comparison.ratio.high - comparison.ratio.low < 1e-9);
        assert_eq!(comparison.noise.unwrap().median, 1.0);
        assert_eq!(comparison.verdict(), "fulmar is better");
    }

    #[test]
    fn nothing_is_claimed_within_the_noise() {
        let figures: Vec<_> = (0..20).map(|turn| [if turn % 2 == 0 { 7.0 } else { 9.0 }, 8.0, 8.0]).collect();
        assert_eq!(compare(&figures).verdict(), "no difference shown");
        assert_eq!(compare(&[[9.0, 8.0, 8.0]; 6]).verdict(), "nginx is better");
        assert_eq!(compare(&[[9.0, 8.0, 8.0]; 5]).verdict(), "too few pairs to tell");
        assert_eq!(
            compare(&[[9.0, 8.0, 9.5]; 6]).verdict(),
            "no difference shown",
            "nginx differs as much from itself"
        );
    }

    #[test]
    fn the_noise_is_known_in_either_order() {
        let blocks = blocks(&[[9.0, 8.0, 9.5]; 6]);
        let blocks: Vec<&Block> = blocks.iter().collect();
        for names in [["fulmar", "nginx"], ["nginx", "fulmar"]] {
            let comparison = Comparison::of(&blocks, names, Figure::CpuUsPerRequest).unwrap();
            assert_eq!(comparison.noise.map(|noise| noise.median), Some(9.5 / 8.0), "{names:?}");
            assert_eq!(comparison.verdict(), "no difference shown", "{names:?}");
        }
    }

    #[test]
    fn a_contender_is_compared_with_itself_under_another_load() {
        let cost =
            |turn, load, cost| Block { turn, ..block("a", load, 1, &[(Figure::CpuUsPerRequest, cost)]) };
        let blocks: Vec<Block> =
            (0..6).flat_map(|turn| [cost(turn, "many", 12.0), cost(turn, "ten", 10.0)]).collect();
        let blocks: Vec<&Block> = blocks.iter().collect();
        let of = |name, loads| Comparison::of_loads(&blocks, name, loads, Figure::CpuUsPerRequest);
        let comparison = of("a", ["many", "ten"]).unwrap();
        assert_eq!((comparison.medians, comparison.ratio.median), ([12.0, 10.0], 1.2));
        assert_eq!(comparison.verdict(), "ten is better");
        assert!(of("a", ["many", "few"]).is_none() && of("b", ["many", "ten"]).is_none());
    }

    #[test]
    fn of_rates_more_is_better() {
        let rate = |turn, name, rate| Block { turn, ..block(name, "l", 1, &[(Figure::RequestsPerS, rate)]) };
        let blocks: Vec<Block> =
            (0..6).flat_map(|turn| [rate(turn, "a", 10.0), rate(turn, "b", 5.0)]).collect();
        let blocks: Vec<&Block> = blocks.iter().collect();
        let once = Comparison::of(&blocks[..2], ["a", "b"], Figure::RequestsPerS).unwrap();
        assert_eq!(once.verdict(), "too few pairs to tell");
        let comparison = Comparison::of(&blocks, ["a", "b"], Figure::RequestsPerS).unwrap();
        assert_eq!(comparison.verdict(), "a is better");
        assert!(Comparison::of(&blocks, ["a", "c"], Figure::RequestsPerS).is_none());
    }
}

//! Which charts are drawn of a work.

use std::collections::BTreeMap;

use super::chart::{Axis, Bar, Chart, Histogram, Line, Point};
use super::format;
use super::lead::Share;
use super::scale::Spread;
use super::summary::{Summary, Work};
use crate::model::block::{self, Block, Sample};
use crate::model::experiment::{Experiment, Kind};
use crate::model::figure::Figure;

/// The curve of percentiles begins here.
const SHARE_MIN: f64 = 0.1;
/// A histogram of fewer bars is too coarse to read percentiles from.
const FINE_BARS: usize = 30;
/// Bars of a histogram are joined until they are so wide: 24 in a decade.
const BAR_DECADES: f64 = 1.0 / 24.0;

/// The colour, dash and marker of each contender, the same throughout the report.
pub(super) struct Styles(BTreeMap<String, usize>);

impl Styles {
    /// Numbers the contenders in the order in which experiments and blocks name them.
    pub(super) fn of(experiments: &[Experiment], blocks: &[Block]) -> Styles {
        let named = experiments.iter().flat_map(|experiment| &experiment.contenders);
        let mut styles = BTreeMap::new();
        for name in named.chain(blocks.iter().map(|block| &block.cell.contender)) {
            let next = styles.len();
            if block::original_of(name).is_none() {
                styles.entry(name.clone()).or_insert(next);
            }
        }
        Styles(styles)
    }

    fn of_contender(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// The charts of one work at one number of clients, and over all of them.
pub(super) struct Plots<'a> {
    /// What was measured.
    pub(super) summary: &'a Summary<'a>,
    /// The work.
    pub(super) work: &'a Work<'a>,
    /// The number of clients of the charts that show one only.
    pub(super) clients: u32,
    /// The styles.
    pub(super) styles: &'a Styles,
    /// Whether histograms and charts over time are among them.
    pub(super) full: bool,
}

impl Plots<'_> {
    /// All charts for which there are figures.
    pub(super) fn all(&self) -> Vec<Chart> {
        let drawn = self.work.drawn();
        let many = self.work.clients.len() > 1;
        let rate = if many { self.over_clients(drawn) } else { self.bars(drawn, "with interval") };
        let over = |figure| many.then(|| self.over_clients(figure)).flatten();
        let total = self.work.load.requests.is_some().then(|| self.total_time()).flatten();
        let [cpu, memory, histograms] = if self.full { self.large() } else { [None, None, None] };
        let charts = [
            self.most_clients(),
            rate,
            over(Figure::P99Ms),
            over(Figure::MemoryBytes),
            self.percentiles(),
            cpu,
            memory,
            self.bars(Figure::CpuUsPerRequest, "with interval"),
            self.bars(Figure::MemoryBytes, "at the end of the load"),
            total,
            histograms,
        ];
        charts.into_iter().flatten().collect()
    }

    /// The charts that take most room.
    fn large(&self) -> [Option<Chart>; 3] {
        let mib = |sample: &Sample| sample.memory_bytes as f64 / (1024.0 * 1024.0);
        [
            self.over_time("CPU", "CPU, % of one core", |sample| sample.cpu_percent),
            self.over_time("Memory", "memory, MiB", mib),
            self.histograms(),
        ]
    }

    /// `64 clients`, in the title of a chart that shows one number only.
    fn at(&self) -> String {
        self.work.at(self.clients)
    }

    /// Where the load is raised until it breaks: the most clients that were all answered in time.
    fn most_clients(&self) -> Option<Chart> {
        let lead = self
            .summary
            .lead(self.work, self.work.deciding())
            .filter(|_| self.work.load.kind == Kind::Knee)?;
        let bar = |share: &Share<'_>| Bar {
            name: share.contender.to_owned(),
            style: self.styles.of_contender(share.contender),
            value: share.value.median,
            span: Some((share.value.low, share.value.high)),
            label: format::number(share.value.median),
        };
        let x = Axis { title: "clients".into(), spread: Spread::Linear };
        Chart::bars(
            "The most clients that were all answered in time",
            x,
            lead.shares.iter().map(bar).collect(),
        )
    }

    fn over_clients(&self, figure: Figure) -> Option<Chart> {
        let (title, divisor) = format::unit(figure);
        let point = |name: &str, clients: u32| {
            let span = self.summary.span(&self.work.cell(name, clients), figure)?;
            let ends = (span.low / divisor, span.high / divisor);
            Some(Point { x: f64::from(clients), y: span.median / divisor, span: Some(ends) })
        };
        let line = |name: &&str| Line {
            name: (*name).to_owned(),
            style: self.styles.of_contender(name),
            points: self.work.clients.iter().filter_map(|clients| point(name, *clients)).collect(),
        };
        let lines: Vec<Line> = self.work.contenders.iter().map(line).collect();
        let is_time = title.ends_with("ms");
        let noun = if self.work.load.kind == Kind::Idle { "connections" } else { "clients" };
        let x = Axis {
            title: noun.into(),
            spread: spread_of(self.work.clients.iter().map(|count| f64::from(*count))),
        };
        let y = Axis {
            title: title.into(),
            spread: if is_time { spread_of(heights(&lines)) } else { Spread::Linear },
        };
        Chart::lines(format!("{} over {noun}", format::capital(figure)), x, y, lines)
    }

    fn percentiles(&self) -> Option<Chart> {
        let line = |name: &&str| {
            let style = self.styles.of_contender(name);
            Line { name: (*name).to_owned(), style, points: self.percentile_points(name) }
        };
        let lines: Vec<Line> = self.work.contenders.iter().map(line).collect();
        let x = Axis { title: "share of requests that were faster".into(), spread: Spread::Percentile };
        let y = Axis { title: "time of a request, ms".into(), spread: spread_of(heights(&lines)) };
        let lines = lines.into_iter().filter(|line| line.points.len() > 1).collect();
        Chart::lines(format!("Latency by percentile, {}", self.at()), x, y, lines)
    }

    fn percentile_points(&self, name: &str) -> Vec<Point> {
        let cell = self.work.cell(name, self.clients);
        let fine = self.typical(name).filter(|block| block.histogram.len() >= FINE_BARS);
        if let Some(block) = fine {
            return cumulated(&block.histogram);
        }
        let figure = |figure| self.summary.span(&cell, figure).map(|span| span.median);
        let mut points: Vec<Point> = Figure::PERCENTILES
            .iter()
            .filter_map(|(percent, of)| {
                Some(Point { x: f64::from(*percent) / 100.0, y: figure(*of)?, span: None })
            })
            .collect();
        let requests =
            figure(Figure::RequestsPerS).zip(figure(Figure::TotalS)).map(|(rate, time)| rate * time);
        if let (Some(requests), Some(max)) =
            (requests.filter(|requests| *requests > 100.0), figure(Figure::MaxMs))
        {
            points.push(Point { x: 1.0 - 1.0 / requests, y: max, span: None });
        }
        points
    }

    fn histograms(&self) -> Option<Chart> {
        let row = |name: &&str| {
            let block = self.typical(name)?;
            let least = block.figures.get(&Figure::MinMs).copied();
            let steps = densities(&block.histogram, least);
            let style = self.styles.of_contender(name);
            (steps.len() > 1).then(|| Histogram { name: (*name).to_owned(), style, steps })
        };
        let rows = self.work.contenders.iter().filter_map(row).collect();
        let x = Axis { title: "time of a request, ms".into(), spread: Spread::Log };
        Chart::histograms(format!("Histograms of latency, {}; each to its own height", self.at()), x, rows)
    }

    fn over_time(&self, what: &str, unit: &str, value: fn(&Sample) -> f64) -> Option<Chart> {
        let point = |sample: &Sample| Point { x: sample.at_s, y: value(sample), span: None };
        let line = |name: &&str| {
            let samples = self.typical(name)?.samples.iter();
            let style = self.styles.of_contender(name);
            Some(Line { name: (*name).to_owned(), style, points: samples.map(point).collect() })
        };
        let lines = self.work.contenders.iter().filter_map(line).collect();
        let x = Axis { title: "since the load began, s".into(), spread: Spread::Linear };
        let y = Axis { title: unit.into(), spread: Spread::Linear };
        Chart::lines(format!("{what} over time, {}", self.at()), x, y, lines)
    }

    fn bars(&self, figure: Figure, what: &str) -> Option<Chart> {
        let (title, divisor) = format::unit(figure);
        let bar = |name: &&str| {
            let (estimate, _) = self.summary.estimate(&self.work.cell(name, self.clients), figure)?;
            Some(Bar {
                name: (*name).to_owned(),
                style: self.styles.of_contender(name),
                value: estimate.median / divisor,
                span: Some((estimate.low / divisor, estimate.high / divisor)),
                label: format::value(figure, estimate.median),
            })
        };
        let bars = self.work.contenders.iter().filter_map(bar).collect();
        let x = Axis { title: title.into(), spread: Spread::Linear };
        Chart::bars(format!("{} {what}, {}", format::capital(figure), self.at()), x, bars)
    }

    /// The time for all numbers of clients together, of those who have all of them.
    fn total_time(&self) -> Option<Chart> {
        let seconds = |name: &str, clients: &u32| {
            self.summary.span(&self.work.cell(name, *clients), Figure::TotalS).map(|span| span.median)
        };
        let bar = |name: &&str| {
            let value: f64 =
                self.work.clients.iter().map(|clients| seconds(name, clients)).sum::<Option<f64>>()?;
            let style = self.styles.of_contender(name);
            Some(Bar { name: (*name).to_owned(), style, value, span: None, label: format::number(value) })
        };
        let bars = self.work.contenders.iter().filter_map(bar).collect();
        let steps = match self.work.clients.len() {
            1 => self.at(),
            count => format!("all {count} numbers of clients together"),
        };
        let x = Axis { title: "total, s".into(), spread: Spread::Linear };
        Chart::bars(format!("Total time, {steps}"), x, bars)
    }

    fn typical(&self, name: &str) -> Option<&Block> {
        self.summary.typical(&self.work.cell(name, self.clients), self.work.drawn())
    }
}

fn heights(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.y)
}

/// What is spread over more than a factor of 30, and not in even steps, is shown by its logarithm.
fn spread_of(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Spread::Linear };
    let middle = values[values.len() / 2];
    if last / first > 30.0 && middle < (first + last) / 3.0 { Spread::Log } else { Spread::Linear }
}

/// Percentiles from a fine histogram.
fn cumulated(bars: &[block::Bar]) -> Vec<Point> {
    let total: f64 = bars.iter().map(|bar| bar.count as f64).sum();
    let mut below = 0.0;
    let mut points = Vec::new();
    for bar in bars.iter().filter(|bar| bar.count > 0) {
        below += bar.count as f64;
        points.push(Point { x: (below / total).min(1.0 - 0.5 / total), y: bar.upto_ms, span: None });
    }
    points.retain(|point| point.x >= SHARE_MIN);
    points
}

/// A histogram's bars by how many requests lie in an equal piece of the logarithmic axis; the highest is 1.
/// `least_ms` is the fastest request, if it is known.
fn densities(bars: &[block::Bar], least_ms: Option<f64>) -> Vec<(f64, f64, f64)> {
    let mut steps: Vec<(f64, f64, f64)> = Vec::new();
    let mut from = 0.0;
    for bar in bars.iter().filter(|bar| bar.upto_ms > 0.0) {
        let (start, count) = (from, bar.count as f64);
        from = bar.upto_ms;
        let start =
            if start > 0.0 { start } else { least_ms.filter(|least| *least > 0.0).unwrap_or(from / 2.0) };
        if (count <= 0.0 && steps.is_empty()) || start >= from {
            continue;
        }
        match steps.last_mut() {
            Some((first, end, sum)) if (*end / *first).log10() < BAR_DECADES => {
                *end = from;
                *sum += count;
            }
            _ => steps.push((start, from, count)),
        }
    }
    while steps.last().is_some_and(|(_, _, count)| *count <= 0.0) {
        steps.pop();
    }
    for (start, end, height) in &mut steps {
        *height /= (*end / *start).ln();
    }
    let highest = steps.iter().map(|(_, _, height)| *height).fold(f64::MIN_POSITIVE, f64::max);
    steps.iter().map(|(start, end, height)| (*start, *end, height / highest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::Bar;

    #[test]
    fn percentiles_from_a_histogram() {
        let bars: Vec<Bar> = [(1.0, 90), (2.0, 0), (3.0, 9), (10.0, 1)]
            .map(|(upto_ms, count)| Bar { upto_ms, count })
            .to_vec();
        let points: Vec<(f64, f64)> = cumulated(&bars).iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(0.9, 1.0), (0.99, 3.0), (0.995, 10.0)]);
    }

    #[test]
    fn unequal_bars_are_compared_by_density() {
        let bars = [Bar { upto_ms: 10.0, count: 100 }, Bar { upto_ms: 1000.0, count: 100 }];
        let steps = densities(&bars, Some(1.0));
        assert_eq!(steps[0], (1.0, 10.0, 1.0));
        assert!((steps[1].2 - 0.5).abs() < 1e-9, "twice as wide, half as dense: {steps:?}");
        assert!(densities(&[], None).is_empty());
        let fine: Vec<Bar> =
            (1..1000).map(|step| Bar { upto_ms: f64::from(step) / 100.0, count: 1 }).collect();
        assert!(densities(&fine, None).len() < 80, "{}", densities(&fine, None).len());
    }

    #[test]
    fn sweeps_are_linear_and_decades_logarithmic() {
        assert_eq!(spread_of((0..=100).map(|step| f64::from(step) * 10.0)), Spread::Linear);
        assert_eq!(spread_of([1.0, 10.0, 100.0, 1000.0].into_iter()), Spread::Log);
        assert_eq!(spread_of([50.0, 100.0, 200.0].into_iter()), Spread::Linear);
    }
}

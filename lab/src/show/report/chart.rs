//! Charts as data, with the words that stand for them where they cannot be seen.

use super::format;
use super::scale::Spread;

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// What it shows.
    pub(super) title: String,
    /// The same in words, for those who do not see it.
    pub(super) words: Vec<String>,
    /// What is drawn.
    pub(super) plot: Plot,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) enum Plot {
    /// A line for each contender.
    Lines {
        /// Across.
        x: Axis,
        /// Up.
        y: Axis,
        /// The lines.
        lines: Vec<Line>,
    },
    /// A bar for each contender, from 0, with its interval.
    Bars {
        /// Across.
        x: Axis,
        /// The bars.
        bars: Vec<Bar>,
    },
    /// What was published above what was measured here, a line for each claim.
    Claims {
        /// Across: a ratio.
        x: Axis,
        /// The claims.
        claims: Vec<Claim>,
    },
    /// A histogram for each contender, one below the other.
    Histograms {
        /// Across.
        x: Axis,
        /// The histograms.
        rows: Vec<Histogram>,
    },
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What it shows, with its unit.
    pub(super) title: String,
    /// How values are spread on it.
    pub(super) spread: Spread,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Whose.
    pub(super) name: String,
    /// Its colour, dash and marker.
    pub(super) style: usize,
    /// Its points, from left to right.
    pub(super) points: Vec<Point>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Across.
    pub(super) x: f64,
    /// Up.
    pub(super) y: f64,
    /// The interval around `y`, if it is known.
    pub(super) span: Option<(f64, f64)>,
}

/// A bar with its interval.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// Whose.
    pub(super) name: String,
    /// Its colour.
    pub(super) style: usize,
    /// Its length.
    pub(super) value: f64,
    /// The interval around it, if it is known.
    pub(super) span: Option<(f64, f64)>,
    /// The number at its end.
    pub(super) label: String,
}

/// A published ratio and the one that was measured here.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// What is claimed, with the sign of the result.
    pub(super) name: String,
    /// Both ratios in words.
    pub(super) label: String,
    /// What was published.
    pub(super) published: f64,
    /// What was measured.
    pub(super) here: f64,
    /// The interval around it.
    pub(super) span: (f64, f64),
}

/// A histogram.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Whose.
    pub(super) name: String,
    /// Its colour.
    pub(super) style: usize,
    /// From where to where, and how high; the highest is 1.
    pub(super) steps: Vec<(f64, f64, f64)>,
}

impl Chart {
    /// A chart of lines, with words about both ends and the highest point of each.
    pub(super) fn lines(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Option<Chart> {
        let mut lines = lines;
        for line in &mut lines {
            line.points.retain(|point| point.x.is_finite() && point.y.is_finite());
        }
        lines.retain(|line| !line.points.is_empty());
        let words = lines.iter().map(|line| describe(line, &x, &y)).collect();
        (!lines.is_empty()).then(|| Chart { title: title.into(), words, plot: Plot::Lines { x, y, lines } })
    }

    /// A chart of bars.
    pub(super) fn bars(title: impl Into<String>, x: Axis, bars: Vec<Bar>) -> Option<Chart> {
        let words = bars.iter().map(|bar| format!("{}: {}", bar.name, bar.label)).collect();
        (!bars.is_empty()).then(|| Chart { title: title.into(), words, plot: Plot::Bars { x, bars } })
    }

    /// A chart of claims.
    pub(super) fn claims(title: impl Into<String>, x: Axis, claims: Vec<Claim>) -> Option<Chart> {
        let words = claims.iter().map(|claim| format!("{}: {}", claim.name, claim.label)).collect();
        (!claims.is_empty()).then(|| Chart { title: title.into(), words, plot: Plot::Claims { x, claims } })
    }

    /// A chart of histograms, with words about where most requests lie.
    pub(super) fn histograms(title: impl Into<String>, x: Axis, rows: Vec<Histogram>) -> Option<Chart> {
        let words = rows.iter().filter_map(|row| {
            let (from, upto, _) = row.steps.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
            let (first, last) = (row.steps.first()?.0, row.steps.last()?.1);
            let [from, upto, first, last] = [*from, *upto, first, last].map(format::number);
            Some(format!("{}: from {first} to {last} ms, densest between {from} and {upto} ms", row.name))
        });
        let words = words.collect();
        (!rows.is_empty()).then(|| Chart { title: title.into(), words, plot: Plot::Histograms { x, rows } })
    }

    /// Whose lines, bars or histograms it shows, with their styles.
    pub(super) fn names(&self) -> Vec<(&str, usize)> {
        match &self.plot {
            Plot::Lines { lines, .. } => lines.iter().map(|line| (line.name.as_str(), line.style)).collect(),
            Plot::Bars { bars, .. } => bars.iter().map(|bar| (bar.name.as_str(), bar.style)).collect(),
            // They compare publications and not contenders.
            Plot::Claims { .. } => Vec::new(),
            Plot::Histograms { rows, .. } => rows.iter().map(|row| (row.name.as_str(), row.style)).collect(),
        }
    }
}

fn describe(line: &Line, x: &Axis, y: &Axis) -> String {
    let at = |value: f64| match x.spread {
        Spread::Percentile => format::percentile(value),
        _ => format::tick(value),
    };
    let ends = [line.points.first(), line.points.last()].map(|point| {
        point.map_or_else(String::new, |point| format!("{} at {}", format::number(point.y), at(point.x)))
    });
    let top = line.points.iter().max_by(|a, b| a.y.total_cmp(&b.y));
    let top = top.map_or_else(String::new, |point| format!("{} at {}", format::number(point.y), at(point.x)));
    let [first, last] = ends;
    format!("{}: {first}, {last}; highest {top} ({} by {})", line.name, y.title, x.title)
}

//! Charts as SVG within a page: sizes in the page's own pixels, colours and fonts from its style sheet.

use std::fmt::Write;

use super::chart::{Axis, Bar, Chart, Histogram, Line, Plot, Point};
use super::format;
use super::html::escape;
use super::scale::{Scale, Spread};

/// Width of every chart. It is small enough that text is still readable when a phone shrinks it.
const WIDTH: f64 = 480.0;
/// Height of a chart of lines.
const HEIGHT: f64 = 300.0;
/// Height of a bar with its room.
const BAR: f64 = 26.0;
/// Height of a histogram with its room.
const ROW: f64 = 44.0;
/// Room below for the labels of the axis and its title.
const BELOW: f64 = 46.0;
/// Room above for the title of the axis.
const ABOVE: f64 = 30.0;
/// Room for a letter, in the larger size that a phone gets.
const DIGIT: f64 = 8.6;
/// Lines with more points get markers only here and there.
const MARKERS_MAX: usize = 14;
/// How lines differ beside their colour: solid, long, short and mixed dashes.
const DASHES: &[&str] = &["", "9 4", "3 3", "10 3 2 3", "15 4"];
/// How many colours the style sheet has.
pub(super) const COLOURS: usize = 12;

/// Writes a chart. `id` is unique in the page.
pub(super) fn draw(chart: &Chart, id: &str) -> String {
    let mut drawing = Drawing::default();
    let height = match &chart.plot {
        Plot::Lines { x, y, lines } => drawing.lines((x, y), lines),
        Plot::Bars { x, bars } => drawing.bars(x, bars),
        Plot::Histograms { x, rows } => drawing.histograms(x, rows),
    };
    let (title, words) = (escape(&chart.title), escape(&chart.words.join(". ")));
    format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{words}</desc>{}</svg>",
        drawing.out
    )
}

/// A short stretch of a contender's line with its marker, for a legend.
pub(super) fn key(style: usize) -> String {
    let mut drawing = Drawing::default();
    drawing.path(style, "M1 7H29");
    drawing.marker(style, (15.0, 7.0));
    format!(
        "<svg class=\"key\" width=\"30\" height=\"14\" viewBox=\"0 0 30 14\" aria-hidden=\"true\">{}</svg>",
        drawing.out
    )
}

#[derive(Default)]
struct Drawing {
    out: String,
}

/// Where a text is fastened.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    fn lines(&mut self, (x, y): (&Axis, &Axis), lines: &[Line]) -> f64 {
        let points = || lines.iter().flat_map(|line| &line.points);
        let heights = points().flat_map(|point| {
            let (low, high) = point.span.unwrap_or((point.y, point.y));
            [low, point.y, high]
        });
        let bottom = HEIGHT - BELOW;
        let up = Scale::over(y.spread, heights, (bottom, ABOVE));
        let labels: Vec<String> = up.ticks().into_iter().map(format::tick).collect();
        let left = 14.0 + DIGIT * labels.iter().map(|label| label.chars().count()).max().unwrap_or(1) as f64;
        let across = Scale::over(x.spread, points().map(|point| point.x), (left + 6.0, WIDTH - 20.0));
        for (tick, label) in up.ticks().into_iter().zip(&labels) {
            self.rule((left, up.at(tick)), (WIDTH - 8.0, up.at(tick)));
            self.text((left - 6.0, up.at(tick) + 4.0), Anchor::End, label);
        }
        self.title((2.0, 15.0), Anchor::Start, &y.title);
        self.axis(x, &across, bottom);
        for line in lines {
            self.line(line, &across, &up);
        }
        HEIGHT
    }

    fn line(&mut self, line: &Line, across: &Scale, up: &Scale) {
        let place = |point: &Point| (across.at(point.x), up.at(point.y));
        let mut path = String::new();
        for (index, point) in line.points.iter().enumerate() {
            let (x, y) = place(point);
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.out, "<g class=\"s{}\">", line.style % COLOURS);
        if line.points.len() > 1 {
            self.path(line.style, &path);
        }
        let every = line.points.len().div_ceil(MARKERS_MAX).max(1);
        for (index, point) in line.points.iter().enumerate() {
            // Markers of different lines stand at different points, so that equal lines are seen to be two.
            if index % every == line.style % every {
                self.whisker(point, across, up);
                self.marker(line.style, place(point));
            }
        }
        self.out.push_str("</g>");
    }

    fn whisker(&mut self, point: &Point, across: &Scale, up: &Scale) {
        let Some((low, high)) = point.span else { return };
        let (x, low, high) = (across.at(point.x), up.at(low), up.at(high));
        if low - high > 1.0 {
            let _ = write!(self.out, "<path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
        }
    }

    fn bars(&mut self, x: &Axis, bars: &[Bar]) -> f64 {
        let longest = |length: fn(&Bar) -> usize| bars.iter().map(length).max().unwrap_or(1) as f64;
        let left = 10.0 + DIGIT * longest(|bar| bar.name.chars().count());
        let right = WIDTH - 14.0 - DIGIT * longest(|bar| bar.label.chars().count());
        let bottom = 4.0 + BAR * bars.len() as f64;
        let ends = bars.iter().map(|bar| bar.span.map_or(bar.value, |(_, high)| high.max(bar.value)));
        let across = Scale::over(x.spread, ends, (left, right.max(left + 60.0)));
        self.axis(x, &across, bottom);
        for (index, bar) in bars.iter().enumerate() {
            let top = 4.0 + BAR * index as f64;
            let (zero, end) = (across.at(0.0), across.at(bar.value));
            self.text((left - 6.0, top + 17.0), Anchor::End, &bar.name);
            let _ = write!(
                self.out,
                "<g class=\"s{}\"><rect class=\"bar\" x=\"{zero:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                bar.style % COLOURS,
                top + 5.0,
                (end - zero).max(1.0),
                BAR - 10.0
            );
            let mut labelled = end;
            if let Some((low, high)) = bar.span.filter(|(low, high)| low < high) {
                let (low, high, y) = (across.at(low), across.at(high), top + BAR / 2.0);
                labelled = labelled.max(high);
                let _ = write!(
                    self.out,
                    "<path class=\"interval\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/>",
                    y - 4.0,
                    y - 4.0
                );
            }
            self.out.push_str("</g>");
            self.text((labelled + 6.0, top + 17.0), Anchor::Start, &bar.label);
        }
        bottom + BELOW
    }

    fn histograms(&mut self, x: &Axis, rows: &[Histogram]) -> f64 {
        let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(1) as f64;
        let left = 12.0 + DIGIT * longest;
        let bottom = 4.0 + ROW * rows.len() as f64;
        let ends = rows.iter().flat_map(|row| &row.steps).flat_map(|(from, upto, _)| [*from, *upto]);
        let across = Scale::over(x.spread, ends, (left, WIDTH - 20.0));
        self.axis(x, &across, bottom);
        for (index, row) in rows.iter().enumerate() {
            let base = 4.0 + ROW * (index + 1) as f64;
            self.text((left - 8.0, base - 6.0), Anchor::End, &row.name);
            self.rule((left, base), (WIDTH - 8.0, base));
            let _ = write!(self.out, "<path class=\"hist s{}\" d=\"", row.style % COLOURS);
            for (from, upto, height) in &row.steps {
                let (from, upto, top) = (across.at(*from), across.at(*upto), base - height * (ROW - 6.0));
                let _ = write!(self.out, "M{from:.1} {base:.1}V{top:.1}H{upto:.1}V{base:.1}Z");
            }
            self.out.push_str("\"/>");
        }
        bottom + BELOW
    }

    /// The axis across: its line, its labels and its title. Labels that would touch the one before are left out.
    fn axis(&mut self, axis: &Axis, scale: &Scale, bottom: f64) {
        let mut free = f64::NEG_INFINITY;
        for tick in scale.ticks() {
            let label = match axis.spread {
                Spread::Percentile => format::percentile(tick),
                _ => format::tick(tick),
            };
            let (x, half) = (scale.at(tick), DIGIT * label.chars().count() as f64 / 2.0);
            let _ = write!(self.out, "<path class=\"rule\" d=\"M{x:.1} {bottom:.1}v4\"/>");
            if x - half > free {
                self.text((x.min(WIDTH - half), bottom + 17.0), Anchor::Middle, &label);
                free = x + half + 6.0;
            }
        }
        self.rule((scale.at(f64::MIN), bottom), (WIDTH - 8.0, bottom));
        self.title((WIDTH - 8.0, bottom + 36.0), Anchor::End, &axis.title);
    }

    fn rule(&mut self, from: (f64, f64), upto: (f64, f64)) {
        let _ = write!(
            self.out,
            "<path class=\"rule\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, upto.0, upto.1
        );
    }

    fn path(&mut self, style: usize, path: &str) {
        let dash = DASHES[style % DASHES.len()];
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let _ = write!(self.out, "<path class=\"line s{}\"{dash} d=\"{path}\"/>", style % COLOURS);
    }

    /// Seven shapes, so that shape, colour and dash together repeat only after hundreds of contenders.
    fn marker(&mut self, style: usize, (x, y): (f64, f64)) {
        let shape = match style % 7 {
            0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
            1 => "m-3.2-3.2h6.4v6.4h-6.4z",
            2 => "m0-4.4 4.2 7.4h-8.4z",
            3 => "m0-4.6 4.6 4.6-4.6 4.6-4.6-4.6z",
            4 => "m0 4.4 4.2-7.4h-8.4z",
            5 => "m-1.3-4.4h2.6v3.1h3.1v2.6h-3.1v3.1h-2.6v-3.1h-3.1v-2.6h3.1z",
            _ => "m-4.4-1.6h8.8v3.2h-8.8z",
        };
        let _ = write!(self.out, "<path class=\"marker s{}\" d=\"M{x:.1} {y:.1}{shape}\"/>", style % COLOURS);
    }

    fn text(&mut self, place: (f64, f64), anchor: Anchor, text: &str) {
        self.label("", place, anchor, text);
    }

    fn title(&mut self, place: (f64, f64), anchor: Anchor, text: &str) {
        self.label(" class=\"axis\"", place, anchor, text);
    }

    fn label(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ =
            write!(self.out, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(spread: Spread) -> Axis {
        Axis { title: "a & b".into(), spread }
    }

    #[test]
    fn lines_are_where_their_values_are() {
        let point = |x, y| Point { x, y, span: Some((y * 0.9, y * 1.1)) };
        let line = Line { name: "<n>".into(), style: 1, points: vec![point(1.0, 100.0), point(100.0, 50.0)] };
        let chart = Chart::lines("t", axis(Spread::Log), axis(Spread::Linear), vec![line]).unwrap();
        let svg = draw(&chart, "c");
        assert!(svg.starts_with("<svg class=\"chart\" role=\"img\""), "{svg}");
        assert!(svg.contains("<desc id=\"c-d\">&lt;n&gt;: 100 at 1, 50.0 at 100;"), "{svg}");
        assert!(svg.contains("a &amp; b") && !svg.contains("<n>"), "{svg}");
        assert_eq!(svg.matches("class=\"whisker\"").count(), 2);
        assert!(svg.contains("stroke-dasharray"), "the second style is told by its dash too: {svg}");
    }

    #[test]
    fn odd_values_make_no_odd_drawing() {
        for value in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300] {
            let line =
                Line { name: "n".into(), style: 0, points: vec![Point { x: value, y: value, span: None }] };
            for spread in [Spread::Linear, Spread::Log, Spread::Percentile] {
                let Some(chart) = Chart::lines("t", axis(spread), axis(spread), vec![line.clone()]) else {
                    continue;
                };
                let svg = draw(&chart, "c");
                assert!(svg.len() < 20_000 && !svg.contains("inf") && !svg.contains("NaN"), "{svg}");
            }
        }
    }

    #[test]
    fn bars_begin_at_zero() {
        let bar = |value: f64| Bar {
            name: "n".into(),
            style: 0,
            value,
            span: Some((value, value)),
            label: "1".into(),
        };
        let chart = Chart::bars("t", axis(Spread::Linear), vec![bar(1.0), bar(2.0)]).unwrap();
        let svg = draw(&chart, "c");
        let width = |index: usize| -> f64 {
            let rect = svg.split("<rect").nth(index).unwrap();
            rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!((width(2) / width(1) - 2.0).abs() < 0.01, "{svg}");
    }
}

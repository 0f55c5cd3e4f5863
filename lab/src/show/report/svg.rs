//! Charts as SVG within a page: sizes in the page's own pixels, colours and fonts from its style sheet.

use std::fmt::Write;

use super::chart::{Axis, Bar, Chart, Claim, Histogram, Line, Plot, Point};
use super::format;
use super::html::escape;
use super::scale::{Scale, Spread};

/// Width of every chart. It is small enough that text is still readable when a phone shrinks it.
pub(super) const WIDTH: f64 = 480.0;
/// Height of a chart of lines.
const HEIGHT: f64 = 300.0;
/// Height of a bar with its room.
const BAR: f64 = 26.0;
/// Height of a histogram with its room.
const ROW: f64 = 44.0;
/// Height of a claim with its words.
const CLAIM: f64 = 42.0;
/// Room below for the labels of the axis and its title.
const BELOW: f64 = 46.0;
/// Room above for the title of the axis.
const ABOVE: f64 = 30.0;
/// Room for a letter, in the larger size that a phone gets.
const DIGIT: f64 = 8.6;
/// Lines with more points get markers only here and there.
const MARKERS_MAX: usize = 10;
/// How many kinds of dashes the style sheet has.
const DASHES: usize = 5;
/// A line is drawn so near to its points: what cannot be seen only makes the page larger.
const NEAR: f64 = 0.4;
/// How many colours the style sheet has.
pub(super) const COLOURS: usize = 12;

/// Writes a chart. `id` is unique in the page.
pub(super) fn draw(chart: &Chart, id: &str) -> String {
    let (plot, height) = plot(chart);
    let (title, words) = (escape(&chart.title), escape(&chart.words.join(". ")));
    format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{words}</desc>{plot}</svg>"
    )
}

/// What is within a chart, and its height.
pub(super) fn plot(chart: &Chart) -> (String, f64) {
    let mut drawing = Drawing::default();
    let height = match &chart.plot {
        Plot::Lines { x, y, lines } => drawing.lines((x, y), lines),
        Plot::Bars { x, bars } => drawing.bars(x, bars),
        Plot::Claims { x, claims } => drawing.claims(x, claims),
        Plot::Histograms { x, rows } => drawing.histograms(x, rows),
    };
    (drawing.out, height)
}

/// A contender's line with its marker, for a legend.
pub(super) fn key(style: usize) -> String {
    format!(
        "<svg class=\"key\" width=\"30\" height=\"14\" viewBox=\"0 0 30 14\" aria-hidden=\"true\">{}</svg>",
        sample(style)
    )
}

/// A short stretch of a contender's line: 30 wide, 14 high.
pub(super) fn sample(style: usize) -> String {
    let mut drawing = Drawing::default();
    drawing.path(style, &[(1.0, 7.0), (29.0, 7.0)]);
    drawing.markers(style, &[(15.0, 7.0)]);
    drawing.out
}

/// The markers of these styles, which all charts of a page refer to.
pub(super) fn markers(styles: impl Iterator<Item = usize>) -> String {
    format!(
        "<svg class=\"markers\" width=\"0\" height=\"0\" aria-hidden=\"true\">{}</svg>",
        definitions(styles)
    )
}

/// The same as definitions within a drawing. Seven shapes, so that shape, colour and dash
/// together repeat only after hundreds of contenders.
pub(super) fn definitions(styles: impl Iterator<Item = usize>) -> String {
    let mut out = String::from("<defs>");
    for style in styles {
        let shape = match style % 7 {
            0 => "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
            1 => "M-3.2-3.2h6.4v6.4h-6.4z",
            2 => "M0-4.4l4.2 7.4h-8.4z",
            3 => "M0-4.6l4.6 4.6-4.6 4.6-4.6-4.6z",
            4 => "M0 4.4l4.2-7.4h-8.4z",
            5 => "M-1.3-4.4h2.6v3.1h3.1v2.6h-3.1v3.1h-2.6v-3.1h-3.1v-2.6h3.1z",
            _ => "M-4.4-1.6h8.8v3.2h-8.8z",
        };
        let _ = write!(
            out,
            "<marker id=\"m{style}\" viewBox=\"-6 -6 12 12\" markerWidth=\"12\" markerHeight=\"12\" \
             markerUnits=\"userSpaceOnUse\"><path class=\"marker s{}\" d=\"{shape}\"/></marker>",
            style % COLOURS
        );
    }
    out + "</defs>"
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

impl Anchor {
    fn class(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
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
        let places: Vec<(f64, f64)> = line.points.iter().map(place).collect();
        let _ = write!(self.out, "<g class=\"s{}\">", line.style % COLOURS);
        if places.len() > 1 {
            self.path(line.style, &simplified(&places));
        }
        // Markers of different lines stand at different points, so that equal lines are seen to be two.
        let every = places.len().div_ceil(MARKERS_MAX).max(1);
        let is_marked = |index: &usize| index % every == line.style % every;
        let marked: Vec<usize> = (0..places.len()).filter(is_marked).collect();
        self.whiskers(marked.iter().map(|index| &line.points[*index]), across, up);
        self.markers(line.style, &marked.iter().map(|index| places[*index]).collect::<Vec<_>>());
        self.out.push_str("</g>");
    }

    fn whiskers<'a>(&mut self, points: impl Iterator<Item = &'a Point>, across: &Scale, up: &Scale) {
        let mut path = String::new();
        for point in points {
            let Some((low, high)) = point.span else { continue };
            let (x, low, high) = (across.at(point.x), up.at(low), up.at(high));
            if low - high > 1.0 {
                let _ = write!(path, "M{} {}V{}", short(x), short(low), short(high));
            }
        }
        if !path.is_empty() {
            let _ = write!(self.out, "<path class=\"whisker\" d=\"{path}\"/>");
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
                "<g class=\"s{}\"><rect class=\"bar\" x=\"{zero:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"/>",
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

    /// The words of a claim, and below them a hollow diamond for what was published and a dot with its interval for what
    /// was measured. A line marks the place where both servers are equal.
    fn claims(&mut self, x: &Axis, claims: &[Claim]) -> f64 {
        let bottom = 6.0 + CLAIM * claims.len() as f64;
        let ends =
            claims.iter().flat_map(|claim| [claim.published, claim.here, claim.span.0, claim.span.1, 1.0]);
        let across = Scale::over(x.spread, ends, (12.0, WIDTH - 20.0));
        let equal = across.at(1.0);
        self.axis(x, &across, bottom);
        for (index, claim) in claims.iter().enumerate() {
            let top = 4.0 + CLAIM * index as f64;
            let y = top + 28.0;
            self.text((2.0, top + 14.0), Anchor::Start, &claim.name);
            self.text((WIDTH - 2.0, top + 14.0), Anchor::End, &claim.label);
            let (low, high) = (across.at(claim.span.0), across.at(claim.span.1));
            let (here, published) = (across.at(claim.here), across.at(claim.published));
            let _ = write!(
                self.out,
                "<path class=\"equal\" d=\"M{} {}v18\"/><g class=\"s0\"><path class=\"line\" d=\"M{low:.1} {y}H{high:.1}\"/>\
                 <circle class=\"marker\" cx=\"{here:.1}\" cy=\"{y}\" r=\"5\"/></g>\
                 <path class=\"published\" d=\"M{published:.1} {}l6 6-6 6-6-6z\"/>",
                short(equal),
                y - 8.0,
                y - 6.0
            );
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
            let mut end = None;
            for (from, upto, height) in &row.steps {
                if end != Some(*from) {
                    let back = if end.is_some() { format!("V{}Z", short(base)) } else { String::new() };
                    let _ = write!(self.out, "{back}M{} {}", short(across.at(*from)), short(base));
                }
                let top = base - height * (ROW - 6.0);
                let _ = write!(self.out, "V{}H{}", short(top), short(across.at(*upto)));
                end = Some(*upto);
            }
            let _ = write!(self.out, "V{}Z\"/>", short(base));
        }
        bottom + BELOW
    }

    /// The axis across: its line, its labels and its title. Labels that would touch the one before are left out.
    fn axis(&mut self, axis: &Axis, scale: &Scale, bottom: f64) {
        let mut free = f64::NEG_INFINITY;
        let mut dents = String::new();
        for tick in scale.ticks() {
            let _ = write!(dents, "M{} {}v4", short(scale.at(tick)), short(bottom));
            let label = match axis.spread {
                Spread::Percentile => format::percentile(tick),
                _ => format::tick(tick),
            };
            let (x, half) = (scale.at(tick), DIGIT * label.chars().count() as f64 / 2.0);
            if x - half > free {
                self.text((x.min(WIDTH - half), bottom + 17.0), Anchor::Middle, &label);
                free = x + half + 6.0;
            }
        }
        let _ = write!(self.out, "<path class=\"rule\" d=\"{dents}\"/>");
        self.rule((scale.at(f64::MIN), bottom), (WIDTH - 8.0, bottom));
        self.title((WIDTH - 8.0, bottom + 36.0), Anchor::End, &axis.title);
    }

    fn rule(&mut self, from: (f64, f64), upto: (f64, f64)) {
        let _ = write!(self.out, "<path class=\"rule\" d=\"{}\"/>", polyline(&[from, upto]));
    }

    fn path(&mut self, style: usize, places: &[(f64, f64)]) {
        let (colour, dash, path) = (style % COLOURS, style % DASHES, polyline(places));
        let _ = write!(self.out, "<path class=\"line s{colour} d{dash}\" d=\"{path}\"/>");
    }

    fn markers(&mut self, style: usize, places: &[(f64, f64)]) {
        let path = polyline(places);
        let _ = write!(self.out, "<path class=\"points\" style=\"marker:url(#m{style})\" d=\"{path}\"/>");
    }

    fn text(&mut self, place: (f64, f64), anchor: Anchor, text: &str) {
        self.label(anchor.class(), place, text);
    }

    fn title(&mut self, place: (f64, f64), anchor: Anchor, text: &str) {
        self.label(&format!("axis {}", anchor.class()), place, text);
    }

    fn label(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (short(x), short(y), escape(text));
        let _ = write!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    }
}

fn polyline(places: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, (x, y)) in places.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if index == 0 { 'M' } else { 'L' }, short(*x), short(*y));
    }
    path
}

/// A place with one decimal, if it has any.
fn short(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The fewest of these places from which the line does not differ visibly (Ramer, Douglas and Peucker).
fn simplified(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Vec::new() };
    let (across, up) = (last.0 - first.0, last.1 - first.1);
    let length = across.hypot(up);
    let distance = |place: &(f64, f64)| match length {
        0.0 => (place.0 - first.0).hypot(place.1 - first.1),
        _ => (up * (place.0 - first.0) - across * (place.1 - first.1)).abs() / length,
    };
    let farthest = places.iter().map(distance).enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
    match farthest {
        Some((index, far)) if far > NEAR && index > 0 && index + 1 < places.len() => {
            let mut line = simplified(&places[..=index]);
            line.pop();
            line.extend(simplified(&places[index..]));
            line
        }
        _ if places.len() == 1 => vec![*first],
        _ => vec![*first, *last],
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
        assert_eq!(
            svg.split("\"whisker\"").nth(1).unwrap().split('>').next().unwrap().matches('V').count(),
            2
        );
        assert!(svg.contains("line s1 d1") && svg.contains("url(#m1)"), "colour, dash and marker: {svg}");
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
    fn lines_keep_their_corners_and_lose_what_is_not_seen() {
        let straight: Vec<(f64, f64)> =
            (0..100).map(|step| (f64::from(step), f64::from(step) / 2.0)).collect();
        assert_eq!(simplified(&straight), [straight[0], straight[99]]);
        let corner = [(0.0, 0.0), (5.0, 0.1), (10.0, 50.0), (20.0, 0.0)];
        assert_eq!(simplified(&corner), corner);
        let round = [(0.0, 0.0), (9.0, 9.0), (0.0, 0.0)];
        assert_eq!(simplified(&round), round);
        assert_eq!(simplified(&[(1.0, 2.0)]), [(1.0, 2.0)]);
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

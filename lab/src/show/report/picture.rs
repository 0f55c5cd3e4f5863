//! A chart as a separate file, for pages that show pictures: SVG with its own colours and legend, on white.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::chart::{Chart, Plot};
use super::document::{Document, Part, slug};
use super::html::{STYLE, escape};
use super::svg::{self, WIDTH};

/// Room around all.
const EDGE: f64 = 12.0;
/// A line of the title, and of the legend.
const LINE: f64 = 20.0;
/// What stands below the title of a picture of claims.
pub(super) const CLAIMS: &str = "✓ holds here   ✗ does not hold   ? undecided   line: 95 % interval";
/// Names side by side in the legend.
const COLUMNS: usize = 3;
/// What the page's style sheet says of charts begins with one of these.
const RULES: &[&str] = &[
    ".chart text",
    ".chart .axis",
    ".middle",
    ".end",
    ".points",
    ".d1",
    ".d2",
    ".d3",
    ".d4",
    ".rule",
    ".line",
    ".marker ",
    ".whisker",
    ".bar",
    ".hist",
    ".interval",
    ".published",
    ".equal",
];

/// All charts of the document: names of files with their content.
pub(super) fn all(document: &Document) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for section in &document.sections {
        of_parts(&section.id, &section.title, &section.parts, &mut files);
    }
    files
}

/// The charts of these parts and of what is folded within them, below a heading.
fn of_parts(section: &str, heading: &str, parts: &[Part], files: &mut Vec<(String, String)>) {
    let mut heading = heading;
    for part in parts {
        match part {
            Part::Heading(title) => heading = title,
            Part::Charts(charts) => files.extend(charts.iter().map(|chart| {
                let name = name(&format!("{section} {heading} {}", chart.title));
                (format!("chart-{name}.svg"), write(chart, heading))
            })),
            Part::Columns(columns) => {
                columns.iter().for_each(|parts| of_parts(section, heading, parts, files))
            }
            Part::Fold(title, parts) => of_parts(section, title, parts, files),
            _ => {}
        }
    }
}

fn name(words: &str) -> String {
    let slug = slug(words);
    slug.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Writes a chart below its title and a line that says of what it is.
fn write(chart: &Chart, of: &str) -> String {
    let (plot, height) = svg::plot(chart);
    let names = match chart.plot {
        Plot::Lines { .. } => chart.names(),
        // Their names stand next to them.
        Plot::Bars { .. } | Plot::Claims { .. } | Plot::Histograms { .. } => Vec::new(),
    };
    let above = EDGE + 2.0 * LINE + LINE * names.len().div_ceil(COLUMNS) as f64 + 6.0;
    let (width, height) = (WIDTH + 2.0 * EDGE, above + height + EDGE);
    let styles: BTreeSet<usize> = chart.names().into_iter().map(|(_, style)| style).collect();
    let of = if matches!(chart.plot, Plot::Claims { .. }) { CLAIMS } else { of };
    let (title, of, words) = (escape(&chart.title), escape(of), escape(&chart.words.join(". ")));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif\" \
         aria-labelledby=\"t d\">\n<title id=\"t\">{title}, {of}</title>\n<desc id=\"d\">{words}</desc>\n\
         <style>\n{}</style>\n{}\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n\
         <text x=\"{EDGE}\" y=\"{}\" font-weight=\"600\">{title}</text>\n<text class=\"axis\" x=\"{EDGE}\" y=\"{}\">{of}</text>\n\
         {}<g transform=\"translate({EDGE} {above})\">{plot}</g>\n</svg>\n",
        rules(),
        svg::definitions(styles.into_iter()),
        resolved("var(--page)"),
        EDGE + 12.0,
        EDGE + 12.0 + LINE,
        legend(&names),
    )
}

fn legend(names: &[(&str, usize)]) -> String {
    let mut out = String::new();
    for (index, (name, style)) in names.iter().enumerate() {
        let x = EDGE + (index % COLUMNS) as f64 * WIDTH / COLUMNS as f64;
        let y = EDGE + 2.0 * LINE + (index / COLUMNS) as f64 * LINE;
        let (line, name) = (svg::sample(*style), escape(name));
        let _ = writeln!(
            out,
            "<g transform=\"translate({x} {y})\">{line}<text x=\"36\" y=\"11.5\">{name}</text></g>"
        );
    }
    out
}

/// The page's rules for charts, with the colours of its light form.
fn rules() -> String {
    let mut out = String::new();
    let is_colour = |line: &str| line.starts_with(".s") && line.contains("{ --c:");
    for line in STYLE.lines() {
        if RULES.iter().any(|rule| line.starts_with(rule)) {
            let _ = writeln!(out, "{}", resolved(&line.replace("var(--c)", "currentColor")));
        } else if is_colour(line) {
            let _ = writeln!(out, "{}", resolved(&line.replace("--c:", "color:")));
        }
    }
    out
}

/// A rule with the values of the variables that it names.
fn resolved(rule: &str) -> String {
    let light =
        STYLE.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(light, _)| light);
    let values = light.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(": "));
    values.fold(rule.to_owned(), |rule, (name, value)| rule.replace(&format!("var(--{name})"), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::report::fixture;

    #[test]
    fn pictures_need_no_page() {
        let out = tempfile::tempdir().unwrap();
        let files = fixture::pictures(out.path());
        assert!(files.len() >= 20, "{}", files.len());
        let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), files.len(), "a name for each");
        assert!(
            names.iter().any(|name| *name
                == "chart-static-cores-7-bytes-kept-connections-1-core-requests-s-over-clients.svg"),
            "{names:?}"
        );
        for (name, svg) in &files {
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{name}");
            for foreign in ["var(", "--", "@media", "<a ", "<script", "href", "NaN"] {
                assert!(!svg.contains(foreign), "{name}: {foreign} in {svg}");
            }
        }
        let (_, lines) =
            files.iter().find(|(name, _)| name.ends_with("requests-s-over-clients.svg")).unwrap();
        assert!(
            lines.contains(".line { stroke: currentColor") && lines.contains(".s0 { color: #0061a8"),
            "{lines}"
        );
        assert!(lines.contains(">apache-prefork</text>"), "{lines}");
    }
}

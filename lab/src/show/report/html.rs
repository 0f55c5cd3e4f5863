//! The document as one HTML file. It needs no other file, and a policy in its head forbids the browser to
//! run or to fetch anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::chart::{Chart, Plot};
use super::document::{Badge, Document, Entry, Group, Part, Row, Section, Span, Table, Target, Text};
use super::picture::CLAIMS;
use super::svg;

/// The page's style sheet.
pub(super) const STYLE: &str = include_str!("style.css");
/// The section that the page begins with.
pub(super) const SHORT: &str = "short";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'";

/// Writes the document.
pub(super) fn write(document: &Document) -> String {
    let has_short = document.sections.iter().any(|section| section.id == SHORT);
    let mut page = Page { has_short, ..Page::default() };
    let title = escape(&document.title);
    let _ = write!(
        page.out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<header>\n<h1>{title}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
        escape(&document.lead)
    );
    page.contents(document);
    let charts = document.sections.iter().flat_map(|section| charts(&section.parts));
    let styles: BTreeSet<usize> = charts.flat_map(|chart| chart.names()).map(|(_, style)| style).collect();
    page.out.push_str(&svg::markers(styles.into_iter()));
    page.out.push_str("\n<main id=\"all\">\n");
    for section in &document.sections {
        page.section(section);
    }
    page.out.push_str("</main>\n</body>\n</html>\n");
    page.out
}

/// Text as it stands between tags and within quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Control characters are no part of HTML, and those that turn the direction of writing hide what is there.
            c if c.is_control()
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c) =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A path as it stands in a link (RFC 3986, section 3.3).
pub(super) fn link(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn charts(parts: &[Part]) -> Vec<&Chart> {
    let mut found = Vec::new();
    for part in parts {
        match part {
            Part::Charts(charts) => found.extend(charts),
            Part::Columns([left, right]) => found.extend(charts(left).into_iter().chain(charts(right))),
            Part::Fold(_, parts) => found.extend(charts(parts)),
            _ => {}
        }
    }
    found
}

#[derive(Default)]
struct Page {
    out: String,
    charts: usize,
    has_short: bool,
}

impl Page {
    /// The list of pages. The style sheet shows one section at a time, that to which the address leads, and all of them
    /// where it leads to the whole.
    fn contents(&mut self, document: &Document) {
        self.out.push_str("<nav aria-label=\"Pages\">\n");
        for (title, group) in [("Summary and evidence", Group::Overview), ("Experiments", Group::Experiment)]
        {
            let _ = writeln!(self.out, "<details><summary>{title}</summary><ul>");
            for section in document.sections.iter().filter(|section| section.group == group) {
                let (id, title) = (escape(&section.id), escape(&section.title));
                let _ = writeln!(self.out, "<li><a href=\"#{id}\">{title}</a></li>");
            }
            self.out.push_str("</ul></details>\n");
        }
        self.out.push_str("<a href=\"#all\">All on one page</a>\n</nav>\n");
    }

    fn section(&mut self, section: &Section) {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(self.out, "<section id=\"{id}\">\n<h2>{title}</h2>");
        self.parts(&section.parts);
        if self.has_short && section.id != SHORT {
            self.out.push_str("<p class=\"back\"><a href=\"#short\">Back to the summary</a></p>\n");
        }
        self.out.push_str("</section>\n");
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            self.part(part);
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Heading(title) => {
                let _ = writeln!(self.out, "<h3>{}</h3>", escape(title));
            }
            Part::Text(text) => self.tagged("<p>", text, "</p>\n"),
            Part::Note(text) => self.tagged("<p class=\"note\">", text, "</p>\n"),
            Part::List(items) => {
                self.out.push_str("<ul>\n");
                for item in items {
                    self.tagged("<li>", item, "</li>\n");
                }
                self.out.push_str("</ul>\n");
            }
            Part::Table(table) => self.table(table),
            Part::Charts(charts) => self.figures(charts),
            Part::Columns(columns) => {
                self.out.push_str("<div class=\"columns\">\n");
                for parts in columns {
                    self.out.push_str("<div>\n");
                    self.parts(parts);
                    self.out.push_str("</div>\n");
                }
                self.out.push_str("</div>\n");
            }
            Part::Fold(title, parts) => {
                let _ = write!(self.out, "<details><summary>{}</summary>\n<div>\n", escape(title));
                self.parts(parts);
                self.out.push_str("</div>\n</details>\n");
            }
            Part::Code(text) => {
                let _ = writeln!(self.out, "<pre tabindex=\"0\">{}</pre>", escape(text));
            }
        }
    }

    fn figures(&mut self, charts: &[Chart]) {
        // Bars and histograms have their names next to them.
        let names: BTreeMap<usize, &str> = charts
            .iter()
            .filter(|chart| matches!(chart.plot, Plot::Lines { .. }))
            .flat_map(Chart::names)
            .map(|(name, style)| (style, name))
            .collect();
        if !names.is_empty() {
            self.out.push_str("<ul class=\"legend\" aria-label=\"Legend\">");
            for (style, name) in names {
                let _ = write!(self.out, "<li>{}{}</li>", svg::key(style), escape(name));
            }
            self.out.push_str("</ul>\n");
        }
        self.out.push_str("<div class=\"charts\">\n");
        for chart in charts {
            self.charts += 1;
            let drawing = svg::draw(chart, &format!("c{}", self.charts));
            let key = match chart.plot {
                Plot::Claims { .. } => format!(" <small>{}</small>", escape(CLAIMS)),
                _ => String::new(),
            };
            let title = escape(&chart.title);
            let _ = writeln!(self.out, "<figure><figcaption>{title}{key}</figcaption>{drawing}</figure>");
        }
        self.out.push_str("</div>\n");
    }

    fn table(&mut self, table: &Table) {
        let caption = escape(&table.caption);
        let class = if is_stacked(table) { "wide stacked" } else { "wide" };
        let _ = write!(
            self.out,
            "<div class=\"{class}\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\n<caption><span>{caption}</span></caption>\n<thead><tr>"
        );
        for column in &table.columns {
            let class = if column.is_number { " class=\"n\"" } else { "" };
            let _ = write!(self.out, "<th scope=\"col\"{class}>{}</th>", escape(&column.title));
        }
        self.out.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            match row {
                Row::Group(title) => {
                    let (span, title) = (table.columns.len(), escape(title));
                    let _ = writeln!(
                        self.out,
                        "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{span}\"><span>{title}</span></th></tr>"
                    );
                }
                Row::Cells(cells) => self.row(table, cells),
            }
        }
        self.out.push_str("</tbody>\n</table></div>\n");
    }

    fn row(&mut self, table: &Table, cells: &[Entry]) {
        self.out.push_str("<tr>");
        for (index, entry) in cells.iter().enumerate() {
            let is_number = table.columns.get(index).is_some_and(|column| column.is_number);
            let class = match (is_number, entry.share) {
                (_, Some(share)) => {
                    let percent = (share.clamp(0.0, 1.0) * 100.0).round();
                    format!(" class=\"n share\" style=\"--share-width:{percent}%\"")
                }
                (true, None) => " class=\"n\"".into(),
                (false, None) => String::new(),
            };
            let tag = if index == 0 { "th scope=\"row\"" } else { "td" };
            self.tagged(&format!("<{tag}{class}>"), &entry.text, if index == 0 { "</th>" } else { "</td>" });
        }
        self.out.push_str("</tr>\n");
    }

    fn tagged(&mut self, before: &str, text: &Text, after: &str) {
        self.out.push_str(before);
        for span in &text.0 {
            self.span(span);
        }
        self.out.push_str(after);
    }

    fn span(&mut self, span: &Span) {
        let _ = match span {
            Span::Plain(words) => write!(self.out, "{}", escape(words)),
            Span::Strong(words) => write!(self.out, "<strong>{}</strong>", escape(words)),
            Span::Aside(words) => write!(self.out, " <small>{}</small>", escape(words)),
            Span::Code(words) => write!(self.out, "<code>{}</code>", escape(words)),
            Span::Link(words, target) => {
                write!(self.out, "<a href=\"{}\">{}</a>", address(target), escape(words))
            }
            Span::Badge(badge, words) => {
                let (class, words) = signed(*badge, words);
                write!(self.out, "<span class=\"badge {class}\">{words}</span>")
            }
            Span::BadgeLink(badge, words, target) => {
                let (class, words) = signed(*badge, words);
                write!(self.out, "<a class=\"badge {class}\" href=\"{}\">{words}</a>", address(target))
            }
            Span::Break => write!(self.out, "<br>"),
            Span::Anchor(id) => write!(self.out, "<a id=\"{}\"></a>", escape(id)),
        };
    }
}

/// Whether the cells of a row stand below each other on a narrow screen: a question and its answer, and what ends in a
/// verdict and its evidence. In columns the evidence would be far outside, and each row as high as it is long.
fn is_stacked(table: &Table) -> bool {
    if table.columns.len() == 2 && table.columns.iter().all(|column| !column.is_number) {
        return true;
    }
    let is_verdict = |entry: &Entry| entry.text.0.iter().any(|span| matches!(span, Span::Badge(..)));
    table
        .rows
        .iter()
        .any(|row| matches!(row, Row::Cells(cells) if matches!(&cells[..], [.., one, _] if is_verdict(one))))
}

fn address(target: &Target) -> String {
    match target {
        Target::Here(id) => format!("#{}", escape(id)),
        Target::File(path) => link(path),
    }
}

/// The class of a verdict, and its words after its sign.
fn signed(badge: Badge, words: &str) -> (&'static str, String) {
    let (class, sign) = match badge {
        Badge::Yes => ("yes", "✓"),
        Badge::No => ("no", "✗"),
        Badge::Undecided => ("undecided", "?"),
        Badge::Open => ("open", "–"),
    };
    (class, format!("<span aria-hidden=\"true\">{sign}</span> {}", escape(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_plain_becomes_markup() {
        let evil = "<script>alert(1)</script>\" onload='x' & \u{202e}\u{1b}[31m";
        let safe = escape(evil);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{202e}', '\u{1b}']), "{safe}");
        assert!(safe.contains("&lt;script&gt;") && safe.contains("&amp; "), "{safe}");
        assert_eq!(link("raw/a b\"<.txt"), "raw/a%20b%22%3C.txt");
        assert_eq!(link("javascript:x"), "javascript%3Ax");
    }

    #[test]
    fn every_kind_of_text_is_escaped() {
        let evil = || "<i>\"'&".to_string();
        let spans = vec![
            Span::Plain(evil()),
            Span::Strong(evil()),
            Span::Aside(evil()),
            Span::Code(evil()),
            Span::Link(evil(), Target::Here(evil())),
            Span::Link(evil(), Target::File(evil())),
            Span::Badge(Badge::No, evil()),
            Span::BadgeLink(Badge::Yes, evil(), Target::File(evil())),
            Span::Anchor(evil()),
        ];
        let mut table = Table::new(evil(), [evil()]);
        table.group(evil());
        table.row([Text(spans.clone())]);
        let parts = vec![
            Part::Heading(evil()),
            Part::Text(Text(spans.clone())),
            Part::Note(Text(spans.clone())),
            Part::List(vec![Text(spans)]),
            Part::Table(table),
            Part::Fold(evil(), vec![Part::Code(evil())]),
        ];
        let section = Section { id: evil(), title: evil(), parts, group: Group::Experiment };
        let html = write(&Document { title: evil(), lead: evil(), sections: vec![section] });
        assert!(!html.contains("<i>") && !html.contains("\"'&"), "{html}");
    }
}

//! The document as Markdown: the same words and tables; charts as the words that stand for them.

use std::fmt::Write;

use super::document::{Badge, Document, Part, Row, Section, Span, Table, Target, Text};
use super::html::link;

/// Writes the document.
pub(super) fn write(document: &Document) -> String {
    let mut out = format!("# {}\n\n{}\n", escape(&document.title), escape(&document.lead));
    for section in &document.sections {
        out.push_str(&self::section(section));
    }
    out
}

/// The texts and tables of a document without headings, folds and links within it, and with its first picture as
/// `short.svg` next to it.
pub(super) fn short(document: &Document) -> String {
    let mut out = String::new();
    let mut has_picture = false;
    for section in &document.sections {
        short_parts(&section.parts, &mut out, &mut has_picture);
    }
    out
}

fn short_parts(parts: &[Part], out: &mut String, has_picture: &mut bool) {
    for part in parts {
        match part {
            Part::Columns(columns) => {
                columns.iter().for_each(|column| short_parts(column, out, has_picture));
            }
            Part::Charts(charts) => {
                if let Some(chart) = charts.first().filter(|_| !*has_picture) {
                    let _ = write!(
                        out,
                        "\n![{}. {}](short.svg)\n",
                        escape(&chart.title),
                        escape(&chart.words.join(". "))
                    );
                    *has_picture = true;
                }
            }
            Part::Text(text) | Part::Note(text) => {
                let _ = writeln!(out, "\n{}", inline(&unlinked(text)).trim_end());
            }
            Part::List(items) => out.push_str(&self::part(&Part::List(items.iter().map(unlinked).collect()))),
            Part::Table(_) => out.push_str(&self::part(part)),
            Part::Heading(_) | Part::Fold(..) | Part::Code(_) => {}
        }
    }
}

/// A text up to its first link within the page: what follows says nothing without it.
fn unlinked(text: &Text) -> Text {
    let is_link = |span: &Span| matches!(span, Span::Link(_, Target::Here(_)));
    let end = text.0.iter().position(is_link).unwrap_or(text.0.len());
    Text(text.0[..end].to_vec())
}

/// Text in which no character is taken for markup, in one line.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_whitespace() => out.push(' '),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn section(section: &Section) -> String {
    let (id, title) = (super::html::escape(&section.id), escape(&section.title));
    format!("\n<a id=\"{id}\"></a>\n\n## {title}\n{}", parts(&section.parts))
}

fn parts(parts: &[Part]) -> String {
    parts.iter().map(part).collect()
}

fn part(part: &Part) -> String {
    match part {
        Part::Heading(title) => format!("\n### {}\n", escape(title)),
        Part::Text(text) => format!("\n{}\n", inline(text)),
        Part::Note(text) => format!("\n> {}\n", inline(text)),
        Part::List(items) => {
            let items: String = items.iter().map(|item| format!("- {}\n", inline(item))).collect();
            format!("\n{items}")
        }
        Part::Table(table) => self::table(table),
        Part::Charts(charts) => charts
            .iter()
            .map(|chart| {
                let words: String =
                    chart.words.iter().map(|words| format!("- {}\n", escape(words))).collect();
                format!("\nChart: **{}**\n\n{words}", escape(&chart.title))
            })
            .collect(),
        Part::Columns(columns) => columns.iter().map(|column| parts(column)).collect(),
        Part::Fold(title, parts) => {
            let title = super::html::escape(title);
            format!("\n<details><summary>{title}</summary>\n{}\n</details>\n", self::parts(parts))
        }
        Part::Code(text) => code(text),
    }
}

/// A block between fences that are longer than any within it.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let printable = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    let text: String = text.trim_end().chars().map(printable).collect();
    format!("\n{fence}text\n{text}\n{fence}\n")
}

fn table(table: &Table) -> String {
    let mut out = format!("\n**{}**\n\n|", escape(&table.caption));
    for column in &table.columns {
        let _ = write!(out, " {} |", escape(&column.title));
    }
    out.push_str("\n|");
    for column in &table.columns {
        out.push_str(if column.is_number { " ---: |" } else { " --- |" });
    }
    out.push('\n');
    for row in &table.rows {
        match row {
            Row::Group(title) => {
                let _ = writeln!(
                    out,
                    "| **{}** |{}",
                    escape(title),
                    " |".repeat(table.columns.len().saturating_sub(1))
                );
            }
            Row::Cells(cells) => {
                let cells: Vec<String> = cells.iter().map(|cell| inline(&cell.text)).collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
        }
    }
    out
}

fn inline(text: &Text) -> String {
    text.0.iter().map(span).collect()
}

fn span(span: &Span) -> String {
    match span {
        Span::Plain(words) => escape(words),
        Span::Strong(words) => strong(words),
        Span::Aside(words) => format!(" [{}]", escape(words)).replace('[', "\\[").replace(']', "\\]"),
        Span::Code(words) => format!("<code>{}</code>", escape(words)),
        Span::Link(words, target) => format!("[{}]({})", escape(words), address(target)),
        Span::Badge(badge, words) => signed(*badge, words),
        Span::BadgeLink(badge, words, target) => format!("[{}]({})", signed(*badge, words), address(target)),
        Span::Break => "<br>".into(),
        Span::Anchor(id) => format!("<a id=\"{}\"></a>", super::html::escape(id)),
    }
}

/// Words between stars; a space before the closing ones would make them stars like any other.
fn strong(words: &str) -> String {
    let core = words.trim_end();
    format!("**{}**{}", escape(core), escape(&words[core.len()..]))
}

fn address(target: &Target) -> String {
    match target {
        Target::Here(id) => format!("#{}", link(id)),
        Target::File(path) => link(path),
    }
}

fn signed(badge: Badge, words: &str) -> String {
    let sign = match badge {
        Badge::Yes => "✓",
        Badge::No => "✗",
        Badge::Undecided => "?",
        Badge::Open => "–",
    };
    format!("{sign} {}", escape(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_plain_becomes_markup() {
        assert_eq!(escape("a|b\n<i>`*_[x](y)"), "a\\|b &lt;i&gt;\\`\\*\\_\\[x\\](y)");
        let block = code("```\n</details>\n````\n");
        assert!(block.starts_with("\n`````text\n") && block.ends_with("\n`````\n"), "{block}");
    }

    #[test]
    fn stress_has_no_space_inside() {
        assert_eq!(inline(&Text::default().stress("Who: ").say("*")), "**Who:** \\*");
    }

    #[test]
    fn tables_keep_their_columns() {
        let mut table = Table::new("C", ["a", "#b"]);
        table.group("g|h");
        table.row(["x|y", "1"]);
        let text = self::table(&table);
        assert_eq!(text, "\n**C**\n\n| a | b |\n| --- | ---: |\n| **g\\|h** | |\n| x\\|y | 1 |\n");
    }
}

//! The document without what belongs to the machine that it was written on: it can be read where the folder of results
//! is not.

use std::env;
use std::path::{Component, Path, PathBuf};

use super::document::{Document, Entry, Part, Row, Section, Span, Table, Target, Text};

/// Folders of people and of passing files, on every machine.
const OWN: &[&str] = &["home", "root", "tmp", "Users", "mnt", "media", "srv"];

/// Where this machine keeps what is its own: the first folders of such paths.
pub(super) struct Folders(Vec<String>);

impl Folders {
    /// Those of every machine, and those on which this program, its folder and the results lie.
    pub(super) fn of(out: &Path) -> Folders {
        let known =
            [env::current_dir().ok(), env::current_exe().ok(), env::var_os("HOME").map(PathBuf::from)];
        let out = out.canonicalize().ok();
        let first = |path: PathBuf| match path.components().nth(1) {
            Some(Component::Normal(name)) => name.to_str().map(str::to_owned),
            _ => None,
        };
        let own = known.into_iter().chain([out]).flatten().filter_map(first).filter(|name| name != "usr");
        Folders(OWN.iter().map(|name| (*name).to_owned()).chain(own).collect())
    }

    /// The document without links to files and with nothing but the last name of each path of this machine.
    pub(super) fn left_out_of(&self, document: Document) -> Document {
        let section = |section: Section| Section { parts: self.parts(section.parts), ..section };
        Document {
            title: document.title,
            lead: self.words(&document.lead),
            sections: document.sections.into_iter().map(section).collect(),
        }
    }

    fn parts(&self, parts: Vec<Part>) -> Vec<Part> {
        parts.into_iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: Part) -> Part {
        match part {
            Part::Heading(words) => Part::Heading(self.words(&words)),
            Part::Text(text) => Part::Text(self.text(text)),
            Part::Note(text) => Part::Note(self.text(text)),
            Part::List(items) => Part::List(items.into_iter().map(|item| self.text(item)).collect()),
            Part::Table(table) => Part::Table(self.table(table)),
            Part::Charts(charts) => Part::Charts(charts),
            Part::Columns(columns) => Part::Columns(columns.map(|parts| self.parts(parts))),
            Part::Fold(title, parts) => Part::Fold(title, self.parts(parts)),
            Part::Code(text) => Part::Code(self.words(&text)),
        }
    }

    fn table(&self, table: Table) -> Table {
        let row = |row: Row| match row {
            Row::Group(title) => Row::Group(self.words(&title)),
            Row::Cells(cells) => Row::Cells(
                cells.into_iter().map(|cell| Entry { text: self.text(cell.text), ..cell }).collect(),
            ),
        };
        Table { rows: table.rows.into_iter().map(row).collect(), ..table }
    }

    fn text(&self, text: Text) -> Text {
        Text(text.0.into_iter().map(|span| self.span(span)).collect())
    }

    fn span(&self, span: Span) -> Span {
        match span {
            Span::Plain(words) | Span::Link(words, Target::File(_)) => Span::Plain(self.words(&words)),
            Span::Strong(words) => Span::Strong(self.words(&words)),
            Span::Aside(words) => Span::Aside(self.words(&words)),
            Span::Code(words) => Span::Code(self.words(&words)),
            Span::Badge(badge, words) | Span::BadgeLink(badge, words, Target::File(_)) => {
                Span::Badge(badge, words)
            }
            span @ (Span::Link(..) | Span::BadgeLink(..) | Span::Anchor(_) | Span::Break) => span,
        }
    }

    /// Words in which each path of this machine is its last name.
    fn words(&self, words: &str) -> String {
        let mut out = String::with_capacity(words.len());
        let mut rest = words;
        while let Some(place) = self.find(rest) {
            let (before, path) = rest.split_at(place);
            let end =
                path.find(|c: char| c.is_whitespace() || "\"'`,;:)]}>|".contains(c)).unwrap_or(path.len());
            let (path, behind) = path.split_at(end);
            out.push_str(before);
            out.push_str(path.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
            rest = behind;
        }
        out + rest
    }

    /// Where a path of this machine begins: not within a word or an address.
    fn find(&self, words: &str) -> Option<usize> {
        let begins = |place: &usize| {
            let before = words[..*place].chars().next_back();
            let rest = &words[place + 1..];
            let name = rest.split('/').next().unwrap_or_default();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-/~".contains(c))
                && name.len() < rest.len()
                && self.0.iter().any(|own| own == name)
        };
        words.match_indices('/').map(|(place, _)| place).find(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_machine_are_named_by_their_end() {
        let folders = Folders(vec!["srv".into(), "build".into()]);
        for (words, left) in [
            ("no paths / here", "no paths / here"),
            ("/srv/me/lab/tool -c 1 /build/x/plan.jmx", "tool -c 1 plan.jmx"),
            ("config=/build/a/b.conf: line 3", "config=b.conf: line 3"),
            ("'/srv/me/a b'", "'a b'"),
            ("starting \"/build/run/\" failed", "starting \"run\" failed"),
            ("http://127.0.0.1:80/srv/page", "http://127.0.0.1:80/srv/page"),
            ("/usr/bin/wrk /1k.html /srv", "/usr/bin/wrk /1k.html /srv"),
            ("a/srv/b", "a/srv/b"),
        ] {
            assert_eq!(folders.words(words), left);
        }
    }

    #[test]
    fn the_folder_of_results_is_not_named() {
        let out = tempfile::tempdir().unwrap();
        let folders = Folders::of(out.path());
        let words = format!("reading {}/run/nginx.conf", out.path().display());
        assert_eq!(folders.words(&words), "reading nginx.conf");
    }
}

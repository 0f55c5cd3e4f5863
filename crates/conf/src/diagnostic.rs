//! What the reader sees: a message in the shape that tools parse, then an excerpt and a hint for people.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::excerpt;
use crate::source::{Sources, Span};
use crate::tree::printable;

/// How many further places are named, and not only counted.
const PLACES_MAX: usize = 3;

/// How bad it is, in the names of the error log, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The configuration cannot be used.
    Emerg,
    /// Act at once.
    Alert,
    /// Critical.
    Crit,
    /// An error that leaves the configuration usable.
    Error,
    /// Probably not what was meant.
    Warn,
    /// Worth knowing.
    Notice,
    /// For information.
    Info,
    /// For developers.
    Debug,
}

impl Level {
    /// All levels, the worst first.
    pub const ALL: [Level; 8] = [
        Level::Emerg,
        Level::Alert,
        Level::Crit,
        Level::Error,
        Level::Warn,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    /// The name in brackets at the beginning of a line.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Emerg => "emerg",
            Level::Alert => "alert",
            Level::Crit => "crit",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing to tell about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// One sentence without a full stop and without the place.
    pub message: String,
    /// The place, if there is one.
    pub span: Option<Span>,
    /// Where else there is the same to tell.
    pub more: Vec<Span>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A message of a given level.
    pub fn new(level: Level, message: impl Into<String>) -> Diagnostic {
        Diagnostic { level, message: message.into(), span: None, more: Vec::new(), hint: None }
    }

    /// A message that makes the configuration unusable.
    pub fn emerg(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Level::Emerg, message)
    }

    /// Whether the message makes the configuration unusable.
    pub fn is_error(&self) -> bool {
        self.level == Level::Emerg
    }

    /// A message about what is probably not meant.
    pub fn warn(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Level::Warn, message)
    }

    /// A message worth knowing.
    pub fn notice(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Level::Notice, message)
    }

    /// Names the place; for a directive this is `node.span`.
    #[must_use]
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// Puts the caret under a part of the place, whose line number stays the one that is named.
    #[must_use]
    pub fn under(mut self, part: Span) -> Diagnostic {
        self.span = Some(self.span.map_or(part, |span| span.narrowed_to(part)));
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds `did you mean "…"?` if a candidate is near to what was written.
    #[must_use]
    pub fn hint_near<'a>(self, written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match suggest(written, candidates) {
            Some(near) => self.hint(format!("did you mean \"{near}\"?")),
            None => self,
        }
    }

    /// The first line: `program: [emerg] message in FILE:LINE`.
    pub fn headline(&self, sources: &Sources, program: &str) -> String {
        let Diagnostic { level, message, .. } = self;
        match self.span {
            None => format!("{program}: [{level}] {message}"),
            Some(span) => format!("{program}: [{level}] {message} in {}", place(span, sources)),
        }
    }

    /// The headline for a log, where nothing stands below it.
    pub fn line(&self, sources: &Sources, program: &str) -> String {
        let headline = self.headline(sources, program);
        match self.more.len() {
            0 => headline,
            count => format!("{headline} and in {}", places(count)),
        }
    }
}

/// The same things to tell, those that differ in their place only put together: at the first of the places, in the
/// order of these.
pub fn grouped(told: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut groups: Vec<Diagnostic> = Vec::new();
    let mut known = HashMap::new();
    for one in told {
        let key = (one.level, one.message.clone(), one.hint.clone());
        let index = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
            None => groups.push(one),
            // What stands around many servers is one place.
            Some(group) => group.more.extend(one.span.filter(|place| group.span != Some(*place))),
        }
    }
    for group in &mut groups {
        let mut seen = HashSet::new();
        group.more.retain(|place| seen.insert(*place));
    }
    groups
}

fn place(span: Span, sources: &Sources) -> String {
    if sources.is_command_line(span.file) {
        return "command line".to_owned();
    }
    let path = printable(sources.path(span.file).as_os_str().as_encoded_bytes());
    format!("{path}:{}", span.line)
}

fn places(count: usize) -> String {
    format!("{count} more {}", if count == 1 { "place" } else { "places" })
}

/// `also in` the further places, the first of them by name.
fn write_more(more: &[Span], sources: &Sources, out: &mut String) {
    let (named, rest) = more.split_at(more.len().min(PLACES_MAX));
    let named: Vec<_> = named.iter().map(|span| place(*span, sources)).collect();
    out.push_str("  also in ");
    out.push_str(&named.join(", "));
    if !rest.is_empty() {
        out.push_str(" and in ");
        out.push_str(&places(rest.len()));
    }
    out.push('\n');
}

/// The whole message: the headline, the line it is about with a caret, and the hint. Ends with a newline.
pub fn render(diagnostic: &Diagnostic, sources: &Sources, program: &str) -> String {
    let mut out = diagnostic.headline(sources, program);
    out.push('\n');
    if let Some(span) = diagnostic.span {
        excerpt::write(sources.text(span.file), span, &mut out);
    }
    if !diagnostic.more.is_empty() {
        write_more(&diagnostic.more, sources, &mut out);
    }
    if let Some(hint) = &diagnostic.hint {
        out.push_str("  hint: ");
        out.push_str(hint);
        out.push('\n');
    }
    out
}

/// The candidate nearest to what was written, if one is near enough to be meant. Two neighbouring letters
/// that changed places count as one slip.
pub fn suggest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const SLIPS_MAX: usize = 3;
    let allowed = (written.len() / 3).clamp(1, SLIPS_MAX);
    let lower = written.to_ascii_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(lower.len()) <= allowed && *candidate != written)
        .map(|candidate| (slips(lower.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(count, _)| *count <= allowed)
        .min_by_key(|(count, _)| *count)
        .map(|(_, candidate)| candidate)
}

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn slips(a: &[u8], b: &[u8]) -> usize {
    let width = b.len() + 1;
    let mut before_last = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut row = vec![0; width];
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..width {
            let same = a[i - 1] == b[j - 1];
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(!same));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row[j] = best;
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, load, parse_bytes};
    use std::path::Path;

    const NAMES: [&str; 5] = ["listen", "worker_processes", "worker_connections", "server", "server_name"];

    #[test]
    fn near_names_are_suggested() {
        for (written, expected) in [
            ("lisen", Some("listen")),
            ("litsen", Some("listen")),
            ("LISTEN", Some("listen")),
            ("worker_process", Some("worker_processes")),
            ("worker_conections", Some("worker_connections")),
            ("servername", Some("server_name")),
            ("serve", Some("server")),
            ("listen", None),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(suggest(written, NAMES), expected, "{written}");
        }
    }

    #[test]
    fn slips_count_letters_and_swaps() {
        for (a, b, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abcd", "badc", 2),
            ("ca", "abc", 3),
        ] {
            assert_eq!(slips(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_message_has_a_headline_an_excerpt_and_a_hint() {
        let loaded = parse_bytes(b"http {\n\tserver {\n\t\tlisen\n80;\n");
        let node = &loaded.nodes[0].children()[0].children()[0];
        let error = crate::spec::unknown_directive(node, NAMES);
        assert_eq!(
            render(&error, &loaded.sources, "fulmar"),
            "fulmar: [emerg] unknown directive \"lisen\" in /fulmar.conf:4\n  \
             3 | \t\tlisen\n    | \t\t^^^^^\n  hint: did you mean \"listen\"?\n"
        );
    }

    #[test]
    fn a_message_without_a_place_is_one_line() {
        let sources = Sources::default();
        let error = Diagnostic::emerg("no \"events\" section in configuration");
        assert_eq!(render(&error, &sources, "x"), "x: [emerg] no \"events\" section in configuration\n");
        assert_eq!(render(&Diagnostic::warn("w"), &sources, "x"), "x: [warn] w\n");
        assert_eq!(render(&Diagnostic::notice("n"), &sources, "x"), "x: [notice] n\n");
    }

    #[test]
    fn what_is_the_same_is_told_once_with_all_places() {
        let text = b"a;\na;\nb;\na;\na;\na;\na;\n";
        let loaded = parse_bytes(text);
        let tell = |node: &crate::Node| Diagnostic::warn(format!("m {}", node.name)).at(node.span);
        let mut told: Vec<_> = loaded.nodes.iter().map(tell).collect();
        told.extend([told[0].clone(), told[1].clone(), told[2].clone().hint("other")]);
        let groups = grouped(told);
        let counts: Vec<_> = groups.iter().map(|group| (group.message.as_str(), group.more.len())).collect();
        assert_eq!(counts, [("m a", 5), ("m b", 0), ("m b", 0)]);
        let lines = "/fulmar.conf:2, /fulmar.conf:4, /fulmar.conf:5 and in 2 more places\n";
        assert_eq!(render(&groups[0], &loaded.sources, "x"), {
            format!("x: [warn] m a in /fulmar.conf:1\n  1 | a;\n    | ^\n  also in {lines}")
        });
        let line = groups[0].line(&loaded.sources, "x");
        assert_eq!(line, "x: [warn] m a in /fulmar.conf:1 and in 5 more places");
        assert_eq!(groups[1].line(&loaded.sources, "x"), "x: [warn] m b in /fulmar.conf:3");
    }

    #[test]
    fn a_part_keeps_the_line_of_the_whole() {
        let loaded = load(&Memory::default().with("/x", "a\nb\n;"), Path::new("/x"), None);
        let node = &loaded.nodes[0];
        let error = Diagnostic::emerg("m").at(node.span).under(node.args[0].span);
        assert_eq!(render(&error, &loaded.sources, "x"), "x: [emerg] m in /x:3\n  2 | b\n    | ^\n");
    }
}

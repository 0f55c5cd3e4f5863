//! The catalogue's tables: a row a line, fields between tabs, `#` before a note.

use super::{Entry, Parameter, Values, Verdict};
use crate::spec::{Arity, Contexts, Shape};

/// Directives, a file an area.
pub(super) const AREAS: [&str; 4] = [
    include_str!("core.tsv"),
    include_str!("http.tsv"),
    include_str!("stream.tsv"),
    include_str!("mail.tsv"),
];
/// Parameters of directives.
pub(super) const PARAMETERS: &str = include_str!("parameters.tsv");
/// Directives that are not nginx's own.
pub(super) const FOREIGN: &str = include_str!("foreign.tsv");
/// Variables of features.
pub(super) const VARIABLES: &str = include_str!("variables.tsv");
/// Files of modules.
pub(super) const LOADABLE: &str = include_str!("loadable.tsv");

/// The rows of a table.
pub(super) fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a row of an area; `None` where it is malformed, which a test looks for.
pub(super) fn entry(row: &'static str) -> Option<Entry> {
    let mut fields = row.split('\t');
    let (name, module) = (fields.next()?, fields.next()?);
    let contexts = contexts(fields.next()?)?;
    let (shape, values) = form(fields.next()?)?;
    let idle = fields.next().filter(|text| *text != "-");
    let verdict = verdict(&mut fields)?;
    Some(Entry { name, module, contexts, shape, values, idle, verdict })
}

/// Reads a row of the parameters.
pub(super) fn parameter(row: &'static str) -> Option<Parameter> {
    let mut fields = row.split('\t');
    let (directive, name) = (fields.next()?, fields.next()?);
    Some(Parameter { directive, name, verdict: verdict(&mut fields)? })
}

fn verdict(fields: &mut impl Iterator<Item = &'static str>) -> Option<Verdict> {
    let (kind, text, instead) = (fields.next()?, fields.next()?, fields.next());
    match (kind, instead) {
        ("accepted", None) => Some(Verdict::Accepted(text)),
        ("companion", None) => Some(Verdict::Companion(text)),
        ("harmless", None) => Some(Verdict::Harmless(text)),
        ("answers-501", None) => Some(Verdict::Answers501(text)),
        ("pending", Some(instead)) => Some(Verdict::Pending { why: text, instead }),
        ("refused", Some(instead)) => Some(Verdict::Refused { why: text, instead }),
        _ => None,
    }
}

fn contexts(list: &str) -> Option<Contexts> {
    list.split(',').try_fold(Contexts::EMPTY, |all, name| Some(all.or(context(name)?)))
}

fn context(name: &str) -> Option<Contexts> {
    Some(match name {
        "any" => Contexts::ANY,
        "main" => Contexts::MAIN,
        "events" => Contexts::EVENTS,
        "http" => Contexts::HTTP,
        "server" => Contexts::SERVER,
        "location" => Contexts::LOCATION,
        "server-if" => Contexts::SERVER_IF,
        "location-if" => Contexts::LOCATION_IF,
        "limit_except" => Contexts::LIMIT_EXCEPT,
        "upstream" => Contexts::UPSTREAM,
        "stream" => Contexts::STREAM,
        "stream-server" => Contexts::STREAM_SERVER,
        "stream-upstream" => Contexts::STREAM_UPSTREAM,
        "mail" => Contexts::MAIL,
        "mail-server" => Contexts::MAIL_SERVER,
        _ => return None,
    })
}

/// A shape; after a colon, the kind of its words, if they are checked here.
fn form(text: &str) -> Option<(Shape, Values)> {
    match text.split_once(':') {
        Some((text, values)) => Some((shape(text)?, Values::named(values)?)),
        None => Some((shape(text)?, Values::Any)),
    }
}

/// `flag`, `2`, `1-3` or `1+`, after `{}` where a block follows.
fn shape(text: &str) -> Option<Shape> {
    match text.strip_prefix("{} ") {
        Some(count) => Some(Shape::block(arity(count)?)),
        None => Some(Shape::simple(arity(text)?)),
    }
}

fn arity(text: &str) -> Option<Arity> {
    if let Some(least) = text.strip_suffix('+') {
        return Some(Arity::AtLeast(least.parse().ok()?));
    }
    if let Some((least, most)) = text.split_once('-') {
        return Some(Arity::Range(least.parse().ok()?, most.parse().ok()?));
    }
    match text {
        "flag" => Some(Arity::Flag),
        "0" => Some(Arity::None),
        count => Some(Arity::Exactly(count.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape("flag"), Some(Shape::simple(Arity::Flag)));
        assert_eq!(shape("{} 1+"), Some(Shape::block(Arity::AtLeast(1))));
        assert_eq!(shape("2-3"), Some(Shape::simple(Arity::Range(2, 3))));
        assert_eq!(shape("many"), None);
        assert_eq!(form("1:size"), Some((Shape::simple(Arity::Exactly(1)), Values::Size)));
        assert_eq!(form("1:colour"), None);
    }

    #[test]
    fn malformed_rows_are_noticed() {
        assert!(entry("daemon\tcore\tmain\tflag\t-\taccepted\twhy not").is_some());
        assert!(entry("daemon\tcore\tmain\tflag\t-\taccepted").is_none());
        assert!(entry("daemon\tcore\tmain\tflag\t-\tpending\tonly why").is_none());
        assert!(entry("daemon\tcore\tnowhere\tflag\t-\taccepted\twhy not").is_none());
    }
}

//! What a directive looks like, as data: where it may stand, how many words it takes, whether it has a block.

use std::fmt;

use crate::diagnostic::Diagnostic;
use crate::tree::Node;

/// A set of places where a directive may stand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Contexts(u32);

impl Contexts {
    /// Nowhere.
    pub const EMPTY: Contexts = Contexts(0);
    /// The top of the file.
    pub const MAIN: Contexts = Contexts(1);
    /// `events {}`.
    pub const EVENTS: Contexts = Contexts(1 << 1);
    /// `http {}`.
    pub const HTTP: Contexts = Contexts(1 << 2);
    /// `server {}` within `http`.
    pub const SERVER: Contexts = Contexts(1 << 3);
    /// `location {}`.
    pub const LOCATION: Contexts = Contexts(1 << 4);
    /// `if {}` within a server.
    pub const SERVER_IF: Contexts = Contexts(1 << 5);
    /// `if {}` within a location.
    pub const LOCATION_IF: Contexts = Contexts(1 << 6);
    /// `limit_except {}`.
    pub const LIMIT_EXCEPT: Contexts = Contexts(1 << 7);
    /// `upstream {}` within `http`.
    pub const UPSTREAM: Contexts = Contexts(1 << 8);
    /// `stream {}`.
    pub const STREAM: Contexts = Contexts(1 << 9);
    /// `server {}` within `stream`.
    pub const STREAM_SERVER: Contexts = Contexts(1 << 10);
    /// `upstream {}` within `stream`.
    pub const STREAM_UPSTREAM: Contexts = Contexts(1 << 11);
    /// `mail {}`.
    pub const MAIL: Contexts = Contexts(1 << 12);
    /// `server {}` within `mail`.
    pub const MAIL_SERVER: Contexts = Contexts(1 << 13);
    /// `stream {}` and the servers in it.
    pub const ALL_STREAM: Contexts = Contexts::STREAM.or(Contexts::STREAM_SERVER);
    /// A `.htaccess` file.
    pub const HTACCESS: Contexts = Contexts(1 << 14);
    /// The top of Apache's main configuration, for what concerns the processes.
    pub const HTTPD: Contexts = Contexts(1 << 15);
    /// The same for what concerns requests, and `<VirtualHost>`.
    pub const VIRTUAL_HOST: Contexts = Contexts(1 << 16);
    /// `<Directory>` and its siblings in Apache's main configuration.
    pub const DIRECTORY: Contexts = Contexts(1 << 17);
    /// Apache's levels for the files of a directory. They are part of the level of a location, and lie over it.
    pub const PER_DIRECTORY: Contexts = Contexts::HTACCESS.or(Contexts::DIRECTORY);
    /// Apache's main configuration outside of directories.
    pub const ALL_HTTPD: Contexts = Contexts::HTTPD.or(Contexts::VIRTUAL_HOST);
    /// All levels of Apache's language.
    pub const ALL_APACHE: Contexts = Contexts::PER_DIRECTORY.or(Contexts::ALL_HTTPD);
    /// Everywhere.
    pub const ANY: Contexts = Contexts((1 << 18) - 1);

    const NAMES: [(Contexts, &'static str); 18] = [
        (Contexts::MAIN, "main"),
        (Contexts::EVENTS, "events"),
        (Contexts::HTTP, "http"),
        (Contexts::SERVER, "server"),
        (Contexts::LOCATION, "location"),
        (Contexts::SERVER_IF, "if in server"),
        (Contexts::LOCATION_IF, "if in location"),
        (Contexts::LIMIT_EXCEPT, "limit_except"),
        (Contexts::UPSTREAM, "upstream"),
        (Contexts::STREAM, "stream"),
        (Contexts::STREAM_SERVER, "server in stream"),
        (Contexts::STREAM_UPSTREAM, "upstream in stream"),
        (Contexts::MAIL, "mail"),
        (Contexts::MAIL_SERVER, "server in mail"),
        (Contexts::HTACCESS, ".htaccess"),
        (Contexts::HTTPD, "httpd.conf"),
        (Contexts::VIRTUAL_HOST, "virtual host"),
        (Contexts::DIRECTORY, "directory"),
    ];

    /// The places of both.
    #[must_use]
    pub const fn or(self, other: Contexts) -> Contexts {
        Contexts(self.0 | other.0)
    }

    /// The places that both have.
    #[must_use]
    pub const fn and(self, other: Contexts) -> Contexts {
        Contexts(self.0 & other.0)
    }

    /// The places of this set that the other one does not have.
    #[must_use]
    pub const fn without(self, other: Contexts) -> Contexts {
        Contexts(self.0 & !other.0)
    }

    /// Whether every place of `other` is in this set.
    pub const fn contains(self, other: Contexts) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets share a place.
    pub const fn intersects(self, other: Contexts) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether this is a level for the files of a directory.
    pub const fn is_per_directory(self) -> bool {
        self.intersects(Contexts::PER_DIRECTORY)
    }

    /// Whether there is no place in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The places by name, as messages and the manual show them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let here = move |(context, _): &(Contexts, &'static str)| self.contains(*context);
        Contexts::NAMES.into_iter().filter(here).map(|(_, name)| name)
    }
}

/// The names, with commas.
impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contexts({self})")
    }
}

/// How many arguments a directive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// `on` or `off`.
    Flag,
    /// None.
    None,
    /// This many.
    Exactly(usize),
    /// From the first to the second, both included.
    Range(usize, usize),
    /// This many or more.
    AtLeast(usize),
    /// One of these numbers.
    OneOf(&'static [usize]),
    /// Any number, which its own code judges.
    Any,
}

impl Arity {
    /// Whether this number of arguments is right.
    pub fn admits(self, count: usize) -> bool {
        match self {
            Arity::Flag => count == 1,
            Arity::None => count == 0,
            Arity::Exactly(n) => count == n,
            Arity::Range(least, most) => (least..=most).contains(&count),
            Arity::AtLeast(n) => count >= n,
            Arity::OneOf(numbers) => numbers.contains(&count),
            Arity::Any => true,
        }
    }
}

impl fmt::Display for Arity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arity::Flag => f.write_str("1, which is on or off"),
            Arity::None => f.write_str("0"),
            Arity::Exactly(count) => write!(f, "{count}"),
            Arity::Range(least, most) => write!(f, "{least} to {most}"),
            Arity::AtLeast(least) => write!(f, "{least} or more"),
            Arity::OneOf(counts) => {
                f.write_str(&counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" or "))
            }
            Arity::Any => f.write_str("any number"),
        }
    }
}

/// What takes the place of each word of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of arguments.
    pub arity: Arity,
    /// Whether a block follows, instead of `;`.
    pub block: bool,
}

impl Shape {
    /// A directive that `;` ends.
    pub const fn simple(arity: Arity) -> Shape {
        Shape { arity, block: false }
    }

    /// A directive with a block.
    pub const fn block(arity: Arity) -> Shape {
        Shape { arity, block: true }
    }

    /// Whether a directive is written in this shape.
    ///
    /// # Errors
    /// nginx's message about the first thing that is wrong, in nginx's order.
    pub fn check(self, node: &Node) -> Result<(), Diagnostic> {
        let name = &node.name;
        let message = match &node.block {
            Some(_) if !self.block => format!("directive \"{name}\" is not terminated by \";\""),
            None if self.block => format!("directive \"{name}\" has no opening \"{{\""),
            _ if !self.arity.admits(node.args.len()) => {
                let error = format!("invalid number of arguments in \"{name}\" directive");
                let hint = format!("it takes this number of arguments: {}", self.arity);
                return Err(Diagnostic::emerg(error).at(node.span).hint(hint));
            }
            _ => return self.check_flag(node),
        };
        Err(Diagnostic::emerg(message).at(node.span))
    }

    fn check_flag(self, node: &Node) -> Result<(), Diagnostic> {
        match (self.arity, node.arg(0)) {
            (Arity::Flag, Some(word)) => {
                crate::value::flag(word).map(|_| ()).map_err(|error| error.at(node, word))
            }
            _ => Ok(()),
        }
    }
}

/// The message about a name that no directive has, with the nearest of `known` as a hint.
pub fn unknown_directive<'a>(node: &Node, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
    let error = Diagnostic::emerg(format!("unknown directive \"{}\"", node.name)).at(node.span);
    error.under(node.name.span).hint_near(&node.name.to_string(), known)
}

/// Adds a hint to the error of a directive that has swallowed the next line, because its `;` is missing: one of its
/// arguments begins a line, and is the name of a directive.
pub fn hint_missing_semicolon(error: Diagnostic, node: &Node, is_name: impl Fn(&str) -> bool) -> Diagnostic {
    let mut line = node.name.span.line;
    for word in &node.args {
        if word.span.line > line && !word.quoted && word.as_str().is_some_and(&is_name) {
            return error.hint(format!("is a \";\" missing before \"{word}\", at the end of line {line}?"));
        }
        line = word.span.line;
    }
    error
}

/// The message about a directive in the wrong place; `allowed` becomes the hint.
pub fn not_allowed_here(node: &Node, allowed: Contexts) -> Diagnostic {
    let message = format!("\"{}\" directive is not allowed here", node.name);
    let error = Diagnostic::emerg(message).at(node.span).under(node.name.span);
    if allowed.is_empty() { error } else { error.hint(format!("it may stand in: {allowed}")) }
}

/// The message about a directive that stands twice where it may stand once.
pub fn is_duplicate(node: &Node) -> Diagnostic {
    Diagnostic::emerg(format!("\"{}\" directive is duplicate", node.name)).at(node.span)
}

/// The message about a block among the entries of `types`, `map` and similar blocks.
pub fn unexpected_block(node: &Node) -> Diagnostic {
    Diagnostic::emerg("unexpected \"{\"").at(node.span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_bytes;

    #[test]
    fn a_missing_semicolon_is_suspected_where_a_name_begins_a_line() {
        let hint = |text: &str| {
            let loaded = parse_bytes(text.as_bytes());
            hint_missing_semicolon(Diagnostic::emerg("x"), &loaded.nodes[0], |name| name == "root").hint
        };
        let found = hint("listen 80\n  root /srv;");
        assert_eq!(found.as_deref(), Some("is a \";\" missing before \"root\", at the end of line 1?"));
        assert_eq!(hint("listen 80\n  reuseport;"), None);
        assert_eq!(hint("listen root;"), None);
        assert_eq!(hint("listen 80\n 'root';"), None);
    }

    fn message(shape: Shape, text: &str) -> String {
        let loaded = parse_bytes(text.as_bytes());
        shape.check(&loaded.nodes[0]).err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn shapes_tell_what_is_wrong_first() {
        let two = Shape::simple(Arity::Exactly(2));
        assert_eq!(message(two, "a 1 2;"), "");
        assert_eq!(two.arity.to_string(), "2");
        assert_eq!(message(two, "a 1;"), "invalid number of arguments in \"a\" directive");
        assert_eq!(message(two, "a {}"), "directive \"a\" is not terminated by \";\"");
        let block = Shape::block(Arity::None);
        assert_eq!(message(block, "a {}"), "");
        assert_eq!(message(block, "a 1;"), "directive \"a\" has no opening \"{\"");
        assert_eq!(message(block, "a 1 {}"), "invalid number of arguments in \"a\" directive");
        let flag = Shape::simple(Arity::Flag);
        assert_eq!(message(flag, "a ON;"), "");
        assert_eq!(
            message(flag, "a yes;"),
            "invalid value \"yes\" in \"a\" directive, it must be \"on\" or \"off\""
        );
    }

    #[test]
    fn arities() {
        let admitted = |arity: Arity| (0..6).filter(|count| arity.admits(*count)).collect::<Vec<_>>();
        assert_eq!(admitted(Arity::Flag), [1]);
        assert_eq!(admitted(Arity::None), [0]);
        assert_eq!(admitted(Arity::Exactly(3)), [3]);
        assert_eq!(admitted(Arity::Range(1, 3)), [1, 2, 3]);
        assert_eq!(admitted(Arity::AtLeast(4)), [4, 5]);
        assert_eq!(admitted(Arity::OneOf(&[1, 4])), [1, 4]);
        assert_eq!(admitted(Arity::Any), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn contexts_are_sets_with_names() {
        const BOTH: Contexts = Contexts::HTTP.or(Contexts::LOCATION_IF);
        assert!(BOTH.contains(Contexts::HTTP) && !BOTH.contains(Contexts::SERVER));
        assert!(BOTH.intersects(Contexts::ANY) && !BOTH.intersects(Contexts::MAIN));
        assert_eq!(BOTH.and(Contexts::HTTP), Contexts::HTTP);
        assert_eq!(BOTH.to_string(), "http, if in location");
        assert!(Contexts::EMPTY.is_empty());
        assert_eq!(Contexts::ANY.names().count(), Contexts::NAMES.len());
    }

    #[test]
    fn places_are_named() {
        let loaded = parse_bytes(b"listen\n80;");
        let error = not_allowed_here(&loaded.nodes[0], Contexts::SERVER);
        assert_eq!(error.message, "\"listen\" directive is not allowed here");
        assert_eq!((error.span.unwrap().line, error.span.unwrap().end), (2, 6));
        assert_eq!(error.hint.as_deref(), Some("it may stand in: server"));
        assert_eq!(is_duplicate(&loaded.nodes[0]).message, "\"listen\" directive is duplicate");
        assert_eq!(unexpected_block(&loaded.nodes[0]).message, "unexpected \"{\"");
    }
}

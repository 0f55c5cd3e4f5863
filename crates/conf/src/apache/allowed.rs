//! Which directives `.htaccess` files may contain: Apache's `AllowOverride` and `AllowOverrideList`.

use crate::diagnostic::{Diagnostic, Level};
use crate::tree::{Node, Word};
use crate::value::choice;
use std::fmt;
use std::sync::Arc;

/// Classes of directives, as `AllowOverride` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u8);

impl Classes {
    /// No class: such a directive may stand in Apache's own configuration only.
    pub const NONE: Classes = Classes(0);
    /// Users and access.
    pub const AUTH_CONFIG: Classes = Classes(1);
    /// Types, headers, rewriting, redirects and the like.
    pub const FILE_INFO: Classes = Classes(1 << 1);
    /// Indexes and listings.
    pub const INDEXES: Classes = Classes(1 << 2);
    /// `Order`, `Allow` and `Deny`.
    pub const LIMIT: Classes = Classes(1 << 3);
    /// `Options` and some filters.
    pub const OPTIONS: Classes = Classes(1 << 4);
    /// All classes.
    pub const ALL: Classes = Classes((1 << 5) - 1);

    /// The names of the single classes.
    pub const NAMES: [(&'static str, Classes); 5] = [
        ("AuthConfig", Classes::AUTH_CONFIG),
        ("FileInfo", Classes::FILE_INFO),
        ("Indexes", Classes::INDEXES),
        ("Limit", Classes::LIMIT),
        ("Options", Classes::OPTIONS),
    ];

    /// The classes of both.
    #[must_use]
    pub const fn or(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Whether the sets share a class.
    pub const fn intersects(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }

    /// The classes in a row of a table: names with commas, `any` or `server`.
    pub(super) fn of_row(text: &str) -> Classes {
        let class = |name| Classes::NAMES.into_iter().find(|(known, _)| *known == name);
        match text {
            "any" => Classes::ALL,
            text => {
                let classes = text.split(',').filter_map(class);
                classes.fold(Classes::NONE, |sum, (_, class)| sum.or(class))
            }
        }
    }
}

/// The names, with `or` between them.
impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Classes::NAMES.into_iter().filter(|(_, class)| self.intersects(*class));
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        f.write_str(&if *self == Classes::ALL { "any class".to_owned() } else { names.join(" or ") })
    }
}

/// Words that the directive `Options` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionWords(u8);

impl OptionWords {
    const INDEXES: u8 = 1;
    const INCLUDES: u8 = 1 << 1;
    const EXECUTES: u8 = 1 << 2;
    const FOLLOWS: u8 = 1 << 3;
    const FOLLOWS_OWN: u8 = 1 << 4;
    const PROGRAMS: u8 = 1 << 5;
    const NEGOTIATES: u8 = 1 << 6;
    const USUAL: u8 = OptionWords::INDEXES
        | OptionWords::INCLUDES
        | OptionWords::EXECUTES
        | OptionWords::FOLLOWS
        | OptionWords::PROGRAMS;

    /// No word.
    pub const NONE: OptionWords = OptionWords(0);
    /// Every word.
    pub const ALL: OptionWords = OptionWords((1 << 7) - 1);

    /// What each word means. `All` is not every word, as in Apache.
    pub const NAMES: [(&'static str, OptionWords); 9] = [
        ("Indexes", OptionWords(OptionWords::INDEXES)),
        ("Includes", OptionWords(OptionWords::INCLUDES | OptionWords::EXECUTES)),
        ("IncludesNOEXEC", OptionWords(OptionWords::INCLUDES)),
        ("FollowSymLinks", OptionWords(OptionWords::FOLLOWS)),
        ("SymLinksIfOwnerMatch", OptionWords(OptionWords::FOLLOWS_OWN)),
        ("ExecCGI", OptionWords(OptionWords::PROGRAMS)),
        ("MultiViews", OptionWords(OptionWords::NEGOTIATES)),
        ("None", OptionWords(0)),
        ("All", OptionWords(OptionWords::USUAL)),
    ];

    /// The words of `Options` without a list.
    pub const UNLISTED: OptionWords = OptionWords(OptionWords::USUAL);

    /// The words of both.
    #[must_use]
    pub const fn or(self, other: OptionWords) -> OptionWords {
        OptionWords(self.0 | other.0)
    }

    /// Whether all that the word means is among these; an unknown word is judged elsewhere.
    fn has(self, word: &[u8]) -> bool {
        let name = word.strip_prefix(b"+").or_else(|| word.strip_prefix(b"-")).unwrap_or(word);
        let known = OptionWords::NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        known.is_none_or(|(_, meant)| meant.0 & !self.0 == 0)
    }
}

/// Sections that Apache never skips for `Nonfatal=Override`: it would go on with the first line inside.
const SPLICED: [&str; 6] = ["IfDefine", "IfDirective", "IfFile", "IfModule", "IfSection", "IfVersion"];

/// What `.htaccess` files may contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The directives of these classes.
    pub classes: Classes,
    /// The words that `Options` may name.
    pub options: OptionWords,
    /// Further directives, in lower case and without brackets.
    pub names: Vec<Box<str>>,
    /// Whether a directive that is not allowed is skipped with a warning.
    pub skips_forbidden: bool,
    /// Whether an unknown directive is skipped with a warning.
    pub skips_unknown: bool,
}

/// What `.htaccess` files may contain in the directories whose URIs begin with a text; `None` for everything.
pub type AllowedBelow = (Box<[u8]>, Option<Arc<Allowed>>);

impl Allowed {
    /// Everything.
    pub const EVERYTHING: Allowed = Allowed {
        classes: Classes::ALL,
        options: OptionWords::ALL,
        names: Vec::new(),
        skips_forbidden: false,
        skips_unknown: false,
    };

    /// What the words of `AllowOverride` say.
    ///
    /// # Errors
    /// The first word that `AllowOverride` does not have.
    pub fn of_words(node: &Node) -> Result<Allowed, Diagnostic> {
        let mut said = Allowed { classes: Classes::NONE, ..Allowed::EVERYTHING };
        for word in &node.args {
            let text = word.to_string();
            let (name, list) = match text.split_once('=') {
                Some((name, list)) => (name, Some(list)),
                None => (text.as_str(), None),
            };
            match (name.to_ascii_lowercase().as_str(), list) {
                // As in Apache both take back all but what was said about options.
                ("none", None) => {
                    said = Allowed { classes: Classes::NONE, options: said.options, ..Allowed::EVERYTHING };
                }
                ("all", None) => said = Allowed { options: said.options, ..Allowed::EVERYTHING },
                ("options", list) => {
                    said.classes = said.classes.or(Classes::OPTIONS);
                    said.options =
                        list.map_or(Ok(OptionWords::UNLISTED), |list| options(node, word, list))?;
                }
                ("nonfatal", list) => {
                    let kinds =
                        [("Override", (true, false)), ("Unknown", (false, true)), ("All", (true, true))];
                    let kind = Word::new(list.unwrap_or_default(), word.span);
                    let (forbidden, unknown) = choice(&kind, &kinds).map_err(|error| error.at(node, word))?;
                    said.skips_forbidden |= forbidden;
                    said.skips_unknown |= unknown;
                }
                _ => {
                    let class = choice(word, &Classes::NAMES).map_err(|error| error.at(node, word))?;
                    said.classes = said.classes.or(class);
                }
            }
        }
        Ok(said)
    }

    /// Whether nothing is ever forbidden or skipped.
    pub fn is_everything(&self) -> bool {
        let is_skipping = self.skips_forbidden || self.skips_unknown;
        self.classes == Classes::ALL && self.options == OptionWords::ALL && !is_skipping
    }

    /// Whether files count at all. As in Apache they also do where all of their directives are skipped.
    pub fn reads_files(&self) -> bool {
        let is_skipping = self.skips_forbidden || self.skips_unknown;
        self.classes != Classes::NONE || !self.names.is_empty() || is_skipping
    }

    /// What is wrong with a directive: an error, or a warning about a directive that is skipped. `None` for a directive
    /// that is allowed or that Apache does not know.
    pub fn judge(&self, node: &Node) -> Option<Diagnostic> {
        let name = node.name.to_string();
        let classes = node.dialect.classes(&name)?;
        if self.has(&name, classes) {
            return self.word(node).or_else(|| self.requirement(node));
        }
        let is_spliced = SPLICED.iter().any(|section| section.eq_ignore_ascii_case(&name));
        match forbidden(node, classes) {
            error if self.skips_forbidden && !is_spliced => Some(skipped(error)),
            // A later error says where such a directive belongs.
            _ if classes == Classes::NONE => None,
            error => Some(error),
        }
    }

    /// What happens to the error about a directive that is unknown or not supported. Directives about access are never
    /// skipped.
    pub fn unknown(&self, node: &Node, error: Diagnostic) -> Diagnostic {
        let is_skipped = match node.dialect.classes(&node.name.to_string()) {
            None => true,
            Some(Classes::NONE) => false,
            Some(classes) => !classes.intersects(Classes::AUTH_CONFIG.or(Classes::LIMIT)),
        };
        if self.skips_unknown && is_skipped { skipped(error) } else { error }
    }

    fn has(&self, name: &str, classes: Classes) -> bool {
        classes.intersects(self.classes) || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The error about a word of `Options`, which is never skipped, as in Apache.
    fn word(&self, node: &Node) -> Option<Diagnostic> {
        if !node.name.text.eq_ignore_ascii_case(b"options") {
            return None;
        }
        let word = node.args.iter().find(|word| !self.options.has(&word.text))?;
        let bare = word.to_string();
        let bare = bare.trim_start_matches(['+', '-']);
        let message = format!("the server's configuration does not allow \"{}\" in \"Options\"", bare);
        let hint = format!("\"htaccess_override Options={bare}\" would allow it");
        Some(Diagnostic::emerg(message).at(node.span).under(word.span).hint(hint))
    }

    /// The error about a requirement within a section of requirements, which is never skipped: the others could then let
    /// in more clients.
    fn requirement(&self, node: &Node) -> Option<Diagnostic> {
        let is_group = node.name.text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"require"));
        let inner = if is_group { node.children() } else { &[] };
        inner.iter().find_map(|inner| {
            let name = inner.name.to_string();
            let classes = inner.dialect.classes(&name)?;
            if self.has(&name, classes) { self.requirement(inner) } else { Some(forbidden(inner, classes)) }
        })
    }
}

/// Reads the words of `Options=WORD,…`.
fn options(node: &Node, word: &Word, list: &str) -> Result<OptionWords, Diagnostic> {
    let mut sum = OptionWords::NONE;
    for name in list.split(',') {
        let name = Word::new(name, word.span);
        sum = sum.or(choice(&name, &OptionWords::NAMES).map_err(|error| error.at(node, word))?);
    }
    Ok(sum)
}

fn forbidden(node: &Node, classes: Classes) -> Diagnostic {
    let message = format!("the server's configuration does not allow \"{}\"", node.name);
    let error = Diagnostic::emerg(message).at(node.span).under(node.name.span);
    match classes {
        Classes::NONE => error,
        Classes::ALL => error.hint("any class in \"htaccess_override\" would allow it"),
        classes => error.hint(format!("{classes} in \"htaccess_override\" would allow it")),
    }
}

fn skipped(error: Diagnostic) -> Diagnostic {
    Diagnostic { level: Level::Warn, message: format!("skipped: {}", error.message), ..error }
}

#[cfg(test)]
mod tests {
    use super::{Allowed, Classes, OptionWords};
    use crate::diagnostic::Diagnostic;
    use std::path::Path;

    fn nothing() -> Allowed {
        Allowed { classes: Classes::NONE, ..Allowed::EVERYTHING }
    }

    fn judge(allowed: &Allowed, text: &str) -> Option<Diagnostic> {
        allowed.judge(&crate::apache::parse(Path::new("/x"), text.into()).nodes[0])
    }

    /// What is said about a directive.
    fn said(allowed: &Allowed, text: &str) -> String {
        let judged = judge(allowed, text);
        judged.map_or_else(String::new, |error| {
            format!("{}; {}", error.message, error.hint.unwrap_or_default())
        })
    }

    #[test]
    fn classes_allow_their_directives() {
        let lines = [
            ("Require all granted", Classes::AUTH_CONFIG),
            ("rewriteengine on", Classes::FILE_INFO),
            ("ExpiresActive on", Classes::INDEXES),
            ("Order allow,deny", Classes::LIMIT),
            ("Options Indexes", Classes::OPTIONS),
            ("<Limit GET>\n</Limit>", Classes::AUTH_CONFIG.or(Classes::LIMIT)),
            ("<Files x>\n</Files>", Classes::ALL),
        ];
        for (line, classes) in lines {
            for (_, class) in Classes::NAMES {
                let allowed = Allowed { classes: class, ..nothing() };
                assert_eq!(judge(&allowed, line).is_none(), classes.intersects(class), "{line} {class}");
            }
            assert!(judge(&nothing(), line).is_some_and(|error| error.is_error()), "{line}");
        }
    }

    #[test]
    fn errors_name_the_class() {
        let rule = "the server's configuration does not allow \"RewriteRule\"; ";
        assert_eq!(
            said(&nothing(), "RewriteRule a b"),
            format!("{rule}FileInfo in \"htaccess_override\" would allow it")
        );
        assert!(said(&nothing(), "<Limit GET>\n</Limit>").contains("; AuthConfig or Limit in"));
        assert!(said(&nothing(), "<If true>\n</If>").contains("; any class in"));
        assert_eq!(said(&nothing(), "RewriteMap a b"), "", "it belongs elsewhere, and another error says so");
        assert_eq!(said(&nothing(), "NoSuchThing"), "");
        let skipping = Allowed { skips_forbidden: true, ..nothing() };
        for line in ["RewriteRule a b", "RewriteMap a b"] {
            let warning = judge(&skipping, line).unwrap();
            assert!(!warning.is_error() && warning.message.starts_with("skipped: "), "{line}");
        }
        assert!(judge(&skipping, "<IfModule x>\n</IfModule>").is_some_and(|error| error.is_error()));
    }

    #[test]
    fn listed_directives_are_allowed() {
        let names = vec!["redirect".into(), "requireall".into()];
        let allowed = Allowed { names, skips_forbidden: true, ..nothing() };
        assert_eq!(said(&allowed, "Redirect / /x"), "");
        assert!(judge(&allowed, "RedirectMatch / /x").is_some_and(|warning| !warning.is_error()));
        assert_eq!(said(&allowed, "<RequireAll>\n</RequireAll>"), "");
        let inner = "<RequireAll>\nRequire all granted\n</RequireAll>";
        assert!(judge(&allowed, inner).is_some_and(|error| error.is_error()));
    }

    #[test]
    fn options_are_allowed_by_their_words() {
        let named = |names: &[&str]| {
            let words = OptionWords::NAMES.iter().filter(|(name, _)| names.contains(name));
            words.fold(OptionWords::NONE, |sum, (_, word)| sum.or(*word))
        };
        let words = [
            (named(&["Indexes"]), "Options +Indexes", true),
            (named(&["Indexes"]), "Options -indexes", true),
            (named(&["Indexes"]), "Options Indexes MultiViews", false),
            (named(&["Indexes"]), "Options None", true),
            (named(&["Indexes"]), "Options All", false),
            (named(&["Includes"]), "Options IncludesNOEXEC", true),
            (named(&["IncludesNOEXEC"]), "Options Includes", false),
            (named(&["All"]), "Options All", true),
            (named(&["All"]), "Options MultiViews", false),
        ];
        for (options, line, expected) in words {
            let allowed = Allowed { classes: Classes::OPTIONS, options, skips_forbidden: true, ..nothing() };
            assert_eq!(judge(&allowed, line).is_none(), expected, "{line}");
            assert!(judge(&allowed, line).is_none_or(|error| error.is_error()), "{line}: never skipped");
        }
    }

    #[test]
    fn unknown_directives_are_skipped_but_for_those_about_access() {
        let skipping = Allowed { skips_unknown: true, ..nothing() };
        let lines = [
            ("NoSuchThing", true),
            ("CharsetSourceEnc x", true),
            ("AuthFormProvider x", false),
            ("LuaHookAccessChecker x y", false),
            ("RewriteMap a b", false),
        ];
        for (line, expected) in lines {
            let node = &crate::apache::parse(Path::new("/x"), line.into()).nodes[0];
            let judge = |allowed: &Allowed| allowed.unknown(node, Diagnostic::emerg("unknown")).is_error();
            assert_eq!(judge(&skipping), !expected, "{line}");
            assert!(judge(&nothing()), "{line}");
        }
    }

    #[test]
    fn files_count_if_anything_is_allowed() {
        assert!(!nothing().reads_files() && !nothing().is_everything());
        let everything = Allowed::EVERYTHING;
        assert!(everything.is_everything() && everything.reads_files());
        assert!(Allowed { names: vec!["redirect".into()], ..nothing() }.reads_files());
        assert!(!Allowed { options: OptionWords::UNLISTED, ..everything.clone() }.is_everything());
        assert!(!Allowed { skips_unknown: true, ..everything }.is_everything());
    }
}

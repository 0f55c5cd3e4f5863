//! Every directive name of nginx 1.31.5, and what happens to those that no module owns.
//!
//! What is *honoured* is not written here: the loader asks the modules first, and comes here with the rest.
//! A name can have several entries, one for each of `http`, `stream` and `mail`, say.
//!
//! ```
//! use conf::catalogue::{self, Verdict};
//! use conf::Contexts;
//! let gzip = catalogue::entry("gzip", Contexts::SERVER).expect("a directive of nginx");
//! assert!(matches!(gzip.verdict, Verdict::Harmless(_)));
//! assert_eq!(gzip.module, "http_gzip");
//! ```

mod foreign;
mod table;
mod values;
mod variable;

use std::sync::LazyLock;

pub use foreign::{Foreign, Loadable, foreign, module_of_file};
pub use values::Values;
pub use variable::{Absent, Variable, variable};

use crate::diagnostic::Diagnostic;
use crate::spec::{Contexts, Shape};
use crate::tree::{Node, Word};

/// What happens to a directive, or to a parameter, that no module owns. Texts are clauses without a capital
/// and without a full stop, for messages and for the manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It tunes what does not exist here, or changes nothing that can be seen: taken in silence. Why.
    Accepted(&'static str),
    /// It acts only together with this other directive, which is judged itself: accepted without a message.
    Companion(&'static str),
    /// Not built yet, and missing it costs speed or comfort only: taken with a warning. What happens instead.
    Harmless(&'static str),
    /// A content handler that is not built yet: taken with a warning. What is answered 501.
    Answers501(&'static str),
    /// Not built yet, and going on without it would be unsafe or wrong: refused.
    Pending {
        /// What would happen without it.
        why: &'static str,
        /// What can be done today.
        instead: &'static str,
    },
    /// Never to be built: refused.
    Refused {
        /// Why there is no such thing here.
        why: &'static str,
        /// The nearest thing that works.
        instead: &'static str,
    },
}

impl Verdict {
    /// What to tell about `subject`, which is the directive's name in quotes or a phrase for its parameter;
    /// nothing for what is taken in silence.
    pub fn diagnostic(&self, subject: &str) -> Option<Diagnostic> {
        match self {
            Verdict::Accepted(_) | Verdict::Companion(_) => None,
            Verdict::Harmless(what) => {
                Some(Diagnostic::warn(format!("{subject} has no effect yet ({what})")))
            }
            Verdict::Answers501(what) => {
                Some(Diagnostic::warn(format!("{subject} is not built yet ({what})")))
            }
            Verdict::Pending { why, instead } => {
                Some(Diagnostic::emerg(format!("{subject} is not built yet ({why})")).hint(*instead))
            }
            Verdict::Refused { why, instead } => {
                Some(Diagnostic::emerg(format!("{subject} is not supported ({why})")).hint(*instead))
            }
        }
    }
}

/// A directive of nginx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The module that it belongs to, as nginx's build options call it: `http_gzip`, `stream_core`, `event`.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: Contexts,
    /// How it is written.
    pub shape: Shape,
    /// What its words are, where no module owns it.
    pub values: Values,
    /// The argument that asks for no more than leaving the line out does: `off` of `auth_basic`.
    pub idle: Option<&'static str>,
    /// What happens to it where no module owns it.
    pub verdict: Verdict,
}

impl Entry {
    /// Whether one use of a directive that no module owns is written as it must be.
    ///
    /// # Errors
    /// nginx's message about what is wrong.
    pub fn check(&self, node: &Node) -> Result<(), Diagnostic> {
        self.shape.check(node)?;
        if self.asks_for_nothing(node) { Ok(()) } else { self.values.check(node) }
    }

    /// Judges one use of a directive that no module owns: what to tell about it, if anything. A level of
    /// [`Emerg`](crate::Level::Emerg) means that the configuration is refused.
    pub fn judge(&self, node: &Node) -> Option<Diagnostic> {
        if self.asks_for_nothing(node) {
            return None;
        }
        let of_parameter =
            node.args.iter().filter_map(|word| judge_parameter(self.name, word)).max_by_key(severity);
        let of_directive = || self.verdict.diagnostic(&format!("\"{}\"", self.name));
        let told = of_parameter.or_else(of_directive)?;
        let part = told.span.unwrap_or(node.name.span);
        Some(told.at(node.span).under(part))
    }

    /// Whether this use asks for what happens anyway where the feature is missing, so that there is nothing
    /// to refuse and nothing to warn about.
    pub fn asks_for_nothing(&self, node: &Node) -> bool {
        match (self.idle, &*node.args) {
            (Some(idle), [word]) => word.text.eq_ignore_ascii_case(idle.as_bytes()),
            _ => false,
        }
    }
}

/// What to tell about one argument of a directive, with the argument as its place: `spdy` of `listen`
/// is refused, because there is no such thing. Modules that own a directive ask this for the parameters that they do
/// not know.
pub fn judge_parameter(directive: &str, word: &Word) -> Option<Diagnostic> {
    let parameter = PARAMETERS.iter().find(|p| p.directive == directive && p.matches(&word.text))?;
    let subject = format!("parameter \"{}\" of \"{directive}\"", parameter.name.trim_end_matches('='));
    Some(parameter.verdict.diagnostic(&subject)?.at(word.span))
}

/// The entries of a name, in the order of their modules; none for a name that nginx does not have.
pub fn entries(name: &str) -> impl Iterator<Item = &'static Entry> {
    let start = ENTRIES.partition_point(|entry| entry.name < name);
    let end = ENTRIES.partition_point(|entry| entry.name <= name);
    ENTRIES[start..end].iter()
}

/// The entry of a name in one context.
pub fn entry(name: &str, context: Contexts) -> Option<&'static Entry> {
    entries(name).find(|entry| entry.contexts.intersects(context))
}

/// Every place where a name may stand, for the message that it may not stand somewhere else.
pub fn contexts(name: &str) -> Contexts {
    entries(name).fold(Contexts::EMPTY, |all, entry| all.or(entry.contexts))
}

/// Every entry, sorted by name.
pub fn all() -> &'static [Entry] {
    &ENTRIES
}

/// Every name once, sorted, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.chunk_by(|a, b| a.name == b.name).map(|same| same[0].name)
}

/// The names that stand in `http {}` and could not stand at the top of a file: where one does, `http {}` was
/// left out.
pub fn http_only_names() -> impl Iterator<Item = &'static str> {
    names().filter(|name| {
        let places = contexts(name);
        places.contains(Contexts::HTTP) && !places.contains(Contexts::MAIN)
    })
}

/// A parameter with its own verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parameter {
    directive: &'static str,
    /// A name that ends in `=` stands for any value.
    name: &'static str,
    verdict: Verdict,
}

impl Parameter {
    fn matches(&self, text: &[u8]) -> bool {
        match self.name.strip_suffix('=') {
            Some(_) => text.starts_with(self.name.as_bytes()),
            None => text == self.name.as_bytes(),
        }
    }
}

/// Orders diagnostics from the least to the most severe.
fn severity(diagnostic: &Diagnostic) -> std::cmp::Reverse<crate::diagnostic::Level> {
    std::cmp::Reverse(diagnostic.level)
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut all: Vec<Entry> =
        table::AREAS.iter().flat_map(|text| table::rows(text)).filter_map(table::entry).collect();
    all.sort_by_key(|entry| (entry.name, entry.module));
    all
});

static PARAMETERS: LazyLock<Vec<Parameter>> =
    LazyLock::new(|| table::rows(table::PARAMETERS).filter_map(table::parameter).collect());

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::diagnostic::Level;
    use crate::spec::Arity;

    fn judge(text: &str, context: Contexts) -> Option<Diagnostic> {
        let loaded = crate::parse_bytes(text.as_bytes());
        let node = &loaded.nodes[0];
        let name = node.name.as_str().expect("a name");
        entry(name, context).expect("an entry").judge(node)
    }

    fn level(text: &str, context: Contexts) -> Option<Level> {
        judge(text, context).map(|told| told.level)
    }

    #[test]
    fn every_directive_of_nginx_is_there() {
        assert_eq!(all().len(), 784);
        assert_eq!(names().count(), 656);
    }

    #[test]
    fn every_row_is_read() {
        for text in table::AREAS {
            let rows: Vec<&str> = table::rows(text).collect();
            for row in &rows {
                assert!(table::entry(row).is_some(), "not an entry: {row}");
            }
            assert!(rows.is_sorted_by_key(|row| row.split('\t').next()), "not sorted: {}", rows[0]);
        }
        for row in table::rows(table::PARAMETERS) {
            assert!(table::parameter(row).is_some(), "not a parameter: {row}");
        }
    }

    #[test]
    fn every_text_is_a_clause() {
        for entry in all() {
            let texts = match entry.verdict {
                Verdict::Accepted(text) | Verdict::Harmless(text) | Verdict::Answers501(text) => [text, text],
                Verdict::Companion(_) => continue,
                Verdict::Pending { why, instead } | Verdict::Refused { why, instead } => [why, instead],
            };
            for text in texts {
                assert!(text.split(' ').count() > 2, "{}: {text}", entry.name);
                assert!(!text.ends_with('.'), "{}: {text}", entry.name);
            }
        }
    }

    #[test]
    fn companions_lead_to_a_directive_with_a_verdict_of_its_own() {
        for entry in all() {
            let Verdict::Companion(of) = entry.verdict else { continue };
            let of = of.split(' ').next().unwrap_or_default();
            assert!(entries(of).next().is_some(), "{}: {of}", entry.name);
            let itself = of == entry.name && entry.module.starts_with("http");
            assert!(!itself, "{} is beside itself", entry.name);
        }
    }

    #[test]
    fn one_entry_a_name_and_context() {
        for pair in all().windows(2) {
            let apart = pair[0].name != pair[1].name || !pair[0].contexts.intersects(pair[1].contexts);
            assert!(apart, "{} twice", pair[0].name);
        }
    }

    #[test]
    fn a_name_is_told_apart_by_its_context() {
        assert_eq!(entry("server", Contexts::HTTP).map(|e| e.module), Some("http_core"));
        assert_eq!(entry("server", Contexts::UPSTREAM).map(|e| e.module), Some("http_upstream"));
        assert_eq!(entry("server", Contexts::MAIL).map(|e| e.module), Some("mail_core"));
        assert_eq!(entry("server", Contexts::EVENTS), None);
        assert_eq!(entries("lisen").count(), 0);
        assert!(entry("include", Contexts::STREAM_SERVER).is_some());
    }

    #[test]
    fn shapes_and_contexts_are_nginx_s() {
        let of = |name, context| entry(name, context).map(|e| e.shape);
        assert_eq!(of("map", Contexts::HTTP), Some(Shape::block(Arity::Exactly(2))));
        assert_eq!(of("user", Contexts::MAIN), Some(Shape::simple(Arity::Range(1, 2))));
        assert_eq!(of("gzip", Contexts::LOCATION), Some(Shape::simple(Arity::Flag)));
        assert_eq!(of("listen", Contexts::SERVER), Some(Shape::simple(Arity::AtLeast(1))));
        assert_eq!(of("internal", Contexts::LOCATION), Some(Shape::simple(Arity::None)));
        let places = contexts("return");
        let expected = Contexts::SERVER
            .or(Contexts::LOCATION)
            .or(Contexts::SERVER_IF)
            .or(Contexts::LOCATION_IF)
            .or(Contexts::STREAM_SERVER);
        assert_eq!(places, expected);
    }

    #[test]
    fn missing_access_rules_are_never_open() {
        let rules = ["allow", "deny", "satisfy", "limit_except", "internal", "auth_basic", "auth_request"];
        let more = [
            "limit_req",
            "limit_conn",
            "secure_link",
            "valid_referers",
            "set_real_ip_from",
            "disable_symlinks",
        ];
        for name in rules.iter().chain(&more) {
            for entry in entries(name) {
                assert!(matches!(entry.verdict, Verdict::Pending { .. }), "{name} in {}", entry.module);
            }
        }
    }

    #[test]
    fn what_is_missing_is_told_and_what_is_needless_is_not() {
        assert_eq!(level("gzip on;", Contexts::HTTP), Some(Level::Warn));
        assert_eq!(level("gzip_types text/css;", Contexts::HTTP), None);
        assert_eq!(level("tcp_nopush on;", Contexts::HTTP), None);
        assert_eq!(level("fastcgi_pass php;", Contexts::LOCATION), Some(Level::Warn));
        assert_eq!(level("auth_basic closed;", Contexts::LOCATION), Some(Level::Emerg));
        assert_eq!(level("auth_basic off;", Contexts::LOCATION), None);
        assert_eq!(level("use epoll;", Contexts::EVENTS), None);
        assert_eq!(level("use kqueue;", Contexts::EVENTS), Some(Level::Emerg));
    }

    #[test]
    fn the_worst_parameter_is_told() {
        let told = judge("listen 443 http2 spdy;", Contexts::SERVER).expect("a refusal");
        assert_eq!(told.level, Level::Emerg);
        assert!(told.message.starts_with("parameter \"spdy\" of \"listen\" is not "), "{}", told.message);
        let loaded = crate::parse_bytes(b"listen 80 fastopen=512;");
        let words = &loaded.nodes[0].args;
        assert_eq!(judge_parameter("listen", &words[0]), None);
        assert!(judge_parameter("listen", &words[1]).is_some());
    }

    #[test]
    fn values_that_nobody_reads_are_looked_at() {
        let wrong = |text: &str, context: Contexts| {
            let loaded = crate::parse_bytes(text.as_bytes());
            let node = &loaded.nodes[0];
            let name = node.name.as_str().expect("a name");
            let checked = entry(name, context).expect("an entry").check(node);
            checked.err().map(|error| error.message).unwrap_or_default()
        };
        let (http, main, events) = (Contexts::HTTP, Contexts::MAIN, Contexts::EVENTS);
        for (text, context, message) in [
            ("timer_resolution on;", main, "\"timer_resolution\" directive invalid value"),
            ("timer_resolution 100ms;", main, ""),
            ("worker_aio_requests x;", events, "\"worker_aio_requests\" directive invalid number"),
            ("output_buffers a b;", http, "\"output_buffers\" directive invalid value"),
            ("output_buffers 0 32k;", http, "\"output_buffers\" directive invalid value"),
            ("output_buffers 2 32k;", http, ""),
            ("postpone_output \"\";", http, "\"postpone_output\" directive invalid value"),
            ("send_lowat x;", http, "\"send_lowat\" directive invalid value"),
            ("types_hash_max_size x;", http, "\"types_hash_max_size\" directive invalid number"),
            ("server_names_hash_bucket_size 64k;", http, {
                "\"server_names_hash_bucket_size\" directive invalid number"
            }),
            ("fastcgi_cache_max_range_offset 1g;", http, ""),
        ] {
            assert_eq!(wrong(text, context), message, "{text}");
        }
    }

    #[test]
    fn names_that_belong_into_http() {
        let names: Vec<&str> = http_only_names().collect();
        assert!(names.contains(&"server") && names.contains(&"upstream") && names.contains(&"map"));
        assert!(!names.contains(&"error_log") && !names.contains(&"include") && !names.contains(&"location"));
    }
}

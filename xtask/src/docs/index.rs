//! The index: every directive that nginx has, and what Fulmar does with it.

use conf::Level;
use conf::catalogue::{self, Entry, Verdict};

use super::page::{Feature, code, notice, places, row};

/// What a reader wants to know first.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Honoured,
    Accepted,
    Beside,
    Warned,
    Pending,
    Refused,
}

impl Kind {
    /// The kinds in the order of the summary, each with what it means.
    const ALL: [(Kind, &str); 6] = [
        (Kind::Honoured, "the link leads to the page"),
        (Kind::Accepted, "no message, because Fulmar does not need the directive"),
        (Kind::Beside, "no message, because the directive only changes another one, whose verdict counts"),
        (Kind::Warned, "the server works without the directive"),
        (Kind::Pending, "a start without the directive would be unsafe or wrong"),
        (Kind::Refused, "the message says what to use instead"),
    ];

    fn label(self) -> &'static str {
        match self {
            Kind::Honoured => "supported",
            Kind::Accepted => "accepted",
            Kind::Beside => "works only with",
            Kind::Warned => "not supported yet, a warning",
            Kind::Pending => "not supported yet, an error",
            Kind::Refused => "not supported, an error",
        }
    }
}

/// The index page; `entries` are nginx's directives in the order of their names.
pub(super) fn render(features: &[Feature], entries: &[Entry]) -> String {
    let mut out = format!("# Directives\n\n{}\n\n## Features\n\n", notice("the features and the catalogue"));
    for feature in features {
        out.push_str(&format!("- [{}]({}): {}\n", feature.name, feature.file(), feature.summary()));
    }
    let judged: Vec<(Kind, String)> = entries.iter().map(|entry| judge(features, entries, entry)).collect();
    out.push_str(&format!(
        "\n## Every directive of nginx\n\n\
         nginx 1.31 declares {} directives; a name that several modules declare is listed once for each \
         of them.\n\n",
        entries.len()
    ));
    for (kind, meaning) in Kind::ALL {
        let count = judged.iter().filter(|(judged, _)| *judged == kind).count();
        out.push_str(&format!("- {count} {}: {meaning}.\n", kind.label()));
    }
    out.push_str("\n| directive | module | context | verdict |\n|---|---|---|---|\n");
    for (entry, (kind, text)) in entries.iter().zip(&judged) {
        let (contexts, verdict) = (places(entry.contexts), format!("{}: {text}", kind.label()));
        out.push_str(&row(&[&code(entry.name), entry.module, &contexts, &verdict]));
    }
    out
}

fn judge(features: &[Feature], entries: &[Entry], entry: &Entry) -> (Kind, String) {
    if let Some(feature) = owner(features, entry) {
        return (Kind::Honoured, format!("[{}]({})", feature.name, feature.file()));
    }
    match entry.verdict {
        Verdict::Accepted(why) => (Kind::Accepted, why.into()),
        Verdict::Companion(of) => resolve(features, entries, entry, of),
        Verdict::Harmless(what) | Verdict::Answers501(what) => (Kind::Warned, what.into()),
        Verdict::Pending { why, instead } => (Kind::Pending, format!("{why}; {instead}")),
        Verdict::Refused { why, instead } => (Kind::Refused, format!("{why}; {instead}")),
    }
}

/// A directive that acts only next to `main`, with the verdict of the entry of `main` nearest to it.
fn resolve(features: &[Feature], entries: &[Entry], entry: &Entry, main: &str) -> (Kind, String) {
    let named = || entries.iter().filter(|other| other.name == main && *other != entry);
    let near = named().find(|other| other.contexts.intersects(entry.contexts)).or_else(|| named().next());
    let kind = match near {
        Some(near) => judge(features, entries, near).0,
        None => of_parameter(main),
    };
    (Kind::Beside, format!("`{main}` ({})", kind.label()))
}

/// The verdict of what is written as `listen … quic`.
fn of_parameter(main: &str) -> Kind {
    let Some((directive, parameter)) = main.split_once(" … ") else { return Kind::Accepted };
    let line = conf::parse_bytes(format!("{directive} {parameter};").as_bytes());
    let word = line.nodes.first().and_then(|node| node.args.first());
    match word.and_then(|word| catalogue::judge_parameter(directive, word)).map(|told| told.level) {
        Some(Level::Emerg) => Kind::Pending,
        Some(_) => Kind::Warned,
        None => Kind::Accepted,
    }
}

/// The feature that owns the directive in one of its contexts.
fn owner<'a>(features: &'a [Feature], entry: &Entry) -> Option<&'a Feature> {
    let owns = |feature: &&Feature| {
        let mut directives = feature.directives.iter();
        directives
            .any(|directive| directive.name == entry.name && directive.contexts.intersects(entry.contexts))
    };
    features.iter().find(owns)
}

#[cfg(test)]
mod tests {
    use conf::catalogue::Values;
    use conf::{Arity, Contexts, Shape};

    use super::super::page::Directive;
    use super::*;

    fn entry(name: &'static str, contexts: Contexts, verdict: Verdict) -> Entry {
        let shape = Shape { arity: Arity::Any, block: false };
        Entry { name, module: "core", contexts, shape, values: Values::Any, idle: None, verdict }
    }

    #[test]
    fn what_needs_a_parameter_shows_its_verdict() {
        assert_eq!(of_parameter("listen … spdy"), Kind::Pending);
        assert_eq!(of_parameter("listen … rcvbuf="), Kind::Warned);
        assert_eq!(of_parameter("listen … reuseport"), Kind::Accepted);
    }

    #[test]
    fn every_directive_has_a_row() {
        let root = Directive { name: "root".into(), contexts: Contexts::HTTP, ..Directive::default() };
        let features = [Feature {
            name: "static".into(),
            prose: "Files. More.".into(),
            directives: vec![root],
            ..Feature::default()
        }];
        let entries = [
            entry("accept_mutex", Contexts::EVENTS, Verdict::Accepted("threads do not share")),
            entry("etag", Contexts::HTTP, Verdict::Companion("root")),
            entry("gzip", Contexts::HTTP, Verdict::Harmless("bodies stay long")),
            entry("gzip_types", Contexts::HTTP, Verdict::Companion("gzip")),
            entry("perl", Contexts::HTTP, Verdict::Refused { why: "no Perl", instead: "use another" }),
            entry("root", Contexts::HTTP.or(Contexts::SERVER), Verdict::Accepted("")),
            entry("root", Contexts::STREAM, Verdict::Pending { why: "lost", instead: "wait" }),
        ];
        let page = render(&features, &entries);
        assert!(page.contains("- [static](static.md): Files.\n"));
        assert!(page.contains("declares 7 directives"));
        assert!(page.contains("- 1 supported"));
        assert!(page.contains("- 2 works only with: no message, because"));
        let table = page.split_once("|---|---|---|---|\n").unwrap().1;
        let expected = "\
| `accept_mutex` | core | events | accepted: threads do not share |
| `etag` | core | http | works only with: `root` (supported) |
| `gzip` | core | http | not supported yet, a warning: bodies stay long |
| `gzip_types` | core | http | works only with: `gzip` (not supported yet, a warning) |
| `perl` | core | http | not supported, an error: no Perl; use another |
| `root` | core | http, server | supported: [static](static.md) |
| `root` | core | stream | not supported yet, an error: lost; wait |
";
        assert_eq!(table, expected);
    }
}

//! The index: every directive that nginx has, and what Fulmar does with it.

use conf::catalogue::{Entry, Verdict};

use super::page::{Feature, code, notice, row};

/// The index page; `entries` are nginx's directives in the order of their names.
pub(super) fn render(features: &[Feature], entries: &[Entry]) -> String {
    let mut out = format!("# Directives\n\n{}\n\n## Features\n\n", notice("the features and the catalogue"));
    for feature in features {
        out.push_str(&format!("- [{}]({}): {}\n", feature.name, feature.file(), feature.summary()));
    }
    out.push_str(&counts(features, entries));
    out.push_str("| directive | module | stands in | verdict |\n|---|---|---|---|\n");
    for entry in entries {
        let contexts = entry.contexts.to_string();
        out.push_str(&row(&[&code(entry.name), entry.module, &contexts, &verdict(features, entry)]));
    }
    out
}

fn counts(features: &[Feature], entries: &[Entry]) -> String {
    let honoured = entries.iter().filter(|entry| owner(features, entry).is_some()).count();
    let count = |kind: fn(&Verdict) -> bool| {
        entries.iter().filter(|entry| owner(features, entry).is_none() && kind(&entry.verdict)).count()
    };
    format!(
        "\n## Every directive of nginx\n\n\
         nginx 1.31 declares {all} directives; a name that several modules declare stands here for each of \
         them.\n\n\
         - {honoured} are honoured: the link leads to the page.\n\
         - {accepted} are accepted in silence: there is nothing for them to do, or they act only beside \
         another directive.\n\
         - {warned} are not built yet and give a warning: the server works without them.\n\
         - {pending} are not built yet and stop the start: going on without them would be unsafe or wrong.\n\
         - {refused} are refused for good, with what to use instead.\n\n",
        all = entries.len(),
        accepted = count(|verdict| matches!(verdict, Verdict::Accepted(_) | Verdict::Companion(_))),
        warned = count(|verdict| matches!(verdict, Verdict::Harmless(_) | Verdict::Answers501(_))),
        pending = count(|verdict| matches!(verdict, Verdict::Pending { .. })),
        refused = count(|verdict| matches!(verdict, Verdict::Refused { .. })),
    )
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

fn verdict(features: &[Feature], entry: &Entry) -> String {
    if let Some(feature) = owner(features, entry) {
        return format!("honoured: [{}]({})", feature.name, feature.file());
    }
    match entry.verdict {
        Verdict::Accepted(why) => format!("accepted: {why}"),
        Verdict::Companion(of) => format!("accepted: acts only beside `{of}`"),
        Verdict::Harmless(what) | Verdict::Answers501(what) => format!("not built yet, a warning: {what}"),
        Verdict::Pending { why, instead } => format!("not built yet, an error: {why}; {instead}"),
        Verdict::Refused { why, instead } => format!("refused: {why}; {instead}"),
    }
}

#[cfg(test)]
mod tests {
    use conf::{Arity, Contexts, Shape};

    use super::super::page::Directive;
    use super::*;

    fn entry(name: &'static str, contexts: Contexts, verdict: Verdict) -> Entry {
        let shape = Shape { arity: Arity::Any, block: false };
        Entry { name, module: "core", contexts, shape, idle: None, verdict }
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
            entry("perl", Contexts::HTTP, Verdict::Refused { why: "no Perl", instead: "use another" }),
            entry("root", Contexts::HTTP.or(Contexts::SERVER), Verdict::Accepted("")),
            entry("root", Contexts::STREAM, Verdict::Pending { why: "lost", instead: "wait" }),
        ];
        let page = render(&features, &entries);
        assert!(page.contains("- [static](static.md): Files.\n"));
        assert!(page.contains("declares 6 directives"));
        assert!(page.contains("- 1 are honoured"));
        assert!(page.contains("- 2 are accepted"));
        let table = page.split_once("|---|---|---|---|\n").unwrap().1;
        let expected = "\
| `accept_mutex` | core | events | accepted: threads do not share |
| `etag` | core | http | accepted: acts only beside `root` |
| `gzip` | core | http | not built yet, a warning: bodies stay long |
| `perl` | core | http | refused: no Perl; use another |
| `root` | core | http, server | honoured: [static](static.md) |
| `root` | core | stream | not built yet, an error: lost; wait |
";
        assert_eq!(table, expected);
    }
}

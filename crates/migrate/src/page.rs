//! The report as an HTML page: light and dark, for wide and narrow screens, without scripts.

use std::fmt::Write;

use crate::report::{Findings, Group};

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: .25rem 1rem; margin: 1rem 0; }
section h3 { font-size: 1rem; margin: .5rem 0; }
code, pre { font: .875rem/1.4 ui-monospace, monospace; }
pre { white-space: pre-wrap; background: var(--soft); padding: .5rem; border-radius: .25rem; }
";

/// The page of a run with this title.
pub fn html(findings: &Findings, title: &str) -> String {
    let title = escaped(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p><strong>{}</strong></p>\n",
        escaped(&findings.verdict())
    );
    let (meant, unexpected): (Vec<&Group>, Vec<&Group>) =
        findings.groups.iter().partition(|group| group.cause.known.is_some());
    groups(&mut out, "Differences", &unexpected);
    groups(&mut out, "Differences that are meant", &meant);
    let aside: Vec<String> = findings.aside.iter().map(|(what, count)| format!("{what} ({count})")).collect();
    list(&mut out, "Set aside: two responses of the installed server differ", &aside);
    if findings.passed > 0 {
        let text = format!("{} requests, by each of the two servers", findings.passed);
        list(&mut out, "Passed to other servers", &[text]);
    }
    list(&mut out, "Not tried", &findings.untried);
    out
}

fn groups(out: &mut String, title: &str, groups: &[&Group]) {
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h2>{title}</h2>");
    for group in groups {
        let _ = writeln!(out, "<section>\n<h3>{} ({}×)</h3>", escaped(&group.what.join("; ")), group.count);
        if let Some((file, line, text)) = &group.cause.place {
            let _ = writeln!(out, "<p>{}:{line} <code>{}</code></p>", escaped(file), escaped(text));
        }
        if let Some(known) = group.cause.known {
            let _ = writeln!(out, "<p>{}: {}</p>", escaped(known.id), escaped(known.row));
        }
        for example in &group.examples {
            let _ = writeln!(
                out,
                "<pre>{}\n  {}</pre>",
                escaped(&example.request),
                escaped(&example.differences.join("\n  "))
            );
        }
        let _ = writeln!(out, "</section>");
    }
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h2>{title}</h2>\n<ul>");
    for line in lines {
        let _ = writeln!(out, "<li>{}</li>", escaped(line));
    }
    let _ = writeln!(out, "</ul>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_page_are_escaped() {
        let findings = Findings { untried: vec!["<script>a & \"b\"".to_owned()], ..Findings::default() };
        let page = html(&findings, "a<b");
        assert!(
            page.contains("<li>&lt;script&gt;a &amp; &quot;b&quot;</li>") && page.contains("<h1>a&lt;b</h1>")
        );
        assert!(!page.contains("<script"));
    }
}

//! What a run found, grouped by cause: as text and as JSON.

use std::fmt::Write;

use conf::tree::printable;
use serde_json::{Value, json};

use crate::client::Request;
use crate::compare::Difference;
use crate::known::Known;
use crate::run::each_once;

/// Examples of one group, groups, and lines about what was not tried, that are kept.
const EXAMPLES_MAX: usize = 3;
const GROUPS_MAX: usize = 500;
const NOTES_MAX: usize = 50;
/// Letters of a target in a report.
const TARGET_MAX: usize = 120;

/// What a run found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Requests whose responses were compared.
    pub requests: usize,
    /// Those whose responses are the same.
    pub equal: usize,
    /// Requests that other servers got.
    pub passed: usize,
    /// Differences by cause.
    pub groups: Vec<Group>,
    /// What differs between two responses of the installed server, and how often.
    pub aside: Vec<(String, usize)>,
    /// What was not tried.
    pub untried: Vec<String>,
}

/// Why responses differ, as far as that is known.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The directive that decides: file, line and text.
    pub place: Option<(String, u32, String)>,
    /// The entry of a difference that is meant.
    pub known: Option<&'static Known>,
}

/// Requests whose responses differ for one cause.
#[derive(Debug)]
pub struct Group {
    /// The cause.
    pub cause: Cause,
    /// What differs in one of the responses or more.
    pub what: Vec<String>,
    /// How many requests.
    pub count: usize,
    /// Some of the requests.
    pub examples: Vec<Example>,
}

/// A request, and how its responses differ.
#[derive(Debug)]
pub struct Example {
    /// The method, the host and the path, and the headers.
    pub request: String,
    /// The differences.
    pub differences: Vec<String>,
}

impl Example {
    /// A request in the words of a report.
    pub(crate) fn request(request: &Request, listener: &str) -> String {
        let target: String = request.target.chars().take(TARGET_MAX).collect();
        let more = if target.len() < request.target.len() { "…" } else { "" };
        let at = if listener.is_empty() { String::new() } else { format!(" at {listener}") };
        let mut text = format!("{} {}{target}{more}{at}", request.method, request.host);
        for line in request.lines() {
            let _ = write!(text, ", {line}");
        }
        printable(text.as_bytes())
    }
}

impl Group {
    fn write(&self, out: &mut String) {
        let _ = writeln!(out, "{} ({} {})", self.what.join("; "), self.count, plural(self.count, "request"));
        if let Some((file, line, text)) = &self.cause.place {
            let _ = writeln!(out, "  decided by  {text} ({file}:{line})");
        }
        if let Some(known) = self.cause.known {
            let _ = writeln!(out, "  meant       {}: {} (docs/differences.md)", known.id, known.row);
        }
        for example in &self.examples {
            let _ = writeln!(out, "  {}", example.request);
            for difference in &example.differences {
                let _ = writeln!(out, "    {difference}");
            }
        }
    }

    fn is_of(&self, cause: &Cause, what: &[String]) -> bool {
        let id = |cause: &Cause| cause.known.map(|known| known.id);
        let is_same = self.cause.place == cause.place && id(&self.cause) == id(cause);
        // Without a place, equal differences probably have one cause.
        is_same && (cause.place.is_some() || self.what == what)
    }
}

impl Findings {
    pub(crate) fn new(untried: Vec<String>) -> Findings {
        Findings { untried, ..Findings::default() }
    }

    /// Notes how the responses to a request differ for one cause.
    pub(crate) fn add(&mut self, cause: Cause, request: String, found: &[Difference]) {
        let what: Vec<String> = found.iter().map(what).collect();
        let differences =
            found.iter().map(|difference| printable(difference.to_string().as_bytes())).collect();
        let example = Example { request, differences };
        let is_full = self.groups.len() >= GROUPS_MAX;
        match self.groups.iter_mut().find(|group| group.is_of(&cause, &what)) {
            Some(group) => {
                group.count += 1;
                group.what.extend(what);
                group.what = each_once(std::mem::take(&mut group.what));
                if group.examples.len() < EXAMPLES_MAX {
                    group.examples.push(example);
                }
            }
            None if !is_full => {
                let what = each_once(what);
                self.groups.push(Group { cause, what, count: 1, examples: vec![example] });
            }
            None => self.note("more causes of differences: not listed".to_owned()),
        }
    }

    /// Notes a difference that the installed server also has to itself.
    pub(crate) fn set_aside(&mut self, difference: &Difference) {
        let what = part(difference);
        match self.aside.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => self.aside.push((what, 1)),
        }
    }

    /// Notes what was not tried.
    pub(crate) fn note(&mut self, text: String) {
        if self.untried.len() < NOTES_MAX {
            self.untried.push(text);
            self.untried = each_once(std::mem::take(&mut self.untried));
        }
    }

    /// Differences that are not meant.
    pub fn unexpected(&self) -> usize {
        self.groups.iter().filter(|group| group.cause.known.is_none()).count()
    }

    /// The verdict in one sentence.
    pub fn verdict(&self) -> String {
        match (self.requests, self.groups.len(), self.unexpected()) {
            (0, ..) => "No request could be compared.".to_owned(),
            (requests, 0, _) => format!("Both servers respond in the same way to all {requests} requests."),
            (requests, meant, 0) => format!(
                "Both servers respond in the same way to {} of {requests} requests. The other differences are meant ({meant} {}).",
                self.equal,
                plural(meant, "cause")
            ),
            (requests, _, unexpected) => format!(
                "The servers respond in the same way to {} of {requests} requests. {unexpected} {} of differences: look at them before you move.",
                self.equal,
                plural(unexpected, "cause")
            ),
        }
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.verdict());
        for group in &self.groups {
            out.push('\n');
            group.write(&mut out);
        }
        if !self.aside.is_empty() {
            let parts: Vec<String> =
                self.aside.iter().map(|(what, count)| format!("{what} ({count})")).collect();
            let _ = writeln!(
                out,
                "\nSet aside, because two responses of the installed server differ: {}",
                parts.join(", ")
            );
        }
        if self.passed > 0 {
            let _ = writeln!(
                out,
                "\n{} {} passed to other servers, by each of the two servers. A GET request may change something there.",
                self.passed,
                if self.passed == 1 { "request was" } else { "requests were" }
            );
        }
        if !self.untried.is_empty() {
            let _ = writeln!(out, "\nNot tried:");
            for text in &self.untried {
                let _ = writeln!(out, "- {text}");
            }
        }
        out
    }

    /// The report as a JSON object.
    pub fn json(&self) -> Value {
        let group = |group: &Group| {
            let examples: Vec<Value> = group
                .examples
                .iter()
                .map(|example| json!({ "request": example.request, "differences": example.differences }))
                .collect();
            let place = group.cause.place.as_ref();
            json!({
                "what": group.what,
                "file": place.map(|(file, ..)| file),
                "line": place.map(|(_, line, _)| line),
                "directive": place.map(|(.., text)| text),
                "meant": group.cause.known.map(|known| known.id),
                "requests": group.count,
                "examples": examples,
            })
        };
        json!({
            "verdict": self.verdict(),
            "requests": self.requests,
            "equal": self.equal,
            "passed": self.passed,
            "unexpected": self.unexpected(),
            "differences": self.groups.iter().map(group).collect::<Vec<_>>(),
            "set_aside": self.aside.iter().map(|(what, count)| json!({ "what": what, "count": count })).collect::<Vec<_>>(),
            "not_tried": self.untried,
        })
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// A difference without what is different in each example.
fn what(difference: &Difference) -> String {
    match difference {
        Difference::Status(expected, got) => format!("status: {got} instead of {expected}"),
        Difference::Missing(name, _) => format!("header: {name} is missing, or has another value"),
        Difference::Extra(name, _) => format!("header: {name} was added, or has another value"),
        other => part(other),
    }
}

/// The part of a response that differs.
fn part(difference: &Difference) -> String {
    match difference {
        Difference::Status(..) => "status".to_owned(),
        Difference::Missing(name, _) | Difference::Extra(name, _) => format!("header {name}"),
        Difference::Body(..) => "content".to_owned(),
        Difference::Trailers => "trailers".to_owned(),
        Difference::Framing(..) => "framing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_grouped_by_cause() {
        let mut findings = Findings { requests: 5, equal: 2, ..Findings::new(vec!["mail: x".to_owned()]) };
        let status = Difference::Status("HTTP/1.1 200 OK".into(), "HTTP/1.1 403 Forbidden".into());
        let place = Some(("nginx.conf".to_owned(), 7, "deny all".to_owned()));
        for path in ["/a", "/b", "/c", "/d"] {
            let request = Example::request(&Request::get("h", path), "*:80");
            let cause = Cause { place: place.clone(), known: None };
            findings.add(cause, request, &[status.clone(), Difference::Body(2, 1)]);
        }
        findings.set_aside(&Difference::Body(1, 2));
        assert_eq!(
            (findings.groups.len(), findings.groups[0].count, findings.groups[0].examples.len()),
            (1, 4, 3)
        );
        let text = findings.text();
        for part in [
            "2 of 5 requests. 1 cause of differences",
            "content (4 requests)\n  decided by  deny all (nginx.conf:7)\n  GET h/a at *:80\n",
            "installed server differ: content (1)",
            "Not tried:\n- mail: x\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert_eq!(findings.json()["differences"][0]["line"], 7);
    }
}

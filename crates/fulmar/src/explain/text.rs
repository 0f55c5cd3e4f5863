//! An explanation for people.

use std::fmt::Write as _;

use contract::Event;
use server::{Content, End};

use super::report::{Answer, Report};

/// The width of the first column.
const WIDTH: usize = 13;

/// How much of a text that is sent is shown, in characters.
const SHOWN_MAX: usize = 200;

/// The whole explanation.
pub(super) fn text(report: &Report<'_>) -> String {
    let request = report.request;
    // Writing to a String cannot fail.
    let mut out = format!("{} {} from {}\n", request.method, request.url, request.from);
    for step in &report.explanation.steps {
        write_step(report, step, 0, &mut out);
    }
    match &report.explanation.end {
        End::Closed => row("end", 0, "the connection is closed without an answer", &mut out),
        End::Passed => row("end", 0, "the answer is the other server's", &mut out),
        End::Answered(head, content) => {
            let answer = Answer::new(head);
            row("answer", 0, &format!("{} {}", answer.status, answer.reason), &mut out);
            for (name, value) in &answer.fields {
                row("", 0, &format!("{name}: {value}"), &mut out);
            }
            match content {
                Content::None => {}
                Content::Made => row("content", 0, "made while it is sent", &mut out),
                Content::File => {
                    // What filters change has no length before it is sent.
                    let is_whole = answer.fields.iter().any(|(name, _)| name == "Content-Length");
                    let made = if is_whole { "" } else { "made while it is sent, of " };
                    row("content", 0, &format!("{made}the file {}", report.file().unwrap_or("?")), &mut out)
                }
                Content::Bytes(bytes) => {
                    let text: String = String::from_utf8_lossy(bytes).chars().take(SHOWN_MAX).collect();
                    row("content", 0, &format!("{} bytes: {}", bytes.len(), text.escape_debug()), &mut out);
                }
            }
        }
    }
    out.push('\n');
    out
}

fn write_step(report: &Report<'_>, step: &Event, depth: usize, out: &mut String) {
    row(step.feature, depth, &step.text, out);
    if let Some(place) = report.place(step.place) {
        row("", depth, &format!("{}:{}: {}", place.file, place.line, place.text), out);
    }
    if let Some(written) = step.member("written") {
        row("", depth, written, out);
    }
    if step.feature == "subrequest" {
        step.considered.iter().for_each(|inner| write_step(report, inner, depth + 1, out));
        return;
    }
    let captures = step.members.iter().filter(|(name, _)| name.starts_with('$'));
    let captures: Vec<String> = captures.map(|(name, value)| format!("{name} = \"{value}\"")).collect();
    if !captures.is_empty() {
        row("", depth, &captures.join(", "), out);
    }
    // What does not match is no surprise: it is counted, unless nothing else is to be said.
    let (matching, others): (Vec<_>, Vec<_>) =
        step.considered.iter().partition(|other| other.member("matches") != Some("no"));
    for other in matching {
        let place = report.place(other.place);
        let place = place.map(|place| format!("{}:{}: {}", place.file, place.line, place.text));
        let name = other.member("name").filter(|name| !name.is_empty());
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        row("", depth, &format!("  not {}{name}: {}", place.unwrap_or_default(), other.text), out);
    }
    if !others.is_empty() {
        let lines: Vec<String> = others
            .iter()
            .filter_map(|other| report.place(other.place))
            .map(|place| format!("{} ({})", place.text.trim_start_matches("location").trim(), place.line))
            .collect();
        row("", depth, &format!("  no match: {}", lines.join(", ")), out);
    }
}

fn row(first: &str, depth: usize, text: &str, out: &mut String) {
    // A long name keeps its distance.
    let gap = if first.len() < WIDTH { "" } else { " " };
    let _ = writeln!(out, "{:depth$}{first:<WIDTH$}{gap}{text}", "", depth = depth * 2);
}

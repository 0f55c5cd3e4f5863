//! hey: so many requests from so many clients, or for so many seconds.

use std::path::Path;

use anyhow::{Context, Result};

use super::reading::{Outcome, even_requests, number, percentile, says};
use super::{Report, Tool};
use crate::model::block::Bar;
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// hey 0.1. It prints times in steps of a tenth of a millisecond. Its HTTP library sends a request again when a kept
/// connection was closed under it, so some failures do not show. Content that could be compressed is asked for as it
/// is, as all other tools ask for it.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Hey,
    program: "hey",
    install: "apt-get install hey",
    version,
    refuses,
    arguments,
    read: |_, text| read(text),
};

/// hey does not say its version.
fn version(program: &Path) -> Option<String> {
    says(program, &["-h"])?.contains("hey [options...]").then(|| "hey".to_owned())
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("hey does not count latency from when a request was due"),
        Order { pipeline: 2.., .. } => Some("hey does not pipeline"),
        Order { tls: Some(tls), .. } if tls.resume => Some("hey resumes no sessions"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments = vec!["-c".to_owned(), order.clients.to_string()];
    match order.amount {
        Amount::Requests(requests) => {
            arguments.extend(["-n".to_owned(), even_requests(requests, order.clients).to_string()]);
        }
        Amount::Seconds(seconds) => arguments.extend(["-z".to_owned(), format!("{seconds}s")]),
    }
    arguments.extend(["-cpus".to_owned(), order.threads.to_string()]);
    arguments.extend(["-disable-compression".to_owned(), "-disable-redirects".to_owned()]);
    if !order.keep_alive {
        arguments.push("-disable-keepalive".into());
    }
    for field in &order.fields {
        arguments.extend(["-H".to_owned(), field.clone()]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

fn read(text: &str) -> Result<Report> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.split_ascii_whitespace().next())
    };
    let rate: f64 = number(value("Requests/sec:").context("hey printed no rate")?)?;
    let mut outcome = Outcome::default();
    let mut right = 0;
    for line in section(text, "Status code distribution:") {
        let (status, count) = line.split_once(']').with_context(|| format!("no status: {line}"))?;
        let count = number::<u64>(count.trim().trim_end_matches("responses"))?;
        outcome.answers += count;
        right += if status.trim_start().starts_with("[2") { count } else { 0 };
    }
    let mut errors = 0;
    for line in section(text, "Error distribution:") {
        let count = line.trim_start().strip_prefix('[').and_then(|line| line.split_once(']'));
        // An error's text may have several lines.
        errors += count.map(|(count, _)| number::<u64>(count)).transpose()?.unwrap_or_default();
    }
    (outcome.right, outcome.failed) = (right, outcome.answers - right + errors);
    // hey's rate counts errors as answers. The time behind it is finer than the one that it prints.
    outcome.total_s = (outcome.answers + errors) as f64 / rate;
    outcome.content_bytes = value("Total data:").map(number).transpose()?;
    if outcome.answers > 0 {
        times(text, &value, &mut outcome)?;
        outcome.histogram = histogram(text, &value)?;
    }
    outcome.report()
}

fn times<'a>(text: &str, value: &dyn Fn(&str) -> Option<&'a str>, outcome: &mut Outcome) -> Result<()> {
    let names = [
        (Figure::MeanMs, "Average:"),
        (Figure::MinMs, "Fastest:"),
        (Figure::MaxMs, "Slowest:"),
        (Figure::ConnectMs, "DNS+dialup:"),
        (Figure::WritingMs, "req write:"),
        (Figure::WaitingMs, "resp wait:"),
        (Figure::ReadingMs, "resp read:"),
    ];
    for (figure, name) in names {
        let seconds = value(name).with_context(|| format!("hey printed no line of {name}"))?;
        outcome.times.push((figure, 1000.0 * number::<f64>(seconds.trim_end_matches(','))?));
    }
    for line in section(text, "Latency distribution:") {
        let (percent, seconds) =
            line.split_once("% in ").with_context(|| format!("no percentile: {line}"))?;
        let seconds: f64 = number(seconds.trim_end_matches("secs"))?;
        outcome.times.extend(percentile(percent.trim()).map(|figure| (figure, 1000.0 * seconds)));
    }
    Ok(())
}

/// hey's bars are equally wide, from the fastest request to the slowest. Their printed ends are rounded so much that
/// several are the same; they are computed anew.
fn histogram<'a>(text: &str, value: &dyn Fn(&str) -> Option<&'a str>) -> Result<Vec<Bar>> {
    let bound = |name: &str| number::<f64>(value(name).unwrap_or_default());
    let (fastest, slowest) = (bound("Fastest:")?, bound("Slowest:")?);
    let mut counts = Vec::new();
    for line in section(text, "Response time histogram:") {
        let count = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        counts.push(number::<u64>(count.with_context(|| format!("no bar: {line}"))?.0)?);
    }
    let last = counts.len().saturating_sub(1).max(1) as f64;
    let end = |at: usize| 1000.0 * (fastest + (slowest - fastest) * at as f64 / last);
    Ok(counts.into_iter().enumerate().map(|(at, count)| Bar { upto_ms: end(at), count }).collect())
}

/// The lines below a heading, up to an empty one.
fn section<'a>(text: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().skip_while(move |line| *line != heading);
    lines.skip(1).take_while(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const CLOSED: &str = include_str!("../../../tests/outputs/hey-closed.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/hey-mixed.txt");
    const DROPPED: &str = include_str!("../../../tests/outputs/hey-dropped.txt");
    const REFUSED: &str = include_str!("../../../tests/outputs/hey-refused.txt");

    #[test]
    fn a_good_run() {
        let report = read(CLOSED).unwrap();
        assert_eq!(report.requests, 2000);
        near(report.figures[&Figure::RequestsPerS], 17_742.699_1);
        assert!((report.figures[&Figure::TotalS] - 0.1127).abs() < 0.0001);
        near(report.figures[&Figure::MeanMs], 1.1);
        near(report.figures[&Figure::MaxMs], 3.9);
        near(report.figures[&Figure::P99Ms], 3.1);
        near(report.figures[&Figure::ConnectMs], 0.2);
        near(report.figures[&Figure::WaitingMs], 0.5);
        near(report.figures[&Figure::WritingMs], 0.1);
        near(report.figures[&Figure::ReadingMs], 0.2);
        near(report.figures[&Figure::ContentBytes], 1024.0);
        assert_eq!(report.histogram.len(), 11);
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 2000);
        near(report.histogram[10].upto_ms, 3.9);
    }

    #[test]
    fn failures() {
        let mixed = read(MIXED).unwrap();
        assert_eq!((mixed.requests, mixed.right, mixed.figures[&Figure::Failed]), (300, 240, 60.0));
        assert!(!mixed.figures.contains_key(&Figure::MinMs), "0.0000 s is no time");
        let dropped = read(DROPPED).unwrap();
        assert_eq!((dropped.requests, dropped.figures[&Figure::Failed]), (293, 7.0));
        near(dropped.figures[&Figure::RequestsPerS], 17_645.222_7 * 293.0 / 300.0);
        let refused = read(REFUSED).unwrap();
        assert_eq!((refused.requests, refused.figures[&Figure::Failed]), (0, 100.0));
        near(refused.figures[&Figure::RequestsPerS], 0.0);
        assert!(read("").is_err());
        assert!(read(&CLOSED.replace("Average", "Mean")).is_err());
    }

    #[test]
    fn its_flags() {
        let words = arguments(&order(400, Amount::Requests(30_000))).unwrap().join(" ");
        assert!(words.starts_with("-c 400 -n 30000 ") && !words.contains("keepalive"), "{words}");
        let closed = Order { keep_alive: false, ..order(3, Amount::Requests(10)) };
        assert!(arguments(&closed).unwrap().join(" ").contains("-n 12"));
        assert!(arguments(&closed).unwrap().contains(&"-disable-keepalive".to_owned()));
    }
}

//! The lab's own generator, `fulmar-lab load`.

use std::path::Path;

use anyhow::{Context, Result};

use super::reading::{Outcome, Received, says};
use super::{Report, Tool};
use crate::measure::load::document::{Document, Point, Times};
use crate::model::figure::{Figure, Phase, Phases, Spread};
use crate::model::order::{Amount, Order, ToolName};

/// The generator is this program itself, so it is always there, and it takes every order.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::FulmarLab,
    program: "fulmar-lab",
    install: "cargo install --path lab",
    version,
    refuses: |_| None,
    arguments,
    read: |_, text| read(text),
};

/// So many microseconds a thread of the generator polls before it sleeps: longer than a fast server needs for its next
/// response to one of many clients, and so short that a thread sleeps while a slow server works.
const POLL_US: u32 = 50;

fn version(program: &Path) -> Option<String> {
    Some(says(program, &["--version"])?.trim().to_owned()).filter(|version| !version.is_empty())
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments: Vec<String> = vec!["load".into(), "--json".into()];
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("-c", order.clients.to_string());
    add("-t", order.threads.max(1).to_string());
    match order.amount {
        Amount::Requests(requests) => add("-n", requests.to_string()),
        Amount::Seconds(seconds) => add("-d", seconds.to_string()),
    }
    if let Some(rate) = order.rate {
        add("-R", rate.to_string());
    }
    if order.has_own_cores && order.rate.is_none() {
        add("--poll", POLL_US.to_string());
    }
    if order.pipeline > 1 {
        add("--pipeline", order.pipeline.to_string());
    }
    if let Some(tls) = order.tls {
        add("--tls-resume", if tls.resume { "on" } else { "off" }.into());
    }
    if let Some(numbers) = order.numbers {
        add("--numbers", numbers.to_string());
    }
    if let Some(bytes) = order.body_bytes {
        add("--body", bytes.to_string());
    }
    for field in &order.fields {
        add("-H", field.clone());
    }
    if order.keep_alive {
        arguments.push("-k".into());
    }
    arguments.push(order.url());
    Ok(arguments)
}

fn read(text: &str) -> Result<Report> {
    let line = text.lines().last().context("the generator printed nothing")?;
    let document: Document = serde_json::from_str(line)?;
    let point = document.points.first().context("the generator measured nothing")?;
    let outcome = Outcome {
        answers: point.requests,
        right: point.answered_rightly(),
        failed: point.failed.total,
        tells_apart: point.bytes.right.is_some(),
        total_s: point.seconds,
        polled_s: point.polled_s,
        received: Received::Exactly(point.bytes.right.map_or(point.bytes.total, |right| right[0])),
        content_bytes: Some(point.bytes.right.map_or(point.bytes.content, |right| right[1])),
        times: times(point),
        phases: phases(point),
        histogram: point.histogram.clone(),
    };
    outcome.report()
}

fn times(point: &Point) -> Vec<(Figure, f64)> {
    let (latency, phases) = (&point.latency, &point.phases);
    let mut times = vec![
        (Figure::MeanMs, latency.mean_ms),
        (Figure::DeviationMs, latency.deviation_ms),
        (Figure::MinMs, latency.min_ms),
        (Figure::MaxMs, latency.max_ms),
        (Figure::ConnectMs, phases.connect.mean_ms),
        (Figure::WritingMs, phases.write.mean_ms),
        (Figure::WaitingMs, phases.waiting.mean_ms),
        (Figure::ReadingMs, phases.read.mean_ms),
        (Figure::ProcessingMs, phases.processing.mean_ms),
    ];
    let percentile = |percent: &u32| latency.percentiles.get(&format!("p{percent}"));
    let named = Figure::PERCENTILES.iter().map(|(percent, figure)| (*figure, percentile(percent)));
    times.extend(named.filter_map(|(figure, ms)| Some((figure, *ms?))));
    times
}

/// As ab's table has them.
fn phases(point: &Point) -> Phases {
    let phases = &point.phases;
    let spread = |times: &Times| Spread {
        min_ms: times.min_ms,
        mean_ms: times.mean_ms,
        deviation_ms: times.deviation_ms,
        median_ms: times.median_ms,
        max_ms: times.max_ms,
    };
    Phases::from([
        (Phase::Connect, spread(&phases.connect)),
        (Phase::Processing, spread(&phases.processing)),
        (Phase::Waiting, spread(&phases.waiting)),
        (Phase::Total, spread(&point.latency)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::order::{Protocol, Tls};

    /// `fulmar-lab load --json -c 2 -t 1 -n 50 -k http://127.0.0.1:18460/1k`
    const OUTPUT: &str = include_str!("../../../tests/outputs/fulmar-lab.json");

    #[test]
    fn reads_what_it_prints() {
        let report = read(OUTPUT).unwrap();
        assert_eq!(report.requests, 50);
        assert_eq!(report.figures[&Figure::Failed], 0.0);
        assert_eq!(report.figures[&Figure::ContentBytes], 1024.0);
        assert_eq!(report.figures[&Figure::BytesPerAnswer], 1264.0);
        assert_eq!(report.figures[&Figure::RequestsPerS], 50.0 / report.figures[&Figure::TotalS]);
        let rising =
            [Figure::MinMs, Figure::P10Ms, Figure::P50Ms, Figure::P90Ms, Figure::P99Ms, Figure::MaxMs];
        assert_eq!(report.phases.keys().copied().collect::<Vec<_>>(), Phase::ALL);
        assert_eq!(report.phases[&Phase::Total].max_ms, report.figures[&Figure::MaxMs]);
        assert!(
            rising.windows(2).all(|pair| report.figures[&pair[0]] <= report.figures[&pair[1]]),
            "{report:?}"
        );
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 50);
        assert!(read("").is_err() && read("{\"held\":1}").is_err());
    }

    #[test]
    fn orders_become_options() {
        let order = Order {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/1k".into(),
            clients: 64,
            amount: Amount::Seconds(2.5),
            keep_alive: true,
            pipeline: 4,
            tls: Some(Tls { resume: true }),
            protocol: Protocol::Http1,
            rate: Some(100.0),
            fields: vec!["Accept-Encoding: gzip".into()],
            numbers: Some(9),
            body_bytes: None,
            threads: 2,
            has_own_cores: true,
            folder: ".".into(),
        };
        assert_eq!(
            arguments(&order).unwrap().join(" "),
            "load --json -c 64 -t 2 -d 2.5 -R 100 --pipeline 4 --tls-resume on --numbers 9 -H Accept-Encoding: gzip -k \
             https://127.0.0.1:80/1k"
        );
        let order = Order { amount: Amount::Requests(7), keep_alive: false, tls: None, pipeline: 1, ..order };
        let order = Order { rate: None, fields: Vec::new(), body_bytes: Some(65_536), ..order };
        let beside = arguments(&Order { has_own_cores: false, ..order.clone() }).unwrap();
        assert!(!beside.contains(&"--poll".to_owned()), "it would take time from the server");
        assert_eq!(
            arguments(&order).unwrap().join(" "),
            "load --json -c 64 -t 2 -n 7 --poll 50 --numbers 9 --body 65536 http://127.0.0.1:80/1k"
        );
    }
}

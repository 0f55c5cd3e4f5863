//! autocannon: a closed loop for some seconds, in Node.js.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::reading::{Outcome, Received, json, says, word_after};
use super::{Report, Tool};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// autocannon 9. It prints times in whole milliseconds. A run of a number of requests ends with the next whole second, so its
/// rate would be too low: the lab asks for seconds.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Autocannon,
    program: "autocannon",
    install: "npm install --global autocannon",
    version,
    refuses,
    arguments,
    read: |_, text| read(text),
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    Some(format!("autocannon {}", word_after(&text, "autocannon ")?.trim_start_matches('v')))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("autocannon does not count latency from when a request was due"),
        Order { tls: Some(_), .. } => Some("autocannon is not asked to speak TLS"),
        Order { keep_alive: false, .. } => Some("autocannon keeps its connections"),
        Order { amount: Amount::Requests(_), .. } => Some("autocannon counts whole seconds, not requests"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let Amount::Seconds(seconds) = order.amount else {
        anyhow::bail!("autocannon counts whole seconds, not requests");
    };
    let mut arguments: Vec<String> = ["--json", "--no-progress"].map(str::to_owned).into();
    arguments.extend(["--connections".to_owned(), order.clients.to_string()]);
    arguments.extend(["--duration".to_owned(), seconds.ceil().max(1.0).to_string()]);
    arguments.extend(["--pipelining".to_owned(), order.pipeline.to_string()]);
    if order.threads > 1 && order.clients >= order.threads {
        arguments.extend(["--workers".to_owned(), order.threads.to_string()]);
    }
    for field in &order.fields {
        arguments.extend(["--headers".to_owned(), field.clone()]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

#[derive(Deserialize)]
struct Printed {
    samples: u32,
    #[serde(rename = "sampleInt")]
    sample_ms: f64,
    /// Connections that failed, and requests without a response in time.
    errors: u64,
    non2xx: u64,
    #[serde(rename = "2xx")]
    right: u64,
    latency: Latency,
    throughput: Throughput,
}

#[derive(Deserialize)]
struct Latency {
    average: f64,
    stddev: f64,
    min: f64,
    max: f64,
    p50: f64,
    p75: f64,
    p90: f64,
    p99: f64,
}

#[derive(Deserialize)]
struct Throughput {
    total: u64,
}

fn read(text: &str) -> Result<Report> {
    let printed: Printed = json(text).context("what autocannon printed")?;
    let Latency { average, stddev, min, max, p50, p75, p90, p99 } = printed.latency;
    let outcome = Outcome {
        answers: printed.right + printed.non2xx,
        right: printed.right,
        failed: printed.non2xx + printed.errors,
        // It counts what came within its samples; starting its clients comes before them.
        total_s: f64::from(printed.samples) * printed.sample_ms / 1000.0,
        received: Received::Exactly(printed.throughput.total),
        times: vec![
            (Figure::MeanMs, average),
            (Figure::DeviationMs, stddev),
            (Figure::MinMs, min),
            (Figure::MaxMs, max),
            (Figure::P50Ms, p50),
            (Figure::P75Ms, p75),
            (Figure::P90Ms, p90),
            (Figure::P99Ms, p99),
        ],
        ..Outcome::default()
    };
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const KEPT: &str = include_str!("../../../tests/outputs/autocannon-kept.txt");
    const NOT_FOUND: &str = include_str!("../../../tests/outputs/autocannon-not-found.txt");
    const REFUSED: &str = include_str!("../../../tests/outputs/autocannon-refused.txt");

    #[test]
    fn a_good_run() {
        let report = read(KEPT).unwrap();
        assert_eq!((report.requests, report.right), (154, 154));
        near(report.figures[&Figure::RequestsPerS], 154.0);
        near(report.figures[&Figure::BytesPerAnswer], 1138.0);
        near(report.figures[&Figure::MeanMs], 52.77);
        near(report.figures[&Figure::P99Ms], 203.0);
        near(report.figures[&Figure::Failed], 0.0);
    }

    #[test]
    fn failures() {
        let missing = read(NOT_FOUND).unwrap();
        assert_eq!((missing.requests, missing.right, missing.figures[&Figure::Failed]), (800, 0, 800.0));
        assert!(!missing.figures.contains_key(&Figure::P50Ms), "times would be those of failures");
        let refused = read(REFUSED).unwrap();
        assert_eq!((refused.requests, refused.figures[&Figure::Failed]), (0, 648.0));
        assert!(read("").is_err());
    }

    #[test]
    fn says_what_it_cannot() {
        let timed = order(8, Amount::Seconds(1.5));
        assert!(refuses(&timed).is_none());
        assert!(refuses(&order(8, Amount::Requests(5))).is_some());
        assert!(refuses(&Order { rate: Some(1.0), ..timed.clone() }).is_some());
        assert!(refuses(&Order { keep_alive: false, ..timed.clone() }).is_some());
        let arguments = arguments(&timed).unwrap().join(" ");
        assert!(arguments.contains("--connections 8 --duration 2 --pipelining 1 http://"), "{arguments}");
    }
}

//! oha: so many requests or seconds, as fast as possible or at a constant rate.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::reading::{Outcome, json, number, percentile, says, word_after};
use super::{Report, Tool};
use crate::model::block::Bar;
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// oha 1. At a constant rate, latency is counted from when a request was due.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Oha,
    program: "oha",
    install: "cargo install oha --locked --root target/tools",
    version,
    refuses,
    arguments,
    read,
};

/// What oha itself cuts off at the end of a timed run is no failure of the server.
const OWN_END: &str = "aborted due to deadline";

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    Some(format!("oha {}", word_after(&text, "oha ")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { pipeline: 2.., .. } => Some("oha does not pipeline"),
        Order { tls: Some(tls), .. } if tls.resume => Some("oha resumes no sessions"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments: Vec<String> =
        ["--no-tui", "--output-format", "json", "--redirect", "0", "--insecure"].map(Into::into).into();
    match order.amount {
        Amount::Requests(requests) => arguments.extend(["-n".to_owned(), requests.to_string()]),
        Amount::Seconds(seconds) => arguments.extend(["-z".to_owned(), format!("{seconds}s")]),
    }
    arguments.extend(["-c".to_owned(), order.clients.to_string()]);
    arguments.extend(["--worker-threads".to_owned(), order.threads.to_string()]);
    if let Some(rate) = order.rate {
        arguments.extend(["-q".to_owned(), rate.to_string(), "--latency-correction".to_owned()]);
    }
    arguments.push("--disable-compression".into());
    if !order.keep_alive {
        arguments.push("--disable-keepalive".into());
    }
    for field in &order.fields {
        arguments.extend(["-H".to_owned(), field.clone()]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

/// Times are in seconds, and null where there is none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    summary: Summary,
    response_time_histogram: BTreeMap<String, u64>,
    latency_percentiles: BTreeMap<String, Option<f64>>,
    details: Details,
    status_code_distribution: BTreeMap<String, u64>,
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    total: f64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    average: Option<f64>,
    total_data: u64,
}

#[derive(Deserialize)]
struct Details {
    #[serde(rename = "DNSDialup")]
    dial: Detail,
    #[serde(rename = "firstByte")]
    first_byte: Option<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    average: Option<f64>,
}

fn read(order: &Order, text: &str) -> Result<Report> {
    let printed: Printed = json(text).context("what oha printed")?;
    let statuses = &printed.status_code_distribution;
    let answers: u64 = statuses.values().sum();
    let right: u64 = statuses.iter().filter(|(status, _)| status.starts_with('2')).map(|(_, n)| n).sum();
    let errors = printed.error_distribution.iter().filter(|(error, _)| *error != OWN_END);
    let mut times = vec![
        (Figure::MeanMs, printed.summary.average),
        (Figure::MinMs, printed.summary.fastest),
        (Figure::MaxMs, printed.summary.slowest),
        (Figure::ConnectMs, printed.details.dial.average),
    ];
    // It counts the first byte from before the connection is opened.
    if let Some(first_byte) = printed.details.first_byte.filter(|_| order.keep_alive) {
        times.push((Figure::WaitingMs, first_byte.average));
    }
    for (name, seconds) in printed.latency_percentiles {
        times.extend(percentile(name.trim_start_matches('p')).map(|figure| (figure, seconds)));
    }
    let mut histogram = Vec::new();
    for (upto, count) in &printed.response_time_histogram {
        histogram.push(Bar { upto_ms: 1000.0 * number::<f64>(upto)?, count: *count });
    }
    histogram.sort_by(|one, other| one.upto_ms.total_cmp(&other.upto_ms));
    let outcome = Outcome {
        answers,
        failed: answers - right + errors.map(|(_, count)| count).sum::<u64>(),
        total_s: printed.summary.total,
        content_bytes: Some(printed.summary.total_data),
        times: times.into_iter().filter_map(|(figure, seconds)| Some((figure, 1000.0 * seconds?))).collect(),
        histogram,
        ..Outcome::default()
    };
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/oha-good.json");
    const MIXED: &str = include_str!("../../../tests/outputs/oha-mixed.json");
    const DROPPED: &str = include_str!("../../../tests/outputs/oha-dropped.json");
    const REFUSED: &str = include_str!("../../../tests/outputs/oha-refused.json");
    const CONSTANT: &str = include_str!("../../../tests/outputs/oha-constant.json");

    fn reading(text: &str) -> Result<Report> {
        read(&order(20, Amount::Requests(2000)), text)
    }

    #[test]
    fn a_good_run() {
        let report = reading(GOOD).unwrap();
        assert_eq!(report.requests, 2000);
        near(report.figures[&Figure::RequestsPerS], 6_420.292_974);
        near(report.figures[&Figure::MeanMs], 3.024_133);
        near(report.figures[&Figure::P25Ms], 1.807_456);
        near(report.figures[&Figure::MaxMs], 11.314_425);
        near(report.figures[&Figure::ConnectMs], 5.068_280_5);
        near(report.figures[&Figure::ContentBytes], 1024.0);
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 2000);
        assert!(report.histogram.windows(2).all(|pair| pair[0].upto_ms < pair[1].upto_ms));
        assert_eq!(reading(CONSTANT).unwrap().figures[&Figure::Failed], 0.0);
    }

    #[test]
    fn failures() {
        let failed =
            |text: &str| reading(text).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(MIXED).unwrap(), (300, 61.0));
        assert_eq!(failed(DROPPED).unwrap(), (241, 59.0));
        assert_eq!(failed(REFUSED).unwrap(), (0, 100.0));
        assert!(failed("").is_err());
        assert!(failed(&GOOD.replace("\"total\"", "\"sum\"")).is_err());
    }

    #[test]
    fn its_flags() {
        let constant = Order { rate: Some(100.0), ..order(5, Amount::Seconds(2.0)) };
        let words = arguments(&constant).unwrap().join(" ");
        assert!(words.contains("-z 2s -c 5 --worker-threads 1 -q 100 --latency-correction"), "{words}");
        assert!(refuses(&constant).is_none());
    }
}

//! autocannon: so many requests or seconds, from Node.js.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::reading::{Outcome, Received, even_threads, json, says};
use super::{Report, Tool};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// autocannon 8 and later. It measures in whole milliseconds. At a constant rate, latency is counted from when a
/// request was due. A request whose connection was closed without an answer is in none of its counts of errors; it
/// shows only where fewer were answered than sent.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Autocannon,
    program: "autocannon",
    install: "npm install --global autocannon",
    version,
    refuses,
    arguments,
    read,
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    let version = text.lines().find_map(|line| line.strip_prefix("autocannon v"))?;
    Some(format!("autocannon {version}"))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { keep_alive: false, .. } => Some("autocannon loses answers on connections for one request"),
        Order { tls: Some(tls), .. } if tls.resume => Some("autocannon resumes no sessions"),
        Order { rate: Some(rate), clients, .. } if *rate < f64::from(*clients) => {
            Some("autocannon sends at least one request a second from each client")
        }
        Order { amount: Amount::Requests(requests), clients, .. } if *requests < u64::from(*clients) => {
            Some("autocannon takes no more clients than requests")
        }
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments = vec!["--json".to_owned(), "--no-progress".to_owned()];
    arguments.extend(["-c".to_owned(), order.clients.to_string()]);
    match order.amount {
        // A run ends with one of its samples, which are a second apart otherwise.
        Amount::Requests(requests) => {
            arguments.extend(["-a".to_owned(), requests.to_string(), "-L".to_owned(), "10".to_owned()]);
        }
        Amount::Seconds(seconds) => {
            arguments.extend(["-d".to_owned(), seconds.ceil().max(1.0).to_string()]);
        }
    }
    if let Some(rate) = order.rate {
        arguments.extend(["-R".to_owned(), format!("{rate:.0}")]);
    }
    if order.pipeline > 1 {
        arguments.extend(["-p".to_owned(), order.pipeline.to_string()]);
    }
    let workers = even_threads(order.threads, order.clients);
    if workers > 1 {
        arguments.extend(["-w".to_owned(), workers.to_string()]);
    }
    for field in &order.fields {
        let (name, value) = field.split_once(':').with_context(|| format!("no field: {field}"))?;
        arguments.extend(["-H".to_owned(), format!("{}={}", name.trim(), value.trim())]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

#[derive(Deserialize)]
struct Printed {
    duration: f64,
    /// Connections that failed, and requests that were not answered in time.
    errors: u64,
    mismatches: u64,
    #[serde(rename = "2xx")]
    right: u64,
    latency: Latency,
    requests: Requests,
    throughput: Throughput,
}

/// Milliseconds.
#[derive(Deserialize)]
struct Latency {
    mean: f64,
    stddev: f64,
    max: f64,
    p10: f64,
    p25: f64,
    p50: f64,
    p75: f64,
    p90: f64,
    p99: f64,
}

#[derive(Deserialize)]
struct Requests {
    total: u64,
    sent: u64,
}

#[derive(Deserialize)]
struct Throughput {
    total: u64,
}

fn read(order: &Order, text: &str) -> Result<Report> {
    let printed: Printed = json(text).context("what autocannon printed")?;
    let answers = printed.requests.total;
    ensure!(printed.right <= answers, "more right answers than answers");
    // When the time is over, requests are still on their way.
    let unanswered = match order.amount {
        Amount::Requests(_) => printed.requests.sent.saturating_sub(answers),
        Amount::Seconds(_) => 0,
    };
    let latency = &printed.latency;
    let outcome = Outcome {
        answers,
        failed: answers - printed.right + printed.mismatches + printed.errors.max(unanswered),
        total_s: printed.duration,
        received: Received::Exactly(printed.throughput.total),
        // Its smallest latency is the smallest above zero.
        times: vec![
            (Figure::MeanMs, latency.mean),
            (Figure::DeviationMs, latency.stddev),
            (Figure::MaxMs, latency.max),
            (Figure::P10Ms, latency.p10),
            (Figure::P25Ms, latency.p25),
            (Figure::P50Ms, latency.p50),
            (Figure::P75Ms, latency.p75),
            (Figure::P90Ms, latency.p90),
            (Figure::P99Ms, latency.p99),
        ],
        ..Outcome::default()
    };
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/autocannon-good.json");
    const MIXED: &str = include_str!("../../../tests/outputs/autocannon-mixed.json");
    const DROPPED: &str = include_str!("../../../tests/outputs/autocannon-dropped.json");
    const REFUSED: &str = include_str!("../../../tests/outputs/autocannon-refused.json");
    const TIMED: &str = include_str!("../../../tests/outputs/autocannon-timed.json");

    fn reading(text: &str) -> Result<Report> {
        read(&order(20, Amount::Requests(2000)), text)
    }

    #[test]
    fn a_good_run() {
        let report = reading(GOOD).unwrap();
        assert_eq!(report.requests, 2000);
        assert!(report.figures[&Figure::TotalS] < 1.0, "not the next whole second");
        assert_eq!(report.figures[&Figure::Failed], 0.0);
        near(report.figures[&Figure::BytesPerAnswer], 1264.0);
        let timed = read(&order(20, Amount::Seconds(1.0)), TIMED).unwrap();
        assert_eq!((timed.requests, timed.figures[&Figure::Failed]), (59_305, 0.0));
        near(timed.figures[&Figure::MeanMs], 0.14);
        near(timed.figures[&Figure::P99Ms], 2.0);
        assert!(!timed.figures.contains_key(&Figure::P50Ms), "0 ms is below what it sees");
    }

    #[test]
    fn failures() {
        let failed =
            |text: &str| reading(text).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(MIXED).unwrap(), (300, 61.0));
        assert_eq!(failed(DROPPED).unwrap(), (244, 56.0), "of which it says nothing itself");
        assert_eq!(failed(REFUSED).unwrap(), (0, 100.0));
        assert!(failed("").is_err());
        assert!(failed(&GOOD.replace("\"duration\"", "\"time\"")).is_err());
    }

    #[test]
    fn its_flags() {
        let constant = Order { rate: Some(100.0), ..order(5, Amount::Seconds(2.0)) };
        assert!(refuses(&constant).is_none());
        let words = arguments(&Order { fields: vec!["A: b".into()], ..constant.clone() }).unwrap().join(" ");
        assert_eq!(words, "--json --no-progress -c 5 -d 2 -R 100 -H A=b http://127.0.0.1:80/1k");
        assert!(refuses(&Order { keep_alive: false, ..constant }).is_some());
    }
}

//! weighttp: so many requests, on several threads.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::reading::{Outcome, Received, json, percentile, says, word_after};
use super::{Report, Tool};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// weighttp 0.5, which prints times; before it printed none. It does not return from a run where the server closes
/// connections without an answer, so it needs a time limit.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Weighttp,
    program: "weighttp",
    install: "meson setup build && ninja -C build install in a checkout of git.lighttpd.net/lighttpd/weighttp \
        (no registry of packages has it)",
    version,
    refuses,
    arguments,
    read: |_, text| read(text),
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["-V"])?;
    Some(format!("weighttp {}", word_after(&text, "weighttp ")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("weighttp knows no constant rate"),
        Order { tls: Some(_), .. } => Some("weighttp does not speak TLS"),
        Order { amount: Amount::Seconds(_), .. } => Some("weighttp counts requests, not seconds"),
        Order { amount: Amount::Requests(requests), clients, .. } if *requests < u64::from(*clients) => {
            Some("weighttp takes no more clients than requests")
        }
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let Amount::Requests(requests) = order.amount else {
        anyhow::bail!("weighttp counts requests, not seconds");
    };
    let mut arguments = vec!["-n".to_owned(), requests.to_string()];
    arguments.extend(["-c".to_owned(), order.clients.to_string()]);
    arguments.extend(["-t".to_owned(), order.threads.min(order.clients).to_string()]);
    if order.keep_alive {
        arguments.push("-k".into());
    }
    if order.pipeline > 1 {
        arguments.extend(["-K".to_owned(), order.pipeline.to_string()]);
    }
    for field in &order.fields {
        arguments.extend(["-H".to_owned(), field.clone()]);
    }
    if order.address.is_ipv6() {
        arguments.push("-6".into());
    }
    arguments.push(order.url());
    Ok(arguments)
}

#[derive(Deserialize)]
struct Printed {
    secs_elapsed: f64,
    request_counts: Requests,
    response_counts: Responses,
    status_codes: BTreeMap<String, u64>,
    traffic: Traffic,
    connect_times: Times,
    time_to_first_byte: Times,
    total_times: Times,
}

#[derive(Deserialize)]
struct Requests {
    retired: u64,
}

#[derive(Deserialize)]
struct Responses {
    pass: u64,
}

#[derive(Deserialize)]
struct Traffic {
    bytes_total: u64,
    bytes_body: u64,
}

/// Times in microseconds; percentiles are called `50%`.
#[derive(Deserialize)]
struct Times {
    avg: f64,
    stddev: f64,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

fn read(text: &str) -> Result<Report> {
    let printed: Printed = json(text).context("what weighttp printed")?;
    let total = &printed.total_times;
    let mut times = vec![
        (Figure::MeanMs, total.avg),
        (Figure::DeviationMs, total.stddev),
        (Figure::ConnectMs, printed.connect_times.avg),
        (Figure::WaitingMs, printed.time_to_first_byte.avg),
    ];
    for (name, value) in &total.rest {
        let Some(percent) = name.strip_suffix('%') else { continue };
        let us = value.as_f64().with_context(|| format!("no time: {value}"))?;
        let figure = if percent == "0" { Some(Figure::MinMs) } else { percentile(percent) };
        times.extend(figure.map(|figure| (figure, us)));
    }
    let outcome = Outcome {
        answers: printed.status_codes.values().sum(),
        right: printed.response_counts.pass,
        failed: printed.request_counts.retired.saturating_sub(printed.response_counts.pass),
        total_s: printed.secs_elapsed,
        received: Received::Exactly(printed.traffic.bytes_total),
        content_bytes: Some(printed.traffic.bytes_body),
        times: times.into_iter().map(|(figure, us)| (figure, us / 1000.0)).collect(),
        ..Outcome::default()
    };
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const KEPT: &str = include_str!("../../../tests/outputs/weighttp-kept.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/weighttp-mixed.txt");
    const REFUSED: &str = include_str!("../../../tests/outputs/weighttp-refused.txt");

    #[test]
    fn a_good_run() {
        let report = read(KEPT).unwrap();
        assert_eq!(report.requests, 2000);
        near(report.figures[&Figure::RequestsPerS], 2000.0 / 0.026_219);
        near(report.figures[&Figure::MeanMs], 0.252);
        near(report.figures[&Figure::ConnectMs], 0.417);
        near(report.figures[&Figure::WaitingMs], 0.248);
        near(report.figures[&Figure::MinMs], 0.016);
        near(report.figures[&Figure::P80Ms], 0.266);
        near(report.figures[&Figure::P99Ms], 0.672);
        near(report.figures[&Figure::MaxMs], 0.874);
        near(report.figures[&Figure::BytesPerAnswer], 1264.0);
    }

    #[test]
    fn failures() {
        let failed = |text: &str| read(text).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(MIXED).unwrap(), (300, 62.0));
        assert_eq!(read(MIXED).unwrap().right, 238);
        assert_eq!(failed(REFUSED).unwrap(), (0, 100.0));
        assert_eq!(failed(&format!("{MIXED}\nwarning: on the other output\n")).unwrap(), (300, 62.0));
        assert!(!read(REFUSED).unwrap().figures.contains_key(&Figure::MeanMs));
        assert!(failed("").is_err());
        assert!(failed(&KEPT.replace("secs_elapsed", "secs")).is_err());
    }

    #[test]
    fn its_flags() {
        let words = arguments(&order(10, Amount::Requests(100_000))).unwrap().join(" ");
        assert_eq!(words, "-n 100000 -c 10 -t 1 -k http://127.0.0.1:80/1k");
        assert!(refuses(&order(10, Amount::Seconds(1.0))).is_some());
    }
}

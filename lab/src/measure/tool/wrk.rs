//! wrk: a closed loop for some seconds.

use std::path::Path;

use anyhow::{Context, Result};

use super::Tool;
use super::reading::{Outcome, Received, bytes, even_threads, ms, number, percentile, says, word_after};
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// wrk 4. It knows no number of requests, and it measures latency without regard to when a request was due.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Wrk,
    program: "wrk",
    install: "apt-get install wrk",
    version,
    refuses,
    arguments,
    read: |_, text| outcome(text)?.report(),
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    // Debian puts its name in front.
    Some(format!("wrk {}", word_after(&text, "wrk ")?.trim_start_matches("debian/")))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("wrk knows no constant rate"),
        Order { pipeline: 2.., .. } => Some("wrk pipelines only with a script"),
        Order { tls: Some(tls), .. } if tls.resume => Some("wrk resumes no sessions"),
        Order { amount: Amount::Requests(_), .. } => Some("wrk counts seconds, not requests"),
        _ => None,
    }
}

pub(super) fn arguments(order: &Order) -> Result<Vec<String>> {
    let Amount::Seconds(seconds) = order.amount else {
        anyhow::bail!("wrk counts seconds, not requests");
    };
    let mut arguments = vec![
        format!("-t{}", even_threads(order.threads, order.clients)),
        format!("-c{}", order.clients),
        format!("-d{}s", seconds.ceil().max(1.0)),
        "--latency".into(),
    ];
    let close = (!order.keep_alive).then(|| "Connection: close".to_owned());
    for field in order.fields.iter().cloned().chain(close) {
        arguments.extend(["-H".to_owned(), field]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

pub(super) fn outcome(text: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut rate, mut wrong) = (None, 0);
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["Latency", "Distribution", ..] => {}
            ["Latency", mean, deviation, max, _] => {
                let figures = [Figure::MeanMs, Figure::DeviationMs, Figure::MaxMs];
                for (figure, time) in figures.into_iter().zip([mean, deviation, max]) {
                    outcome.times.push((figure, ms(time)?));
                }
            }
            [percent, time] if percent.ends_with('%') => {
                let figure =
                    percentile(percent.trim_end_matches('%')).filter(|found| *found != Figure::MaxMs);
                outcome.times.extend(figure.map(|figure| ms(time).map(|time| (figure, time))).transpose()?);
            }
            [count, "requests", "in", time, read, "read"] => {
                outcome.answers = number(count)?;
                outcome.total_s = ms(time.trim_end_matches(','))? / 1000.0;
                outcome.received = Received::About(bytes(read)?);
            }
            ["Requests/sec:", printed] => rate = Some(number::<f64>(printed)?),
            ["Socket", "errors:", "connect", connect, "read", read, "write", write, "timeout", timeout] => {
                for count in [connect, read, write, timeout] {
                    outcome.failed += number::<u64>(count.trim_end_matches(','))?;
                }
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => wrong = number::<u64>(count)?,
            _ => {}
        }
    }
    let rate = rate.context("wrk printed no rate")?;
    if rate > 0.0 {
        // The time that it prints has three digits; the rate was made from a finer one.
        outcome.total_s = outcome.answers as f64 / rate;
    }
    outcome.failed += wrong;
    outcome.right = outcome.answers.saturating_sub(wrong);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/wrk-good.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/wrk-mixed.txt");
    const DROPPED: &str = include_str!("../../../tests/outputs/wrk-dropped.txt");

    fn read(text: &str) -> Result<super::super::Report> {
        outcome(text)?.report()
    }

    #[test]
    fn a_good_run() {
        let report = read(GOOD).unwrap();
        assert_eq!(report.requests, 115_959);
        near(report.figures[&Figure::RequestsPerS], 105_431.07);
        near(report.figures[&Figure::MeanMs], 0.19944);
        near(report.figures[&Figure::P90Ms], 0.181);
        near(report.figures[&Figure::P99Ms], 2.24);
        near(report.figures[&Figure::MaxMs], 4.32);
        near(report.figures[&Figure::Failed], 0.0);
        assert!((report.figures[&Figure::BytesPerS] / 1_048_576.0 - 127.09).abs() < 0.01);
        assert!(
            !report.figures.contains_key(&Figure::BytesPerAnswer),
            "139.78MB are no exact number of bytes"
        );
    }

    #[test]
    fn failures() {
        let mixed = read(MIXED).unwrap();
        near(mixed.figures[&Figure::Failed], 33_568.0);
        assert_eq!(mixed.requests - mixed.right, 33_568, "wrk counts them among its requests");
        near(read(DROPPED).unwrap().figures[&Figure::Failed], 20_135.0);
        // Where it cannot connect at all, it says so on its standard error alone.
        assert!(read("").is_err());
        assert!(read(&GOOD.replace("requests in", "answers in")).is_err());
    }

    #[test]
    fn says_what_it_cannot() {
        let timed = order(64, Amount::Seconds(3.0));
        assert!(refuses(&timed).is_none());
        assert!(refuses(&Order { rate: Some(1.0), ..timed.clone() }).is_some());
        assert!(refuses(&order(64, Amount::Requests(5))).is_some());
        let arguments = arguments(&Order { keep_alive: false, ..timed }).unwrap();
        assert!(arguments.contains(&"Connection: close".to_owned()), "{arguments:?}");
    }
}

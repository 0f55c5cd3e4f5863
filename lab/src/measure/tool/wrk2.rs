//! wrk2: a constant rate for some seconds, with latencies counted from when a request was due.

use std::path::Path;

use anyhow::{Context, Result};

use super::reading::{number, percentile, says, word_after};
use super::{Report, Tool, wrk};
use crate::model::block::Bar;
use crate::model::figure::Figure;
use crate::model::order::{Order, ToolName};

/// wrk2 4. Its program calls itself `wrk`; it is looked for as `wrk2`. It measures afresh after its first ten
/// seconds, so that shorter runs contain its start.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Wrk2,
    program: "wrk2",
    install: "make in a checkout of github.com/giltene/wrk2, then: install wrk /usr/local/bin/wrk2 \
        (no registry of packages has it)",
    version,
    refuses,
    arguments,
    read: |_, text| read(text),
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    Some(format!("wrk2 {}", word_after(&text, "wrk ")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: None, .. } => Some("wrk2 needs a rate"),
        Order { rate: Some(..1.0), .. } => Some("wrk2 counts whole requests a second"),
        _ => wrk::common_refusal(order),
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let rate = order.rate.context("wrk2 needs a rate")?;
    let mut arguments = wrk::arguments(order)?;
    arguments.insert(0, format!("-R{rate:.0}"));
    Ok(arguments)
}

fn read(text: &str) -> Result<Report> {
    let mut outcome = wrk::outcome(text)?;
    let mut before = 0;
    let spectrum = text.lines().skip_while(|line| !line.contains("1/(1-Percentile)")).skip(1);
    for line in spectrum.take_while(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [value, fraction, count, _] = words.as_slice() else { continue };
        let (upto_ms, count) = (number::<f64>(value)?, number::<u64>(count)?);
        let percent = number::<f64>(fraction)? * 100.0;
        let known = percentile(&percent.to_string());
        if !outcome.times.iter().any(|(figure, _)| Some(*figure) == known) {
            outcome.times.extend(known.map(|figure| (figure, upto_ms)));
        }
        if percent == 0.0 {
            outcome.times.push((Figure::MinMs, upto_ms));
        }
        if count > before {
            outcome.histogram.push(Bar { upto_ms, count: count - before });
        }
        before = count;
    }
    outcome.report()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;
    use crate::model::order::Amount;

    const GOOD: &str = include_str!("../../../tests/outputs/wrk2-good.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/wrk2-mixed.txt");

    #[test]
    fn a_good_run() {
        let report = read(GOOD).unwrap();
        assert_eq!(report.requests, 994);
        near(report.figures[&Figure::RequestsPerS], 496.24);
        near(report.figures[&Figure::MinMs], 0.076);
        near(report.figures[&Figure::P10Ms], 0.187);
        near(report.figures[&Figure::P50Ms], 0.86);
        near(report.figures[&Figure::P95Ms], 4.303);
        near(report.figures[&Figure::P99Ms], 9.56);
        near(report.figures[&Figure::MaxMs], 15.05);
        near(report.figures[&Figure::DeviationMs], 1.65);
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 993);
    }

    #[test]
    fn failures() {
        near(read(MIXED).unwrap().figures[&Figure::Failed], 193.0);
        assert!(read("").is_err());
    }

    #[test]
    fn it_needs_a_rate() {
        let closed = order(8, Amount::Seconds(2.0));
        assert!(refuses(&closed).is_some());
        let constant = Order { rate: Some(500.0), ..closed };
        assert!(refuses(&constant).is_none());
        assert_eq!(arguments(&constant).unwrap()[..3], ["-R500", "-t1", "-c8"]);
    }
}

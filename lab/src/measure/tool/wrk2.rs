//! wrk2: wrk with a constant rate. A latency counts from the time at which a request was due.

use std::path::Path;

use anyhow::{Context, Result};

use super::Tool;
use super::reading::{says, word_after};
use super::wrk;
use crate::model::order::{Amount, Order, ToolName};

/// wrk2, which its own build calls `wrk`: the lab looks for it as `wrk2`. In its first ten seconds it calibrates itself.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Wrk2,
    program: "wrk2",
    install: "make in a checkout of github.com/giltene/wrk2, and install its program wrk as wrk2 (no registry of packages has it)",
    version,
    refuses,
    arguments,
    read: |_, text| wrk::outcome(text)?.report(),
};

/// Its version is that of the wrk from which it was made. Only wrk2 has a rate.
fn version(program: &Path) -> Option<String> {
    let text = says(program, &["-v"])?;
    let version = word_after(&text, "wrk ").filter(|_| text.contains("--rate"))?;
    Some(format!("wrk2 {version}"))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: None, .. } => Some("wrk2 needs a rate"),
        Order { pipeline: 2.., .. } => Some("wrk2 pipelines only with a script"),
        Order { tls: Some(tls), .. } if tls.resume => Some("wrk2 resumes no sessions"),
        Order { amount: Amount::Requests(_), .. } => Some("wrk2 counts seconds, not requests"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let rate = order.rate.context("wrk2 needs a rate")?;
    let mut arguments = wrk::arguments(order)?;
    arguments.insert(0, format!("-R{rate}"));
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;
    use crate::model::figure::Figure;

    const GOOD: &str = include_str!("../../../tests/outputs/wrk2-good.txt");
    const NOT_FOUND: &str = include_str!("../../../tests/outputs/wrk2-not-found.txt");

    #[test]
    fn a_good_run() {
        let report = wrk::outcome(GOOD).unwrap().report().unwrap();
        assert_eq!((report.requests, report.right), (350, 350));
        near(report.figures[&Figure::RequestsPerS], 173.68);
        near(report.figures[&Figure::P50Ms], 652.29);
        near(report.figures[&Figure::P99Ms], 1280.0);
        near(report.figures[&Figure::MaxMs], 1290.0);
    }

    #[test]
    fn failures() {
        let report = wrk::outcome(NOT_FOUND).unwrap().report().unwrap();
        assert_eq!((report.requests, report.right, report.figures[&Figure::Failed]), (350, 0, 350.0));
    }

    #[test]
    fn says_what_it_cannot() {
        let timed = Order { rate: Some(500.0), ..order(8, Amount::Seconds(2.0)) };
        assert!(refuses(&timed).is_none());
        assert!(refuses(&Order { rate: None, ..timed.clone() }).is_some());
        assert_eq!(arguments(&timed).unwrap()[..3], ["-R500", "-t1", "-c8"]);
    }
}

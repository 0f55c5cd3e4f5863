//! What the readers of several tools share: units, and one way to say how a run went.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use super::Report;
use crate::model::block::Bar;
use crate::model::figure::{FAILED_PERCENT_FEW, Figure, Phases};

/// How a run went, in what every tool tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Complete answers, right or wrong.
    pub(super) answers: u64,
    /// Of those, the ones that were what was expected.
    pub(super) right: u64,
    /// Answers that were missing, cut short or not what was expected.
    pub(super) failed: u64,
    /// Whether bytes, times and the histogram are those of right answers only. Otherwise they are dropped where more
    /// than a few answers are wrong.
    pub(super) tells_apart: bool,
    /// From the first request to the last answer.
    pub(super) total_s: f64,
    /// CPU time in which the tool only waited.
    pub(super) polled_s: f64,
    /// What came from the server.
    pub(super) received: Received,
    /// Bytes of all contents.
    pub(super) content_bytes: Option<u64>,
    /// Latencies and similar times, in milliseconds.
    pub(super) times: Vec<(Figure, f64)>,
    /// How the parts of a request's time spread. Here a zero is what a tool prints of less than half a millisecond.
    pub(super) phases: Phases,
    /// The tool's histogram.
    pub(super) histogram: Vec<Bar>,
}

/// Bytes from the server, heads included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Received {
    /// The tool does not say.
    #[default]
    Unknown,
    /// A rounded number, too coarse to be divided by the answers.
    About(f64),
    /// To the byte.
    Exactly(u64),
}

impl Outcome {
    /// The outcome as a report: rate, times and bytes are those of right answers. A time of zero is one that the tool
    /// cannot see, not one of no length: it is left out, and so are all times where nothing was answered rightly. Fails
    /// without a total time.
    pub(super) fn report(self) -> Result<Report> {
        ensure!(self.total_s.is_finite() && self.total_s > 0.0, "no total time");
        let (right, all) = (self.right as f64, (self.right + self.failed) as f64);
        let failed_percent = if all > 0.0 { 100.0 * self.failed as f64 / all } else { 0.0 };
        let is_mixed = failed_percent > FAILED_PERCENT_FEW && !self.tells_apart;
        // What the bytes and times are of.
        let answers = if self.tells_apart { right } else { self.answers as f64 };
        let mut report = Report {
            requests: self.answers,
            right: self.right,
            polled_s: self.polled_s,
            figures: [].into(),
            phases: self.phases,
            histogram: self.histogram,
        };
        let mut put = |figure, value| report.figures.insert(figure, value);
        put(Figure::RequestsPerS, right / self.total_s);
        put(Figure::Failed, self.failed as f64);
        put(Figure::FailedPercent, failed_percent);
        put(Figure::TotalS, self.total_s);
        match self.received {
            _ if is_mixed => {}
            Received::Unknown => {}
            Received::About(bytes) => {
                put(Figure::BytesPerS, bytes / self.total_s);
            }
            Received::Exactly(bytes) => {
                put(Figure::BytesPerS, bytes as f64 / self.total_s);
                if answers > 0.0 {
                    put(Figure::BytesPerAnswer, bytes as f64 / answers);
                }
            }
        }
        if self.right == 0 || is_mixed {
            report.histogram.clear();
            report.phases.clear();
            return Ok(report);
        }
        if let Some(bytes) = self.content_bytes {
            put(Figure::ContentBytes, bytes as f64 / answers);
        }
        for (figure, ms) in self.times {
            if ms.is_finite() && ms > 0.0 {
                put(figure, ms);
            }
        }
        Ok(report)
    }
}

/// The figure of a percentile such as `99`, if it has one.
pub(super) fn percentile(percent: &str) -> Option<Figure> {
    let percent: f64 = percent.parse().ok()?;
    if percent >= 100.0 {
        return Some(Figure::MaxMs);
    }
    Figure::PERCENTILES.iter().find(|(known, _)| f64::from(*known) == percent).map(|(_, figure)| *figure)
}

/// A time with its unit, as milliseconds.
pub(super) fn ms(text: &str) -> Result<f64> {
    const UNITS: &[(&str, f64)] =
        &[("us", 0.001), ("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
    with_unit(text, UNITS).with_context(|| format!("no time: {text}"))
}

/// A size with its unit, as bytes. The units are powers of 1024.
pub(super) fn bytes(text: &str) -> Result<f64> {
    const UNITS: &[(&str, f64)] = &[
        ("KB", 1024.0),
        ("MB", 1_048_576.0),
        ("GB", 1_073_741_824.0),
        ("TB", 1_099_511_627_776.0),
        ("B", 1.0),
    ];
    with_unit(text, UNITS).with_context(|| format!("no size: {text}"))
}

/// A number that has to be there.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.trim().parse().ok().with_context(|| format!("no number: {text}"))
}

/// The most threads up to a limit that share the clients evenly, since tools that divide drop the remainder.
pub(super) fn even_threads(threads: u32, clients: u32) -> u32 {
    (1..=threads.min(clients)).rev().find(|threads| clients.is_multiple_of(*threads)).unwrap_or(1)
}

/// The least number that the clients share evenly and that is not below `requests`, for tools that give each client
/// the same number of requests and drop the remainder.
pub(super) fn even_requests(requests: u64, clients: u32) -> u64 {
    requests.next_multiple_of(u64::from(clients.max(1)))
}

/// What a program prints, on both of its outputs.
pub(super) fn says(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The JSON object within what a program printed, whatever stands around it.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T> {
    let object = text.find('{').and_then(|at| text.get(at..)).context("no results")?;
    let mut values = serde_json::Deserializer::from_str(object).into_iter();
    Ok(values.next().context("no results")??)
}

/// The word after another one.
pub(super) fn word_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_ascii_whitespace().next()
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// What the readers' tests share.
#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::order::{Amount, Order, Protocol};

    /// Requests for a kilobyte by some clients.
    pub(crate) fn order(clients: u32, amount: Amount) -> Order {
        Order {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/1k".into(),
            clients,
            amount,
            keep_alive: true,
            pipeline: 1,
            tls: None,
            protocol: Protocol::Http1,
            rate: None,
            fields: Vec::new(),
            body_bytes: None,
            numbers: None,
            threads: 1,
            has_own_cores: false,
            folder: ".".into(),
        }
    }

    /// Whether two numbers differ by no more than what was rounded.
    pub(crate) fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= expected.abs() / 1e6, "{value}, and not {expected}");
    }

    #[test]
    fn units() {
        near(ms("523.77us").unwrap(), 0.52377);
        near(ms("1.5m").unwrap(), 90_000.0);
        near(bytes("1.50KB").unwrap(), 1536.0);
        near(bytes("7B").unwrap(), 7.0);
        assert!(ms("12").is_err() && ms("-nan").is_err() && bytes("MB").is_err());
        assert_eq!(percentile("99"), Some(Figure::P99Ms));
        assert_eq!(percentile("100.000"), Some(Figure::MaxMs));
        assert_eq!(percentile("70"), None);
        assert_eq!(percentile("66"), Some(Figure::P66Ms));
    }

    #[test]
    fn shares_are_even() {
        assert_eq!(even_threads(2, 3), 1);
        assert_eq!(even_threads(4, 6), 3);
        assert_eq!(even_threads(4, 1), 1);
        assert_eq!(even_requests(10, 4), 12);
        assert_eq!(even_requests(12, 4), 12);
    }

    #[test]
    fn what_was_not_seen_is_not_zero() {
        let outcome = Outcome {
            answers: 4,
            right: 4,
            total_s: 2.0,
            received: Received::Exactly(400),
            times: vec![(Figure::P50Ms, 0.0), (Figure::MaxMs, 1.0), (Figure::MeanMs, f64::NAN)],
            ..Outcome::default()
        };
        let report = outcome.clone().report().unwrap();
        near(report.figures[&Figure::RequestsPerS], 2.0);
        near(report.figures[&Figure::BytesPerAnswer], 100.0);
        assert!(
            !report.figures.contains_key(&Figure::P50Ms) && !report.figures.contains_key(&Figure::MeanMs)
        );
        let none = Outcome { answers: 0, right: 0, ..outcome.clone() }.report().unwrap();
        assert!(!none.figures.contains_key(&Figure::MaxMs));
        assert!(Outcome { total_s: 0.0, ..outcome }.report().is_err());
    }

    /// 92 of 100 answers are refusals: the rate is that of the eight.
    #[test]
    fn failed_answers_are_not_throughput() {
        let mixed = Outcome {
            answers: 100,
            right: 8,
            failed: 92,
            total_s: 2.0,
            received: Received::Exactly(1000),
            times: vec![(Figure::P50Ms, 1.0)],
            ..Outcome::default()
        };
        let report = mixed.clone().report().unwrap();
        near(report.figures[&Figure::RequestsPerS], 4.0);
        near(report.figures[&Figure::FailedPercent], 92.0);
        for figure in [Figure::P50Ms, Figure::BytesPerS, Figure::BytesPerAnswer] {
            assert!(!report.figures.contains_key(&figure), "{figure} would be that of the refusals");
        }
        let apart = Outcome { tells_apart: true, ..mixed.clone() }.report().unwrap();
        near(apart.figures[&Figure::P50Ms], 1.0);
        near(apart.figures[&Figure::BytesPerAnswer], 125.0);
        let few = Outcome { answers: 2000, right: 1999, failed: 1, ..mixed }.report().unwrap();
        near(few.figures[&Figure::P50Ms], 1.0);
        near(few.figures[&Figure::RequestsPerS], 999.5);
    }
}

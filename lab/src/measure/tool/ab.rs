//! ApacheBench: so many requests, a connection each unless `-k` is given.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::reading::{Outcome, Received, number, percentile, says, word_after};
use super::{Report, Tool};
use crate::model::block::Bar;
use crate::model::figure::{Figure, Phase, Spread};
use crate::model::order::{Amount, Order, ToolName};

/// ab 2.3. It speaks HTTP/1.0, on one thread. Its tables are in whole milliseconds; the file of `-e` is finer, and
/// percentiles are taken from there.
///
/// ab takes the length of its first answer for the right one, counts an answer that never came as one of a wrong
/// length, and can count one request under "Receive" and "Exceptions" as well as among the "Non-2xx". What is
/// reported as failed is the least number of requests that all of its counts allow. `-r` is given always, for without
/// it ab prints nothing after a connection that broke.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Ab,
    program: "ab",
    install: "apt-get install apache2-utils",
    version,
    refuses,
    arguments,
    read,
};

/// Where ab writes its percentiles.
const PERCENTILES: &str = "ab-percentiles.csv";

/// The most requests in a timed run: `-t` alone stands for 50,000, and ab sets aside room for all of them.
const MOST: &str = "20000000";

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["-V"])?;
    Some(format!("ab {}", word_after(&text, "Version ")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("ab knows no constant rate"),
        Order { pipeline: 2.., .. } => Some("ab does not pipeline"),
        Order { tls: Some(tls), .. } if tls.resume => Some("ab resumes no sessions"),
        Order { clients: 20_001.., .. } => Some("ab takes at most 20,000 clients"),
        Order { amount: Amount::Requests(requests), clients, .. } if *requests < u64::from(*clients) => {
            Some("ab takes no more clients than requests")
        }
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments = vec!["-q".to_owned(), "-r".to_owned()];
    match order.amount {
        Amount::Requests(requests) => arguments.extend(["-n".to_owned(), requests.to_string()]),
        // `-n` has to follow `-t`, which sets it too.
        Amount::Seconds(seconds) => arguments.extend([
            "-t".to_owned(),
            seconds.ceil().max(1.0).to_string(),
            "-n".to_owned(),
            MOST.to_owned(),
        ]),
    }
    arguments.extend(["-c".to_owned(), order.clients.to_string()]);
    if order.keep_alive {
        arguments.push("-k".into());
    }
    for field in &order.fields {
        arguments.extend(["-H".to_owned(), field.clone()]);
    }
    arguments.extend(["-e".to_owned(), order.folder.join(PERCENTILES).display().to_string()]);
    arguments.push(order.url());
    Ok(arguments)
}

fn read(order: &Order, text: &str) -> Result<Report> {
    let csv = fs::read_to_string(order.folder.join(PERCENTILES)).ok();
    reading(text, csv.as_deref())
}

/// Standard output, and the file of `-e`.
fn reading(text: &str, csv: Option<&str>) -> Result<Report> {
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next());
    let count = |name: &str| -> Result<u64> {
        number(value(name).with_context(|| format!("ab printed no line of {name}"))?)
    };
    let complete = count("Complete requests:")?;
    let rate: f64 = number(value("Requests per second:").context("ab printed no rate")?)?;
    let wrong = value("Non-2xx responses:").map_or(Ok(0), number)?;
    let broken = broken(text)?;
    let answers = complete.saturating_sub(broken);
    // An answer of another status and of another length may be counted twice or once: at most this many are right.
    let failed = count("Failed requests:")?.min(complete).max(wrong);
    let mut outcome = Outcome {
        answers,
        right: complete.saturating_sub(failed),
        failed,
        // The time that ab prints has three digits; the rate was made from a finer one.
        total_s: complete as f64 / rate,
        received: Received::Exactly(count("Total transferred:")?),
        content_bytes: Some(count("HTML transferred:")?),
        ..Outcome::default()
    };
    outcome.times.push((Figure::MeanMs, number(value("Time per request:").context("no time per request")?)?));
    phases(text, &mut outcome)?;
    match csv {
        Some(csv) if answers > 0 => percentiles(csv, complete, &mut outcome)?,
        _ => table(text, &mut outcome)?,
    }
    outcome.report()
}

/// Requests of which there is no complete answer, by ab's own causes.
fn broken(text: &str) -> Result<u64> {
    let Some(line) = text.lines().find(|line| line.trim_start().starts_with("(Connect:")) else {
        return Ok(0);
    };
    let count = |cause: &str| -> Result<u64> {
        let word = word_after(line, cause).with_context(|| format!("no count of {cause}"))?;
        number(word.trim_end_matches([',', ')']))
    };
    // What ab counts as an exception it has mostly counted as another failure before.
    Ok(count("Connect:")? + count("Receive:")?.max(count("Exceptions:")?))
}

/// The table of phases: min, mean, sd, median, max.
fn phases(text: &str, outcome: &mut Outcome) -> Result<()> {
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (phase, times) = match words.as_slice() {
            ["Connect:", times @ ..] => (Phase::Connect, times),
            ["Processing:", times @ ..] => (Phase::Processing, times),
            ["Waiting:", times @ ..] => (Phase::Waiting, times),
            ["Total:", times @ ..] => (Phase::Total, times),
            _ => continue,
        };
        let times = times.iter().map(|time| number(time)).collect::<Result<Vec<f64>>>()?;
        let times: [f64; 5] = times.try_into().ok().with_context(|| format!("not five times: {line}"))?;
        outcome.phases.insert(phase, Spread::from(times));
    }
    let means = [
        (Phase::Connect, Figure::ConnectMs),
        (Phase::Processing, Figure::ProcessingMs),
        (Phase::Waiting, Figure::WaitingMs),
    ];
    let means = means.map(|(phase, figure)| Some((figure, outcome.phases.get(&phase)?.mean_ms)));
    outcome.times.extend(means.into_iter().flatten());
    if let Some(total) = outcome.phases.get(&Phase::Total) {
        outcome.times.extend([
            (Figure::MinMs, total.min_ms),
            (Figure::DeviationMs, total.deviation_ms),
            (Figure::MaxMs, total.max_ms),
        ]);
    }
    Ok(())
}

/// The percentiles of the file of `-e`, one line a percent.
fn percentiles(csv: &str, requests: u64, outcome: &mut Outcome) -> Result<()> {
    let mut before = 0;
    for line in csv.lines().skip(1) {
        let (percent, time) = line.split_once(',').with_context(|| format!("no percentile: {line}"))?;
        let upto_ms: f64 = number(time)?;
        match percent {
            "0" => outcome.times.push((Figure::MinMs, upto_ms)),
            _ => outcome.times.extend(percentile(percent).map(|figure| (figure, upto_ms))),
        }
        let upto = requests * number::<u64>(percent)? / 100;
        match outcome.histogram.last_mut() {
            Some(bar) if bar.upto_ms >= upto_ms => bar.count += upto - before,
            _ => outcome.histogram.push(Bar { upto_ms, count: upto - before }),
        }
        before = upto;
    }
    Ok(())
}

/// The percentiles that are printed, in whole milliseconds.
fn table(text: &str, outcome: &mut Outcome) -> Result<()> {
    let lines = text.lines().skip_while(|line| !line.starts_with("Percentage of the requests")).skip(1);
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        let (Some(percent), Some(time)) = (words.next(), words.next()) else { continue };
        let Some(percent) = percent.strip_suffix('%') else { continue };
        let figure = percentile(percent);
        outcome.times.extend(figure.map(|figure| number(time).map(|time| (figure, time))).transpose()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const TLS: &str = include_str!("../../../tests/outputs/ab-tls.txt");
    const TLS_PERCENTILES: &str = include_str!("../../../tests/outputs/ab-tls.csv");
    const KEPT: &str = include_str!("../../../tests/outputs/ab-kept.txt");
    const NOT_FOUND: &str = include_str!("../../../tests/outputs/ab-not-found.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/ab-mixed.txt");
    const DROPPED: &str = include_str!("../../../tests/outputs/ab-dropped.txt");
    const REFUSED: &str = include_str!("../../../tests/outputs/ab-refused.txt");
    const ENDED: &str = include_str!("../../../tests/outputs/ab-ended.txt");

    #[test]
    fn a_good_run() {
        let report = reading(TLS, Some(TLS_PERCENTILES)).unwrap();
        assert_eq!(report.requests, 200);
        near(report.figures[&Figure::RequestsPerS], 780.75);
        near(report.figures[&Figure::MeanMs], 6.404);
        near(report.figures[&Figure::ConnectMs], 4.0);
        near(report.figures[&Figure::WaitingMs], 2.0);
        near(report.figures[&Figure::ProcessingMs], 2.0);
        let spread = |phase| <[f64; 5]>::from(report.phases[&phase]);
        assert_eq!(spread(Phase::Connect), [2.0, 4.0, 2.1, 3.0, 11.0]);
        assert_eq!(spread(Phase::Processing), [0.0, 2.0, 1.6, 2.0, 8.0]);
        assert_eq!(spread(Phase::Waiting), [0.0, 2.0, 1.4, 2.0, 7.0]);
        assert_eq!(spread(Phase::Total), [3.0, 6.0, 3.0, 5.0, 17.0]);
        near(report.figures[&Figure::DeviationMs], 3.0);
        near(report.figures[&Figure::MinMs], 3.202);
        near(report.figures[&Figure::P90Ms], 10.584);
        near(report.figures[&Figure::P98Ms], 15.088);
        near(report.figures[&Figure::MaxMs], 17.057);
        near(report.figures[&Figure::BytesPerAnswer], 1259.0);
        near(report.figures[&Figure::ContentBytes], 1024.0);
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 200);
        assert!(report.histogram.windows(2).all(|pair| pair[0].upto_ms < pair[1].upto_ms));
    }

    #[test]
    fn a_time_below_a_millisecond_is_no_zero() {
        let report = reading(KEPT, None).unwrap();
        near(report.figures[&Figure::RequestsPerS], 14_381.45);
        near(report.figures[&Figure::P95Ms], 2.0);
        assert!(!report.figures.contains_key(&Figure::ConnectMs));
        assert!(!report.figures.contains_key(&Figure::MinMs));
        near(report.figures[&Figure::BytesPerAnswer], 72_125.0);
    }

    #[test]
    fn failures() {
        let failed =
            |text| reading(text, None).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(NOT_FOUND).unwrap(), (300, 300.0));
        assert_eq!(failed(MIXED).unwrap(), (300, 67.0), "of another length because not 2xx");
        let mixed = reading(MIXED, None).unwrap();
        assert_eq!(
            (mixed.right, mixed.figures.get(&Figure::P50Ms)),
            (233, None),
            "its times are of a mixture"
        );
        assert_eq!(failed(DROPPED).unwrap(), (300, 48.0));
        assert_eq!(failed(REFUSED).unwrap(), (0, 100.0));
        assert!(!reading(REFUSED, None).unwrap().figures.contains_key(&Figure::MeanMs));
        assert!(failed(ENDED).is_err() && failed("").is_err());
        assert!(failed(&KEPT.replace("Failed requests", "Failures")).is_err());
    }

    #[test]
    fn its_flags() {
        let words = arguments(&order(50, Amount::Requests(1000))).unwrap().join(" ");
        assert!(words.contains("-n 1000 -c 50 -k -e"), "{words}");
        let closed = Order { keep_alive: false, ..order(50, Amount::Seconds(0.5)) };
        let words = arguments(&closed).unwrap().join(" ");
        assert!(words.contains("-t 1 -n 20000000 -c 50 -e"), "{words}");
        assert!(refuses(&closed).is_none());
        assert!(refuses(&order(50, Amount::Requests(49))).is_some());
    }
}

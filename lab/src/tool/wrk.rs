//! wrk: a closed loop for some seconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Amount, Order, Report, Tool, ToolName};
use crate::figure::Figure;

/// wrk 4. It knows no number of requests, and it measures latency without regard to when a request was due.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Wrk,
    program: "wrk",
    install: "apt-get install wrk",
    version,
    refuses,
    arguments,
    read,
};

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_ascii_whitespace().nth(1)?;
    Some(format!("wrk {version}"))
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

fn arguments(order: &Order) -> Result<Vec<String>> {
    let Amount::Seconds(seconds) = order.amount else {
        anyhow::bail!("wrk counts seconds, not requests");
    };
    let threads = order.threads.min(order.clients);
    let mut arguments = vec![
        format!("-t{threads}"),
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

fn read(_order: &Order, text: &str) -> Result<Report> {
    let mut report = Report::default();
    let mut failed = 0.0;
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["Latency", mean, deviation, max, ..] if *mean != "Distribution" => {
                set_ms(&mut report.figures, Figure::MeanMs, mean)?;
                set_ms(&mut report.figures, Figure::DeviationMs, deviation)?;
                set_ms(&mut report.figures, Figure::MaxMs, max)?;
            }
            ["50%", time] => set_ms(&mut report.figures, Figure::P50Ms, time)?,
            ["75%", time] => set_ms(&mut report.figures, Figure::P75Ms, time)?,
            ["90%", time] => set_ms(&mut report.figures, Figure::P90Ms, time)?,
            ["99%", time] => set_ms(&mut report.figures, Figure::P99Ms, time)?,
            [count, "requests", "in", time, read, "read"] => {
                let seconds = ms(time.trim_end_matches(','))? / 1000.0;
                report.requests = count.parse()?;
                report.figures.insert(Figure::TotalS, seconds);
                report.figures.insert(Figure::BytesPerS, bytes(read)? / seconds);
            }
            ["Requests/sec:", rate] => {
                report.figures.insert(Figure::RequestsPerS, rate.parse()?);
            }
            ["Socket", "errors:", ..] => {
                let counts = words.iter().filter_map(|word| word.trim_end_matches(',').parse::<f64>().ok());
                failed += counts.sum::<f64>();
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => failed += count.parse::<f64>()?,
            _ => {}
        }
    }
    ensure!(report.figures.contains_key(&Figure::RequestsPerS), "wrk printed no rate");
    ensure!(report.figures.contains_key(&Figure::TotalS), "wrk printed no count of requests");
    report.figures.insert(Figure::Failed, failed);
    Ok(report)
}

fn set_ms(figures: &mut BTreeMap<Figure, f64>, figure: Figure, time: &str) -> Result<()> {
    figures.insert(figure, ms(time)?);
    Ok(())
}

/// A time with its unit, as wrk prints it.
fn ms(text: &str) -> Result<f64> {
    const UNITS: &[(&str, f64)] =
        &[("us", 0.001), ("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
    number(text, UNITS).with_context(|| format!("no time: {text}"))
}

fn bytes(text: &str) -> Result<f64> {
    const UNITS: &[(&str, f64)] = &[
        ("KB", 1024.0),
        ("MB", 1_048_576.0),
        ("GB", 1_073_741_824.0),
        ("TB", 1_099_511_627_776.0),
        ("B", 1.0),
    ];
    number(text, UNITS).with_context(|| format!("no size: {text}"))
}

fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 3s test @ http://127.0.0.1:1/1k
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   523.77us  120.11us   4.20ms   88.00%
    Req/Sec   121.57k     4.02k  127.66k    70.00%
  Latency Distribution
     50%  500.00us
     75%  560.00us
     90%    0.63ms
     99%    1.02ms
  363600 requests in 3.00s, 444.20MB read
Requests/sec: 121198.37
Transfer/sec:    148.06MB
";

    fn order() -> Order {
        Order {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/1k".into(),
            clients: 64,
            amount: Amount::Seconds(3.0),
            keep_alive: true,
            pipeline: 1,
            tls: None,
            rate: None,
            fields: Vec::new(),
            threads: 1,
            folder: ".".into(),
        }
    }

    #[test]
    fn reads_what_it_prints() {
        let report = read(&order(), OUTPUT).unwrap();
        assert_eq!(report.requests, 363_600);
        assert_eq!(report.figures[&Figure::RequestsPerS], 121_198.37);
        assert_eq!(report.figures[&Figure::P90Ms], 0.63);
        assert_eq!(report.figures[&Figure::MaxMs], 4.2);
        assert_eq!(report.figures[&Figure::Failed], 0.0);
        let errors = OUTPUT.replace(
            "Requests/sec",
            "  Socket errors: connect 1, read 2, write 0, timeout 4\n  Non-2xx or 3xx responses: 5\nRequests/sec",
        );
        assert_eq!(read(&order(), &errors).unwrap().figures[&Figure::Failed], 12.0);
        assert!(read(&order(), "").is_err());
    }

    #[test]
    fn says_what_it_cannot() {
        assert!(refuses(&order()).is_none());
        assert!(refuses(&Order { amount: Amount::Requests(5), ..order() }).is_some());
        let arguments = arguments(&Order { keep_alive: false, ..order() }).unwrap();
        assert!(arguments.contains(&"Connection: close".to_owned()), "{arguments:?}");
    }
}

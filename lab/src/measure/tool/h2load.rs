//! h2load of nghttp2, in HTTP/1.1 and HTTP/2.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::reading::{Outcome, Received, ms, number, says, word_after};
use super::{Report, Tool};
use crate::model::figure::Figure;
use crate::model::order::{self, Amount, Order, Protocol, ToolName};

/// h2load 1. It prints no percentiles. Its "time to 1st byte" counts from the start of a connection and is therefore
/// no waiting time. When a server closes a connection without an answer, h2load gives up all further requests of that
/// client and counts them as failed; in runs without keep-alive it does not count bytes. Over TLS it takes the
/// protocol that the server chooses; where that is not the one of the order, its figures are refused.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::H2load,
    program: "h2load",
    install: "apt-get install nghttp2-client",
    version,
    refuses,
    arguments,
    read: |order, text| read(order.protocol, text),
};

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version"])?;
    Some(format!("h2load {}", word_after(&text, "nghttp2/")?))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("h2load does not count latency from when a request was due"),
        Order { protocol: Protocol::Http2, keep_alive: false, .. } => {
            Some("h2load keeps a connection of HTTP/2 as long as it has requests")
        }
        Order { tls: Some(tls), .. } if tls.resume => Some("h2load resumes no sessions"),
        Order { amount: Amount::Requests(requests), clients, .. } if *requests < u64::from(*clients) => {
            Some("h2load takes no more clients than requests")
        }
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let mut arguments = match order.protocol {
        Protocol::Http1 => vec!["--h1".to_owned()],
        Protocol::Http2 => Vec::new(),
    };
    match order.amount {
        Amount::Requests(requests) => arguments.extend(["-n".to_owned(), requests.to_string()]),
        Amount::Seconds(seconds) => {
            arguments.extend(["-D".to_owned(), seconds.ceil().max(1.0).to_string()]);
        }
    }
    arguments.extend(["-c".to_owned(), order.clients.to_string()]);
    arguments.extend(["-t".to_owned(), order.threads.min(order.clients).to_string()]);
    if order.pipeline > 1 {
        arguments.extend(["-m".to_owned(), order.pipeline.to_string()]);
    }
    let close = (!order.keep_alive).then(|| "Connection: close".to_owned());
    for field in order.fields.iter().cloned().chain(close) {
        arguments.extend(["-H".to_owned(), field]);
    }
    if let Some(length) = order.body_bytes {
        let file = order.folder.join("content");
        fs::write(&file, order::body(&order.fields, length)).with_context(|| file.display().to_string())?;
        arguments.extend(["-d".to_owned(), file.display().to_string()]);
    }
    arguments.push(order.url());
    Ok(arguments)
}

fn read(protocol: Protocol, text: &str) -> Result<Report> {
    let line = |start: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(start));
        found.with_context(|| format!("h2load printed no line of {start}"))
    };
    // It is not printed where nothing was connected.
    if let Some(spoken) = line("Application protocol:").ok().map(str::trim) {
        let expected: &[&str] = match protocol {
            Protocol::Http1 => &["http/1.1"],
            Protocol::Http2 => &["h2", "h2c"],
        };
        ensure!(expected.contains(&spoken), "{spoken} was spoken instead of {}", expected[0]);
    }
    let finished: Vec<&str> = line("finished in")?.split(',').map(str::trim).collect();
    let [total, rate, _] = finished.as_slice() else { anyhow::bail!("not a summary: {finished:?}") };
    let requests = counts(line("requests:")?)?;
    let [_total, _started, done, succeeded, failed, _errored, timeout] = requests[..] else {
        anyhow::bail!("not all counts of requests: {requests:?}");
    };
    let statuses = counts(line("status codes:")?)?;
    let [right, _, _, _] = statuses[..] else { anyhow::bail!("not all statuses: {statuses:?}") };
    let mut outcome = Outcome {
        answers: done,
        right: right.min(succeeded),
        // A redirection is a success to h2load.
        failed: failed.max(timeout) + succeeded.saturating_sub(right),
        total_s: ms(total)? / 1000.0,
        ..Outcome::default()
    };
    let rate: f64 = number(rate.trim_end_matches(" req/s"))?;
    if rate > 0.0 {
        outcome.total_s = done as f64 / rate;
    }
    let [received, _headers, content] = exact_bytes(line("traffic:")?)?[..] else {
        anyhow::bail!("not all kinds of traffic");
    };
    if received > 0 {
        outcome.received = Received::Exactly(received);
    }
    outcome.content_bytes = Some(content);
    outcome.times = times(line("time for request:")?)?;
    let connect = times(line("time for connect:")?)?;
    outcome.times.extend(connect.first().map(|(_, mean)| (Figure::ConnectMs, *mean)));
    outcome.report()
}

/// `300 total, 299 done`: the numbers.
fn counts(line: &str) -> Result<Vec<u64>> {
    line.split(',').map(|part| number(part.split_ascii_whitespace().next().unwrap_or_default())).collect()
}

/// `2.41MB (2528000) total, …`: the numbers in parentheses.
fn exact_bytes(line: &str) -> Result<Vec<u64>> {
    let parts = line.split(',').map(|part| {
        let bytes = part.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        number(bytes.with_context(|| format!("no bytes: {part}"))?.0)
    });
    parts.collect()
}

/// min, max, mean, sd and the share within the latter; the mean first.
fn times(line: &str) -> Result<Vec<(Figure, f64)>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    ensure!(words.len() == 5, "not five times: {line}");
    let figures = [(Figure::MeanMs, 2), (Figure::MinMs, 0), (Figure::MaxMs, 1), (Figure::DeviationMs, 3)];
    figures.into_iter().map(|(figure, at)| Ok((figure, ms(words[at])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/h2load-good.txt");
    const H2: &str = include_str!("../../../tests/outputs/h2load-h2.txt");
    const H2C: &str = include_str!("../../../tests/outputs/h2load-h2c.txt");
    const NOT_H2: &str = include_str!("../../../tests/outputs/h2load-not-h2.txt");
    const NOT_H2C: &str = include_str!("../../../tests/outputs/h2load-not-h2c.txt");
    const CLOSED: &str = include_str!("../../../tests/outputs/h2load-closed.txt");
    const MIXED: &str = include_str!("../../../tests/outputs/h2load-mixed.txt");
    const DROPPED: &str = include_str!("../../../tests/outputs/h2load-dropped.txt");
    const REFUSED: &str = include_str!("../../../tests/outputs/h2load-refused.txt");

    #[test]
    fn a_good_run() {
        let report = read(Protocol::Http1, GOOD).unwrap();
        assert_eq!(report.requests, 2000);
        near(report.figures[&Figure::RequestsPerS], 86_162.33);
        near(report.figures[&Figure::MeanMs], 0.22);
        near(report.figures[&Figure::MinMs], 0.117);
        near(report.figures[&Figure::MaxMs], 0.773);
        near(report.figures[&Figure::DeviationMs], 0.067);
        near(report.figures[&Figure::ConnectMs], 0.303);
        near(report.figures[&Figure::BytesPerAnswer], 1264.0);
        near(report.figures[&Figure::ContentBytes], 1024.0);
        let closed = read(Protocol::Http1, CLOSED).unwrap();
        near(closed.figures[&Figure::RequestsPerS], 41_367.9);
        assert!(!closed.figures.contains_key(&Figure::BytesPerS), "0B is what it did not count");
    }

    #[test]
    fn http_2() {
        let clear = read(Protocol::Http2, H2C).unwrap();
        assert_eq!((clear.requests, clear.figures[&Figure::Failed]), (2000, 0.0));
        near(clear.figures[&Figure::RequestsPerS], 74_319.05);
        near(clear.figures[&Figure::BytesPerAnswer], 129.245);
        near(clear.figures[&Figure::ContentBytes], 7.0);
        let encrypted = read(Protocol::Http2, H2).unwrap();
        assert_eq!(encrypted.requests, 500);
        near(encrypted.figures[&Figure::ConnectMs], 11.31);
        let other = |protocol, text| format!("{:#}", read(protocol, text).unwrap_err());
        assert_eq!(other(Protocol::Http2, GOOD), "http/1.1 was spoken instead of h2");
        assert_eq!(other(Protocol::Http1, H2), "h2 was spoken instead of http/1.1");
        assert!(read(Protocol::Http2, NOT_H2).is_err());
        let refused = read(Protocol::Http2, NOT_H2C).unwrap();
        assert_eq!((refused.requests, refused.figures[&Figure::Failed]), (0, 20.0));
    }

    #[test]
    fn failures() {
        let failed = |text: &str| {
            read(Protocol::Http1, text).map(|report| (report.requests, report.figures[&Figure::Failed]))
        };
        assert_eq!(failed(MIXED).unwrap(), (300, 61.0));
        assert_eq!(failed(DROPPED).unwrap(), (16, 284.0));
        assert_eq!(failed(REFUSED).unwrap(), (0, 100.0));
        assert_eq!(failed(&GOOD.replace("2000 2xx, 0 3xx", "1990 2xx, 10 3xx")).unwrap(), (2000, 10.0));
        assert!(failed("").is_err());
        assert!(failed(&GOOD.replace("time for connect", "time for")).is_err());
    }

    #[test]
    fn its_flags() {
        let pipelined = Order { pipeline: 8, ..order(16, Amount::Requests(1000)) };
        assert_eq!(
            arguments(&pipelined).unwrap().join(" "),
            "--h1 -n 1000 -c 16 -t 1 -m 8 http://127.0.0.1:80/1k"
        );
        assert!(refuses(&pipelined).is_none());
        assert!(refuses(&Order { rate: Some(5.0), ..pipelined.clone() }).is_some());
        let streams = Order { protocol: Protocol::Http2, ..pipelined };
        assert_eq!(arguments(&streams).unwrap().join(" "), "-n 1000 -c 16 -t 1 -m 8 http://127.0.0.1:80/1k");
        assert!(refuses(&Order { keep_alive: false, ..streams.clone() }).is_some());
        let folder = tempfile::tempdir().unwrap();
        let fields = vec!["content-type: application/grpc".to_owned()];
        let calls = Order { body_bytes: Some(2), fields, folder: folder.path().to_owned(), ..streams };
        let file = folder.path().join("content").display().to_string();
        assert_eq!(arguments(&calls).unwrap()[8..12], ["-H", "content-type: application/grpc", "-d", &file]);
        assert_eq!(std::fs::read(file).unwrap(), b"\0\0\0\0\x02ab");
    }
}

//! What is printed on a terminal: ab's tables, and hey's histogram and details.

use std::fmt::{self, Write};

use super::document::{Document, PERCENTILES, Point, Times};
use super::series::Series;
use super::tally::Tally;

/// The widest bar.
const BAR: u64 = 40;

/// One measurement.
pub(super) fn point(target: &str, point: &Point, tally: &Tally) -> Result<String, fmt::Error> {
    let mut out = String::new();
    summary(&mut out, target, point)?;
    phases(&mut out, point)?;
    percentiles(&mut out, &point.latency)?;
    histogram(&mut out, &tally.latency)?;
    details(&mut out, point)?;
    Ok(out)
}

/// All measurements of a sweep, a line each.
pub(crate) fn sweep(document: &Document) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "{:>8} {:>6} {:>14} {:>12} {:>12} {:>10}",
        "clients", "round", "requests/s", "mean ms", "p99 ms", "failed"
    )?;
    for point in &document.points {
        let p99 = point.latency.percentiles.get("p99").copied().unwrap_or_default();
        writeln!(
            out,
            "{:>8} {:>6} {:>14.2} {:>12.3} {:>12.3} {:>10}",
            point.clients, point.round, point.requests_per_s, point.latency.mean_ms, p99, point.failed.total
        )?;
    }
    Ok(out)
}

fn summary(out: &mut String, target: &str, point: &Point) -> fmt::Result {
    let mut line = |name: &str, value: String| writeln!(out, "{:<24}{value}", format!("{name}:"));
    let per_answer = point.bytes.total.checked_div(point.requests).unwrap_or_default();
    line("Target", target.into())?;
    line("Document Length", format!("{} bytes", point.content_length.unwrap_or_default()))?;
    line("Concurrency Level", point.clients.to_string())?;
    line("Threads", format!("{} in {} process(es)", point.threads, point.processes))?;
    line("Time taken for tests", format!("{:.3} seconds", point.seconds))?;
    line("Complete requests", point.requests.to_string())?;
    let kinds: Vec<String> =
        point.failed.named().iter().map(|(name, count)| format!("{name}: {count}")).collect();
    line("Failed requests", format!("{} {}", point.failed.total, kinds.join(", ")).trim_end().into())?;
    if let Some(why) = &point.no_connection {
        line("Not connected", why.clone())?;
    }
    if point.unfinished + point.unsent > 0 {
        line("Cut off at the end", format!("{} under way, {} not sent", point.unfinished, point.unsent))?;
    }
    if point.gave_up {
        line("Given up", "nothing answered any more".into())?;
    }
    let statuses: Vec<String> =
        point.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    line("Status codes", statuses.join(", "))?;
    line("Connections", format!("{} opened, {} of them resumed TLS", point.connections, point.resumed))?;
    line("Total transferred", format!("{} bytes, {per_answer} an answer", point.bytes.total))?;
    if point.bytes.partial > 0 {
        line("Besides", format!("{} bytes of answers that were not complete", point.bytes.partial))?;
    }
    line("HTML transferred", format!("{} bytes", point.bytes.content))?;
    line("Total sent", format!("{} bytes", point.bytes.sent))?;
    line("Requests per second", format!("{:.2} [#/sec] (mean)", point.requests_per_s))?;
    if let Some(wanted) = point.rate_wanted {
        line("Requests wanted", format!("{wanted:.2} [#/sec]"))?;
    }
    line("Time per request", format!("{:.3} [ms] (mean)", point.latency.mean_ms))?;
    let across = if point.requests_per_s > 0.0 { 1000.0 / point.requests_per_s } else { 0.0 };
    line("Time per request", format!("{across:.3} [ms] (mean, across all concurrent requests)"))?;
    line("Transfer rate", format!("{:.2} [Kbytes/sec] received", point.bytes_per_s / 1024.0))
}

fn phases(out: &mut String, point: &Point) -> fmt::Result {
    writeln!(
        out,
        "\nConnection Times (ms)\n{:<12}{:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "min", "mean", "[+/-sd]", "median", "max"
    )?;
    let rows = [
        ("Connect:", &point.phases.connect),
        ("Processing:", &point.phases.processing),
        ("Waiting:", &point.phases.waiting),
        ("Late:", &point.phases.late),
        ("Total:", &point.latency),
    ];
    for (name, times) in rows {
        if name != "Late:" || point.rate_wanted.is_some() {
            writeln!(
                out,
                "{name:<12}{:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
                times.min_ms, times.mean_ms, times.deviation_ms, times.median_ms, times.max_ms
            )?;
        }
    }
    Ok(())
}

fn percentiles(out: &mut String, latency: &Times) -> fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for per_cent in PERCENTILES {
        let time = latency.percentiles.get(&format!("p{per_cent}")).copied().unwrap_or_default();
        let longest = if *per_cent == 100.0 { " (longest request)" } else { "" };
        writeln!(out, "{:>6}% {time:>10.3}{longest}", per_cent)?;
    }
    Ok(())
}

fn histogram(out: &mut String, latency: &Series) -> fmt::Result {
    writeln!(out, "\nResponse time histogram (ms):")?;
    let bars = latency.equal_bars(10);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or_default().max(1);
    for bar in bars {
        let width = usize::try_from((bar.count * BAR).div_ceil(most)).unwrap_or_default();
        writeln!(out, "{:>10.3} [{}]\t|{}", bar.upto_ms, bar.count, "■".repeat(width))?;
    }
    Ok(())
}

fn details(out: &mut String, point: &Point) -> fmt::Result {
    writeln!(out, "\nDetails (average, fastest, slowest):")?;
    let rows = [
        ("dial-up", &point.phases.connect),
        ("req write", &point.phases.write),
        ("resp wait", &point.phases.waiting),
        ("resp read", &point.phases.read),
    ];
    for (name, times) in rows {
        let seconds = |ms: f64| format!("{:.6} secs", ms / 1000.0);
        let [mean, min, max] = [times.mean_ms, times.min_ms, times.max_ms].map(seconds);
        writeln!(out, "  {:<12}{mean}, {min}, {max}", format!("{name}:"))?;
    }
    Ok(())
}

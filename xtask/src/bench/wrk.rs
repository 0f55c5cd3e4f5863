//! The load generator.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::process;

/// How many connections are kept busy.
pub(super) const CONNECTIONS: u32 = 64;

/// What one run of wrk came to.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    /// Complete answers.
    pub(super) requests: f64,
    /// How busy wrk itself kept its core, from 0 to 1.
    pub(super) busy: f64,
}

/// Fails with advice where wrk is missing.
pub(super) fn check() -> Result<()> {
    for program in ["wrk", "taskset"] {
        let found = Command::new(program).arg("--version").output().is_ok();
        let package = if program == "wrk" { "wrk" } else { "util-linux" };
        ensure!(found, "{program} is needed: apt-get install {package}");
    }
    Ok(())
}

/// Loads a URL for some seconds from one core.
pub(super) fn run(url: &str, fields: &[&str], seconds: u32, core: &str) -> Result<Load> {
    let before = process::children_cpu_s();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", core, "wrk", "-t1", &format!("-c{CONNECTIONS}"), &format!("-d{seconds}s")]);
    for field in fields {
        command.args(["-H", field]);
    }
    let output = command.arg(url).output().context("running wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk {url}: {}", String::from_utf8_lossy(&output.stderr));
    let requests = requests(&text).with_context(|| format!("wrk {url}"))?;
    Ok(Load { requests, busy: (process::children_cpu_s() - before) / f64::from(seconds) })
}

/// The number of requests, if all of them were answered as they should.
fn requests(text: &str) -> Result<f64> {
    for line in text.lines().map(str::trim) {
        if line.starts_with("Socket errors:") || line.starts_with("Non-2xx or 3xx responses:") {
            bail!("{line}");
        }
    }
    let count = text.lines().find_map(|line| line.split_once(" requests in ")).map(|(count, _)| count.trim());
    let count: f64 = count.context("no count of requests")?.parse()?;
    ensure!(count > 0.0, "no request was answered");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_requests_and_refuses_errors() {
        let good =
            "Running 3s test\n  1 threads and 64 connections\n  123456 requests in 3.00s, 142.61MB read\n";
        assert_eq!(requests(good).unwrap(), 123_456.0);
        let errors = format!("{good}  Socket errors: connect 0, read 5, write 0, timeout 0\n");
        assert!(requests(&errors).is_err());
        let statuses = format!("{good}  Non-2xx or 3xx responses: 7\n");
        assert!(requests(&statuses).unwrap_err().to_string().contains('7'));
        assert!(requests("  0 requests in 3.00s, 0.00B read\n").is_err());
        assert!(requests("").is_err());
    }
}

//! All tests of the workspace. A test that fails is run once more, alone: on a machine that is busy with other work a
//! test can miss a deadline that has nothing to do with what it checks.

mod report;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::tree::root;
use report::{Failed, Report};

/// With more failed tests than this, the code is at fault and no test is run again.
const RERUN_MAX: usize = 3;

/// Runs all tests; false when a test fails twice.
pub(crate) fn run() -> Result<bool> {
    let (passed, report) = cargo_test(&["--workspace", "--no-fail-fast"])?;
    if passed {
        return Ok(true);
    }
    let failed = report.failed();
    if failed.is_empty() || failed.len() > RERUN_MAX || !report.is_whole() {
        return Ok(false);
    }
    let mut right = true;
    for test in &failed {
        right &= passes_alone(test)?;
    }
    Ok(right)
}

fn passes_alone(test: &Failed) -> Result<bool> {
    println!("\nrunning {} once more, alone", test.name);
    // A package that is built without the others may have other features, and everything would be compiled again.
    let target = test.target.split_whitespace().skip_while(|word| *word != "-p").skip(2);
    let mut arguments = vec!["--workspace"];
    arguments.extend(target);
    arguments.extend(["--", "--exact", &test.name]);
    let (passed, report) = cargo_test(&arguments)?;
    let passes = passed && report.has_passed(&test.name);
    let what = if passes { "unsteady: failed once, then passed alone" } else { "failed twice" };
    println!("{what}: {} ({})", test.name, test.target);
    Ok(passes)
}

/// Runs `cargo test` with these arguments, shows what it prints, and reads it.
fn cargo_test(arguments: &[&str]) -> Result<(bool, Report)> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).arg("test").args(arguments);
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    let second = writer.try_clone().context("making a pipe")?;
    let mut child =
        cargo.stdin(Stdio::null()).stdout(writer).stderr(second).spawn().context("starting cargo")?;
    // The command holds the writing ends, and the pipe ends with the last of them.
    drop(cargo);
    let mut report = Report::default();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).context("reading what cargo prints")? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        report.read(text.trim_end());
        line.clear();
    }
    Ok((child.wait().context("waiting for cargo")?.success(), report))
}

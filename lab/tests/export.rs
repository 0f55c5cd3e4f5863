//! What is exported for k6 and JMeter, run by those tools where they are installed.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use lab::measure::tool;
use lab::model::experiment::Experiment;
use lab::model::order::ToolName;
use lab::show::export::export;

const EXPERIMENT: &str = r#"
id = "e"
title = "An experiment"
question = "?"
contenders = ["nginx"]
[[loads]]
id = "plain"
title = "Plain"
path = "/1k"
clients = [2, 4]
requests = 40
keep_alive = true
fields = ["X-Lab: yes"]
"#;

#[test]
fn exported_loads_are_sent_by_k6() {
    let Some((seen, folder, program)) = exported(ToolName::K6).unwrap() else { return };
    let mut command = Command::new(program);
    command.args([
        "run",
        "--quiet",
        "-e",
        "CLIENTS=4",
        "--summary-export",
        "e-plain.js-4.json",
        "e-plain.js",
    ]);
    command.env("K6_NO_USAGE_REPORT", "true");
    sends_forty(command, folder.path(), &seen).unwrap();
    let report = imported(folder.path(), "e-plain.js-4.json").unwrap();
    assert!(report.contains("k6, imported") && report.contains("another machine"), "{report}");
    // All forty were answered, by four clients.
    assert!(report.contains("**4 clients**") && report.contains("| nginx "), "{report}");
}

/// Reads a result back, and gives the report in Markdown.
fn imported(folder: &Path, result: &str) -> Result<String> {
    std::fs::write(folder.join("e.toml"), EXPERIMENT)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(["import", "e/plain", result, "--server", "nginx", "--clients", "4"]);
    command.args(["--experiment", "e.toml", "--out", "results"]).current_dir(folder);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(std::fs::read_to_string(folder.join("results/report.md"))?)
}

#[test]
fn exported_loads_are_sent_by_jmeter() {
    let Some((seen, folder, program)) = exported(ToolName::Jmeter).unwrap() else { return };
    let mut command = Command::new(program);
    command.args([
        "-n",
        "-t",
        "e-plain.jmx",
        "-l",
        "results.csv",
        "-j",
        "jmeter.log",
        "-Gclients=4",
        "-Gloops=10",
    ]);
    sends_forty(command, folder.path(), &seen).unwrap();
    let results = std::fs::read_to_string(folder.path().join("results.csv")).unwrap();
    assert_eq!(results.lines().filter(|line| line.contains(",200,")).count(), 40, "{results}");
    assert!(imported(folder.path(), "results.csv").unwrap().contains("JMeter, imported"));
}

/// A server that counts, a folder with the load for it, and the tool. Without the tool a line is printed; k6 is there
/// in CI.
fn exported(name: ToolName) -> Result<Option<(Arc<AtomicU64>, tempfile::TempDir, PathBuf)>> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/k6/bin/k6");
    let program = match tool::find(tool::named(name).context("no such tool")?) {
        Ok(found) => found.program,
        Err(_) if name == ToolName::K6 && fetched.exists() => fetched.canonicalize()?,
        Err(why) => {
            let is_missed = name == ToolName::K6 && std::env::var_os("CI").is_some();
            ensure!(!is_missed, "no k6 to run an export with; `make install` installs it");
            println!("left out: {name}: {why:#}");
            return Ok(None);
        }
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let seen = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = Arc::clone(&counts);
            thread::spawn(move || answer(&stream, &counts));
        }
    });
    let folder = tempfile::tempdir()?;
    let experiment = Experiment::parse(EXPERIMENT)?;
    let written: Vec<PathBuf> = export(&experiment, &address.to_string(), folder.path())?;
    ensure!(written.len() == 4, "{written:?}");
    Ok(Some((seen, folder, program)))
}

/// Answers requests for the path with the field; others end the connection.
fn answer(stream: &TcpStream, seen: &AtomicU64) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        if !head.starts_with("GET /1k HTTP/1.1\r\n") || !head.to_ascii_lowercase().contains("x-lab: yes") {
            return None;
        }
        seen.fetch_add(1, Ordering::Relaxed);
        (&*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
    }
}

fn sends_forty(mut command: Command, folder: &Path, seen: &AtomicU64) -> Result<()> {
    let output = command.current_dir(folder).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{command:?}: {text}");
    let count = seen.load(Ordering::Relaxed);
    ensure!(count == 40, "{count} requests by {command:?}: {text}");
    Ok(())
}

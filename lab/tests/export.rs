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
    let Some((seen, folder)) = exported(ToolName::K6).unwrap() else { return };
    let mut command = Command::new("k6");
    command.args(["run", "--quiet", "-e", "CLIENTS=4", "e-plain.js"]).env("K6_NO_USAGE_REPORT", "true");
    sends_forty(command, folder.path(), &seen).unwrap();
}

#[test]
fn exported_loads_are_sent_by_jmeter() {
    let Some((seen, folder)) = exported(ToolName::Jmeter).unwrap() else { return };
    let mut command = Command::new("jmeter");
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
}

/// A server that counts, and a folder with the load for it. Without the tool a line is printed.
fn exported(name: ToolName) -> Result<Option<(Arc<AtomicU64>, tempfile::TempDir)>> {
    if let Err(why) = tool::find(tool::named(name).context("no such tool")?) {
        println!("left out: {name}: {why:#}");
        return Ok(None);
    }
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
    ensure!(written.len() == 3, "{written:?}");
    Ok(Some((seen, folder)))
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

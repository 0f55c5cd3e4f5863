//! What is exported for k6 and JMeter, run by those tools where they are installed.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
    forty_are_imported(folder.path(), "results.csv").unwrap();
}

/// JMeter's remote mode: another process of JMeter sends the load, by the command that was exported.
#[test]
fn exported_loads_are_sent_by_a_remote_jmeter() {
    let Some((seen, folder, program)) = exported(ToolName::Jmeter).unwrap() else { return };
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).unwrap().port();
    // Without a certificate of its own JMeter refuses TLS between its processes, and it does not take the loopback unasked.
    let own = ["-Jserver.rmi.ssl.disable=true", "-Djava.rmi.server.hostname=127.0.0.1"];
    let mut server = Command::new(&program);
    server.args(["-s", "-j", "server.log", &format!("-Dserver_port={port}")]).args(own);
    let mut server = server.current_dir(folder.path()).stdout(Stdio::null()).spawn().unwrap();
    let ends = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() && Instant::now() < ends {
        assert!(server.try_wait().unwrap().is_none(), "the remote JMeter ended");
        thread::park_timeout(Duration::from_millis(50));
    }
    let commands = std::fs::read_to_string(folder.path().join("commands.txt")).unwrap();
    let told = commands.lines().find(|line| line.starts_with("jmeter ") && line.contains("-Gclients=4 "));
    let told = told.unwrap().replace("HOST,HOST", &format!("127.0.0.1:{port}"));
    let mut command = Command::new(&program);
    // `-X` ends the remote process afterwards.
    command.args(told.split(' ').skip(1)).args(["-j", "jmeter.log", "-X"]).args(own);
    let sent = sends_forty(command, folder.path(), &seen);
    if sent.is_err() {
        server.kill().unwrap();
    }
    server.wait().unwrap();
    sent.unwrap();
    forty_are_imported(folder.path(), "e-plain.jmx-4.csv").unwrap();
}

/// Sees that JMeter's samples are those of forty requests, and reads them back.
fn forty_are_imported(folder: &Path, samples: &str) -> Result<()> {
    let text = std::fs::read_to_string(folder.join(samples))?;
    let right = text.lines().filter(|line| line.contains(",200,")).count();
    ensure!(right == 40, "{right} of forty: {text}");
    let report = imported(folder, samples)?;
    ensure!(report.contains("JMeter, imported") && report.contains("**4 clients**"), "{report}");
    Ok(())
}

/// A server that counts, a folder with the load for it, and the tool. Without the tool a line is printed; k6 is there
/// in CI, and `make lab-jmeter` fetches JMeter.
fn exported(name: ToolName) -> Result<Option<(Arc<AtomicU64>, tempfile::TempDir, PathBuf)>> {
    let fetched = format!("../target/{name}/bin/{name}");
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join(fetched);
    let program = match tool::find(tool::named(name).context("no such tool")?) {
        Ok(found) => found.program,
        Err(_) if fetched.exists() => fetched.canonicalize()?,
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
    let written: Vec<PathBuf> = export(&experiment, &address.to_string(), folder.path())?.written;
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

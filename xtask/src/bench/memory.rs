//! What an idle connection costs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::contender::{Program, Server};
use super::{Plan, fetch, process};

/// How many connections are open at the two points of the slope.
const CONNECTIONS: [usize; 2] = [2_000, 6_000];

/// Descriptors that this process needs beside the connections.
const RESERVE: u64 = 100;

/// Bytes of the server's memory for each kept connection that has had one request: the slope between two
/// numbers of connections, so that what the server needs anyway does not count.
pub(super) fn per_connection(program: &Program, plan: &Plan, folder: &Path) -> Result<f64> {
    raise_limit(CONNECTIONS[1] as u64 + RESERVE)?;
    let server = Server::start(program, "memory", plan, folder)?;
    let mut open = Vec::new();
    let mut sizes = Vec::new();
    for count in CONNECTIONS {
        while open.len() < count {
            let (answer, stream) = fetch::get(server.address, "/1k", &[])?;
            ensure!(answer.status == 200, "status {} on connection {}", answer.status, open.len());
            open.push(stream);
        }
        // Lets the last of them become idle.
        thread::park_timeout(Duration::from_millis(500));
        sizes.push(process::pss_bytes(&server.processes())?);
    }
    let grown = sizes[1] as f64 - sizes[0] as f64;
    Ok(grown / (CONNECTIONS[1] - CONNECTIONS[0]) as f64)
}

/// Lets this process, and the servers that it starts, open as many files.
fn raise_limit(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).with_context(|| format!("{wanted} open files are needed"))
}

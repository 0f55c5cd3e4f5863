//! What an idle connection costs.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::fetch::{self, Connection};
use crate::contender::Running;
use crate::experiment::Load;
use crate::process;

/// Descriptors that this process needs beside the connections.
const RESERVE: u64 = 100;

/// How long a contender has to come to rest.
const REST: Duration = Duration::from_millis(500);

/// Memory of a contender with so many open connections that had one request each, for each of the numbers.
/// A contender that does not keep that many open gives an error in the place of the number.
pub(super) fn memory(running: &Running, load: &Load, counts: &[u32]) -> Result<Vec<(u32, Result<u64>)>> {
    let most = counts.iter().copied().max().unwrap_or_default();
    raise_limit(u64::from(most) + RESERVE)?;
    let mut open: Vec<Connection> = Vec::new();
    let mut sizes = Vec::new();
    for &count in counts {
        let reached = fill(&mut open, count, running, load);
        thread::park_timeout(REST);
        sizes.push((count, reached.map(|()| process::pss_bytes(&running.processes()))));
    }
    // The last ones and the first one still answer: none was closed behind our back to save memory.
    if sizes.iter().all(|(_, size)| size.is_ok()) {
        let last = open.len().saturating_sub(1);
        for index in [0, last] {
            if let Some(connection) = open.get_mut(index).filter(|_| load.expected_status() == 200) {
                fetch::get(connection, &load.path, &[]).context("an idle connection was closed")?;
            }
        }
    }
    Ok(sizes)
}

fn fill(open: &mut Vec<Connection>, count: u32, running: &Running, load: &Load) -> Result<()> {
    while open.len() < usize::try_from(count)? {
        let number = open.len() + 1;
        let connection = fetch::connect(running.address, load.tls.is_some());
        let mut connection = connection.with_context(|| format!("connection {number}"))?;
        let fields: Vec<&str> = load.fields.iter().map(String::as_str).collect();
        let answer = fetch::get(&mut connection, &load.path, &fields);
        let answer = answer.with_context(|| format!("connection {number}"))?;
        ensure!(answer.status == load.expected_status(), "status {} on connection {number}", answer.status);
        open.push(connection);
    }
    Ok(())
}

/// Lets this process, and the contenders that it starts later, open as many files.
pub(super) fn raise_limit(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).with_context(|| format!("{wanted} open files are needed"))
}

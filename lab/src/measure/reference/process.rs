//! A process for each connection, from a pool that grows while connections are waiting, as that of Apache's prefork
//! does. It does not shrink. Each process is this program once more, with the listening socket as its standard input,
//! and so each has the files in a separate memory.

use std::env;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::cache::Cache;
use super::thread;

/// How many processes there are before the first connection.
const FIRST: usize = 5;

/// How often it is looked whether connections are waiting.
const TICK: Duration = Duration::from_millis(20);

/// The most processes that are started at once. While connections go on waiting, it is twice as many each time.
const STEP: usize = 32;

/// Keeps the pool, up to so many processes.
pub(super) fn serve(listener: &TcpListener, root: &Path, most: u32) -> Result<ExitCode> {
    let most = usize::try_from(most)?;
    let mut pool: Vec<Child> = Vec::new();
    let mut step = 1;
    loop {
        for child in &mut pool {
            if let Some(status) = child.try_wait()? {
                // The others end with this one.
                bail!("a process of the pool has ended: {status}");
            }
        }
        let more = if pool.len() < FIRST {
            FIRST
        } else if is_waiting(listener)? {
            step
        } else {
            0
        };
        step = if more > 0 { (2 * step).min(STEP) } else { 1 };
        for _ in 0..more.min(most - pool.len()) {
            pool.push(spawn(listener, root)?);
        }
        park_timeout(TICK);
    }
}

/// Makes this process end with its parent, whatever that ends of.
pub(super) fn end_with(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before.
    ensure!(getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent), "the parent is gone");
    Ok(())
}

/// What one process of the pool does.
pub(super) fn work(cache: &'static Cache) -> Result<ExitCode> {
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().context("the listening socket")?;
    thread::serve_each(&socket.into(), cache)?;
    Ok(ExitCode::SUCCESS)
}

fn spawn(listener: &TcpListener, root: &Path) -> Result<Child> {
    let program = env::current_exe().context("this program")?;
    let mut command = Command::new(&program);
    command.args(["reference", "--kind", "process", "--worker", &getpid().as_raw_nonzero().to_string()]);
    command.arg("--root").arg(root);
    command.stdin(Stdio::from(OwnedFd::from(listener.try_clone()?)));
    command.spawn().with_context(|| format!("running {}", program.display()))
}

/// Whether a connection has not been accepted yet.
fn is_waiting(listener: &TcpListener) -> Result<bool> {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&at_once)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

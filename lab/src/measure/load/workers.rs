//! Processes of the generator, where one may not open as many connections as are wanted. Each is this program
//! again; it reads its plan from standard input, begins on a signal of its parent, and writes what came of it as JSON.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::crew::{self, Control};
use super::plan::Plan;
use super::tally::Tally;
use crate::measure::tls;

/// Descriptors that a process has besides those of its connections.
const RESERVED: u64 = 100;

/// What a worker says, a line each.
#[derive(Serialize, Deserialize)]
enum Message {
    Ready,
    Held(u64),
    Done(Box<Tally>),
    Failed(String),
}

/// How many processes so many connections need. The limit of this process is raised as far as it may be.
pub(super) fn needed(clients: u32) -> u32 {
    let limit = getrlimit(Resource::Nofile);
    // A process that may not raise it goes on with what it has.
    let _unchanged = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(RESERVED).max(1);
    u32::try_from(u64::from(clients).div_ceil(most)).unwrap_or(clients)
}

/// Runs a plan in so many processes, which begin together. Fails where one of them does.
pub(super) fn run(plan: &Plan, processes: u32, control: &mut Control<'_>) -> Result<Tally> {
    let (sender, messages) = mpsc::channel();
    let threads = (plan.threads / processes).max(1);
    let start = |part: Plan| Worker::start(&Plan { threads, ..part }, sender.clone());
    let mut workers = plan.parts(processes).into_iter().map(start).collect::<Result<Vec<_>>>()?;
    drop(sender);
    for _ in &workers {
        match messages.recv()? {
            Message::Ready => {}
            Message::Failed(reason) => bail!(reason),
            _ => bail!("a process of the generator began by itself"),
        }
    }
    for worker in &mut workers {
        worker.begin()?;
    }
    gather(plan, &messages, &mut workers, control)
}

fn gather(
    plan: &Plan,
    messages: &Receiver<Message>,
    workers: &mut [Worker],
    control: &mut Control<'_>,
) -> Result<Tally> {
    let mut total = Tally::default();
    let (mut done, mut holding, mut held) = (0, 0, 0);
    let mut end = None;
    while done < workers.len() {
        match messages.recv_timeout(Duration::from_millis(100)) {
            Ok(Message::Done(tally)) => {
                total.merge(&tally);
                done += 1;
            }
            Ok(Message::Held(connections)) => {
                holding += 1;
                held += connections;
                if holding == workers.len() {
                    (control.held)(held)?;
                    end = plan.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
                }
            }
            Ok(Message::Failed(reason)) => bail!(reason),
            Ok(Message::Ready) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("a process of the generator ended without a result"),
        }
        if control.is_over()? || end.is_some_and(|end| Instant::now() >= end) {
            workers.iter_mut().for_each(|worker| worker.input = None);
        }
    }
    Ok(total)
}

/// What a worker does: the other side of [`run`].
pub(super) fn work(interrupted: &AtomicBool) -> Result<()> {
    let tell = |message: &Message| -> Result<()> {
        let mut output = io::stdout().lock();
        serde_json::to_writer(&mut output, message)?;
        writeln!(output)?;
        Ok(output.flush()?)
    };
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let plan: Plan = serde_json::from_str(&line).context("a worker is started by the generator only")?;
    needed(plan.clients);
    if plan.tls.is_some() {
        // Processes begin together only if none of them has this before it.
        tls::seed()?;
    }
    tell(&Message::Ready)?;
    line.clear();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Ok(());
    }
    let mut held = |connections| tell(&Message::Held(connections));
    let mut control = Control { interrupted, follows_input: true, held: &mut held };
    // The end of an idle plan is settled by who holds all of it.
    let seconds = plan.seconds.filter(|_| !plan.idle);
    match crew::run(&Plan { seconds, ..plan }, &mut control) {
        Ok(tally) => tell(&Message::Done(Box::new(tally))),
        Err(error) => tell(&Message::Failed(format!("{error:#}"))),
    }
}

/// A process that was started. It ends with its standard input.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
}

impl Worker {
    fn start(plan: &Plan, messages: Sender<Message>) -> Result<Worker> {
        let mut child = Command::new(env::current_exe()?)
            .args(["load", "--worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let failed = |error| Message::Failed(format!("{error}: {line}"));
                    if messages.send(serde_json::from_str(&line).unwrap_or_else(failed)).is_err() {
                        return;
                    }
                }
            });
        }
        let mut worker = Worker { child, input };
        worker.write(&serde_json::to_string(plan)?)?;
        Ok(worker)
    }

    fn begin(&mut self) -> Result<()> {
        self.write("go")
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("a process of the generator without input")?;
        Ok(writeln!(input, "{line}")?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        // It may be gone already; either way nothing of it is left.
        let _gone = self.child.wait();
    }
}

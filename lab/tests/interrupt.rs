//! A run that is interrupted: everything that it made is gone, and what it measured is there. The contenders are the
//! lab's own reference servers, which are always there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::measure::contender::{Contender, find};
use lab::measure::process;
use lab::model::block;
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Two loads that take long, one of them idle connections.
const EXPERIMENT: &str = r#"
id = "long"
title = "Long"
question = "Does it end?"
contenders = ["reference-epoll", "reference-thread"]

[[files]]
path = "1k"
length = 1024

[[loads]]
id = "kept"
title = "Kept"
path = "/1k"
clients = 4
seconds = SECONDS
keep_alive = true

[[loads]]
id = "idle"
title = "Idle"
kind = "idle"
path = "/1k"
clients = 500
keep_alive = true
"#;

/// What a run may leave behind, all below one folder.
struct Run {
    folder: tempfile::TempDir,
    child: Child,
}

impl Run {
    fn start(seconds: f64, only: &str) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let experiment = folder.path().join("long.toml");
        fs::write(&experiment, EXPERIMENT.replace("SECONDS", &format!("{seconds:?}"))).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
        command.args(["run", "--turns", "2", "--only", only, "long", "--experiment"]).arg(experiment);
        Run::spawn(folder, command)
    }

    fn spawn(folder: tempfile::TempDir, mut command: Command) -> Run {
        let child = command
            .arg("--out")
            .arg(folder.path().join("out"))
            .env("TMPDIR", folder.path().join("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Run { folder, child: child.unwrap() }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn blocks(&self) -> Vec<block::Block> {
        block::read(&self.out().join(block::FILE)).unwrap()
    }

    /// The processes that it has started.
    fn family(&self) -> Vec<u32> {
        process::family(self.child.id()).split_off(1)
    }

    /// Whether one of them was started with these words.
    fn runs(&self, words: &str) -> bool {
        self.family().iter().any(|pid| command_line(*pid).contains(words))
    }

    /// Waits until it is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Run) -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so(self) {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended before: {what}");
            assert!(Instant::now() < end, "{what}");
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Interrupts it, and sees that nothing is left but what was measured: the number of blocks.
    fn interrupt(mut self, signal: Signal) -> usize {
        self.end(signal);
        let blocks = self.blocks();
        assert!(blocks.iter().all(|block| block.failure.is_none()), "what is interrupted has not failed");
        assert_eq!(self.out().join("report.html").exists(), !blocks.is_empty());
        blocks.len()
    }

    /// Interrupts it, and sees that nothing runs any more and no socket and temporary file is left.
    fn end(&mut self, signal: Signal) {
        let family: Vec<(u32, String)> = self.family().into_iter().map(|pid| (pid, began(pid))).collect();
        assert!(!family.is_empty());
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let end = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end");
            thread::park_timeout(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(130));
        let name = self.folder.path().display().to_string();
        let left = family.iter().filter(|(pid, then)| !then.is_empty() && began(*pid) == *then);
        let left: Vec<String> = left.map(|(pid, _)| command_line(*pid)).collect();
        assert!(left.is_empty(), "processes are left: {left:?}");
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains(&name), "sockets are left: {sockets}");
        let files: Vec<_> = fs::read_dir(self.folder.path().join("tmp")).unwrap().collect();
        assert!(files.is_empty(), "files are left: {files:?}");
    }
}

/// When a process began, which no other process of this number shares; of one that is gone, nothing.
fn began(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_ascii_whitespace().nth(19).unwrap_or_default().to_owned()
}

fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

#[test]
fn in_the_middle_of_a_block() {
    let mut run = Run::start(600.0, "reference-epoll,reference-thread");
    run.until("a tool that loads", |run| run.runs("load --json"));
    assert_eq!(run.interrupt(Signal::INT), 0);
}

#[test]
fn what_was_measured_before_is_kept() {
    let mut run = Run::start(0.2, "reference-epoll,reference-thread");
    run.until("a second block", |run| run.blocks().len() == 1 && run.runs("load --json"));
    let measured = run.interrupt(Signal::TERM);
    assert!((1..=3).contains(&measured), "{measured}");
}

#[test]
fn while_contenders_start() {
    let mut run = Run::start(600.0, "reference-thread");
    run.until("a contender", |run| run.runs("reference --kind"));
    assert_eq!(run.interrupt(Signal::HUP), 0);
}

#[test]
fn while_features_are_probed() {
    let all = Contender::built_in().unwrap();
    if let Err(error) = find(all.iter().find(|one| one.name == "apache-event").unwrap(), None) {
        println!("left out: {error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(["features", "--only", "apache-event"]);
    let mut run = Run::spawn(folder, command);
    run.until("a probe", |run| run.out().join("features").exists() && !run.family().is_empty());
    run.end(Signal::INT);
    assert!(!run.out().join("features.md").exists());
}

#[test]
fn while_idle_connections_are_held() {
    let mut run = Run::start(0.1, "reference-epoll");
    run.until("a generator that holds", |run| run.runs("load --idle"));
    // The two blocks of the load, and its twin's.
    assert_eq!(run.interrupt(Signal::INT), 4);
}

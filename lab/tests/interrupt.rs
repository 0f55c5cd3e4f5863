//! A run that is interrupted, or that something befalls: everything that it made is gone, and what it measured is there.
//! The contenders are the lab's own reference servers, which are always there.
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

/// A load of which a block never ends while a test waits, by its path.
const ENDLESS: &str = r#"
[[loads]]
id = "endless"
title = "Endless"
path = "/endless"
clients = 4
seconds = 600.0
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
        let text = EXPERIMENT.replace("SECONDS", &format!("{seconds:?}"));
        Run::start_text(folder, &text, only)
    }

    /// The first load in short blocks, then one whose first block does not end.
    fn start_endless(only: &str) -> Run {
        let (kept, _) = EXPERIMENT.split_once("[[loads]]\nid = \"idle\"").unwrap();
        let file = "[[files]]\npath = \"endless\"\nlength = 1024\n\n[[loads]]";
        let text = kept.replace("SECONDS", "0.2").replacen("[[loads]]", file, 1) + ENDLESS;
        Run::start_text(tempfile::tempdir().unwrap(), &text, only)
    }

    fn start_text(folder: tempfile::TempDir, text: &str, only: &str) -> Run {
        let experiment = folder.path().join("long.toml");
        fs::write(&experiment, text).unwrap();
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
    let mut run = Run::start_endless("reference-epoll,reference-thread");
    // The block of the second load lasts longer than any wait of this test: no block can end in between.
    run.until("a block of the second load", |run| run.runs("load --json") && run.runs("/endless"));
    let before = run.blocks().len();
    // Two turns of two servers and a twin, and more turns if the machine was busy.
    assert!(before >= 6, "{before}");
    assert_eq!(run.interrupt(Signal::TERM), before);
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
    // Two turns of the server and its twin, and more turns if the machine was busy.
    let measured = run.interrupt(Signal::INT);
    assert!((4..=8).contains(&measured), "{measured}");
}

/// The run in which a server is killed says so, and so does each later one of it; the others are measured.
#[test]
fn a_server_that_dies_is_named() {
    let mut run = Run::start(1.0, "reference-epoll,reference-thread");
    let is_server = |pid: &u32| command_line(*pid).contains("reference --kind epoll");
    run.until("a tool that loads", |run| run.runs("load --json"));
    for server in run.family().iter().filter(|pid| is_server(pid)) {
        kill_process(Pid::from_raw(i32::try_from(*server).unwrap()).unwrap(), Signal::KILL).unwrap();
    }
    run.until("all runs of the first load", |run| {
        run.blocks().iter().filter(|block| block.cell.load == "kept").count() >= 6
    });
    let blocks = run.blocks();
    let why = |name: &str| -> Vec<Option<String>> {
        let of_it = blocks.iter().filter(|block| block.cell.load == "kept" && block.cell.contender == name);
        of_it.map(|block| block.failure.clone()).collect()
    };
    let died = why("reference-epoll");
    let says = |why: &Option<String>, words: &str| why.as_ref().is_some_and(|why| why.contains(words));
    // On a machine that stood still for a second its first run may have been over.
    let is_in_the_middle = says(&died[0], "the server ended in the middle of this run, by signal 9");
    assert!(is_in_the_middle || died[0].is_none(), "{died:?}");
    assert!(says(&died[1], "the server is not running any more: it ended by signal 9"), "{died:?}");
    assert!(why("reference-thread").len() >= 2 && why("reference-thread").iter().all(Option::is_none));
    run.end(Signal::INT);
}

/// Runs that were measured before the disk was full are kept, and `--resume` goes on once there is room.
#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = folder.path().join("long.toml");
    let (kept, _) = EXPERIMENT.split_once("[[loads]]\nid = \"idle\"").unwrap();
    fs::write(&experiment, kept.replace("SECONDS", "0.2")).unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    let lab = env!("CARGO_BIN_EXE_fulmar-lab");
    let run = format!("{lab} run long --only reference-epoll --turns 5 --experiment long.toml --out out");
    // A small disk that only this shell sees and which is gone with the shell.
    let script = format!(
        "mount -t tmpfs -o size=24k none out 2> /dev/null || exit 77\n{run} > /dev/null; echo \"code $?\" >&2\n\
         mount -o remount,size=16m none out || exit 77\n{run} --resume > said || exit 3\ncp out/blocks.jsonl ."
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
    let Some(output) =
        command.output().ok().filter(|output| ![Some(77), Some(1)].contains(&output.status.code()))
    else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("No space left on device") && said.contains("code 1\n"), "{said}");
    assert!(said.contains("The disk is full. All runs that were measured before are kept."), "{said}");
    let blocks = block::read(&folder.path().join(block::FILE)).unwrap();
    // Turns that began on a busy machine are made up for by later ones.
    let measured = blocks.iter().filter(|block| block.failure.is_none() && block.turn < 5);
    let turns: std::collections::BTreeSet<(String, u32)> =
        measured.map(|block| (block.cell.contender.clone(), block.turn)).collect();
    assert_eq!(turns.len(), 10, "five of the server and of its twin: {turns:?}");
}

/// A run pauses between two groups of loads, and `--resume` measures what is missing, and nothing twice.
#[test]
fn a_window_is_a_part_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("long.toml"), EXPERIMENT.replace("SECONDS", "0.2")).unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
        command.args(["run", "long", "--only", "reference-epoll", "--turns", "2"]);
        command.args(["--experiment", "long.toml", "--out", "out"]).args(more);
        let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let blocks = block::read(&folder.path().join("out").join(block::FILE)).unwrap();
        let loads: Vec<(String, String, u32)> =
            blocks.into_iter().map(|block| (block.cell.load, block.cell.contender, block.turn)).collect();
        (loads, String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (first, said) = run(&["--window", "0.005"]);
    assert!(first.len() >= 4 && first.iter().all(|(load, ..)| load == "kept"), "{first:?}");
    assert!(said.contains("Paused, as --window says: the same command with `--resume` goes on."), "{said}");
    let (all, said) = run(&["--resume", "--window", "10"]);
    assert!(
        !said.contains("Paused") && !said.contains("long: Kept"),
        "what is measured is not started: {said}"
    );
    assert_eq!(all[..first.len()], first);
    assert!(all.len() > first.len() && all[first.len()..].iter().all(|(load, ..)| load == "idle"), "{all:?}");
}

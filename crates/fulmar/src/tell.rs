//! `-s`: tells the running supervisor something, and waits for the verdict.

use std::fs;
use std::path::Path;
use std::time::Duration;

use net::control::{Answer, Command, ControlError, ask};
use net::process::Pid;
use net::signal::{self, Signal};
use net::system_message;

use crate::pid_file;

/// How long the supervisor may take: a reload tries addresses in use for some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As was asked for.
    Done,
    /// The signal was sent, but nobody said what came of it.
    Unknown,
    /// Not done; the supervisor's own text, which names the program already.
    Refused(String),
    /// Nobody could be told; why.
    Failed(String),
}

/// Tells the supervisor whose identifier is in this file.
pub(crate) fn tell(pid_path: &Path, command: Command) -> Verdict {
    match pid_file::read(pid_path) {
        Ok(pid) => tell_process(pid, command),
        Err(reason) => Verdict::Failed(reason),
    }
}

fn tell_process(pid: Pid, command: Command) -> Verdict {
    let existed = name(pid).is_some();
    match ask(pid, command, PATIENCE) {
        Ok(Answer::Ok(_)) => Verdict::Done,
        Ok(Answer::Error(reason)) => Verdict::Refused(reason),
        Err(ControlError::Timeout(_)) => {
            Verdict::Failed(format!("process {pid} has not answered in {} s", PATIENCE.as_secs()))
        }
        // It ended before it could answer.
        Err(_) if command == Command::Stop && existed && name(pid).is_none() => Verdict::Done,
        Err(_) => send(pid, command),
    }
}

/// A supervisor without a control socket, or one of another user: its signals are all that is left.
fn send(pid: Pid, command: Command) -> Verdict {
    let number = match command {
        Command::Stop => Signal::SIGTERM,
        Command::Quit => Signal::SIGQUIT,
        Command::Reopen => Signal::SIGUSR1,
        Command::Reload => Signal::SIGHUP,
        Command::Identify => return Verdict::Failed("there is no signal for that".to_owned()),
    };
    if name(pid).is_some_and(|name| !is_ours(&name)) {
        return Verdict::Failed(format!("process {pid} is no Fulmar, it is left alone"));
    }
    match signal::send(pid, number) {
        Ok(()) => Verdict::Unknown,
        Err(error) => {
            let number = number as i32;
            Verdict::Failed(format!("kill({pid}, {number}) failed ({})", system_message(&error)))
        }
    }
}

/// The name of a process's program, cut to fifteen bytes; none if there is no such process.
fn name(pid: Pid) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// Whether a program's name is ours, be it by a link of another name.
fn is_ours(name: &str) -> bool {
    name == "fulmar" || self::name(Pid::this()).is_some_and(|own| own == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_told_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let failed = |reason: String| Verdict::Failed(reason);
        let open = format!("open() \"{}\" failed (2: No such file or directory)", path.display());
        assert_eq!(tell(&path, Command::Reload), failed(open));
        fs::write(&path, "\n").unwrap();
        let invalid = format!("invalid PID number \"\" in \"{}\"", path.display());
        assert_eq!(tell(&path, Command::Reload), failed(invalid));
        fs::write(&path, "2147483647\n").unwrap();
        let gone = "kill(2147483647, 1) failed (3: No such process)";
        assert_eq!(tell(&path, Command::Reload), failed(gone.to_owned()));
    }

    #[test]
    fn strangers_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = stranger.id();
        fs::write(&path, format!("{pid}\n")).unwrap();
        let verdict = tell(&path, Command::Stop);
        let alive = stranger.try_wait().unwrap().is_none();
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(verdict, Verdict::Failed(format!("process {pid} is no Fulmar, it is left alone")));
        assert!(alive);
    }
}

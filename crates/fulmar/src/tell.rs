//! `-s`: tells the running supervisor something, and waits for the verdict.

use std::fs;
use std::path::Path;
use std::time::Duration;

use net::control::{Answer, Command, ControlError, ask_while};
use net::process::Pid;
use net::signal::{self, Signal};
use net::system_message;

use crate::console::say;
use crate::pid_file;

/// How long the supervisor may take: a reload tries addresses in use for some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the supervisor may take before a line says that it is waited for.
const SILENCE: Duration = Duration::from_secs(5);

/// How long a stopped supervisor is waited for. A debugger stops one for a moment, too.
const STOPPED_PATIENCE: Duration = Duration::from_secs(3);

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As was asked for; the supervisor's words.
    Done(String),
    /// The signal was sent, but its result is unknown.
    Unknown,
    /// Not done; the supervisor's own text, which names the program already.
    Refused(String),
    /// No server could be reached; the reason.
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
    let mut wait = Wait { pid, told: false, stopped_since: None, is_stopped: false };
    match ask_while(pid, command, PATIENCE, |waited| wait.goes_on(waited)) {
        Ok(Answer::Ok(text)) => Verdict::Done(text),
        Ok(Answer::Error(reason)) => Verdict::Refused(reason),
        Err(ControlError::Timeout(_)) if wait.is_stopped => Verdict::Failed(stopped(pid)),
        Err(ControlError::Timeout(_)) => {
            Verdict::Failed(format!("process {pid} has not answered in {} s", PATIENCE.as_secs()))
        }
        // It ended before it could answer.
        Err(_) if command == Command::Stop && existed && name(pid).is_none() => Verdict::Done(String::new()),
        Err(_) => send(pid, command),
    }
}

/// The wait for the answer of one process.
struct Wait {
    pid: Pid,
    told: bool,
    /// The time waited until the process was first seen stopped.
    stopped_since: Option<Duration>,
    is_stopped: bool,
}

impl Wait {
    /// Whether an answer may still come; `waited` is the time since the question.
    fn goes_on(&mut self, waited: Duration) -> bool {
        if state(self.pid).is_some_and(|state| matches!(state, 'T' | 't')) {
            let since = *self.stopped_since.get_or_insert(waited);
            self.is_stopped = waited.saturating_sub(since) >= STOPPED_PATIENCE;
        } else {
            self.stopped_since = None;
        }
        if waited >= SILENCE && !self.told {
            self.told = true;
            say(&format!("waiting for process {}", self.pid));
        }
        !self.is_stopped
    }
}

fn stopped(pid: Pid) -> String {
    format!(
        "process {pid} is stopped (by SIGSTOP or a debugger) and does not answer; \"kill -CONT {pid}\" continues it, \
         and then it obeys"
    )
}

/// The letter of a process's state, see proc_pid_stat(5); none if there is no such process.
fn state(pid: Pid) -> Option<char> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses, and may contain some.
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name_end + 2).map(|&byte| char::from(byte))
}

/// A supervisor without a control socket, or one of another user: its signals are all that is left.
fn send(pid: Pid, command: Command) -> Verdict {
    let number = match command {
        Command::Stop => Signal::SIGTERM,
        Command::Quit => Signal::SIGQUIT,
        Command::Reopen => Signal::SIGUSR1,
        Command::Reload => Signal::SIGHUP,
        Command::Identify | Command::Status | Command::Renew => {
            return Verdict::Failed(format!("process {pid} does not answer, or belongs to another user"));
        }
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
        let hint = "no server runs with this configuration";
        let open = format!("open() \"{}\" failed (2: No such file or directory); {hint}", path.display());
        assert_eq!(tell(&path, Command::Reload), failed(open));
        fs::write(&path, "\n").unwrap();
        let invalid = format!("invalid PID number \"\" in \"{}\"", path.display());
        assert_eq!(tell(&path, Command::Reload), failed(invalid));
        fs::write(&path, "2147483647\n").unwrap();
        let gone = "kill(2147483647, 1) failed (3: No such process)";
        assert_eq!(tell(&path, Command::Reload), failed(gone.to_owned()));
    }

    #[test]
    fn states_of_processes() {
        assert!(state(Pid::this()).is_some_and(|state| matches!(state, 'R' | 'S')));
        assert_eq!(state(Pid::from_raw(i32::MAX)), None);
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

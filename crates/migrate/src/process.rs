//! Processes that are started here: what they print is bounded, waiting is bounded, and they end with their owner.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Bytes of a process's messages that are kept; what follows is read and dropped.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Between two looks at a process.
const PAUSE: Duration = Duration::from_millis(20);
/// A server that was told to stop and has not after this time is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// What a process printed, up to a limit.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
}

/// A process in a separate process group. Dropping it ends the group; if this process is killed, the kernel ends it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    printed: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when no process of the group can print any more.
    closed: Receiver<()>,
}

/// Runs a program to its end, and gives what it printed.
///
/// # Errors
/// It does not start, or does not end within the time.
pub(crate) fn output(command: &mut Command, patience: Duration) -> Result<Output, String> {
    let name = command.get_program().display().to_string();
    let mut process = Process::start(command).map_err(|error| format!("cannot start \"{name}\": {error}"))?;
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if process.has_ended() {
            return Ok(Output { text: process.text() });
        }
    }
    Err(format!("\"{name}\" did not end within {} s", patience.as_secs()))
}

impl Process {
    /// Starts a program. It gets no input, and both of its output streams are read here.
    pub(crate) fn start(command: &mut Command) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        net::process::ends_with_its_starter(command);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let child = command.spawn()?;
        // The command holds the writing ends, and the reader would never see the end of the output.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (open, closed) = channel();
        let kept = Arc::clone(&printed);
        thread::spawn(move || {
            keep(reader, &kept);
            drop(open);
        });
        Ok(Process { child, printed, closed })
    }

    /// Waits until a server accepts connections at all addresses.
    ///
    /// # Errors
    /// It ended, or does not listen in time, or the user stops the run; the text has its messages.
    pub(crate) fn wait_for(
        &mut self,
        addresses: &[SocketAddr],
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let end = Instant::now() + patience;
        let is_open = |address: &SocketAddr| TcpStream::connect_timeout(address, PAUSE).is_ok();
        loop {
            if addresses.iter().all(is_open) {
                return Ok(());
            }
            if self.has_ended() {
                return Err(self.text());
            }
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= end {
                let text = self.text();
                return Err(format!("it does not listen after {} s\n{text}", patience.as_secs()));
            }
        }
    }

    /// Whether the process has ended, after a short pause if not.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.closed.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected) {
            thread::park_timeout(PAUSE);
        }
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it printed.
    pub(crate) fn text(&self) -> String {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        conf::tree::printable(&printed).replace("\\x0A", "\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        // A server tells its own workers; what is left of the group is killed.
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if is_running && kill_process(pid, Signal::TERM).is_ok() {
            let end = Instant::now() + STOP_PATIENCE;
            while Instant::now() < end && !self.has_ended() {}
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Reads to the end, and keeps the beginning.
fn keep(mut reader: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = reader.read(&mut buffer)
        && length > 0
    {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = TEXT_BYTES_MAX - kept.len().min(TEXT_BYTES_MAX);
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<Output, String> {
        output(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn output_and_time_are_bounded() {
        let short = Duration::from_millis(300);
        assert_eq!(shell("echo a; echo b >&2", Duration::from_secs(10)).unwrap().text, "a\nb\n");
        assert!(shell("sleep 1000", short).unwrap_err().contains("did not end"));
        assert!(shell("yes", short).unwrap_err().contains("did not end"));
        let long = shell("head -c 1000000 /dev/zero | tr '\\0' x", Duration::from_secs(10)).unwrap();
        assert_eq!(long.text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn children_of_the_process_end_with_it() {
        let mut process =
            Process::start(Command::new("sh").args(["-c", "sleep 1000 & echo $!; wait"])).unwrap();
        while process.text().is_empty() {
            assert!(!process.has_ended());
        }
        let pid = Pid::from_raw(process.text().trim().parse().unwrap()).unwrap();
        drop(process);
        let gone = |pid| match std::fs::read_to_string(format!("/proc/{}/stat", Pid::as_raw(Some(pid)))) {
            Ok(text) => text.contains(") Z "),
            Err(_) => true,
        };
        for _ in 0..500 {
            if gone(pid) {
                return;
            }
            thread::park_timeout(PAUSE);
        }
        panic!("{pid:?} is still there");
    }
}

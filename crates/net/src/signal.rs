//! Signals as a queue that is read together with other descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::set_parent_process_death_signal;

use crate::process::Pid;

pub use nix::sys::signal::Signal;

/// The signals that a supervisor and a worker act on.
const HANDLED: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCHLD,
    Signal::SIGALRM,
];

/// Never delivered: a file that has reached its limit (RLIMIT_FSIZE) is an error of the write, not the end of the
/// process.
const FILE_LIMIT: Signal = Signal::SIGXFSZ;

/// What a worker does not hear: a signal to all processes of this name, such as HUP, is for its supervisor.
const FOR_SUPERVISORS: [Signal; 3] = [Signal::SIGHUP, Signal::SIGUSR2, Signal::SIGALRM];

/// The signals sent to this process, in a queue instead of handlers, see signalfd(2).
///
/// The same signal sent twice before it is read is delivered once. After a fork the child reads its own
/// signals from the same queue, or drops it and calls [`restore_after_fork`].
#[derive(Debug)]
pub struct SignalQueue {
    queue: SignalFd,
}

/// A signal and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The signal; `as_str()` is its name, `as i32` its number.
    pub signal: Signal,
    /// Who sent it; none if the kernel did, as for a key of the terminal.
    pub sender: Option<Pid>,
}

/// What ended a [`SignalQueue::wait`]; nothing at all after the timeout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// The signals that arrived, each at most once.
    pub signals: Vec<Received>,
    /// Positions of the other descriptors that can be read or whose peer is gone.
    pub ready: Vec<usize>,
}

impl SignalQueue {
    /// Blocks the signals for this thread and all that it starts, and queues them.
    ///
    /// Threads that run already must not exist: a signal that one of them leaves unblocked would not be queued.
    pub fn new() -> io::Result<SignalQueue> {
        let handled: SigSet = HANDLED.into_iter().collect();
        handled.thread_block()?;
        SigSet::from(FILE_LIMIT).thread_block()?;
        let queue = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(SignalQueue { queue })
    }

    /// Waits until a signal arrives, one of `others` can be read, or the time is over (none: no limit).
    pub fn wait(&self, others: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Events> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut polled = vec![readable(self.queue.as_fd())];
        polled.extend(others.iter().copied().map(readable));
        match poll(&mut polled, poll_timeout(timeout)) {
            // A handler that is not ours ran: an early end does no harm.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |fd: &PollFd<'_>| fd.revents().is_none_or(|events| !events.is_empty());
        let ready = polled.iter().skip(1).enumerate().filter(|(_, fd)| is_ready(fd)).map(|(i, _)| i);
        Ok(Events { signals: self.read()?, ready: ready.collect() })
    }

    fn read(&self) -> io::Result<Vec<Received>> {
        let mut signals = Vec::new();
        while let Some(info) = self.queue.read_signal()? {
            let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
            let pid = i32::try_from(info.ssi_pid).ok().filter(|pid| *pid != 0);
            signals.push(Received { signal: Signal::try_from(number)?, sender: pid.map(Pid::from_raw) });
        }
        Ok(signals)
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// Delivers signals to this thread again, for a child that installs its own handlers: all but those that are for
/// supervisors, and a file's limit.
pub fn restore_after_fork() -> io::Result<()> {
    let blocked: SigSet = FOR_SUPERVISORS.into_iter().chain([FILE_LIMIT]).collect();
    Ok(blocked.thread_set_mask()?)
}

/// Delivers every signal to this thread again, for another program that is about to take its place.
pub(crate) fn restore_for_exec() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Queues `SIGCHLD` when the parent of this process ends, as if that were a child.
///
/// Nothing comes where it ended before the call. Children of this process do not inherit it.
pub fn hear_of_parents_end() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(rustix::process::Signal::CHILD))?)
}

/// Sends a signal to one process.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    Ok(kill(pid, signal)?)
}

/// Whole milliseconds, rounded up so that no wait turns into a busy loop.
fn poll_timeout(timeout: Option<Duration>) -> PollTimeout {
    match timeout {
        None => PollTimeout::NONE,
        Some(time) => {
            let milliseconds = time.as_nanos().div_ceil(1_000_000);
            i32::try_from(milliseconds)
                .ok()
                .and_then(|n| PollTimeout::try_from(n).ok())
                .unwrap_or(PollTimeout::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::time::Instant;

    use super::*;
    use crate::process::{Fork, fork};
    use crate::testing::{alone, end_with, linger, reap_one};

    const SECONDS: Option<Duration> = Some(Duration::from_secs(10));

    #[test]
    fn signals_are_queued_with_their_sender() {
        alone(|| {
            let queue = SignalQueue::new().unwrap();
            let sent = [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGHUP];
            sent.iter().for_each(|signal| send(Pid::this(), *signal).unwrap());
            let mut events = queue.wait(&[], SECONDS).unwrap();
            events.signals.sort_by_key(|received| received.signal);
            let received = |signal| Received { signal, sender: Some(Pid::this()) };
            assert_eq!(events.signals, [received(Signal::SIGHUP), received(Signal::SIGTERM)]);
            assert_eq!(queue.wait(&[], Some(Duration::ZERO)).unwrap(), Events::default());
        });
    }

    #[test]
    fn the_end_of_a_child_is_a_signal() {
        alone(|| {
            let queue = SignalQueue::new().unwrap();
            let Fork::Parent(child) = fork().unwrap() else { end_with(0) };
            let events = queue.wait(&[], SECONDS).unwrap();
            assert_eq!(events.signals, [Received { signal: Signal::SIGCHLD, sender: Some(child) }]);
        });
    }

    #[test]
    fn other_descriptors_wake_too() {
        alone(|| {
            let queue = SignalQueue::new().unwrap();
            let (silent, _kept) = UnixStream::pair().unwrap();
            let (data, mut writer) = UnixStream::pair().unwrap();
            let (closed, gone) = UnixStream::pair().unwrap();
            writer.write_all(b"x").unwrap();
            drop(gone);
            let events = queue.wait(&[silent.as_fd(), data.as_fd(), closed.as_fd()], SECONDS).unwrap();
            assert_eq!(events, Events { signals: Vec::new(), ready: vec![1, 2] });
        });
    }

    #[test]
    fn a_wait_is_not_shorter_than_asked() {
        alone(|| {
            let queue = SignalQueue::new().unwrap();
            let start = Instant::now();
            queue.wait(&[], Some(Duration::from_micros(20_500))).unwrap();
            assert!(start.elapsed() >= Duration::from_micros(20_500));
        });
    }

    #[test]
    fn a_child_can_be_killed_again() {
        alone(|| {
            let _queue = SignalQueue::new().unwrap();
            let (ready, told) = UnixStream::pair().unwrap();
            match fork().unwrap() {
                Fork::Parent(child) => {
                    drop(told);
                    // The end of file comes when the child dropped its end.
                    assert_eq!(std::io::Read::read(&mut &ready, &mut [0; 1]).unwrap(), 0);
                    send(child, Signal::SIGTERM).unwrap();
                    assert_eq!(reap_one().signal(), Some(15));
                }
                Fork::Child => {
                    restore_after_fork().unwrap();
                    drop((ready, told));
                    linger();
                }
            }
        });
    }
}

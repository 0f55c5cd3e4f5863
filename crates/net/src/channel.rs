//! The line between the supervisor and one worker: commands down, reports up.
//!
//! It is a pair of sockets of the kind SOCK_SEQPACKET, which keeps messages whole. The end of file on the
//! worker's side means that the supervisor is gone, whatever killed it, and on the supervisor's side that
//! the worker is. Both only work if no process keeps the other's end open: after the fork the supervisor
//! drops the [`WorkerEnd`], and the worker every [`SupervisorEnd`], those of older workers included.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The longest message in bytes; longer texts are cut.
const MESSAGE_LIMIT: usize = 16 * 1024;

/// What the supervisor tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Accept no more, finish the requests that began, end.
    Quit,
    /// End at once.
    Terminate,
    /// Open the log files anew.
    ReopenLogs,
}

/// What a worker tells the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// All threads accept connections.
    Ready,
    /// Something to log or to show to whoever asked for a reload.
    Text(String),
}

/// What the supervisor finds on its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The worker's next report.
    Report(Report),
    /// Nothing yet.
    Empty,
    /// The worker is gone, or closed its end.
    Closed,
}

/// The end that the supervisor keeps.
#[derive(Debug)]
pub struct SupervisorEnd(OwnedFd);

/// The end that the worker keeps.
#[derive(Debug)]
pub struct WorkerEnd(OwnedFd);

/// The worker's end on the event loop of one thread.
#[derive(Debug)]
pub struct AsyncWorkerEnd(AsyncFd<OwnedFd>);

/// Opens a channel, before the fork.
pub fn channel() -> io::Result<(SupervisorEnd, WorkerEnd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (supervisor, worker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((SupervisorEnd(supervisor), WorkerEnd(worker)))
}

impl SupervisorEnd {
    /// Sends a command; never waits. `BrokenPipe` if the worker is gone.
    pub fn send(&self, command: Command) -> io::Result<()> {
        send_message(self.0.as_fd(), &[command.to_byte()])
    }

    /// Takes the next report; never waits.
    pub fn receive(&self) -> io::Result<Incoming> {
        let mut buffer = vec![0; MESSAGE_LIMIT];
        match receive_message(self.0.as_fd(), &mut buffer) {
            Ok([]) => Ok(Incoming::Closed),
            Ok(message) => Ok(Incoming::Report(Report::decode(message)?)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Incoming::Empty),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for SupervisorEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl WorkerEnd {
    /// Sends a report; never waits, and fails if the supervisor let the channel fill up.
    pub fn send(&self, report: &Report) -> io::Result<()> {
        send_message(self.0.as_fd(), &report.encode())
    }

    /// Registers the end with the event loop of this thread; panics outside of a tokio runtime.
    #[allow(unsafe_code)]
    pub fn into_tokio(self) -> io::Result<AsyncWorkerEnd> {
        // SAFETY: the descriptor is owned by the `AsyncFd`, which gives out no `&mut`, so it stays open and the
        // same until the `AsyncFd` is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        Ok(AsyncWorkerEnd(registered?))
    }
}

impl AsFd for WorkerEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsyncWorkerEnd {
    /// Sends a report; never waits, and fails if the supervisor let the channel fill up.
    pub fn send(&self, report: &Report) -> io::Result<()> {
        send_message(self.0.get_ref().as_fd(), &report.encode())
    }

    /// The next command; none when the supervisor is gone. It may be dropped without loss.
    pub async fn receive(&self) -> io::Result<Option<Command>> {
        self.0
            .async_io(Interest::READABLE, |fd| match receive_message(fd.as_fd(), &mut [0; 1])? {
                [] => Ok(None),
                message => Command::from_bytes(message).map(Some),
            })
            .await
    }
}

impl Command {
    fn to_byte(self) -> u8 {
        match self {
            Command::Quit => b'q',
            Command::Terminate => b't',
            Command::ReopenLogs => b'r',
        }
    }

    fn from_bytes(message: &[u8]) -> io::Result<Command> {
        match message {
            b"q" => Ok(Command::Quit),
            b"t" => Ok(Command::Terminate),
            b"r" => Ok(Command::ReopenLogs),
            _ => Err(malformed()),
        }
    }
}

impl Report {
    fn encode(&self) -> Vec<u8> {
        match self {
            Report::Ready => b"r".to_vec(),
            Report::Text(text) => {
                let mut message = b"t".to_vec();
                message.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(MESSAGE_LIMIT - 1)]);
                message
            }
        }
    }

    fn decode(message: &[u8]) -> io::Result<Report> {
        match message {
            b"r" => Ok(Report::Ready),
            [b't', text @ ..] => Ok(Report::Text(String::from_utf8_lossy(text).into_owned())),
            _ => Err(malformed()),
        }
    }
}

fn send_message(fd: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
    loop {
        match send(fd, message, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The next message, empty at the end of file.
fn receive_message<'a>(fd: BorrowedFd<'_>, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        match recv(fd, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => return Ok(&buffer[..length.min(buffer.len())]),
            // The peer died and left messages unread.
            Err(Errno::CONNRESET) => return Ok(&[]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed message between supervisor and worker")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::process::{Fork, fork};
    use crate::signal::{Signal, send as kill};
    use crate::testing::{alone, end_with, linger, run};

    #[test]
    fn commands_go_down_one_by_one() {
        run(async {
            let (supervisor, worker) = channel().unwrap();
            let worker = worker.into_tokio().unwrap();
            let commands = [Command::ReopenLogs, Command::Quit, Command::Terminate];
            commands.iter().for_each(|command| supervisor.send(*command).unwrap());
            for command in commands {
                assert_eq!(worker.receive().await.unwrap(), Some(command));
            }
            drop(supervisor);
            assert_eq!(worker.receive().await.unwrap(), None);
            assert_eq!(worker.send(&Report::Ready).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn reports_go_up_whole() {
        let (supervisor, worker) = channel().unwrap();
        assert_eq!(supervisor.receive().unwrap(), Incoming::Empty);
        let long = "é".repeat(MESSAGE_LIMIT);
        let reports = [Report::Text(String::new()), Report::Ready, Report::Text(long.clone())];
        reports.iter().for_each(|report| worker.send(report).unwrap());
        let received = || supervisor.receive().unwrap();
        assert_eq!(received(), Incoming::Report(Report::Text(String::new())));
        assert_eq!(received(), Incoming::Report(Report::Ready));
        let Incoming::Report(Report::Text(cut)) = received() else { panic!("no text") };
        assert!(long.starts_with(&cut) && cut.len() > MESSAGE_LIMIT - 4, "{}", cut.len());
        assert_eq!(received(), Incoming::Empty);
        drop(worker);
        assert_eq!(supervisor.receive().unwrap(), Incoming::Closed);
        assert_eq!(supervisor.send(Command::Quit).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_worker_that_left_commands_unread_is_gone() {
        let (supervisor, worker) = channel().unwrap();
        supervisor.send(Command::Quit).unwrap();
        drop(worker);
        assert_eq!(supervisor.receive().unwrap(), Incoming::Closed);
    }

    #[test]
    fn a_reader_that_never_reads_holds_nobody_up() {
        let (_supervisor, worker) = channel().unwrap();
        let error = std::iter::repeat_with(|| worker.send(&Report::Ready)).find_map(Result::err);
        assert_eq!(error.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    /// Two generations of workers notice that their supervisor was killed.
    #[test]
    fn every_worker_outlives_its_supervisor_knowingly() {
        alone(|| {
            let (mut reader, writer) = UnixStream::pair().unwrap();
            let Fork::Parent(supervisor) = fork().unwrap() else { supervise(&writer) };
            drop(writer);
            let mut started = [0; 2];
            reader.read_exact(&mut started).unwrap();
            kill(supervisor, Signal::SIGKILL).unwrap();
            let mut rest = String::new();
            reader.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
            reader.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "--");
        });
    }

    fn supervise(log: &UnixStream) -> ! {
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (supervisor, worker) = channel().unwrap();
            ends.push(supervisor);
            if fork().unwrap() == Fork::Child {
                ends.clear();
                work(worker, log);
            }
        }
        linger()
    }

    fn work(end: WorkerEnd, mut log: &UnixStream) -> ! {
        use std::io::Write;
        log.write_all(b"+").unwrap();
        let command = run(async { end.into_tokio()?.receive().await });
        log.write_all(if matches!(command, Ok(None)) { b"-" } else { b"?" }).unwrap();
        end_with(0)
    }
}

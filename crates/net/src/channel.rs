//! The line between the supervisor and one worker: commands down, reports up.
//!
//! It is a pair of sockets of the kind SOCK_SEQPACKET, which keeps messages whole. The end of file on the
//! worker's side means that the supervisor is gone, whatever killed it, and on the supervisor's side that
//! the worker is. Both only work if no process keeps the other's end open: after the fork the supervisor
//! drops the [`WorkerEnd`], and the worker every [`SupervisorEnd`], those of older workers included.
//!
//! A [`Parcel`] brings a worker what it needs to serve another configuration: descriptors, some with each message,
//! the first of them a file in memory that holds the rest.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::bound::BoundSocket;
use crate::datagram_link::DatagramLink;

/// The longest message in bytes; longer texts are cut.
const MESSAGE_LIMIT: usize = 16 * 1024;

/// How many descriptors come with one message; the system allows 253 (unix(7)).
const PART: usize = 200;

/// How long a worker that does not read may hold the supervisor up, in milliseconds.
const PATIENCE_MS: u16 = 1000;

/// What the supervisor tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Accept no more, finish the requests that began, end.
    Quit,
    /// End at once.
    Terminate,
    /// Open the log files anew.
    ReopenLogs,
    /// Take note of the result of reloads.
    Reloads(Reloads),
}

/// The result of reloads so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// The number of the configuration that serves; the first is 1.
    pub generation: u32,
    /// How many reloads succeeded.
    pub succeeded: u64,
    /// How many were refused.
    pub failed: u64,
    /// When the configuration that serves took effect, in seconds since 1970.
    pub since: u64,
}

/// Another configuration for a worker that serves.
#[derive(Debug)]
pub struct Parcel {
    /// Its number.
    pub generation: u32,
    /// What it was read from, in a form that concerns the two ends only.
    pub record: Vec<u8>,
    /// Its log files, open, in its order.
    pub logs: Vec<OwnedFd>,
    /// The sockets of addresses that the worker does not listen on yet, each with its place in the configuration.
    pub sockets: Vec<(usize, BoundSocket)>,
}

/// A message to a worker.
#[derive(Debug)]
pub enum Told {
    /// To do something.
    Command(Command),
    /// To serve another configuration, unless something of it did not arrive.
    Parcel(io::Result<Parcel>),
    /// To pass datagrams on to a newer worker, which reads the sockets of datagrams from then on.
    Newer(DatagramLink),
}

/// What a worker tells the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// All threads accept connections.
    Ready,
    /// Text to log, or to show to the requester of a reload.
    Text(String),
    /// All threads serve the configuration with this number, which came as a [`Parcel`].
    Adopted(u32),
    /// That configuration cannot be taken over, or one whose number (then 0) did not arrive; why.
    Declined(u32, String),
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
pub struct AsyncWorkerEnd {
    fd: AsyncFd<OwnedFd>,
    /// The descriptors of a parcel that is on its way.
    arrived: Vec<OwnedFd>,
}

/// Opens a channel, before the fork.
pub fn channel() -> io::Result<(SupervisorEnd, WorkerEnd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (supervisor, worker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((SupervisorEnd(supervisor), WorkerEnd(worker)))
}

impl SupervisorEnd {
    /// Sends a command; never waits. `BrokenPipe` if the worker is gone.
    pub fn send(&self, command: Command) -> io::Result<()> {
        send_message(self.0.as_fd(), &command.encode())
    }

    /// Sends a configuration; waits a little where the worker is slow to read.
    ///
    /// # Errors
    /// The worker is gone or does not read, or there are too many descriptors.
    pub fn send_parcel(&self, parcel: &Parcel) -> io::Result<()> {
        let content = parcel.pack()?;
        let mut descriptors = vec![content.as_fd()];
        descriptors.extend(parcel.logs.iter().map(AsFd::as_fd));
        descriptors.extend(parcel.sockets.iter().map(|(_, socket)| socket.as_fd()));
        for part in descriptors.chunks(PART) {
            send_descriptors(self.0.as_fd(), b"d", part)?;
        }
        send_descriptors(self.0.as_fd(), b"p", &[])
    }

    /// Sends the line to a newer worker; never waits long.
    ///
    /// # Errors
    /// The worker is gone or does not read.
    pub fn send_link(&self, link: &DatagramLink) -> io::Result<()> {
        send_descriptors(self.0.as_fd(), b"l", &[link.as_fd()])
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

    /// Waits until the supervisor is gone or sends something; whether that was before the time was over.
    ///
    /// # Errors
    /// The system fails.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, limit) {
            Ok(count) => Ok(count > 0),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Registers the end with the event loop of this thread; panics outside of a tokio runtime.
    #[allow(unsafe_code)]
    pub fn into_tokio(self) -> io::Result<AsyncWorkerEnd> {
        // SAFETY: the descriptor is owned by the `AsyncFd`, which gives out no `&mut`, so it stays open and the
        // same until the `AsyncFd` is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        Ok(AsyncWorkerEnd { fd: registered?, arrived: Vec::new() })
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
        send_message(self.fd.get_ref().as_fd(), &report.encode())
    }

    /// What comes next; none when the supervisor is gone. It may be dropped without loss.
    ///
    /// # Errors
    /// What came is malformed, or the system failed.
    pub async fn receive(&mut self) -> io::Result<Option<Told>> {
        loop {
            let mut message = [0; 64];
            let arrived = &mut self.arrived;
            let read = |fd: &OwnedFd| receive_descriptors(fd.as_fd(), &mut message, arrived);
            let length = self.fd.async_io(Interest::READABLE, read).await?;
            match &message[..length] {
                [] => return Ok(None),
                b"d" => {}
                b"l" => {
                    let link = self.arrived.pop().ok_or_else(malformed)?;
                    return Ok(Some(Told::Newer(DatagramLink::from_descriptor(link)?)));
                }
                b"p" => {
                    let parcel = Parcel::unpack(std::mem::take(&mut self.arrived));
                    return Ok(Some(Told::Parcel(parcel)));
                }
                command => return Command::decode(command).map(Told::Command).map(Some),
            }
        }
    }
}

impl Command {
    fn encode(self) -> Vec<u8> {
        match self {
            Command::Quit => b"q".to_vec(),
            Command::Terminate => b"t".to_vec(),
            Command::ReopenLogs => b"r".to_vec(),
            Command::Reloads(Reloads { generation, succeeded, failed, since }) => {
                let mut message = b"n".to_vec();
                for number in [u64::from(generation), succeeded, failed, since] {
                    message.extend_from_slice(&number.to_le_bytes());
                }
                message
            }
        }
    }

    fn decode(message: &[u8]) -> io::Result<Command> {
        match message {
            b"q" => Ok(Command::Quit),
            b"t" => Ok(Command::Terminate),
            b"r" => Ok(Command::ReopenLogs),
            [b'n', numbers @ ..] => {
                let numbers = &mut &*numbers;
                Ok(Command::Reloads(Reloads {
                    generation: take_number(numbers)?,
                    succeeded: take_number(numbers)?,
                    failed: take_number(numbers)?,
                    since: take_number(numbers)?,
                }))
            }
            _ => Err(malformed()),
        }
    }
}

impl Parcel {
    /// A file in memory: numbers, then the record.
    fn pack(&self) -> io::Result<File> {
        let mut file = File::from(memfd_create("configuration", MemfdFlags::CLOEXEC)?);
        let places = self.sockets.iter().map(|(place, _)| *place as u64);
        let start = [u64::from(self.generation), self.logs.len() as u64, self.sockets.len() as u64];
        let numbers: Vec<u8> = start.into_iter().chain(places).flat_map(u64::to_le_bytes).collect();
        file.write_all(&numbers)?;
        file.write_all(&self.record)?;
        Ok(file)
    }

    fn unpack(descriptors: Vec<OwnedFd>) -> io::Result<Parcel> {
        let mut descriptors = descriptors.into_iter();
        let mut file = File::from(descriptors.next().ok_or_else(malformed)?);
        let mut content = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut content)?;
        let mut rest = &content[..];
        let generation = take_number(&mut rest)?;
        let (logs, sockets): (usize, usize) = (take_number(&mut rest)?, take_number(&mut rest)?);
        // Where the process has no room for all, the system leaves some out.
        if descriptors.len() != logs.saturating_add(sockets) {
            return Err(io::Error::other("not all descriptors of a configuration arrived"));
        }
        let places = (0..sockets).map(|_| take_number(&mut rest)).collect::<io::Result<Vec<usize>>>()?;
        let logs = descriptors.by_ref().take(logs).collect();
        let bound = |(place, fd): (usize, OwnedFd)| Ok((place, BoundSocket::new(fd.into())?));
        let sockets = places.into_iter().zip(descriptors).map(bound).collect::<io::Result<_>>()?;
        Ok(Parcel { generation, record: rest.to_vec(), logs, sockets })
    }
}

/// The next of a list of numbers.
fn take_number<N: TryFrom<u64>>(numbers: &mut &[u8]) -> io::Result<N> {
    let (number, rest) = numbers.split_first_chunk().ok_or_else(malformed)?;
    *numbers = rest;
    N::try_from(u64::from_le_bytes(*number)).map_err(|_| malformed())
}

impl Report {
    fn encode(&self) -> Vec<u8> {
        match self {
            Report::Ready => b"r".to_vec(),
            Report::Text(text) => with_text(b"t".to_vec(), text),
            Report::Adopted(number) => [b"a", &number.to_le_bytes()[..]].concat(),
            Report::Declined(number, text) => with_text([b"d", &number.to_le_bytes()[..]].concat(), text),
        }
    }

    fn decode(message: &[u8]) -> io::Result<Report> {
        match message {
            b"r" => Ok(Report::Ready),
            [b't', text @ ..] => Ok(Report::Text(String::from_utf8_lossy(text).into_owned())),
            [b'a', a, b, c, d] => Ok(Report::Adopted(u32::from_le_bytes([*a, *b, *c, *d]))),
            [b'd', a, b, c, d, text @ ..] => {
                let number = u32::from_le_bytes([*a, *b, *c, *d]);
                Ok(Report::Declined(number, String::from_utf8_lossy(text).into_owned()))
            }
            _ => Err(malformed()),
        }
    }
}

fn with_text(mut message: Vec<u8>, text: &str) -> Vec<u8> {
    let room = MESSAGE_LIMIT - message.len();
    message.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(room)]);
    message
}

/// Sends a message with descriptors; waits a little where there is no room.
fn send_descriptors(fd: BorrowedFd<'_>, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PART))];
    let mut waited = false;
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        match sendmsg(fd, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !waited => {
                waited = true;
                poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::from(PATIENCE_MS))?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The length of the next message, 0 at the end of file; what comes with it is added to `arrived`.
fn receive_descriptors(
    fd: BorrowedFd<'_>,
    message: &mut [u8],
    arrived: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PART))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(fd, &mut [IoSliceMut::new(message)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => {
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                        arrived.extend(descriptors);
                    }
                }
                return Ok(received.bytes.min(message.len()));
            }
            Err(Errno::CONNRESET) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
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
            let mut worker = worker.into_tokio().unwrap();
            let reloads = Reloads { generation: 2, succeeded: 1, failed: 0, since: u64::MAX };
            let commands =
                [Command::ReopenLogs, Command::Reloads(reloads), Command::Quit, Command::Terminate];
            commands.iter().for_each(|command| supervisor.send(*command).unwrap());
            for command in commands {
                let Some(Told::Command(told)) = worker.receive().await.unwrap() else { panic!("no command") };
                assert_eq!(told, command);
            }
            drop(supervisor);
            assert!(worker.receive().await.unwrap().is_none());
            assert_eq!(worker.send(&Report::Ready).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn reports_go_up_whole() {
        let (supervisor, worker) = channel().unwrap();
        assert_eq!(supervisor.receive().unwrap(), Incoming::Empty);
        let long = "é".repeat(MESSAGE_LIMIT);
        let declined = Report::Declined(7, "why".into());
        let short = [Report::Text(String::new()), Report::Ready, Report::Adopted(3), declined];
        let reports = [&short[..], &[Report::Text(long.clone())]].concat();
        reports.iter().for_each(|report| worker.send(report).unwrap());
        let received = || supervisor.receive().unwrap();
        short.into_iter().for_each(|report| assert_eq!(received(), Incoming::Report(report)));
        let Incoming::Report(Report::Text(cut)) = received() else { panic!("no text") };
        assert!(long.starts_with(&cut) && cut.len() > MESSAGE_LIMIT - 4, "{}", cut.len());
        assert_eq!(received(), Incoming::Empty);
        drop(worker);
        assert_eq!(supervisor.receive().unwrap(), Incoming::Closed);
        assert_eq!(supervisor.send(Command::Quit).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_parcel_arrives_whole_however_large_it_is() {
        let any = crate::SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
        let sockets =
            crate::bind(&crate::Endpoint::stream(any), &crate::ListenOptions::default(), 2).unwrap();
        let address = sockets[0].address().clone();
        let log = tempfile::NamedTempFile::new().unwrap();
        let logs: Vec<OwnedFd> = (0..2 * PART).map(|_| log.reopen().unwrap().into()).collect();
        let record = b"record".repeat(100_000);
        let sockets = sockets.into_iter().zip([3, 5]).map(|(socket, place)| (place, socket)).collect();
        let parcel = Parcel { generation: 9, record, logs, sockets };
        run(async {
            let (supervisor, worker) = channel().unwrap();
            let mut worker = worker.into_tokio().unwrap();
            supervisor.send_parcel(&parcel).unwrap();
            supervisor.send(Command::Quit).unwrap();
            let Some(Told::Parcel(Ok(told))) = worker.receive().await.unwrap() else { panic!("no parcel") };
            assert_eq!((told.generation, &told.record), (9, &parcel.record));
            assert_eq!(told.logs.len(), 2 * PART);
            File::from(told.logs.into_iter().next_back().unwrap()).write_all(b"line").unwrap();
            assert_eq!(std::fs::read(log.path()).unwrap(), b"line");
            let places: Vec<_> =
                told.sockets.iter().map(|(place, socket)| (*place, socket.address())).collect();
            assert_eq!(places, [(3, &address), (5, &address)]);
            assert!(matches!(worker.receive().await.unwrap(), Some(Told::Command(Command::Quit))));
        });
    }

    #[test]
    fn a_line_to_a_newer_worker_arrives() {
        run(async {
            let (supervisor, worker) = channel().unwrap();
            let mut worker = worker.into_tokio().unwrap();
            let (own, other) = DatagramLink::pair().unwrap();
            supervisor.send_link(&other).unwrap();
            drop(other);
            let Some(Told::Newer(link)) = worker.receive().await.unwrap() else { panic!("no line") };
            let (own, link) = (own.into_tokio().unwrap(), link.into_tokio().unwrap());
            link.send(&crate::LinkMessage::Stopped).unwrap();
            assert_eq!(own.receive(&mut Vec::new()).await.unwrap(), Some(crate::LinkMessage::Stopped));
        });
    }

    #[test]
    fn a_parcel_with_something_missing_is_none() {
        let parcel = Parcel { generation: 1, record: Vec::new(), logs: Vec::new(), sockets: Vec::new() };
        let packed = || OwnedFd::from(parcel.pack().unwrap());
        assert!(Parcel::unpack(vec![packed()]).is_ok());
        assert!(Parcel::unpack(vec![packed(), packed()]).is_err());
        assert!(Parcel::unpack(Vec::new()).is_err());
        let empty = memfd_create("empty", MemfdFlags::CLOEXEC).unwrap();
        assert!(Parcel::unpack(vec![empty]).is_err());
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
        let told = run(async { end.into_tokio()?.receive().await });
        log.write_all(if matches!(told, Ok(None)) { b"-" } else { b"?" }).unwrap();
        end_with(0)
    }
}

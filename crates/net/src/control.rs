//! The supervisor's control socket: `fulmar -s` asks, and gets the verdict.
//!
//! It lives in the abstract namespace under the name `fulmar-` and the supervisor's process identifier, so
//! a file that names a process is enough to find it, and it vanishes with the process. A client sends one line,
//! the name of a command; the server answers `ok` or `error`, a space and a text, and closes. Each side asks the kernel
//! who the other is: only a superuser and the supervisor's own user may ask, and a server that is not the
//! process in question is not believed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

use nix::sys::socket::{UnixCredentials, getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::SocketAddress;
use crate::process::Pid;

/// The time a client has to send its line, and to take the answer. The supervisor waits meanwhile.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a client that waits is asked whether it goes on waiting.
const TICK: Duration = Duration::from_millis(250);
/// The longest line in bytes that a client may send.
const REQUEST_LIMIT: usize = 64;
/// The longest answer in bytes that a client takes.
const ANSWER_LIMIT: usize = 1024 * 1024;

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Load the configuration anew.
    Reload,
    /// Stop at once.
    Stop,
    /// Stop when the requests that began are answered.
    Quit,
    /// Open the log files anew.
    Reopen,
    /// Say who you are.
    Identify,
    /// Say whether you serve.
    Status,
    /// Get the certificates that are due now.
    Renew,
}

/// The supervisor's side.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
}

/// A client that waits for its answer; dropping it answers that nothing came of it.
#[derive(Debug)]
pub struct Request {
    command: Command,
    stream: UnixStream,
}

/// What the supervisor answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Ok(String),
    /// It was refused, for this reason.
    Error(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No process listens under this name: the process does not exist, or is no Fulmar.
    #[error("process {0} is no running Fulmar")]
    Absent(Pid),
    /// Another process took the name.
    #[error("the control socket of process {0} belongs to another process")]
    Impostor(Pid),
    /// The answer took too long.
    #[error("process {0} did not answer in time")]
    Timeout(Pid),
    /// The connection ended without an answer, for example because the user is not allowed.
    #[error("process {0} gave no answer")]
    NoAnswer(Pid),
    /// The system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl ControlSocket {
    /// Opens the control socket of this process, after it became a daemon.
    ///
    /// `AddrInUse` if another process took the name; any process can, so the supervisor does without then.
    pub fn open() -> io::Result<ControlSocket> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(Pid::this()))?)?;
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener })
    }

    /// Takes the request of a client; `None` if no client has connected, or if it sent nothing.
    ///
    /// Waits up to a second for the client's line. Strangers and malformed requests are turned away here.
    pub fn accept(&self) -> io::Result<Option<Request>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let client = credentials(&stream)?;
        if client.uid() != 0 && client.uid() != geteuid().as_raw() {
            return Ok(None);
        }
        let Ok(line) = read_line(&stream) else { return Ok(None) };
        match line.parse() {
            Ok(command) => Ok(Some(Request { command, stream })),
            Err(UnknownCommand) => {
                // A client that went away meanwhile needs no answer.
                drop(write_answer(&stream, &Answer::Error("unknown command".to_owned())));
                Ok(None)
            }
        }
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Request {
    /// What the client asks for.
    pub fn command(&self) -> Command {
        self.command
    }

    /// Answers, now or later; errors are about a client that did not wait.
    pub fn answer(self, answer: &Answer) -> io::Result<()> {
        write_answer(&self.stream, answer)
    }
}

/// Asks the supervisor with this process identifier, and waits for the answer up to `timeout` in all.
pub fn ask(pid: Pid, command: Command, timeout: Duration) -> Result<Answer, ControlError> {
    ask_while(pid, command, timeout, |_| true)
}

/// As [`ask`], but calls `goes_on` several times a second with the time waited so far, and stops waiting when it returns
/// false, which is a [`ControlError::Timeout`], too.
pub fn ask_while(
    pid: Pid,
    command: Command,
    timeout: Duration,
    mut goes_on: impl FnMut(Duration) -> bool,
) -> Result<Answer, ControlError> {
    let started = Instant::now();
    let mut next = || {
        let waited = started.elapsed();
        let left = timeout.saturating_sub(waited);
        if left.is_zero() || !goes_on(waited) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left.min(TICK))
    };
    let timed_out = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Timeout(pid),
        io::ErrorKind::ConnectionRefused => ControlError::Absent(pid),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ControlError::NoAnswer(pid),
        _ => ControlError::System(error),
    };
    let stream = connect(pid, &mut next).map_err(timed_out)?;
    if credentials(&stream)?.pid() != pid.as_raw() {
        return Err(ControlError::Impostor(pid));
    }
    writeln!(&stream, "{}", command.name()).map_err(timed_out)?;
    let answer = read_until(&stream, &mut next, ANSWER_LIMIT, |_| false).map_err(timed_out)?;
    Answer::decode(&String::from_utf8_lossy(&answer)).ok_or(ControlError::NoAnswer(pid))
}

/// The name of a command was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown command")]
pub struct UnknownCommand;

impl Command {
    const ALL: [Command; 7] = [
        Command::Reload,
        Command::Stop,
        Command::Quit,
        Command::Reopen,
        Command::Identify,
        Command::Status,
        Command::Renew,
    ];

    /// The word that is sent.
    pub fn name(self) -> &'static str {
        match self {
            Command::Reload => "reload",
            Command::Stop => "stop",
            Command::Quit => "quit",
            Command::Reopen => "reopen",
            Command::Identify => "identify",
            Command::Status => "status",
            Command::Renew => "renew",
        }
    }
}

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(text: &str) -> Result<Command, UnknownCommand> {
        Command::ALL.into_iter().find(|command| command.name() == text).ok_or(UnknownCommand)
    }
}

impl Answer {
    fn decode(text: &str) -> Option<Answer> {
        let (verdict, text) = text.trim_end_matches('\n').split_once(' ')?;
        match verdict {
            "ok" => Some(Answer::Ok(text.to_owned())),
            "error" => Some(Answer::Error(text.to_owned())),
            _ => None,
        }
    }
}

fn name(pid: Pid) -> String {
    format!("fulmar-{pid}")
}

/// `next` gives the time for one more try, or the error that ends the waiting.
fn connect(pid: Pid, mut next: impl FnMut() -> io::Result<Duration>) -> io::Result<UnixStream> {
    let address: SockAddr = SocketAddress::Abstract(name(pid).into_bytes()).to_kernel()?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    loop {
        // It bounds connect() too, see SO_SNDTIMEO in socket(7): connect() waits while the server's queue is full.
        socket.set_write_timeout(Some(next()?))?;
        match socket.connect(&address) {
            Ok(()) => return Ok(socket.into()),
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the same call may succeed later.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn credentials(stream: &UnixStream) -> io::Result<UnixCredentials> {
    Ok(getsockopt(stream, PeerCredentials)?)
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    let next = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    };
    let line = read_until(stream, next, REQUEST_LIMIT, |bytes| bytes.ends_with(b"\n"))?;
    Ok(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
}

/// Reads until `complete` or the end of file; an error if there is more than `limit`. `next` gives the time for one more
/// read, or the error that ends the waiting.
fn read_until(
    mut stream: &UnixStream,
    mut next: impl FnMut() -> io::Result<Duration>,
    limit: usize,
    complete: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        stream.set_read_timeout(Some(next()?))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(text),
            Ok(length) => text.extend_from_slice(&buffer[..length]),
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(error),
        }
        if text.len() > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too much on the control socket"));
        }
        if complete(&text) {
            return Ok(text);
        }
    }
}

fn write_answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let (verdict, text) = match answer {
        Answer::Ok(text) => ("ok", text),
        Answer::Error(text) => ("error", text),
    };
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    stream.write_all(format!("{verdict} {text}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, is_superuser};
    use crate::process::{Fork, fork};
    use crate::testing::{alone, end_with, linger, pause, reap_one};

    const SECONDS: Duration = Duration::from_secs(10);

    fn serve(socket: &ControlSocket) -> Request {
        loop {
            match socket.accept().unwrap() {
                Some(request) => return request,
                None => pause(),
            }
        }
    }

    /// Runs a client in a separate process, whose exit status is 0 if it was content.
    fn client(content: impl FnOnce(Pid) -> bool) {
        let supervisor = Pid::this();
        if fork().unwrap() == Fork::Child {
            end_with(i32::from(!content(supervisor)));
        }
    }

    #[test]
    fn a_client_waits_for_the_verdict() {
        alone(|| {
            let socket = ControlSocket::open().unwrap();
            let reason = "unknown directive \"lisen\"\n  3 | lisen 80;\n";
            client(|pid| {
                let ok = ask(pid, Command::Identify, SECONDS).unwrap() == Answer::Ok("fulmar 1".to_owned());
                let refused = ask(pid, Command::Reload, SECONDS).unwrap();
                ok && refused == Answer::Error(reason.trim_end().to_owned())
            });
            let request = serve(&socket);
            assert_eq!(request.command(), Command::Identify);
            request.answer(&Answer::Ok("fulmar 1".to_owned())).unwrap();
            let request = serve(&socket);
            assert_eq!(request.command(), Command::Reload);
            request.answer(&Answer::Error(reason.to_owned())).unwrap();
            assert_eq!(reap_one().code(), Some(0));
        });
    }

    #[test]
    fn the_name_is_taken_once_and_freed() {
        alone(|| {
            let socket = ControlSocket::open().unwrap();
            assert_eq!(ControlSocket::open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert!(socket.accept().unwrap().is_none());
            drop(socket);
            let error = ask(Pid::this(), Command::Identify, SECONDS).unwrap_err();
            assert!(matches!(error, ControlError::Absent(_)), "{error}");
        });
    }

    #[test]
    fn no_answer_and_a_late_one_are_errors() {
        alone(|| {
            let socket = ControlSocket::open().unwrap();
            client(|pid| matches!(ask(pid, Command::Quit, SECONDS), Err(ControlError::NoAnswer(_))));
            drop(serve(&socket));
            assert_eq!(reap_one().code(), Some(0));
            let late = ask(Pid::this(), Command::Quit, Duration::from_millis(30));
            assert!(matches!(late, Err(ControlError::Timeout(_))), "{late:?}");
        });
    }

    #[test]
    fn a_client_that_gives_up_is_not_held() {
        alone(|| {
            let _socket = ControlSocket::open().unwrap();
            let mut asked = 0;
            let goes_on = |_| {
                asked += 1;
                asked < 4
            };
            let given_up = ask_while(Pid::this(), Command::Quit, Duration::from_secs(600), goes_on);
            assert!(matches!(given_up, Err(ControlError::Timeout(_))), "{given_up:?}");
            assert_eq!(asked, 4);
        });
    }

    #[test]
    fn nonsense_is_turned_away() {
        alone(|| {
            let socket = ControlSocket::open().unwrap();
            let send = |bytes: &[u8]| -> String {
                let mut stream = connect(Pid::this(), || Ok(SECONDS)).unwrap();
                stream.write_all(bytes).unwrap();
                assert!(socket.accept().unwrap().is_none());
                let mut answer = String::new();
                // Unread bytes make the closing a reset.
                drop(stream.read_to_string(&mut answer));
                answer
            };
            assert_eq!(send(b"explode\n"), "error unknown command\n");
            let start = Instant::now();
            assert_eq!(send(&[b'x'; 4 * REQUEST_LIMIT]), "");
            assert!(start.elapsed() < CLIENT_TIMEOUT);
            let start = Instant::now();
            assert_eq!(send(b"reload"), "");
            assert!(start.elapsed() >= CLIENT_TIMEOUT);
        });
    }

    #[test]
    fn strangers_get_no_answer() {
        if !is_superuser() {
            return;
        }
        alone(|| {
            let socket = ControlSocket::open().unwrap();
            client(|pid| {
                Identity::look_up("nobody", Some("nogroup")).unwrap().assume().unwrap();
                matches!(ask(pid, Command::Stop, SECONDS), Err(ControlError::NoAnswer(_)))
            });
            let ended = loop {
                assert!(socket.accept().unwrap().is_none());
                if let Some((_, status)) = crate::process::reap().unwrap().pop() {
                    break status;
                }
                pause();
            };
            assert_eq!(ended.code(), Some(0));
        });
    }

    #[test]
    fn a_stolen_name_is_not_believed() {
        alone(|| {
            let Fork::Parent(other) = fork().unwrap() else { linger() };
            let address = SocketAddr::from_abstract_name(name(other)).unwrap();
            let _listener = UnixListener::bind_addr(&address).unwrap();
            let error = ask(other, Command::Identify, SECONDS).unwrap_err();
            assert!(matches!(error, ControlError::Impostor(_)), "{error}");
            crate::signal::send(other, crate::signal::Signal::SIGKILL).unwrap();
            reap_one();
        });
    }
}

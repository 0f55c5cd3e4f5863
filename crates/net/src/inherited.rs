//! Listening sockets that this process is started with: those of the program that it is to replace, and those that a
//! service manager made, or kept for the next start.
//!
//! The environment variable [`VARIABLE`] lists the descriptors of a predecessor: `4;5;7s;`, where `s` marks those that
//! a service manager lent. A service manager counts its own from 3 in `LISTEN_FDS`, names them in `LISTEN_FDNAMES` and
//! says in `LISTEN_PID` whom they are for; see sd_listen_fds(3).

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use socket2::{Domain, Socket, Type};

use crate::bound::BoundSocket;
use crate::datagram_link::DatagramLink;
use crate::errno::system_message;
use crate::process::{Pid, is_single_threaded};
use crate::signal::restore_for_exec;

/// The environment variable that lists inherited descriptors, each followed by a semicolon.
pub const VARIABLE: &str = "FULMAR_FDS";

/// What names of sockets begin with that a service manager only keeps: the server made them itself.
pub const KEPT: &str = "fulmar-";

/// How a service manager announces its sockets: how many, for which process, and their names.
const COUNT: &str = "LISTEN_FDS";
const FOR_PROCESS: &str = "LISTEN_PID";
const NAMES: &str = "LISTEN_FDNAMES";
/// Variables that mean nothing to children.
const VARIABLES: [&str; 6] = [VARIABLE, COUNT, FOR_PROCESS, NAMES, "LISTEN_PIDFDID", LINK];

/// The environment variable that names the line to the workers of the program before this one.
const LINK: &str = "FULMAR_LINK";

/// The largest number of sockets that a service manager is believed to pass.
const SOCKETS_MAX: RawFd = 65_536;

/// How much of a text that is no number is shown, in characters.
const NUMBER_MAX: usize = 40;

/// How many problems are reported one by one.
const PROBLEMS_MAX: usize = 8;

/// The mark after a descriptor that a service manager lent.
const LENT: char = 's';

/// What was found in the environment.
#[derive(Debug, Default)]
pub struct Inherited {
    /// What the program before this one listed, for the log: `using inherited sockets from "4;5;"`. None where there
    /// is no such program.
    pub predecessor: Option<String>,
    /// The sockets, first those of the list.
    pub sockets: Vec<BoundSocket>,
    /// The line to the workers of the program before this one, which may have sessions of datagrams.
    pub link: Option<DatagramLink>,
    /// What had to be ignored.
    pub problems: Vec<Problem>,
}

/// A descriptor that is no listening socket.
#[derive(Debug)]
pub enum Problem {
    /// It is no number of a descriptor.
    Number(String),
    /// It cannot be how many sockets a service manager passes.
    Count(String),
    /// The descriptor is not open, or is something else.
    Socket(RawFd, io::Error),
    /// So many others have problems, too.
    More(usize),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Number(text) => {
                write!(f, "invalid socket number \"{text}\" in {VARIABLE} environment variable, ignored")
            }
            Problem::Count(text) => {
                write!(f, "invalid number of sockets \"{text}\" in {COUNT} environment variable, ignored")
            }
            Problem::More(count) => write!(f, "{count} more inherited sockets are ignored"),
            Problem::Socket(fd, error) => {
                write!(f, "the inherited socket #{fd} is ignored ({})", system_message(error))
            }
        }
    }
}

/// An inherited descriptor, and whether a service manager keeps it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    fd: RawFd,
    lent: bool,
}

/// Takes over the sockets that this process was started with.
///
/// To be called first in `main`, while the process has one thread and no descriptors but those it was
/// started with. A second call finds nothing. The variables are removed, so that no child sees them.
#[allow(unsafe_code)]
pub fn take() -> io::Result<Inherited> {
    // A second caller must not own the same descriptors again.
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let mut inherited = Inherited::default();
    if !VARIABLES.iter().any(|name| env::var_os(name).is_some()) || TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(inherited);
    }
    if !is_single_threaded()? {
        return Err(io::Error::other("sockets can only be inherited before threads start"));
    }
    let [predecessor, count, process, names, _, link] =
        VARIABLES.map(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()));
    // SAFETY: no other thread exists that could read the environment meanwhile.
    VARIABLES.iter().for_each(|name| unsafe { env::remove_var(name) });
    let (mut passed, problems) = parse(predecessor.as_deref().unwrap_or_default());
    inherited.problems = problems;
    if process.is_some_and(|pid| pid == Pid::this().to_string()) {
        match announced(&count.unwrap_or_default(), &names.unwrap_or_default()) {
            Ok(announced) => {
                let listed: HashSet<RawFd> = passed.iter().map(|one| one.fd).collect();
                passed.extend(announced.into_iter().filter(|one| !listed.contains(&one.fd)));
            }
            Err(problem) => inherited.problems.push(problem),
        }
    }
    let is_taken = |fd: RawFd| passed.iter().any(|other| other.fd == fd);
    // Only a program before this one has a line.
    let link = link.filter(|_| predecessor.is_some()).map(|text| text.parse::<RawFd>());
    let link = link.and_then(Result::ok).filter(|fd| !is_taken(*fd));
    for Passed { fd, lent } in passed {
        match adopt(fd) {
            Ok(socket) => inherited.sockets.push(if lent { socket.lent() } else { socket }),
            Err(error) => inherited.problems.push(Problem::Socket(fd, error)),
        }
    }
    if let Some(fd) = link {
        match adopt_link(fd) {
            Ok(link) => inherited.link = Some(link),
            Err(error) => inherited.problems.push(Problem::Socket(fd, error)),
        }
    }
    inherited.predecessor = predecessor;
    let more = inherited.problems.len().saturating_sub(PROBLEMS_MAX);
    inherited.problems.truncate(PROBLEMS_MAX);
    inherited.problems.extend((more > 0).then_some(Problem::More(more)));
    Ok(inherited)
}

/// Starts a program that inherits the sockets, in this environment, and returns its identifier.
///
/// `arguments` begins with the program's own name. `link` is for datagrams of sessions that stay here. The program starts with no signal blocked. The child is to
/// be [reaped](crate::process::reap) like any other.
#[allow(unsafe_code)]
pub fn execute(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    sockets: &[BoundSocket],
    link: Option<&DatagramLink>,
) -> io::Result<Pid> {
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    let mut descriptors: Vec<RawFd> = sockets.iter().map(|socket| socket.as_fd().as_raw_fd()).collect();
    let mark = |socket: &BoundSocket| if socket.is_lent() { LENT.to_string() } else { String::new() };
    let listed = descriptors.iter().zip(sockets).map(|(fd, socket)| format!("{fd}{};", mark(socket)));
    let list: String = listed.collect();
    command.env(VARIABLE, list);
    if let Some(link) = link {
        let fd = link.as_fd().as_raw_fd();
        command.env(LINK, fd.to_string());
        descriptors.push(fd);
    }
    // SAFETY: between fork and exec the closure only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(move || keep_over_exec(&descriptors).and_then(|()| restore_for_exec())) };
    let pid = i32::try_from(command.spawn()?.id()).map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid))
}

/// Clears the close-on-exec flags, in the child, so that no other program can inherit the sockets.
#[allow(unsafe_code)]
fn keep_over_exec(descriptors: &[RawFd]) -> io::Result<()> {
    for fd in descriptors {
        // SAFETY: the call changes a flag of a descriptor; `execute` borrows the sockets until the program
        // started, so they are open.
        if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } == -1 {
            return Err(Errno::last().into());
        }
    }
    Ok(())
}

/// The descriptors in the list, without the standard streams, repetitions and invalid entries.
fn parse(value: &str) -> (Vec<Passed>, Vec<Problem>) {
    let mut passed: Vec<Passed> = Vec::new();
    let mut problems = Vec::new();
    for text in value.split_terminator([';', ':']) {
        let number = text.strip_suffix(LENT);
        let lent = number.is_some();
        match number.unwrap_or(text).parse() {
            Ok(fd) if fd > libc::STDERR_FILENO && !passed.iter().any(|other| other.fd == fd) => {
                passed.push(Passed { fd, lent });
            }
            _ => problems.push(Problem::Number(text.chars().take(NUMBER_MAX).collect())),
        }
    }
    (passed, problems)
}

/// The descriptors that a service manager counts; those are lent whose names do not say that it only keeps them.
fn announced(count: &str, names: &str) -> Result<Vec<Passed>, Problem> {
    let number = if count.is_empty() { Some(0) } else { count.parse().ok() };
    let number = number.filter(|number| (0..=SOCKETS_MAX).contains(number));
    let number = number.ok_or_else(|| Problem::Count(count.chars().take(NUMBER_MAX).collect()))?;
    let first = libc::STDERR_FILENO + 1;
    let mut names = names.split(':');
    let mut passed = |fd| Passed { fd, lent: !names.next().is_some_and(|name| name.starts_with(KEPT)) };
    Ok((first..first + number).map(&mut passed).collect())
}

fn adopt(fd: RawFd) -> io::Result<BoundSocket> {
    let socket = Socket::from(owned(fd)?);
    match check(&socket) {
        Ok(()) => BoundSocket::new(socket),
        Err(error) => {
            // What is no listening socket is not ours to close either.
            std::mem::forget(socket);
            Err(error)
        }
    }
}

fn adopt_link(fd: RawFd) -> io::Result<DatagramLink> {
    if fd <= libc::STDERR_FILENO {
        return Err(io::Error::other("a standard stream"));
    }
    DatagramLink::from_descriptor(owned(fd)?)
}

#[allow(unsafe_code)]
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD has no effect and fails on a number that is no open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(Errno::last().into());
    }
    // SAFETY: the descriptor is open; the program before this one left it to us, and `take` runs once, before
    // this process opened anything, so nothing else here owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(socket: &Socket) -> io::Result<()> {
    let (family, kind) = (socket.domain()?, socket.r#type()?);
    let is_inet = [Domain::IPV4, Domain::IPV6].contains(&family);
    // A socket that is connected to one sender is no server's. Port 0 is that of a socket that was not bound.
    let receives_from_all = || {
        let port = socket.local_addr().ok().and_then(|address| address.as_socket()).map(|it| it.port());
        is_inet && kind == Type::DGRAM && port.is_some_and(|port| port > 0) && socket.peer_addr().is_err()
    };
    let accepts = kind == Type::STREAM && socket.is_listener()?;
    if !accepts && !receives_from_all() {
        return Err(io::Error::other("not a listening socket"));
    }
    if !is_inet && family != Domain::UNIX {
        return Err(io::Error::other("unsupported protocol family"));
    }
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::fd::IntoRawFd;

    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;
    use crate::address::SocketAddress;
    use crate::bind::bind;
    use crate::bound::ListenOptions;
    use crate::endpoint::Endpoint;
    use crate::testing::{alone, in_fork, pause, reap_one};

    #[test]
    fn the_list_is_read() {
        let read = |value: &str| {
            let (passed, problems) = parse(value);
            let passed: Vec<_> = passed.into_iter().map(|Passed { fd, lent }| (fd, lent)).collect();
            (passed, problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read("4;5s;"), (vec![(4, false), (5, true)], vec![]));
        assert_eq!(read(""), (vec![], vec![]));
        let (passed, problems) = read("7;x;2;-1;7;8;s;");
        assert_eq!(passed, [(7, false), (8, false)]);
        assert_eq!(problems.len(), 5);
        assert_eq!(problems[0], "invalid socket number \"x\" in FULMAR_FDS environment variable, ignored");
    }

    #[test]
    fn a_service_manager_counts() {
        let read = |count: &str, names: &str| -> Vec<(RawFd, bool)> {
            announced(count, names).unwrap().into_iter().map(|Passed { fd, lent }| (fd, lent)).collect()
        };
        assert_eq!(read("3", "http:fulmar-x"), [(3, true), (4, false), (5, true)]);
        assert_eq!(read("1", ""), [(3, true)]);
        for none in ["", "0"] {
            assert_eq!(read(none, "a"), [], "{none}");
        }
        for nonsense in ["-1", "x", "99999999999", "999999999", "2147483640"] {
            let told = announced(nonsense, "").unwrap_err().to_string();
            let expected = "in LISTEN_FDS environment variable, ignored";
            assert_eq!(told, format!("invalid number of sockets \"{nonsense}\" {expected}"));
        }
    }

    #[test]
    fn only_listening_sockets_are_adopted() {
        alone(|| {
            let file = fs::File::open("/dev/null").unwrap();
            let connected = std::os::unix::net::UnixStream::pair().unwrap();
            let mut udp = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
            udp[1].connect(udp[0].local_addr().unwrap()).unwrap();
            for fd in [file.as_raw_fd(), connected.0.as_raw_fd(), udp[1].as_raw_fd(), 999] {
                assert!(adopt(fd).is_err(), "{fd}");
            }
            udp.swap(0, 1);
            let [_, bound] = udp;
            let bound = adopt(bound.into_raw_fd()).unwrap();
            assert_eq!(bound.endpoint().transport, crate::SocketType::Datagram);
            assert!(fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok());
        });
    }

    /// The sockets pass to another execution of this program, which runs [`heir`].
    #[test]
    fn a_new_binary_takes_the_sockets_over() {
        alone(|| {
            let directory = tempfile::tempdir().unwrap();
            let addresses = [
                SocketAddress::Inet("127.0.0.1:0".parse().unwrap()),
                SocketAddress::Unix(directory.path().join("s")),
            ];
            let sockets: Vec<BoundSocket> = addresses
                .iter()
                .flat_map(|address| {
                    bind(&Endpoint::stream(address.clone()), &ListenOptions::default(), 2).unwrap()
                })
                .map(|socket| if socket.address().is_unix() { socket.lent() } else { socket })
                .collect();
            let SocketAddress::Inet(inet) = *sockets[0].address() else { panic!("not TCP") };
            let arguments = ["fulmar", "inherited::tests::heir", "--exact", "--nocapture"];
            let arguments = arguments.map(OsString::from);
            let queue = crate::signal::SignalQueue::new().unwrap();
            let environment: Vec<_> = env::vars_os().collect();
            let (link, newer) = DatagramLink::pair().unwrap();
            execute(&env::current_exe().unwrap(), &arguments, &environment, &sockets, Some(&link)).unwrap();
            drop((link, newer));
            for socket in &sockets {
                assert!(fcntl_getfd(socket).unwrap().contains(FdFlags::CLOEXEC));
            }
            drop((sockets, queue));
            let mut client = TcpStream::connect(inet).unwrap();
            let mut greeting = String::new();
            client.read_to_string(&mut greeting).unwrap();
            let listed = format!("{inet} {inet} {}", addresses[1]);
            assert_eq!(greeting, format!("fulmar {listed} SigBlk:\t0000000000000000"));
            assert_eq!(reap_one().code(), Some(0));
        });
    }

    #[test]
    fn heir() {
        if env::var_os(VARIABLE).is_some() {
            assert_eq!(in_fork(greet), 0);
        }
    }

    fn greet() {
        let inherited = take().unwrap();
        assert!(inherited.problems.is_empty() && env::var_os(VARIABLE).is_none());
        assert!(inherited.predecessor.is_some() && inherited.link.is_some());
        assert!(inherited.sockets.iter().all(|socket| socket.is_lent() == socket.address().is_unix()));
        let again = take().unwrap();
        assert!(again.predecessor.is_none() && again.sockets.is_empty());
        let accepted = loop {
            match inherited.sockets[..2].iter().find_map(|socket| rustix::net::accept(socket).ok()) {
                Some(accepted) => break accepted,
                None => pause(),
            }
        };
        let name = env::args().next().unwrap();
        let addresses: Vec<String> = inherited.sockets.iter().map(|s| s.address().to_string()).collect();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let blocked = status.lines().find(|line| line.starts_with("SigBlk")).unwrap();
        TcpStream::from(accepted)
            .write_all(format!("{name} {} {blocked}", addresses.join(" ")).as_bytes())
            .unwrap();
    }
}

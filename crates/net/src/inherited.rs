//! Listening sockets that pass from one program to the next when a new binary takes over.
//!
//! The environment variable [`VARIABLE`] lists their descriptors: `4;5;7;`.

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
use crate::errno::system_message;
use crate::process::{Pid, is_single_threaded};
use crate::signal::restore_after_fork;

/// The environment variable that lists inherited descriptors, each followed by a semicolon.
pub const VARIABLE: &str = "FULMAR_FDS";

/// What was found in the environment.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The value of the variable, for the log: `using inherited sockets from "4;5;"`.
    pub value: String,
    /// The sockets, in the order of the list.
    pub sockets: Vec<BoundSocket>,
    /// What had to be ignored.
    pub problems: Vec<Problem>,
}

/// A part of the variable that is no listening socket.
#[derive(Debug)]
pub enum Problem {
    /// It is no number of a descriptor.
    Number(String),
    /// The descriptor is not open, or is something else.
    Socket(RawFd, io::Error),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Number(text) => {
                write!(f, "invalid socket number \"{text}\" in {VARIABLE} environment variable, ignored")
            }
            Problem::Socket(fd, error) => {
                write!(f, "the inherited socket #{fd} is ignored ({})", system_message(error))
            }
        }
    }
}

/// Takes over the sockets that the program before this one left, none if it was started anew.
///
/// To be called first in `main`, while the process has one thread and no descriptors but those it was
/// started with. A second call finds nothing. The variable is removed, so that no child sees it.
#[allow(unsafe_code)]
pub fn take() -> io::Result<Option<Inherited>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let Some(value) = env::var_os(VARIABLE) else { return Ok(None) };
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(None);
    }
    if !is_single_threaded()? {
        return Err(io::Error::other("sockets can only be inherited before threads start"));
    }
    // SAFETY: no other thread exists that could read the environment meanwhile.
    unsafe { env::remove_var(VARIABLE) };
    let value = value.to_string_lossy().into_owned();
    let (numbers, mut problems) = parse(&value);
    let mut sockets = Vec::new();
    for fd in numbers {
        match adopt(fd) {
            Ok(socket) => sockets.push(socket),
            Err(error) => problems.push(Problem::Socket(fd, error)),
        }
    }
    Ok(Some(Inherited { value, sockets, problems }))
}

/// Starts a program that inherits the sockets, in this environment, and returns its identifier.
///
/// `arguments` begins with the program's own name. The program starts with no signal blocked. The child is to
/// be [reaped](crate::process::reap) like any other.
#[allow(unsafe_code)]
pub fn execute(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    sockets: &[BoundSocket],
) -> io::Result<Pid> {
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    let descriptors: Vec<RawFd> = sockets.iter().map(|socket| socket.as_fd().as_raw_fd()).collect();
    let list: String = descriptors.iter().map(|fd| format!("{fd};")).collect();
    command.env(VARIABLE, list);
    // SAFETY: between fork and exec the closure only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(move || keep_over_exec(&descriptors).and_then(|()| restore_after_fork())) };
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

/// The descriptors in the list, without the standard streams and repetitions, and what is none.
fn parse(value: &str) -> (Vec<RawFd>, Vec<Problem>) {
    let mut numbers: Vec<RawFd> = Vec::new();
    let mut problems = Vec::new();
    for text in value.split_terminator([';', ':']) {
        match text.parse() {
            Ok(fd) if fd > libc::STDERR_FILENO && !numbers.contains(&fd) => numbers.push(fd),
            _ => problems.push(Problem::Number(text.to_owned())),
        }
    }
    (numbers, problems)
}

#[allow(unsafe_code)]
fn adopt(fd: RawFd) -> io::Result<BoundSocket> {
    // SAFETY: F_GETFD has no effect and fails on a number that is no open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(Errno::last().into());
    }
    // SAFETY: the descriptor is open; the program before this one left it to us, and `take` runs once, before
    // this process opened anything, so nothing else here owns it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let socket = Socket::from(owned);
    match check(&socket) {
        Ok(()) => BoundSocket::new(socket),
        Err(error) => {
            // What is no listening socket is not ours to close either.
            std::mem::forget(socket);
            Err(error)
        }
    }
}

fn check(socket: &Socket) -> io::Result<()> {
    let family = socket.domain()?;
    if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        return Err(io::Error::other("not a listening socket"));
    }
    if ![Domain::IPV4, Domain::IPV6, Domain::UNIX].contains(&family) {
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

    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;
    use crate::address::SocketAddress;
    use crate::bind::bind;
    use crate::bound::ListenOptions;
    use crate::testing::{alone, in_fork, pause, reap_one};

    #[test]
    fn the_list_is_read() {
        let read = |value: &str| {
            let (numbers, problems) = parse(value);
            (numbers, problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read("4;5;"), (vec![4, 5], vec![]));
        assert_eq!(read(""), (vec![], vec![]));
        let (numbers, problems) = read("7;x;2;-1;7;8");
        assert_eq!(numbers, [7, 8]);
        assert_eq!(problems.len(), 4);
        assert_eq!(problems[0], "invalid socket number \"x\" in FULMAR_FDS environment variable, ignored");
    }

    #[test]
    fn only_listening_sockets_are_adopted() {
        alone(|| {
            let file = fs::File::open("/dev/null").unwrap();
            let connected = std::os::unix::net::UnixStream::pair().unwrap();
            for fd in [file.as_raw_fd(), connected.0.as_raw_fd(), 999] {
                assert!(adopt(fd).is_err(), "{fd}");
            }
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
                .flat_map(|address| bind(address, &ListenOptions::default(), 2).unwrap())
                .collect();
            let SocketAddress::Inet(inet) = *sockets[0].address() else { panic!("not TCP") };
            let arguments = ["fulmar", "inherited::tests::heir", "--exact", "--nocapture"];
            let arguments = arguments.map(OsString::from);
            let queue = crate::signal::SignalQueue::new().unwrap();
            let environment: Vec<_> = env::vars_os().collect();
            execute(&env::current_exe().unwrap(), &arguments, &environment, &sockets).unwrap();
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
        let inherited = take().unwrap().unwrap();
        assert!(inherited.problems.is_empty() && env::var_os(VARIABLE).is_none());
        assert!(take().unwrap().is_none());
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

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
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use socket2::{Domain, Socket, Type};

use crate::bound::BoundSocket;
use crate::errno::system_message;
use crate::process::{Pid, is_single_threaded};

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

/// Starts a program that inherits the sockets and this process's environment, and returns its identifier.
///
/// `arguments` begins with the program's own name. The child is to be [reaped](crate::process::reap) like
/// any other. No other thread may start programs meanwhile, because it would leak the sockets.
pub fn execute(program: &Path, arguments: &[OsString], sockets: &[BoundSocket]) -> io::Result<Pid> {
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    let list: String = sockets.iter().map(|socket| format!("{};", socket.as_fd().as_raw_fd())).collect();
    command.env(VARIABLE, list);
    let spawned = set_inheritable(sockets, true).and_then(|()| command.spawn());
    set_inheritable(sockets, false)?;
    let pid = i32::try_from(spawned?.id()).map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid))
}

fn set_inheritable(sockets: &[BoundSocket], inheritable: bool) -> io::Result<()> {
    for socket in sockets {
        let flags = fcntl_getfd(socket)?;
        let flags = if inheritable { flags - FdFlags::CLOEXEC } else { flags | FdFlags::CLOEXEC };
        fcntl_setfd(socket, flags)?;
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

//! Processes: forking, becoming a daemon, limits, and the fate of children.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, setsid};
use rustix::process::{WaitOptions, wait};

pub use nix::unistd::Pid;

/// In which of the two processes a call to [`fork`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// In the process that called, with the identifier of its child.
    Parent(Pid),
    /// In the new process.
    Child,
}

/// Splits the process in two, see fork(2).
///
/// The child shares every descriptor of its parent, so it must drop what it does not use: the supervisor's
/// ends of all channels above all, without which no worker would notice the supervisor's death. It is an
/// error if the process has more than one thread, because the child would inherit locks that nobody
/// releases.
#[allow(unsafe_code)]
pub fn fork() -> io::Result<Fork> {
    if !is_single_threaded()? {
        return Err(io::Error::other("a process with several threads cannot fork"));
    }
    // SAFETY: no other thread exists, so the child finds every lock and all memory in a consistent state and
    // is not confined to async-signal-safe functions.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// Whether this process has one thread only.
pub fn is_single_threaded() -> io::Result<bool> {
    Ok(fs::read_dir("/proc/self/task")?.count() == 1)
}

/// Continues in a child that belongs to no terminal; the parent should return from `main`.
///
/// The child leads a session, its file mode mask is 0, its standard input and output are `/dev/null`; the
/// error stream is kept until [`redirect_stderr`].
pub fn daemonize() -> io::Result<Fork> {
    let fork = fork()?;
    if fork == Fork::Child {
        setsid()?;
        umask(Mode::empty());
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
    }
    Ok(fork)
}

/// Lets the standard error stream end in an open file, such as the error log.
pub fn redirect_stderr(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

/// Sets the limit of open descriptors, the soft and the hard one (`worker_rlimit_nofile`).
///
/// Raising the hard limit needs a superuser, so it precedes [`Identity::assume`](crate::identity::Identity).
pub fn set_nofile_limit(limit: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?)
}

/// The limit of open descriptors that holds now (the soft one).
pub fn nofile_limit() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.0)
}

/// Whether a crash leaves a core file and others of the same user may trace the process.
///
/// The kernel turns it off when a process changes its user; see PR_SET_DUMPABLE(2const).
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    Ok(nix::sys::prctl::set_dumpable(dumpable)?)
}

/// The children that ended since the last call, without waiting for any.
pub fn reap() -> io::Result<Vec<(Pid, ExitStatus)>> {
    let mut ended = Vec::new();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let pid = Pid::from_raw(pid.as_raw_pid());
                ended.push((pid, ExitStatus::from_raw(status.as_raw())));
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

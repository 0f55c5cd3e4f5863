//! Processes: forking, becoming a daemon, limits, and the fate of children.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
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
/// error if the process has more than one thread, because the child would inherit locks that no
/// thread releases.
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
    match fs::read_dir("/proc/self/task") {
        Ok(threads) => Ok(threads.count() == 1),
        // A separate root directory may have no /proc.
        Err(_) => could_leave_other_threads(),
    }
}

/// What only a thread without others is allowed, and what changes nothing for that one.
fn could_leave_other_threads() -> io::Result<bool> {
    match unshare(CloneFlags::CLONE_THREAD) {
        Ok(()) => Ok(true),
        Err(Errno::EINVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
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

/// Gives memory that was freed back to the system, where whole pages are free. It takes milliseconds for each 100 MB.
#[allow(unsafe_code)]
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) touches only free memory, and takes the allocator's own locks.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// How much memory this process and its like may use together, in bytes: what the machine has, or the limit of the
/// container.
pub fn machine_memory() -> Option<usize> {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit.max(1));
    let total = info.totalram.checked_mul(unit)?;
    let limit = crate::cgroup::memory_limit().unwrap_or(total);
    Some(usize::try_from(total.min(limit)).unwrap_or(usize::MAX))
}

/// Puts the memory in order that was freed, and gives what it can back to the system.
///
/// Before a fork it keeps the two processes from doing so each for itself, by which they would come to share less.
pub fn tidy_memory() {
    /// The allocator sorts up to 10,000 pieces of free memory whenever it is asked for more than most of them have.
    const TURNS: usize = 64;
    const BYTES: usize = 100 * 1024;
    release_memory();
    for _ in 0..TURNS {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BYTES)));
    }
}

/// Sets the limit of open descriptors, the soft and the hard one (`worker_rlimit_nofile`).
///
/// Raising the hard limit needs a superuser, so it precedes [`Identity::assume`](crate::identity::Identity).
pub fn set_nofile_limit(limit: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?)
}

/// Raises the soft limit of open descriptors to the hard one, which needs no right; gives what holds then.
pub fn raise_nofile_limit() -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// The limit of open descriptors that holds now (the soft one).
pub fn nofile_limit() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.0)
}

/// Sets the limit of the length of core files in bytes, the soft and the hard one (`worker_rlimit_core`).
pub fn set_core_limit(bytes: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, bytes, bytes)?)
}

/// Sets the niceness of the process (`worker_priority`); what is beyond the range means its end, see
/// setpriority(2).
///
/// It holds for this thread and for those that it starts from now on.
pub fn set_priority(niceness: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, niceness)?)
}

/// Whether a crash leaves a core file and others of the same user may trace the process.
///
/// The kernel turns it off when a process changes its user; see PR_SET_DUMPABLE(2const).
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    Ok(nix::sys::prctl::set_dumpable(dumpable)?)
}

/// Has the kernel kill this process when its parent ends, however that ends (PR_SET_PDEATHSIG(2const)). A parent that has
/// ended already is not noticed.
pub fn end_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

/// Has the kernel tell a program to end (SIGTERM) when the thread that starts it ends, however that ends.
#[allow(unsafe_code)]
pub fn ends_with_its_starter(command: &mut Command) {
    let tell = || Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?);
    // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(tell) };
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::identity::{Identity, is_superuser};
    use crate::signal::{self, Signal};
    use crate::testing::{alone, end_with, linger, reap_one};

    #[test]
    fn a_process_with_threads_does_not_fork() {
        assert!(!is_single_threaded().unwrap());
        assert!(!could_leave_other_threads().unwrap());
        assert!(fork().unwrap_err().to_string().contains("several threads"));
        alone(|| assert!(is_single_threaded().unwrap() && could_leave_other_threads().unwrap()));
    }

    #[test]
    fn the_fate_of_children_is_told() {
        alone(|| {
            assert!(reap().unwrap().is_empty());
            if fork().unwrap() == Fork::Child {
                end_with(7);
            }
            assert_eq!(reap_one().code(), Some(7));
            match fork().unwrap() {
                Fork::Parent(child) => signal::send(child, Signal::SIGKILL).unwrap(),
                Fork::Child => linger(),
            }
            assert_eq!(reap_one().signal(), Some(9));
            assert!(reap().unwrap().is_empty());
        });
    }

    #[test]
    fn a_daemon_leads_a_session_without_input() {
        alone(|| match daemonize().unwrap() {
            Fork::Parent(_) => assert_eq!(reap_one().code(), Some(0)),
            Fork::Child => {
                let leads = nix::unistd::getsid(None).unwrap() == Pid::this();
                let null = |fd| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap() == *"/dev/null";
                let mask_is_empty = umask(Mode::empty()).is_empty();
                end_with(i32::from(!(leads && null(0) && null(1) && !null(2) && mask_is_empty)));
            }
        });
    }

    #[test]
    fn stderr_goes_to_the_log() {
        alone(|| {
            let log = tempfile::NamedTempFile::new().unwrap();
            redirect_stderr(&log).unwrap();
            eprint!("to the log");
            assert_eq!(fs::read_to_string(log.path()).unwrap(), "to the log");
            assert_ne!(log.as_raw_fd(), 2);
        });
    }

    #[test]
    fn limits_of_descriptors_are_set() {
        alone(|| {
            assert_ne!(nofile_limit().unwrap(), 77);
            set_nofile_limit(77).unwrap();
            assert_eq!(nofile_limit().unwrap(), 77);
            setrlimit(Resource::RLIMIT_NOFILE, 40, 77).unwrap();
            // More than any kernel allows.
            assert!(set_nofile_limit(u64::MAX / 2).is_err());
            assert_eq!(nofile_limit().unwrap(), 40);
            assert_eq!(raise_nofile_limit().unwrap(), 77);
            assert_eq!(nofile_limit().unwrap(), 77);
        });
    }

    #[test]
    fn priority_and_core_files() {
        alone(|| {
            let before = rustix::process::getpriority_process(None).unwrap();
            set_priority(before + 1).unwrap();
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), before + 1);
            set_priority(1000).unwrap();
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), 19);
            set_core_limit(0).unwrap();
            assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        });
    }

    #[test]
    fn privileges_are_given_up_for_good() {
        if !is_superuser() {
            return;
        }
        alone(|| {
            let nobody = Identity::look_up("nobody", Some("nogroup")).unwrap();
            nix::unistd::setgroups(&[nix::unistd::Gid::from_raw(0)]).unwrap();
            nobody.assume().unwrap();
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let ids = |key: &str| -> Vec<&str> {
                let line = status.lines().find(|line| line.starts_with(key)).unwrap();
                line.split_whitespace().skip(1).collect()
            };
            assert_eq!(ids("Uid:"), vec![nobody.uid().to_string(); 4]);
            assert_eq!(ids("Gid:"), vec![nobody.gid().to_string(); 4]);
            assert!(!ids("Groups:").contains(&"0"));
            assert_eq!(ids("CapEff:"), ["0000000000000000"]);
            assert!(nix::unistd::setuid(nix::unistd::Uid::from_raw(0)).is_err());
            assert!(!nix::sys::prctl::get_dumpable().unwrap());
            set_dumpable(true).unwrap();
            assert!(nix::sys::prctl::get_dumpable().unwrap());
        });
    }
}

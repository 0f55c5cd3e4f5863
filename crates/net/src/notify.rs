//! Telling the service manager how this process does: the protocol of sd_notify(3).
//!
//! A message is lines of `NAME=VALUE` in one datagram to the socket that the environment names. Nobody answers, and
//! without a service manager, nothing is sent.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::time::{ClockId, clock_gettime};

/// The environment variable that names the service manager's socket.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// How many descriptors the kernel passes with one message (SCM_MAX_FD in unix(7)).
const DESCRIPTORS_MAX: usize = 253;

/// The way to the service manager.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
}

impl Notifier {
    /// The service manager that the environment names; none if it names none.
    ///
    /// # Errors
    /// The name is that of no socket.
    pub fn from_environment() -> io::Result<Option<Notifier>> {
        env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(|name| Notifier::to(&name)).transpose()
    }

    /// The service manager at this path, or with `@` in front at this name of the abstract namespace.
    fn to(name: &OsStr) -> io::Result<Notifier> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that does not read must not keep this process waiting.
        socket.set_nonblocking(true)?;
        Ok(Notifier { socket })
    }

    /// Sends lines, such as `READY=1`.
    pub fn tell(&self, lines: &[String]) -> io::Result<()> {
        self.socket.send(lines.join("\n").as_bytes()).map(drop)
    }

    /// Hands descriptors over for safekeeping: the next start of the service is given them (`FDSTORE=1`).
    ///
    /// They come back under this name, which cannot have colons in it and has 255 bytes at most.
    pub fn store(&self, name: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = format!("FDSTORE=1\nFDNAME={name}");
        for some in descriptors.chunks(DESCRIPTORS_MAX) {
            let numbers: Vec<RawFd> = some.iter().map(AsRawFd::as_raw_fd).collect();
            let rights = [ControlMessage::ScmRights(&numbers)];
            let parts = [IoSlice::new(text.as_bytes())];
            let flags = MsgFlags::MSG_NOSIGNAL;
            sendmsg::<()>(self.socket.as_fd().as_raw_fd(), &parts, &rights, flags, None)?;
        }
        Ok(())
    }

    /// Lets the service manager close what it keeps under a name.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.tell(&["FDSTOREREMOVE=1".to_owned(), format!("FDNAME={name}")])
    }
}

/// Microseconds of the clock that a service manager compares its own times with (`MONOTONIC_USEC=`).
pub fn monotonic_us() -> io::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_nsec()));
    let microseconds = seconds.map_err(io::Error::other)?.saturating_mul(1_000_000);
    Ok(microseconds.saturating_add(nanoseconds.map_err(io::Error::other)? / 1000))
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use nix::sys::socket::{ControlMessageOwned, recvmsg};

    use super::*;

    fn receive(manager: &UnixDatagram) -> (String, usize) {
        let mut bytes = [0; 1024];
        let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let descriptor = manager.as_raw_fd();
        let message =
            recvmsg::<()>(descriptor, &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT).unwrap();
        let mut passed = 0;
        for part in message.cmsgs().unwrap() {
            if let ControlMessageOwned::ScmRights(numbers) = part {
                passed += numbers.len();
                numbers.into_iter().for_each(|number| nix::unistd::close(number).unwrap());
            }
        }
        let length = message.bytes;
        (String::from_utf8_lossy(&bytes[..length]).into_owned(), passed)
    }

    #[test]
    fn lines_and_descriptors_arrive_by_path_and_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("net-test-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let managers = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").into()),
        ];
        for (manager, name) in &managers {
            let notifier = Notifier::to(name).unwrap();
            notifier.tell(&["READY=1".to_owned(), "STATUS=serving".to_owned()]).unwrap();
            assert_eq!(receive(manager), ("READY=1\nSTATUS=serving".to_owned(), 0));
            let file = std::fs::File::open("/dev/null").unwrap();
            notifier.store("x", &vec![file.as_fd(); DESCRIPTORS_MAX + 2]).unwrap();
            assert_eq!(receive(manager), ("FDSTORE=1\nFDNAME=x".to_owned(), DESCRIPTORS_MAX));
            assert_eq!(receive(manager), ("FDSTORE=1\nFDNAME=x".to_owned(), 2));
            notifier.remove("x").unwrap();
            assert_eq!(receive(manager).0, "FDSTOREREMOVE=1\nFDNAME=x");
        }
    }

    #[test]
    fn a_manager_that_is_not_there() {
        assert!(Notifier::to(OsStr::new("/no/such/socket")).is_err());
        assert!(Notifier::to(OsStr::new(&"x".repeat(200))).is_err());
    }

    #[test]
    fn the_clock_goes_forward() {
        let first = monotonic_us().unwrap();
        assert!(first > 0 && monotonic_us().unwrap() >= first);
    }
}

//! Files that lines are appended to. A pipe whose reader lags behind, or is not there, makes nobody wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Why less than everything was written.
#[derive(Debug)]
pub struct Incomplete {
    /// How many bytes were written all the same.
    pub written: usize,
    /// What stopped the rest; `WouldBlock` for a pipe that is full.
    pub error: io::Error,
}

/// Opens a file to append to it, and creates it if it is missing, for its owner to write.
///
/// A pipe is opened although nobody reads it yet: what it holds is there when somebody does.
///
/// # Errors
/// Those of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A daemon's mask is empty: the mode itself keeps others from writing.
    options.append(true).create(true).mode(0o644).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options.open(path).or_else(|error| {
        let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        if is_pipe && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) {
            options.read(true).open(path)
        } else {
            Err(error)
        }
    })
}

/// Opens a file that is there to append to it, unless its name is a symbolic link.
///
/// # Errors
/// Those of open(2); `ELOOP` for a link.
pub fn open_itself(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    OpenOptions::new().append(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Appends bytes with one system call, unless the system takes less at once.
///
/// # Errors
/// [`Incomplete`], with the first error of write(2).
pub fn write(file: impl AsFd, bytes: &[u8]) -> Result<(), Incomplete> {
    write_all(file.as_fd(), bytes)
}

/// As [`write()`], on the standard error stream, which belongs to others, too: their writes may wait, this one never
/// does. What there is no room for is not written.
///
/// # Errors
/// As [`write()`].
pub fn write_stderr(bytes: &[u8]) -> Result<(), Incomplete> {
    match own_stderr() {
        Stderr::Plain => write_all(rustix::stdio::stderr(), bytes),
        Stderr::Own(file) => write_all(file.as_fd(), bytes),
        Stderr::Socket => send_all(rustix::stdio::stderr(), bytes),
        Stderr::Shared => write_in_turn(rustix::stdio::stderr(), bytes),
    }
}

/// How the standard error stream is written.
#[derive(Clone, Debug)]
enum Stderr {
    /// Nobody waits for files.
    Plain,
    /// Opened once more, because it is others who decide whether the stream that they share waits.
    Own(Arc<File>),
    /// Each write says that it does not wait.
    Socket,
    /// There is no other way than to look first whether there is room.
    Shared,
}

/// What the standard error stream was when it was last written, which may change at any time.
static STDERR: Mutex<Option<(u64, u64, Stderr)>> = Mutex::new(None);

/// Opens the standard error stream for writes that do not wait, while this process still may.
pub fn prepare_stderr() {
    drop(own_stderr());
}

fn own_stderr() -> Stderr {
    let Ok(stat) = fstat(rustix::stdio::stderr()) else { return Stderr::Plain };
    let mut known = STDERR.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some((device, inode, stderr)) if (*device, *inode) == (stat.st_dev, stat.st_ino) => stderr.clone(),
        _ => {
            let stderr = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Socket => Stderr::Socket,
                FileType::Fifo | FileType::CharacterDevice => {
                    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
                    let mut options = OpenOptions::new();
                    let opened =
                        options.append(true).custom_flags(flags.bits().cast_signed()).open("/proc/self/fd/2");
                    opened.map_or(Stderr::Shared, |file| Stderr::Own(Arc::new(file)))
                }
                _ => Stderr::Plain,
            };
            *known = Some((stat.st_dev, stat.st_ino, stderr.clone()));
            stderr
        }
    }
}

fn send_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Incomplete> {
    all(bytes, |rest| rustix::net::send(fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
}

/// Writes no more at once than there is room for where there is any, one thread at a time.
fn write_in_turn(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Incomplete> {
    static TURN: Mutex<()> = Mutex::new(());
    let Ok(_turn) = TURN.try_lock() else {
        return Err(Incomplete { written: 0, error: io::ErrorKind::WouldBlock.into() });
    };
    all(bytes, |rest| {
        let mut ready = [PollFd::new(fd, PollFlags::POLLOUT)];
        match poll(&mut ready, PollTimeout::ZERO) {
            Ok(0) => Err(Errno::AGAIN),
            _ => rustix::io::write(fd, &rest[..rest.len().min(PIPE_BUF)]),
        }
    })
}

fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Incomplete> {
    all(bytes, |rest| rustix::io::write(fd, rest))
}

fn all(bytes: &[u8], write: impl Fn(&[u8]) -> rustix::io::Result<usize>) -> Result<(), Incomplete> {
    let mut written = 0;
    while written < bytes.len() {
        match write(&bytes[written..]) {
            Ok(0) => return Err(Incomplete { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Incomplete { written, error: errno.into() }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::redirect_stderr;
    use crate::testing::alone;
    use nix::sys::stat::Mode;
    use std::io::{ErrorKind, Read};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn lines_are_appended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for text in ["one\n", "two\n"] {
            write(open(&path).unwrap(), text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_full_device_is_told() {
        let full = write(open(Path::new("/dev/full")).unwrap(), b"x").unwrap_err();
        assert_eq!((full.written, full.error.kind()), (0, ErrorKind::StorageFull));
    }

    #[test]
    fn nobody_waits_for_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let pipe = open(&path).unwrap();
        let refused = write(&pipe, &vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
        let mut read = vec![0; refused.written];
        File::open(&path).unwrap().read_exact(&mut read).unwrap();
        write(&pipe, b"again").unwrap();
    }

    /// A pipe, a socket, and a pipe that cannot be opened once more: all of them are such that their writers wait.
    #[test]
    fn nobody_waits_for_the_standard_error_stream() {
        alone(|| {
            let large = vec![b'x'; 1 << 20];
            let (mut reader, writer) = std::io::pipe().unwrap();
            let (mut receiver, sender) = UnixStream::pair().unwrap();
            let (mut other, shared) = std::io::pipe().unwrap();
            let ends: [(&mut dyn Read, OwnedFd); 2] =
                [(&mut reader, writer.into()), (&mut receiver, sender.into())];
            for (end, stream) in ends {
                redirect_stderr(&stream).unwrap();
                let refused = write_stderr(&large).unwrap_err();
                assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
                end.read_exact(&mut vec![0; refused.written]).unwrap();
                write_stderr(b"again").unwrap();
            }
            let refused = write_in_turn(shared.as_fd(), &large).unwrap_err();
            assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
            other.read_exact(&mut vec![0; refused.written]).unwrap();
            write_in_turn(shared.as_fd(), b"again").unwrap();
        });
    }
}

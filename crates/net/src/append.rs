//! Files that lines are appended to. A pipe whose reader lags behind, or is not there, makes nobody wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

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

/// As [`write()`], on the standard error stream, which belongs to others, too, and may be one whose writers wait.
/// Nothing is written where the first bytes would have to wait.
///
/// # Errors
/// As [`write()`].
pub fn write_stderr(bytes: &[u8]) -> Result<(), Incomplete> {
    let stderr = rustix::stdio::stderr();
    let mut ready = [PollFd::new(stderr, PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) == Ok(0) {
        return Err(Incomplete { written: 0, error: io::ErrorKind::WouldBlock.into() });
    }
    write_all(stderr, bytes)
}

fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Incomplete> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(fd, &bytes[written..]) {
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
    use nix::sys::stat::Mode;
    use std::io::{ErrorKind, Read};

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
}

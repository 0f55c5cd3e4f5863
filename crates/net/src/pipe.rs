//! Named pipes, through which other programs hand over passwords.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// How long a program may take until it writes, in seconds.
const PATIENCE_S: i64 = 10;

/// The most that is read, in bytes.
const BYTES_MAX: u64 = 64 * 1024;

/// What a program writes into a named pipe, up to the end of it. `None` if the file is something else.
///
/// # Errors
/// What the system says; `TimedOut` if nothing is written for a while.
pub fn read_pipe(path: &Path) -> Option<io::Result<Vec<u8>>> {
    let is_pipe = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    is_pipe.then(|| read(path))
}

/// A pipe that is opened without waiting for its writer is readable when the writer came: it has data, or it is over.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut pipe = File::from(open(path, flags, Mode::empty())?);
    let mut text = Vec::new();
    loop {
        let limit = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&limit))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no program writes to the pipe"));
        }
        match (&mut pipe).take(BYTES_MAX).read_to_end(&mut text) {
            Ok(_) => return Ok(text),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_pipe;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;

    #[test]
    fn content_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(read_pipe(&path).is_none());
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                pipe.write_all(b"first\n").unwrap();
                pipe.write_all(b"second\n").unwrap();
            }
        });
        assert_eq!(read_pipe(&path).unwrap().unwrap(), b"first\nsecond\n");
        writer.join().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        assert!(read_pipe(&directory.path().join("file")).is_none());
    }
}

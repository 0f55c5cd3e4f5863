//! Named pipes, through which other programs hand over passwords, certificates and keys.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// How long a program may take until it writes, in seconds.
const PATIENCE_S: i64 = 10;

/// Whether a file is a named pipe.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// What a program writes into a named pipe, up to the end of it. `None` if the file is something else.
///
/// # Errors
/// What the system says; `TimedOut` if nothing is written for a while, `FileTooLarge` after so many bytes.
pub fn read_pipe(path: &Path, bytes_max: u64) -> Option<io::Result<Vec<u8>>> {
    is_pipe(path).then(|| read(path, bytes_max))
}

/// A pipe that is opened without waiting for its writer is readable when the writer came: it has data, or it is over.
fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut pipe = File::from(open(path, flags, Mode::empty())?);
    let mut text = Vec::new();
    loop {
        let limit = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&limit))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no program writes to the pipe"));
        }
        let left = (bytes_max + 1).saturating_sub(text.len() as u64);
        match (&mut pipe).take(left).read_to_end(&mut text) {
            Ok(_) if text.len() as u64 > bytes_max => return Err(io::ErrorKind::FileTooLarge.into()),
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
        assert!(read_pipe(&path, 100).is_none());
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let written = |parts: [&'static [u8]; 2], bytes_max: u64| {
            let writer = std::thread::spawn({
                let path = path.clone();
                move || {
                    let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                    parts.map(|part| pipe.write_all(part).unwrap())
                }
            });
            let read = read_pipe(&path, bytes_max).unwrap();
            writer.join().unwrap();
            read.map_err(|error| error.kind())
        };
        assert_eq!(written([b"first\n", b"second\n"], 13).unwrap(), b"first\nsecond\n");
        assert_eq!(written([&[b'x'; 40_000], &[b'y'; 60_000]], 100_000).map(|text| text.len()), Ok(100_000));
        assert_eq!(written([b"first\n", b"second\n"], 12), Err(std::io::ErrorKind::FileTooLarge));
        std::fs::write(directory.path().join("file"), "text").unwrap();
        assert!(read_pipe(&directory.path().join("file"), 100).is_none());
    }
}

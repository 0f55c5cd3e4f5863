//! Files that lines are appended to. A pipe with a slow reader, or without one, makes no thread wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{Access, AtFlags, CWD, FileType, OFlags, accessat, fcntl_getfl, fstat};
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

/// An open file that lines are appended to.
#[derive(Debug)]
pub struct Appended {
    file: File,
    mode: WriteMode,
}

/// How to write without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteMode {
    /// Nobody waits for files, nor for what was opened so that writes do not wait.
    Plain,
    /// Each write says that it does not wait.
    Socket,
    /// There is no other way than to look first whether there is room.
    Shared,
}

impl From<File> for Appended {
    fn from(file: File) -> Appended {
        let waits = || fcntl_getfl(&file).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK));
        let mode = match fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) => WriteMode::Socket,
            Ok(FileType::Fifo | FileType::CharacterDevice) if waits() => WriteMode::Shared,
            _ => WriteMode::Plain,
        };
        Appended { file, mode }
    }
}

impl Appended {
    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends bytes with one system call, unless the system takes less at once.
    ///
    /// # Errors
    /// [`Incomplete`], with the first error of write(2).
    pub fn write(&self, bytes: &[u8]) -> Result<(), Incomplete> {
        self.mode.write(self.file.as_fd(), bytes)
    }

    /// Removes the last bytes of the file, which this handle has just written. Does nothing if other bytes follow them,
    /// or if the file can only grow. Gives whether the bytes are gone.
    pub fn take_back(&self, count: usize) -> bool {
        let Ok(metadata) = self.file.metadata() else { return false };
        // An append leaves the position at the end of what it wrote.
        let is_last = (&self.file).stream_position().is_ok_and(|position| position == metadata.len());
        let shorter = metadata.len().checked_sub(count as u64);
        is_last && shorter.is_some_and(|length| self.file.set_len(length).is_ok())
    }
}

impl WriteMode {
    fn write(self, fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Incomplete> {
        match self {
            WriteMode::Plain => write_all(fd, bytes),
            WriteMode::Socket => send_all(fd, bytes),
            WriteMode::Shared => write_in_turn(fd, bytes),
        }
    }
}

/// Opens a file to append to it, and creates it if it is missing, for its owner to write.
///
/// A pipe is opened before it has a reader; it keeps its data until a reader comes. A standard stream that
/// cannot be opened by its name is had all the same.
///
/// # Errors
/// Those of open(2).
pub fn open(path: &Path) -> io::Result<Appended> {
    open_with(path, true)
}

/// Tests whether [`open`] would succeed. A missing file is not created.
///
/// # Errors
/// Those of open(2).
pub fn check(path: &Path) -> io::Result<()> {
    match open_with(path, false) {
        Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => Err(Errno::ISDIR.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_creation(path),
        opened => opened.map(drop),
    }
}

/// Tests whether this process may create a file or a directory at a path where nothing is.
///
/// # Errors
/// Those that the creation would have.
pub fn check_creation(path: &Path) -> io::Result<()> {
    /// As many links as the kernel follows.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        // open(2) creates the file that a dangling link names.
        match std::fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => {
                // Without the trailing "." a file instead of the directory would pass.
                accessat(CWD, directory.join("."), Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
                return Ok(());
            }
        }
    }
    Err(Errno::LOOP.into())
}

/// Another handle of the standard error stream, which does not wait where that can be arranged.
///
/// # Errors
/// No descriptor is left.
pub fn stderr() -> io::Result<File> {
    match own_stderr() {
        Stderr::Own(file) => file.try_clone(),
        Stderr::Inherited(_) => Ok(rustix::stdio::stderr().try_clone_to_owned()?.into()),
    }
}

fn open_with(path: &Path, create: bool) -> io::Result<Appended> {
    let mut options = OpenOptions::new();
    // A daemon's mask is empty: the mode itself keeps others from writing.
    options.append(true).create(create).mode(0o644).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let opened = options.open(path).or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO | Errno::ACCESS) => match standard_stream(path) {
            Some(stream) => Ok(stream),
            None if is_pipe(path) => options.read(true).open(path),
            None => Err(error),
        },
        _ => Err(error),
    });
    opened.map(Appended::from)
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// The standard stream that a path such as `/dev/stdout` leads to. That of a service or of a remote shell may be a
/// socket, which has no name to be opened by, and that of another user's pipeline belongs to that user.
fn standard_stream(path: &Path) -> Option<File> {
    let named = std::fs::metadata(path).ok()?;
    let is_named = |stream: &BorrowedFd<'_>| {
        fstat(stream).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (named.dev(), named.ino()))
    };
    let stream = [rustix::stdio::stdout(), rustix::stdio::stderr()].into_iter().find(is_named)?;
    stream.try_clone_to_owned().ok().map(File::from)
}

/// Opens a file that is there to append to it, unless its name is a symbolic link.
///
/// # Errors
/// Those of open(2); `ELOOP` for a link.
pub fn open_itself(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    OpenOptions::new().append(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// As [`Appended::write`], on the standard error stream, which belongs to others, too: their writes may wait, this one
/// never does. What there is no room for is not written.
///
/// # Errors
/// As [`Appended::write`].
pub fn write_stderr(bytes: &[u8]) -> Result<(), Incomplete> {
    match own_stderr() {
        Stderr::Inherited(mode) => mode.write(rustix::stdio::stderr(), bytes),
        Stderr::Own(file) => write_all(file.as_fd(), bytes),
    }
}

/// How the standard error stream is written.
#[derive(Clone, Debug)]
enum Stderr {
    /// By the descriptor that this process was started with.
    Inherited(WriteMode),
    /// Opened once more, because it is others who decide whether the stream that they share waits.
    Own(Arc<File>),
}

/// What the standard error stream was when it was last written, which may change at any time.
static STDERR: Mutex<Option<(u64, u64, Stderr)>> = Mutex::new(None);

/// Opens the standard error stream for writes that do not wait, while this process still may.
pub fn prepare_stderr() {
    drop(own_stderr());
}

fn own_stderr() -> Stderr {
    let Ok(stat) = fstat(rustix::stdio::stderr()) else { return Stderr::Inherited(WriteMode::Plain) };
    let mut known = STDERR.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some((device, inode, stderr)) if (*device, *inode) == (stat.st_dev, stat.st_ino) => stderr.clone(),
        _ => {
            let stderr = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Socket => Stderr::Inherited(WriteMode::Socket),
                FileType::Fifo | FileType::CharacterDevice => {
                    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
                    let mut options = OpenOptions::new();
                    let opened =
                        options.append(true).custom_flags(flags.bits().cast_signed()).open("/proc/self/fd/2");
                    opened.map_or(Stderr::Inherited(WriteMode::Shared), |file| Stderr::Own(Arc::new(file)))
                }
                _ => Stderr::Inherited(WriteMode::Plain),
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
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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
    use crate::identity::{Identity, is_superuser};
    use crate::process::redirect_stderr;
    use crate::testing::alone;
    use nix::sys::stat::Mode;
    use std::io::{ErrorKind, Read};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn lines_are_appended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for text in ["one\n", "two\n"] {
            open(&path).unwrap().write(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_check_finds_what_an_opening_would_and_creates_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "kept").unwrap();
        std::os::unix::fs::symlink("later", at("link")).unwrap();
        std::os::unix::fs::symlink("none/later", at("broken")).unwrap();
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        let names =
            ["file", "new", "link", "broken", "circle", "none/x", "file/x", "new/", ".", &"x".repeat(300)];
        let number = |result: io::Result<()>| result.err().and_then(|error| error.raw_os_error());
        let checked = names.map(|name| number(check(&at(name))));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
        assert_eq!(checked, names.map(|name| number(open(&at(name)).map(drop))));
        assert_eq!(std::fs::read(at("file")).unwrap(), b"kept");
    }

    #[test]
    fn a_check_respects_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        alone(|| {
            for path in [&file, directory.path()] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
            }
            if is_superuser() {
                Identity::look_up("nobody", Some("nogroup")).unwrap().assume().unwrap();
            }
            let refused = |result: io::Result<()>| {
                result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
            };
            assert!(refused(check(&file)) && refused(check(&directory.path().join("new"))));
        });
    }

    #[test]
    fn only_the_last_bytes_are_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
        let text = || std::fs::read_to_string(&path).unwrap();
        one.write(b"a line\npart").unwrap();
        assert!(one.take_back(4) && text() == "a line\n");
        one.write(b"part").unwrap();
        other.write(b"another\n").unwrap();
        assert!(!one.take_back(4) && text() == "a line\npartanother\n");
        assert!(!open(Path::new("/dev/null")).unwrap().take_back(1));
    }

    #[test]
    fn a_full_device_is_told() {
        let full = open(Path::new("/dev/full")).unwrap().write(b"x").unwrap_err();
        assert_eq!((full.written, full.error.kind()), (0, ErrorKind::StorageFull));
    }

    #[test]
    fn nobody_waits_for_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let pipe = open(&path).unwrap();
        let refused = pipe.write(&vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
        let mut read = vec![0; refused.written];
        File::open(&path).unwrap().read_exact(&mut read).unwrap();
        pipe.write(b"again").unwrap();
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
            let shared = Appended::from(File::from(OwnedFd::from(shared)));
            let refused = shared.write(&large).unwrap_err();
            assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
            other.read_exact(&mut vec![0; refused.written]).unwrap();
            shared.write(b"again").unwrap();
        });
    }

    #[test]
    fn a_standard_stream_that_has_no_name_is_opened_by_its_path() {
        alone(|| {
            let (mut receiver, sender) = UnixStream::pair().unwrap();
            let directory = tempfile::tempdir().unwrap();
            let link = directory.path().join("log");
            std::os::unix::fs::symlink("/dev/stderr", &link).unwrap();
            // Panics are written there, too, and would have no reader.
            let before = rustix::stdio::stderr().try_clone_to_owned().unwrap();
            redirect_stderr(&sender).unwrap();
            let results = [Path::new("/dev/stderr"), &link].map(|path| {
                let opened = open(path)?;
                opened.write(b"line\n").map_err(|refused| refused.error)?;
                let refused = opened.write(&vec![b'x'; 1 << 20]).unwrap_err();
                receiver.read_exact(&mut vec![0; 5 + refused.written])?;
                Ok::<_, io::Error>(refused.error.kind())
            });
            redirect_stderr(&before).unwrap();
            assert!(results.iter().all(|result| matches!(result, Ok(ErrorKind::WouldBlock))), "{results:?}");
            let bound = directory.path().join("socket");
            let _another = std::os::unix::net::UnixListener::bind(&bound).unwrap();
            assert!(open(&bound).is_err(), "it is no stream of ours");
        });
    }

    /// Who writes at the same time has its turn, and is not taken for one who finds no room.
    #[test]
    fn threads_that_share_a_pipe_lose_nothing() {
        const THREADS: usize = 4;
        const LINES: usize = 900;
        let (mut reader, writer) = std::io::pipe().unwrap();
        let shared = Appended::from(File::from(OwnedFd::from(writer)));
        let together = std::sync::Barrier::new(THREADS);
        let write = || {
            together.wait();
            (0..LINES).for_each(|_| shared.write(b"a line of text\n").unwrap());
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(write))));
        drop(shared);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.lines().count() == THREADS * LINES && text.lines().all(|line| line == "a line of text"));
    }
}

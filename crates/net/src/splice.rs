//! Moves bytes from one stream to another inside of the kernel, through a pipe, see splice(2).
//!
//! A pipe that has no room looks like a stream that has nothing: both are `EAGAIN`. So bytes are moved into an empty pipe
//! only, and it is known how many it has.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use nix::libc;

use crate::events::Wanted;
use crate::stream::Stream;

/// How many bytes a pipe has room for, see pipe(7).
pub const PIPE_BYTES: usize = 64 * 1024;

/// How many pipes this process has at most. Without privileges the kernel gives a user about a thousand with all of their
/// room, and a process that leaves has some of them, too.
const PIPES: usize = 400;

/// A pipe has two descriptors. So many descriptors may be open for each pipe, so that connections find some.
const DESCRIPTORS_OF_PIPE: u64 = 16;

/// How much one call moves through memory.
const READ_BYTES: usize = 16 * 1024;

/// How many empty pipes a thread keeps.
const SPARE: usize = 16;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many pipes this process may have, by its limit of descriptors when the first one is opened.
fn pipes_max() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let limit = crate::process::nofile_limit().unwrap_or_default();
        usize::try_from(limit / DESCRIPTORS_OF_PIPE).unwrap_or(PIPES).min(PIPES)
    })
}

thread_local! {
    static SPARES: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe, and how much it has.
#[derive(Debug)]
pub struct Pipe {
    reader: File,
    writer: OwnedFd,
    fill: usize,
}

impl Pipe {
    /// An empty pipe; none if there are too many, or the system has no descriptors left.
    pub fn borrow() -> Option<Pipe> {
        SPARES.with_borrow_mut(Vec::pop).or_else(Pipe::open)
    }

    #[allow(unsafe_code)]
    fn open() -> Option<Pipe> {
        if OPEN.fetch_add(1, Ordering::Relaxed) >= pipes_max() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut ends = [-1; 2];
        // SAFETY: the kernel writes two numbers to `ends`.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } == -1 {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: both are open, and nothing else owns them.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Some(Pipe { reader: reader.into(), writer, fill: 0 })
    }

    /// Gives a pipe back. One that has bytes is closed.
    pub fn give_back(self) {
        if self.fill == 0 {
            SPARES.with_borrow_mut(|spares| {
                if spares.len() < SPARE {
                    spares.push(self);
                }
            });
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.fill == 0
    }

    /// Takes all of its bytes, for a receiver that they cannot be moved to.
    ///
    /// # Errors
    /// The system fails.
    pub fn take(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let start = bytes.len();
        bytes.resize(start + self.fill, 0);
        self.reader.read_exact(&mut bytes[start..])?;
        self.fill = 0;
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that is read and written, on the event loop of its thread.
pub trait Duplex {
    /// Reads what is there into the buffer and returns how many bytes; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes a part of the bytes and returns how many.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Tells the server, after all bytes, that nothing more is written. Unless it `goes_on`, the connection closes next.
    fn poll_end_writing(&mut self, cx: &mut Context<'_>, goes_on: bool) -> Poll<()>;

    /// Whether bytes may go through a pipe, because they come from and go to a stream in clear.
    fn splices(&mut self) -> bool {
        false
    }

    /// As [`Stream::poll_fill`].
    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let _ = (cx, pipe);
        Poll::Ready(Err(io::ErrorKind::InvalidInput.into()))
    }

    /// As [`Stream::poll_drain`].
    fn poll_drain(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let _ = (cx, pipe);
        Poll::Ready(Err(io::ErrorKind::InvalidInput.into()))
    }
}

impl Stream {
    /// Moves what is there into an empty pipe and returns how many bytes; 0 at the end.
    ///
    /// # Errors
    /// `InvalidInput` if the kernel cannot move from such a stream; others if it is broken.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        debug_assert!(pipe.is_empty(), "a full pipe would look like an empty stream");
        let move_some = |socket: BorrowedFd<'_>| splice(&socket, &pipe.writer, PIPE_BYTES);
        let count = ready!(self.poll_call(cx, Wanted::Read, move_some))?;
        pipe.fill += count;
        self.registration.spend(calls_for(count));
        // A pipe may have no room although less than its size was moved: whether there is more is unknown.
        self.was_read(count, true);
        Poll::Ready(Ok(count))
    }

    /// Moves bytes out of a pipe that has some and returns how many.
    ///
    /// # Errors
    /// `InvalidInput` if the kernel cannot move to such a stream; others if it is broken.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let count = ready!(self.poll_call(cx, Wanted::Write, |socket| {
            self.settle_delay()?;
            splice(&pipe.reader, &socket, pipe.fill)
        }))?;
        pipe.fill -= count.min(pipe.fill);
        self.registration.spend(calls_for(count));
        Poll::Ready(Ok(count))
    }
}

/// How many more calls bytes would have taken through memory. A turn is bounded by calls, whichever way the bytes go.
fn calls_for(bytes: usize) -> u32 {
    u32::try_from(bytes / READ_BYTES).unwrap_or(u32::MAX)
}

#[allow(unsafe_code)]
fn splice(from: &impl AsRawFd, to: &impl AsRawFd, most: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are open while they are borrowed; without offsets the kernel writes to no memory of ours.
    let count = unsafe { libc::splice(from.as_raw_fd(), none, to.as_raw_fd(), none, most, flags) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_bounded_and_used_again() {
        let mut pipes: Vec<Pipe> = std::iter::from_fn(Pipe::borrow).take(PIPES + 1).collect();
        assert_eq!(pipes.len(), pipes_max());
        let limit = usize::try_from(crate::process::nofile_limit().unwrap()).unwrap();
        assert!((1..=PIPES.min(limit / 8)).contains(&pipes.len()), "{} of {limit}", pipes.len());
        let kept = pipes.pop().unwrap();
        let descriptor = kept.writer.as_raw_fd();
        kept.give_back();
        assert_eq!(Pipe::borrow().unwrap().writer.as_raw_fd(), descriptor);
        let mut full = pipes.pop().unwrap();
        full.fill = 1;
        let descriptor = full.writer.as_raw_fd();
        full.give_back();
        let mut last = pipes.pop().unwrap();
        assert_ne!(last.writer.as_raw_fd(), descriptor);
        // What cannot be moved on is taken out.
        let mut writer = File::from(last.writer.try_clone().unwrap());
        io::Write::write_all(&mut writer, b"bytes").unwrap();
        last.fill = 5;
        let mut taken = b"some ".to_vec();
        last.take(&mut taken).unwrap();
        assert_eq!((&taken[..], last.is_empty()), (&b"some bytes"[..], true));
    }
}

//! Memory that connections borrow from their thread while they are not idle.

use super::exchange::Begun;
use std::cell::RefCell;
use std::task::Poll;

/// How many buffers and requests a thread keeps.
const KEPT: usize = 64;

/// A buffer that grew past this is not kept.
const KEPT_CAPACITY: usize = 128 * 1024;

/// Memory that has this many bytes in it was read into, or is as good for it.
const READ_INTO: usize = 16 * 1024;

/// So many bytes are copied rather than that memory for many more is held.
const LITTLE: usize = 2048;

thread_local! {
    /// Memory that was read into, and memory that was appended to. The one as the other would have to be filled with
    /// zeros first.
    static BUFFERS: RefCell<[Vec<Vec<u8>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// The places of the two.
const READ: usize = 0;
const APPENDED: usize = 1;

/// A queue of bytes whose memory belongs to the thread while it is empty.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// How many bytes at the front were used.
    used: usize,
    /// How many bytes hold anything; behind them is room for reading.
    filled: usize,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..self.filled]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..self.filled]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == self.filled
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.used = self.used.saturating_add(count).min(self.filled);
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        }
    }

    /// Room behind the bytes, at least this much.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        self.borrow(READ);
        if self.bytes.len() - self.filled < least {
            self.bytes.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
            if self.bytes.len() < self.filled + least {
                self.bytes.resize(self.filled + least, 0);
            }
        }
        &mut self.bytes[self.filled..]
    }

    /// Tells that so much of the room was filled.
    pub(crate) fn grew(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.bytes.len());
    }

    /// Appends by a function that knows only vectors.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.borrow(APPENDED);
        self.bytes.truncate(self.filled);
        write(&mut self.bytes);
        self.filled = self.bytes.len();
    }

    /// Gives the memory back, if nothing is in it.
    pub(crate) fn release(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            (self.used, self.filled) = (0, 0);
            let place = if bytes.len() < READ_INTO { APPENDED } else { READ };
            BUFFERS.with_borrow_mut(|buffers| {
                if buffers[place].len() < KEPT && bytes.capacity() <= KEPT_CAPACITY {
                    buffers[place].push(bytes);
                }
            });
        }
    }

    /// Gives the memory back, and keeps what is in it in memory of that size, where that is little: it may wait for long.
    pub(crate) fn shrink(&mut self) {
        if !self.is_empty() && self.bytes().len() <= LITTLE && self.bytes.len() >= READ_INTO {
            let bytes = self.bytes().to_vec();
            self.consume(usize::MAX);
            self.release();
            (self.filled, self.bytes) = (bytes.len(), bytes);
        }
        self.release();
    }

    /// Passes a call's answer on. Where that has to be waited for, the memory is given back meanwhile, if nothing is in it.
    pub(crate) fn release_if_pending<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.release();
        }
        polled
    }

    fn borrow(&mut self, place: usize) {
        if self.bytes.capacity() == 0 {
            let found = BUFFERS.with_borrow_mut(|buffers| {
                let [read, appended] = buffers;
                let (first, second) = if place == READ { (read, appended) } else { (appended, read) };
                first.pop().or_else(|| second.pop())
            });
            self.bytes = found.unwrap_or_default();
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.consume(usize::MAX);
        self.release();
    }
}

/// Requests that ended, whose memory serves further ones. One belongs to each thread.
#[derive(Default)]
pub(crate) struct Requests {
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    kept: RefCell<Vec<Box<Begun>>>,
}

impl Requests {
    /// A request of which nothing is known.
    pub(super) fn take(&self) -> Option<Box<Begun>> {
        self.kept.borrow_mut().pop()
    }

    /// Ends a request, and keeps it where that is wanted.
    pub(super) fn keep(&self, mut begun: Box<Begun>, is_wanted: bool) {
        // What is attached to the request may end others.
        let is_small = begun.clear();
        let mut kept = self.kept.borrow_mut();
        if is_small && is_wanted && kept.len() < KEPT {
            kept.push(begun);
        }
    }

    /// Forgets all of them, and with them the site that they belonged to.
    pub(crate) fn forget(&self) {
        self.kept.take();
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFERS, Buffer, LITTLE, READ, READ_INTO};
    use std::task::Poll;

    fn read(buffer: &mut Buffer, bytes: &[u8]) {
        buffer.room(READ_INTO)[..bytes.len()].copy_from_slice(bytes);
        buffer.grew(bytes.len());
    }

    fn kept() -> usize {
        BUFFERS.with_borrow(|buffers| buffers[READ].len())
    }

    #[test]
    fn what_waits_holds_little() {
        let mut buffer = Buffer::default();
        read(&mut buffer, b"abc");
        buffer.consume(1);
        buffer.shrink();
        assert_eq!((buffer.bytes(), buffer.bytes.capacity(), kept()), (&b"bc"[..], 2, 1));
        read(&mut buffer, b"d");
        assert_eq!(buffer.bytes(), b"bcd");
        let long = vec![b'x'; LITTLE];
        read(&mut buffer, &long);
        buffer.shrink();
        assert_eq!((buffer.bytes().len(), kept()), (LITTLE + 3, 1), "it is not copied");
        buffer.consume(LITTLE + 3);
        buffer.shrink();
        assert_eq!((buffer.bytes.capacity(), kept()), (0, 2));
    }

    #[test]
    fn memory_is_given_back_while_nothing_comes() {
        let mut buffer = Buffer::default();
        buffer.room(READ_INTO);
        assert_eq!((buffer.release_if_pending(Poll::Ready(1)), kept()), (Poll::Ready(1), 0));
        assert_eq!((buffer.release_if_pending(Poll::<()>::Pending), kept()), (Poll::Pending, 1));
        read(&mut buffer, b"a");
        assert!(buffer.release_if_pending(Poll::<()>::Pending).is_pending());
        assert_eq!((buffer.bytes(), kept()), (&b"a"[..], 0));
    }
}

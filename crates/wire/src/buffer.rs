//! Memory that connections borrow from their thread while they are not idle.

use net::Stream;
use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll, ready};
use std::thread::LocalKey;

/// How many buffers of each kind a thread keeps.
const KEPT: usize = 64;

/// A buffer that grew past this is not kept.
const KEPT_CAPACITY: usize = 128 * 1024;

/// Memory that was read into has at least this many bytes in it.
const READ_INTO: usize = 16 * 1024;

/// So many bytes are copied rather than that memory for many more is held.
const LITTLE: usize = 2048;

thread_local! {
    /// Memory that was read into, and memory that was appended to. The one as the other would have to be filled with
    /// zeros first.
    static BUFFERS: RefCell<[Vec<Vec<u8>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
    /// Memory for bytes that are passed on in the call in which they were read. It is empty while that lasts.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// The same for one datagram.
    static DATAGRAM_ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The places of the two.
const READ: usize = 0;
const APPENDED: usize = 1;

/// Runs a function with room for bytes that it reads and passes on, 16 KB.
#[inline]
pub fn with_room<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    with(&ROOM, READ_INTO, act)
}

/// Runs a function with room for one datagram, 64 KB. No datagram of UDP is larger.
pub fn with_datagram_room<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    with(&DATAGRAM_ROOM, 1 << 16, act)
}

#[inline]
fn with<T>(place: &'static LocalKey<Cell<Vec<u8>>>, size: usize, act: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut room = place.take();
    if room.is_empty() {
        room = vec![0; size];
    }
    let result = act(&mut room);
    place.set(room);
    result
}

/// A queue of bytes whose memory belongs to the thread while it is empty.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// How many bytes at the front were used.
    used: u32,
    /// How many bytes hold anything; after them is room for reading.
    filled: usize,
    /// Whether the memory was appended to.
    is_appended: bool,
}

impl Buffer {
    /// The bytes in the queue.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start()..self.filled]
    }

    /// The same, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.start();
        &mut self.bytes[start..self.filled]
    }

    fn start(&self) -> usize {
        self.used as usize
    }

    /// How much memory the queue has, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether nothing is in the queue.
    pub fn is_empty(&self) -> bool {
        self.start() == self.filled
    }

    /// Takes so many bytes from the front.
    pub fn consume(&mut self, count: usize) {
        let start = self.start().saturating_add(count).min(self.filled);
        if start == self.filled {
            (self.used, self.filled) = (0, 0);
            return;
        }
        self.used = u32::try_from(start).unwrap_or_else(|_| {
            self.bytes.drain(..start);
            self.filled -= start;
            0
        });
    }

    /// Moves bytes from the front to a slice, and returns how many.
    pub fn take(&mut self, to: &mut [u8]) -> usize {
        let count = self.bytes().len().min(to.len());
        to[..count].copy_from_slice(&self.bytes()[..count]);
        self.consume(count);
        self.release();
        count
    }

    /// Room after the bytes, at least this much.
    pub fn room(&mut self, least: usize) -> &mut [u8] {
        self.borrow(READ);
        if self.is_appended && self.bytes().len() <= LITTLE {
            self.change_memory();
        }
        if self.bytes.len() - self.filled < least {
            let start = self.start();
            self.bytes.copy_within(start..self.filled, 0);
            self.filled -= start;
            self.used = 0;
            if self.bytes.capacity() == 0 {
                self.bytes = vec![0; least];
            } else if self.bytes.len() < self.filled + least {
                self.bytes.resize(self.filled + least, 0);
            }
        }
        &mut self.bytes[self.filled..]
    }

    /// Moves the bytes to memory that was read into, if the thread has any. Room in memory that was appended to would be
    /// filled with zeros first.
    fn change_memory(&mut self) {
        let mut other = Buffer::default();
        other.borrow(READ);
        if let Some(place) = other.bytes.get_mut(..self.bytes().len()) {
            place.copy_from_slice(self.bytes());
            other.filled = self.bytes().len();
            std::mem::swap(self, &mut other);
        }
    }

    /// Tells that so much of the room was filled.
    pub fn grew(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.bytes.len());
    }

    /// Reads after the bytes, with room for at least so many, and returns how many came; 0 at the end. While nothing is
    /// there, a buffer that has nothing owns no memory.
    pub fn poll_read(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        least: usize,
    ) -> Poll<io::Result<usize>> {
        let polled = stream.poll_read_into(cx, self, |buffer| buffer.room(least));
        let count = ready!(self.release_if_pending(polled))?;
        self.grew(count);
        Poll::Ready(Ok(count))
    }

    /// Appends by a function that knows only vectors.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.borrow(APPENDED);
        self.is_appended = true;
        self.bytes.truncate(self.filled);
        write(&mut self.bytes);
        self.filled = self.bytes.len();
    }

    /// Gives the memory back, if nothing is in it.
    #[inline]
    pub fn release(&mut self) {
        if self.bytes.capacity() > 0 && self.is_empty() {
            self.give_back();
        }
    }

    #[inline]
    fn give_back(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        (self.used, self.filled) = (0, 0);
        // What was read into and is short was made for little.
        let place =
            if std::mem::take(&mut self.is_appended) || bytes.len() < READ_INTO { APPENDED } else { READ };
        if place == APPENDED {
            bytes.clear();
        }
        BUFFERS.with_borrow_mut(|buffers| {
            if buffers[place].len() < KEPT && bytes.capacity() <= KEPT_CAPACITY {
                buffers[place].push(bytes);
            }
        });
    }

    /// Gives the memory back, and keeps what is in it in memory of that size, where that is little: it may wait for long.
    pub fn shrink(&mut self) {
        if !self.is_empty() && self.bytes().len() <= LITTLE && self.bytes.len() >= READ_INTO {
            let bytes = self.bytes().to_vec();
            self.consume(usize::MAX);
            self.release();
            (self.filled, self.bytes) = (bytes.len(), bytes);
        }
        self.release();
    }

    /// Passes a call's answer on. Where that has to be waited for, the memory is given back meanwhile, if nothing is in it.
    pub fn release_if_pending<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.release();
        }
        polled
    }

    #[inline]
    fn borrow(&mut self, place: usize) {
        if self.bytes.capacity() == 0 {
            // Memory of the other kind is no substitute: each of the two would become the other in turn, and be filled with
            // zeros each time.
            self.bytes = BUFFERS.with_borrow_mut(|buffers| buffers[place].pop()).unwrap_or_default();
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.consume(usize::MAX);
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFERS, Buffer, LITTLE, READ, READ_INTO, with_room};
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
    fn little_that_was_appended_moves_to_memory_that_was_read_into() {
        let mut used = Buffer::default();
        used.room(READ_INTO).fill(b'x');
        let memory = used.bytes.as_ptr();
        drop(used);
        let mut buffer = Buffer::default();
        buffer.append(|out| out.extend_from_slice(b"head"));
        buffer.consume(1);
        let room = buffer.room(READ_INTO - 4);
        assert_eq!(room[0], b'x', "nothing is filled with zeros");
        room[..4].copy_from_slice(b"body");
        buffer.grew(4);
        assert_eq!((buffer.bytes(), buffer.bytes.as_ptr(), kept()), (&b"eadbody"[..], memory, 0));
        drop(buffer);
        assert_eq!(kept(), 1);
        let mut long = Buffer::default();
        long.append(|out| out.extend_from_slice(&[b'y'; LITTLE + 1]));
        long.room(READ_INTO);
        assert_eq!((long.bytes().len(), kept()), (LITTLE + 1, 1), "it is not copied");
    }

    #[test]
    fn room_within_room_is_other_memory() {
        with_room(|outer| {
            outer[0] = 1;
            with_room(|inner| inner[0] = 2);
            assert_eq!((outer[0], outer.len()), (1, READ_INTO));
        });
    }

    #[test]
    fn bytes_are_taken_as_far_as_there_is_room() {
        let (mut buffer, mut to) = (Buffer::default(), [0; 4]);
        read(&mut buffer, b"abcdef");
        assert_eq!((buffer.take(&mut to), &to), (4, b"abcd"));
        assert_eq!((buffer.take(&mut to), &to[..2], kept()), (2, &b"ef"[..], 1));
        assert_eq!(buffer.take(&mut to), 0);
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

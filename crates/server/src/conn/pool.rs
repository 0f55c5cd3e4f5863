//! Memory that connections borrow from their thread while they are not idle.

use super::exchange::Begun;
use std::cell::RefCell;
use std::thread::LocalKey;

/// How many buffers and requests a thread keeps.
const KEPT: usize = 64;

/// A buffer that grew past this is not kept.
const KEPT_CAPACITY: usize = 128 * 1024;

/// Memory that has this many bytes in it was read into, or is as good for it.
const READ_INTO: usize = 16 * 1024;

thread_local! {
    /// Memory that was appended to, and memory that was read into. The one as the other would have to be filled with
    /// zeros first.
    static APPENDED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static READ: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

type Kept = LocalKey<RefCell<Vec<Vec<u8>>>>;

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
        self.borrow([&READ, &APPENDED]);
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
        self.borrow([&APPENDED, &READ]);
        self.bytes.truncate(self.filled);
        write(&mut self.bytes);
        self.filled = self.bytes.len();
    }

    /// Gives the memory back, if nothing is in it.
    pub(crate) fn release(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            (self.used, self.filled) = (0, 0);
            let kept = if bytes.len() < READ_INTO { &APPENDED } else { &READ };
            kept.with_borrow_mut(|buffers| {
                if buffers.len() < KEPT && bytes.capacity() <= KEPT_CAPACITY {
                    buffers.push(bytes);
                }
            });
        }
    }

    fn borrow(&mut self, from: [&'static Kept; 2]) {
        if self.bytes.capacity() == 0 {
            self.bytes = from.iter().find_map(|kept| kept.with_borrow_mut(Vec::pop)).unwrap_or_default();
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

//! Memory that connections borrow from their thread while they are not idle.

use contract::Request;
use h1::Target;
use http::{Fields, RequestHead};
use std::cell::RefCell;
use std::thread::LocalKey;

/// How many buffers and heads a thread keeps.
const KEPT: usize = 64;

/// A buffer that grew past this is not kept.
const KEPT_CAPACITY: usize = 128 * 1024;

/// A target that grew past this is not kept, in bytes.
const KEPT_TARGET: usize = 4096;

/// Memory that has this many bytes in it was read into, or is as good for it.
const READ_INTO: usize = 16 * 1024;

thread_local! {
    /// Memory that was appended to, and memory that was read into. The one as the other would have to be filled with
    /// zeros first.
    static APPENDED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static READ: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static TARGETS: RefCell<Vec<(Target, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
    static FIELDS: RefCell<Vec<Fields>> = const { RefCell::new(Vec::new()) };
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    static HEADS: RefCell<Vec<Box<RequestHead>>> = const { RefCell::new(Vec::new()) };
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

/// An empty head.
pub(crate) fn head() -> Box<RequestHead> {
    HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Memory for what a target is taken apart into, and for the target itself.
pub(crate) fn target() -> (Target, Vec<u8>) {
    TARGETS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// An empty list of fields.
pub(crate) fn fields() -> Fields {
    FIELDS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Takes back what a request used, which is answered and logged, and the fields of the answer.
pub(crate) fn recycle(request: Request, mut fields: Fields) {
    fields.clear();
    FIELDS.with_borrow_mut(|kept| {
        if kept.len() < KEPT {
            kept.push(fields);
        }
    });
    let Request { mut head, mut uri, path, args, host, .. } = request;
    head.clear();
    HEADS.with_borrow_mut(|heads| {
        if heads.len() < KEPT {
            heads.push(head);
        }
    });
    uri.clear();
    let mut target = Target::default();
    (target.path, target.args, target.host.name) = (path, args.unwrap_or_default(), host);
    let is_small = uri.capacity() <= KEPT_TARGET && target.path.capacity() <= KEPT_TARGET;
    TARGETS.with_borrow_mut(|targets| {
        if is_small && targets.len() < KEPT {
            targets.push((target, uri));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn a_queue_that_moves_its_bytes_to_the_front() {
        let mut buffer = Buffer::default();
        buffer.append(|bytes| bytes.extend_from_slice(b"hello world"));
        buffer.consume(6);
        assert_eq!(buffer.bytes(), b"world");
        let room = buffer.room(100);
        room[..2].copy_from_slice(b"!!");
        buffer.grew(2);
        assert_eq!(buffer.bytes(), b"world!!");
        buffer.append(|bytes| bytes.push(b'?'));
        assert_eq!(buffer.bytes(), b"world!!?");
        buffer.consume(8);
        assert!(buffer.is_empty());
        buffer.release();
        assert_eq!(buffer.bytes(), b"");
    }
}

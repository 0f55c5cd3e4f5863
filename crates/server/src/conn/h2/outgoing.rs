//! What a stream has given to its connection and the connection has not sent yet.

use crate::task_table;
use bytes::{Buf, Bytes};
use contract::Piece;
use engine::{Read, Unknown, read};
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::{Buffer, Job};

/// How much of a file is read at once.
const FILE_READ: usize = 64 * 1024;

/// A piece of at most this many bytes is joined with those before it. Copying it costs less than another frame.
const SMALL: usize = 2 * 1024;

/// How many bytes are joined at most.
const JOINED_LIMIT: usize = 16 * 1024;

/// The content of a response on its way: a piece that is being sent, and the next one.
#[derive(Default)]
pub(super) struct Outgoing {
    current: Option<Content>,
    next: Option<Content>,
    /// Whether the response has content at all.
    pub(super) has_body: bool,
    /// Whether no further piece comes.
    pub(super) is_finished: bool,
    /// Whether the end was sent.
    pub(super) is_ended: bool,
}

enum Content {
    Bytes(Bytes),
    /// Small pieces that came before any of them could be sent.
    Joined(Buffer),
    File(Box<Part>),
}

/// The next bytes, and whether they are the last ones; none at the end.
pub(super) type Next<'a> = Option<(&'a [u8], bool)>;

/// A part of a file that is being sent.
struct Part {
    file: Arc<File>,
    offset: u64,
    end: u64,
    unknown: Unknown,
    /// What was read and not sent yet.
    bytes: Buffer,
    /// What another thread reads.
    elsewhere: Option<Job<Vec<u8>>>,
}

impl Outgoing {
    /// Whether there is room for a further piece.
    pub(super) fn has_room(&self) -> bool {
        self.next.is_none()
    }

    /// Whether there is content that was not sent.
    pub(super) fn has_content(&self) -> bool {
        self.current.is_some()
    }

    /// Whether further small pieces may come that leave in the same frame.
    pub(super) fn may_grow(&self) -> bool {
        !self.is_finished && self.next.is_none() && self.current.as_ref().is_some_and(|last| last.has_room(0))
    }

    /// Takes a further piece.
    pub(super) fn give(&mut self, piece: Piece, unknown: Unknown) {
        let content = match piece {
            Piece::Bytes(bytes) if bytes.is_empty() => return,
            Piece::File { length: 0, .. } => return,
            Piece::Bytes(bytes) => match self.current.as_mut().filter(|_| self.next.is_none()) {
                Some(last) if last.has_room(bytes.len()) => return last.join(&bytes),
                _ => Content::Bytes(bytes),
            },
            Piece::File { file, offset, length } => {
                let end = offset.saturating_add(length);
                let bytes = Buffer::default();
                Content::File(Box::new(Part { file, offset, end, unknown, bytes, elsewhere: None }))
            }
        };
        let slot = if self.current.is_none() { &mut self.current } else { &mut self.next };
        *slot = Some(content);
    }

    /// The next bytes. Ready if a file has them in memory. Of a file so many bytes are read at most.
    ///
    /// # Errors
    /// The file cannot be read, or became shorter.
    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<Next<'_>>> {
        if let Some(Content::File(part)) = &mut self.current {
            ready!(part.poll_read(cx, most))?;
        }
        let is_last = self.is_finished && self.next.is_none();
        Poll::Ready(Ok(match &self.current {
            None => None,
            Some(Content::Bytes(bytes)) => Some((bytes, is_last)),
            Some(Content::Joined(buffer)) => Some((buffer.bytes(), is_last)),
            Some(Content::File(part)) => Some((part.bytes.bytes(), is_last && part.offset >= part.end)),
        }))
    }

    /// Takes note that so many bytes were sent.
    pub(super) fn sent(&mut self, count: usize) {
        let is_over = match &mut self.current {
            None => false,
            Some(Content::Bytes(bytes)) => {
                bytes.advance(count.min(bytes.len()));
                bytes.is_empty()
            }
            Some(Content::Joined(buffer)) => {
                buffer.consume(count);
                buffer.release();
                buffer.is_empty()
            }
            Some(Content::File(part)) => {
                part.bytes.consume(count);
                part.bytes.release();
                part.bytes.is_empty() && part.offset >= part.end
            }
        };
        if is_over {
            self.current = self.next.take();
        }
    }

    /// Forgets all content.
    pub(super) fn discard(&mut self) {
        (self.current, self.next) = (None, None);
    }

    /// How much memory the content takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        let of = |content: &Content| match content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Joined(buffer) => buffer.capacity(),
            Content::File(part) => part.bytes.capacity(),
        };
        [&self.current, &self.next].into_iter().flatten().map(of).sum()
    }
}

impl Content {
    /// Whether a piece of this length can be joined with this one.
    fn has_room(&self, length: usize) -> bool {
        let joined = match self {
            Content::Bytes(bytes) if bytes.len() <= SMALL => bytes.len(),
            Content::Joined(buffer) => buffer.bytes().len(),
            Content::Bytes(_) | Content::File(_) => return false,
        };
        length <= SMALL && joined + length < JOINED_LIMIT
    }

    /// Appends a piece.
    fn join(&mut self, piece: &[u8]) {
        if let Content::Bytes(first) = self {
            let mut buffer = Buffer::default();
            buffer.append(|out| out.extend_from_slice(first));
            *self = Content::Joined(buffer);
        }
        if let Content::Joined(buffer) = self {
            buffer.append(|out| out.extend_from_slice(piece));
        }
    }
}

impl Part {
    /// Reads, if nothing is left of what was read before.
    fn poll_read(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<()>> {
        while self.bytes.is_empty() && self.offset < self.end {
            let count = if let Some(reading) = &mut self.elsewhere {
                let bytes = ready!(Pin::new(reading).poll(cx));
                self.elsewhere = None;
                let bytes = bytes?;
                self.bytes.append(|out| out.extend_from_slice(&bytes));
                bytes.len()
            } else {
                let turn = usize::try_from(task_table::file_turn()).unwrap_or(FILE_READ);
                let most = FILE_READ.min(turn).min(most.max(1));
                let wanted = usize::try_from(self.end - self.offset).unwrap_or(most).min(most);
                let room = &mut self.bytes.room(wanted)[..wanted];
                match read(&self.file, room, self.offset, self.unknown)? {
                    Read::Bytes(count) => {
                        self.bytes.grew(count);
                        count
                    }
                    Read::Elsewhere(reading) => {
                        self.bytes.release();
                        self.elsewhere = Some(reading);
                        continue;
                    }
                }
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.offset += count as u64;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{JOINED_LIMIT, Outgoing, SMALL};
    use bytes::Bytes;
    use contract::Piece;
    use engine::Unknown;
    use std::io::Write;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn pieces_come_in_order_and_the_last_is_known() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.give(Piece::Bytes("ab".into()), Unknown::Warm);
        assert!(outgoing.has_room());
        outgoing.give(Piece::File { file: Arc::new(file), offset: 2, length: 5 }, Unknown::Warm);
        assert!(!outgoing.has_room());
        outgoing.is_finished = true;
        let mut cx = Context::from_waker(Waker::noop());
        let mut sent = Vec::new();
        loop {
            let Poll::Ready(Ok(bytes)) = outgoing.poll_bytes(&mut cx, 100) else { panic!("waits") };
            let Some((bytes, is_last)) = bytes else { break };
            let count = bytes.len().min(3);
            sent.push((String::from_utf8(bytes[..count].to_vec()).unwrap(), is_last));
            outgoing.sent(count);
        }
        let expected =
            [("ab", false), ("234", true), ("56", true)].map(|(text, last)| (text.to_owned(), last));
        assert_eq!(sent, expected);
        assert_eq!(outgoing.memory(), 0);
    }

    #[test]
    fn small_pieces_are_joined_and_large_ones_stay_where_they_are() {
        let mut outgoing = Outgoing::default();
        let mut given = Vec::new();
        while outgoing.has_room() {
            let piece = vec![b'x'; 1 + given.len() % 100];
            given.extend_from_slice(&piece);
            outgoing.give(Piece::Bytes(piece.into()), Unknown::Warm);
        }
        assert!(given.len() > JOINED_LIMIT && given.len() < JOINED_LIMIT + 200, "{}", given.len());
        assert!(!outgoing.may_grow());
        let mut cx = Context::from_waker(Waker::noop());
        let mut lengths = Vec::new();
        let large = Bytes::from(vec![b'y'; SMALL + 1]);
        while let Poll::Ready(Ok(Some((bytes, _)))) = outgoing.poll_bytes(&mut cx, usize::MAX) {
            lengths.push(bytes.len());
            if bytes == large {
                assert_eq!(bytes.as_ptr(), large.as_ptr(), "copied");
            }
            let count = bytes.len();
            outgoing.sent(count);
            if lengths.len() == 1 {
                // After it small pieces begin another frame.
                outgoing.give(Piece::Bytes(large.clone()), Unknown::Warm);
                assert!(!outgoing.has_room());
            }
        }
        assert_eq!(lengths.len(), 3, "{lengths:?}");
        assert_eq!(outgoing.memory(), 0);
    }
}

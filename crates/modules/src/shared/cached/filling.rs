//! The content of a response that is kept while it is sent. The other server is read as fast as it sends; the client gets
//! what it has not taken yet from the file.

use super::Cached;
use cache::{Rest, Writer};
use contract::{Exchange, Outcome, Piece, Pull, Source, Turn};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use upstream::Attempts;
use wire::memory::{self, Held};

/// How many pieces are read for a client that takes none, in one turn.
const AHEAD_MAX: usize = 64;

/// The content of a response that is kept while it is sent.
pub(super) struct Filling {
    cached: Rc<Cached>,
    /// None when the file has its name, or cannot be written.
    writer: Option<Writer>,
    /// What other requests read if the file cannot be written.
    rest: Option<Rest>,
    source: Box<dyn Source>,
    /// What was read and not sent yet.
    pieces: VecDeque<Piece>,
    /// How many bytes of that are in memory, and how many may be.
    in_memory: usize,
    buffers: usize,
    held: Held,
    /// Whether all was read, or no more can be.
    end: Option<Result<(), ()>>,
}

impl Filling {
    pub(super) fn new(
        cached: Rc<Cached>,
        writer: Writer,
        source: Box<dyn Source>,
        buffers: usize,
    ) -> Filling {
        let (pieces, held) = (VecDeque::new(), Held::default());
        let (writer, rest) = (Some(writer), None);
        Filling { cached, writer, rest, source, pieces, in_memory: 0, buffers, held, end: None }
    }

    /// Takes what the source gave. Tells whether there is more to ask for at once.
    fn take(&mut self, exchange: &Exchange, pulled: Pull) -> Result<(), Pull> {
        match pulled {
            Pull::Piece(piece) => self.add(exchange, piece),
            Pull::End => {
                self.end = Some(Ok(()));
                match self.writer.take().filter(|_| !Attempts::may_be_cut(exchange)) {
                    Some(writer) => self.cached.finish(exchange, writer),
                    None => self.cached.release(),
                }
                self.rest.take().into_iter().for_each(Rest::finish);
            }
            Pull::Failed => {
                self.end = Some(Err(()));
                self.give_up();
            }
            Pull::Pending { .. } => return Err(Pull::Pending { lasts: true }),
            Pull::Await(work) => return Err(Pull::Await(work)),
        }
        Ok(())
    }

    /// Writes a piece, and keeps it for the client: in memory if there is room, else as a part of the file.
    fn add(&mut self, exchange: &Exchange, piece: Piece) {
        let in_file = self.write(exchange, &piece);
        let has_room = self.in_memory + self.piece_memory(&piece) <= self.buffers && !memory::is_scarce();
        match in_file {
            Some(part) if !has_room || matches!(self.pieces.back(), Some(Piece::File { .. })) => {
                self.add_part(part)
            }
            _ => {
                self.in_memory += self.piece_memory(&piece);
                self.pieces.push_back(piece);
            }
        }
        self.note_memory();
    }

    fn note_memory(&mut self) {
        self.held.set(self.in_memory + self.rest.as_ref().map_or(0, Rest::bytes));
    }

    fn piece_memory(&self, piece: &Piece) -> usize {
        if let Piece::Bytes(bytes) = piece { bytes.len() } else { 0 }
    }

    /// Adds a part of the file, which goes on where the last one ends.
    fn add_part(&mut self, part: Piece) {
        match (self.pieces.back_mut(), &part) {
            (Some(Piece::File { offset, length, .. }), Piece::File { offset: next, length: added, .. })
                if *offset + *length == *next =>
            {
                *length += added
            }
            _ => self.pieces.push_back(part),
        }
    }

    /// Writes a piece and returns where it is in the file; none if nothing is written any more.
    fn write(&mut self, exchange: &Exchange, piece: &Piece) -> Option<Piece> {
        let Piece::Bytes(bytes) = piece else {
            // No conversation gives a part of a file that it was not told to buffer.
            self.give_up();
            return None;
        };
        if let Some(rest) = &self.rest {
            rest.push(bytes.clone());
            return None;
        }
        let writer = self.writer.as_mut()?;
        let before = writer.length();
        if let Err(error) = writer.append(bytes) {
            self.cached.complain(exchange, &error);
            self.rest = self.writer.take().and_then(Writer::rest);
            self.rest.iter().for_each(|rest| rest.push(bytes.clone()));
            self.cached.release();
            return None;
        }
        let (file, start) = writer.content();
        Some(Piece::File { file: Arc::clone(file), offset: start + before, length: bytes.len() as u64 })
    }

    fn give_up(&mut self) {
        (self.writer, self.rest) = (None, None);
        self.cached.release();
    }

    /// Whether the requests that read what is not in the file have no room for more. The task is woken when they have.
    fn lacks_room(&self, turn: &mut Turn<'_, '_>) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.poll_room(turn.cx).is_pending())
    }

    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.in_memory = self.in_memory.saturating_sub(self.piece_memory(&piece));
        self.note_memory();
        Some(piece)
    }
}

impl Source for Filling {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if let Some(piece) = self.pop() {
                return Pull::Piece(piece);
            }
            match self.end {
                Some(Ok(())) => return Pull::End,
                Some(Err(())) => return Pull::Failed,
                None => {}
            }
            if self.lacks_room(turn) {
                return Pull::Pending { lasts: true };
            }
            let pulled = self.source.pull(turn);
            if let Err(pulled) = self.take(turn.exchange, pulled) {
                return pulled;
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.source.resume(outcome);
    }

    fn finish(self: Box<Self>, exchange: &Exchange) {
        self.source.finish(exchange);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        for _ in 0..AHEAD_MAX {
            if self.end.is_some() {
                return;
            }
            if self.writer.is_none() && self.rest.is_none() {
                // What cannot be written waits as without a cache.
                return self.source.read_ahead(turn);
            }
            let is_full = self.writer.is_none() && self.in_memory >= self.buffers;
            if is_full || self.lacks_room(turn) {
                return;
            }
            let pulled = self.source.pull(turn);
            if self.take(turn.exchange, pulled).is_err() {
                return;
            }
        }
        turn.cx.waker().wake_by_ref();
    }
}

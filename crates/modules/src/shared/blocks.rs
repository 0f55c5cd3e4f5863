//! Content block by block, whatever it is made of: for filters that read what passes.

use bytes::Bytes;
use contract::{Body, Outcome, Piece, Pull, Source, Turn, Work};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wire::{Ready, read_ready};

/// The longest block, in bytes.
pub(crate) const BLOCK: u64 = 64 * 1024;

/// The content of a body, block by block.
#[derive(Default)]
pub(crate) struct Blocks {
    /// What is there.
    pieces: VecDeque<Piece>,
    /// Where more comes from.
    source: Option<Box<dyn Source>>,
    /// The bytes of a file that are read off the event loop.
    reading: bool,
    failed: bool,
}

/// The next of the content.
pub(crate) enum Block {
    Bytes(Bytes),
    /// Something has to be waited for; [`Blocks::resume`] is given the outcome.
    Await(Work),
    /// Nothing more is there yet; the task of the turn is woken ([`Pull::Pending`]).
    Pending {
        /// Whether the content is waited for although the client has left.
        lasts: bool,
    },
    End,
    /// The content cannot be completed.
    Failed,
}

impl Blocks {
    /// Reads a body. A tunnel is no content.
    pub(crate) fn of(body: Body) -> Result<Blocks, Body> {
        let (pieces, source) = match body {
            Body::Empty => (VecDeque::new(), None),
            Body::Piece(piece) => (VecDeque::from([piece]), None),
            Body::Pieces(pieces) => (pieces.into(), None),
            Body::Source(source) => (VecDeque::new(), Some(source)),
            Body::Tunnel(_) => return Err(body),
        };
        Ok(Blocks { pieces, source, reading: false, failed: false })
    }

    /// The length in bytes, where all is there.
    pub(crate) fn length(&self) -> Option<u64> {
        self.source.is_none().then(|| self.pieces.iter().map(Piece::length).sum())
    }

    /// The content, where it is one piece.
    pub(crate) fn single(&self) -> Option<&Piece> {
        self.pieces.front().filter(|_| self.pieces.len() == 1 && self.source.is_none())
    }

    /// The next block, which is neither empty nor longer than [`BLOCK`].
    pub(crate) fn next(&mut self, turn: &mut Turn<'_, '_>) -> Block {
        loop {
            if let Some(block) = self.next_there() {
                return block;
            }
            match self.source.as_mut().map(|source| source.pull(turn)) {
                None | Some(Pull::End) => return Block::End,
                Some(Pull::Piece(piece)) => self.pieces.push_back(piece),
                Some(Pull::Await(work)) => return Block::Await(work),
                Some(Pull::Pending { lasts }) => return Block::Pending { lasts },
                Some(Pull::Failed) => self.failed = true,
            }
        }
    }

    /// The next block of what is there without asking the source.
    pub(crate) fn next_there(&mut self) -> Option<Block> {
        loop {
            if self.failed {
                return Some(Block::Failed);
            }
            match self.pieces.pop_front() {
                Some(Piece::Bytes(bytes)) if bytes.is_empty() => {}
                Some(Piece::File { length: 0, .. }) => {}
                Some(piece) => return Some(self.first(&piece)),
                None if self.source.is_none() => return Some(Block::End),
                None => return None,
            }
        }
    }

    /// Lets the source get more while the client takes no more.
    pub(crate) fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(source) = &mut self.source {
            source.read_ahead(turn);
        }
    }

    fn first(&mut self, piece: &Piece) -> Block {
        let rest = piece.slice(BLOCK, u64::MAX);
        if rest.length() > 0 {
            self.pieces.push_front(rest);
        }
        let (file, offset, length) = match piece.slice(0, BLOCK) {
            Piece::Bytes(bytes) => return Block::Bytes(bytes),
            Piece::File { file, offset, length } => (file, offset, length),
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        if let Ok(Ready::Bytes(count)) = read_ready(&file, &mut bytes, offset)
            && count == bytes.len()
        {
            return Block::Bytes(bytes.into());
        }
        self.reading = true;
        Block::Await(read(file, offset, bytes))
    }

    /// Takes the outcome of what [`Blocks::next`] had to wait for.
    pub(crate) fn resume(&mut self, outcome: Outcome) {
        if !std::mem::take(&mut self.reading) {
            if let Some(source) = &mut self.source {
                source.resume(outcome);
            }
            return;
        }
        let bytes = match outcome {
            Outcome::Job(result) => result.downcast::<io::Result<Vec<u8>>>().ok().and_then(|read| read.ok()),
            _ => None,
        };
        match bytes {
            Some(bytes) => self.pieces.push_front(Piece::Bytes(bytes.into())),
            None => self.failed = true,
        }
    }
}

/// Fills the bytes from a file off the event loop. A file that became shorter is an error.
fn read(file: Arc<File>, offset: u64, mut bytes: Vec<u8>) -> Work {
    Work::Job(Box::new(move || {
        let read: io::Result<Vec<u8>> = file.read_exact_at(&mut bytes, offset).map(|()| bytes);
        Box::new(read)
    }))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Block, Blocks};
    use contract::{Body, Outcome, Piece, Work};
    use std::io::Write;
    use std::sync::Arc;

    fn file(bytes: &[u8]) -> Arc<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.into()
    }

    /// The lengths of the blocks, or nothing where the content failed.
    fn blocks(body: Body) -> Option<Vec<usize>> {
        let mut blocks = Blocks::of(body).ok().unwrap();
        let mut lengths = Vec::new();
        loop {
            match blocks.next_there() {
                Some(Block::Bytes(bytes)) => lengths.push(bytes.len()),
                Some(Block::Await(Work::Job(job))) => blocks.resume(Outcome::Job(job())),
                Some(Block::Await(_) | Block::Pending { .. }) | None => panic!("only files are waited for"),
                Some(Block::End) => return Some(lengths),
                Some(Block::Failed) => return None,
            }
        }
    }

    #[test]
    fn files_come_in_blocks_and_nothing_empty_comes() {
        let long = vec![b'x'; 150_000];
        let piece = Piece::File { file: file(&long), offset: 0, length: long.len() as u64 };
        let block = usize::try_from(BLOCK).unwrap();
        assert_eq!(blocks(Body::Piece(piece.clone())).unwrap(), [block, block, 150_000 - 2 * block]);
        assert_eq!(blocks(Body::bytes(long)).unwrap().len(), 3);
        let pieces =
            vec![Piece::Bytes("".into()), piece.slice(0, 0), Piece::Bytes("ab".into()), piece.slice(7, 9)];
        let whole = Blocks::of(Body::Pieces(pieces.clone())).ok().unwrap();
        assert!(whole.length() == Some(11) && whole.single().is_none());
        assert_eq!(blocks(Body::Pieces(pieces)).unwrap(), [2, 9]);
        assert_eq!(blocks(Body::Empty).unwrap(), [0_usize; 0]);
    }

    #[test]
    fn a_file_that_became_shorter_fails() {
        let piece = Piece::File { file: file(b"short"), offset: 0, length: 100_000 };
        assert_eq!(blocks(Body::Pieces(vec![Piece::Bytes("x".into()), piece])), None);
    }
}

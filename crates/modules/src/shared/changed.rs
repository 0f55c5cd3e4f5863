//! Content that is changed on its way: read in blocks where it is in files, pulled where it comes into being.

use bytes::Bytes;
use contract::{Body, Outcome, Piece, Pull, Source, Work};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How much of a file is read at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// Content in memory up to this many bytes is changed at once, so that it leaves with its head.
const AT_ONCE_MAX: u64 = 64 * 1024;

/// A change of content that goes through it from its beginning to its end.
pub(crate) trait Change {
    /// Takes the next bytes, and appends what comes out by now, which may be nothing.
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what was held back, at the end of the content.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// A body, changed.
pub(crate) fn changed(body: Body, mut change: impl Change + 'static) -> Body {
    let in_memory = |piece: &Piece| matches!(piece, Piece::Bytes(_));
    match &body {
        Body::Empty | Body::Tunnel(_) => return body,
        Body::Source(_) => {}
        Body::Piece(_) | Body::Pieces(_) => {
            let pieces = body.pieces().unwrap_or_default();
            if pieces.iter().all(in_memory) && body.length().is_some_and(|length| length <= AT_ONCE_MAX) {
                let mut out = Vec::new();
                for piece in pieces {
                    if let Piece::Bytes(bytes) = piece {
                        change.add(bytes, &mut out);
                    }
                }
                change.end(&mut out);
                return Body::bytes(out);
            }
        }
    }
    Body::Source(Box::new(Changed { blocks: Blocks::of(body), change, is_ended: false }))
}

struct Changed<C> {
    blocks: Blocks,
    change: C,
    is_ended: bool,
}

impl<C: Change> Source for Changed<C> {
    fn pull(&mut self) -> Pull {
        if self.is_ended {
            return Pull::End;
        }
        loop {
            let mut out = Vec::new();
            match self.blocks.next() {
                Block::Bytes(bytes) => self.change.add(&bytes, &mut out),
                Block::Await(work) => return Pull::Await(work),
                Block::Failed => return Pull::Failed,
                Block::End => {
                    self.is_ended = true;
                    self.change.end(&mut out);
                    if out.is_empty() {
                        return Pull::End;
                    }
                }
            }
            if !out.is_empty() {
                return Pull::Piece(Piece::Bytes(out.into()));
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.blocks.resume(outcome);
    }
}

/// The content of a body, block by block in memory.
struct Blocks {
    /// What is there.
    pieces: VecDeque<Piece>,
    /// Where more comes from.
    source: Option<Box<dyn Source>>,
    is_reading: bool,
    has_failed: bool,
}

enum Block {
    Bytes(Bytes),
    Await(Work),
    End,
    Failed,
}

impl Blocks {
    fn of(body: Body) -> Blocks {
        let (pieces, source) = match body {
            Body::Empty | Body::Tunnel(_) => (VecDeque::new(), None),
            Body::Piece(piece) => (VecDeque::from([piece]), None),
            Body::Pieces(pieces) => (pieces.into(), None),
            Body::Source(source) => (VecDeque::new(), Some(source)),
        };
        Blocks { pieces, source, is_reading: false, has_failed: false }
    }

    fn next(&mut self) -> Block {
        loop {
            if self.has_failed {
                return Block::Failed;
            }
            match self.pieces.pop_front() {
                Some(Piece::Bytes(bytes)) => return Block::Bytes(bytes),
                Some(Piece::File { length: 0, .. }) => continue,
                Some(Piece::File { file, offset, length }) => {
                    let block = length.min(BLOCK as u64);
                    let rest = Piece::File { file: Arc::clone(&file), offset, length };
                    self.pieces.push_front(rest.slice(block, u64::MAX));
                    self.is_reading = true;
                    return Block::Await(read(file, offset, block));
                }
                None => {}
            }
            match self.source.as_mut().map(|source| source.pull()) {
                None | Some(Pull::End) => return Block::End,
                Some(Pull::Piece(piece)) => self.pieces.push_back(piece),
                Some(Pull::Await(work)) => return Block::Await(work),
                Some(Pull::Failed) => self.has_failed = true,
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if !std::mem::take(&mut self.is_reading) {
            if let Some(source) = &mut self.source {
                source.resume(outcome);
            }
            return;
        }
        match outcome {
            Outcome::Job(result) => match result.downcast::<io::Result<Vec<u8>>>().map(|read| *read) {
                Ok(Ok(bytes)) => self.pieces.push_front(Piece::Bytes(bytes.into())),
                Ok(Err(_)) | Err(_) => self.has_failed = true,
            },
            _ => self.has_failed = true,
        }
    }
}

/// Reads a block of a file off the event loop. A file that became shorter is an error.
fn read(file: Arc<File>, offset: u64, length: u64) -> Work {
    Work::Job(Box::new(move || {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        let read: io::Result<Vec<u8>> = file.read_exact_at(&mut bytes, offset).map(|()| bytes);
        Box::new(read)
    }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{BLOCK, Change, changed};
    use contract::{Body, Outcome, Piece, Pull, Source, Work};
    use std::io::Write;
    use std::sync::Arc;

    /// All that a body comes to, with its work done in between, or nothing where it failed.
    pub(crate) fn drain(body: Body) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut add = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::File { .. } => panic!("changed content is no file"),
        };
        match body {
            Body::Empty | Body::Tunnel(_) => {}
            Body::Piece(piece) => add(&piece),
            Body::Pieces(pieces) => pieces.iter().for_each(add),
            Body::Source(mut source) => loop {
                match source.pull() {
                    Pull::Piece(piece) => add(&piece),
                    Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                    Pull::Await(_) => source.resume(Outcome::Done),
                    Pull::End => break,
                    Pull::Failed => return None,
                }
            },
        }
        Some(out)
    }

    /// A source that gives these pieces and waits before each.
    pub(crate) struct Slow(pub(crate) Vec<Vec<u8>>, pub(crate) bool);

    impl Source for Slow {
        fn pull(&mut self) -> Pull {
            if !std::mem::take(&mut self.1) {
                return Pull::Await(Work::Sleep(std::time::Duration::ZERO));
            }
            if self.0.is_empty() { Pull::End } else { Pull::Piece(Piece::Bytes(self.0.remove(0).into())) }
        }

        fn resume(&mut self, _: Outcome) {
            self.1 = true;
        }
    }

    /// Doubles each byte, one byte late.
    struct Twice(Option<u8>);

    impl Change for Twice {
        fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
            for byte in bytes {
                out.extend(self.0.replace(*byte).into_iter().flat_map(|byte| [byte, byte]));
            }
        }

        fn end(&mut self, out: &mut Vec<u8>) {
            out.extend(self.0.take().into_iter().flat_map(|byte| [byte, byte]));
        }
    }

    fn file(length: usize) -> Piece {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 3 * BLOCK]).unwrap();
        Piece::File { file: Arc::new(file), offset: 1, length: length as u64 }
    }

    #[test]
    fn files_pieces_and_sources() {
        let text = |body| drain(changed(body, Twice(None)));
        let bytes = |text: &'static str| Piece::Bytes(text.into());
        assert_eq!(text(Body::Empty).unwrap(), b"");
        assert_eq!(text(Body::Piece(bytes("ab"))).unwrap(), b"aabb");
        assert_eq!(text(Body::Pieces(vec![bytes("a"), bytes(""), bytes("b")])).unwrap(), b"aabb");
        let whole = text(Body::Pieces(vec![bytes("a"), file(BLOCK + 7), bytes("b")])).unwrap();
        assert_eq!(whole, [b"aa", &[b'x'; 2 * (BLOCK + 7)][..], b"bb"].concat());
        let slow = Slow(vec![b"a".to_vec(), Vec::new(), b"b".to_vec()], false);
        assert_eq!(text(Body::Source(Box::new(slow))).unwrap(), b"aabb");
    }

    #[test]
    fn a_file_that_became_shorter_is_never_taken_for_whole() {
        assert!(drain(changed(Body::Piece(file(3 * BLOCK)), Twice(None))).is_none());
    }
}

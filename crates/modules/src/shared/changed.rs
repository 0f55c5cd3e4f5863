//! Content that is changed on its way, whatever it is made of.

use super::blocks::{Block, Blocks};
use contract::{Body, Outcome, Piece, Pull, Source, Turn, Work};

/// Content up to this many bytes is changed at once where it need not be waited for, so that it leaves with its head.
const AT_ONCE_MAX: u64 = 64 * 1024;

/// A change of content that goes through it from its beginning to its end.
pub(crate) trait Change {
    /// Takes the next bytes, and appends what comes out by now, which may be nothing.
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what was held back, at the end of the content.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// A body, changed.
pub(crate) fn changed(body: Body, change: impl Change + 'static) -> Body {
    if matches!(body, Body::Empty) {
        return body;
    }
    match Blocks::of(body) {
        Ok(blocks) => Changed { blocks, change, out: Vec::new(), waits: None, is_ended: false }.body(),
        Err(tunnel) => tunnel,
    }
}

struct Changed<C> {
    blocks: Blocks,
    change: C,
    /// What came out and was not given on yet.
    out: Vec<u8>,
    /// What has to be waited for after that.
    waits: Option<Work>,
    is_ended: bool,
}

impl<C: Change + 'static> Changed<C> {
    fn body(mut self) -> Body {
        let is_short = self.blocks.length().is_some_and(|length| length <= AT_ONCE_MAX);
        if !is_short {
            return Body::Source(Box::new(self));
        }
        loop {
            match self.blocks.next_there() {
                Some(Block::Bytes(bytes)) => self.change.add(&bytes, &mut self.out),
                Some(Block::End) => {
                    self.change.end(&mut self.out);
                    return Body::bytes(self.out);
                }
                Some(Block::Await(work)) => {
                    self.waits = Some(work);
                    return Body::Source(Box::new(self));
                }
                Some(Block::Pending { .. } | Block::Failed) | None => return Body::Source(Box::new(self)),
            }
        }
    }
}

impl<C: Change> Source for Changed<C> {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if !self.out.is_empty() {
                return Pull::Piece(Piece::Bytes(std::mem::take(&mut self.out).into()));
            }
            if let Some(work) = self.waits.take() {
                return Pull::Await(work);
            }
            if self.is_ended {
                return Pull::End;
            }
            match self.blocks.next(turn) {
                Block::Bytes(bytes) => self.change.add(&bytes, &mut self.out),
                Block::Await(work) => return Pull::Await(work),
                Block::Pending { lasts } => return Pull::Pending { lasts },
                Block::Failed => return Pull::Failed,
                Block::End => {
                    self.is_ended = true;
                    self.change.end(&mut self.out);
                }
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.blocks.resume(outcome);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        self.blocks.read_ahead(turn);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{AT_ONCE_MAX, Change, changed};
    use crate::testing::pull;
    use contract::{Body, Outcome, Piece, Pull, Source, Turn, Work};
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
                match pull(&mut *source) {
                    Pull::Piece(piece) => add(&piece),
                    Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                    Pull::Await(_) => source.resume(Outcome::Done),
                    Pull::End => break,
                    Pull::Pending { .. } | Pull::Failed => return None,
                }
            },
        }
        Some(out)
    }

    /// A source that gives these pieces and waits before each.
    pub(crate) struct Slow(pub(crate) Vec<Vec<u8>>, pub(crate) bool);

    impl Source for Slow {
        fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
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

    /// More than is changed at once.
    const LONG: usize = 70_000;

    fn file(length: usize) -> Piece {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 3 * LONG]).unwrap();
        Piece::File { file: Arc::new(file), offset: 1, length: length as u64 }
    }

    #[test]
    fn files_pieces_and_sources() {
        let text = |body| drain(changed(body, Twice(None)));
        let bytes = |text: &'static str| Piece::Bytes(text.into());
        assert_eq!(text(Body::Empty).unwrap(), b"");
        assert_eq!(text(Body::Piece(bytes("ab"))).unwrap(), b"aabb");
        assert_eq!(text(Body::Pieces(vec![bytes("a"), bytes(""), bytes("b")])).unwrap(), b"aabb");
        assert!(LONG as u64 > AT_ONCE_MAX);
        assert_eq!(text(Body::Pieces(vec![bytes("a"), file(2)])).unwrap(), b"aaxxxx");
        let whole = text(Body::Pieces(vec![bytes("a"), file(LONG + 7), bytes("b")])).unwrap();
        assert_eq!(whole, [b"aa", &[b'x'; 2 * (LONG + 7)][..], b"bb"].concat());
        let slow = Slow(vec![b"a".to_vec(), Vec::new(), b"b".to_vec()], false);
        assert_eq!(text(Body::Source(Box::new(slow))).unwrap(), b"aabb");
    }

    #[test]
    fn a_file_that_became_shorter_is_never_taken_for_whole() {
        assert!(drain(changed(Body::Piece(file(3 * LONG)), Twice(None))).is_none());
    }
}

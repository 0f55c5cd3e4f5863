//! The content of a response that another request is getting: it is sent as it comes.

use cache::{Arrived, Arriving, Follower};
use contract::{Outcome, Piece, Pull, Source, Turn};
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// The content of a response that another request is getting.
pub(super) struct Following(Follower);

impl Following {
    pub(super) fn new(arriving: &Arc<Arriving>) -> Following {
        Following(Follower::new(arriving))
    }
}

impl Source for Following {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        match self.0.poll(turn.cx) {
            Poll::Ready(Arrived::Part(file, offset, length)) => {
                Pull::Piece(Piece::File { file, offset, length })
            }
            Poll::Ready(Arrived::Bytes(bytes)) => Pull::Piece(Piece::Bytes(bytes)),
            Poll::Ready(Arrived::End) => Pull::End,
            Poll::Ready(Arrived::Cut) => Pull::Failed,
            Poll::Pending => Pull::Pending { lasts: false },
        }
    }

    /// It asks for no work.
    fn resume(&mut self, _: Outcome) {}

    fn seek(&mut self, range: Range<u64>) -> bool {
        self.0.seek(range.start, range.end);
        true
    }
}

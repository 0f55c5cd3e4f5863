//! Content that is there, as a source.

use contract::{Outcome, Piece, Pull, Source, Turn};

/// Content that is there.
pub(crate) struct Whole(std::vec::IntoIter<Piece>);

impl Whole {
    /// The content of these pieces.
    pub(crate) fn new(pieces: Vec<Piece>) -> Whole {
        Whole(pieces.into_iter())
    }
}

impl Source for Whole {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        self.0.next().map_or(Pull::End, Pull::Piece)
    }

    fn resume(&mut self, _: Outcome) {}
}

//! The content of a response.

use crate::{Exchange, Outcome, Turn, Work};
use bytes::Bytes;
use net::Duplex;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The content of a response.
pub enum Body {
    /// No content.
    Empty,
    /// Content that is there, in one piece.
    Piece(Piece),
    /// Content that is there.
    Pieces(Vec<Piece>),
    /// Content that comes into being while it is sent.
    Source(Box<dyn Source>),
    /// No content but another protocol: after the head, bytes go both ways (RFC 9110, section 7.8).
    Tunnel(Box<Tunnel>),
}

/// The far end of a tunnel.
pub struct Tunnel {
    /// The connection to the upstream server.
    pub far: Box<dyn Duplex>,
    /// What the upstream server sent after its head.
    pub first: Bytes,
    /// What the upstream server gets before the client's bytes.
    pub before: Bytes,
    /// How long both sides may be silent.
    pub idle: Duration,
    /// How long one side may be silent after the other has ended; without it, the tunnel ends then.
    pub half_close: Option<Duration>,
    /// How many bytes a second go to the upstream server, and to the client; 0 is any number.
    pub rates: (u64, u64),
}

/// A part of the content.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file.
    File {
        /// The open file.
        file: Arc<File>,
        /// Where the range starts.
        offset: u64,
        /// How many bytes it has.
        length: u64,
    },
}

/// Content that is pulled piece by piece.
pub trait Source {
    /// The next piece, the end, or what has to be waited for.
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull;

    /// Hands over the outcome of the work that [`Source::pull`] asked for.
    fn resume(&mut self, outcome: Outcome);

    /// Ends the source when its content has ended; memory may be left for further requests.
    fn finish(self: Box<Self>, exchange: &Exchange) {
        let _ = exchange;
    }

    /// Leaves out all but a range of the content, before anything was pulled. Tells whether it does.
    fn seek(&mut self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Gets more content while the client takes no more, where that is wanted. The task is woken for more.
    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        let _ = turn;
    }
}

/// An answer of a [`Source`].
pub enum Pull {
    /// A piece of content.
    Piece(Piece),
    /// Work without which there is no more content.
    Await(Work),
    /// There is no more content yet; the task of the turn is woken when there is.
    Pending {
        /// Whether the content is waited for although the client has left.
        lasts: bool,
    },
    /// The end of the content.
    End,
    /// The content cannot be completed; the connection is cut so that the client notices.
    Failed,
}

impl Body {
    /// A body of these bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Body {
        Body::Piece(Piece::Bytes(bytes.into()))
    }

    /// The length in bytes, where it is known.
    pub fn length(&self) -> Option<u64> {
        self.pieces().map(|pieces| pieces.iter().map(Piece::length).sum())
    }

    /// The content, if it is there.
    pub fn pieces(&self) -> Option<&[Piece]> {
        match self {
            Body::Empty => Some(&[]),
            Body::Piece(piece) => Some(std::slice::from_ref(piece)),
            Body::Pieces(pieces) => Some(pieces),
            Body::Source(_) | Body::Tunnel(_) => None,
        }
    }
}

impl Piece {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { length, .. } => *length,
        }
    }

    /// The part of this piece from `start`, `length` bytes long; both are cut to what there is.
    #[must_use]
    pub fn slice(&self, start: u64, length: u64) -> Piece {
        let start = start.min(self.length());
        let length = length.min(self.length() - start);
        match self {
            Piece::Bytes(bytes) => {
                let from = usize::try_from(start).unwrap_or(bytes.len());
                let to = from + usize::try_from(length).unwrap_or(0);
                Piece::Bytes(bytes.slice(from..to))
            }
            Piece::File { file, offset, .. } => {
                Piece::File { file: Arc::clone(file), offset: offset + start, length }
            }
        }
    }
}

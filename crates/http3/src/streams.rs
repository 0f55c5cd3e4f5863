//! The streams of a connection (RFC 9114, section 6).

use crate::frame::FrameReader;
use crate::qpack::FeedbackReader;
use crate::varint;

/// A table without streams keeps room for so many.
const KEPT: usize = 4;

/// A stream with a request and its response, until its user has released it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) frames: FrameReader,
    /// What has come of a section that is not whole, or is blocked.
    pub(crate) held: Vec<u8>,
    pub(crate) stage: Stage,
    /// How many entries of the dynamic table the section needs that is held as a whole; 0 once its user knows that they
    /// have come.
    pub(crate) blocked_on: Option<u64>,
    /// What is missing of the content that was announced, in bytes.
    pub(crate) expected: Option<u64>,
    /// Whether it carries bytes of a tunnel after its heads (RFC 9114, section 4.4).
    pub(crate) is_tunnel: bool,
    /// Whether the peer sends more.
    pub(crate) is_remote_open: bool,
    /// Whether we send more.
    pub(crate) is_local_open: bool,
    /// Whether it was cancelled, by the peer or by us.
    pub(crate) is_reset: bool,
}

/// What a stream of requests awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The head of the peer, interim ones aside.
    Head,
    /// Content, and trailers.
    Content,
    /// Only the end: the trailers have come.
    End,
    /// Whatever comes is discarded.
    Discarding,
}

impl Stream {
    pub(crate) fn new(id: u64) -> Stream {
        Stream {
            id,
            frames: FrameReader::default(),
            held: Vec::new(),
            stage: Stage::Head,
            blocked_on: None,
            expected: None,
            is_tunnel: false,
            is_remote_open: true,
            is_local_open: true,
            is_reset: false,
        }
    }

    /// Counts content; `false` where it is not as long as was announced.
    pub(crate) fn takes(&mut self, length: u64, ends: bool) -> bool {
        let Some(expected) = &mut self.expected else { return true };
        match expected.checked_sub(length) {
            Some(rest) => {
                *expected = rest;
                !ends || rest == 0
            }
            None => false,
        }
    }

    /// Discards what comes from now on, and what is held.
    pub(crate) fn discard(&mut self) {
        (self.stage, self.held, self.blocked_on) = (Stage::Discarding, Vec::new(), None);
    }
}

/// All streams with requests, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Vec<Stream>,
    /// One more than the highest number so far.
    pub(crate) next: u64,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// Opens a stream, unless it is open.
    pub(crate) fn open(&mut self, id: u64) {
        if let Err(place) = self.place(id) {
            self.open.insert(place, Stream::new(id));
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Stream> {
        self.place(id).ok().and_then(|place| self.open.get(place))
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.place(id).ok().and_then(|place| self.open.get_mut(place))
    }

    fn place(&self, id: u64) -> Result<usize, usize> {
        self.open.binary_search_by_key(&id, |stream| stream.id)
    }

    /// Removes a stream.
    pub(crate) fn close(&mut self, id: u64) -> Option<Stream> {
        let stream = self.open.remove(self.place(id).ok()?);
        if self.open.is_empty() && self.open.capacity() > KEPT {
            // An idle connection has little memory for streams.
            self.open = Vec::new();
        }
        Some(stream)
    }

    /// How much is held of sections, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.open.iter().map(|stream| stream.held.len()).sum()
    }

    /// How many sections wait for entries of the dynamic table.
    pub(crate) fn blocked(&self) -> usize {
        self.open.iter().filter(|stream| stream.blocked_on > Some(0)).count()
    }

    pub(crate) fn memory(&self) -> usize {
        let held: usize = self.open.iter().map(|stream| stream.held.capacity()).sum();
        self.open.capacity() * size_of::<Stream>() + held
    }
}

/// A stream on which only the peer sends.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: u64,
    pub(crate) purpose: Purpose,
}

/// What such a stream is for, which its first bytes tell (RFC 9114, section 6.2; RFC 9204, section 4.2).
#[derive(Debug)]
pub(crate) enum Purpose {
    /// So many of these bytes have come.
    Unknown([u8; varint::LENGTH_MAX], usize),
    Control(Box<ControlReader>),
    Encoder,
    Decoder(FeedbackReader),
}

/// Reads the peer's control stream.
#[derive(Debug, Default)]
pub(crate) struct ControlReader {
    pub(crate) frames: FrameReader,
    /// The payload of a frame that is not whole.
    pub(crate) held: Vec<u8>,
}

//! The streams of a connection (RFC 9113, section 5).

use crate::frame::MAX;

/// How many streams are remembered that ended last.
const CLOSED: usize = 32;

/// A table without streams keeps room for so many.
const KEPT: usize = 4;

/// A stream, until its user has released it and the peer has ended it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// How much we may send, in bytes; below zero where the peer made its windows smaller.
    pub(crate) send_window: i64,
    /// How much the peer may send, in bytes.
    pub(crate) receive_window: u32,
    /// What is missing of the content that was announced, in bytes.
    pub(crate) expected: Option<u64>,
    /// Whether the head of the peer has come, interim ones aside.
    pub(crate) has_head: bool,
    /// Whether the peer sends more.
    pub(crate) is_remote_open: bool,
    /// Whether we send more.
    pub(crate) is_local_open: bool,
    /// Whether it was cancelled, by the peer or by us.
    pub(crate) is_reset: bool,
    /// Whether the response ends only after the rest of the request has come.
    pub(crate) defers_end: bool,
    /// Whether its user has released it. Then only the peer's side is left, and what comes is discarded.
    pub(crate) is_released: bool,
}

/// All streams of a connection, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Vec<Stream>,
    /// Those that ended last, with whether the peer had ended its side.
    closed: [(u32, bool); CLOSED],
    oldest: usize,
    /// The highest number so far.
    pub(crate) last: u32,
}

/// What is known of a number without a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// No stream has had it.
    Idle,
    /// The peer had ended or cancelled the stream.
    Ended,
    /// We have cancelled the stream. The peer may not know yet.
    Cancelled,
    /// The stream ended some time ago, or was skipped.
    Forgotten,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Opens a stream with a higher number than all before.
    pub(crate) fn open(&mut self, stream: Stream) {
        self.last = stream.id;
        self.open.push(stream);
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).and_then(|place| self.open.get(place))
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).and_then(|place| self.open.get_mut(place))
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// The oldest stream that only the peer has not ended.
    pub(crate) fn oldest_released(&self) -> Option<u32> {
        self.open.iter().find(|stream| stream.is_released).map(|stream| stream.id)
    }

    /// Takes note that the peer has cancelled a stream which we had cancelled.
    pub(crate) fn note_ended(&mut self, id: u32) {
        let known = self.closed.iter_mut().find(|(closed, _)| *closed == id);
        known.into_iter().for_each(|(_, is_ended)| *is_ended = true);
    }

    /// Removes a stream, and remembers it for a while.
    pub(crate) fn close(&mut self, id: u32) -> Option<Stream> {
        let stream = self.open.remove(self.place(id)?);
        self.note_closed(id, !stream.is_remote_open);
        if self.open.is_empty() && self.open.capacity() > KEPT {
            // An idle connection has little memory for streams.
            self.open = Vec::new();
        }
        Some(stream)
    }

    /// Remembers a stream that ended, or was never opened.
    pub(crate) fn note_closed(&mut self, id: u32, is_ended: bool) {
        self.last = self.last.max(id);
        self.closed[self.oldest] = (id, is_ended);
        self.oldest = (self.oldest + 1) % CLOSED;
    }

    /// What is known of a number without a stream.
    pub(crate) fn absent(&self, id: u32) -> Absent {
        if id > self.last || id.is_multiple_of(2) {
            return Absent::Idle;
        }
        match self.closed.iter().find(|(closed, _)| *closed == id) {
            Some((_, true)) => Absent::Ended,
            Some((_, false)) => Absent::Cancelled,
            None => Absent::Forgotten,
        }
    }

    /// Changes the windows of all streams; `false` if one overflows.
    pub(crate) fn widen(&mut self, difference: i64) -> bool {
        for stream in &mut self.open {
            stream.send_window += difference;
        }
        self.open.iter().all(|stream| stream.send_window <= i64::from(MAX))
    }

    /// Takes all streams for cancelled.
    pub(crate) fn cancel(&mut self) {
        self.open.iter_mut().for_each(|stream| stream.is_reset = true);
    }

    pub(crate) fn memory(&self) -> usize {
        self.open.capacity() * size_of::<Stream>()
    }
}

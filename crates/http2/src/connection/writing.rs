//! Writing frames.

use super::{Connection, Role};
use crate::budget::{EARNED_BY_ANSWER, REFUSED_STREAM};
use crate::frame::{FRAME_SIZE, FrameHead, HEAD_LENGTH, MAX, flag, kind, write_reset, write_window_update};
use crate::response::BlockWriter;
use crate::{Code, Failure};

/// Content to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The next bytes.
    pub bytes: &'a [u8],
    /// Whether that is all.
    pub ends: bool,
    /// How much one frame may have, in bytes.
    pub frame: usize,
}

impl Connection {
    /// Announces how long the content of a request is, as its head says.
    pub fn expect(&mut self, id: u32, length: u64) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.expected = Some(length);
        }
    }

    /// Lets the client send more on a stream of which so many bytes are held: up to `window` in all.
    pub fn widen(&mut self, id: u32, held: usize, window: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if !stream.is_remote_open || stream.is_reset {
            return;
        }
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let room = window.min(MAX).saturating_sub(held.saturating_add(stream.receive_window));
        // A few large updates rather than many small ones.
        if room > 0 && (room >= window / 2 || stream.receive_window == 0) {
            stream.receive_window += room;
            write_window_update(id, room, out);
        }
    }

    /// How many bytes of content may be sent on a stream now.
    pub fn room(&self, id: u32) -> usize {
        let own = self.streams.get(id).filter(|stream| stream.is_local_open && !stream.is_reset);
        let window = own.map_or(0, |stream| stream.send_window.min(self.send_window));
        usize::try_from(window).unwrap_or(0)
    }

    /// Whether a stream was cancelled, by either side, or does not exist.
    pub fn is_reset(&self, id: u32) -> bool {
        self.streams.get(id).is_none_or(|stream| stream.is_reset)
    }

    /// Lets the response end only after the request, if the rest of a short body is on its way: curl 7.88 never sees the end
    /// of a response that is complete before the request is. To be called before the last frame of the response.
    pub fn defer_end(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.is_remote_open) {
            stream.defers_end = stream.expected.is_some_and(|rest| rest <= u64::from(stream.receive_window));
        }
    }

    /// Appends a head or trailers, whose block `write` writes.
    pub fn head(&mut self, id: u32, ends: bool, write: impl FnOnce(&mut BlockWriter<'_>), out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.is_reset || !stream.is_local_open {
            return;
        }
        stream.is_local_open = !ends;
        let start = out.len();
        FrameHead { length: 0, kind: kind::HEADERS, flags: 0, stream: id }.write(out);
        self.encoder.begin(out);
        write(&mut BlockWriter { encoder: &mut self.encoder, out: &mut *out });
        let length = out.len() - start - HEAD_LENGTH;
        let flags = if ends && !stream.defers_end { flag::END_STREAM } else { 0 };
        let block = if length > FRAME_SIZE { out.split_off(start + HEAD_LENGTH) } else { Vec::new() };
        let first = if block.is_empty() { flag::END_HEADERS } else { 0 };
        let (length, flags) = (length.min(FRAME_SIZE), flags | first);
        let head = FrameHead { length, kind: kind::HEADERS, flags, stream: id };
        out[start..start + HEAD_LENGTH].copy_from_slice(&head.bytes());
        let mut parts = block.chunks(FRAME_SIZE).peekable();
        out.extend_from_slice(parts.next().unwrap_or_default());
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_some() { 0 } else { flag::END_HEADERS };
            FrameHead { length: part.len(), kind: kind::CONTINUATION, flags, stream: id }.write(out);
            out.extend_from_slice(part);
        }
        if ends {
            self.budget.earn(EARNED_BY_ANSWER);
        }
    }

    /// Appends content, no more than [`Connection::room`]. Returns how many bytes that was.
    pub fn data(&mut self, id: u32, content: Content<'_>, out: &mut Vec<u8>) -> usize {
        let Content { bytes, ends, frame } = content;
        let count = bytes.len().min(self.room(id));
        let ends = ends && count == bytes.len();
        let Some(stream) = self.streams.get_mut(id) else { return 0 };
        if stream.is_reset || !stream.is_local_open || (count == 0 && !ends) {
            return 0;
        }
        let sent = i64::try_from(count).unwrap_or(0);
        stream.send_window -= sent;
        stream.is_local_open = !ends;
        self.send_window -= sent;
        let flags_at_end = if ends && !stream.defers_end { flag::END_STREAM } else { 0 };
        // Without content only the end of the stream needs a frame.
        let only_end = (count == 0 && flags_at_end != 0).then_some(&[][..]);
        let parts = bytes[..count].chunks(frame.clamp(1, self.peer.frame_size));
        let mut parts = parts.chain(only_end).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { flags_at_end } else { 0 };
            FrameHead { length: part.len(), kind: kind::DATA, flags, stream: id }.write(out);
            out.extend_from_slice(part);
            self.budget.earn_by_sending(part.len());
        }
        if ends {
            self.budget.earn(EARNED_BY_ANSWER);
        }
        count
    }

    /// Refuses a request that was not acted on. The client may repeat it, as soon as it likes
    /// (RFC 9113, section 8.7).
    ///
    /// # Errors
    /// The client opens too many streams that are refused, so that the connection must end.
    pub fn refuse(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.release(id, Code::REFUSED_STREAM, out);
        self.budget.spend(REFUSED_STREAM)
    }

    /// Gives up a stream: it is over on our side. A client cancels it unless both sides have ended it. A server cancels it
    /// with this code unless it has ended its side. Where only the client has not ended it, what comes of it is discarded,
    /// and the client learns that the rest is not wanted.
    pub fn release(&mut self, id: u32, code: Code, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let is_malformed = code == Code::PROTOCOL_ERROR;
        let is_server = self.role == Role::Server;
        if is_server && stream.is_remote_open && !stream.is_local_open && !stream.is_reset && !is_malformed {
            stream.is_released = true;
            return;
        }
        if !stream.is_reset && !stream.is_local_open {
            stream.end_deferred(out);
        }
        let is_open = stream.is_local_open || (stream.is_remote_open && !is_server);
        if !stream.is_reset && (is_open || is_malformed) {
            write_reset(id, code, out);
        }
        self.streams.close(id);
    }
}

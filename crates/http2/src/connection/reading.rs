//! Reading frames.

use super::{Connection, Event, OpenBlock, Role, Stage, WINDOW_LOW};
use crate::budget::{
    CANCELLED_STREAM, CHEAP_FRAME, CONTINUATION_FRAME, EARNED_BY_CONTENT, REFUSED_STREAM, SETTINGS_FRAME,
};
use crate::frame::{
    FRAME_SIZE, FrameHead, HEAD_LENGTH, MAX, flag, kind, number, write_frame, write_reset,
    write_window_update,
};
use crate::settings::{WINDOW, write_ack};
use crate::streams::{Absent, Stream};
use crate::{Code, Failure, HeaderList, Priority};
use http::multiplexed::are_trailers_valid;

/// How much longer than the list of fields a block may be that is encoded, in bytes.
const BLOCK_SLACK: usize = 4 * 1024;

const TOO_LARGE: Failure = Failure::new(Code::ENHANCE_YOUR_CALM, "client sent too large header");

/// A frame with its payload.
#[derive(Clone, Copy)]
struct Frame<'a> {
    head: FrameHead,
    payload: &'a [u8],
}

/// A whole block of fields.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) stream: u32,
    pub(super) ends: bool,
    pub(super) bytes: &'a [u8],
}

/// What a frame comes to.
type Outcome = Result<Option<Event>, Failure>;

impl Connection {
    /// Reads one frame, if all of it is there. Returns its length and what it means.
    pub(super) fn read_frame(
        &mut self,
        input: &[u8],
        list: &mut HeaderList,
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, Option<Event>)>, Failure> {
        let Some(head) = FrameHead::read(input) else { return Ok(None) };
        if head.length > FRAME_SIZE {
            return Err(Failure::size("client sent frame with too large payload"));
        }
        self.check_order(head)?;
        let has_settings = head.kind == kind::SETTINGS && !head.has(flag::ACK);
        if self.stage == Stage::Settings && !has_settings {
            return Err(Failure::protocol("client sent no SETTINGS frame first"));
        }
        if head.kind == kind::PUSH_PROMISE {
            return Err(Failure::protocol("client sent PUSH_PROMISE frame"));
        }
        let length = HEAD_LENGTH + head.length;
        let Some(payload) = input.get(HEAD_LENGTH..length) else { return Ok(None) };
        let frame = Frame { head, payload };
        let event = match head.kind {
            kind::DATA => self.read_data(frame, out)?,
            kind::HEADERS => self.read_headers(frame, list, out)?,
            kind::PRIORITY => self.read_priority(frame, out)?,
            kind::RST_STREAM => self.read_reset(frame)?,
            kind::SETTINGS => self.read_settings(frame, out)?,
            kind::PING => self.read_ping(frame, out)?,
            kind::GOAWAY => read_goaway(frame)?,
            kind::WINDOW_UPDATE => self.read_window_update(frame, out)?,
            kind::CONTINUATION => self.read_continuation(frame, list, out)?,
            kind::PRIORITY_UPDATE => self.read_priority_update(frame)?,
            _ => {
                self.budget.spend(CHEAP_FRAME)?;
                None
            }
        };
        Ok(Some((length, event)))
    }

    /// Nothing comes between the frames of a block.
    fn check_order(&self, head: FrameHead) -> Result<(), Failure> {
        match (&self.block, head.kind) {
            (Some(block), kind::CONTINUATION) if block.stream != head.stream => {
                Err(Failure::protocol("client sent CONTINUATION frame with incorrect identifier"))
            }
            (Some(_), kind::CONTINUATION) | (None, _) => Ok(()),
            (Some(_), _) => {
                Err(Failure::protocol("client sent inappropriate frame while CONTINUATION was expected"))
            }
        }
    }

    fn read_data(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, .. } = frame;
        if head.stream == 0 {
            return Err(Failure::protocol("client sent DATA frame with incorrect identifier"));
        }
        let (skipped, content) = frame.unpadded("client sent padded DATA frame with incorrect length")?;
        let ends = head.has(flag::END_STREAM);
        let is_padded = head.has(flag::PADDED);
        if !ends {
            self.budget.spend_for_data(content.len(), is_padded)?;
        }
        let length = u32::try_from(head.length).unwrap_or(u32::MAX);
        self.receive_window = self
            .receive_window
            .checked_sub(length)
            .ok_or(Failure::new(Code::FLOW_CONTROL_ERROR, "client violated connection flow control"))?;
        if self.receive_window < WINDOW_LOW {
            write_window_update(0, MAX - self.receive_window, out);
            self.receive_window = MAX;
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            return self.data_without_stream(head.stream, out);
        };
        if !stream.is_remote_open {
            return self.stream_error(head.stream, Code::STREAM_CLOSED, out);
        }
        if !stream.has_head {
            return self.stream_error(head.stream, Code::PROTOCOL_ERROR, out);
        }
        if stream.is_reset {
            // The client does not know yet.
            stream.is_remote_open = !ends;
            return Ok(None);
        }
        let Some(window) = stream.receive_window.checked_sub(length) else {
            return self.stream_error(head.stream, Code::FLOW_CONTROL_ERROR, out);
        };
        // Padding is not held.
        let padding = length - u32::try_from(content.len()).unwrap_or(length);
        stream.receive_window = window + padding;
        if padding > 0 && !ends {
            write_window_update(head.stream, padding, out);
        }
        let is_wrong = !stream.takes(content.len() as u64, ends);
        stream.is_remote_open = !ends;
        let is_released = stream.is_released;
        if ends && !is_wrong {
            stream.end_deferred(out);
        }
        if is_released {
            let code = if is_wrong { Code::PROTOCOL_ERROR } else { Code::NO_ERROR };
            if is_wrong || ends {
                self.discard(head.stream, code, out);
            }
            return Ok(None);
        }
        self.budget.earn_by_receiving(content.len(), is_padded);
        if self.role == Role::Client && !content.is_empty() {
            self.budget.earn(EARNED_BY_CONTENT);
        }
        let start = HEAD_LENGTH + skipped;
        let bytes = start..start + content.len();
        Ok(Some(Event::Data { stream: head.stream, bytes, ends, is_wrong }))
    }

    fn data_without_stream(&mut self, id: u32, out: &mut Vec<u8>) -> Outcome {
        match self.streams.absent(id) {
            Absent::Idle => Err(Failure::protocol("client sent DATA frame for idle stream")),
            Absent::Cancelled => {
                self.budget.spend(CHEAP_FRAME)?;
                Ok(None)
            }
            _ if id > self.last_served => Ok(None),
            Absent::Forgotten if self.role == Role::Client => {
                self.budget.spend(CHEAP_FRAME)?;
                Ok(None)
            }
            Absent::Ended | Absent::Forgotten => {
                self.budget.spend(CANCELLED_STREAM)?;
                write_reset(id, Code::STREAM_CLOSED, out);
                Ok(None)
            }
        }
    }

    fn read_headers(&mut self, frame: Frame<'_>, list: &mut HeaderList, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, .. } = frame;
        if head.stream.is_multiple_of(2) {
            return Err(Failure::protocol("client sent HEADERS frame with incorrect identifier"));
        }
        let (_, mut block) = frame.unpadded("client sent padded HEADERS frame with incorrect length")?;
        if head.has(flag::PRIORITY) {
            let (priority, rest) = block
                .split_at_checked(5)
                .ok_or(Failure::size("client sent HEADERS frame with incorrect length"))?;
            if number(priority).is_some_and(|parent| parent & MAX == head.stream) {
                return Err(Failure::protocol("client sent HEADERS frame with incorrect dependency"));
            }
            block = rest;
        }
        let (stream, ends) = (head.stream, head.has(flag::END_STREAM));
        if head.has(flag::END_HEADERS) {
            return self.read_block(Block { stream, ends, bytes: block }, list, out);
        }
        self.check_block(block.len())?;
        self.block = Some(Box::new(OpenBlock { stream, ends, bytes: block.to_vec() }));
        Ok(None)
    }

    fn read_continuation(&mut self, frame: Frame<'_>, list: &mut HeaderList, out: &mut Vec<u8>) -> Outcome {
        let Some(mut block) = self.block.take() else {
            return Err(Failure::protocol("client sent unexpected CONTINUATION frame"));
        };
        self.budget.spend(CONTINUATION_FRAME)?;
        self.check_block(block.bytes.len() + frame.payload.len())?;
        block.bytes.extend_from_slice(frame.payload);
        if frame.head.has(flag::END_HEADERS) {
            let OpenBlock { stream, ends, bytes } = &*block;
            return self.read_block(Block { stream: *stream, ends: *ends, bytes }, list, out);
        }
        self.block = Some(block);
        Ok(None)
    }

    fn check_block(&self, length: usize) -> Result<(), Failure> {
        if length <= self.limits.list_size + BLOCK_SLACK { Ok(()) } else { Err(TOO_LARGE) }
    }

    /// Reads a whole block.
    fn read_block(&mut self, block: Block<'_>, list: &mut HeaderList, out: &mut Vec<u8>) -> Outcome {
        let Block { stream: id, ends, bytes } = block;
        list.clear(self.limits.list_size, self.limits.field_size);
        let read = self
            .decoder
            .decode(bytes, list)
            .map_err(|_| Failure::new(Code::COMPRESSION_ERROR, "client sent invalid encoded header field"));
        let is_lost = list.is_too_large() && (self.role == Role::Server || !self.decoder.tolerates(list));
        let read = read.and(if is_lost { Err(TOO_LARGE) } else { Ok(()) });
        if read.is_err() {
            // The client learns that the stream is the last one.
            self.streams.last = self.streams.last.max(id);
        }
        read?;
        if let Some(stream) = self.streams.get(id) {
            if !stream.is_remote_open {
                return self.stream_error(id, Code::STREAM_CLOSED, out);
            }
            if !stream.has_head {
                return self.read_response(block, list, out);
            }
            return self.read_trailers(id, ends, list, out);
        }
        match self.streams.absent(id) {
            Absent::Idle if self.role == Role::Client => {
                Err(Failure::protocol("client sent HEADERS frame with incorrect identifier"))
            }
            Absent::Idle if id > self.last_served => {
                self.budget.spend(REFUSED_STREAM)?;
                self.streams.note_closed(id, false);
                Ok(None)
            }
            Absent::Idle => self.open(block, out),
            // We have cancelled the stream, maybe long ago: the response is on its way.
            Absent::Cancelled | Absent::Forgotten if self.role == Role::Client => {
                self.budget.spend(CHEAP_FRAME)?;
                Ok(None)
            }
            Absent::Cancelled => {
                self.budget.spend(CANCELLED_STREAM)?;
                Ok(None)
            }
            Absent::Ended => {
                Err(Failure::new(Code::STREAM_CLOSED, "client sent HEADERS frame for closed stream"))
            }
            Absent::Forgotten => {
                Err(Failure::protocol("client sent HEADERS frame with incorrect identifier"))
            }
        }
    }

    fn open(&mut self, block: Block<'_>, out: &mut Vec<u8>) -> Outcome {
        let Block { stream: id, ends, bytes } = block;
        if self.streams.len() >= self.limits.streams as usize
            && let Some(oldest) = self.streams.oldest_released()
        {
            self.discard(oldest, Code::NO_ERROR, out);
        }
        // Until then the client may send more content than our settings allow.
        let may_overflow = !ends && !self.is_acknowledged && self.limits.window < WINDOW;
        if may_overflow || self.streams.len() >= self.limits.streams as usize {
            self.budget.spend(REFUSED_STREAM)?;
            self.streams.note_closed(id, ends);
            write_reset(id, Code::REFUSED_STREAM, out);
            return Ok(None);
        }
        self.streams.open(Stream {
            id,
            send_window: i64::from(self.peer.window),
            receive_window: self.limits.window,
            expected: None,
            has_head: true,
            is_remote_open: !ends,
            is_local_open: true,
            is_reset: false,
            defers_end: false,
            is_released: false,
        });
        Ok(Some(Event::Request { stream: id, ends, length: bytes.len() }))
    }

    fn read_trailers(&mut self, id: u32, ends: bool, list: &HeaderList, out: &mut Vec<u8>) -> Outcome {
        let is_valid = match self.role {
            Role::Server => are_trailers_valid(list),
            // Who reads a response checks its other fields, and logs what is wrong with them.
            Role::Client => list.iter().all(|(name, _)| !name.starts_with(b":")),
        };
        if !ends || !is_valid {
            return self.stream_error(id, Code::PROTOCOL_ERROR, out);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        stream.is_remote_open = false;
        if stream.is_reset {
            return Ok(None);
        }
        let is_wrong = !stream.takes(0, true);
        let is_released = stream.is_released;
        if !is_wrong {
            stream.end_deferred(out);
        }
        if is_released {
            let code = if is_wrong { Code::PROTOCOL_ERROR } else { Code::NO_ERROR };
            self.discard(id, code, out);
            return Ok(None);
        }
        Ok(Some(Event::Trailers { stream: id, is_wrong }))
    }

    /// Priorities of the former kind are read and ignored.
    fn read_priority(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, payload } = frame;
        self.budget.spend(CHEAP_FRAME)?;
        if head.stream == 0 {
            return Err(Failure::protocol("client sent PRIORITY frame with incorrect identifier"));
        }
        if payload.len() != 5 {
            return match self.streams.get(head.stream) {
                Some(_) => self.stream_error(head.stream, Code::FRAME_SIZE_ERROR, out),
                None => Err(Failure::size("client sent PRIORITY frame with incorrect length")),
            };
        }
        if number(payload).is_some_and(|parent| parent & MAX == head.stream) {
            return match self.streams.get(head.stream) {
                Some(_) => self.stream_error(head.stream, Code::PROTOCOL_ERROR, out),
                None => Err(Failure::protocol("client sent PRIORITY frame with incorrect dependency")),
            };
        }
        Ok(None)
    }

    /// A priority that may come ahead of its stream (RFC 9218, section 7.1).
    fn read_priority_update(&mut self, frame: Frame<'_>) -> Outcome {
        self.budget.spend(CHEAP_FRAME)?;
        if frame.head.stream != 0 {
            return Err(Failure::protocol("client sent PRIORITY_UPDATE frame with incorrect identifier"));
        }
        let Some((number, value)) = frame.payload.split_first_chunk() else {
            return Err(Failure::size("client sent PRIORITY_UPDATE frame with incorrect length"));
        };
        let stream = u32::from_be_bytes(*number) & MAX;
        if stream.is_multiple_of(2) {
            // Nothing is pushed, so that no such stream exists.
            return Err(Failure::protocol("client sent PRIORITY_UPDATE frame for incorrect stream"));
        }
        let priority = Priority::read([value].into_iter());
        if self.streams.get(stream).is_some() {
            return Ok(Some(Event::Priority { stream, priority }));
        }
        if self.is_idle(stream) {
            self.priorities.add(stream, priority, self.streams.last);
        }
        Ok(None)
    }

    fn read_reset(&mut self, frame: Frame<'_>) -> Outcome {
        let Frame { head, payload } = frame;
        let code = match (number(payload), payload.len()) {
            (Some(code), 4) => Code(code),
            _ => return Err(Failure::size("client sent RST_STREAM frame with incorrect length")),
        };
        if head.stream == 0 || (self.streams.get(head.stream).is_none() && self.is_idle(head.stream)) {
            return Err(Failure::protocol("client sent RST_STREAM frame with incorrect identifier"));
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            self.budget.spend(CHEAP_FRAME)?;
            self.streams.note_ended(head.stream);
            return Ok(None);
        };
        stream.is_remote_open = false;
        if stream.is_released {
            self.streams.close(head.stream);
            return Ok(None);
        }
        if std::mem::replace(&mut stream.is_reset, true) {
            return Ok(None);
        }
        // The stream keeps its place until its user has released it.
        self.budget.spend(CANCELLED_STREAM)?;
        Ok(Some(Event::Reset { stream: head.stream, code }))
    }

    fn read_settings(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, payload } = frame;
        self.budget.spend(SETTINGS_FRAME)?;
        if head.stream != 0 {
            return Err(Failure::protocol("client sent SETTINGS frame with incorrect identifier"));
        }
        if head.has(flag::ACK) {
            self.is_acknowledged = true;
            return match payload {
                [] => Ok(None),
                _ => Err(Failure::size("client sent SETTINGS frame with the ACK flag and nonzero length")),
            };
        }
        let before = self.peer.window;
        self.stage = Stage::Open;
        self.peer.read(payload)?;
        self.encoder.allow(self.peer.table_size as usize);
        write_ack(out);
        if self.peer.window == before {
            return Ok(None);
        }
        match self.streams.widen(i64::from(self.peer.window) - i64::from(before)) {
            true => Ok(Some(Event::Window { stream: 0 })),
            false => Err(Failure::new(
                Code::FLOW_CONTROL_ERROR,
                "client sent SETTINGS frame with incorrect INITIAL_WINDOW_SIZE value",
            )),
        }
    }

    fn read_ping(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, payload } = frame;
        self.budget.spend(CHEAP_FRAME)?;
        if payload.len() != 8 {
            return Err(Failure::size("client sent PING frame with incorrect length"));
        }
        if head.stream != 0 {
            return Err(Failure::protocol("client sent PING frame with incorrect identifier"));
        }
        if !head.has(flag::ACK) {
            write_frame(kind::PING, flag::ACK, 0, payload, out);
        }
        Ok(None)
    }

    fn read_window_update(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Outcome {
        let Frame { head, payload } = frame;
        let increment = match (number(payload), payload.len()) {
            (Some(increment), 4) => i64::from(increment & MAX),
            _ => return Err(Failure::size("client sent WINDOW_UPDATE frame with incorrect length")),
        };
        self.budget.spend_for_update()?;
        if head.stream == 0 {
            if increment == 0 {
                return Err(Failure::protocol("client sent WINDOW_UPDATE frame with incorrect increment 0"));
            }
            self.send_window += increment;
            if self.send_window > i64::from(MAX) {
                let reason = "client violated connection flow control";
                return Err(Failure::new(Code::FLOW_CONTROL_ERROR, reason));
            }
            return Ok(Some(Event::Window { stream: 0 }));
        }
        if self.streams.get(head.stream).is_none() && self.is_idle(head.stream) {
            return Err(Failure::protocol("client sent WINDOW_UPDATE frame for idle stream"));
        }
        let Some(stream) = self.streams.get_mut(head.stream).filter(|stream| !stream.is_reset) else {
            if increment == 0 {
                self.budget.spend(CANCELLED_STREAM)?;
                write_reset(head.stream, Code::PROTOCOL_ERROR, out);
            }
            return Ok(None);
        };
        if increment == 0 {
            return self.stream_error(head.stream, Code::PROTOCOL_ERROR, out);
        }
        stream.send_window += increment;
        if stream.send_window > i64::from(MAX) {
            return self.stream_error(head.stream, Code::FLOW_CONTROL_ERROR, out);
        }
        Ok(Some(Event::Window { stream: head.stream }))
    }

    /// Ends a stream that its user has released. The client learns of it unless it has ended the stream in order.
    pub(super) fn discard(&mut self, id: u32, code: Code, out: &mut Vec<u8>) {
        let Some(mut stream) = self.streams.close(id) else { return };
        if code == Code::NO_ERROR {
            stream.end_deferred(out);
        }
        if stream.is_remote_open || code != Code::NO_ERROR {
            write_reset(id, code, out);
        }
    }

    fn is_idle(&self, id: u32) -> bool {
        self.streams.absent(id) == Absent::Idle
    }

    /// Cancels a stream whose peer broke the rules. It keeps its place until its user has released it.
    pub(super) fn stream_error(&mut self, id: u32, code: Code, out: &mut Vec<u8>) -> Outcome {
        self.budget.spend(CANCELLED_STREAM)?;
        write_reset(id, code, out);
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.is_released {
            self.streams.close(id);
            return Ok(None);
        }
        match std::mem::replace(&mut stream.is_reset, true) {
            true => Ok(None),
            false => Ok(Some(Event::Reset { stream: id, code })),
        }
    }
}

impl Stream {
    /// Ends a response whose end was deferred.
    pub(super) fn end_deferred(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.defers_end) {
            FrameHead { length: 0, kind: kind::DATA, flags: flag::END_STREAM, stream: self.id }.write(out);
        }
    }

    /// Counts content; `false` where it is not as long as was announced.
    fn takes(&mut self, length: u64, ends: bool) -> bool {
        let Some(expected) = &mut self.expected else { return true };
        match expected.checked_sub(length) {
            Some(rest) => {
                *expected = rest;
                !ends || rest == 0
            }
            None => false,
        }
    }
}

impl<'a> Frame<'a> {
    /// The payload without padding, and how many bytes are in front of it.
    fn unpadded(self, reason: &'static str) -> Result<(usize, &'a [u8]), Failure> {
        if !self.head.has(flag::PADDED) {
            return Ok((0, self.payload));
        }
        let (&padding, rest) = self.payload.split_first().ok_or(Failure::size(reason))?;
        let length = rest.len().checked_sub(usize::from(padding)).ok_or(Failure::protocol(reason))?;
        Ok((1, &rest[..length]))
    }
}

fn read_goaway(frame: Frame<'_>) -> Outcome {
    if frame.head.stream != 0 {
        return Err(Failure::protocol("client sent GOAWAY frame with incorrect identifier"));
    }
    match (number(frame.payload), number(frame.payload.get(4..).unwrap_or_default())) {
        (Some(last), Some(code)) => Ok(Some(Event::Goaway { last: last & MAX, code: Code(code) })),
        _ => Err(Failure::size("client sent GOAWAY frame with incorrect length")),
    }
}

//! The streams with requests and responses (RFC 9114, section 4.1).

use super::{BLOCKED_STREAMS, Connection, Event, Input, Read, Role};
use crate::budget::INTERIM_HEAD;
use crate::frame::{Part, is_of_http2, kind};
use crate::qpack::Section;
use crate::streams::Stage;
use crate::{Code, Failure, HeaderList};
use http::multiplexed::are_trailers_valid;

/// How much longer than the list of fields a section may be that is encoded, in bytes.
const SECTION_SLACK: usize = 4 * 1024;

/// How many sections of the largest size may be held that are not whole or are blocked, by all streams together.
const SECTIONS_HELD: usize = 4;

const TRUNCATED: Failure = Failure::frame("client ended stream within a frame");

/// What a frame comes to.
type Outcome = Result<Option<Event>, Failure>;

/// Where a part of the input stands.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    length: usize,
    /// Whether its frame ends with it.
    is_last: bool,
    /// Whether the stream ends with it.
    is_end: bool,
}

impl Connection {
    pub(super) fn read_messages(&mut self, input: Input<'_>, list: &mut HeaderList) -> Result<Read, Failure> {
        let Input { stream: id, bytes, ends } = input;
        let mut consumed = 0;
        loop {
            let is_end = ends && consumed == bytes.len();
            let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.stage != Stage::Discarding)
            else {
                self.note_end(id, ends);
                return Ok(Read { consumed: bytes.len(), event: None });
            };
            if stream.blocked_on.is_some() {
                let section = std::mem::take(&mut stream.held);
                let event = self.read_section(id, section, is_end, list)?;
                let is_blocked = self.streams.get(id).is_some_and(|stream| stream.blocked_on.is_some());
                if event.is_some() || is_blocked {
                    return Ok(Read { consumed, event });
                }
                continue;
            }
            if !stream.is_remote_open {
                return Ok(Read { consumed: bytes.len(), event: None });
            }
            let (length, part) = stream.frames.next(&bytes[consumed..]);
            let start = consumed;
            consumed += length;
            let is_end = ends && consumed == bytes.len();
            let event = match part {
                None if is_end => return Ok(Read { consumed, event: self.end_stream(id)? }),
                None => return Ok(Read { consumed, event: None }),
                Some(Part::Head { kind, length }) => self.begin_frame(id, kind, length)?,
                Some(Part::Payload { kind, is_last, .. }) => {
                    let place = Place { start, length, is_last, is_end };
                    match kind {
                        kind::DATA => self.read_content(id, place)?,
                        kind::HEADERS => self.hold_section(id, bytes, place, list)?,
                        _ => None,
                    }
                }
            };
            if event.is_some() {
                return Ok(Read { consumed, event });
            }
        }
    }

    /// Takes note of the end of a stream whose bytes are discarded.
    fn note_end(&mut self, id: u64, ends: bool) {
        if let Some(stream) = self.streams.get_mut(id).filter(|_| ends) {
            stream.is_remote_open = false;
        }
    }

    /// Checks whether a frame may come now.
    fn begin_frame(&mut self, id: u64, kind: u64, length: u64) -> Outcome {
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        let is_head = stream.stage == Stage::Head;
        match kind {
            kind::DATA if stream.stage == Stage::Content => match length {
                0 => self.budget.spend_for_empty_data().map(|()| None),
                _ => Ok(None),
            },
            kind::HEADERS if is_head || stream.stage == Stage::Content && !stream.is_tunnel => {
                if length > self.section_max() as u64 {
                    return self.refuse_section(id);
                }
                Ok(None)
            }
            kind::PUSH_PROMISE if self.role == Role::Client => {
                Err(Failure::id("client sent PUSH_PROMISE frame that was not allowed"))
            }
            kind::DATA
            | kind::HEADERS
            | kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PUSH_PRIORITY_UPDATE => Err(Failure::unexpected("client sent unexpected frame")),
            kind if is_of_http2(kind) => Err(Failure::unexpected("client sent frame of HTTP/2")),
            _ => self.budget.spend_for_unknown(length).map(|()| None),
        }
    }

    /// How long a section may be on the wire, in bytes.
    fn section_max(&self) -> usize {
        self.limits.list_size.saturating_add(SECTION_SLACK)
    }

    /// Discards a section that is too large, and what follows it.
    fn refuse_section(&mut self, id: u64) -> Outcome {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.stage != Stage::Head {
            return self.stream_error(id, Code::EXCESSIVE_LOAD);
        }
        stream.discard();
        Ok(Some(Event::TooLarge { stream: id }))
    }

    fn read_content(&mut self, id: u64, place: Place) -> Outcome {
        let Place { start, length, is_last, is_end } = place;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let ends = is_end && is_last;
        let is_wrong = !stream.takes(length as u64, ends);
        stream.is_remote_open = !ends;
        if is_wrong {
            stream.discard();
        }
        if length > 0 {
            self.budget.earn_by_receiving(length);
        }
        let bytes = start..start + length;
        Ok((length > 0 || ends).then_some(Event::Data { stream: id, bytes, ends, is_wrong }))
    }

    /// Reads a section when it is whole.
    fn hold_section(&mut self, id: u64, input: &[u8], place: Place, list: &mut HeaderList) -> Outcome {
        let Place { start, length, is_last, is_end } = place;
        let held = self.streams.held();
        let most = SECTIONS_HELD * self.section_max();
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let part = &input[start..start + length];
        if is_last {
            let mut section = std::mem::take(&mut stream.held);
            section.extend_from_slice(part);
            return self.read_section(id, section, is_end, list);
        }
        if held + length > most {
            // The client may repeat the request.
            return self.stream_error(id, Code::REQUEST_REJECTED);
        }
        stream.held.extend_from_slice(part);
        Ok(None)
    }

    /// Reads a whole section, unless it is blocked.
    fn read_section(&mut self, id: u64, section: Vec<u8>, is_end: bool, list: &mut HeaderList) -> Outcome {
        const MALFORMED: Failure =
            Failure::new(Code::QPACK_DECOMPRESSION_FAILED, "client sent invalid encoded header field");
        list.clear(self.limits.list_size, self.limits.field_size);
        let required = match self.decoder.decode(&section, list).map_err(|_| MALFORMED)? {
            Section::Read { required } => required,
            Section::Blocked(required) => return self.block(id, section, required),
        };
        if required > 0 {
            self.decoder.acknowledge(id, required)?;
        }
        self.budget.earn_by_section();
        if list.is_too_large() {
            return self.refuse_section(id);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        stream.blocked_on = None;
        let length = section.len();
        match (stream.stage, self.role) {
            (Stage::Head, Role::Server) => {
                stream.stage = Stage::Content;
                stream.is_tunnel = list.iter().any(|field| field == (b":method", b"CONNECT"));
                stream.is_remote_open = !is_end;
                Ok(Some(Event::Request { stream: id, ends: is_end, length }))
            }
            (Stage::Head, Role::Client) => self.read_response(id, (is_end, length), list),
            _ => self.read_trailers(id, is_end, list),
        }
    }

    /// Holds a section until the entries have come that it needs.
    fn block(&mut self, id: u64, section: Vec<u8>, required: u64) -> Outcome {
        let reason = "client blocked too many streams";
        let is_new = self.streams.get(id).is_some_and(|stream| stream.blocked_on.is_none());
        if is_new && self.streams.blocked() >= BLOCKED_STREAMS {
            return Err(Failure::new(Code::QPACK_DECOMPRESSION_FAILED, reason));
        }
        let has_room = self.streams.held() + section.len() <= SECTIONS_HELD * self.section_max();
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if !has_room {
            return self.stream_error(id, Code::REQUEST_REJECTED);
        }
        (stream.held, stream.blocked_on) = (section, Some(required));
        Ok(None)
    }

    /// The head of a response, or an interim one, which does not end the stream.
    fn read_response(&mut self, id: u64, (is_end, length): (bool, usize), list: &HeaderList) -> Outcome {
        let status = list.iter().next().filter(|(name, _)| name == b":status");
        let is_interim = status.is_some_and(|(_, value)| value.starts_with(b"1"));
        if is_interim {
            self.budget.spend(INTERIM_HEAD)?;
            if is_end {
                return self.stream_error(id, Code::MESSAGE_ERROR);
            }
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        stream.stage = if is_interim { Stage::Head } else { Stage::Content };
        stream.is_remote_open = !is_end;
        Ok(Some(Event::Response { stream: id, ends: is_end, length }))
    }

    fn read_trailers(&mut self, id: u64, is_end: bool, list: &HeaderList) -> Outcome {
        let is_valid = match self.role {
            Role::Server => are_trailers_valid(list),
            // The reader of a response checks its other fields, and logs what is wrong with them.
            Role::Client => list.iter().all(|(name, _)| !name.starts_with(b":")),
        };
        if !is_valid {
            return self.stream_error(id, Code::MESSAGE_ERROR);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        (stream.stage, stream.is_remote_open) = (Stage::End, !is_end);
        let is_wrong = !stream.takes(0, true);
        if is_wrong {
            stream.discard();
        }
        Ok(Some(Event::Trailers { stream: id, is_wrong }))
    }

    fn end_stream(&mut self, id: u64) -> Outcome {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if !stream.frames.is_between_frames() {
            return Err(TRUNCATED);
        }
        stream.is_remote_open = false;
        match (stream.stage, self.role) {
            (Stage::Head, Role::Server) => self.stream_error(id, Code::REQUEST_INCOMPLETE),
            (Stage::Head, Role::Client) => self.stream_error(id, Code::MESSAGE_ERROR),
            (Stage::Content, _) => {
                let is_wrong = !stream.takes(0, true);
                Ok(Some(Event::Data { stream: id, bytes: 0..0, ends: true, is_wrong }))
            }
            _ => Ok(None),
        }
    }
}

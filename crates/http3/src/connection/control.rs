//! The streams on which only the peer sends: its control stream, and those of QPACK.

use super::{Connection, Event, Input, Read, Role, STREAM_STEP, ordinal};
use crate::budget::{CHEAP_FRAME, UNKNOWN_STREAM};
use crate::frame::{Part, is_of_http2, kind};
use crate::qpack::FeedbackReader;
use crate::streams::{ControlReader, Incoming, Purpose};
use crate::{Code, Command, Failure, PeerSettings, Priority, varint};

/// The types of streams (RFC 9114, section 6.2; RFC 9204, section 4.2).
pub(super) const CONTROL: u8 = 0;
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
pub(super) const DECODER: u8 = 3;

/// How long the payload of a frame on the control stream may be, in bytes.
const CONTROL_FRAME_MAX: u64 = 4096;

/// A stream that has to stay open for as long as the connection was ended.
pub(super) const CLOSED: Failure =
    Failure::new(Code::CLOSED_CRITICAL_STREAM, "client closed a stream that the connection needs");

/// What a frame comes to.
type Outcome = Result<Option<Event>, Failure>;

impl Connection {
    /// Reads a stream on which only the peer sends.
    pub(super) fn read_incoming(&mut self, input: Input<'_>) -> Result<Read, Failure> {
        let Input { stream, bytes, ends } = input;
        let Some(place) = self.incoming.iter().position(|incoming| incoming.id == stream) else {
            return Ok(Read { consumed: bytes.len(), event: None });
        };
        // It is put back unless it has ended.
        let mut incoming = self.incoming.swap_remove(place);
        let mut consumed = 0;
        if let Purpose::Unknown(known, length) = &mut incoming.purpose {
            let added = bytes.len().min(known.len() - *length);
            known[*length..*length + added].copy_from_slice(&bytes[..added]);
            let head = &known[..*length + added];
            match varint::read(head) {
                Some((kind, rest)) => {
                    consumed = head.len() - rest.len() - *length;
                    let Some(purpose) = self.name(kind)? else {
                        let code = Code::STREAM_CREATION_ERROR;
                        self.commands.push_back(Command::Stop { stream, code });
                        return Ok(Read { consumed: bytes.len(), event: None });
                    };
                    incoming.purpose = purpose;
                }
                // A stream may end before it has told its type.
                None if ends => return Ok(Read { consumed: bytes.len(), event: None }),
                None => (consumed, *length) = (added, *length + added),
            }
        }
        let read = self.read_named(&mut incoming, &bytes[consumed..]);
        let is_named = !matches!(incoming.purpose, Purpose::Unknown(..));
        self.incoming.push(incoming);
        let Read { consumed: more, event } = read?;
        consumed += more;
        if ends && is_named && event.is_none() && consumed == bytes.len() {
            return Err(CLOSED);
        }
        Ok(Read { consumed, event })
    }

    fn read_named(&mut self, incoming: &mut Incoming, bytes: &[u8]) -> Result<Read, Failure> {
        let event = match &mut incoming.purpose {
            Purpose::Unknown(..) => None,
            Purpose::Control(reader) => return self.read_control(reader, bytes),
            Purpose::Encoder => {
                self.decoder.instruct(bytes, &mut self.budget)?;
                let unblocked = self.take_unblocked();
                if unblocked.is_none() {
                    self.decoder.tell_inserted()?;
                }
                unblocked
            }
            Purpose::Decoder(reader) => {
                reader.read(bytes, &mut self.budget)?;
                None
            }
        };
        Ok(Read { consumed: bytes.len(), event })
    }

    /// A stream whose section can be decoded now.
    fn take_unblocked(&mut self) -> Option<Event> {
        let decoder = &self.decoder;
        let is_ready = |required: u64| required > 0 && decoder.has(required);
        let stream = self.streams.iter_mut().find(|stream| stream.blocked_on.is_some_and(is_ready))?;
        stream.blocked_on = Some(0);
        Some(Event::Unblocked { stream: stream.id })
    }

    /// What a stream of this type is for; `None` if the type is unknown.
    fn name(&mut self, kind: u64) -> Result<Option<Purpose>, Failure> {
        let purpose = match kind {
            0 => Purpose::Control(Box::default()),
            ENCODER => Purpose::Encoder,
            3 => Purpose::Decoder(FeedbackReader::default()),
            PUSH if self.role == Role::Client => {
                return Err(Failure::id("client opened push stream that was not allowed"));
            }
            PUSH => return Err(Failure::new(Code::STREAM_CREATION_ERROR, "client opened push stream")),
            _ => {
                self.budget.spend(UNKNOWN_STREAM)?;
                return Ok(None);
            }
        };
        let bit = 1 << kind;
        if self.named & bit != 0 {
            let reason = "client opened a second control stream, or one of QPACK";
            return Err(Failure::new(Code::STREAM_CREATION_ERROR, reason));
        }
        self.named |= bit;
        Ok(Some(purpose))
    }

    /// Takes note that the peer sends no more on such a stream.
    pub(super) fn close_incoming(&mut self, id: u64) -> Result<(), Failure> {
        let Some(place) = self.incoming.iter().position(|incoming| incoming.id == id) else { return Ok(()) };
        match self.incoming.swap_remove(place).purpose {
            Purpose::Unknown(..) => self.budget.spend(UNKNOWN_STREAM),
            _ => Err(CLOSED),
        }
    }

    fn read_control(&mut self, reader: &mut ControlReader, bytes: &[u8]) -> Result<Read, Failure> {
        let mut consumed = 0;
        loop {
            let (length, part) = reader.frames.next(&bytes[consumed..]);
            let payload = &bytes[consumed..consumed + length];
            consumed += length;
            let event = match part {
                None => return Ok(Read { consumed, event: None }),
                Some(Part::Head { kind, length }) => {
                    self.check_control_frame(kind, length)?;
                    None
                }
                Some(Part::Payload { kind, is_last, .. }) if self.knows(kind) => {
                    reader.held.extend_from_slice(payload);
                    let whole = if is_last { Some(std::mem::take(&mut reader.held)) } else { None };
                    whole.map(|payload| self.read_control_frame(kind, &payload)).transpose()?.flatten()
                }
                Some(Part::Payload { .. }) => None,
            };
            if event.is_some() {
                return Ok(Read { consumed, event });
            }
        }
    }

    /// Whether frames of this type mean something on the control stream.
    fn knows(&self, kind: u64) -> bool {
        let is_for_server =
            matches!(kind, kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PUSH_PRIORITY_UPDATE);
        matches!(kind, kind::SETTINGS | kind::GOAWAY | kind::CANCEL_PUSH)
            || is_for_server && self.role == Role::Server
    }

    /// Checks whether a frame may stand on the control stream (RFC 9114, section 7; RFC 9218, section 7.2).
    fn check_control_frame(&mut self, kind: u64, length: u64) -> Result<(), Failure> {
        match (kind, self.peer) {
            (kind::SETTINGS, Some(_)) => Err(Failure::unexpected("client sent a second SETTINGS frame")),
            (kind::SETTINGS, None) => self.check_control_length(length),
            (_, None) => Err(Failure::new(Code::MISSING_SETTINGS, "client sent no SETTINGS frame first")),
            (kind, _) if self.knows(kind) => {
                self.budget.spend(CHEAP_FRAME)?;
                self.check_control_length(length)
            }
            (
                kind::DATA
                | kind::HEADERS
                | kind::PUSH_PROMISE
                | kind::MAX_PUSH_ID
                | kind::PRIORITY_UPDATE
                | kind::PUSH_PRIORITY_UPDATE,
                _,
            ) => Err(Failure::unexpected("client sent unexpected frame on control stream")),
            (kind, _) if is_of_http2(kind) => Err(Failure::unexpected("client sent frame of HTTP/2")),
            _ => self.budget.spend_for_unknown(length),
        }
    }

    fn check_control_length(&self, length: u64) -> Result<(), Failure> {
        const TOO_LONG: Failure = Failure::new(Code::EXCESSIVE_LOAD, "client sent too large control frame");
        if length <= CONTROL_FRAME_MAX { Ok(()) } else { Err(TOO_LONG) }
    }

    fn read_control_frame(&mut self, kind: u64, payload: &[u8]) -> Outcome {
        match kind {
            kind::SETTINGS => {
                let settings = PeerSettings::read(payload)?;
                self.peer = Some(settings);
                Ok(Some(Event::Settings(settings)))
            }
            kind::GOAWAY => self.read_goaway(only_number(payload)?),
            kind::MAX_PUSH_ID => {
                let id = only_number(payload)?;
                if self.push_max.is_some_and(|known| id < known) {
                    return Err(Failure::id("client sent MAX_PUSH_ID frame with smaller number"));
                }
                self.push_max = Some(id);
                Ok(None)
            }
            kind::CANCEL_PUSH => {
                only_number(payload)?;
                Err(Failure::id("client sent CANCEL_PUSH frame, but nothing was pushed"))
            }
            kind::PRIORITY_UPDATE => self.read_priority_update(payload),
            _ => {
                varint::read(payload).ok_or(LENGTH)?;
                Err(Failure::id("client sent priority of a push, but nothing was pushed"))
            }
        }
    }

    fn read_goaway(&mut self, first: u64) -> Outcome {
        let is_for_client = self.role == Role::Client;
        // A client names a push, which there is none of, a server a stream.
        if is_for_client && !first.is_multiple_of(STREAM_STEP) {
            return Err(Failure::id("client sent GOAWAY frame with number of no request"));
        }
        if self.peer_goaway.is_some_and(|known| first > known) {
            return Err(Failure::id("client sent GOAWAY frame with larger number"));
        }
        self.peer_goaway = Some(first);
        Ok(is_for_client.then_some(Event::Goaway { first }))
    }

    /// A priority that may come ahead of its stream.
    fn read_priority_update(&mut self, payload: &[u8]) -> Outcome {
        let (stream, value) = varint::read(payload).ok_or(LENGTH)?;
        if !stream.is_multiple_of(STREAM_STEP) {
            return Err(Failure::id("client sent PRIORITY_UPDATE frame for incorrect stream"));
        }
        let priority = Priority::read([value].into_iter());
        if self.streams.get(stream).is_some() {
            return Ok(Some(Event::Priority { stream, priority }));
        }
        if stream >= self.streams.next {
            self.priorities.add(ordinal(stream), priority, self.streams.next / STREAM_STEP);
        }
        Ok(None)
    }
}

const LENGTH: Failure = Failure::frame("client sent frame with incorrect length");

/// The number that a payload consists of.
fn only_number(payload: &[u8]) -> Result<u64, Failure> {
    match varint::read(payload) {
        Some((number, [])) => Ok(number),
        _ => Err(LENGTH),
    }
}

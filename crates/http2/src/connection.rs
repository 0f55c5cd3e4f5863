//! The machine: one connection, on either side.

mod opening;
mod reading;
mod writing;

pub use writing::Content;

use crate::budget::Budget;
use crate::frame::{MAX, PREFACE, write_goaway, write_window_update};
use crate::hpack::{Decoder, Encoder};
use crate::settings::{MAX_CONCURRENT_STREAMS, Settings, WINDOW, write_settings};
use crate::streams::Streams;
use crate::{Code, Failure, HeaderList, Priority};
use http::EarlyPriorities;
use std::ops::Range;

/// The size of the table that the peer's blocks refer to, in bytes.
const TABLE_SIZE: usize = 4096;

/// How far the window of the connection may shrink until it is opened again, in bytes. The windows of the streams bound
/// what is held.
const WINDOW_LOW: u32 = MAX / 4;

/// Our own settings, and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many streams the client may have at a time, those included that were cancelled but not released.
    pub streams: u32,
    /// How much content of a stream the client may send before it is allowed more, in bytes.
    pub window: u32,
    /// How long the names and values of a block may be together, in bytes.
    pub list_size: usize,
    /// How long a name or a value may be, in bytes.
    pub field_size: usize,
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It answers the requests of a client.
    Server,
    /// It sends requests to a server.
    Client,
}

/// One connection, with a client or with a server. The reasons of failures say "client" for the peer in both cases.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    limits: Limits,
    stage: Stage,
    peer: Settings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    /// What the client said about streams that it has not opened.
    priorities: EarlyPriorities<u32>,
    /// How much may be sent on all streams together, in bytes.
    send_window: i64,
    /// How much the peer may send on all streams together, in bytes.
    receive_window: u32,
    /// A block that has not ended yet.
    block: Option<Box<OpenBlock>>,
    /// The highest number of a stream that is served; a higher one is ignored.
    last_served: u32,
    says_goodbye: bool,
    /// Whether the client knows our settings.
    is_acknowledged: bool,
    budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client's first bytes are awaited.
    Preface,
    /// The server's first frame is awaited: its settings.
    Settings,
    Open,
}

/// A block of fields whose frames have not all come.
#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// How many bytes of the input are used up. With none and without an event, more input is needed.
    pub consumed: usize,
    /// What happened.
    pub event: Option<Event>,
}

/// What the peer did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It opened a stream. The list has the fields of the request.
    Request {
        /// The number of the stream.
        stream: u32,
        /// Whether the request has no content.
        ends: bool,
        /// The length of the block on the wire, in bytes.
        length: usize,
    },
    /// It answered. The list has the fields of the response, of an interim one (RFC 9110, section 15.2) or the final one. It
    /// may be too large ([`HeaderList::is_too_large`]).
    Response {
        /// The number of the stream.
        stream: u32,
        /// Whether the response has no content.
        ends: bool,
        /// The length of the block on the wire, in bytes.
        length: usize,
    },
    /// It sent content, or ended it.
    Data {
        /// The number of the stream.
        stream: u32,
        /// Where the content stands in the input.
        bytes: Range<usize>,
        /// Whether that was all.
        ends: bool,
        /// Whether the content is shorter or longer than was announced. Then the stream is cancelled when it is released.
        is_wrong: bool,
    },
    /// It ended the content with trailers, which the list has.
    Trailers {
        /// The number of the stream.
        stream: u32,
        /// As in [`Event::Data`].
        is_wrong: bool,
    },
    /// The stream was cancelled, by the client or because the client broke the rules.
    Reset {
        /// The number of the stream.
        stream: u32,
        /// Why.
        code: Code,
    },
    /// More may be sent, on this stream or, where it is 0, on all.
    Window {
        /// The number of the stream.
        stream: u32,
    },
    /// It changed the priority of a response.
    Priority {
        /// The number of the stream.
        stream: u32,
        /// The priority from now on.
        priority: Priority,
    },
    /// It ends the connection, and answers no stream with a higher number than this.
    Goaway {
        /// The highest number of a stream that may be answered.
        last: u32,
        /// Why.
        code: Code,
    },
}

impl Connection {
    /// A connection on which nothing was sent. Appends our settings.
    pub fn new(limits: Limits, out: &mut Vec<u8>) -> Connection {
        write_settings(MAX_CONCURRENT_STREAMS, limits.streams, &limits, out);
        Connection::with(Role::Server, limits, out)
    }

    fn with(role: Role, limits: Limits, out: &mut Vec<u8>) -> Connection {
        write_window_update(0, MAX - WINDOW, out);
        let decoder = Decoder::new(TABLE_SIZE);
        let (stage, decoder) = match role {
            Role::Server => (Stage::Preface, decoder),
            Role::Client => (Stage::Settings, decoder.lenient()),
        };
        Connection {
            role,
            limits,
            stage,
            peer: Settings::new(),
            decoder,
            encoder: Encoder::new(),
            streams: Streams::default(),
            priorities: EarlyPriorities::default(),
            send_window: i64::from(WINDOW),
            receive_window: MAX,
            block: None,
            last_served: MAX,
            says_goodbye: false,
            is_acknowledged: false,
            budget: Budget::new(),
        }
    }

    /// Reads the next frames up to an event. The answers that frames require are appended to `out`. `list` gets the fields
    /// of a block.
    ///
    /// # Errors
    /// The connection must end: [`Connection::fail`], then close it.
    pub fn read(&mut self, input: &[u8], list: &mut HeaderList, out: &mut Vec<u8>) -> Result<Read, Failure> {
        let mut consumed = 0;
        if self.stage == Stage::Preface {
            consumed = match read_preface(input)? {
                true => PREFACE.len(),
                false => return Ok(Read { consumed, event: None }),
            };
            self.stage = Stage::Open;
        }
        while let Some((length, event)) = self.read_frame(&input[consumed..], list, out)? {
            let event = event.map(|event| event.moved_by(consumed));
            consumed += length;
            if event.is_some() {
                return Ok(Read { consumed, event });
            }
        }
        Ok(Read { consumed, event: None })
    }

    /// Appends the frame that tells the client why the connection ends.
    pub fn fail(&mut self, failure: Failure, out: &mut Vec<u8>) {
        write_goaway(self.streams.last.min(self.last_served), failure.code, out);
    }

    /// Tells the client that the connection will end, so that it opens no further streams. Those that are on their way are
    /// still served (RFC 9113, section 6.8).
    pub fn announce_end(&mut self, out: &mut Vec<u8>) {
        if !self.says_goodbye {
            self.says_goodbye = true;
            write_goaway(MAX, Code::NO_ERROR, out);
        }
    }

    /// Serves no further stream than those that there were. The client repeats others elsewhere.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if self.last_served == MAX {
            (self.says_goodbye, self.last_served) = (true, self.streams.last);
            write_goaway(self.last_served, Code::NO_ERROR, out);
        }
    }

    /// Whether no further streams are served.
    pub fn has_ended(&self) -> bool {
        self.last_served != MAX
    }

    /// Cancels all streams and sends nothing: the client is gone, or the connection ends.
    pub fn lose(&mut self) {
        self.streams.cancel();
    }

    /// Whether there are streams that only the client has not ended.
    pub fn has_released(&self) -> bool {
        self.streams.oldest_released().is_some()
    }

    /// Ends the streams that only the client has not ended. It learns that the rest is not wanted.
    pub fn discard_released(&mut self, out: &mut Vec<u8>) {
        while let Some(stream) = self.streams.oldest_released() {
            self.discard(stream, Code::NO_ERROR, out);
        }
    }

    /// How many streams were not released.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The priority that the client gave a stream before it opened it.
    pub fn take_priority(&mut self, stream: u32) -> Option<Priority> {
        self.priorities.take(stream)
    }

    /// Whether a block of fields has begun whose end is missing.
    pub fn awaits_continuation(&self) -> bool {
        self.block.is_some()
    }

    /// Gives a client back what time is worth: one that does something useless now and then is no danger.
    pub fn earn(&mut self, amount: u32) {
        self.budget.earn(amount);
    }

    /// How much memory the connection has besides itself, in bytes.
    pub fn memory(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.bytes.capacity());
        self.decoder.memory()
            + self.encoder.memory()
            + self.streams.memory()
            + self.priorities.memory()
            + block
    }
}

/// Whether the preface is there wholly.
fn read_preface(input: &[u8]) -> Result<bool, Failure> {
    let seen = &input[..input.len().min(PREFACE.len())];
    match PREFACE.starts_with(seen) {
        true => Ok(seen.len() == PREFACE.len()),
        false => Err(Failure::protocol("client sent invalid preface")),
    }
}

impl Event {
    /// The same, with places so many bytes further on.
    fn moved_by(self, distance: usize) -> Event {
        match self {
            Event::Data { stream, bytes, ends, is_wrong } => {
                let bytes = bytes.start + distance..bytes.end + distance;
                Event::Data { stream, bytes, ends, is_wrong }
            }
            other => other,
        }
    }
}

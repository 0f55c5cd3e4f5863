//! The machine: one connection, on either side.

mod control;
mod reading;
mod writing;

use crate::budget::{Budget, CANCELLED_STREAM, REFUSED_STREAM};
use crate::frame::{kind, write_number};
use crate::qpack::Decoder;
use crate::settings::OwnSettings;
use crate::streams::{Incoming, Purpose, Streams};
use crate::{Code, Failure, HeaderList, PeerSettings, Priority, varint};
use http::EarlyPriorities;
use std::collections::VecDeque;
use std::ops::Range;

/// The size of the table that the peer's sections refer to, in bytes.
const TABLE_CAPACITY: usize = 4096;

/// How many sections may wait for entries of that table.
const BLOCKED_STREAMS: usize = 16;

/// How many streams on which only the peer sends there may be: three with a purpose, and some without.
const INCOMING_MAX: usize = 16;

/// The distance of the numbers of two streams of one kind.
const STREAM_STEP: u64 = 4;

/// Our own settings, and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many streams with requests there may be at a time, those included that were cancelled but not released.
    pub streams: usize,
    /// How long the names and values of a section may be together, in bytes.
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
    streams: Streams,
    /// The streams on which only the peer sends.
    incoming: Vec<Incoming>,
    /// The purposes that streams of the peer have had: bits of `control`.
    named: u8,
    decoder: Decoder,
    /// What the peer allows, once it has said so.
    peer: Option<PeerSettings>,
    /// What the client said about streams that it has not opened, by how many streams come before them, and one.
    priorities: EarlyPriorities<u64>,
    /// What our control stream has to send.
    control: Vec<u8>,
    commands: VecDeque<Command>,
    /// The lowest number of a stream that is not served.
    goaway: u64,
    /// The number in the last GOAWAY frame of the peer.
    peer_goaway: Option<u64>,
    /// The number in the last MAX_PUSH_ID frame of the client.
    push_max: Option<u64>,
    budget: Budget,
}

/// Bytes of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The number of the stream.
    pub stream: u64,
    /// All that has come and was not consumed.
    pub bytes: &'a [u8],
    /// Whether the stream ends with these bytes.
    pub ends: bool,
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// How many bytes of the input are used up.
    pub consumed: usize,
    /// What happened.
    pub event: Option<Event>,
}

/// What the peer did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It sent a request. The list has the fields.
    Request {
        /// The number of the stream.
        stream: u64,
        /// Whether the request is known to have no content. If not, [`Event::Data`] follows.
        ends: bool,
        /// The length of the section on the wire, in bytes.
        length: usize,
    },
    /// It answered. The list has the fields of the response, of an interim one (RFC 9110, section 15.2) or the final one.
    Response {
        /// The number of the stream.
        stream: u64,
        /// Whether the response is known to have no content. If not, [`Event::Data`] follows.
        ends: bool,
        /// The length of the section on the wire, in bytes.
        length: usize,
    },
    /// The head of the message is larger than the limits. What comes of it is discarded.
    TooLarge {
        /// The number of the stream.
        stream: u64,
    },
    /// It sent content, or ended it.
    Data {
        /// The number of the stream.
        stream: u64,
        /// Where the content stands in the input.
        bytes: Range<usize>,
        /// Whether that was all.
        ends: bool,
        /// Whether the content is shorter or longer than was announced. Then nothing more is read of the stream, which is to
        /// be released with [`Code::MESSAGE_ERROR`].
        is_wrong: bool,
    },
    /// It ended the content with trailers, which the list has.
    Trailers {
        /// The number of the stream.
        stream: u64,
        /// As in [`Event::Data`].
        is_wrong: bool,
    },
    /// The stream was cancelled, by the peer or because the peer broke the rules.
    Reset {
        /// The number of the stream.
        stream: u64,
        /// Why.
        code: Code,
    },
    /// It answers a request, but does not want the rest of it.
    Unwanted {
        /// The number of the stream.
        stream: u64,
    },
    /// The bytes of a stream that were not consumed can be read now: [`Connection::read`] is to be called for it.
    Unblocked {
        /// The number of the stream.
        stream: u64,
    },
    /// It told its settings.
    Settings(PeerSettings),
    /// It changed the priority of a response.
    Priority {
        /// The number of the stream.
        stream: u64,
        /// The priority from now on.
        priority: Priority,
    },
    /// It ends the connection, and answers no stream with this number or a higher one.
    Goaway {
        /// The lowest number of a stream that is not answered.
        first: u64,
    },
}

/// What the driver has to do with a stream. If QUIC has ended it already, there is nothing to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send no more, and tell the peer so (RESET_STREAM).
    Reset {
        /// The number of the stream.
        stream: u64,
        /// Why.
        code: Code,
    },
    /// Read no more, and tell the peer so (STOP_SENDING). Later bytes of the stream need not be given to the machine.
    Stop {
        /// The number of the stream.
        stream: u64,
        /// Why.
        code: Code,
    },
}

/// A stream on which only we send. The driver opens both when the connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// The control stream.
    Control,
    /// The stream that tells the peer's encoder what was decoded.
    Decoder,
}

impl Connection {
    /// A connection with a client, on which nothing was sent.
    pub fn server(limits: Limits) -> Connection {
        Connection::with(Role::Server, limits)
    }

    /// A connection with a server, on which nothing was sent. `limits.streams` has no meaning.
    pub fn client(limits: Limits) -> Connection {
        Connection::with(Role::Client, limits)
    }

    fn with(role: Role, limits: Limits) -> Connection {
        let settings = OwnSettings {
            table_capacity: TABLE_CAPACITY,
            blocked_streams: BLOCKED_STREAMS,
            list_size: limits.list_size,
            connects: role == Role::Server,
        };
        let mut control = vec![control::CONTROL];
        settings.write(&mut control);
        let mut decoder = Decoder::new(TABLE_CAPACITY);
        decoder.feedback.push(control::DECODER);
        Connection {
            role,
            limits,
            streams: Streams::default(),
            incoming: Vec::new(),
            named: 0,
            decoder,
            peer: None,
            priorities: EarlyPriorities::default(),
            control,
            commands: VecDeque::new(),
            goaway: varint::MAX,
            peer_goaway: None,
            push_max: None,
            budget: Budget::new(),
        }
    }

    /// Takes note of a stream that the peer has opened. Commands refuse one that is not served.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn accept(&mut self, stream: u64) -> Result<(), Failure> {
        let is_of_server = stream & 1 == 1;
        if stream & 2 != 0 && is_of_server == (self.role == Role::Client) {
            return self.accept_incoming(stream);
        }
        if is_of_server || self.role == Role::Client {
            return Err(Failure::new(Code::STREAM_CREATION_ERROR, "client opened stream of unexpected kind"));
        }
        self.streams.next = self.streams.next.max(stream + STREAM_STEP);
        if stream < self.goaway && self.streams.len() < self.limits.streams {
            self.streams.open(stream);
            return Ok(());
        }
        self.cancel(stream, Code::REQUEST_REJECTED);
        self.decoder.cancel(stream)?;
        self.budget.spend(REFUSED_STREAM)
    }

    fn accept_incoming(&mut self, id: u64) -> Result<(), Failure> {
        if self.incoming.len() >= INCOMING_MAX {
            return Err(Failure::new(Code::EXCESSIVE_LOAD, "client opened too many unidirectional streams"));
        }
        self.incoming.push(Incoming { id, purpose: Purpose::Unknown([0; varint::LENGTH_MAX], 0) });
        Ok(())
    }

    /// Reads the bytes of a stream up to an event. The call is repeated with the rest of the bytes until there is no event.
    /// What is not consumed then waits for [`Event::Unblocked`]. `list` gets the fields of a section. Bytes of a stream that
    /// was refused or released are discarded.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn read(&mut self, input: Input<'_>, list: &mut HeaderList) -> Result<Read, Failure> {
        match input.stream & 2 {
            0 => self.read_messages(input, list),
            _ => self.read_incoming(input),
        }
    }

    /// Takes note that the peer sends no more on a stream (RESET_STREAM).
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn peer_reset(&mut self, id: u64, code: Code) -> Result<Option<Event>, Failure> {
        if id & 2 != 0 {
            return self.close_incoming(id).map(|()| None);
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.is_remote_open) else {
            return Ok(None);
        };
        stream.is_remote_open = false;
        stream.discard();
        let was_reset = std::mem::replace(&mut stream.is_reset, true);
        self.decoder.cancel(id)?;
        self.budget.spend(CANCELLED_STREAM)?;
        Ok((!was_reset).then_some(Event::Reset { stream: id, code }))
    }

    /// Takes note that the peer reads no more of a stream (STOP_SENDING).
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn peer_stopped(&mut self, id: u64, code: Code) -> Result<Option<Event>, Failure> {
        if id & 2 != 0 {
            return Err(control::CLOSED);
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.is_local_open) else {
            return Ok(None);
        };
        stream.is_local_open = false;
        self.commands.push_back(Command::Reset { stream: id, code });
        // A server that has answered does not need the rest of a request (RFC 9114, section 4.1).
        if self.role == Role::Client && code == Code::NO_ERROR {
            return Ok(Some(Event::Unwanted { stream: id }));
        }
        self.budget.spend(CANCELLED_STREAM)?;
        let was_reset = std::mem::replace(&mut stream.is_reset, true);
        Ok((!was_reset).then_some(Event::Reset { stream: id, code }))
    }

    /// What one of our streams has to send.
    pub fn own(&self, stream: Own) -> &[u8] {
        match stream {
            Own::Control => &self.control,
            Own::Decoder => &self.decoder.feedback,
        }
    }

    /// Takes note that so many bytes of one of our streams were sent.
    pub fn sent(&mut self, stream: Own, count: usize) {
        let bytes = match stream {
            Own::Control => &mut self.control,
            Own::Decoder => &mut self.decoder.feedback,
        };
        bytes.drain(..count.min(bytes.len()));
    }

    /// The next command for the driver, which asks after each call until there is none.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Tells the client that the connection will end, so that it opens no further streams. Those that are on their way are
    /// still served (RFC 9114, section 5.2).
    pub fn announce_end(&mut self) {
        if self.goaway == varint::MAX {
            self.goaway = varint::MAX - 3;
            write_number(kind::GOAWAY, self.goaway, &mut self.control);
        }
    }

    /// Serves no further stream than those that there were. The client repeats others elsewhere.
    pub fn end(&mut self) {
        if !self.has_ended() {
            self.goaway = self.streams.next;
            write_number(kind::GOAWAY, self.goaway, &mut self.control);
        }
    }

    /// Whether no further streams are served.
    pub fn has_ended(&self) -> bool {
        self.goaway < varint::MAX - 3
    }

    /// Cancels all streams and sends nothing: the peer is gone, or the connection ends.
    pub fn lose(&mut self) {
        self.commands.clear();
        for stream in self.streams.iter_mut() {
            (stream.is_reset, stream.is_remote_open, stream.is_local_open) = (true, false, false);
            stream.discard();
        }
    }

    /// How many streams were not released.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The priority that the client gave a stream before it opened it.
    pub fn take_priority(&mut self, stream: u64) -> Option<Priority> {
        self.priorities.take(ordinal(stream))
    }

    /// What the peer allows, once it has said so.
    pub fn peer(&self) -> Option<PeerSettings> {
        self.peer
    }

    /// Gives a client back what time is worth: one that does something useless now and then is no danger.
    pub fn earn(&mut self, amount: u32) {
        self.budget.earn(amount);
    }

    /// How much memory the connection has besides itself, in bytes.
    pub fn memory(&self) -> usize {
        self.decoder.memory()
            + self.streams.memory()
            + self.priorities.memory()
            + self.control.capacity()
            + self.incoming.capacity() * size_of::<Incoming>()
            + self.commands.capacity() * size_of::<Command>()
    }

    /// Ends a stream in both directions.
    fn cancel(&mut self, stream: u64, code: Code) {
        self.commands.push_back(Command::Reset { stream, code });
        self.commands.push_back(Command::Stop { stream, code });
    }

    /// Cancels a stream whose peer broke the rules. It keeps its place until its user has released it.
    fn stream_error(&mut self, id: u64, code: Code) -> Result<Option<Event>, Failure> {
        self.budget.spend(CANCELLED_STREAM)?;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let (is_local_open, is_remote_open) = (stream.is_local_open, stream.is_remote_open);
        (stream.is_local_open, stream.is_remote_open) = (false, false);
        stream.discard();
        let was_reset = std::mem::replace(&mut stream.is_reset, true);
        self.close_sides(id, is_local_open.then_some(code), is_remote_open.then_some(code))?;
        Ok((!was_reset).then_some(Event::Reset { stream: id, code }))
    }

    /// Sends no more on a stream, and reads no more of it.
    fn close_sides(&mut self, id: u64, local: Option<Code>, remote: Option<Code>) -> Result<(), Failure> {
        self.commands.extend(local.map(|code| Command::Reset { stream: id, code }));
        let Some(code) = remote else { return Ok(()) };
        self.commands.push_back(Command::Stop { stream: id, code });
        self.decoder.cancel(id)
    }
}

/// How many streams with requests come before this one, and one.
fn ordinal(stream: u64) -> u64 {
    stream / STREAM_STEP + 1
}

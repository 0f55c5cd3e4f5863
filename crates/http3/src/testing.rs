//! What the tests of both sides share.

use crate::frame::write_frame;
use crate::{Code, Command, Connection, Event, HeaderList, Input, Limits, varint};

pub(crate) const LIMITS: Limits = Limits { streams: 4, list_size: 2000, field_size: 1000 };

pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(kind, |out| out.extend_from_slice(payload), &mut out);
    out
}

pub(crate) fn number(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, value);
    out
}

/// One side of a connection, with what its peer has sent and what was not consumed of it.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) list: HeaderList,
    waiting: Vec<(u64, Vec<u8>, bool)>,
}

impl Side {
    pub(crate) fn new(connection: Connection) -> Side {
        Side { connection, list: HeaderList::default(), waiting: Vec::new() }
    }

    /// A server whose client has opened its control stream and sent settings.
    pub(crate) fn server() -> Side {
        let mut side = Side::new(Connection::server(LIMITS));
        side.accept(2);
        assert!(matches!(side.take(2, &[0, 4, 0], false).unwrap()[..], [Event::Settings(_)]));
        side
    }

    pub(crate) fn accept(&mut self, stream: u64) {
        self.connection.accept(stream).unwrap();
    }

    /// Opens a stream and reads what the peer sends on it.
    pub(crate) fn opened(&mut self, stream: u64, bytes: &[u8], ends: bool) -> Result<Vec<Event>, Code> {
        self.connection.accept(stream).map_err(|failure| failure.code)?;
        self.take(stream, bytes, ends)
    }

    /// Reads further bytes of a stream; gives what they came to.
    pub(crate) fn take(&mut self, stream: u64, bytes: &[u8], ends: bool) -> Result<Vec<Event>, Code> {
        let place = match self.waiting.iter().position(|(id, ..)| *id == stream) {
            Some(place) => place,
            None => {
                self.waiting.push((stream, Vec::new(), false));
                self.waiting.len() - 1
            }
        };
        self.waiting[place].1.extend_from_slice(bytes);
        self.waiting[place].2 |= ends;
        let mut events = Vec::new();
        loop {
            let (_, bytes, ends) = &mut self.waiting[place];
            let input = Input { stream, bytes, ends: *ends };
            let read = self.connection.read(input, &mut self.list).map_err(|failure| failure.code)?;
            bytes.drain(..read.consumed);
            match read.event {
                Some(event) => events.push(event),
                None => return Ok(events),
            }
        }
    }

    pub(crate) fn commands(&mut self) -> Vec<Command> {
        std::iter::from_fn(|| self.connection.next_command()).collect()
    }

    /// The fields that were read last.
    pub(crate) fn fields(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.list.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
    }
}

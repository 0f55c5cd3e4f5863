//! What the tests of both sides share.

use crate::frame::FrameHead;
use crate::{Code, Connection, Event, HeaderList};

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len(), kind, flags, stream };
    [&head.bytes()[..], payload].concat()
}

/// One side of a connection, with what it has to send.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) list: HeaderList,
    pub(crate) out: Vec<u8>,
}

impl Side {
    pub(crate) fn new(connection: impl FnOnce(&mut Vec<u8>) -> Connection) -> Side {
        let mut out = Vec::new();
        let connection = connection(&mut out);
        Side { connection, list: HeaderList::default(), out }
    }

    /// Reads whole frames that the other side has sent; gives what they came to.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<Vec<Event>, Code> {
        let (mut rest, mut events) = (input, Vec::new());
        loop {
            let read = self.connection.read(rest, &mut self.list, &mut self.out);
            let read = read.map_err(|failure| failure.code)?;
            rest = &rest[read.consumed..];
            match read.event {
                Some(event) => events.push(event),
                None => {
                    assert!(rest.is_empty(), "frames are left");
                    return Ok(events);
                }
            }
        }
    }
}

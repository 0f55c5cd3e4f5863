//! What only a client does: it begins the connection and opens streams.

use super::reading::Block;
use super::{Connection, Event, Limits, Role, Stage};
use crate::budget::INTERIM_HEAD;
use crate::frame::{MAX, PREFACE};
use crate::settings::{ENABLE_PUSH, write_settings};
use crate::streams::Stream;
use crate::{Code, Failure, HeaderList};

impl Connection {
    /// A connection to a server, on which nothing was sent. Appends the preface and our settings; the server must not
    /// push. `limits.streams` has no meaning.
    pub fn client(limits: Limits, out: &mut Vec<u8>) -> Connection {
        out.extend_from_slice(PREFACE);
        write_settings(ENABLE_PUSH, 0, &limits, out);
        Connection::with(Role::Client, limits, out)
    }

    /// Opens a stream for a request, whose head is written by [`Connection::head`] next. Gives its number, or `None` if
    /// the server allows no further stream now, or the connection has no numbers left.
    pub fn open_stream(&mut self) -> Option<u32> {
        let id = if self.streams.last == 0 { 1 } else { self.streams.last.checked_add(2)? };
        if id > MAX || self.streams.len() >= self.peer.streams as usize {
            return None;
        }
        self.streams.open(Stream {
            id,
            send_window: i64::from(self.peer.window),
            receive_window: self.limits.window,
            expected: None,
            has_head: false,
            is_remote_open: true,
            is_local_open: true,
            is_reset: false,
            defers_end: false,
            is_released: false,
        });
        Some(id)
    }

    /// How many streams the server allows at a time, once it has said so.
    pub fn allowed_streams(&self) -> Option<usize> {
        (self.stage == Stage::Open).then_some(self.peer.streams as usize)
    }

    /// Whether the numbers of streams are used up.
    pub fn is_used_up(&self) -> bool {
        self.streams.last >= MAX - 2
    }

    /// How many bytes of content may be sent on all streams together now.
    pub fn shared_room(&self) -> usize {
        usize::try_from(self.send_window).unwrap_or(0)
    }

    /// Whether we have ended our side of a stream, or there is no such stream.
    pub fn has_sent_all(&self, id: u32) -> bool {
        self.streams.get(id).is_none_or(|stream| !stream.is_local_open)
    }

    /// The head of a response, or an interim one, which does not end the stream.
    pub(super) fn read_response(
        &mut self,
        block: Block<'_>,
        list: &HeaderList,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, Failure> {
        let Block { stream: id, ends, bytes } = block;
        let status = list.iter().next().filter(|(name, _)| name == b":status");
        let is_interim = status.is_some_and(|(_, value)| value.starts_with(b"1"));
        if is_interim {
            self.budget.spend(INTERIM_HEAD)?;
            if ends {
                return self.stream_error(id, Code::PROTOCOL_ERROR, out);
            }
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        (stream.has_head, stream.is_remote_open) = (!is_interim, !ends);
        Ok((!stream.is_reset).then_some(Event::Response { stream: id, ends, length: bytes.len() }))
    }
}

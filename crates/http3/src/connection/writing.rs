//! What is written on the streams with requests and responses.

use super::{Connection, Role};
use crate::budget::{EARNED_BY_ANSWER, REFUSED_STREAM};
use crate::frame::{kind, write_frame, write_head};
use crate::{Code, Failure, SectionWriter};

impl Connection {
    /// Takes note of a stream that we have opened for a request, whose head is written by [`Connection::head`] next. `false`
    /// if the server ends the connection and would not answer it.
    pub fn open(&mut self, stream: u64) -> bool {
        let is_served = self.peer_goaway.is_none_or(|first| stream < first);
        if is_served {
            self.streams.open(stream);
        }
        is_served
    }

    /// Announces how long the content of a message is, as its head says.
    pub fn expect(&mut self, id: u64, length: u64) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.expected = Some(length);
        }
    }

    /// Whether a stream was cancelled, by either side, or does not exist.
    pub fn is_reset(&self, id: u64) -> bool {
        self.streams.get(id).is_none_or(|stream| stream.is_reset)
    }

    /// Whether we send more on a stream.
    pub fn is_open(&self, id: u64) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.is_local_open)
    }

    /// Appends a head or trailers, whose fields `write` writes. If they end the message, the caller ends the stream of QUIC
    /// after them.
    pub fn head(
        &mut self,
        id: u64,
        ends: bool,
        write: impl FnOnce(&mut SectionWriter<'_>),
        out: &mut Vec<u8>,
    ) {
        if self.note_sent(id, ends) {
            write_frame(kind::HEADERS, |out| write(&mut SectionWriter::new(out)), out);
        }
    }

    /// Appends the head of a frame for so many bytes of content, which the caller sends after it. If they end the message, the
    /// caller ends the stream of QUIC after them. `false` if no content may be sent.
    pub fn data(&mut self, id: u64, length: u64, ends: bool, out: &mut Vec<u8>) -> bool {
        let may_send = self.note_sent(id, ends);
        if may_send && length > 0 {
            write_head(kind::DATA, length, out);
        }
        may_send
    }

    /// Takes note of something that is sent. `false` if nothing may be.
    fn note_sent(&mut self, id: u64, ends: bool) -> bool {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.is_local_open) else {
            return false;
        };
        stream.is_local_open = !ends;
        if ends {
            self.budget.earn(EARNED_BY_ANSWER);
        }
        true
    }

    /// Refuses a request that was not acted on. The client may repeat it (RFC 9114, section 4.1.1).
    ///
    /// # Errors
    /// The client opens too many streams that are refused, so that the connection must be closed.
    pub fn refuse(&mut self, id: u64) -> Result<(), Failure> {
        self.release(id, Code::REQUEST_REJECTED)?;
        self.budget.spend(REFUSED_STREAM)
    }

    /// Gives up a stream. What is open of it is cancelled with this code. A server that has ended its response in order tells
    /// the client only that the rest of the request is not wanted, unless that is malformed.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn release(&mut self, id: u64, code: Code) -> Result<(), Failure> {
        let Some(stream) = self.streams.close(id) else { return Ok(()) };
        let is_answered = self.role == Role::Server && !stream.is_local_open && !stream.is_reset;
        let is_unwanted = is_answered && code != Code::MESSAGE_ERROR;
        let rest = if is_unwanted { Code::NO_ERROR } else { code };
        let local = stream.is_local_open.then_some(code);
        self.close_sides(id, local, stream.is_remote_open.then_some(rest))
    }
}

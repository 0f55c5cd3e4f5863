//! What a protocol knows of one request and its response.

use crate::failure::Failure;
use crate::settings::FieldNames;
use bytes::Bytes;
use contract::Exchange;
use http::{Field, Fields, Status};
use journal::Level;
use std::any::Any;
use wire::Buffer;

/// One request to a server and its response, in the words of a protocol. It does no I/O: the conversation gives it
/// what was read, and sends what it writes. One that ended is used again.
pub trait Dialogue: Default + 'static {
    /// Forgets request and response, and keeps the memory of them that is worth it.
    fn clear(&mut self);

    /// Takes over a connection. `kept` is what the protocol kept of it ([`Dialogue::disconnect`]); `None` for a connection
    /// that was opened for this request.
    fn connect(&mut self, kept: Option<Box<dyn Any>>) {
        let _ = kept;
    }

    /// Gives up the connection, which serves another request later, and returns what that has to know of it.
    fn disconnect(&mut self) -> Option<Box<dyn Any>> {
        None
    }

    /// Starts an attempt: forgets the answer of the attempt before, and appends the head of the request.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends a piece of the request's body, which is not empty.
    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>);

    /// Appends the last piece, which is not empty, and what follows it.
    fn append_last_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.append_piece(piece, out);
        self.append_end(out);
    }

    /// Appends what follows the last piece, or the head of a request without a body.
    fn append_end(&mut self, out: &mut Vec<u8>);

    /// Whether there is something to send besides the next piece of the body: answers that the protocol requires, or pieces
    /// that the server had not allowed yet.
    fn has_pending(&self) -> bool {
        false
    }

    /// Appends what [`Dialogue::has_pending`] tells of, as far as the server allows it.
    fn append_pending(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Whether the server has to allow more before a further piece may be appended.
    fn is_blocked(&self) -> bool {
        false
    }

    /// Reads on in the head of the response. Gives its status when it is whole, and `None` to ask for more input.
    ///
    /// # Errors
    /// The input is no response.
    fn read_head(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure>;

    /// Takes the next content out of the input.
    ///
    /// # Errors
    /// The line for the error log: the input breaks the protocol's rules.
    fn read_content(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Decoded, String>;

    /// Whether the end of the connection is the end of the content.
    fn ends_with_connection(&self) -> bool;

    /// Whether the content is whole, although the protocol has more to say.
    fn is_whole(&self) -> bool {
        false
    }

    /// The fields after the content that are passed on, once the content has ended.
    fn trailers(&self) -> Option<&Fields> {
        None
    }

    /// Whether the connection can serve another request after the end of the content.
    fn keeps_connection(&self) -> bool;
}

/// What was in the input.
#[derive(Debug)]
pub enum Decoded {
    /// Content.
    Data(Bytes),
    /// Nothing before there is more input.
    More,
    /// The end of the content.
    End,
}

/// Where a protocol writes what a server says that is no part of its response.
pub struct Remarks<'a> {
    exchange: &'a Exchange,
    url: &'a dyn Fn() -> String,
    hidden: Option<&'a FieldNames>,
}

impl<'a> Remarks<'a> {
    /// Remarks of a server with this URL about a request.
    pub fn new(exchange: &'a Exchange, url: &'a dyn Fn() -> String) -> Remarks<'a> {
        Remarks { exchange, url, hidden: None }
    }

    /// Hides fields of these names from the client.
    #[must_use]
    pub fn hiding(self, hidden: &'a FieldNames) -> Remarks<'a> {
        Remarks { hidden: Some(hidden), ..self }
    }

    /// Sends early hints to the client: those of these fields that are not hidden.
    pub fn hint<'f>(&self, fields: impl Iterator<Item = Field<'f>>) {
        let mut hints = Fields::new();
        let is_hidden = |name: &[u8]| self.hidden.is_some_and(|hidden| hidden.has(name));
        for field in fields.filter(|field| !is_hidden(field.name)) {
            // A field that breaks the rules cannot have been parsed.
            let _ = hints.push(field.name, field.value);
        }
        self.exchange.hint(hints);
    }

    /// Writes a line to the error log.
    pub fn write(&self, level: Level, message: &str) {
        self.exchange.request_log().write(level, message, Some(&(self.url)()));
    }
}

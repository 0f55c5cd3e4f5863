//! What a protocol knows of one request and its response.

use crate::failure::Failure;
use crate::settings::FieldNames;
use bytes::Bytes;
use contract::Exchange;
use http::{Field, Fields, Status};
use journal::Level;
use std::any::Any;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wire::Buffer;

/// One request to a server and its response, in the words of a protocol. It does no I/O: the conversation gives it
/// what was read, and sends what it writes. One that ended is used again.
pub trait Dialogue: Default + 'static {
    /// Makes a connection of a protocol by which one connection carries many requests at a time; `None` for a protocol by
    /// which it carries one after the other.
    const CARRIER: Option<fn() -> Rc<dyn Carrier>> = None;

    /// Whether a connection is all that is asked for: what comes over it is no response, but for the client of a tunnel.
    const IS_TUNNEL: bool = false;

    /// Forgets request and response, and keeps the memory of them that is worth it.
    fn clear(&mut self);

    /// How much memory the request has that is sent, in bytes.
    fn memory(&self) -> usize;

    /// Takes a place on a connection that carries many requests. [`Dialogue::begin`] follows.
    fn connect(&mut self, carrier: &Rc<dyn Carrier>) {
        let _ = carrier;
    }

    /// Gives up that place. A response that is not whole is cancelled.
    fn disconnect(&mut self) {}

    /// Ready when there is something to read for this request on a connection that carries many: tells how many bytes came
    /// since the last time. [`Dialogue::read_content`] then gives no more than `most` bytes until the next call. The task is
    /// also woken when more may be sent.
    fn poll_input(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<usize> {
        let _ = (cx, most);
        Poll::Pending
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

    /// The fields after the content, once the content has ended.
    fn trailers(&self) -> Option<&Fields> {
        None
    }

    /// Whether the client gets them.
    fn passes_trailers(&self) -> bool {
        true
    }

    /// Whether the connection can serve another request after the end of the content.
    fn keeps_connection(&self) -> bool;
}

/// A connection that carries many requests at a time, in the words of a protocol. It does no I/O. What the server sends is
/// given to each request, which is woken for it.
pub trait Carrier: Any {
    /// Takes what the server sent out of the input. Appends the answers that the protocol requires.
    ///
    /// # Errors
    /// The server breaks the rules, so that the connection must end. All requests have learned why.
    fn read(&self, input: &mut Buffer, out: &mut Vec<u8>) -> Result<(), Broken>;

    /// Appends what there is to send besides the requests: the beginning of the connection, and what requests leave to be
    /// said.
    fn append_pending(&self, out: &mut Vec<u8>);

    /// Sets the task that is woken when there is something to append.
    fn set_driver(&self, driver: &Waker);

    /// How many requests the server allows at a time, once it has said so.
    fn allowed(&self) -> Option<usize>;

    /// How many requests there are.
    fn requests(&self) -> usize;

    /// Whether the server acts on no further request.
    fn is_leaving(&self) -> bool;

    /// Wakes all requests.
    fn wake_all(&self);
}

/// The server broke the rules of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Broken;

/// What was in the input.
#[derive(Debug)]
pub enum Decoded {
    /// Content.
    Data(Bytes),
    /// Content, with which the content ends.
    Last(Bytes),
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

    /// Sends an interim response to the client, with those of these fields that are not hidden.
    pub fn hint<'f>(&self, status: Status, fields: impl Iterator<Item = Field<'f>>) {
        let mut hints = Fields::new();
        let is_hidden = |name: &[u8]| self.hidden.is_some_and(|hidden| hidden.has(name));
        for field in fields.filter(|field| !is_hidden(field.name)) {
            // A field that breaks the rules cannot have been parsed.
            let _ = hints.push(field.name, field.value);
        }
        self.exchange.hint(status, hints);
    }

    /// Writes a line to the error log.
    pub fn write(&self, level: Level, message: &str) {
        self.exchange.request_log().write(level, message, Some(&(self.url)()));
    }
}

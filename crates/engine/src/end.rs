//! What a request may ask of its sender.

use crate::detached::Detached;
use crate::pipeline::Flow;
use bytes::Bytes;
use contract::{Body, BodyReader, Exchange, Piece, Pipe};
use http::{Fields, Status};
use std::io;
use std::task::{Context, Poll};
use wire::Timer;

/// The sender of a request: a connection in HTTP/1, another request, or an explanation. It brings the body of the
/// request ([`BodyReader`]) and takes the response.
///
/// It holds what it was given until the client has taken it: the engine gives a further piece only where there is room.
pub trait End: BodyReader {
    /// Takes a response that is sent ahead of the final one (RFC 9110, section 15.2). 100 is only for clients that wait
    /// for it before they send their body.
    fn interim(&mut self, exchange: &mut Exchange, status: Status, fields: &Fields) {
        let _ = (exchange, status, fields);
    }

    /// Takes back a part of the body, which is read again before the rest.
    fn put_back(&mut self, part: Bytes);

    /// Notes that the body is read no further: what follows it cannot be understood.
    fn give_up_body(&mut self, exchange: &mut Exchange, status: Status);

    /// Judges what arrived of a body that nothing reads, before the response leaves.
    ///
    /// # Errors
    /// The body breaks the rules, and gets this status as an answer.
    fn settle(&mut self, exchange: &mut Exchange) -> Result<(), Status>;

    /// Takes the body of a response that it does not want to be given piece by piece.
    fn take_body(&mut self, flow: &mut Flow, body: Body) -> Option<Body> {
        let _ = flow;
        Some(body)
    }

    /// Takes a whole response that is in memory and short, if it wants to be given it at once.
    fn take_whole(&mut self, flow: &mut Flow, body: &Body) -> bool {
        let _ = (flow, body);
        false
    }

    /// Frames the response, takes its head, and tells whether its content is wanted.
    fn head(&mut self, flow: &mut Flow, body: &Body, is_limited: bool) -> bool;

    /// Whether there is room for a further piece.
    fn has_room(&self) -> bool;

    /// Takes a piece of the content.
    fn give(&mut self, exchange: &mut Exchange, piece: Piece);

    /// Reads what the client of a tunnel sends; 0 at its end.
    ///
    /// # Errors
    /// The client is gone.
    fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, exchange, room);
        Poll::Ready(Ok(0))
    }

    /// Takes a part of what the client of a tunnel is to get, after what was given, and returns how many bytes. They may be
    /// left to [`End::send`].
    ///
    /// # Errors
    /// The client is gone.
    fn poll_write_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let _ = cx;
        if !self.has_room() {
            return Poll::Pending;
        }
        self.give(exchange, Piece::Bytes(Bytes::copy_from_slice(bytes)));
        Poll::Ready(Ok(bytes.len()))
    }

    /// Whether the bytes of a tunnel may go through a pipe at present. See [`contract::Duplex::splices`].
    fn splices_raw(&mut self) -> bool {
        false
    }

    /// As [`End::poll_read_raw`], into an empty pipe.
    ///
    /// # Errors
    /// The client is gone, or, with `InvalidInput`, the bytes cannot be moved so.
    fn poll_fill_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, exchange, pipe);
        Poll::Ready(Err(io::ErrorKind::InvalidInput.into()))
    }

    /// As [`End::poll_write_raw`], out of a pipe.
    ///
    /// # Errors
    /// The client is gone, or, with `InvalidInput`, the bytes cannot be moved so.
    fn poll_drain_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, exchange, pipe);
        Poll::Ready(Err(io::ErrorKind::InvalidInput.into()))
    }

    /// Takes the end of the content.
    fn finish(&mut self, flow: &mut Flow);

    /// Sends some of what was given, at most so many bytes; the task is woken when more can be sent.
    ///
    /// # Errors
    /// The client is gone, or the content cannot be read.
    fn send(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent>;

    /// Whether something was given that [`End::send`] has not sent yet, as far as that is known without trying.
    fn has_unsent(&self) -> bool {
        true
    }

    /// Forgets what was given and not sent yet, because the client does not take it.
    fn discard(&mut self, why: &io::Error) {
        let _ = why;
    }

    /// Ready when the client has gone. With `lasts` it goes on without the client, unless the client
    /// has to send more.
    fn poll_gone(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, lasts: bool) -> Poll<()>;

    /// Takes over a detached request.
    fn detach(&mut self, request: Detached);

    /// What limits the waiting for the client; none where no client is waited for.
    fn timer(&self) -> Option<&Timer>;

    /// Tells the client of a tunnel that nothing more is sent, while it may still send. Ready when that has left.
    fn poll_end_writing(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange) -> Poll<()> {
        let _ = (cx, exchange);
        Poll::Ready(())
    }

    /// Whether the request is only explained: then nothing is waited for, and no other server is asked.
    fn explains(&self) -> bool {
        false
    }
}

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes were sent.
    Some(u64),
    /// Nothing is left to send.
    All,
    /// The client has to take more first.
    AwaitsClient,
    /// Something else has to happen first: a disk answers, or other clients have their turn.
    AwaitsServer,
}

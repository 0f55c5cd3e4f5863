//! A stream of HTTP/2 as the sender of a request: it brings the body, and takes the response as far as the windows and the
//! connection's buffer have room.

use super::outgoing::Outgoing;
use super::shared::Shared;
use super::websocket::Handshake;
use crate::conn::OUTPUT_LIMIT;
use crate::conn::life::Sender;
use crate::thread::Serving;
use bytes::Bytes;
use contract::{Body, BodyReader, Exchange, Piece, Streaming};
use engine::{After, Detached, End, Flow, Pace, Sent, Unknown};
use http::{Fields, Method, Status};
use http2::{Code, Content, Priority, write_interim, write_trailers};
use journal::Level;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::{Buffer, Timer};

/// How much of a body the client may send ahead of what reads it, in bytes.
const UPLOAD_WINDOW: u32 = 256 * 1024;

/// The length of the head of a frame, in bytes.
const FRAME_HEAD: u64 = 9;

/// One request and its response on their way.
pub(super) struct Transfer {
    pub(super) stream: u32,
    /// How long the names and values of the request's head are, in bytes.
    pub(super) head_size: usize,
    /// How the client wants the response to be sent among others.
    pub(super) priority: Priority,
    pub(super) upload: Upload,
    pub(super) outgoing: Outgoing,
    pub(super) timer: Timer,
    /// How much may be sent in this turn, in bytes.
    pub(super) quantum: usize,
    /// Whether there is more to send when the other streams have had their turn.
    pub(super) wants_turn: bool,
    /// Whether the client has to open a window first.
    pub(super) awaits_window: bool,
    /// What is left of opening a WebSocket.
    pub(super) handshake: Option<Handshake>,
    /// Whether bytes go both ways that are no body and no content.
    pub(super) is_tunnel: bool,
    /// Whether the client waits for leave to send its body.
    pub(super) expects_continue: bool,
    /// The code to cancel the stream with, unless it ends in order.
    pub(super) code: Code,
}

/// The body of a request as it comes.
#[derive(Default)]
pub(super) struct Upload {
    /// What was handed on and is read again.
    first: Bytes,
    /// What came and was not handed on yet. The stream's window bounds it.
    content: Buffer,
    received: u64,
    /// Whether all of it came.
    pub(super) is_whole: bool,
    /// What is wrong with it.
    refused: Option<Status>,
    /// The most bytes it may have, as the location says that was found first.
    limit: Option<u64>,
    /// How slowly it comes, and what limits that. It is made when the body is read for the first time.
    pace: Option<(Pace, Timer)>,
}

/// A stream as the sender of a request.
pub(super) struct StreamEnd<'a> {
    pub(super) shared: &'a mut Shared,
    pub(super) transfer: &'a mut Transfer,
    /// What the request is served by.
    pub(super) serving: &'a Rc<Serving>,
}

impl Upload {
    /// Takes what came.
    pub(super) fn add(&mut self, bytes: &[u8], ends: bool, is_wrong: bool) {
        self.received += bytes.len() as u64;
        self.is_whole |= ends;
        if is_wrong {
            self.refused = Some(Status::BAD_REQUEST);
        }
        if self.refused.is_none() {
            self.content.append(|content| content.extend_from_slice(bytes));
        }
    }

    /// Whether the body broke the rules.
    fn is_wrong(&self) -> bool {
        self.refused == Some(Status::BAD_REQUEST)
    }

    /// Whether the body broke the rules, or came too slowly.
    fn has_failed(&self) -> bool {
        self.is_wrong() || self.refused == Some(Status::REQUEST_TIMEOUT)
    }

    /// Whether the body is passed on as it comes, and the client has to send more of it.
    fn is_awaited(&self, exchange: &Exchange) -> bool {
        exchange.request.streaming.is_some() && !self.is_whole
    }

    /// Judges what came.
    fn check(&mut self, exchange: &Exchange) -> Result<(), Status> {
        if self.refused.is_none() && self.limit.is_some_and(|limit| self.received > limit) {
            self.refuse(exchange.refuse_long_body(self.received));
        }
        if self.is_wrong() && !self.content.is_empty() {
            exchange.log(Level::Info, "client sent a body of another length than it announced");
            self.refuse(Status::BAD_REQUEST);
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Reads no further.
    fn refuse(&mut self, status: Status) {
        self.refused = Some(status);
        self.content.consume(usize::MAX);
        self.content.release();
    }

    fn memory(&self) -> usize {
        self.content.capacity() + self.first.len()
    }
}

impl BodyReader for StreamEnd<'_> {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        let Transfer { stream, upload, .. } = &mut *self.transfer;
        if upload.pace.is_none() {
            let policy = &exchange.scope.policy.request_body;
            upload.limit = policy.client_max_body_size;
            upload.pace = Some((Pace::of_body(policy), self.shared.timer()));
        }
        let mut is_empty = upload.first.is_empty();
        if !is_empty {
            take(&std::mem::take(&mut upload.first));
        }
        upload.check(exchange)?;
        if !upload.content.is_empty() {
            let length = upload.content.bytes().len() as u64;
            exchange.request.length += length;
            take(upload.content.bytes());
            upload.content.consume(usize::MAX);
            upload.content.release();
            is_empty = false;
            if let Some((pace, timer)) = &mut upload.pace {
                pace.moved(length, Some(timer));
            }
        }
        if upload.is_whole {
            exchange.request.streaming = Some(Streaming::Over);
            return Poll::Ready(Ok(false));
        }
        if self.shared.machine.is_reset(*stream) {
            exchange.log(Level::Info, "client prematurely closed stream");
            return Poll::Ready(Err(Status::CLIENT_CLOSED));
        }
        self.shared.widen(*stream, UPLOAD_WINDOW);
        if !is_empty {
            exchange.request.streaming = Some(Streaming::Begun);
            return Poll::Ready(Ok(true));
        }
        let Some((pace, timer)) = &mut upload.pace else { return Poll::Pending };
        let _ = ready!(pace.limit(timer, cx, Poll::<()>::Pending));
        exchange.log(Level::Info, "client timed out (110: Connection timed out)");
        upload.refuse(Status::REQUEST_TIMEOUT);
        Poll::Ready(Err(Status::REQUEST_TIMEOUT))
    }
}

impl End for StreamEnd<'_> {
    fn interim(&mut self, exchange: &mut Exchange, status: Status, fields: &Fields) {
        if status == Status::CONTINUE && !std::mem::take(&mut self.transfer.expects_continue) {
            return;
        }
        let before = self.shared.bytes.output.bytes().len();
        self.shared.head(self.transfer.stream, false, |block| write_interim(status, fields, block));
        let length = (self.shared.bytes.output.bytes().len() - before) as u64;
        exchange.wire.head_bytes += length;
        exchange.wire.bytes += length;
    }

    fn put_back(&mut self, part: Bytes) {
        self.transfer.upload.first = part;
    }

    fn give_up_body(&mut self, _: &mut Exchange, status: Status) {
        self.transfer.upload.refuse(status);
    }

    fn settle(&mut self, exchange: &mut Exchange) -> Result<(), Status> {
        if let Some(handshake) = self.transfer.handshake.as_ref().filter(|_| exchange.error.is_none()) {
            handshake.check(exchange)?;
        }
        let upload = &mut self.transfer.upload;
        match upload.is_awaited(exchange) || exchange.error.is_some() {
            true => Ok(()),
            false => upload.check(exchange),
        }
    }

    fn head(&mut self, flow: &mut Flow, body: &Body, _: bool) -> bool {
        if let Some(handshake) = &self.transfer.handshake {
            self.transfer.is_tunnel = handshake.finish(&mut flow.exchange, body);
        }
        let has_body = has_body(&flow.exchange);
        let ends = !has_body || (matches!(body, Body::Empty) && !flow.exchange.response.expects_trailers);
        self.shared.response(self.transfer.stream, ends, flow);
        let outgoing = &mut self.transfer.outgoing;
        (outgoing.has_body, outgoing.is_ended) = (has_body, ends);
        has_body
    }

    fn has_room(&self) -> bool {
        self.transfer.outgoing.has_room()
    }

    fn give(&mut self, exchange: &mut Exchange, piece: Piece) {
        let is_cold = exchange.scope.policy.sending.aio_threads;
        self.transfer.outgoing.give(piece, if is_cold { Unknown::Cold } else { Unknown::Warm });
    }

    /// Neither the limits of a body nor its deadlines hold for a tunnel.
    fn poll_read_raw(
        &mut self,
        _: &mut Context<'_>,
        exchange: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Transfer { stream, upload, .. } = &mut *self.transfer;
        if upload.is_wrong() || self.shared.machine.is_reset(*stream) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = upload.content.take(room);
        exchange.request.length += count as u64;
        if upload.content.is_empty() && !upload.is_whole {
            self.shared.widen(*stream, UPLOAD_WINDOW);
        }
        if count > 0 || upload.is_whole { Poll::Ready(Ok(count)) } else { Poll::Pending }
    }

    fn finish(&mut self, flow: &mut Flow) {
        let outgoing = &mut self.transfer.outgoing;
        if outgoing.has_body && flow.exchange.response.expects_trailers {
            flow.end();
        }
        outgoing.is_finished = true;
    }

    fn send(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent> {
        let Transfer { stream, outgoing, quantum, wants_turn, awaits_window, .. } = &mut *self.transfer;
        let shared = &mut *self.shared;
        if shared.machine.is_reset(*stream) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let room = shared.machine.room(*stream);
        if outgoing.has_content() {
            // A file is not read ahead of its turn.
            if room == 0 {
                *awaits_window = true;
                return Ok(Sent::AwaitsClient);
            }
            // Small pieces that come while the client takes nothing leave in one frame.
            let is_held = shared.awaits_client && outgoing.may_grow();
            if is_held || *quantum == 0 || shared.bytes.output.bytes().len() >= OUTPUT_LIMIT {
                *wants_turn = true;
                return Ok(Sent::AwaitsServer);
            }
        }
        let most = limit.min(*quantum).min(room);
        let Poll::Ready(content) = outgoing.poll_bytes(cx, most) else { return Ok(Sent::AwaitsServer) };
        let has_trailers = !exchange.response.trailers.is_empty();
        let Some((bytes, is_last)) = content? else {
            if outgoing.is_finished && !std::mem::replace(&mut outgoing.is_ended, true) {
                shared.end(*stream, exchange);
            }
            return Ok(Sent::All);
        };
        let count = bytes.len().min(most);
        let ends = is_last && count == bytes.len() && !has_trailers;
        shared.data(*stream, &bytes[..count], ends, exchange);
        outgoing.sent(count);
        outgoing.is_ended |= ends;
        *quantum -= count;
        Ok(Sent::Some(count as u64))
    }

    fn discard(&mut self, _: &io::Error) {
        self.transfer.outgoing.discard();
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, lasts: bool) -> Poll<()> {
        let Transfer { stream, upload, timer, .. } = &mut *self.transfer;
        let needs_client = !lasts || upload.is_awaited(exchange);
        if needs_client && self.shared.machine.is_reset(*stream) {
            return Poll::Ready(());
        }
        // Polled only so that `wake_all` reaches this stream when a site is past.
        let _: Poll<()> = timer.poll(cx);
        Poll::Pending
    }

    fn detach(&mut self, request: Detached) {
        self.shared.client.thread().detach(request, self.serving);
    }

    fn timer(&self) -> Option<&Timer> {
        Some(&self.transfer.timer)
    }

    /// END_STREAM ends one direction only.
    fn poll_end_writing(&mut self, _: &mut Context<'_>, exchange: &mut Exchange) -> Poll<()> {
        let Transfer { stream, outgoing, .. } = &mut *self.transfer;
        if !std::mem::replace(&mut outgoing.is_ended, true) {
            self.shared.data(*stream, &[], true, exchange);
        }
        Poll::Ready(())
    }
}

impl Sender for StreamEnd<'_> {
    fn responded(&mut self, flow: &mut Flow, after: After) {
        let Transfer { stream, upload, outgoing, is_tunnel, code, .. } = &mut *self.transfer;
        if upload.has_failed() {
            *code = Code::PROTOCOL_ERROR;
        }
        if matches!(after, After::Sent) && *is_tunnel && !outgoing.has_content() && !outgoing.is_ended {
            self.shared.data(*stream, &[], true, &mut flow.exchange);
        }
    }

    fn memory(&self) -> usize {
        self.transfer.upload.memory() + self.transfer.outgoing.memory()
    }
}

/// Whether a response has content.
pub(super) fn has_body(exchange: &Exchange) -> bool {
    exchange.request.method != Method::Head && !exchange.response.status.is_bodiless()
}

impl Shared {
    /// Ends a response whose content was sent.
    fn end(&mut self, stream: u32, exchange: &mut Exchange) {
        if exchange.response.trailers.is_empty() {
            self.data(stream, &[], true, exchange);
        } else {
            let trailers = &exchange.response.trailers;
            self.head(stream, true, |block| write_trailers(trailers, block));
        }
    }

    /// Appends content.
    pub(super) fn data(&mut self, stream: u32, bytes: &[u8], ends: bool, exchange: &mut Exchange) {
        if ends {
            self.defer_end(stream, exchange);
        }
        let frame = exchange.scope.policy.http2.chunk_size;
        let content = Content { bytes, ends, frame };
        let machine = &mut self.machine;
        let before = self.bytes.output.bytes().len();
        self.bytes.output.append(|out| {
            machine.data(stream, content, out);
        });
        let length = (self.bytes.output.bytes().len() - before) as u64;
        exchange.wire.bytes += length;
        // What frames add is no content.
        exchange.wire.head_bytes += length.saturating_sub(bytes.len() as u64);
        debug_assert!(length == 0 || length >= FRAME_HEAD, "a part of a frame");
    }
}

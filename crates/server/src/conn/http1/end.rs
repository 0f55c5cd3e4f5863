//! A connection in HTTP/1 as the sender of a request: it brings the body, and encodes and sends the response.

use super::message::{Discarding, Fate, Message, Part, Reading};
use super::respond::{Answer, append_bytes, append_content, append_end, append_head};
use crate::conn::OUTPUT_LIMIT;
use crate::conn::byte_stream::ByteStream;
use crate::conn::client::Client;
use crate::conn::life::Sender;
use crate::conn::pooled::Received;
use crate::conn::response::fits_in_memory;
use crate::task_table;
use bytes::{Buf, Bytes};
use contract::{Body, BodyReader, Exchange, Piece, Streaming};
use engine::{After, Detached, End, Flow, Pace, Read, Sent, Unknown, read, warm};
use http::semantics::BodyLength;
use http::{Fields, Status, Version};
use journal::Level;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use wire::{Timer, Transport};

/// Content from this many bytes on is sent from where it is; less is copied after the head.
const SENT_IN_PLACE: usize = 16 * 1024;

/// A file of fewer bytes leaves together with its head. The kernel would split a longer one behind the head, and send the
/// rest later.
const JOINED_LIMIT: u64 = 32 * 1024;

/// How much of a file is read at once where `sendfile` is off.
const FILE_READ: usize = 64 * 1024;

/// A connection in HTTP/1 as the sender of a request.
pub(super) struct Http1End<'a> {
    pub(super) client: &'a Client,
    pub(super) bytes: &'a mut ByteStream,
    pub(super) received: &'a mut Received,
    pub(super) message: &'a mut Message,
}

impl BodyReader for Http1End<'_> {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        let mut is_empty = self.message.first.is_empty();
        if !is_empty {
            take(&std::mem::take(&mut self.message.first));
        }
        loop {
            self.message.take(&mut self.bytes.input, exchange, self.received, &mut |bytes| {
                is_empty = false;
                take(bytes);
            })?;
            if self.message.body_done {
                exchange.request.streaming = Some(Streaming::Over);
                return Poll::Ready(Ok(false));
            }
            if !is_empty {
                exchange.request.streaming = Some(Streaming::Begun);
                return Poll::Ready(Ok(true));
            }
            let read = ready!(self.poll_read(cx, exchange));
            read.inspect_err(|&status| self.give_up(exchange, status))?;
        }
    }
}

impl Http1End<'_> {
    /// Reads once, as long as the client may still take for it.
    fn poll_read(&mut self, cx: &mut Context<'_>, exchange: &Exchange) -> Poll<Result<(), Status>> {
        let policy = &exchange.scope.policy.request_body;
        let timers = &self.client.thread().timers;
        let (pace, timer) =
            self.message.pace.get_or_insert_with(|| (Pace::of_body(policy), Timer::new(timers)));
        self.bytes.poll_paced(cx, pace, timer)
    }

    /// Notes that the rest of the body never comes.
    fn give_up(&mut self, exchange: &mut Exchange, status: Status) {
        let (reason, left) = match status {
            Status::REQUEST_TIMEOUT => ("client timed out (110: Connection timed out)", false),
            _ => ("client prematurely closed connection", true),
        };
        exchange.log(Level::Info, reason);
        self.received.refuse_last(exchange, status);
        self.message.left = left;
    }

    fn is_chunked(&self) -> bool {
        self.message.answer.is_some_and(|answer| answer.chunked)
    }

    /// Writes some of the output. Where a short file follows, the kernel holds it back, so that both leave together.
    fn write(&mut self, cx: &mut Context<'_>, limit: usize) -> io::Result<Sent> {
        let ByteStream { transport, input, output, .. } = &mut *self.bytes;
        let bytes = &output.bytes()[..limit.min(output.bytes().len())];
        let content = &self.message.content[..(limit - bytes.len()).min(self.message.content.len())];
        let is_joined = self.message.part.as_ref().is_some_and(|part| part.is_joined());
        let polled = match is_joined {
            true => transport.poll_write_more(cx, bytes),
            false if content.is_empty() => transport.poll_write(cx, bytes),
            false => transport.poll_write_both(cx, bytes, content),
        };
        match input.release_if_pending(polled) {
            Poll::Ready(count) => {
                let count = count?;
                let of_content = count.saturating_sub(bytes.len());
                output.consume(count);
                output.release();
                self.message.content.advance(of_content);
                if of_content > 0 && self.message.content.is_empty() {
                    // Its memory is of use elsewhere.
                    self.message.content = Bytes::new();
                }
                Ok(Sent::Some(count as u64))
            }
            Poll::Pending => Ok(Sent::AwaitsClient),
        }
    }

    /// Sends some of the file after the output.
    fn send_part(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent> {
        let Some(part) = &mut self.message.part else { return Ok(Sent::All) };
        if part.offset >= part.end {
            self.message.part = None;
            if self.is_chunked() {
                self.bytes.output.append(|out| out.extend_from_slice(h1::CHUNK_END));
                exchange.wire.bytes += h1::CHUNK_END.len() as u64;
                return self.write(cx, limit);
            }
            return Ok(Sent::All);
        }
        if std::mem::take(&mut part.lets_others_go_first) {
            task_table::yield_turn();
            return Ok(Sent::AwaitsServer);
        }
        match part.by_kernel {
            true => part.send_file(cx, exchange, self.bytes, limit),
            false => part.read_file(cx, exchange, self.bytes),
        }
    }
}

impl Part {
    fn new(exchange: &Exchange, (file, offset, length): (std::sync::Arc<std::fs::File>, u64, u64)) -> Part {
        let policy = &exchange.scope.policy.sending;
        Part {
            file,
            offset,
            end: offset.saturating_add(length),
            unknown: if policy.aio_threads { Unknown::Cold } else { Unknown::Warm },
            by_kernel: policy.sendfile,
            chunk: if policy.sendfile_max_chunk == 0 { u64::MAX } else { policy.sendfile_max_chunk },
            warm_until: offset,
            turn_ends: offset.saturating_add(task_table::file_turn()),
            lets_others_go_first: task_table::is_busy(),
            elsewhere: None,
        }
    }

    /// Whether the head waits for the file, so that both leave together.
    fn is_joined(&self) -> bool {
        self.by_kernel && self.end.saturating_sub(self.offset) < JOINED_LIMIT
    }

    /// Sends without copying, no more than a chunk in one turn. What is not in memory another thread reads first.
    fn send_file(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        stream: &mut ByteStream,
        limit: usize,
    ) -> io::Result<Sent> {
        if let Some(Reading::Warming(reading)) = &mut self.elsewhere {
            match Pin::new(reading).poll(cx) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(Sent::AwaitsServer),
            }
            self.elsewhere = None;
        }
        if self.offset >= self.warm_until {
            self.warm_until =
                self.end.min(self.offset.saturating_add(self.chunk.min(task_table::file_turn())));
            if let Some(reading) = warm(&self.file, self.offset..self.warm_until, self.unknown)? {
                self.elsewhere = Some(Reading::Warming(reading));
                return self.send_file(cx, exchange, stream, limit);
            }
        }
        let count = usize::try_from(self.warm_until - self.offset).unwrap_or(usize::MAX).min(limit);
        let polled = stream.transport.poll_send_file(cx, &self.file, &mut self.offset, count);
        let Poll::Ready(sent) = stream.input.release_if_pending(polled) else {
            return Ok(Sent::AwaitsClient);
        };
        let sent = sent? as u64;
        exchange.wire.bytes += sent;
        if sent == 0 {
            // The file became shorter than the length that was announced.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.lets_others_go_first = self.offset < self.end;
        Ok(Sent::Some(sent))
    }

    /// Reads into the output.
    fn read_file(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        stream: &mut ByteStream,
    ) -> io::Result<Sent> {
        let count = if let Some(Reading::Bytes(reading)) = &mut self.elsewhere {
            let Poll::Ready(bytes) = Pin::new(reading).poll(cx) else { return Ok(Sent::AwaitsServer) };
            self.elsewhere = None;
            let bytes = bytes?;
            stream.output.append(|out| out.extend_from_slice(&bytes));
            bytes.len()
        } else {
            let wanted = usize::try_from(self.end - self.offset).unwrap_or(FILE_READ).min(FILE_READ);
            let room = &mut stream.output.room(wanted)[..wanted];
            match read(&self.file, room, self.offset, self.unknown)? {
                Read::Bytes(count) => {
                    stream.output.grew(count);
                    count
                }
                Read::Elsewhere(reading) => {
                    self.elsewhere = Some(Reading::Bytes(reading));
                    return self.read_file(cx, exchange, stream);
                }
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.offset, exchange.wire.bytes) = (self.offset + count as u64, exchange.wire.bytes + count as u64);
        if self.offset >= self.turn_ends && self.offset < self.end {
            self.lets_others_go_first = true;
            self.turn_ends = self.offset.saturating_add(task_table::file_turn());
        }
        // Nothing was sent yet, and there is something to send.
        Ok(Sent::Some(0))
    }
}

impl End for Http1End<'_> {
    fn interim(&mut self, exchange: &mut Exchange, status: Status, fields: &Fields) {
        let is_understood = match status {
            Status::CONTINUE => std::mem::take(&mut self.received.framing.expect_continue),
            _ => exchange.request.head.version >= Version::Http11,
        };
        if is_understood {
            let output = &mut self.bytes.output;
            let before = output.bytes().len();
            output.append(|out| h1::encode_interim(out, status, fields));
            let length = (output.bytes().len() - before) as u64;
            exchange.wire.head_bytes += length;
            exchange.wire.bytes += length;
        }
    }

    fn put_back(&mut self, part: Bytes) {
        self.message.first = part;
    }

    fn give_up_body(&mut self, exchange: &mut Exchange, status: Status) {
        self.received.refuse_last(exchange, status);
    }

    fn settle(&mut self, exchange: &mut Exchange) -> Result<(), Status> {
        // What is passed on as it comes belongs to the task or the source that takes it.
        match self.message.is_awaited(exchange) {
            true => Ok(()),
            false => self.message.skip(&mut self.bytes.input, exchange, self.received).map(drop),
        }
    }

    fn take_whole(&mut self, flow: &mut Flow, body: &Body) -> bool {
        if !fits_in_memory(body) || stays(&self.bytes.transport, body) {
            return false;
        }
        self.head(flow, body, false);
        if let Some(answer) = &self.message.answer {
            append_content(&mut self.bytes.output, flow, answer, body);
        }
        true
    }

    fn head(&mut self, flow: &mut Flow, body: &Body, is_limited: bool) -> bool {
        // An error needs no body, so that the client is not told to send one.
        let is_error = flow.exchange.error.is_some();
        if self.received.framing.body != BodyLength::None && !is_error {
            self.interim(&mut flow.exchange, Status::CONTINUE, &Fields::new());
        }
        // The server may have been told to stop, or to serve another site, while the request waited.
        flow.exchange.wire.keep_alive &= !self.client.is_leaving();
        let answer = Answer::new(flow);
        if !answer.keep_alive && !is_limited && body.pieces().is_some_and(has_file) {
            // The last bytes of the file leave with the end of the connection; a failure costs a segment.
            self.bytes.is_held = self.bytes.transport.hold_until_end().is_ok();
        }
        append_head(&mut self.bytes.output, flow, &answer);
        self.message.answer = Some(answer);
        self.message.is_tunnel = matches!(body, Body::Tunnel(_));
        if self.message.is_tunnel {
            // A tunnel holds no memory while it waits.
            self.bytes.input.release();
        }
        answer.has_body
    }

    fn has_room(&self) -> bool {
        let is_free = self.message.part.is_none() && self.message.content.is_empty();
        is_free && self.bytes.output.bytes().len() < OUTPUT_LIMIT
    }

    fn give(&mut self, exchange: &mut Exchange, piece: Piece) {
        let may_stay = !self.is_chunked()
            && !self.message.is_tunnel
            && self.message.content.is_empty()
            && self.bytes.transport.is_plain();
        let output = &mut self.bytes.output;
        let before = output.bytes().len();
        match piece {
            Piece::Bytes(bytes) if may_stay && bytes.len() >= SENT_IN_PLACE => {
                exchange.wire.bytes += bytes.len() as u64;
                self.message.content = bytes;
            }
            Piece::Bytes(bytes) => append_bytes(output, self.message.answer.as_ref(), &bytes),
            Piece::File { length: 0, .. } => {}
            Piece::File { file, offset, length } => {
                if self.message.answer.is_some_and(|answer| answer.chunked) {
                    output.append(|out| h1::encode_chunk_head(length, out));
                }
                self.message.part = Some(Box::new(Part::new(exchange, (file, offset, length))));
            }
        }
        exchange.wire.bytes += (output.bytes().len() - before) as u64;
    }

    #[inline]
    fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        _: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.bytes.poll_read_raw(cx, room)
    }

    #[inline]
    fn poll_write_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_unsent() {
            return Poll::Pending;
        }
        self.bytes.poll_write_raw(cx, exchange, bytes)
    }

    fn finish(&mut self, flow: &mut Flow) {
        if let Some(answer) = &self.message.answer {
            append_end(&mut self.bytes.output, flow, answer);
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent> {
        if !self.bytes.output.is_empty() || !self.message.content.is_empty() {
            return self.write(cx, limit);
        }
        let sent = self.send_part(cx, exchange, limit);
        if let Ok(Sent::All) = sent {
            self.bytes.output.release();
        }
        sent
    }

    fn has_unsent(&self) -> bool {
        !self.bytes.output.is_empty() || !self.message.content.is_empty() || self.message.part.is_some()
    }

    fn discard(&mut self, why: &io::Error) {
        self.bytes.reset_if_timed_out(why, &self.client.default_policy().lingering);
        self.bytes.output.consume(usize::MAX);
        (self.message.content, self.message.part) = (Bytes::new(), None);
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, lasts: bool) -> Poll<()> {
        // A request that waits holds no memory for the next one.
        self.bytes.input.release();
        let is_awaited = self.message.is_awaited(exchange);
        let polled = match is_awaited {
            // Nothing is there of the rest of the body, and nothing will come.
            true => match self.bytes.transport.poll_peek(cx, &mut [0]) {
                Poll::Ready(Ok(1..)) | Poll::Pending => Poll::Pending,
                // What cannot be waited for is as good as gone.
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            },
            // What the client sent before, such as a further request, stays where it is and does not hide its end.
            false if lasts => Poll::Pending,
            false => self.bytes.transport.poll_ended(cx).map(drop),
        };
        if polled.is_ready() && is_awaited {
            self.give_up(exchange, Status::CLIENT_CLOSED);
        }
        if polled.is_pending() {
            // Polled only so that `wake_all` reaches this connection: when a site is past, or places are scarce.
            let _: Poll<()> = self.client.timer.poll(cx);
        }
        polled
    }

    fn detach(&mut self, request: Detached) {
        self.client.detach(request);
    }

    fn timer(&self) -> Option<&Timer> {
        Some(&self.client.timer)
    }

    fn poll_end_writing(&mut self, cx: &mut Context<'_>, _: &mut Exchange) -> Poll<()> {
        // A connection that is broken already is noticed by the next read.
        self.bytes.transport.poll_shutdown_write(cx).map(drop)
    }
}

impl Sender for Http1End<'_> {
    fn responded(&mut self, flow: &mut Flow, after: After) {
        let exchange = &mut flow.exchange;
        match after {
            After::Sent => self.take_rest(exchange),
            After::Cut(error) => {
                self.message.fate = Fate::Broken(error);
                self.subtract_unsent(exchange);
            }
            After::Closed | After::Taken | After::Passed => {
                if self.message.left {
                    exchange.response.status = Status::BAD_REQUEST;
                }
                self.message.fate = Fate::Refused;
            }
        }
    }

    /// Skips the rest of the request's body, so that the connection can be kept.
    fn poll_rest(&mut self, cx: &mut Context<'_>, flow: &mut Flow) -> Poll<()> {
        let exchange = &mut flow.exchange;
        while let Some(Discarding { started, pace }) = &mut self.message.discarding {
            let policy = &exchange.scope.policy.lingering;
            let left = policy.time.saturating_sub(started.elapsed());
            let is_over = left.is_zero() || self.client.thread().places.are_wanted();
            let read = match is_over {
                true => Err(Status::CLIENT_CLOSED),
                false => ready!(self.bytes.poll_paced(cx, pace, &self.client.timer)),
            };
            let started = *started;
            let skipped =
                read.and_then(|()| self.message.skip(&mut self.bytes.input, exchange, self.received));
            self.message.discarding = None;
            match skipped {
                Ok(false) if self.received.refused.is_none() => self.discard_from(started, exchange),
                Ok(true) => {}
                Ok(false) | Err(_) => self.message.fate = Fate::Ended,
            }
        }
        Poll::Ready(())
    }

    fn memory(&self) -> usize {
        self.bytes.memory() + self.message.content.len()
    }
}

impl Http1End<'_> {
    /// Begins to take the rest of a request whose response was sent.
    fn take_rest(&mut self, exchange: &mut Exchange) {
        if self.message.is_tunnel {
            // What is left was counted and never went.
            let unsent = self.bytes.output.bytes().len() as u64;
            exchange.wire.bytes = exchange.wire.bytes.saturating_sub(unsent);
            self.bytes.output.consume(usize::MAX);
        }
        // A client that is answered before it has sent its body learns by the end that the rest is not wanted.
        let is_cut_short = self.message.is_awaited(exchange);
        let keep_alive = self.message.answer.is_some_and(|answer| answer.keep_alive);
        if !keep_alive || self.message.is_tunnel || is_cut_short {
            self.message.fate = Fate::Ended;
            return;
        }
        match self.message.skip(&mut self.bytes.input, exchange, self.received) {
            Ok(true) => {}
            Ok(false) if self.received.refused.is_none() => self.discard_from(Instant::now(), exchange),
            Ok(false) | Err(_) => self.message.fate = Fate::Ended,
        }
    }

    /// Waits for more of the body, which is skipped since this moment.
    fn discard_from(&mut self, started: Instant, exchange: &Exchange) {
        let policy = &exchange.scope.policy.lingering;
        let left = policy.time.saturating_sub(started.elapsed());
        let pace = Pace::new(policy.timeout.min(left), 0);
        self.message.discarding = Some(Discarding { started, pace });
    }

    /// The log counts no bytes that do not leave any more.
    pub(super) fn subtract_unsent(&self, exchange: &mut Exchange) {
        let unsent = (self.bytes.output.bytes().len() + self.message.content.len()) as u64;
        exchange.wire.bytes = exchange.wire.bytes.saturating_sub(unsent);
    }
}

/// Whether a body is long enough to be sent from where it is.
pub(super) fn stays(transport: &Transport, body: &Body) -> bool {
    transport.is_plain() && body.length().is_some_and(|length| length >= SENT_IN_PLACE as u64)
}

/// Whether a part of the content is in a file.
fn has_file(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::File { .. }))
}

//! The content of a server's response, on its way to the client: straight through, or taken from the
//! server as fast as it comes and kept in memory, and then in a file, until the client takes it.

use super::Conversation;
use crate::call::Call;
use crate::dialogue::{Decoded, Dialogue, Remarks};
use crate::failure::{Failure, READING};
use crate::kind::Kind;
use crate::line::{Line, Sent};
use crate::patience::Wait;
use crate::settings::Settings;
use crate::sticky::Learns;
use bytes::Bytes;
use contract::{Body, Exchange, Outcome, Piece, Pull, Source, Tunnel, Turn};
use journal::Level;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Instant;
use wire::memory::{self, Held};
use wire::{Spool, Throttle, Trickle};

/// How much one call reads of content.
const CONTENT_READ: usize = 64 * 1024;

/// The content cannot be completed.
#[derive(Clone, Copy)]
struct Cut;

/// What was read of a response and not sent yet.
#[derive(Default)]
pub(super) struct Content {
    /// Whether the server need not wait for the client.
    is_buffered: bool,
    pieces: VecDeque<Piece>,
    /// How many bytes of the pieces are in memory.
    in_memory: usize,
    spool: Option<Spool>,
    /// What follows the pieces and found no room.
    overflow: Bytes,
    /// Whether all was read, or no more can be.
    end: Option<Result<(), Cut>>,
    held: Held,
    /// How fast more is read, if that is limited.
    throttle: Option<Box<Throttle>>,
    /// Collects small pieces of what is buffered.
    trickle: Trickle,
}

impl Content {
    /// The next piece that is there.
    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front();
        if let Some(Piece::Bytes(bytes)) = &piece {
            self.in_memory = self.in_memory.saturating_sub(bytes.len());
            self.held.set(self.in_memory);
        }
        let overflow =
            || (!self.overflow.is_empty()).then(|| Piece::Bytes(std::mem::take(&mut self.overflow)));
        piece.or_else(overflow)
    }

    /// Takes note of so many bytes that were read.
    fn read(&mut self, count: usize) {
        if let Some(throttle) = &mut self.throttle {
            throttle.moved(count as u64, Instant::now());
        } else if self.is_buffered {
            self.trickle.moved(count);
        }
    }

    /// Memory is for what comes first: after a part in a file everything goes there.
    fn room_in_memory(&self, settings: &Settings) -> usize {
        match self.pieces.back() {
            // What is buffered goes to a file where memory is scarce.
            _ if memory::is_scarce() => 0,
            Some(Piece::File { .. }) => 0,
            _ => settings.buffers.in_memory.saturating_sub(self.in_memory),
        }
    }

    fn room_in_file(&self, settings: &Settings) -> u64 {
        let used = self.spool.as_ref().map_or(0, Spool::length);
        settings.buffers.in_file.saturating_sub(used)
    }

    /// Keeps the overflow, as much of it as there is room for.
    fn keep(&mut self, settings: &Settings) -> io::Result<()> {
        let in_memory = self.room_in_memory(settings).min(self.overflow.len());
        if in_memory > 0 {
            self.pieces.push_back(Piece::Bytes(self.overflow.split_to(in_memory)));
            self.in_memory += in_memory;
        }
        let room = usize::try_from(self.room_in_file(settings)).unwrap_or(usize::MAX);
        let part = self.overflow.split_to(room.min(self.overflow.len()));
        if part.is_empty() { Ok(()) } else { self.spool(&part, settings) }
    }

    fn spool(&mut self, part: &Bytes, settings: &Settings) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(Spool::new(&settings.buffers.directory)?),
        };
        let offset = spool.append(part)?;
        match self.pieces.back_mut() {
            Some(Piece::File { length, .. }) => *length += part.len() as u64,
            _ => {
                let file = Arc::clone(spool.file());
                self.pieces.push_back(Piece::File { file, offset, length: part.len() as u64 });
            }
        }
        Ok(())
    }
}

impl<D: Dialogue> Conversation<D> {
    /// The content of the answer as the body of the response. With `is_buffered` the server need not wait for the client.
    pub fn into_body(mut self: Box<Self>, exchange: &mut Exchange, is_buffered: bool) -> Body {
        self.content.is_buffered = is_buffered;
        self.limit(exchange);
        let mut first = None;
        loop {
            match self.next_there(exchange) {
                Ok(Decoded::Last(bytes)) if first.is_none() => {
                    self.leave(exchange);
                    return Body::Piece(Piece::Bytes(bytes));
                }
                Ok(Decoded::Data(bytes)) if first.is_none() => first = Some(Piece::Bytes(bytes)),
                Ok(Decoded::Data(bytes)) => self.content.pieces.push_back(Piece::Bytes(bytes)),
                Ok(end @ (Decoded::End | Decoded::Last(_))) => {
                    let mut rest = std::mem::take(&mut self.content.pieces);
                    if let Decoded::Last(bytes) = end {
                        rest.push_back(Piece::Bytes(bytes));
                    }
                    // A protocol that says so with the head has no end of content to pass on.
                    let is_empty = first.is_none() && self.dialogue.is_whole();
                    self.leave(exchange);
                    return if is_empty { Body::Empty } else { whole(first, rest) };
                }
                Ok(Decoded::More) => break,
                Err(cut) => {
                    self.content.end = Some(Err(cut));
                    break;
                }
            }
        }
        first.into_iter().for_each(|first| self.content.pieces.push_front(first));
        let pieces = self.content.pieces.iter();
        self.content.in_memory = pieces.map(|piece| usize::try_from(piece.length()).unwrap_or(0)).sum();
        Body::Source(self)
    }

    /// Limits how fast the content is read, of which a part may be there.
    fn limit(&mut self, exchange: &Exchange) {
        let rate = self.call.settings.limit_rate.as_ref().filter(|_| self.content.is_buffered);
        let Some(rate) = rate else { return };
        let now = Instant::now();
        self.content.throttle = Throttle::new(rate.evaluate(exchange), 0, now).map(Box::new);
        if let (Some(throttle), Some(line)) = (&mut self.content.throttle, &self.line) {
            throttle.moved(line.input.bytes().len() as u64, now);
        }
    }

    /// The answer without its content, of which so many bytes are known to have come, if any.
    pub fn without_content(mut self: Box<Self>, exchange: &Exchange, length: Option<usize>) {
        if let (Some(line), Some(length)) = (self.line.take(), length) {
            line.content_arrived(length + line.input.bytes().len());
        }
        self.leave(exchange);
    }

    /// The connection changes its protocol.
    pub fn take_tunnel(&mut self) -> Option<Tunnel> {
        let idle = self.call.settings.timeouts.read;
        self.line.take().and_then(|line| line.into_tunnel(idle))
    }

    /// The next content that was read; at its end the connection is given back.
    fn next_there(&mut self, exchange: &mut Exchange) -> Result<Decoded, Cut> {
        let Conversation { line: Some(line), dialogue, call, .. } = self else { return Ok(Decoded::End) };
        let before = line.input.bytes().len();
        let url = || call.url(line.lease.server());
        let remarks = Remarks::new(exchange, &url);
        let decoded = dialogue.read_content(&mut line.input, &remarks);
        // With what frames the content; what came with the head is not in the input any more.
        let taken = before - line.input.bytes().len();
        let length = match &decoded {
            Ok(Decoded::Data(bytes) | Decoded::Last(bytes)) => bytes.len().max(taken),
            _ => taken,
        };
        line.content_arrived(length);
        match decoded {
            Ok(end @ (Decoded::End | Decoded::Last(_))) => {
                self.take_trailers(exchange);
                self.end(exchange, self.dialogue.keeps_connection());
                Ok(end)
            }
            Ok(decoded) => Ok(decoded),
            Err(message) => Err(self.cut(exchange, &Failure::invalid(message))),
        }
    }

    /// Keeps the fields after the content for variables, and passes them on, but for those of the connection and of framing.
    fn take_trailers(&self, exchange: &mut Exchange) {
        let Some(trailers) = self.dialogue.trailers().filter(|trailers| !trailers.is_empty()) else { return };
        self.call.attempts.set_trailers(trailers);
        if !self.dialogue.passes_trailers() {
            return;
        }
        for field in trailers.iter() {
            let kind = Kind::of(&field);
            let is_dropped = matches!(kind, Kind::Own | Kind::Upgrade);
            if !is_dropped && !self.call.settings.hidden.has_field(kind, &field) {
                // A field that breaks the rules cannot have been parsed.
                let _ = exchange.response.trailers.push(field.name, field.value);
                exchange.response.expects_trailers = true;
            }
        }
    }

    /// Reads once, and sends what is left of the request.
    fn poll_more(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Cut>> {
        let Conversation { line: Some(line), dialogue, call, patience, content, .. } = self else {
            return Poll::Ready(Ok(()));
        };
        let sent = match line.poll_send(turn, dialogue) {
            Ok(sent) => sent,
            Err(_) => return Poll::Ready(Err(self.give_up())),
        };
        if content.trickle.poll_pause(turn.cx).is_pending() {
            patience.clear();
            return Poll::Pending;
        }
        let polled = match &mut content.throttle {
            None => line.poll_read(turn.cx, dialogue, CONTENT_READ),
            Some(throttle) => match throttle.poll_allowance(turn.cx) {
                Poll::Ready(allowance) => line.poll_read_most(turn.cx, dialogue, allowance.min(CONTENT_READ)),
                // It is not the server that is waited for.
                Poll::Pending => {
                    patience.clear();
                    return Poll::Pending;
                }
            },
        };
        if let Poll::Ready(Ok(count)) = &polled {
            content.read(*count);
        }
        let read = match polled {
            Poll::Ready(read) => read,
            Poll::Pending if sent == Sent::AwaitsClient => {
                patience.moved();
                return Poll::Pending;
            }
            Poll::Pending => {
                let timed_out = ready!(patience.poll(turn.cx, Wait::Read, call.settings.timeouts.read));
                line.note_silence();
                timed_out.and(Err(io::ErrorKind::TimedOut.into()))
            }
        };
        patience.moved();
        Poll::Ready(match read {
            Ok(0) | Err(_) if dialogue.is_whole() => {
                self.end(turn.exchange, false);
                Ok(())
            }
            Ok(0) if dialogue.ends_with_connection() => {
                if line.ended_unannounced() {
                    let message =
                        "upstream ended the response without a TLS close_notify while reading upstream";
                    log(call, line, turn.exchange, Level::Info, message);
                    call.attempts.note(|attempt| attempt.may_be_cut = true);
                }
                self.end(turn.exchange, false);
                Ok(())
            }
            Ok(0) => Err(self.cut(turn.exchange, &Failure::premature(READING))),
            Ok(_) => Ok(()),
            Err(error) => Err(self.cut(turn.exchange, &Failure::io("recv", &error, READING))),
        })
    }

    /// Reads as much as there is room for.
    fn fill(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Cut> {
        while self.content.end.is_none() {
            let was_in_memory = self.content.spool.is_none();
            if let Err(error) = self.content.keep(&self.call.settings) {
                let path = self.call.settings.buffers.directory.display();
                self.log(
                    turn.exchange,
                    Level::Crit,
                    &format!("a response cannot be kept in \"{path}\" ({error})"),
                );
                return Err(self.give_up());
            }
            if was_in_memory && self.content.spool.is_some() {
                let path = self.call.settings.buffers.directory.display();
                let what = "an upstream response is buffered to a temporary file";
                self.log(turn.exchange, Level::Warn, &format!("{what} in {path} while reading upstream"));
            }
            self.content.held.set(self.content.in_memory + self.content.overflow.len());
            if !self.content.overflow.is_empty() {
                break;
            }
            match self.next_there(turn.exchange)? {
                Decoded::Data(bytes) => self.content.overflow = bytes,
                Decoded::End => self.content.end = Some(Ok(())),
                Decoded::Last(bytes) => {
                    (self.content.overflow, self.content.end) = (bytes, Some(Ok(())));
                    self.content.held.set(self.content.in_memory + self.content.overflow.len());
                }
                Decoded::More => match self.poll_more(turn) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => break,
                },
            }
        }
        Ok(())
    }

    /// The content is whole.
    fn end(&mut self, exchange: &Exchange, reusable: bool) {
        self.patience.clear();
        if let Some(line) = &mut self.line {
            if !line.input.is_empty() {
                let message = "upstream sent more data than its response has while reading upstream";
                log(&self.call, line, exchange, Level::Warn, message);
            }
            line.lease.learn(exchange, self.choice.session(), Learns::AtEnd);
            line.finish(&mut self.dialogue, reusable, self.call.tag);
            self.line = None;
        }
    }

    fn cut(&mut self, exchange: &Exchange, failure: &Failure) -> Cut {
        self.log(exchange, Level::Error, &failure.message);
        self.give_up()
    }

    fn give_up(&mut self) -> Cut {
        self.patience.clear();
        self.line = None;
        Cut
    }

    fn log(&self, exchange: &Exchange, level: Level, message: &str) {
        if let Some(line) = &self.line {
            log(&self.call, line, exchange, level, message);
        }
    }
}

fn log(call: &Call, line: &Line, exchange: &Exchange, level: Level, message: &str) {
    exchange.request_log().write(level, message, Some(&call.url(line.lease.server())));
}

/// A body that is there.
fn whole(first: Option<Piece>, rest: VecDeque<Piece>) -> Body {
    match (first, rest.is_empty()) {
        (Some(piece), true) => Body::Piece(piece),
        (first, _) => Body::Pieces(first.into_iter().chain(rest).collect()),
    }
}

impl<D: Dialogue> Source for Conversation<D> {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if let Some(piece) = self.content.pop() {
                return Pull::Piece(piece);
            }
            match self.content.end {
                Some(Ok(())) => return Pull::End,
                Some(Err(Cut)) => return Pull::Failed,
                None => {}
            }
            let step = match self.next_there(turn.exchange) {
                Ok(Decoded::Data(bytes)) => return Pull::Piece(Piece::Bytes(bytes)),
                Ok(Decoded::Last(bytes)) => {
                    self.content.end = Some(Ok(()));
                    return Pull::Piece(Piece::Bytes(bytes));
                }
                Ok(Decoded::End) => {
                    self.content.end = Some(Ok(()));
                    continue;
                }
                Ok(Decoded::More) => self.poll_more(turn),
                Err(cut) => Poll::Ready(Err(cut)),
            };
            match step {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(cut)) => self.content.end = Some(Err(cut)),
                Poll::Pending => return Pull::Pending { lasts: self.call.settings.ignore_client_abort },
            }
        }
    }

    fn resume(&mut self, _: Outcome) {}

    fn finish(self: Box<Self>, exchange: &Exchange) {
        self.leave(exchange);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if self.content.is_buffered
            && let Err(cut) = self.fill(turn)
        {
            self.content.end = Some(Err(cut));
        }
    }
}

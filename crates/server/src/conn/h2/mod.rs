//! A connection in HTTP/2: several requests at a time, each a stream.
//!
//! Only the connection writes frames. A stream that has something to send is polled in its turn, and adds a bounded amount to
//! the connection's buffer, which leaves in one write. A stream that waits is woken by itself.

mod end;
mod outgoing;
mod shared;
mod starting;
mod stream;
mod turns;
mod wakers;
mod websocket;

use super::OUTPUT_LIMIT;
use super::byte_stream::{ByteStream, READ_SIZE};
use super::client::{Client, ON_ITS_WAY};
use super::exchange::{self, Arrival};
use super::pooled::PooledRequest;
use super::response::fits_in_memory;
use bytes::Bytes;
use contract::{Body, Piece};
use end::{Transfer, Upload, has_body};
use engine::{Pace, Progress};
use http::{HeadError, Status};
use http2::{Code, Event, Failure, Limits, PREFACE, Priority, read_request};
use journal::Level;
use journal::clock::Time;
use journal::counters::{self, Count};
use journal::shares;
use outgoing::Outgoing;
use shared::Shared;
use starting::{rules, start};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use stream::{Stream, TURN};
use turns::Turns;
use wakers::Woken;
use websocket::Handshake;

/// How often a turn goes around before other connections have theirs.
const ROUNDS: usize = 32;

/// How many requests are pooled in a turn. Their answers of about one kilobyte leave in one write.
const TURN_REQUESTS: usize = 64;

/// How long the rest of a request is awaited that was answered already.
const REST_ON_ITS_WAY: Duration = Duration::from_millis(200);

/// How long the heads of all requests in progress may be together, in bytes. A client that opens more streams repeats them
/// later. A few bytes can stand for a long head (RFC 7541, section 7.3).
const HEADS_MAX: usize = 1024 * 1024;

/// What a second without a flood earns a client.
const EARNED_PER_SECOND: u32 = 100;

/// A connection in HTTP/2.
pub(crate) struct Multiplexed {
    shared: Shared,
    /// The requests in progress, the oldest first.
    #[expect(clippy::vec_box, reason = "the others move when one ends")]
    streams: Vec<Box<Stream>>,
    /// How long the heads of these requests are together, in bytes.
    heads: usize,
    /// The streams that have something to do.
    queue: VecDeque<u32>,
    /// The streams that have content to send and wait for their turn.
    turns: Turns,
    /// The streams that wait for a window. The stream that has waited longest goes first.
    blocked: VecDeque<u32>,
    woken: Arc<Woken>,
    /// How slowly the client takes what is sent.
    pace: Pace,
    stage: Stage,
    /// How many requests were pooled in this turn.
    pooled: usize,
    /// When the client was last given back some of its budget.
    earned_at: Instant,
    /// Until when requests are awaited that may be on their way, where the connection is to end.
    leaves_at: Option<Instant>,
    /// Until when the rest of requests is awaited that were answered already.
    discards_at: Option<Instant>,
    /// Since when the next request is waited for, and for how long, while no request is in progress.
    waits: Option<(Instant, Duration)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The client broke the rules, and gets the reason.
    Failed,
    /// The client is gone.
    Lost,
}

/// How a connection ends.
pub(crate) enum Ended {
    /// What is left to write is written.
    Closing,
    Closed,
}

/// What a client begins with, as far as that is known.
pub(super) enum Beginning {
    Http1,
    Http2,
    /// The first bytes are those of the preface.
    Unknown,
}

/// Whether a client in clear begins with the preface of HTTP/2 (RFC 9113, section 3.3).
pub(super) fn beginning(input: &[u8]) -> Beginning {
    let seen = &input[..input.len().min(PREFACE.len())];
    match PREFACE.starts_with(seen) {
        true if seen.len() == PREFACE.len() => Beginning::Http2,
        true => Beginning::Unknown,
        false => Beginning::Http1,
    }
}

impl Multiplexed {
    pub(super) fn new(client: Client, mut bytes: ByteStream) -> Multiplexed {
        let policy = client.default_policy();
        let (count, size) = policy.head.large_client_header_buffers;
        let limits = Limits {
            streams: policy.http2.max_concurrent_streams,
            window: policy.http2.body_preread_size,
            list_size: count.saturating_mul(size),
            field_size: size,
        };
        let pace = Pace::new(policy.sending.send_timeout, 0);
        let mut machine = None;
        bytes.output.append(|out| machine = Some(http2::Connection::new(limits, out)));
        let machine = machine.unwrap_or_else(|| http2::Connection::new(limits, &mut Vec::new()));
        Multiplexed {
            shared: Shared { client, bytes, machine, awaits_client: false },
            streams: Vec::new(),
            heads: 0,
            queue: VecDeque::new(),
            turns: Turns::default(),
            blocked: VecDeque::new(),
            woken: Arc::default(),
            pace,
            stage: Stage::Open,
            pooled: 0,
            earned_at: Time::now().instant,
            leaves_at: None,
            discards_at: None,
            waits: None,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Logs the requests that end before their responses were sent.
    pub(crate) fn cut_off(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.cut_off());
    }

    pub(super) fn into_parts(self) -> (Client, ByteStream) {
        (self.shared.client, self.shared.bytes)
    }

    /// Since when no request is in progress, in milliseconds of uptime.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        self.waits.and_then(|_| self.shared.client.idle_since_ms())
    }

    /// Closes the connection when it is polled next, unless a request arrived meanwhile.
    pub(crate) fn close_if_idle(&mut self) {
        self.shared.client.idle.closes = true;
    }

    /// Goes on; ready when the connection ends.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.woken.set_connection(cx);
        self.shared.client.adopt_current_site();
        self.pooled = 0;
        // Checked before the loop, so that a connection that is never idle also ends when it has to.
        self.leave();
        for _ in 0..ROUNDS {
            let mut has_moved = self.stage == Stage::Open && self.read(cx);
            has_moved |= self.serve();
            has_moved |= self.write(cx);
            if shares::yields() {
                break;
            }
            if has_moved && self.pooled < TURN_REQUESTS {
                continue;
            }
            if has_moved {
                break;
            }
            match self.rest(cx) {
                Rest::Again => {}
                Rest::Waits => return Poll::Pending,
                Rest::Ended(ended) => return Poll::Ready(ended),
            }
        }
        // There is more to do, and no event announces it: ask for another turn, after those of other connections.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads frames, and acts on them. Returns whether there were any.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_read = self.read_frames();
        if self.stage != Stage::Open || self.has_enough() {
            return has_read;
        }
        match self.shared.bytes.poll_read(cx) {
            Poll::Ready(Ok(1..)) => {
                has_read = true;
                self.replenish();
                self.read_frames();
            }
            Poll::Ready(Ok(0) | Err(_)) => {
                self.lose(Stage::Lost);
                has_read = true;
            }
            Poll::Pending => self.shared.bytes.input.shrink(),
        }
        has_read
    }

    /// Whether other work comes first: answers pile up, or other connections wait.
    fn has_enough(&self) -> bool {
        self.shared.bytes.output.bytes().len() >= OUTPUT_LIMIT
            || self.pooled >= TURN_REQUESTS
            || shares::yields()
    }

    fn read_frames(&mut self) -> bool {
        let thread = Rc::clone(self.shared.client.thread());
        let mut has_read = false;
        while !self.shared.bytes.input.is_empty() && !self.has_enough() {
            let Shared { bytes, machine, .. } = &mut self.shared;
            let ByteStream { input, output, .. } = bytes;
            let mut read = Ok(http2::Read { consumed: 0, event: None });
            output.append(|out| {
                read = machine.read(input.bytes(), &mut thread.header_list.borrow_mut(), out);
            });
            output.release();
            match read {
                Ok(http2::Read { consumed: 0, event: None }) => break,
                Ok(http2::Read { consumed, event }) => {
                    if let Some(event) = event {
                        self.act(event);
                    }
                    self.shared.bytes.input.consume(consumed);
                    has_read = true;
                }
                Err(failure) => {
                    self.fail(failure);
                    return true;
                }
            }
        }
        self.shared.bytes.input.release();
        has_read
    }

    /// A client that sends something useless now and then is no danger.
    fn replenish(&mut self) {
        let now = Time::now().instant;
        let seconds = now.saturating_duration_since(self.earned_at).as_secs();
        if seconds > 0 {
            self.earned_at = now;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            self.shared.machine.earn(seconds.saturating_mul(EARNED_PER_SECOND));
        }
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Request { stream, ends, length } => self.begin(stream, ends, length),
            Event::Data { stream, bytes, ends, is_wrong } => {
                let Some(place) = self.place(stream) else { return };
                let bytes = &self.shared.bytes.input.bytes()[bytes];
                self.streams[place].transfer.upload.add(bytes, ends, is_wrong);
                self.enqueue(place);
            }
            Event::Trailers { stream, is_wrong } => {
                let Some(place) = self.place(stream) else { return };
                self.streams[place].transfer.upload.add(&[], true, is_wrong);
                self.enqueue(place);
            }
            Event::Reset { stream, .. } => {
                if let Some(place) = self.place(stream) {
                    self.enqueue(place);
                }
            }
            Event::Window { stream: 0 } => self.unblock(),
            Event::Window { stream } => {
                if let Some(place) = self.place(stream)
                    && self.streams[place].transfer.awaits_window
                {
                    self.enqueue(place);
                }
            }
            Event::Priority { stream, priority } => {
                let Some(place) = self.place(stream) else { return };
                self.streams[place].transfer.priority = priority;
                self.turns.change(stream, priority);
            }
            Event::Goaway { .. } | Event::Response { .. } => {}
        }
    }

    fn place(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |other| other.transfer.stream).ok()
    }

    fn enqueue(&mut self, place: usize) {
        let stream = &mut self.streams[place];
        if !std::mem::replace(&mut stream.is_queued, true) {
            self.queue.push_back(stream.transfer.stream);
        }
    }

    /// The streams that wait for a window have their turns. A small window of the connection serves all of them.
    fn unblock(&mut self) {
        while let Some(stream) = self.blocked.pop_front() {
            let Some(place) = self.place(stream) else { continue };
            self.streams[place].is_blocked = false;
            if self.streams[place].transfer.awaits_window {
                self.await_turn(place);
            }
        }
    }

    fn await_turn(&mut self, place: usize) {
        let stream = &mut self.streams[place];
        if !std::mem::replace(&mut stream.awaits_turn, true) {
            self.turns.add(stream.transfer.stream, stream.transfer.priority);
        }
    }

    /// Refuses a request whose head is too much together with those of the other requests in progress. Returns whether it
    /// was refused.
    fn refuse(&mut self, stream: u32, head_size: usize) -> bool {
        if self.streams.is_empty() || self.heads + head_size <= HEADS_MAX {
            return false;
        }
        let Shared { bytes, machine, .. } = &mut self.shared;
        let mut refused = Ok(());
        bytes.output.append(|out| refused = machine.refuse(stream, out));
        self.shared.log(Level::Info, "client sent too long headers in concurrent streams");
        if let Err(failure) = refused {
            self.fail(failure);
        }
        true
    }

    /// Begins a request: answers it at once if its answer is in memory, else makes it a stream in progress.
    fn begin(&mut self, stream: u32, ends: bool, length: usize) {
        self.pooled += 1;
        let head_size = self.shared.client.thread().header_list.borrow().size();
        if self.refuse(stream, head_size) {
            return;
        }
        self.waits = None;
        let client = &mut self.shared.client;
        (client.idle.waits, client.idle.closes) = (false, false);
        client.timer.clear();
        counters::add(Count::Requests);
        client.counted.activity.answers();
        let mut pooled = exchange::unread(client);
        let at = Time::now();
        let rules = rules(&client.default_policy().head);
        let head = &mut pooled.flow().exchange.request.head;
        let read = read_request(&client.thread().header_list.borrow(), &rules, head);
        let handshake = matches!(read, Ok(true)).then(|| Handshake::new(&mut head.fields)).flatten();
        let line_known = !head.line().is_empty();
        let malformed = match read {
            Err(error) => Some(HeadError { status: error.status, reason: error.reason, line_known }),
            // Without a key nothing shows that the other server opens a WebSocket.
            Ok(true) if handshake.is_none() => {
                let reason = "a WebSocket cannot be opened without a random key";
                Some(HeadError { status: Status::INTERNAL_SERVER_ERROR, reason, line_known })
            }
            Ok(_) => None,
        };
        client.note_early_data(|| self.shared.bytes.transport.is_early());
        let arrival = Arrival { client, at, head_length: length, pipelined: false, clear_by_mistake: false };
        // What follows a handshake is no body.
        let code = start(&arrival, &mut pooled, ends || handshake.is_some(), malformed);
        self.end_by_settings();
        if let Some(length) = pooled.exchange().request.content_length {
            self.shared.machine.expect(stream, length);
        }
        // A fault of a handler ends its own request only.
        let Ok(progress) = catch_unwind(AssertUnwindSafe(|| pooled.advance(false, net::moment()))) else {
            return self.shared.release(stream, Code::INTERNAL_ERROR);
        };
        match progress {
            Progress::Respond(body) if handshake.is_none() && self.can_answer(stream, &pooled, &body) => {
                self.answer(stream, pooled, &body, code);
            }
            other => self.add(Opened { stream, ends, handshake, head_size, code }, pooled, other),
        }
    }

    /// Ends the connection with this request where the settings allow no further ones.
    fn end_by_settings(&mut self) {
        let Shared { client, bytes, machine, .. } = &mut self.shared;
        let policy = &client.default_policy().keepalive;
        let age_ms = Time::now().uptime_ms.saturating_sub(client.info.accepted.uptime_ms);
        let is_last = policy.timeout.is_zero()
            || client.info.requests.get() >= policy.requests
            || Duration::from_millis(age_ms) > policy.time;
        if is_last {
            bytes.output.append(|out| machine.end(out));
        }
    }

    /// Whether a response can be written at once: it is in memory, and the windows have room for it.
    fn can_answer(&self, stream: u32, pooled: &PooledRequest, body: &Body) -> bool {
        let exchange = pooled.exchange();
        let room = self.shared.machine.room(stream) as u64;
        fits_in_memory(body)
            && !engine::is_limited(exchange)
            && exchange.scope.policy.post_action.is_none()
            && !exchange.response.expects_trailers
            && body.length().is_some_and(|length| length <= room)
            && self.shared.bytes.output.bytes().len() < OUTPUT_LIMIT
    }

    fn answer(&mut self, stream: u32, mut pooled: Box<PooledRequest>, body: &Body, code: Code) {
        let flow = pooled.flow();
        let pieces = body.pieces().filter(|_| has_body(&flow.exchange)).unwrap_or_default();
        let mut contents = pieces.iter().filter_map(|piece| match piece {
            Piece::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        });
        let mut next: Option<&Bytes> = contents.next();
        self.shared.response(stream, next.is_none(), flow);
        while let Some(bytes) = next {
            next = contents.next();
            self.shared.data(stream, bytes, next.is_none(), &mut flow.exchange);
        }
        flow.log();
        self.shared.release(stream, code);
        exchange::end(&self.shared.client, pooled);
    }

    /// Makes a request a stream in progress.
    fn add(&mut self, opened: Opened, pooled: Box<PooledRequest>, progress: Progress) {
        let Opened { stream, ends, handshake, head_size, code } = opened;
        let mut upload = Upload::default();
        upload.is_whole = ends || pooled.received.refused.is_some();
        let fields = &pooled.exchange().request.head.fields;
        let told = || fields.get("priority").map(|_| Priority::read(fields.all("priority")));
        let transfer = Transfer {
            stream,
            head_size,
            priority: self.shared.machine.take_priority(stream).or_else(told).unwrap_or(Priority::UNSET),
            upload,
            outgoing: Outgoing::default(),
            timer: self.shared.timer(),
            quantum: 0,
            wants_turn: false,
            awaits_window: false,
            handshake,
            is_tunnel: false,
            expects_continue: pooled.received.framing.expect_continue && !ends,
            code,
        };
        let origin = (self.woken.waker(stream), Rc::clone(&self.shared.client.serving));
        self.heads += head_size;
        self.streams.push(Box::new(Stream::new(pooled, progress, transfer, origin)));
        self.enqueue(self.streams.len() - 1);
    }

    /// Polls streams that have something to do, each once. Returns whether there were any.
    fn serve(&mut self) -> bool {
        let mut woken = Vec::new();
        self.woken.take(&mut woken);
        for stream in woken {
            if let Some(place) = self.place(stream) {
                self.enqueue(place);
            }
        }
        let mut has_served = false;
        for _ in 0..self.queue.len() {
            if self.is_full() {
                break;
            }
            let Some(stream) = self.queue.pop_front() else { break };
            let Some(place) = self.place(stream) else { continue };
            has_served = true;
            let stream = &mut self.streams[place];
            stream.is_queued = false;
            let Transfer { stream: id, priority, .. } = stream.transfer;
            let has_to_wait = self.turns.has_before(id, priority);
            self.poll_stream(place, if has_to_wait { 0 } else { self.quantum() });
            if shares::yields() {
                return has_served;
            }
        }
        // Until the client takes more, streams join what they have for it.
        while !self.is_full()
            && !self.shared.awaits_client
            && !shares::yields()
            && let Some(stream) = self.turns.take()
        {
            let Some(place) = self.place(stream) else { continue };
            has_served = true;
            self.streams[place].awaits_turn = false;
            self.poll_stream(place, self.quantum());
        }
        has_served
    }

    /// How much a stream may send when it has its turn, in bytes. One without others has all of the room.
    fn quantum(&self) -> usize {
        if self.streams.len() == 1 { OUTPUT_LIMIT } else { TURN }
    }

    /// Whether the client has to take something before streams go on.
    fn is_full(&self) -> bool {
        self.stage == Stage::Open && self.shared.bytes.output.bytes().len() >= OUTPUT_LIMIT
    }

    /// Polls a stream, which may send so many bytes of content.
    fn poll_stream(&mut self, place: usize, quantum: usize) {
        let (stream, shared) = (&mut self.streams[place], &mut self.shared);
        let polled = match stream.serving.is_over() {
            true => {
                stream.cut_off();
                Ok(Poll::Ready(Code::INTERNAL_ERROR))
            }
            // A fault of the server ends one stream only.
            false => catch_unwind(AssertUnwindSafe(|| stream.poll(shared, quantum))),
        };
        let code = match polled {
            Ok(Poll::Pending) => {
                let id = stream.transfer.stream;
                let Transfer { awaits_window, wants_turn, quantum: left, .. } = stream.transfer;
                if wants_turn || (awaits_window && left < quantum) {
                    // A stream that has sent something goes after those that have not.
                    self.await_turn(place);
                } else if awaits_window && !std::mem::replace(&mut stream.is_blocked, true) {
                    self.blocked.push_back(id);
                }
                return;
            }
            Ok(Poll::Ready(code)) => Some(code),
            Err(_) => None,
        };
        let stream = self.streams.remove(place);
        self.heads -= stream.transfer.head_size;
        if stream.is_blocked {
            self.blocked.retain(|&other| other != stream.transfer.stream);
        }
        if stream.awaits_turn {
            self.turns.remove(stream.transfer.stream);
        }
        self.shared.release(stream.transfer.stream, code.unwrap_or(Code::INTERNAL_ERROR));
        match code {
            Some(_) => stream.end(&self.shared),
            // Its state is unknown.
            None => drop(catch_unwind(AssertUnwindSafe(|| drop(stream)))),
        }
        if self.streams.is_empty() {
            (self.streams, self.blocked) = (Vec::new(), VecDeque::new());
        }
    }

    /// Writes what there is, as far as the client takes it. Returns whether it took any.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_written = false;
        self.shared.awaits_client = false;
        while self.stage == Stage::Open && !self.shared.bytes.output.is_empty() {
            let Shared { client: Client { timer, .. }, bytes, .. } = &mut self.shared;
            let ByteStream { transport, input, output, .. } = bytes;
            let polled = input.release_if_pending(transport.poll_write(cx, output.bytes()));
            match self.pace.limit(timer, cx, polled) {
                Poll::Ready(Ok(Ok(count))) => {
                    self.pace.moved(count as u64, Some(timer));
                    output.consume(count);
                    has_written = true;
                }
                Poll::Ready(Ok(Err(_))) => self.lose(Stage::Lost),
                Poll::Ready(Err(_)) => {
                    self.shared.log(Level::Info, "client timed out (110: Connection timed out)");
                    let error = std::io::ErrorKind::TimedOut.into();
                    let Shared { client, bytes, .. } = &self.shared;
                    bytes.reset_if_timed_out(&error, &client.default_policy().lingering);
                    self.lose(Stage::Lost);
                }
                Poll::Pending => {
                    self.shared.awaits_client = true;
                    return has_written;
                }
            }
        }
        self.shared.bytes.output.release();
        has_written
    }

    /// Tells the client why the connection ends.
    fn fail(&mut self, failure: Failure) {
        self.shared.log(Level::Info, failure.reason);
        let Shared { bytes, machine, .. } = &mut self.shared;
        bytes.output.append(|out| machine.fail(failure, out));
        self.lose(Stage::Failed);
    }

    /// Cancels all streams. Those that go on without their client come to their end.
    fn lose(&mut self, stage: Stage) {
        self.stage = stage;
        self.shared.machine.lose();
        (0..self.streams.len()).for_each(|place| self.enqueue(place));
    }

    /// Nothing is there to do: waits, or ends.
    fn rest(&mut self, cx: &mut Context<'_>) -> Rest {
        let is_idle = self.streams.is_empty();
        match self.stage {
            Stage::Lost if is_idle => return Rest::Ended(Ended::Closed),
            Stage::Failed if is_idle => return Rest::Ended(Ended::Closing),
            Stage::Lost | Stage::Failed => {
                let _: Poll<()> = self.shared.client.timer.poll(cx);
                return Rest::Waits;
            }
            Stage::Open => {}
        }
        if self.leave() {
            return Rest::Again;
        }
        if !self.shared.bytes.output.is_empty() {
            return Rest::Waits;
        }
        if is_idle && self.shared.machine.has_ended() {
            // What the client still sends must not reset what it has not read.
            return Rest::Ended(Ended::Closing);
        }
        if let Some(until) = self.leaves_at.filter(|_| !self.shared.machine.has_ended()) {
            self.waits = None;
            self.shared.client.timer.set(until.saturating_duration_since(Time::now().instant));
            return self.watch(cx);
        }
        if let Some(rest) = self.discard(cx) {
            return rest;
        }
        if is_idle { self.wait(cx) } else { self.watch(cx) }
    }

    fn is_leaving(&self) -> bool {
        let client = &self.shared.client;
        client.is_leaving() || !client.speaks_http2()
    }

    /// Ends a connection that has to leave in two steps, so that no request is lost that is on its way. Returns whether a
    /// step was taken.
    fn leave(&mut self) -> bool {
        if self.stage != Stage::Open || self.shared.machine.has_ended() {
            return false;
        }
        let now = Time::now().instant;
        let Shared { bytes, machine, .. } = &mut self.shared;
        match self.leaves_at {
            Some(until) if until <= now => bytes.output.append(|out| machine.end(out)),
            Some(_) => return false,
            None if self.is_leaving() => {
                self.leaves_at = Some(now + ON_ITS_WAY);
                let Shared { bytes, machine, .. } = &mut self.shared;
                bytes.output.append(|out| machine.announce_end(out));
            }
            None => return false,
        }
        true
    }

    /// Ends requests that were answered before the client has sent all of them. The rest of a short one is on its way, and
    /// is waited for.
    fn discard(&mut self, cx: &mut Context<'_>) -> Option<Rest> {
        let Shared { client, bytes, machine, .. } = &mut self.shared;
        if !machine.has_released() {
            self.discards_at = None;
            return None;
        }
        let now = Time::now().instant;
        let left = self.discards_at.get_or_insert(now + REST_ON_ITS_WAY).saturating_duration_since(now);
        if left.is_zero() {
            bytes.output.append(|out| machine.discard_released(out));
            return Some(Rest::Again);
        }
        self.waits = None;
        client.timer.set(left);
        Some(self.watch(cx))
    }

    /// Waits for the streams.
    fn watch(&mut self, cx: &mut Context<'_>) -> Rest {
        let timer = &self.shared.client.timer;
        if timer.poll(cx).is_pending() {
            return Rest::Waits;
        }
        // A timer stays due until it is cleared.
        timer.clear();
        Rest::Again
    }

    /// Waits for the next request.
    fn wait(&mut self, cx: &mut Context<'_>) -> Rest {
        let Shared { client, bytes, machine, .. } = &mut self.shared;
        if client.idle.closes {
            bytes.output.append(|out| machine.end(out));
            return Rest::Again;
        }
        let now = Time::now();
        let (since, limit) = *self.waits.get_or_insert_with(|| {
            (client.idle.waits, client.idle.since_ms) = (true, now.uptime_ms);
            client.counted.activity.waits();
            let policy = client.default_policy();
            let is_first = client.info.requests.get() == 0 || machine.awaits_continuation();
            let limit = if is_first { policy.head.client_header_timeout } else { policy.keepalive.timeout };
            (now.instant, limit)
        });
        // What the client sends meanwhile gives it no more time.
        let left = limit.saturating_sub(now.instant.saturating_duration_since(since));
        client.timer.set(left);
        if !left.is_zero() && client.timer.poll(cx).is_pending() {
            return Rest::Waits;
        }
        bytes.output.append(|out| machine.end(out));
        Rest::Again
    }
}

/// A stream that the client has opened.
struct Opened {
    stream: u32,
    /// Whether the client sends nothing more.
    ends: bool,
    handshake: Option<Handshake>,
    /// How long the names and values of the head are, in bytes.
    head_size: usize,
    /// The code to cancel the stream with, unless it ends in order.
    code: Code,
}

/// What happens to a connection that has nothing to do.
enum Rest {
    /// There is something to do after all.
    Again,
    Waits,
    Ended(Ended),
}

/// A client reads no more than this at once; a larger buffer would be of no use.
const _: () = assert!(http2::FRAME_SIZE <= READ_SIZE);

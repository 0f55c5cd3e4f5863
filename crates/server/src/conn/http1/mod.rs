//! A connection in HTTP/1: it reads the head of a request, and answers the request at once if the answer is in memory.

mod end;
mod flushing;
mod message;
pub(crate) mod request;
mod respond;
mod serving;

pub(crate) use flushing::Flushing;
pub(crate) use respond::{Answer, append_head};
pub(crate) use serving::{Served, Serving};

use super::OUTPUT_LIMIT;
use super::byte_stream::{ByteStream, Flushed};
use super::client::Client;
use super::close::Closing;
use super::exchange::{self, Arrival};
use super::h2::{Beginning, beginning};
use super::response::fits_in_memory;
use contract::policy::HeadPolicy;
use contract::{Body, Policy};
use engine::Progress;
use h1::{BodyDecoder, Chunk, HeadLimits, HeadParser, HeadProgress};
use http::semantics::{BodyLength, Framing};
use http::{HeadError, Status};
use journal::Level;
use journal::clock::Time;
use journal::counters::{self, Count};
use request::Http1Request;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A connection in HTTP/1.
pub(crate) struct Http1 {
    pub(super) client: Client,
    pub(super) bytes: ByteStream,
    reading: Reading,
}

/// The head that is being read.
struct Reading {
    parser: HeadParser,
    /// The request that it belongs to; its memory is given back between requests.
    unread: Option<Box<Http1Request>>,
    /// When the first byte of the request came.
    started: Option<Time>,
    /// How many bytes the head of the request has.
    head_length: usize,
    /// Whether the first byte of the request is known to have arrived when the thread last took events.
    precedes_events: bool,
    /// Whether the request was there before the one before it was answered.
    pipelined: bool,
}

/// What reading came to.
pub(super) enum Input {
    /// The head of a request is complete, or breaks the rules.
    Head(Box<Http1Request>, Option<HeadError>),
    /// The client speaks HTTP/2.
    Http2,
    /// The client has to take answers first.
    Unsent,
    /// The client went away, or was too slow.
    Over,
}

/// What answering a request came to.
pub(super) enum Answered {
    /// There may be a further request.
    Again(Box<Http1>),
    /// The request or its client has to be waited for.
    Serve(Serving),
    /// The connection closes.
    Close(Box<Closing>),
}

/// The limits of a head, as its reader wants them.
pub(crate) fn limits(policy: &HeadPolicy) -> HeadLimits {
    let (large_count, large_size) = policy.large_client_header_buffers;
    HeadLimits {
        first_buffer: policy.client_header_buffer_size,
        large_count,
        large_size,
        max_fields: policy.max_headers,
        ignore_invalid: policy.ignore_invalid_headers,
        underscores: policy.underscores_in_headers,
        strict_line_ends: policy.strict_line_ends,
    }
}

impl Http1 {
    /// A connection whose first request is awaited.
    pub(super) fn new(client: Client, bytes: ByteStream) -> Http1 {
        let reading = Reading {
            parser: HeadParser::new(),
            unread: None,
            started: None,
            head_length: 0,
            precedes_events: false,
            pipelined: false,
        };
        Http1 { client, bytes, reading }
    }

    /// Gives up HTTP/1 for another protocol, or to close.
    pub(super) fn into_parts(self) -> (Client, ByteStream) {
        (self.client, self.bytes)
    }

    /// See [`Client::idle_since_ms`].
    pub(super) fn idle_since_ms(&self) -> Option<u64> {
        self.client.idle_since_ms().filter(|_| self.reading.started.is_none())
    }

    /// Reads until a head is complete.
    pub(super) fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        if self.reading.started.is_none() && self.client.adopt_current_site() {
            // Since the last response only empty lines arrived. A request that was begun for them only refers to the
            // previous configuration, so nothing is lost with it.
            self.reading.unread = None;
        }
        loop {
            // A client that asks for more than it takes must not make the answers pile up.
            let is_full = self.bytes.output.bytes().len() >= OUTPUT_LIMIT;
            if is_full && let Some(stop) = self.flush_now(cx) {
                return Poll::Ready(stop);
            }
            if !self.bytes.input.is_empty()
                && let Some(head) = self.read_head()
            {
                return Poll::Ready(head);
            }
            if let Some(stop) = self.flush_now(cx) {
                return Poll::Ready(stop);
            }
            let count = match self.poll_read(cx) {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) => 0,
                Poll::Pending => return self.poll_patience(cx),
            };
            if count == 0 {
                self.give_up(Status::BAD_REQUEST, "client prematurely closed connection");
                return Poll::Ready(Input::Over);
            }
        }
    }

    /// Nothing to read: waits, unless the time is up or the connection only waits for another request and is to close.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        // An idle connection holds no buffer, and one whose client dawdles a small one.
        self.bytes.input.shrink();
        if self.reading.started.is_none() && self.client.closes_idle() {
            self.bytes.transport.say_goodbye();
            return Poll::Ready(Input::Over);
        }
        ready!(self.client.timer.poll(cx));
        self.give_up(Status::REQUEST_TIMEOUT, "client timed out (110: Connection timed out)");
        let lingering = &self.client.default_policy().lingering;
        self.bytes.reset_if_timed_out(&io::ErrorKind::TimedOut.into(), lingering);
        Poll::Ready(Input::Over)
    }

    /// Writes answers as far as the client takes them; gives what ends the turn if that is not all.
    fn flush_now(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        match self.bytes.flush_now(cx) {
            Flushed::All => None,
            Flushed::Part => Some(Input::Unsent),
            Flushed::Gone => Some(Input::Over),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let was_empty = self.bytes.input.is_empty();
        let count = ready!(self.bytes.poll_read(cx))?;
        if self.reading.started.is_none() {
            // Neither what comes before the first request, such as a header of the PROXY protocol, nor an empty line
            // belongs to the request.
            let begins = was_empty && !matches!(self.bytes.input.bytes().first(), Some(b'\r' | b'\n'));
            let is_first = self.client.info.requests.get() == 0;
            self.reading.precedes_events = begins && !is_first && self.bytes.transport.had_reported();
        }
        Poll::Ready(Ok(count))
    }

    /// Parses a head out of the input, unless the client begins with HTTP/2.
    fn read_head(&mut self) -> Option<Input> {
        let is_first = self.client.info.requests.get() == 0 && self.reading.started.is_none();
        if is_first && self.bytes.transport.is_plain() && self.client.speaks_http2() {
            match beginning(self.bytes.input.bytes()) {
                Beginning::Http1 => {}
                Beginning::Http2 => return Some(Input::Http2),
                Beginning::Unknown => return None,
            }
        }
        self.parse()
    }

    /// Parses a head out of the input. The time for the whole head runs from its first byte on.
    fn parse(&mut self) -> Option<Input> {
        let Http1 { client, bytes, reading } = self;
        let mut request = reading.unread.take().unwrap_or_else(|| unread(client));
        let limits = limits(&client.default_policy().head);
        let head = &mut request.pooled.flow().exchange.request.head;
        match reading.parser.parse(bytes.input.bytes(), head, &limits) {
            Ok(HeadProgress::Complete { consumed }) => {
                reading.started.get_or_insert_with(Time::now);
                bytes.input.consume(consumed);
                reading.head_length = consumed;
                Some(Input::Head(request, None))
            }
            Ok(HeadProgress::Partial) => {
                reading.unread = Some(request);
                // Empty lines before a request are none of it, and gain no time.
                if reading.started.is_none() && !reading.parser.is_idle() {
                    reading.started = Some(Time::now());
                    client.counted.activity.reads();
                    client.timer.set(client.default_policy().head.client_header_timeout);
                }
                None
            }
            Err(error) => {
                reading.started.get_or_insert_with(Time::now);
                reading.head_length = bytes.input.bytes().len();
                Some(Input::Head(request, Some(error)))
            }
        }
    }

    /// Logs a request that never became whole.
    fn give_up(&mut self, status: Status, reason: &str) {
        let Some(mut request) = self.reading.unread.take() else { return };
        if self.reading.started.is_none() {
            return;
        }
        self.arrival().start_incomplete(&mut request.pooled, self.bytes.input.bytes());
        let flow = request.pooled.flow();
        flow.exchange.log(Level::Info, reason);
        flow.exchange.response.status = status;
        flow.log();
    }

    fn arrival(&self) -> Arrival<'_> {
        let Reading { started, head_length, pipelined, .. } = self.reading;
        let (client, at) = (&self.client, started.unwrap_or_else(Time::now));
        Arrival { client, at, head_length, pipelined, clear_by_mistake: self.bytes.clear_by_mistake }
    }

    /// Starts a request whose head is complete, or breaks the rules.
    fn start(&self, request: &mut Http1Request, error: Option<HeadError>) {
        let arrival = self.arrival();
        let Http1Request { pooled, message } = request;
        if let Some(error) = error {
            return arrival.start_broken(pooled, error);
        }
        self.client.note_early_data(|| self.bytes.transport.is_early());
        let Some(framing) = arrival.examine(pooled) else { return };
        match check_body(self.bytes.input.bytes(), &framing) {
            Ok(()) => {
                arrival.start(pooled, framing);
                message.body_done = matches!(framing.body, BodyLength::None | BodyLength::Length(0));
            }
            Err(error) => arrival.start_refused(pooled, error, Level::Error),
        }
    }

    /// Ends a request, and with it all that is attached to it; its connection may linger.
    fn end(&self, request: Box<Http1Request>) {
        // What is kept points to the site, which only the one that serves now may outlive a request by.
        self.client.thread().http1_requests.keep(request, self.client.serving.is_current());
    }

    /// Makes ready for the next request.
    fn prepare_next(&mut self, policy: &Policy) {
        self.client.prepare_next(policy);
        self.bytes.send_timeout = policy.sending.send_timeout;
        let is_there = !self.bytes.input.is_empty();
        let Reading { started, precedes_events, pipelined, .. } = &mut self.reading;
        (*started, *precedes_events, *pipelined) = (None, false, is_there);
    }

    /// Limits the wait for the rest of a head, or for a request.
    fn set_timer(&self) {
        self.client.timer.set(match self.reading.started {
            Some(_) => self.client.default_policy().head.client_header_timeout,
            None => self.client.idle.patience,
        });
    }
}

/// Answers one request: at once if its answer is in memory, else by a future.
pub(super) fn answer(
    mut http1: Box<Http1>,
    mut request: Box<Http1Request>,
    error: Option<HeadError>,
) -> Answered {
    counters::add(Count::Requests);
    http1.client.counted.activity.answers();
    http1.start(&mut request, error);
    let arrived = if http1.reading.precedes_events { net::events_moment() } else { net::moment() };
    let body = match request.pooled.advance(http1.client.is_leaving(), arrived) {
        Progress::Respond(body) => body,
        other => return Answered::Serve(Serving::new(http1, request, other)),
    };
    let (body, complete) = request.settle(&mut http1.bytes.input, body);
    let exchange = request.pooled.exchange();
    let is_all = !engine::is_limited(exchange) && exchange.scope.policy.post_action.is_none();
    if complete && is_all && fits_in_memory(&body) && !end::stays(&http1.bytes.transport, &body) {
        return answer_in_memory(http1, request, &body);
    }
    Answered::Serve(Serving::new(http1, request, Progress::Respond(body)))
}

fn answer_in_memory(mut http1: Box<Http1>, mut request: Box<Http1Request>, body: &Body) -> Answered {
    let flow = request.pooled.flow();
    let answer = Answer::new(flow);
    respond::encode_in_memory(&mut http1.bytes.output, flow, &answer, body);
    flow.log();
    let scope = Arc::clone(&flow.exchange.scope);
    if !answer.keep_alive {
        let unread = !request.message.body_done;
        http1.end(request);
        let (client, bytes) = http1.into_parts();
        return Answered::Close(Box::new(Closing::new(client, bytes, scope, unread)));
    }
    // Further requests may be there already: their answers leave in the same write.
    http1.prepare_next(&scope.policy);
    http1.end(request);
    Answered::Again(http1)
}

/// A request whose head is still to be read.
fn unread(client: &Client) -> Box<Http1Request> {
    let kept = client.thread().http1_requests.take();
    kept.unwrap_or_else(|| Box::new(Http1Request::new(exchange::fresh(client))))
}

/// Checks what came with the head of a chunked body, so that no handler acts on a request whose
/// framing is broken.
fn check_body(mut input: &[u8], framing: &Framing) -> Result<(), HeadError> {
    if framing.body != BodyLength::Chunked {
        return Ok(());
    }
    let mut decoder = BodyDecoder::new(framing.body, u64::MAX)?;
    loop {
        match decoder.decode(input)? {
            Chunk::Data { skip, length } => input = &input[skip + length..],
            Chunk::NeedMore { .. } | Chunk::End { .. } => return Ok(()),
        }
    }
}

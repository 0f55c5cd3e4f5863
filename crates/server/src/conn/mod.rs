//! A connection: a small state that answers what it can within one poll, and a future for all else.

mod client_certificate;
mod close;
mod course;
mod exchange;
mod h2;
mod handshake;
mod http1;
mod message;
pub(crate) mod pool;
mod proxy_protocol;
mod respond;
mod serving;
mod session;
mod succession;

pub(crate) use exchange::{fill, limits};
pub(crate) use respond::{Answer, append_head};

use crate::task_table::Member;
use crate::thread::{self, Counted, Thread};
use close::Closing;
use contract::policy::LingeringPolicy;
use contract::{Body, Peer, Policy};
use engine::{Flow, Pace, Progress};
use exchange::PooledRequest;
use h1::{HeadParser, HeadProgress};
use http::HeadError;
use h2::{Beginning, Ended, Multiplexed};
use handshake::Start;
use journal::Level;
use journal::clock::{self, Time};
use journal::counters::{self, Count};
use net::{SocketAddress, Stream};
use serving::{Served, Serving};
use session::Session;
use site::{Listen, Protocols, Server};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::{Buffer, Timer, Transport, memory};

/// The room for one read.
const READ_SIZE: usize = 16 * 1024;

/// How long a connection is left open when the thread drains, for a request that may be on its way: to close at once
/// would lose it.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// Answers that were not written yet are sent before they grow past this.
const OUTPUT_LIMIT: usize = 64 * 1024;

/// How many requests of one connection are answered in a turn, so that other connections have theirs.
const TURN_REQUESTS: usize = 32;

static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A connection as its thread polls it. It is ready when the connection is closed.
pub(crate) struct ConnectionTask {
    state: State,
    /// The number by which logs call it.
    serial: u64,
}

enum State {
    /// Between requests, or while a head arrives.
    Reading(Box<ClientConnection>),
    /// While a request has to wait, or its client.
    Serving(Serving),
    /// In HTTP/2.
    Multiplexed(Box<Multiplexed>),
    /// In `stream`.
    Session(Session),
    /// While the client has to take the answers to its requests; then it may send more, unless the connection closes.
    Flushing(Box<Flushing>),
    /// While the connection closes.
    Closing(Box<Closing>),
    /// Closed.
    Closed,
}

/// A connection whose client has to take what was answered.
struct Flushing {
    client: Box<ClientConnection>,
    pace: Pace,
    /// Whether the connection closes then.
    closes: bool,
}

/// What the task of a connection hands from state to state: the socket of its client, with buffers, parser and timer.
pub(crate) struct ClientConnection {
    stream: Transport,
    /// The start of an encrypted connection, until it is over.
    start: Option<Box<Start>>,
    /// Whether the connection is still to begin, with a header of the PROXY protocol.
    awaits_proxy_header: bool,
    /// The server that was chosen by the handshake.
    named: Option<Arc<Server>>,
    /// Whether the client speaks in clear where it should not.
    clear_by_mistake: bool,
    /// Whether the last bytes wait for the end of the connection.
    is_held: bool,
    counted: Counted,
    /// What the connection is served by.
    serving: Rc<thread::Serving>,
    info: Rc<contract::Connection>,
    listen: usize,
    timer: Timer,
    parser: HeadParser,
    /// The request whose head is being read; its memory is given back between requests.
    unread: Option<Box<PooledRequest>>,
    /// What was read and not used yet.
    input: Buffer,
    /// Answers that were not written yet.
    output: Buffer,
    /// When the first byte of the request came.
    started: Option<Time>,
    /// How many bytes the head of the request has.
    head_length: usize,
    /// Whether the first byte of the request is known to have arrived when the thread last took events.
    precedes_events: bool,
    /// Whether the request was there before the one before it was answered.
    pipelined: bool,
    /// Whether the next request is waited for. A pipelined request is not: it is there already.
    waits: bool,
    /// Since when the next request is waited for, in milliseconds of uptime.
    waits_since_ms: u64,
    /// Whether the thread closes this connection to make room, unless a request arrives first.
    closes_if_idle: bool,
    /// How long the next request may be waited for.
    patience: Duration,
    /// Until when an idle connection is left open, whatever the thread would like.
    kept_until: Option<Instant>,
    /// How long the client may be waited for while it takes no answer.
    send_timeout: Duration,
}

/// What a turn of reading came to.
enum Turn {
    /// There is more to do at once.
    Again(Box<ClientConnection>),
    /// The request or its client has to be waited for.
    Serve(Serving),
    /// The connection closes.
    Close(Box<Closing>),
}

impl ConnectionTask {
    pub(crate) fn new(
        counted: Counted,
        listen: usize,
        stream: Stream,
        peer: &SocketAddress,
    ) -> ConnectionTask {
        let thread = Rc::clone(counted.thread());
        let serving = thread.serving();
        let place = &serving.site.listens[listen];
        let local = match place.needs_local_address() {
            true => stream.local().map_or_else(|_| peer_of(&place.address), |local| peer_of(&local)),
            false => peer_of(&place.address),
        };
        let hosts = place.hosts(ip_of(&local));
        let (is_encrypted, is_passed) = (hosts.is_encrypted(), hosts.protocols.has(Protocols::PROXY));
        let is_session = hosts.is_stream() && !is_encrypted && !is_passed;
        let peer = peer_of(peer);
        let info = contract::Connection {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            debug: serving.site.debugs(&peer),
            peer,
            local,
            accepted: Time::now(),
            requests: Cell::new(0),
            secure: false,
            tls: None,
            passed: None,
            socket: Some(stream.as_fd().as_raw_fd()),
            events: None,
        };
        let serial = info.serial;
        let timer = Timer::new(&thread.timers);
        let mut client = Box::new(ClientConnection {
            stream: if is_encrypted { Transport::encrypted(stream) } else { Transport::Plain(stream) },
            start: is_encrypted.then(Box::default),
            awaits_proxy_header: false,
            named: None,
            clear_by_mistake: false,
            is_held: false,
            counted,
            serving,
            info: Rc::new(info),
            listen,
            timer,
            parser: HeadParser::new(),
            unread: None,
            input: Buffer::default(),
            output: Buffer::default(),
            started: None,
            head_length: 0,
            precedes_events: false,
            pipelined: false,
            waits: true,
            waits_since_ms: Time::now().uptime_ms,
            closes_if_idle: false,
            patience: Duration::ZERO,
            kept_until: None,
            send_timeout: Duration::ZERO,
        });
        let policy = client.default_policy();
        let header_limit = policy.head.proxy_protocol_timeout.filter(|_| is_passed);
        (client.patience, client.send_timeout) =
            (header_limit.unwrap_or(policy.head.client_header_timeout), policy.sending.send_timeout);
        client.set_timer();
        if is_passed {
            client.await_proxy_header();
        }
        let state = if is_session { State::Session(Session::new(client)) } else { State::Reading(client) };
        ConnectionTask { state, serial }
    }

    /// Since when the connection has been idle, in milliseconds of uptime, if it may be closed to make room for others.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        match &self.state {
            State::Reading(client) if !client.closes_if_idle => client.idle_since_ms(),
            State::Multiplexed(multiplexed) => multiplexed.idle_since_ms(),
            _ => None,
        }
    }

    /// Closes the connection when it is polled next, unless a request arrived meanwhile.
    pub(crate) fn close_if_idle(&mut self) {
        match &mut self.state {
            State::Reading(client) => client.closes_if_idle = true,
            State::Multiplexed(multiplexed) => multiplexed.close_if_idle(),
            _ => {}
        }
    }
}

impl Member for ConnectionTask {
    fn number(&self) -> u64 {
        self.serial
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _turn = clock::Turn::begin();
        for _ in 0..TURN_REQUESTS {
            if self.state.client().is_none_or(|client| client.serving.is_over()) {
                self.state.cut_off();
                return Poll::Ready(());
            }
            ready!(self.state.poll(cx));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl State {
    fn client(&self) -> Option<&ClientConnection> {
        match self {
            State::Reading(client) => Some(client),
            State::Flushing(flushing) => Some(&flushing.client),
            State::Serving(serving) => Some(&serving.client),
            State::Multiplexed(multiplexed) => Some(multiplexed.client()),
            State::Session(session) => Some(&session.client),
            State::Closing(closing) => Some(&closing.client),
            State::Closed => None,
        }
    }

    /// Logs the requests that end before their responses were sent.
    fn cut_off(&mut self) {
        match self {
            State::Serving(serving) => serving.cut_off(),
            State::Multiplexed(multiplexed) => multiplexed.cut_off(),
            State::Session(session) => session.cut_off(),
            State::Reading(_) | State::Flushing(_) | State::Closing(_) | State::Closed => {}
        }
    }

    /// Goes on; ready when the next state is reached.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // While something is waited for, the state stays where it is in memory.
        let next = match self {
            State::Closed => State::Closed,
            State::Reading(client) => {
                let input = ready!(client.poll_input(cx));
                let State::Reading(client) = self.take() else { return Poll::Ready(()) };
                State::after_input(client, input)
            }
            State::Serving(serving) => {
                let served = ready!(serving.poll(cx));
                let State::Serving(serving) = self.take() else { return Poll::Ready(()) };
                State::after_request(serving.into_client(), served)
            }
            State::Multiplexed(multiplexed) => {
                let ended = ready!(multiplexed.poll(cx));
                let State::Multiplexed(multiplexed) = self.take() else { return Poll::Ready(()) };
                match ended {
                    Ended::Closed => State::Closed,
                    Ended::Closing => {
                        let client = multiplexed.into_client();
                        let scope = Arc::clone(&client.default_server().scope);
                        State::Closing(Box::new(Closing::new(client, scope, true)))
                    }
                }
            }
            State::Session(session) => {
                let ended = ready!(session.poll(cx));
                let State::Session(session) = self.take() else { return Poll::Ready(()) };
                let client = session.into_client();
                match ended {
                    session::Ended::Closing(scope) => {
                        State::Closing(Box::new(Closing::new(client, scope, false)))
                    }
                    session::Ended::Closed => State::Closed,
                }
            }
            State::Flushing(flushing) => {
                let flushed = ready!(flushing.client.poll_flush(cx, &mut flushing.pace, false));
                let State::Flushing(flushing) = self.take() else { return Poll::Ready(()) };
                let Flushing { client, closes, .. } = *flushing;
                match flushed {
                    Ok(()) if !closes => {
                        client.set_timer();
                        State::Reading(client)
                    }
                    Ok(()) => State::Closed,
                    Err(error) => {
                        client.reset_if_timed_out(&error, &client.default_policy().lingering);
                        State::Closed
                    }
                }
            }
            State::Closing(closing) => {
                ready!(closing.poll(cx));
                State::Closed
            }
        };
        *self = next;
        Poll::Ready(())
    }

    fn take(&mut self) -> State {
        std::mem::replace(self, State::Closed)
    }

    fn after_input(client: Box<ClientConnection>, input: Input) -> State {
        match input {
            Input::Over => {
                if client.hosts().is_stream() {
                    session::log_unopened(&client);
                }
                State::Closed
            }
            Input::Session => State::Session(Session::new(client)),
            Input::Http2 => State::Multiplexed(Box::new(Multiplexed::new(client))),
            Input::Unsent => State::flushing(client, false),
            Input::Head(pooled, error) => match answer(client, pooled, error) {
                Turn::Again(client) => State::Reading(client),
                Turn::Serve(serving) => State::Serving(serving),
                Turn::Close(closing) => State::Closing(closing),
            },
        }
    }

    fn after_request(client: Box<ClientConnection>, served: Served) -> State {
        match served {
            Served::Kept => State::Reading(client),
            Served::Refused => State::flushing(client, true),
            Served::Closing(scope, unread) => State::Closing(Box::new(Closing::new(client, scope, unread))),
            Served::Closed => State::Closed,
        }
    }

    fn flushing(client: Box<ClientConnection>, closes: bool) -> State {
        let pace = Pace::new(client.send_timeout, client.default_policy().sending.send_min_rate);
        State::Flushing(Box::new(Flushing { client, pace, closes }))
    }
}

/// What reading came to.
enum Input {
    /// The head of a request is complete, or breaks the rules.
    Head(Box<PooledRequest>, Option<HeadError>),
    /// The client speaks HTTP/2.
    Http2,
    /// The connection is open, and is passed on as it is.
    Session,
    /// The client has to take answers first.
    Unsent,
    /// The client went away, or was too slow.
    Over,
}

impl ClientConnection {
    fn thread(&self) -> &Rc<Thread> {
        self.counted.thread()
    }

    /// Reads bytes as they are: first what came together with what was read before.
    #[inline]
    fn poll_read_raw(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.input.is_empty() {
            true => self.stream.poll_read(cx, room),
            false => Poll::Ready(Ok(self.input.take(room))),
        }
    }

    /// Leaves a detached request to the thread.
    fn detach(&self, request: engine::Detached) {
        self.thread().detach(request, &self.serving);
    }

    fn place(&self) -> &Listen {
        &self.serving.site.listens[self.listen]
    }

    fn hosts(&self) -> &site::Hosts {
        self.place().hosts_where(|| ip_of(&self.info.local))
    }

    /// The server whose settings count until the host is known: the one that the handshake chose, if any did.
    #[inline]
    fn default_server(&self) -> &Arc<Server> {
        self.named.as_ref().unwrap_or(self.hosts().default_server())
    }

    /// The settings that count until the host is known.
    fn default_policy(&self) -> &contract::Policy {
        &self.default_server().scope.policy
    }

    fn idle_since_ms(&self) -> Option<u64> {
        // A new connection waits, too: otherwise connections without a request would displace those that have them.
        let is_kept = self.kept_until.is_some_and(|until| until > Time::now().instant);
        (self.waits && self.started.is_none() && !is_kept).then_some(self.waits_since_ms)
    }

    /// Reads until a head is complete.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        self.adopt_current_site();
        if self.awaits_proxy_header {
            match self.poll_proxy_header(cx) {
                Poll::Ready(None) if self.start.is_none() && self.hosts().is_stream() => {
                    return Poll::Ready(Input::Session);
                }
                Poll::Ready(None) => {}
                Poll::Ready(Some(stop)) => return Poll::Ready(stop),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        if self.start.is_some() {
            match self.poll_open(cx) {
                Poll::Ready(None) if self.hosts().is_stream() => {
                    return Poll::Ready(if self.clear_by_mistake { Input::Over } else { Input::Session });
                }
                Poll::Ready(None) if self.has_agreed_on_http2() => return Poll::Ready(Input::Http2),
                Poll::Ready(None) => {}
                Poll::Ready(Some(stop)) => return Poll::Ready(stop),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        loop {
            // A client that asks for more than it takes must not make the answers pile up.
            let is_full = self.output.bytes().len() >= OUTPUT_LIMIT;
            if is_full && let Some(stop) = self.flush_now(cx) {
                return Poll::Ready(stop);
            }
            if !self.input.is_empty()
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
                self.give_up(http::Status::BAD_REQUEST, "client prematurely closed connection");
                return Poll::Ready(Input::Over);
            }
        }
    }

    /// Nothing to read: waits, unless the time is up or the thread drains and the connection only waits for another
    /// request.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        // An idle connection holds no buffer, and one whose client dawdles a small one.
        self.input.shrink();
        if self.started.is_none() {
            if !std::mem::replace(&mut self.waits, true) {
                self.waits_since_ms = Time::now().uptime_ms;
                self.counted.activity.waits();
                self.set_timer();
            }
            // The first request of a new connection is on its way: it is answered, as nginx does.
            let is_new = self.info.requests.get() == 0;
            let is_drained = self.is_leaving() && !is_new;
            if is_drained {
                self.kept_until.get_or_insert_with(|| Time::now().instant + ON_ITS_WAY);
            }
            let kept = self.kept_until.map(|until| until.saturating_duration_since(Time::now().instant));
            match kept.filter(|kept| !kept.is_zero()) {
                Some(kept) if is_drained => self.timer.set(kept.min(self.patience)),
                Some(_) => {}
                None if is_drained || self.closes_if_idle => {
                    self.stream.say_goodbye();
                    return Poll::Ready(Input::Over);
                }
                None => {}
            }
        }
        ready!(self.timer.poll(cx));
        self.complain_of_slowness();
        self.give_up(http::Status::REQUEST_TIMEOUT, "client timed out (110: Connection timed out)");
        if self.default_policy().lingering.reset_timed_out {
            drop(self.stream.set_linger_zero());
        }
        Poll::Ready(Input::Over)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        // A head that comes in parts takes no further memory as long as there is some left.
        let least = if self.input.is_empty() { READ_SIZE } else { READ_SIZE / 4 };
        let was_empty = self.input.is_empty();
        let count = ready!(self.stream.poll_read_into(cx, &mut self.input, least))?;
        if self.started.is_none() {
            // Neither what comes before the first request, such as a header of the PROXY protocol, nor an empty line
            // belongs to the request.
            let begins = was_empty && !matches!(self.input.bytes().first(), Some(b'\r' | b'\n'));
            let is_first = self.info.requests.get() == 0;
            self.precedes_events = begins && !is_first && self.stream.had_reported();
        }
        Poll::Ready(Ok(count))
    }

    /// Whether the handshake chose HTTP/2.
    fn has_agreed_on_http2(&self) -> bool {
        self.info.tls.as_ref().is_some_and(|tls| tls.agreed.alpn.as_deref() == Some(b"h2"))
    }

    /// Parses a head out of the input, unless the client begins with HTTP/2.
    fn read_head(&mut self) -> Option<Input> {
        let is_first = self.info.requests.get() == 0 && self.started.is_none();
        if is_first && self.stream.is_plain() && self.speaks_http2() {
            match h2::beginning(self.input.bytes()) {
                Beginning::Http1 => {}
                Beginning::Http2 => return Some(Input::Http2),
                Beginning::Unknown => return None,
            }
        }
        self.parse()
    }

    /// Parses a head out of the input. The time for the whole head runs from its first byte on.
    fn parse(&mut self) -> Option<Input> {
        let mut pooled = self.unread.take().unwrap_or_else(|| exchange::unread(self));
        let limits = exchange::limits(&self.default_policy().head);
        let head = &mut pooled.request.flow.exchange.request.head;
        match self.parser.parse(self.input.bytes(), head, &limits) {
            Ok(HeadProgress::Complete { consumed }) => {
                self.started.get_or_insert_with(Time::now);
                self.input.consume(consumed);
                self.head_length = consumed;
                Some(Input::Head(pooled, None))
            }
            Ok(HeadProgress::Partial) => {
                self.unread = Some(pooled);
                // Empty lines before a request are none of it, and gain no time.
                if self.started.is_none() && !self.parser.is_idle() {
                    self.started = Some(Time::now());
                    self.counted.activity.reads();
                    self.set_timer();
                }
                None
            }
            Err(error) => {
                self.started.get_or_insert_with(Time::now);
                self.head_length = self.input.bytes().len();
                Some(Input::Head(pooled, Some(error)))
            }
        }
    }

    /// Logs a request that never became whole.
    fn give_up(&mut self, status: http::Status, reason: &str) {
        let Some(mut pooled) = self.unread.take() else { return };
        if self.started.is_none() {
            return;
        }
        exchange::start_incomplete(self, &mut pooled);
        let flow = &mut pooled.request.flow;
        flow.exchange.log(journal::Level::Info, reason);
        flow.exchange.response.status = status;
        flow.log();
    }

    /// Writes answers as far as the client takes them; gives what ends the turn if that is not all.
    fn flush_now(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        while !self.output.is_empty() {
            match self.stream.poll_write(cx, self.output.bytes()) {
                Poll::Ready(Ok(count)) => self.output.consume(count),
                Poll::Ready(Err(_)) => return Some(Input::Over),
                Poll::Pending => return Some(Input::Unsent),
            }
        }
        self.output.release();
        None
    }

    /// Writes all output. With `holds` the kernel expects more, so that the last bytes leave with the end of
    /// the connection.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        pace: &mut Pace,
        holds: bool,
    ) -> Poll<std::io::Result<()>> {
        while !self.output.is_empty() {
            let ClientConnection { stream, timer, input, output, .. } = self;
            let polled = match holds {
                true => stream.poll_write_more(cx, output.bytes()),
                false => stream.poll_write(cx, output.bytes()),
            };
            let polled = input.release_if_pending(polled);
            let Ok(count) = ready!(pace.limit(timer, cx, polled)) else {
                return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
            };
            let count = count?;
            pace.moved(count as u64, Some(timer));
            output.consume(count);
        }
        self.output.release();
        Poll::Ready(Ok(()))
    }

    /// Closes at once, where `reset_timedout_connection` asks for it, what a slow client left unread.
    fn reset_if_timed_out(&self, error: &std::io::Error, policy: &LingeringPolicy) {
        if error.kind() == std::io::ErrorKind::TimedOut && policy.reset_timed_out {
            drop(self.stream.set_linger_zero());
        }
    }

    /// Ends a request, and with it all that is attached to it; its connection may linger.
    fn end(&self, pooled: Box<PooledRequest>) {
        // What is kept points to the site, which only the one that serves now may outlive a request by.
        self.thread().requests.keep(pooled, self.serving.is_current());
    }

    /// Makes ready for the next request.
    fn prepare_next(&mut self, policy: &Policy) {
        self.started = None;
        (self.precedes_events, self.waits, self.closes_if_idle) = (false, false, false);
        self.pipelined = !self.input.is_empty();
        (self.patience, self.send_timeout) = (policy.keepalive.timeout, policy.sending.send_timeout);
        let least = policy.keepalive.min_timeout;
        self.kept_until = (!least.is_zero()).then(|| Time::now().instant + least);
    }

    /// Limits the wait for the rest of a head, or for a request.
    fn set_timer(&self) {
        let limit = match self.started {
            Some(_) => self.default_policy().head.client_header_timeout,
            None => self.patience,
        };
        self.timer.set(limit);
    }
}

/// Answers one request: at once if its answer is in memory, else by a future.
fn answer(
    mut client: Box<ClientConnection>,
    mut pooled: Box<PooledRequest>,
    error: Option<HeadError>,
) -> Turn {
    counters::add(Count::Requests);
    client.counted.activity.answers();
    match error {
        None => exchange::start_request(&client, &mut pooled),
        Some(error) => exchange::start_broken(&client, &mut pooled, error),
    }
    let arrived = if client.precedes_events { net::events_moment() } else { net::moment() };
    let body = match pooled.advance(client.is_leaving(), arrived) {
        Progress::Respond(body) => body,
        other => return Turn::Serve(Serving::new(client, pooled, other)),
    };
    let (body, complete) = pooled.settle(&mut client, body);
    let exchange = &pooled.request.flow.exchange;
    let is_all = !engine::is_limited(exchange) && exchange.scope.policy.post_action.is_none();
    if complete && is_all && respond::fits_in_memory(&body) && !http1::stays(&client, &body) {
        return answer_in_memory(client, pooled, &body);
    }
    Turn::Serve(Serving::new(client, pooled, Progress::Respond(body)))
}

fn answer_in_memory(mut client: Box<ClientConnection>, mut pooled: Box<PooledRequest>, body: &Body) -> Turn {
    let flow = &mut pooled.request.flow;
    let answer = Answer::new(flow);
    respond::encode_in_memory(&mut client.output, flow, &answer, body);
    flow.log();
    let scope = Arc::clone(&flow.exchange.scope);
    if !answer.keep_alive {
        let unread = !pooled.message.body_done;
        client.end(pooled);
        return Turn::Close(Box::new(Closing::new(client, scope, unread)));
    }
    // Further requests may be there already: their answers leave in the same write.
    client.prepare_next(&scope.policy);
    client.end(pooled);
    Turn::Again(client)
}

/// The answer to a request for which there is no memory.
fn refuse(flow: &mut Flow) -> Body {
    if memory::complains(Time::now().uptime_ms) {
        let (held, limit) = (memory::held(), memory::limit());
        let text = format!(
            "requests in progress hold {held} of {limit} bytes (request_memory): new requests are refused"
        );
        flow.exchange.log(Level::Alert, &text);
    }
    flow.fail_at_once(http::Status::SERVICE_UNAVAILABLE)
}

fn ip_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Inet(address) => Some(address.ip()),
        Peer::Unix(_) => None,
    }
}

fn peer_of(address: &SocketAddress) -> Peer {
    match address {
        SocketAddress::Inet(address) => Peer::Inet(*address),
        SocketAddress::Unix(path) if !path.as_os_str().is_empty() => {
            use std::os::unix::ffi::OsStrExt;
            Peer::Unix(Some(path.as_os_str().as_bytes().into()))
        }
        _ => Peer::Unix(None),
    }
}

impl PooledRequest {
    /// Runs handlers until the request has to wait. `arrived` is a moment before which its first byte had arrived.
    fn advance(&mut self, draining: bool, arrived: u64) -> Progress {
        let _shared = site::SharedLooks::begin(arrived);
        let flow = &mut self.request.flow;
        flow.exchange.wire.keep_alive = self.message.framing.keep_alive && !draining;
        match self.message.refused {
            Some(status) => flow.fail(status),
            // Requests in progress come first: what they hold already is lost if they are cut.
            None if memory::is_scarce() => Progress::Respond(refuse(flow)),
            None => flow.run(),
        }
    }

    /// Judges what there is of the request's body before the response leaves: a body that is broken
    /// gets its own answer. Tells, too, whether nothing of the request is left to read or to wait for.
    fn settle(&mut self, client: &mut ClientConnection, body: Body) -> (Body, bool) {
        let PooledRequest { request, message, .. } = self;
        let flow = &mut request.flow;
        match message.skip(&mut client.input, &mut flow.exchange) {
            Ok(done) => (body, message.refused.is_some() || (done && !message.framing.expect_continue)),
            Err(status) => (flow.fail_at_once(status), true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientConnection, ConnectionTask};

    /// What an idle connection consists of; `docs/performance.md` tells what it takes with the memory around it.
    #[test]
    fn an_idle_connection_is_small() {
        let parts =
            [size_of::<ConnectionTask>(), size_of::<ClientConnection>(), size_of::<contract::Connection>()];
        assert!(parts.iter().sum::<usize>() <= 552, "{parts:?}");
    }
}

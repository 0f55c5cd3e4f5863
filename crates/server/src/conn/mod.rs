//! A connection: a small state that answers what it can within one poll, and a future for all else.

mod body;
mod close;
mod cold;
mod exchange;
mod handshake;
mod pace;
mod pool;
mod proxy_protocol;
mod respond;
mod send;
mod subrequest;
mod succession;
mod throttle;
mod transport;
mod tunnel;
mod work;

pub(crate) use exchange::{fill, limits};
pub(crate) use pool::{Buffer, Requests};
pub(crate) use respond::{Answer, append_head};

use crate::pipeline::Progress;
use crate::site::{Listen, Server};
use crate::thread::{Counted, Serving, Thread};
use crate::timer::Timer;
use contract::clock::{self, Time};
use contract::counters::{self, Count};
use contract::{Body, Peer, Policy};
use exchange::Begun;
use h1::{HeadError, HeadParser, HeadProgress};
use handshake::Start;
use net::{Client, SocketAddress};
use std::cell::Cell;
use std::future::Future;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use transport::Transport;

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

/// A connection. It is ready when the connection is closed.
pub(crate) struct Connection {
    state: State,
}

enum State {
    /// Between requests, or while a head arrives.
    Reading(Box<Io>),
    /// While something has to be waited for; ready with the connection if it stays open.
    Busy(Busy),
    /// Closed.
    Closed,
}

/// What is waited for, and the site under which it began.
struct Busy {
    future: Pin<Box<dyn Future<Output = Option<Box<Io>>>>>,
    serving: Rc<Serving>,
}

impl Busy {
    /// What is to be done with a connection.
    fn new<F>(io: Box<Io>, work: impl FnOnce(Box<Io>) -> F) -> Busy
    where
        F: Future<Output = Option<Box<Io>>> + 'static,
    {
        let serving = Rc::clone(&io.serving);
        Busy { future: Box::pin(work(io)), serving }
    }
}

/// What a connection owns.
pub(crate) struct Io {
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
    serving: Rc<Serving>,
    info: Rc<contract::Connection>,
    listen: usize,
    timer: Timer,
    parser: HeadParser,
    /// The request whose head is being read; its memory is given back between requests.
    unread: Option<Box<Begun>>,
    /// What was read and not used yet.
    input: Buffer,
    /// Answers that were not written yet.
    output: Buffer,
    /// When the first byte of the request came.
    started: Option<Time>,
    /// How many bytes the head of the request has.
    head_length: usize,
    /// Whether the request was there before the one before it was answered.
    pipelined: bool,
    /// Whether the next request is waited for. What came with the one before is not.
    waits: bool,
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
    Again(Box<Io>),
    /// Nothing more can be done before the future is ready.
    Wait(Busy),
}

impl Connection {
    pub(crate) fn new(counted: Counted, listen: usize, stream: Client, peer: &SocketAddress) -> Connection {
        let thread = Rc::clone(counted.thread());
        let serving = thread.serving();
        let place = &serving.site.listens[listen];
        let local = match place.needs_local_address() {
            true => stream.local().map_or_else(|_| peer_of(&place.address), |local| peer_of(&local)),
            false => peer_of(&place.address),
        };
        let hosts = place.hosts(ip_of(&local));
        let (is_encrypted, is_passed) = (hosts.is_encrypted, hosts.takes_proxy_header);
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
        let timer = Timer::new(&thread.timers);
        let mut io = Box::new(Io {
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
            pipelined: false,
            waits: true,
            patience: Duration::ZERO,
            kept_until: None,
            send_timeout: Duration::ZERO,
        });
        let policy = io.default_policy();
        (io.patience, io.send_timeout) = (policy.head.client_header_timeout, policy.sending.send_timeout);
        io.set_timer();
        if is_passed {
            io.await_proxy_header();
        }
        Connection { state: State::Reading(io) }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _turn = clock::Turn::begin();
        for _ in 0..TURN_REQUESTS {
            match std::mem::replace(&mut self.state, State::Closed) {
                State::Closed => return Poll::Ready(()),
                State::Busy(busy) if busy.serving.is_over() => return Poll::Ready(()),
                State::Busy(mut busy) => match busy.future.as_mut().poll(cx) {
                    Poll::Ready(Some(io)) => self.state = State::Reading(io),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        self.state = State::Busy(busy);
                        return Poll::Pending;
                    }
                },
                State::Reading(io) if io.serving.is_over() => return Poll::Ready(()),
                State::Reading(mut io) => match io.poll_input(cx) {
                    Poll::Pending => {
                        self.state = State::Reading(io);
                        return Poll::Pending;
                    }
                    Poll::Ready(Input::Over) => return Poll::Ready(()),
                    Poll::Ready(Input::Unsent) => self.state = State::Busy(Busy::new(io, send::answers)),
                    Poll::Ready(Input::Head(begun, error)) => match answer(io, begun, error) {
                        Turn::Again(io) => self.state = State::Reading(io),
                        Turn::Wait(busy) => self.state = State::Busy(busy),
                    },
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What reading came to.
enum Input {
    /// The head of a request is complete, or breaks the rules.
    Head(Box<Begun>, Option<HeadError>),
    /// The client has to take answers first.
    Unsent,
    /// The client went away, or was too slow.
    Over,
}

impl Io {
    fn thread(&self) -> &Rc<Thread> {
        self.counted.thread()
    }

    fn place(&self) -> &Listen {
        &self.serving.site.listens[self.listen]
    }

    fn hosts(&self) -> &crate::hosts::Hosts {
        self.place().hosts_where(|| ip_of(&self.info.local))
    }

    /// The server whose settings count until the host is known: the one that the handshake chose, if any did.
    fn default_server(&self) -> &Arc<Server> {
        self.named.as_ref().unwrap_or(self.hosts().default_server())
    }

    /// The settings that count until the host is known.
    fn default_policy(&self) -> &contract::Policy {
        &self.default_server().scope.policy
    }

    /// Reads until a head is complete.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        self.follow();
        if self.awaits_proxy_header {
            match self.poll_proxy_header(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(stop)) => return Poll::Ready(stop),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        if self.start.is_some() {
            match self.poll_open(cx) {
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
                && let Some(head) = self.parse()
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
                None if is_drained || self.thread().places.give_way(is_new, self.info.accepted.instant) => {
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
        let count = ready!(self.stream.poll_read(cx, self.input.room(least)))?;
        self.input.grew(count);
        Poll::Ready(Ok(count))
    }

    /// Parses a head out of the input. The time for the whole head runs from its first byte on.
    fn parse(&mut self) -> Option<Input> {
        let mut begun = self.unread.take().unwrap_or_else(|| exchange::unread(self));
        let limits = exchange::limits(&self.default_policy().head);
        let head = &mut begun.flow.exchange.request.head;
        match self.parser.parse(self.input.bytes(), head, &limits) {
            Ok(HeadProgress::Complete { consumed }) => {
                self.started.get_or_insert_with(Time::now);
                self.input.consume(consumed);
                self.head_length = consumed;
                Some(Input::Head(begun, None))
            }
            Ok(HeadProgress::Partial) => {
                self.unread = Some(begun);
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
                Some(Input::Head(begun, Some(error)))
            }
        }
    }

    /// Logs a request that never became whole.
    fn give_up(&mut self, status: http::Status, reason: &str) {
        let Some(mut begun) = self.unread.take() else { return };
        if self.started.is_none() {
            return;
        }
        exchange::unparsed(self, &mut begun);
        let flow = &mut begun.flow;
        flow.exchange.log(contract::log::Level::Info, reason);
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

    /// Ends a request, and with it all that is attached to it; its connection may linger.
    fn end(&self, begun: Box<Begun>) {
        // What is kept points to the site, which only the one that serves now may outlive a request by.
        self.thread().requests.keep(begun, self.serving.is_current());
    }

    /// Makes ready for the next request.
    fn rewind(&mut self, policy: &Policy) {
        self.started = None;
        self.waits = false;
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
fn answer(mut io: Box<Io>, mut begun: Box<Begun>, error: Option<HeadError>) -> Turn {
    counters::add(Count::Requests);
    io.counted.activity.answers();
    match error {
        None => exchange::begin(&io, &mut begun),
        Some(error) => exchange::broken(&io, &mut begun, error),
    }
    let body = match begun.advance(io.is_leaving()) {
        Progress::Respond(body) => body,
        other => return Turn::Wait(Busy::new(io, |io| work::finish(io, begun, other))),
    };
    let (body, complete) = begun.settle(&mut io, body);
    let exchange = &begun.flow.exchange;
    let is_all = !throttle::is_limited(exchange) && exchange.scope.policy.post_action.is_none();
    if complete && is_all && respond::fits_in_memory(&body) {
        return answer_in_memory(io, begun, &body);
    }
    Turn::Wait(Busy::new(io, |io| work::finish(io, begun, Progress::Respond(body))))
}

fn answer_in_memory(mut io: Box<Io>, mut begun: Box<Begun>, body: &Body) -> Turn {
    let answer = Answer::new(&mut begun.flow);
    respond::encode_in_memory(&mut io.output, &mut begun.flow, &answer, body);
    begun.flow.log();
    if !answer.keep_alive {
        let manner = close::Manner { unread: !begun.body_done };
        let scope = Arc::clone(&begun.flow.exchange.scope);
        io.end(begun);
        return Turn::Wait(Busy::new(io, |io| close::flush_and_close(io, scope, manner)));
    }
    // Further requests may be there already: their answers leave in the same write.
    io.rewind(&begun.flow.exchange.scope.policy);
    io.end(begun);
    Turn::Again(io)
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

impl Begun {
    fn advance(&mut self, draining: bool) -> Progress {
        self.flow.exchange.wire.keep_alive = self.framing.keep_alive && !draining;
        match self.refused {
            Some(status) => self.flow.fail(status),
            None => self.flow.run(),
        }
    }

    /// Judges what there is of the request's body before the response leaves: a body that is broken
    /// gets its own answer. Tells, too, whether nothing of the request is left to read or to wait for.
    fn settle(&mut self, io: &mut Io, body: Body) -> (Body, bool) {
        if self.feed.is_some() {
            // It belongs to whoever takes it.
            return (body, false);
        }
        match self.skip_body(io) {
            Ok(done) => (body, self.refused.is_some() || (done && !self.framing.expect_continue)),
            Err(error) => {
                self.flow.exchange.log(contract::log::Level::Error, error.reason);
                match self.flow.fail(error.status) {
                    Progress::Respond(body) => (body, true),
                    // Whatever an error page would wait for: this answer is not worth it.
                    Progress::Wait(_) | Progress::Close => (Body::Empty, true),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, Io};

    /// What an idle connection consists of; `docs/performance.md` tells what it takes with the memory around it.
    #[test]
    fn an_idle_connection_is_small() {
        let parts = [size_of::<Connection>(), size_of::<Io>(), size_of::<contract::Connection>()];
        assert!(parts.iter().sum::<usize>() <= 544, "{parts:?}");
    }
}

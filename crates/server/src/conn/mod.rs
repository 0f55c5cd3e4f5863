//! A connection: a state that its thread polls. What it serves is a [`client`], whatever carries the bytes; a
//! [`byte_stream`] carries those of TCP. Each version of HTTP has its own state, and so has `stream`.

mod byte_stream;
mod client;
mod client_certificate;
mod close;
mod datagrams;
mod exchange;
mod h2;
pub(crate) mod http1;
mod life;
mod opening;
mod pass;
pub(crate) mod pool;
pub(crate) mod pooled;
mod response;
mod session;
mod succession;
#[cfg(test)]
mod trials;

pub(crate) use exchange::fill;

use crate::datagram_routes::Ends;
use crate::task_table::Member;
use crate::thread::Counted;
use byte_stream::ByteStream;
use client::{Client, ip_of, next_serial, peer_of};
use close::Closing;
use contract::{Connection, FirstBytes, Peer};
use datagrams::DatagramSession;
use h2::{Ended, Multiplexed};
use http1::{Answered, Flushing, Http1, Input, Served, Serving};
use journal::clock;
use net::{Carrier, DatagramPort, SocketAddress, SocketProbe, Stream};
use opening::{Opened, Opening};
use session::Session;
use site::{Application, Protocols, Wrapping};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::Transport;

/// Answers that were not written yet are sent before they grow past this.
const OUTPUT_LIMIT: usize = 64 * 1024;

/// How many requests of one connection are answered in a turn, so that other connections have theirs.
const TURN_REQUESTS: usize = 32;

/// A connection as its thread polls it. It is ready when the connection is closed.
pub(crate) struct ConnectionTask {
    state: State,
    /// The number by which logs call it.
    serial: u64,
}

enum State {
    /// Until the header of the PROXY protocol and the handshake are over.
    Opening(Box<Opening>),
    /// In HTTP/1, between requests, or while a head arrives.
    Reading(Box<Http1>),
    /// In HTTP/1, while a request has to wait, or its client.
    Serving(Serving),
    /// In HTTP/1, while the client has to take the answers to its requests.
    Flushing(Box<Flushing>),
    /// In HTTP/2.
    Multiplexed(Box<Multiplexed>),
    /// In `stream`.
    Session(Box<Session>),
    /// In `stream`, by datagrams.
    Datagrams(Box<DatagramSession>),
    /// While the connection closes.
    Closing(Box<Closing>),
    /// Closed.
    Closed,
}

impl ConnectionTask {
    pub(crate) fn new(
        counted: Counted,
        listen: usize,
        stream: Stream,
        peer: &SocketAddress,
    ) -> ConnectionTask {
        let serving = counted.thread().serving();
        let place = &serving.site.listens[listen];
        let local = match place.needs_local_address() {
            true => stream.local().map_or_else(|_| peer_of(&place.endpoint.address), |local| peer_of(&local)),
            false => peer_of(&place.endpoint.address),
        };
        let wrapping = place.hosts(ip_of(&local)).protocols.wrapping;
        let carrier = Carrier::Stream(SocketProbe::of(&stream));
        let info = Connection { carrier, ..Connection::new(peer_of(peer), local) };
        let client = new_client(counted, listen, info);
        let serial = client.info.serial;
        let transport = if wrapping.tls { Transport::encrypted(stream) } else { Transport::Plain(stream) };
        let state = State::starting(client, ByteStream::new(transport));
        ConnectionTask { state, serial }
    }

    /// A session of datagrams, with its first one, that came to an address of the site.
    pub(crate) fn of_datagrams(
        counted: Counted,
        listen: usize,
        port: &Rc<DatagramPort>,
        (ends, payload): (Ends, &[u8]),
    ) -> ConnectionTask {
        let (peer, local) = (Peer::Inet(ends.client), Peer::Inet(ends.server));
        let info = Connection { carrier: Carrier::Datagrams, ..Connection::new(peer, local) };
        let client = new_client(counted, listen, info);
        let serial = client.info.serial;
        let requests = client.default_policy().keepalive.requests;
        let inbox = client.thread().sessions.open(ends, requests, payload);
        let session = DatagramSession::new(client, Rc::clone(port), inbox);
        ConnectionTask { state: State::Datagrams(Box::new(session)), serial }
    }

    /// Since when the connection has been idle, in milliseconds of uptime, if it may be closed to make room for others.
    pub(crate) fn idle_since_ms(&self) -> Option<u64> {
        match &self.state {
            State::Opening(opening) => opening.client.idle_since_ms(),
            State::Reading(http1) => http1.idle_since_ms(),
            State::Multiplexed(multiplexed) => multiplexed.idle_since_ms(),
            _ => None,
        }
    }

    /// Closes the connection when it is polled next, unless a request arrived meanwhile.
    pub(crate) fn close_if_idle(&mut self) {
        match &mut self.state {
            State::Opening(opening) => opening.client.idle.closes = true,
            State::Reading(http1) => http1.client.idle.closes = true,
            State::Multiplexed(multiplexed) => multiplexed.close_if_idle(),
            _ => {}
        }
    }
}

/// The client of a connection that begins now, at this place among [`site::Site::listens`].
fn new_client(counted: Counted, listen: usize, info: Connection) -> Client {
    let serving = counted.thread().serving();
    let debug = serving.site.debugs(&info.peer);
    let info = Connection { serial: next_serial(), debug, requests: Cell::new(0), ..info };
    Client::new(counted, serving, listen, info)
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
    /// The start of a connection at its address.
    fn starting(mut client: Client, mut bytes: ByteStream) -> State {
        let Protocols { wrapping, application, .. } = client.hosts().protocols;
        let policy = client.default_policy();
        let header_limit = policy.head.proxy_protocol_timeout.filter(|_| wrapping.proxy_header);
        let patience = header_limit.unwrap_or(policy.head.client_header_timeout);
        bytes.send_timeout = policy.sending.send_timeout;
        let is_opened = wrapping == Wrapping::default() && policy.head.preread.is_none();
        client.idle.patience = patience;
        client.timer.set(patience);
        match application {
            _ if !is_opened => State::Opening(Box::new(Opening::new(client, bytes, wrapping))),
            Application::Http => State::Reading(Box::new(Http1::new(client, bytes))),
            Application::Stream => State::session(client, bytes, None),
        }
    }

    fn client(&self) -> Option<&Client> {
        match self {
            State::Opening(opening) => Some(&opening.client),
            State::Reading(http1) => Some(&http1.client),
            State::Flushing(flushing) => Some(&flushing.http1.client),
            State::Serving(serving) => Some(&serving.http1.client),
            State::Multiplexed(multiplexed) => Some(multiplexed.client()),
            State::Session(session) => Some(&session.client),
            State::Datagrams(session) => Some(&session.client),
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
            State::Datagrams(session) => session.cut_off(),
            State::Opening(_)
            | State::Reading(_)
            | State::Flushing(_)
            | State::Closing(_)
            | State::Closed => {}
        }
    }

    /// Goes on; ready when the next state is reached.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // While something is waited for, the state stays where it is in memory.
        let next = match self {
            State::Closed => State::Closed,
            State::Opening(opening) => {
                let opened = ready!(opening.poll(cx));
                let State::Opening(opening) = self.take() else { return Poll::Ready(()) };
                State::after_opening(*opening, opened)
            }
            State::Reading(http1) => {
                let input = ready!(http1.poll_input(cx));
                let State::Reading(http1) = self.take() else { return Poll::Ready(()) };
                State::after_input(http1, input)
            }
            State::Serving(serving) => {
                let served = ready!(serving.poll(cx));
                let State::Serving(serving) = self.take() else { return Poll::Ready(()) };
                State::after_request(serving.into_connection(), served)
            }
            State::Flushing(flushing) => {
                let goes_on = ready!(flushing.poll(cx));
                let State::Flushing(flushing) = self.take() else { return Poll::Ready(()) };
                if goes_on { State::Reading(flushing.http1) } else { State::Closed }
            }
            State::Multiplexed(multiplexed) => {
                let ended = ready!(multiplexed.poll(cx));
                let State::Multiplexed(multiplexed) = self.take() else { return Poll::Ready(()) };
                match ended {
                    Ended::Closed => State::Closed,
                    Ended::Closing => {
                        let (client, bytes) = multiplexed.into_parts();
                        let scope = Arc::clone(&client.default_server().scope);
                        State::Closing(Box::new(Closing::new(client, bytes, scope, true)))
                    }
                }
            }
            State::Session(session) => {
                let ended = ready!(session.poll(cx));
                let State::Session(session) = self.take() else { return Poll::Ready(()) };
                let (client, bytes) = session.into_parts();
                match ended {
                    session::Ended::Closing(scope) => {
                        State::Closing(Box::new(Closing::new(client, bytes, scope, false)))
                    }
                    session::Ended::Passing(address) => match pass::pass(client, bytes, &address) {
                        Some((client, bytes)) => State::starting(client, bytes),
                        None => State::Closed,
                    },
                    session::Ended::Closed => State::Closed,
                }
            }
            State::Datagrams(session) => {
                ready!(session.poll(cx));
                State::Closed
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

    fn after_opening(opening: Opening, opened: Opened) -> State {
        let (client, bytes) = opening.into_parts();
        match opened {
            Opened::Http1 => State::Reading(Box::new(Http1::new(client, bytes))),
            Opened::Http2 => State::Multiplexed(Box::new(Multiplexed::new(client, bytes))),
            Opened::Session(preread) => State::session(client, bytes, preread),
            Opened::Over(status) => {
                if client.application() == Application::Stream {
                    session::log_unopened(&client, status);
                }
                State::Closed
            }
        }
    }

    fn session(client: Client, bytes: ByteStream, preread: Option<FirstBytes>) -> State {
        match session::is_refused(&client) {
            true => State::Closed,
            false => State::Session(Box::new(Session::new(client, bytes, preread))),
        }
    }

    fn after_input(http1: Box<Http1>, input: Input) -> State {
        match input {
            Input::Over => State::Closed,
            Input::Http2 => {
                let (client, bytes) = http1.into_parts();
                State::Multiplexed(Box::new(Multiplexed::new(client, bytes)))
            }
            Input::Unsent => State::Flushing(Box::new(Flushing::new(http1, false))),
            Input::Head(request, error) => match http1::answer(http1, request, error) {
                Answered::Again(http1) => State::Reading(http1),
                Answered::Serve(serving) => State::Serving(serving),
                Answered::Close(closing) => State::Closing(closing),
            },
        }
    }

    fn after_request(http1: Box<Http1>, served: Served) -> State {
        match served {
            Served::Kept => State::Reading(http1),
            Served::Refused => State::Flushing(Box::new(Flushing::new(http1, true))),
            Served::Closing(scope, unread) => {
                let (client, bytes) = http1.into_parts();
                State::Closing(Box::new(Closing::new(client, bytes, scope, unread)))
            }
            Served::Closed => State::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionTask, Http1};

    /// What an idle connection consists of; `docs/performance.md` tells what it takes with the memory around it.
    #[test]
    fn an_idle_connection_is_small() {
        let parts = [size_of::<ConnectionTask>(), size_of::<Http1>(), size_of::<contract::Connection>()];
        assert!(parts.iter().sum::<usize>() <= 552, "{parts:?}");
    }
}

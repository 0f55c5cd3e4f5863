//! Asking one server after another until one has an answer. A conversation is a state of the request that waits for
//! it: it is polled in the request's turns, has no separate task, and writes while it reads.

mod content;

use crate::balance::{Choice, Lease};
use crate::call::Call;
use crate::dialogue::{Carrier, Dialogue, Remarks};
use crate::failure::{CONNECTING, Failure, HANDSHAKING};
use crate::failures::Failures;
use crate::group::{Group, Key};
use crate::line::{Clock, Line, Link, Sent};
use crate::patience::{Patience, Wait};
use crate::pool::{self, Parked};
use crate::resolver::Lookup;
use crate::secured::Reading;
use crate::settings::Settings;
use crate::shared::{self, Found, Member};
use crate::sticky::Learns;
use crate::timing::Until;
use content::Content;
use contract::{Exchange, Task, Turn, Work};
use http::{Fields, Status};
use journal::Level;
use journal::clock::Time;
use net::{ConnectOptions, SocketType, Stream};
use std::any::Any;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use wire::Transport;
use wire::memory::Held;

/// How much one call reads of a head.
const HEAD_READ: usize = 16 * 1024;

/// How many failures of one request do not count because the server may have closed a connection before.
const FORGIVEN_MAX: u32 = 64;

/// Asking one server after another until one has an answer.
pub struct Conversation<D> {
    /// The request.
    pub call: Call,
    /// The protocol, with the head of the answer.
    pub dialogue: D,
    choice: Choice,
    state: State,
    /// The connection to the server that is asked, or that has answered, until the response is whole.
    pub(crate) line: Option<Line>,
    pub(crate) patience: Patience,
    started: Instant,
    is_first: bool,
    /// How many failures did not count, since the server may have closed a connection before.
    forgiven: u32,
    /// What was read of the response and not sent yet.
    content: Content,
    /// The cookie that keeps the session of the client with the server that was chosen last.
    cookie: Option<Vec<u8>>,
    /// The memory of the request and of the buffers of its connection.
    held: Held,
}

enum State {
    /// The certificate for the servers is found.
    Certifying(Option<Reading>),
    /// The name of the servers is looked up.
    Resolving(Box<Lookup>),
    /// A server has to be chosen.
    Choosing,
    /// A connection is opened, up to the end of its handshake.
    Connecting(Box<Connecting>),
    /// A connection that carries many requests is opened, or the server has to say how many.
    Joining(Box<Joining>),
    /// The request is sent and the head of the response is read.
    Asking,
    /// The head of the response is there.
    Answered,
    /// No server has an answer: the status, and the failure of the last server that was asked.
    Failed(Status, Option<Failures>),
}

struct Connecting {
    transport: Transport,
    /// Whether the handshake is what is waited for.
    stands: bool,
    /// How much of the preface was sent, in bytes.
    prefaced: usize,
    lease: Lease,
    clock: Clock,
}

struct Joining {
    member: Member,
    lease: Lease,
    clock: Clock,
}

/// A server that has no answer.
struct Broken {
    lease: Lease,
    /// How many bytes of the request it got.
    sent: u64,
    /// Whether the connection was a kept one that the server had closed already.
    is_stale: bool,
    failure: Failure,
}

impl<D: Dialogue> Conversation<D> {
    /// A conversation on behalf of an exchange, with the memory of one that a request before has left. Call and dialogue
    /// know nothing of the request yet.
    pub fn new(exchange: &Exchange, group: &Arc<Group>, settings: &Arc<Settings>) -> Box<Conversation<D>> {
        if let Some(mut left) = exchange.left::<Conversation<D>>() {
            left.call.renew(exchange, group, settings);
            return left;
        }
        Box::new(Conversation {
            call: Call::new::<D>(exchange, group, settings),
            dialogue: D::default(),
            choice: Choice::new(group, Key::default(), 0),
            state: State::Choosing,
            line: None,
            patience: Patience::default(),
            started: Time::now().instant,
            is_first: true,
            forgiven: 0,
            content: Content::default(),
            cookie: None,
            held: Held::default(),
        })
    }

    /// The work of asking servers until one has an answer, or until no other may be asked. Its outcome is this
    /// conversation. There is no other way to open a connection to a server, so that a caller who must not ask other
    /// servers knows by the work that it would. The servers are chosen by the key ([`Group::key`]).
    pub fn work(mut self: Box<Self>, key: Key) -> Work {
        let Call { group, settings, .. } = &self.call;
        self.choice.renew(group, key, settings.next_upstream.tries);
        let lasts = settings.ignore_client_abort;
        self.state = match &self.call.secured {
            Some(secured) if secured.is_incomplete() => State::Certifying(None),
            _ => self.resolving(),
        };
        self.started = Time::now().instant;
        Work::Upstream { task: self, lasts }
    }

    /// Ends the conversation, and leaves its memory for a further request.
    pub(crate) fn leave(mut self: Box<Self>, exchange: &Exchange) {
        let Conversation {
            call,
            dialogue,
            state,
            line,
            patience,
            is_first,
            forgiven,
            content,
            cookie,
            held,
            ..
        } = &mut *self;
        call.clear();
        dialogue.clear();
        (*state, *line, *is_first, *content) = (State::Choosing, None, true, Content::default());
        *forgiven = 0;
        *cookie = None;
        held.set(0);
        patience.clear();
        exchange.leave(self);
    }

    /// Whether a server answered; else the status to answer with.
    ///
    /// # Errors
    /// No server has an answer.
    pub fn answered(&self) -> Result<(), Status> {
        match self.state {
            State::Answered => Ok(()),
            State::Failed(status, _) => Err(status),
            State::Certifying(_)
            | State::Resolving(_)
            | State::Choosing
            | State::Connecting(_)
            | State::Joining(_)
            | State::Asking => Err(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// The failure of the last server that was asked, if no server has an answer.
    pub fn failure(&self) -> Option<Failures> {
        if let State::Failed(_, failure) = self.state { failure } else { None }
    }

    /// The state in which servers are found.
    fn resolving(&self) -> State {
        match &self.call.group.unresolved {
            Some(host) => State::Resolving(Box::new(Lookup::new(&host.name, &host.resolving))),
            None => State::Choosing,
        }
    }

    /// Waits for what a request needs that has no kept connection to a known server.
    #[inline(never)]
    fn poll_preparing(&mut self, turn: &mut Turn<'_, '_>) -> Poll<()> {
        match self.state {
            State::Certifying(_) => self.poll_certified(turn),
            State::Resolving(_) => self.poll_resolved(turn),
            State::Connecting(_) => self.poll_connect(turn),
            State::Joining(_) => self.poll_join(turn),
            State::Choosing | State::Asking | State::Answered | State::Failed(..) => Poll::Ready(()),
        }
    }

    /// Waits for the certificate that servers get.
    fn poll_certified(&mut self, turn: &mut Turn<'_, '_>) -> Poll<()> {
        let (State::Certifying(reading), Some(secured)) = (&mut self.state, &mut self.call.secured) else {
            return Poll::Ready(());
        };
        let found = ready!(secured.poll_complete(turn.cx, reading));
        self.state = match found {
            Ok(()) => self.resolving(),
            Err(message) => {
                turn.exchange.log(Level::Error, &message);
                State::Failed(Status::INTERNAL_SERVER_ERROR, None)
            }
        };
        Poll::Ready(())
    }

    /// Waits for the addresses of the servers.
    fn poll_resolved(&mut self, turn: &mut Turn<'_, '_>) -> Poll<()> {
        let (State::Resolving(lookup), Some(host)) = (&mut self.state, &self.call.group.unresolved) else {
            return Poll::Ready(());
        };
        let found = ready!(lookup.poll(turn.cx, &turn.exchange.scope.policy.error_log));
        match found {
            Ok((addresses, _)) => {
                let group = Arc::new(host.group(&addresses));
                self.choice.renew(&group, Key::default(), self.call.settings.next_upstream.tries);
                self.call.group = group;
                self.started = Time::now().instant;
                self.state = State::Choosing;
            }
            Err(reason) => {
                let message = format!("{} could not be resolved ({reason})", host.name);
                turn.exchange.log(Level::Error, &message);
                self.state = State::Failed(Status::BAD_GATEWAY, None);
            }
        }
        Poll::Ready(())
    }

    /// Adds the cookie of a session to the response, whatever that will be.
    fn send_cookie(&mut self, exchange: &mut Exchange) {
        let Some(cookie) = self.cookie.take() else { return };
        if exchange.response.fields.push(b"Set-Cookie", &cookie).is_err() {
            exchange.log(Level::Error, "the cookie of \"sticky\" cannot be sent");
        }
    }

    /// Learns which server the session of the request belongs to, if the group learns from answers. The fields of the answer
    /// are the upstream's for the variables that this evaluates.
    pub fn learn(&mut self, exchange: &Exchange, fields: impl Fn(&mut D) -> &mut Fields) {
        let learns = self.call.group.sticky.as_ref().is_some_and(|sticky| sticky.learns().is_some());
        let Some(line) = self.line.as_mut().filter(|_| learns) else { return };
        self.call.attempts.set_fields(fields(&mut self.dialogue));
        line.lease.learn(exchange, self.choice.session(), Learns::AtHead);
        // The same call takes them back.
        self.call.attempts.set_fields(fields(&mut self.dialogue));
    }

    /// Chooses a server, and takes an idle connection to it or begins to connect.
    fn choose(&mut self, turn: &mut Turn<'_, '_>) {
        let redirected = self.is_first && !self.call.attempts.is_empty();
        self.is_first = false;
        let Some(lease) = self.choice.choose() else {
            self.call.attempts.begin(&self.call.group.name, redirected);
            self.call.log_nobody(turn.exchange);
            self.state = State::Failed(self.call.note_failure(Failures::ERROR), Some(Failures::ERROR));
            return;
        };
        self.call.attempts.begin(&lease.server().name, redirected);
        // The connection is opened to this very address: no answer of a name server comes between.
        let denied = self.call.settings.connecting.denied.as_ref();
        if denied.is_some_and(|denied| denied.has(&lease.server().peer.address)) {
            return self.deny(turn, &lease);
        }
        if let Some(sticky) = &lease.group().sticky {
            self.cookie = sticky.cookie(turn.exchange, lease.route());
        }
        let clock = Clock::start(&self.call.attempts);
        if let Some(carrier) = D::CARRIER {
            return self.join(turn, carrier, (lease, clock));
        }
        // What a client says through a tunnel belongs on a connection on which nobody has said anything.
        let parked = if D::IS_TUNNEL { None } else { pool::take(&lease, &self.call) };
        if let Some(parked) = parked {
            return self.ask(Link::Whole(parked), lease, clock);
        }
        match self.open(&lease) {
            Ok(transport) => {
                let connecting = Connecting { transport, stands: false, prefaced: 0, lease, clock };
                self.state = State::Connecting(Box::new(connecting));
            }
            Err(failure) => self.fail(turn, Broken::connecting(lease, failure)),
        }
    }

    /// Ends the conversation, because the address of the server is denied.
    #[cold]
    fn deny(&mut self, turn: &Turn<'_, '_>, lease: &Lease) {
        let url = self.call.url(lease.server());
        let message = "the address is denied by \"upstream_deny\" while connecting to upstream";
        turn.exchange.request_log().write(Level::Error, message, Some(&url));
        self.call.attempts.note(|attempt| attempt.status = Some(Status::FORBIDDEN));
        self.state = State::Failed(Status::FORBIDDEN, None);
    }

    /// Takes a place on a connection that carries many requests, or begins to open one.
    fn join(
        &mut self,
        turn: &mut Turn<'_, '_>,
        carrier: fn() -> Rc<dyn Carrier>,
        (lease, clock): (Lease, Clock),
    ) {
        let opened = match shared::find(&lease, &self.call) {
            Some(member) => Ok(member),
            None => {
                self.open(&lease).map(|transport| shared::start(transport, carrier(), &lease, &self.call))
            }
        };
        match opened {
            Ok(member) => self.state = State::Joining(Box::new(Joining { member, lease, clock })),
            Err(failure) => self.fail(turn, Broken::connecting(lease, failure)),
        }
    }

    /// Begins to connect.
    #[inline(never)]
    fn open(&self, lease: &Lease) -> Result<Transport, Failure> {
        let server = lease.server();
        let Call { local, transport, .. } = self.call;
        let options = ConnectOptions { local, transport, ..self.call.settings.connecting.socket };
        let connect = || {
            let stream = Stream::connect_with(&server.peer.address, &options);
            stream.map_err(|error| Failure::io("connect", &error, CONNECTING))
        };
        let Some(secured) = &self.call.secured else { return connect().map(Transport::Plain) };
        let session =
            secured.session(server).map_err(|failure| Failure::handshake(&io::Error::other(failure)))?;
        Ok(Transport::client(connect()?, session))
    }

    /// Waits for the connection and its handshake, for which there is one time together.
    fn poll_connect(&mut self, turn: &mut Turn<'_, '_>) -> Poll<()> {
        let State::Connecting(mut connecting) = std::mem::replace(&mut self.state, State::Choosing) else {
            return Poll::Ready(());
        };
        // Before datagrams the preface is a part of the first one.
        let preface = match self.call.transport {
            SocketType::Stream => &self.call.preface[..],
            SocketType::Datagram => &[],
        };
        let polled = match connecting.poll(turn.cx, preface) {
            Poll::Pending => {
                let limit = self.call.settings.timeouts.connect;
                self.patience.poll(turn.cx, Wait::Connect, limit).map(|timer| Err(connecting.why_late(timer)))
            }
            ready => ready,
        };
        let Poll::Ready(result) = polled else {
            self.state = State::Connecting(connecting);
            return Poll::Pending;
        };
        let Connecting { transport, lease, clock, .. } = *connecting;
        match result {
            Ok(()) => {
                let parked = Parked::new(transport, &lease, &self.call);
                self.ask(Link::Whole(parked), lease, clock);
            }
            Err(failure) => self.fail(turn, Broken::connecting(lease, failure)),
        }
        Poll::Ready(())
    }

    /// Waits for a place on a connection.
    fn poll_join(&mut self, turn: &mut Turn<'_, '_>) -> Poll<()> {
        let State::Joining(joining) = std::mem::replace(&mut self.state, State::Choosing) else {
            return Poll::Ready(());
        };
        let polled = match joining.member.poll_place(turn.cx, &joining.lease) {
            Poll::Pending => {
                let limit = self.call.settings.timeouts.connect;
                let late = self.patience.poll(turn.cx, Wait::Connect, limit);
                late.map(|timer| Err(joining.member.why_late(timer)))
            }
            ready => ready,
        };
        let Poll::Ready(found) = polled else {
            self.state = State::Joining(joining);
            return Poll::Pending;
        };
        let Joining { member, lease, clock } = *joining;
        match (found, D::CARRIER) {
            (Ok(Found::Full), Some(carrier)) => {
                drop(member);
                self.join(turn, carrier, (lease, clock));
            }
            (Ok(_), _) => self.ask(Link::Place(member), lease, clock),
            (Err(failure), _) => self.fail(turn, Broken::connecting(lease, failure)),
        }
        Poll::Ready(())
    }

    #[inline]
    fn ask(&mut self, link: Link, lease: Lease, clock: Clock) {
        self.patience.moved();
        let line = self.line.insert(Line::new(link, lease, clock));
        line.send(&mut self.dialogue, self.call.upload.start());
        self.state = State::Asking;
    }

    /// Sends the request and reads until the head of the response is there.
    ///
    /// # Errors
    /// The client does not send the rest of the body.
    fn poll_asking(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        match ready!(self.poll_head(turn))? {
            Ok(status) => self.judge(turn, status),
            Err(failure) => {
                if let Some(line) = self.line.take() {
                    let is_stale = self.forgiven < FORGIVEN_MAX && line.is_stale(&failure);
                    let sent = if failure.is_unprocessed { 0 } else { line.sent() };
                    let broken = Broken { sent, is_stale, failure, lease: line.into_lease() };
                    self.fail(turn, broken);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The status of the response when its head is there, or the failure of the server; the error is the client's.
    fn poll_head(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<Result<Status, Failure>, Status>> {
        let Conversation { line, dialogue, call, patience, .. } = self;
        let Some(line) = line else { return Poll::Ready(Err(Status::INTERNAL_SERVER_ERROR)) };
        if D::IS_TUNNEL {
            return Poll::Ready(Ok(Ok(Status::OK)));
        }
        loop {
            let before = line.sent();
            let sent = line.poll_send(turn, dialogue)?;
            if line.sent() > before {
                patience.moved();
            }
            match line.poll_read(turn.cx, dialogue, HEAD_READ) {
                Poll::Ready(Ok(1..)) => {
                    patience.moved();
                    let url = || call.url(line.lease.server());
                    let remarks = Remarks::new(turn.exchange, &url).hiding(&call.settings.hidden);
                    match dialogue.read_head(&mut line.input, &remarks) {
                        Ok(Some(status)) => return Poll::Ready(Ok(Ok(status))),
                        Ok(None) => {}
                        Err(failure) => return Poll::Ready(Ok(Err(failure))),
                    }
                }
                Poll::Ready(read) => return Poll::Ready(Ok(Err(line.why_ended(read)))),
                // The time to answer runs from when the server has the whole request. What the server said before its
                // connection broke counts.
                Poll::Pending => {
                    let (wait, limit) = match sent {
                        Sent::AwaitsClient => {
                            patience.moved();
                            return Poll::Pending;
                        }
                        Sent::AwaitsServer => (Wait::Send, call.settings.timeouts.send),
                        Sent::All => (Wait::Read, call.settings.timeouts.read),
                    };
                    return patience.poll(turn.cx, wait, limit).map(|_| Ok(Err(line.why_silent(wait))));
                }
            }
        }
    }

    /// Takes an answer, unless it is a fault after which another server may be asked.
    fn judge(&mut self, turn: &mut Turn<'_, '_>, status: Status) {
        let Some(line) = &mut self.line else { return };
        self.patience.clear();
        line.head_arrived(status);
        let fault = Failures::of_status(status).filter(|_| self.choice.has_more());
        let sent = line.sent();
        match fault.filter(|&kind| self.call.may_go_on(kind, sent, turn.exchange, self.started)) {
            Some(kind) => {
                let lease = self.line.take().map(Line::into_lease);
                if let Some(mut lease) = lease.filter(|_| kind.counts())
                    && lease.fail()
                {
                    self.call.log_disabled(turn.exchange, lease.server());
                }
                self.state = State::Choosing;
            }
            None => {
                line.lease.reached(Until::Answer);
                if D::IS_TUNNEL {
                    line.lease.connected();
                }
                self.state = State::Answered;
            }
        }
    }

    /// Logs the failure of a server, and goes on to another one if that is allowed.
    #[cold]
    fn fail(&mut self, turn: &mut Turn<'_, '_>, broken: Broken) {
        self.patience.moved();
        let Broken { mut lease, sent, is_stale, failure } = broken;
        self.call.log_failure(turn.exchange, lease.server(), &failure);
        let status = self.call.note_failure(failure.kind);
        let goes_on = self.call.may_go_on(failure.kind, sent, turn.exchange, self.started);
        if is_stale {
            self.forgiven += 1;
            self.choice.forgive();
        } else if lease.fail() {
            self.call.log_disabled(turn.exchange, lease.server());
        }
        self.state = match goes_on && self.choice.has_more() {
            true => State::Choosing,
            false => State::Failed(status, Some(failure.kind)),
        };
    }
}

impl Connecting {
    fn poll(&mut self, cx: &mut Context<'_>, preface: &[u8]) -> Poll<Result<(), Failure>> {
        if !self.stands {
            let connected = ready!(self.transport.poll_connected(cx));
            connected.map_err(|error| Failure::io("connect", &error, CONNECTING))?;
            self.stands = true;
        }
        while let Some(rest @ [_, ..]) = preface.get(self.prefaced..) {
            let written = ready!(self.transport.poll_write_clear(cx, rest));
            let count = written.map_err(|error| Failure::io("send", &error, CONNECTING))?;
            self.clock.note(|attempt| attempt.sent += count as u64);
            self.prefaced += count;
        }
        self.transport.poll_handshake(cx).map_err(|error| Failure::handshake(&error))
    }

    /// The failure of a server that is too slow, unless that of the timer itself.
    fn why_late(&self, timer: io::Result<()>) -> Failure {
        let doing = if self.stands { HANDSHAKING } else { CONNECTING };
        match timer {
            Ok(()) => Failure::timed_out(doing),
            Err(error) => Failure::io("connect", &error, doing),
        }
    }
}

impl<D: Dialogue> Conversation<D> {
    fn poll_states(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        loop {
            match self.state {
                State::Choosing => self.choose(turn),
                State::Asking => ready!(self.poll_asking(turn))?,
                State::Answered | State::Failed(..) => {
                    self.send_cookie(turn.exchange);
                    return Poll::Ready(Ok(()));
                }
                _ => ready!(self.poll_preparing(turn)),
            }
        }
    }
}

impl Broken {
    fn connecting(lease: Lease, failure: Failure) -> Broken {
        Broken { lease, sent: 0, is_stale: false, failure }
    }
}

impl<D: Dialogue> Task for Conversation<D> {
    fn poll(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        let polled = self.poll_states(turn);
        if polled.is_pending() {
            let buffers = self.line.as_ref().map_or(0, Line::memory);
            self.held.set(self.dialogue.memory() + self.call.uri.capacity() + buffers);
        }
        polled
    }

    fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

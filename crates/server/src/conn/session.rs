//! A connection of `stream`. It is one exchange without a head: it goes through the same phases as a request, and its
//! content is a tunnel to another server or a text.

use super::OUTPUT_LIMIT;
use super::byte_stream::ByteStream;
use super::client::Client;
use super::life::Sender;
use super::opening::host_name;
use super::pooled::PooledRequest;
use super::{client_certificate, exchange};
use bytes::Bytes;
use contract::{Body, BodyReader, Exchange, FirstBytes, PassTo, Phase, Piece, Pipe, Reach, Scope};
use engine::{After, Detached, End, Flow, Sent};
use http::Status;
use journal::Level;
use net::SocketAddress;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::Timer;

/// A connection that is being served, and its exchange.
pub(crate) struct Session {
    pub(super) client: Client,
    bytes: ByteStream,
    pooled: Box<PooledRequest>,
}

/// What happens to a connection whose session is over.
pub(crate) enum Ended {
    /// The client gets what was sent.
    Closing(Arc<Scope>),
    /// It goes on at another address of this server.
    Passing(SocketAddress),
    Closed,
}

impl Session {
    /// Starts the session of a connection that is open: its header of the PROXY protocol and its handshake are over, and
    /// its first bytes told this, if they were looked at.
    pub(super) fn new(client: Client, bytes: ByteStream, preread: Option<FirstBytes>) -> Session {
        client.timer.clear();
        client.counted.activity.answers();
        let mut pooled = begin(&client, preread);
        let progress = pooled.advance(client.is_leaving(), net::moment());
        pooled.life.start(progress);
        Session { client, bytes, pooled }
    }

    /// Goes on; ready with what happens to the connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Session { client, bytes, pooled } = self;
        let mut raw = Raw { client, bytes, is_served: false };
        ready!(pooled.life.poll(cx, &mut raw));
        let is_served = raw.is_served;
        if let Some(PassTo(address)) = pooled.exchange().attached().as_deref().filter(|_| is_served) {
            return Poll::Ready(Ended::Passing(address.clone()));
        }
        let scope = Arc::clone(&pooled.exchange().scope);
        Poll::Ready(if is_served { Ended::Closing(scope) } else { Ended::Closed })
    }

    /// Logs the session, whose connection is cut.
    pub(super) fn cut_off(&mut self) {
        self.pooled.life.cut_off();
    }

    /// Gives back the connection, and ends the session with all that is attached to it.
    pub(super) fn into_parts(self) -> (Client, ByteStream) {
        let Session { client, bytes, pooled } = self;
        exchange::end(&client, pooled);
        (client, bytes)
    }
}

/// The exchange of a connection, at the start of its way.
pub(super) fn begin(client: &Client, preread: Option<FirstBytes>) -> Box<PooledRequest> {
    let mut pooled = exchange::unread(client);
    let flow = pooled.flow();
    flow.exchange.take_up(&client.info, &client.serving.site.stream_variables, client.info.accepted);
    flow.start(client.default_server());
    if let Some(name) = asked_name(client, preread.as_ref()) {
        flow.exchange.request.host.extend_from_slice(&name);
        // The server is chosen already; the pattern of its name may capture parts of the name.
        let _ = client.hosts().find(&flow.exchange);
    }
    if let Some(preread) = preread {
        flow.exchange.attach(Reach::Own, Rc::new(preread));
    }
    pooled
}

/// The name of a server that the client asked for in its handshake.
fn asked_name(client: &Client, preread: Option<&FirstBytes>) -> Option<Vec<u8>> {
    match preread.and_then(|preread| preread.hello.as_ref()) {
        Some(hello) => Some(host_name(hello)),
        None => Some(client.info.tls.as_ref()?.server_name.as_ref()?.as_bytes().to_vec()),
    }
}

/// Whether the session of a connection may not begin: because of the certificate of its client, or since its server has
/// nothing to do. That is logged.
pub(super) fn is_refused(client: &Client) -> bool {
    let refused = client_certificate::refuses_session(client);
    if let Some(reason) = &refused {
        client.log(Level::Info, &format!("{reason} while SSL handshaking"));
    }
    let is_refused = refused.is_some() || client.default_server().scope.handlers(Phase::Content).is_empty();
    if is_refused {
        log_unopened(client, Status::INTERNAL_SERVER_ERROR);
    }
    is_refused
}

/// Logs a connection that ended with this status before its session began.
pub(super) fn log_unopened(client: &Client, status: Status) {
    let mut pooled = begin(client, None);
    let flow = pooled.flow();
    flow.exchange.response.status = status;
    flow.exchange.wire.answered = true;
    log_end(&flow.exchange);
    flow.log();
    exchange::end(client, pooled);
}

pub(super) fn log_end(exchange: &Exchange) {
    let (received, sent) = (exchange.request.length, exchange.wire.bytes);
    exchange.log(Level::Info, &format!("session ended, bytes from/to client:{received}/{sent}"));
}

/// The client of a session, as the engine sees it.
struct Raw<'a> {
    client: &'a Client,
    bytes: &'a mut ByteStream,
    /// Whether the session ended as it should.
    is_served: bool,
}

impl BodyReader for Raw<'_> {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        Poll::Ready(Ok(false))
    }
}

impl End for Raw<'_> {
    fn put_back(&mut self, _: Bytes) {}

    fn give_up_body(&mut self, _: &mut Exchange, _: Status) {}

    fn settle(&mut self, _: &mut Exchange) -> Result<(), Status> {
        Ok(())
    }

    /// There is no head. The page of an error is not sent.
    fn head(&mut self, flow: &mut Flow, _: &Body, _: bool) -> bool {
        flow.exchange.wire.head_sent = true;
        flow.exchange.response.status == Status::OK
    }

    fn has_room(&self) -> bool {
        self.bytes.output.bytes().len() < OUTPUT_LIMIT
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        // No content of a session is in a file.
        if let Piece::Bytes(bytes) = piece {
            self.bytes.output.append(|out| out.extend_from_slice(&bytes));
        }
    }

    #[inline]
    fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.bytes.poll_read_raw(cx, room))?;
        exchange.request.length += count as u64;
        Poll::Ready(Ok(count))
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

    fn splices_raw(&mut self) -> bool {
        self.bytes.transport.is_plain() && self.bytes.input.is_empty()
    }

    fn poll_fill_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.bytes.transport.poll_fill(cx, pipe))?;
        exchange.request.length += count as u64;
        Poll::Ready(Ok(count))
    }

    fn poll_drain_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        if self.has_unsent() {
            return Poll::Pending;
        }
        let count = ready!(self.bytes.transport.poll_drain(cx, pipe))?;
        exchange.wire.bytes += count as u64;
        Poll::Ready(Ok(count))
    }

    fn finish(&mut self, _: &mut Flow) {}

    fn send(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent> {
        let ByteStream { transport, output, .. } = &mut *self.bytes;
        if output.is_empty() {
            output.release();
            return Ok(Sent::All);
        }
        let bytes = &output.bytes()[..output.bytes().len().min(limit)];
        let Poll::Ready(count) = transport.poll_write(cx, bytes)? else { return Ok(Sent::AwaitsClient) };
        output.consume(count);
        exchange.wire.bytes += count as u64;
        Ok(Sent::Some(count as u64))
    }

    fn has_unsent(&self) -> bool {
        !self.bytes.output.is_empty()
    }

    fn discard(&mut self, _: &io::Error) {
        self.bytes.output.consume(usize::MAX);
    }

    /// A server is asked also for a client that has ended its side: what it sent before is passed on.
    fn poll_gone(&mut self, cx: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        // Polled only so that `wake_all` reaches this connection when a site is past.
        let _: Poll<()> = self.client.timer.poll(cx);
        Poll::Pending
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

impl Sender for Raw<'_> {
    const SENDING: &'static str = "proxying and sending to client";

    fn responded(&mut self, flow: &mut Flow, after: After) {
        self.is_served = flow.exchange.response.status == Status::OK && matches!(after, After::Sent);
        log_end(&flow.exchange);
    }

    /// A connection that goes on at another address is logged there.
    fn is_logged(&self, flow: &Flow) -> bool {
        flow.exchange.attached::<PassTo>().is_none()
    }

    fn memory(&self) -> usize {
        self.bytes.memory()
    }
}

//! A connection of `stream`. It is one exchange without a head: it goes through the same phases as a request, and its
//! content is a tunnel to another server or a text.

use super::exchange::{self, PooledRequest};
use super::{ClientConnection, OUTPUT_LIMIT};
use bytes::Bytes;
use contract::{Body, BodyReader, Exchange, Piece, Scope};
use engine::{After, Detached, End, Flow, Sent};
use http::Status;
use journal::Level;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::Timer;

/// A connection that is being served, and its exchange.
pub(crate) struct Session {
    pub(crate) client: Box<ClientConnection>,
    pooled: Box<PooledRequest>,
}

/// What happens to a connection whose session is over.
pub(crate) enum Ended {
    /// The client gets what was sent.
    Closing(Arc<Scope>),
    Closed,
}

impl Session {
    /// Starts the session of a connection that is open: its header of the PROXY protocol and its handshake are over.
    pub(crate) fn new(client: Box<ClientConnection>) -> Session {
        client.timer.clear();
        client.counted.activity.answers();
        let mut pooled = begin(&client);
        let progress = pooled.advance(client.is_leaving(), net::moment());
        pooled.request.start(progress);
        Session { client, pooled }
    }

    /// Goes on; ready with what happens to the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Session { client, pooled } = self;
        let polled = pooled.request.poll(cx, &mut Raw(client));
        if polled.is_pending() {
            pooled.course.held.set(client.input.capacity() + client.output.capacity());
        }
        let after = ready!(polled);
        let flow = &mut pooled.request.flow;
        if let After::Cut(error) = &after {
            let text = format!("{} while proxying and sending to client", net::system_message(error));
            flow.exchange.log(Level::Info, &text);
        }
        log(flow);
        let scope = Arc::clone(&flow.exchange.scope);
        let is_served = flow.exchange.response.status == Status::OK && matches!(after, After::Sent);
        Poll::Ready(if is_served { Ended::Closing(scope) } else { Ended::Closed })
    }

    /// Logs the session, whose connection is cut.
    pub(crate) fn cut_off(&mut self) {
        self.pooled.request.cut_off();
    }

    /// Gives back the connection, and ends the session with all that is attached to it.
    pub(crate) fn into_client(self) -> Box<ClientConnection> {
        let Session { client, pooled } = self;
        client.end(pooled);
        client
    }
}

/// The exchange of a connection, at the start of its way.
fn begin(client: &ClientConnection) -> Box<PooledRequest> {
    let mut pooled = exchange::unread(client);
    let flow = &mut pooled.request.flow;
    flow.exchange.take_up(&client.info, &client.serving.site.stream_variables, client.info.accepted);
    flow.start(client.default_server());
    if let Some(name) = client.info.tls.as_ref().and_then(|tls| tls.server_name.as_deref()) {
        flow.exchange.request.host.extend_from_slice(name.as_bytes());
        // The handshake chose the server already; the pattern of its name may capture parts of the name.
        let _ = client.hosts().find(&flow.exchange);
    }
    pooled
}

/// Logs a connection that ended before its session began: its header or its handshake failed.
pub(super) fn log_unopened(client: &ClientConnection) {
    let mut pooled = begin(client);
    let flow = &mut pooled.request.flow;
    let is_header = client.awaits_proxy_header;
    flow.exchange.response.status =
        if is_header { Status::BAD_REQUEST } else { Status::INTERNAL_SERVER_ERROR };
    log(flow);
    client.end(pooled);
}

fn log(flow: &mut Flow) {
    let exchange = &flow.exchange;
    let (received, sent) = (exchange.request.length, exchange.wire.bytes);
    exchange.log(Level::Info, &format!("session ended, bytes from/to client:{received}/{sent}"));
    flow.log();
}

/// The client of a session, as the engine sees it.
struct Raw<'a>(&'a mut ClientConnection);

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
        self.0.output.bytes().len() < OUTPUT_LIMIT
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        // No content of a session is in a file.
        if let Piece::Bytes(bytes) = piece {
            self.0.output.append(|out| out.extend_from_slice(&bytes));
        }
    }

    #[inline]
    fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.0.poll_read_raw(cx, room))?;
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
        let count = ready!(self.0.stream.poll_write(cx, bytes))?;
        exchange.wire.bytes += count as u64;
        Poll::Ready(Ok(count))
    }

    fn finish(&mut self, _: &mut Flow) {}

    fn send(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange, limit: usize) -> io::Result<Sent> {
        let ClientConnection { stream, output, .. } = &mut *self.0;
        if output.is_empty() {
            output.release();
            return Ok(Sent::All);
        }
        let bytes = &output.bytes()[..output.bytes().len().min(limit)];
        let Poll::Ready(count) = stream.poll_write(cx, bytes)? else { return Ok(Sent::AwaitsClient) };
        output.consume(count);
        exchange.wire.bytes += count as u64;
        Ok(Sent::Some(count as u64))
    }

    fn has_unsent(&self) -> bool {
        !self.0.output.is_empty()
    }

    fn discard(&mut self, _: &io::Error) {
        self.0.output.consume(usize::MAX);
    }

    /// A server is asked also for a client that has ended its side: what it sent before is passed on.
    fn poll_gone(&mut self, cx: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        // Polled only so that `wake_all` reaches this connection when a site is past.
        let _: Poll<()> = self.0.timer.poll(cx);
        Poll::Pending
    }

    fn detach(&mut self, request: Detached) {
        self.0.detach(request);
    }

    fn timer(&self) -> Option<&Timer> {
        Some(&self.0.timer)
    }

    fn end_writing(&mut self) {
        // A connection that is broken already is noticed by the next read.
        drop(self.0.stream.shutdown_write());
    }
}

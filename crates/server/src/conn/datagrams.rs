//! A session of datagrams in `stream`. It is one exchange without a head, as a session of a connection is. The body of the
//! request is the client's datagrams, a piece each, and each piece of the response is a datagram.

use super::client::Client;
use super::exchange;
use super::life::Sender;
use super::pooled::PooledRequest;
use super::session::{begin, log_end};
use crate::datagram_sessions::Inbox;
use bytes::Bytes;
use contract::{Body, BodyReader, Exchange, PassTo, Piece};
use engine::{After, Detached, End, Flow, Sent};
use http::Status;
use journal::Level;
use net::{DatagramPort, system_message};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::Timer;

/// How many datagrams are sent to a client in one call.
const OUTPUT_LIMIT: usize = 16;

/// A session that is being served, and its exchange.
pub(crate) struct DatagramSession {
    pub(super) client: Client,
    inbox: Rc<Inbox>,
    port: Rc<DatagramPort>,
    /// What is sent next.
    output: Vec<Bytes>,
    /// The memory of the exchange, until the session is over.
    pooled: Option<Box<PooledRequest>>,
}

impl DatagramSession {
    /// Starts a session whose first datagram is in its inbox.
    pub(super) fn new(client: Client, port: Rc<DatagramPort>, inbox: Rc<Inbox>) -> DatagramSession {
        client.counted.activity.answers();
        let mut pooled = begin(&client, None);
        let progress = pooled.advance(false, net::moment());
        pooled.life.start(progress);
        DatagramSession { client, inbox, port, output: Vec::new(), pooled: Some(pooled) }
    }

    /// Goes on; ready when the session is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let DatagramSession { client, inbox, port, output, pooled } = self;
        if let Some(request) = pooled {
            ready!(request.life.poll(cx, &mut Ends { client, inbox, port, output }));
        }
        if let Some(pooled) = pooled.take() {
            exchange::end(client, pooled);
        }
        Poll::Ready(())
    }

    /// Logs the session, which ends now.
    pub(super) fn cut_off(&mut self) {
        if let Some(pooled) = &mut self.pooled {
            pooled.life.cut_off();
        }
    }
}

impl Drop for DatagramSession {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

/// The client of a session, as the engine sees it.
struct Ends<'a> {
    client: &'a Client,
    inbox: &'a Inbox,
    port: &'a DatagramPort,
    output: &'a mut Vec<Bytes>,
}

impl Ends<'_> {
    /// Polled only so that `wake_all` reaches this session when the thread drains, or its site is past.
    fn listen(&self, cx: &mut Context<'_>) {
        let _: Poll<()> = self.client.timer.poll(cx);
    }
}

impl BodyReader for Ends<'_> {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        if self.inbox.poll_evicted(cx).is_ready() {
            let text = "the session ends: its place is needed, and it was not answered";
            exchange.log(Level::Info, text);
            return Poll::Ready(Err(Status::SERVICE_UNAVAILABLE));
        }
        if let Poll::Ready(datagram) = self.inbox.poll_take(cx) {
            exchange.request.length += datagram.len() as u64;
            take(&datagram);
            return Poll::Ready(Ok(true));
        }
        // This process, or this address, receives no more, and no newer worker passes datagrams on.
        if self.client.is_leaving() && !self.client.thread().sessions.routes.is_fed() {
            return Poll::Ready(Ok(false));
        }
        self.listen(cx);
        Poll::Pending
    }
}

impl End for Ends<'_> {
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
        self.output.len() < OUTPUT_LIMIT
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        // No content of a session is in a file.
        if let Piece::Bytes(bytes) = piece {
            self.output.push(bytes);
        }
    }

    fn finish(&mut self, _: &mut Flow) {}

    /// Sends all. What the network does not take is dropped, as on any link.
    fn send(&mut self, _: &mut Context<'_>, exchange: &mut Exchange, _: usize) -> io::Result<Sent> {
        let crate::datagram_routes::Ends { client, server } = self.inbox.ends;
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            let sent = match self.port.send(client, server, rest) {
                Ok(count) => count.max(1),
                Err(error) => {
                    let reason = system_message(&error);
                    exchange
                        .log(Level::Info, &format!("sendmmsg() failed ({reason}), a datagram is dropped"));
                    rest = &rest[1..];
                    continue;
                }
            };
            exchange.wire.bytes += rest[..sent].iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            self.inbox.answered();
            rest = &rest[sent..];
        }
        self.output.clear();
        Ok(Sent::All)
    }

    fn has_unsent(&self) -> bool {
        !self.output.is_empty()
    }

    fn discard(&mut self, _: &io::Error) {
        self.output.clear();
    }

    /// A client of datagrams does not say that it is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        self.listen(cx);
        self.inbox.poll_evicted(cx)
    }

    fn detach(&mut self, request: Detached) {
        self.client.detach(request);
    }

    fn timer(&self) -> Option<&Timer> {
        Some(&self.client.timer)
    }
}

impl Sender for Ends<'_> {
    const SENDING: &'static str = "proxying and sending to client";

    fn responded(&mut self, flow: &mut Flow, _: After) {
        if flow.exchange.attached::<PassTo>().is_some() {
            flow.exchange.log(Level::Error, "cannot pass udp connection while passing connection to port");
            flow.exchange.response.status = Status::INTERNAL_SERVER_ERROR;
        }
        // A session that was refused, or answered by itself, took no datagram. The client sent one all the same.
        flow.exchange.request.length += self.inbox.memory() as u64;
        log_end(&flow.exchange);
    }

    fn memory(&self) -> usize {
        self.inbox.memory()
    }
}

//! The start of a connection that does not begin with the application's protocol: a header of the PROXY protocol, a
//! handshake of TLS, or both.

mod handshake;
mod proxy_protocol;

use super::byte_stream::ByteStream;
use super::client::Client;
use handshake::Start;
use journal::Level;
use site::{Application, Wrapping};
use std::io;
use std::task::{Context, Poll, ready};
use wire::Transport;

/// A connection that is not open yet.
pub(super) struct Opening {
    pub(super) client: Client,
    bytes: ByteStream,
    /// Whether a header of the PROXY protocol comes first.
    awaits_proxy_header: bool,
    /// The handshake, until it is over.
    handshake: Option<Start>,
}

/// What follows the start of a connection.
pub(super) enum Opened {
    Http1,
    Http2,
    /// The connection is passed on as it is.
    Session,
    /// The connection closes.
    Over,
}

impl Opening {
    /// A connection that is wrapped so.
    pub(super) fn new(client: Client, mut bytes: ByteStream, wrapping: Wrapping) -> Opening {
        let Wrapping { proxy_header, tls } = wrapping;
        if let Transport::Tls(tls) = &mut bytes.transport
            && proxy_header
        {
            tls.clear();
        }
        Opening { client, bytes, awaits_proxy_header: proxy_header, handshake: tls.then(Start::default) }
    }

    /// The connection, which is open.
    pub(super) fn into_parts(self) -> (Client, ByteStream) {
        (self.client, self.bytes)
    }

    /// Whether the header of the PROXY protocol did not come.
    pub(super) fn lacks_proxy_header(&self) -> bool {
        self.awaits_proxy_header
    }

    /// Goes on; ready with what follows.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Opened> {
        if self.awaits_proxy_header {
            match self.poll_proxy_header(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Opened::Over),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        if self.handshake.is_some() {
            match self.poll_handshake(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Opened::Over),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        let client = &self.client;
        Poll::Ready(match client.application() {
            Application::Stream if self.bytes.clear_by_mistake => Opened::Over,
            Application::Stream => Opened::Session,
            Application::Http if client.has_agreed_on_http2() => Opened::Http2,
            Application::Http => Opened::Http1,
        })
    }

    /// Nothing to read: waits, unless the time is up or the thread needs the place.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Opened> {
        self.bytes.input.shrink();
        if self.client.closes_idle() {
            self.bytes.transport.say_goodbye();
            return Poll::Ready(Opened::Over);
        }
        ready!(self.client.timer.poll(cx));
        const MESSAGE: &str = "client timed out (110: Connection timed out)";
        match self.awaits_proxy_header {
            true => self.log_proxy_header(Level::Info, MESSAGE),
            false => self.log_handshake(Level::Info, MESSAGE),
        }
        let lingering = &self.client.default_policy().lingering;
        self.bytes.reset_if_timed_out(&io::ErrorKind::TimedOut.into(), lingering);
        Poll::Ready(Opened::Over)
    }
}

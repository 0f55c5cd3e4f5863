//! The start of a connection that does not begin with the application's protocol: a header of the PROXY protocol, a
//! handshake of TLS, or both; or of one whose first bytes choose where it goes.

mod handshake;
mod preread;
mod proxy_protocol;

pub(super) use preread::host_name;

use super::byte_stream::ByteStream;
use super::client::Client;
use contract::FirstBytes;
use contract::policy::PrereadPolicy;
use handshake::Start;
use http::Status;
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
    /// How the first bytes are looked at, unless that is done.
    prereads: Option<PrereadPolicy>,
}

/// What follows the start of a connection.
pub(super) enum Opened {
    Http1,
    Http2,
    /// The connection is passed on as it is; its first bytes told this, if they were looked at.
    Session(Option<FirstBytes>),
    /// The connection closes, with this status of a session.
    Over(Status),
}

impl Opening {
    /// A connection that is wrapped so.
    pub(super) fn new(client: Client, mut bytes: ByteStream, wrapping: Wrapping) -> Opening {
        let Wrapping { proxy_header, tls: is_encrypted } = wrapping;
        if let Transport::Tls(tls) = &mut bytes.transport
            && (proxy_header && is_encrypted)
        {
            tls.clear();
        }
        // What is encrypted for this server is looked at by the handshake.
        let prereads = client.default_policy().head.preread.filter(|_| !is_encrypted);
        let handshake = is_encrypted.then(Start::default);
        let opening = Opening { client, bytes, awaits_proxy_header: proxy_header, handshake, prereads };
        if !proxy_header {
            opening.await_preread();
        }
        opening
    }

    /// The connection, which is open.
    pub(super) fn into_parts(self) -> (Client, ByteStream) {
        (self.client, self.bytes)
    }

    /// Goes on; ready with what follows.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Opened> {
        if self.awaits_proxy_header {
            match self.poll_proxy_header(cx) {
                Poll::Ready(true) => self.await_preread(),
                Poll::Ready(false) => return Poll::Ready(Opened::Over(Status::BAD_REQUEST)),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        if self.handshake.is_some() {
            match self.poll_handshake(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Opened::Over(Status::INTERNAL_SERVER_ERROR)),
                Poll::Pending => return self.poll_patience(cx),
            }
        }
        if self.prereads.is_some() {
            let opened = ready!(self.poll_preread(cx));
            return Poll::Ready(match opened {
                Ok(preread) => Opened::Session(Some(preread)),
                Err(status) => Opened::Over(status),
            });
        }
        let client = &self.client;
        Poll::Ready(match client.application() {
            Application::Stream if self.bytes.clear_by_mistake => Opened::Over(Status::INTERNAL_SERVER_ERROR),
            Application::Stream => Opened::Session(None),
            Application::Http if client.has_agreed_on_http2() => Opened::Http2,
            Application::Http => Opened::Http1,
        })
    }

    /// Nothing to read: waits, unless the time is up or the thread needs the place.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Opened> {
        self.bytes.input.shrink();
        let status = match self.awaits_proxy_header {
            true => Status::BAD_REQUEST,
            false => Status::INTERNAL_SERVER_ERROR,
        };
        if self.client.closes_idle() {
            self.bytes.transport.say_goodbye();
            return Poll::Ready(Opened::Over(status));
        }
        ready!(self.client.timer.poll(cx));
        const MESSAGE: &str = "client timed out (110: Connection timed out)";
        match self.awaits_proxy_header {
            true => self.log_proxy_header(Level::Info, MESSAGE),
            false => self.log_handshake(Level::Info, MESSAGE),
        }
        let lingering = &self.client.default_policy().lingering;
        self.bytes.reset_if_timed_out(&io::ErrorKind::TimedOut.into(), lingering);
        Poll::Ready(Opened::Over(status))
    }
}

//! The start of a connection to an address with `proxy_protocol`: a header in which the proxy in front tells whose
//! connection it passes on. A handshake, where there is one, comes after it.

use super::{ClientConnection, Input};
use contract::PassedConnection;
use journal::{About, Level};
use proxy_protocol::{ProxyHeader, parse_proxy_header};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::Transport;

/// How much of what is no header is logged, in bytes.
const SHOWN: usize = 128;

impl ClientConnection {
    /// Makes ready for a header.
    pub(super) fn await_proxy_header(&mut self) {
        self.awaits_proxy_header = true;
        if let Transport::Tls(tls) = &mut self.stream {
            tls.clear();
        }
    }

    /// Reads the header; gives what ends the connection where there is none. The caller watches the timer while it
    /// waits. The timer is not set anew: header and handshake, or header and the first byte of a request, have one time.
    pub(super) fn poll_proxy_header(&mut self, cx: &mut Context<'_>) -> Poll<Option<Input>> {
        loop {
            match parse_proxy_header(self.input.bytes()) {
                Ok(Some(ProxyHeader { length, passed })) => {
                    let passed = passed.map(|passed| PassedConnection {
                        client: passed.client,
                        server: passed.server,
                        values: passed.values.into(),
                    });
                    self.input.consume(length);
                    self.pass(passed);
                    return Poll::Ready(None);
                }
                Ok(None) => {}
                Err(error) => {
                    let shown = self.input.bytes().split(|byte| matches!(byte, b'\r' | b'\n')).next();
                    let shown = shown.unwrap_or_default();
                    let shown = shown[..shown.len().min(SHOWN)].escape_ascii();
                    self.log_proxy_header(Level::Error, &format!("{error}: \"{shown}\""));
                    return Poll::Ready(Some(Input::Over));
                }
            }
            if ready!(self.poll_read(cx)).unwrap_or(0) == 0 {
                self.log_proxy_header(Level::Info, "client closed connection");
                return Poll::Ready(Some(Input::Over));
            }
        }
    }

    /// Goes on after the header.
    fn pass(&mut self, passed: Option<PassedConnection>) {
        self.awaits_proxy_header = false;
        // Nothing but this connection knows of it before the first request.
        if let Some(info) = Rc::get_mut(&mut self.info) {
            info.passed = passed.map(Box::new);
        }
        if let Transport::Tls(tls) = &mut self.stream {
            tls.begin(std::mem::take(&mut self.input));
        }
    }

    pub(super) fn log_proxy_header(&self, level: Level, message: &str) {
        let (client, server) = (self.info.peer.address(), self.place().address.to_string());
        let members = [("client", &*client), ("server", &*server)];
        let about = About { connection: Some(self.info.serial), members: &members };
        let text = format!("{message} while reading PROXY protocol");
        self.default_policy().error_log.write_about(level, &text, &about);
    }
}

//! The start of a connection to an address with `proxy_protocol`: a header in which the proxy in front tells whose
//! connection it passes on. A handshake, where there is one, comes after it.

use super::Opening;
use contract::PassedConnection;
use journal::Level;
use proxy_protocol::{ProxyHeader, parse_proxy_header};
use std::task::{Context, Poll, ready};
use wire::Transport;

/// How much of what is no header is logged, in bytes.
const SHOWN: usize = 128;

impl Opening {
    /// Reads the header; ready with whether there is one. The caller watches the timer while it
    /// waits. The timer is not set anew: header and handshake, or header and the first byte of a request, have one time.
    pub(super) fn poll_proxy_header(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            match parse_proxy_header(self.bytes.input.bytes()) {
                Ok(Some(ProxyHeader { length, passed })) => {
                    let passed = passed.map(|passed| PassedConnection {
                        client: passed.client,
                        server: passed.server,
                        values: passed.values.into(),
                    });
                    self.bytes.input.consume(length);
                    self.pass(passed);
                    return Poll::Ready(true);
                }
                Ok(None) => {}
                Err(error) => {
                    let shown = self.bytes.input.bytes().split(|byte| matches!(byte, b'\r' | b'\n')).next();
                    let shown = shown.unwrap_or_default();
                    let shown = shown[..shown.len().min(SHOWN)].escape_ascii();
                    self.log_proxy_header(Level::Error, &format!("{error}: \"{shown}\""));
                    return Poll::Ready(false);
                }
            }
            if ready!(self.bytes.poll_read(cx)).unwrap_or(0) == 0 {
                self.log_proxy_header(Level::Info, "client closed connection");
                return Poll::Ready(false);
            }
        }
    }

    /// Goes on after the header.
    fn pass(&mut self, passed: Option<PassedConnection>) {
        self.awaits_proxy_header = false;
        self.client.connection_mut().passed = passed.map(Box::new);
        if let Transport::Tls(tls) = &mut self.bytes.transport
            && self.handshake.is_some()
        {
            tls.begin(std::mem::take(&mut self.bytes.input));
        }
    }

    pub(super) fn log_proxy_header(&self, level: Level, message: &str) {
        self.client.log(level, &format!("{message} while reading PROXY protocol"));
    }
}

//! A request to a group of servers, and the rules by which one server is asked after another.

use crate::attempts::Attempts;
use crate::failure::Failure;
use crate::failures::Failures;
use crate::group::Group;
use crate::secured::Secured;
use crate::server::Server;
use crate::settings::Settings;
use crate::upload::Upload;
use contract::{Exchange, Streaming};
use http::Status;
use journal::Level;
use journal::clock::Time;
use net::SocketType;
use std::any::TypeId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// How the message begins if the head of a response is too long, whatever the protocol.
const TOO_BIG_HEADER: &str = "upstream sent too big header";

/// A request to a group of servers.
pub struct Call {
    /// The servers.
    pub(crate) group: Arc<Group>,
    /// The type of the dialogue.
    pub(crate) protocol: TypeId,
    /// How the servers are spoken to over TLS; `None` for a protocol in clear.
    pub secured: Option<Secured>,
    /// What a server gets first, in clear also where TLS follows: a header of the PROXY protocol.
    pub preface: Vec<u8>,
    /// What the servers are spoken to over: connections, or datagrams.
    pub transport: SocketType,
    /// The address that connections come from, if it is set.
    pub(crate) local: Option<SocketAddr>,
    /// How long to wait and when to ask another.
    pub(crate) settings: Arc<Settings>,
    /// What becomes known.
    pub attempts: Attempts,
    /// `http://` or its like, for the log.
    pub scheme: &'static str,
    /// What the log shows after the server's address.
    pub uri: Vec<u8>,
    /// Whether the request may be sent twice.
    pub is_idempotent: bool,
    /// The body of the request.
    pub upload: Upload,
    /// Identifies the location that asks: connections may be kept for the same location only.
    pub tag: usize,
}

fn local(exchange: &Exchange, settings: &Settings) -> Option<SocketAddr> {
    settings.connecting.bind.as_ref().and_then(|bind| bind.address(exchange))
}

/// A text of a request that grew past this is not kept for others, in bytes.
const KEPT_TEXT: usize = 4096;

impl Call {
    /// A request on behalf of an exchange, of which nothing else is known.
    pub(crate) fn new<D: 'static>(exchange: &Exchange, group: &Arc<Group>, settings: &Arc<Settings>) -> Call {
        Call {
            group: Arc::clone(group),
            protocol: TypeId::of::<D>(),
            secured: None,
            preface: Vec::new(),
            transport: SocketType::Stream,
            local: local(exchange, settings),
            settings: Arc::clone(settings),
            attempts: Attempts::of(exchange),
            scheme: "",
            uri: Vec::new(),
            is_idempotent: false,
            upload: Upload::None,
            tag: 0,
        }
    }

    /// Makes it what [`Call::new`] gives, and keeps the memory.
    pub(crate) fn renew(&mut self, exchange: &Exchange, group: &Arc<Group>, settings: &Arc<Settings>) {
        if !Arc::ptr_eq(&self.group, group) {
            self.group = Arc::clone(group);
        }
        if !Arc::ptr_eq(&self.settings, settings) {
            self.settings = Arc::clone(settings);
        }
        self.attempts.renew(exchange);
        self.clear();
        self.local = local(exchange, settings);
    }

    /// Forgets the request.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.uri.capacity() > KEPT_TEXT {
            self.uri = Vec::new();
        }
        self.uri.clear();
        self.preface.clear();
        (self.scheme, self.is_idempotent, self.upload, self.tag) = ("", false, Upload::None, 0);
        (self.secured, self.transport) = (None, SocketType::Stream);
    }

    /// What the log calls a server.
    pub(crate) fn url(&self, server: &Server) -> String {
        let separator = if server.peer.address.is_unix() { ":" } else { "" };
        format!("{}{}{separator}{}", self.scheme, server.name, String::from_utf8_lossy(&self.uri))
    }

    /// Logs that no server of the group can be asked.
    pub(crate) fn log_nobody(&self, exchange: &Exchange) {
        let url = format!("{}{}{}", self.scheme, self.group.name, String::from_utf8_lossy(&self.uri));
        let message = "no live upstreams while connecting to upstream";
        exchange.request_log().write(Level::Error, message, Some(&url));
    }

    /// Logs a failure of a server.
    pub(crate) fn log_failure(&self, exchange: &Exchange, server: &Server, failure: &Failure) {
        let is_long = failure.message.starts_with(TOO_BIG_HEADER);
        let limit = if is_long {
            format!(", \"{}\" limits it", self.settings.buffers.head_limit)
        } else {
            String::new()
        };
        let message = format!("{}{limit}", failure.message);
        exchange.request_log().write(Level::Error, &message, Some(&self.url(server)));
    }

    /// Logs that a server is not asked for a while.
    pub(crate) fn log_disabled(&self, exchange: &Exchange, server: &Server) {
        let message = "upstream server temporarily disabled";
        exchange.request_log().write(Level::Warn, message, Some(&self.url(server)));
    }

    /// Whether another server may be asked after this failure of one that got so many bytes of the request.
    pub(crate) fn may_go_on(&self, kind: Failures, sent: u64, exchange: &Exchange, started: Instant) -> bool {
        if matches!(self.upload, Upload::Stream) {
            // A part of the body that a server took is gone. A connection that breaks at once may have lost what was
            // written to it, so that any byte counts.
            let is_untouched = exchange.request.streaming == Some(Streaming::Untouched);
            if sent > 0 || !is_untouched {
                return false;
            }
        }
        let may_have_acted = sent > 0 && !self.is_idempotent;
        let kind = if may_have_acted { kind.with(Failures::NON_IDEMPOTENT) } else { kind };
        let limit = self.settings.next_upstream.timeout;
        self.settings.next_upstream.failures.has(kind)
            && (limit.is_zero() || Time::now().instant.saturating_duration_since(started) < limit)
    }

    /// The status that stands for a failure, noted as that of the last attempt.
    pub(crate) fn note_failure(&self, kind: Failures) -> Status {
        let status = kind.status();
        self.attempts.note(|attempt| attempt.status = Some(status));
        status
    }
}

//! From a head to an exchange in its virtual server, whatever the version of HTTP.

use super::client::Client;
use super::client_certificate;
use super::pooled::PooledRequest;
use conf::value::TooManySteps;
use contract::{Event, Exchange, Request};
use engine::Flow;
use http::semantics::{BodyLength, Framing, examine, find_host};
use http::uri::{Target, authority, parse_target};
use http::{HeadError, Status, Version};
use journal::Level;
use journal::clock::Time;
use std::rc::Rc;
use std::sync::Arc;

/// The head of a request as it came from a client.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) client: &'a Client,
    /// When its first byte came.
    pub(super) at: Time,
    /// How many bytes it has.
    pub(super) head_length: usize,
    /// Whether the request was there before the one before it was answered.
    pub(super) pipelined: bool,
    /// Whether the client speaks in clear where it should not.
    pub(super) clear_by_mistake: bool,
}

/// How far a request's head was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Part,
    All,
}

impl Read {
    /// Whether it is open which host is meant, so that the default server answers. A head that was read and has no
    /// `Host` means none, which a server may claim by an empty name.
    fn leaves_host_open(self, request: &Request) -> bool {
        request.host.is_empty() && (self == Read::Part || request.head.fields.get("host").is_some())
    }
}

/// Fields whose values must not be logged.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A request of this client whose head is still to be read.
pub(super) fn unread(client: &Client) -> Box<PooledRequest> {
    client.thread().requests.take().unwrap_or_else(|| Box::new(fresh(client)))
}

/// A request in memory that no request had before.
pub(super) fn fresh(client: &Client) -> PooledRequest {
    let (server, variables) = (client.default_server(), Arc::clone(&client.serving.site.variables));
    let scope = Arc::clone(&server.scope);
    let exchange = Exchange::new(Rc::clone(&client.info), Request::new(), scope, variables);
    PooledRequest::new(Flow::new(exchange, Arc::clone(server)))
}

/// Ends a request, and with it all that is attached to it; its connection may linger.
pub(super) fn end(client: &Client, pooled: Box<PooledRequest>) {
    // What is kept points to the site, which only the one that serves now may outlive a request by.
    client.thread().requests.keep(pooled, client.serving.is_current());
}

impl Arrival<'_> {
    /// Takes the target of a complete head apart, and reads what the head says about its message. A request whose head
    /// breaks the rules is started only to be answered.
    pub(super) fn examine(&self, pooled: &mut PooledRequest) -> Option<Framing> {
        let merge_slashes = self.client.default_policy().head.merge_slashes;
        let PooledRequest { life, target, .. } = pooled;
        let head = &life.request.flow.exchange.request.head;
        if let Err(error) = parse_target(head.target(), merge_slashes, target) {
            self.start_broken(pooled, error.into());
            return None;
        }
        match examine(head, target) {
            Ok(framing) => Some(framing),
            Err(error) => {
                find_host(head, target);
                self.start_refused(pooled, error, Level::Info);
                None
            }
        }
    }

    /// Starts a request whose head was examined.
    pub(super) fn start(&self, pooled: &mut PooledRequest, framing: Framing) {
        let head = &mut pooled.flow().exchange.request.head;
        // RFC 9112, section 3.2.2: the host of a target counts, and the field is ignored.
        if let Some(named) = authority(head.target())
            && head.fields.get("host").is_some_and(|host| !host.eq_ignore_ascii_case(named))
        {
            let named = named.to_vec();
            // An authority that was parsed is a value of a field.
            let _ = head.fields.set("Host", &named);
        }
        self.find_server(pooled, Read::All, framing.body);
        let PooledRequest { life, received, .. } = pooled;
        let flow = &mut life.request.flow;
        received.framing = framing;
        let exchange = &mut flow.exchange;
        exchange.wire.keep_alive = framing.keep_alive;
        for line in exchange.request.head.ignored() {
            let line = String::from_utf8_lossy(line);
            let text =
                format!("client sent invalid header line: \"{line}\" while reading client request headers");
            exchange.log(Level::Info, &text);
        }
        tell_request(exchange);
        if self.clear_by_mistake && received.refused.is_none() {
            let text = "client sent plain HTTP request to HTTPS port while reading client request headers";
            exchange.log(Level::Info, text);
            received.refused = Some(Status(497));
        }
        received.refused = received.refused.or_else(|| flow.unknown_method());
        if self.client.info.tls.is_some()
            && received.refused.is_none()
            && let Some(status) = client_certificate::check(self.client, flow)
        {
            received.refuse_last(&mut flow.exchange, status);
        }
    }

    /// Starts a request whose head or target is broken, only to answer it.
    pub(super) fn start_broken(&self, pooled: &mut PooledRequest, error: HeadError) {
        self.parse_known_target(pooled, error.line_known);
        self.refuse(pooled, Read::Part, error, Level::Info);
    }

    /// Starts a request whose head is complete and breaks a rule, only to answer it.
    pub(super) fn start_refused(&self, pooled: &mut PooledRequest, error: HeadError, level: Level) {
        self.refuse(pooled, Read::All, error, level);
    }

    /// Starts a request that never came whole, only to be logged. `received` is what came of it.
    pub(super) fn start_incomplete(&self, pooled: &mut PooledRequest, received: &[u8]) {
        let head = &mut pooled.flow().exchange.request.head;
        if head.line().is_empty() {
            head.set_beginning(received.trim_ascii());
        }
        self.parse_known_target(pooled, true);
        self.find_server(pooled, Read::Part, BodyLength::None);
        pooled.flow().exchange.request.length = received.len() as u64;
    }

    /// Takes apart what there is of a head that is broken or not whole.
    fn parse_known_target(&self, pooled: &mut PooledRequest, line_known: bool) {
        let merge_slashes = self.client.default_policy().head.merge_slashes;
        let PooledRequest { life, target, .. } = pooled;
        let head = &life.request.flow.exchange.request.head;
        match line_known && parse_target(head.target(), merge_slashes, target).is_ok() {
            true => find_host(head, target),
            // An invalid target is not a URI, even if a part of it was parsed.
            false => *target = Target::default(),
        }
    }

    fn refuse(&self, pooled: &mut PooledRequest, read: Read, error: HeadError, level: Level) {
        let head = &mut pooled.flow().exchange.request.head;
        if head.version == Version::Http09 {
            // A line that is no request does not ask for HTTP/0.9 either.
            head.version = Version::Http10;
        }
        self.find_server(pooled, read, BodyLength::None);
        pooled.exchange().log(level, error.reason);
        pooled.received.refused = Some(error.status);
    }

    /// Finds the server for a request, whose target was taken apart.
    fn find_server(&self, pooled: &mut PooledRequest, read: Read, body: BodyLength) {
        let client = self.client;
        let requests = &client.info.requests;
        requests.set(requests.get() + 1);
        let PooledRequest { life, target, received } = pooled;
        let flow = &mut life.request.flow;
        let exchange = &mut flow.exchange;
        exchange.take_up(&client.info, &client.serving.site.variables, self.at);
        let request = &mut exchange.request;
        fill(request, target, body);
        (request.length, request.pipelined) = (self.head_length as u64, self.pipelined);
        flow.start(client.default_server());
        let found = match read.leaves_host_open(&flow.exchange.request) {
            true => Ok(client.default_server()),
            false => client.hosts().find(&flow.exchange),
        };
        let server = found.unwrap_or_else(|TooManySteps| {
            received.refused = Some(Status::INTERNAL_SERVER_ERROR);
            client.default_server()
        });
        flow.choose(server);
    }
}

/// Reports the request as an event.
fn tell_request(exchange: &Exchange) {
    exchange.tell(|| {
        let fields = exchange.request.head.fields.iter().map(|field| {
            let is_secret = SECRETS.iter().any(|secret| field.is(secret));
            let value = if is_secret { "…".into() } else { String::from_utf8_lossy(field.value) };
            format!("; {}: {value}", String::from_utf8_lossy(field.name))
        });
        let number = exchange.connection.requests.get();
        Event::new("request", format!("request {number} of the connection{}", fields.collect::<String>()))
    });
}

/// Gives a request what its target was taken apart into, whose memory changes places with that of the request.
#[inline]
pub(crate) fn fill(request: &mut Request, target: &mut Target, body: BodyLength) {
    request.method = request.head.method();
    if !target.path.is_empty() {
        request.uri.extend_from_slice(target.request_uri(request.head.target()));
    }
    std::mem::swap(&mut request.path, &mut target.path);
    std::mem::swap(&mut request.host, &mut target.host.name);
    request.port = target.host.port;
    if !target.args.is_empty() {
        request.args = Some(std::mem::take(&mut target.args));
    }
    request.content_length = match body {
        BodyLength::Length(length) => Some(length),
        BodyLength::None | BodyLength::Chunked => None,
    };
    request.chunked = body == BodyLength::Chunked;
}

//! From a head to an exchange in its virtual server.

use super::ClientConnection;
use super::client_certificate;
use super::course::Course;
use super::message::Message;
use conf::value::TooManySteps;
use contract::policy::HeadPolicy;
use contract::{Event, Exchange, Request};
use engine::Flow;
use h1::{BodyDecoder, Chunk, HeadLimits};
use http::semantics::{BodyLength, Framing, examine, find_host};
use http::uri::{Target, parse_target};
use http::{HeadError, Status, Version};
use journal::Level;
use journal::clock::Time;
use site::Protocols;
use std::rc::Rc;
use std::sync::Arc;

/// A request at the start of its way.
pub(crate) struct PooledRequest {
    pub(crate) request: engine::Request,
    pub(crate) message: Message,
    /// How far serving the request came, where it could not be answered at once.
    pub(super) course: Course,
    /// Memory for what a target is taken apart into.
    target: Target,
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

/// A request with a text that grew past this is not kept, in bytes.
const KEPT_TEXT: usize = 4096;

/// A request whose head grew past this is not kept, in bytes.
const KEPT_HEAD: usize = 16 * 1024;

/// The limits of a head, as its reader wants them.
pub(crate) fn limits(policy: &HeadPolicy) -> HeadLimits {
    let (large_count, large_size) = policy.large_client_header_buffers;
    HeadLimits {
        first_buffer: policy.client_header_buffer_size,
        large_count,
        large_size,
        max_fields: policy.max_headers,
        ignore_invalid: policy.ignore_invalid_headers,
        underscores: policy.underscores_in_headers,
        strict_line_ends: policy.strict_line_ends,
    }
}

/// A request whose head is still to be read.
pub(crate) fn unread(client: &ClientConnection) -> Box<PooledRequest> {
    client.thread().requests.take().unwrap_or_else(|| {
        let (server, variables) = (client.default_server(), Arc::clone(&client.serving.site.variables));
        let scope = Arc::clone(&server.scope);
        let exchange = Exchange::new(Rc::clone(&client.info), Request::new(), scope, variables);
        Box::new(PooledRequest::new(Flow::new(exchange, Arc::clone(server))))
    })
}

/// Starts a request whose head is complete.
pub(crate) fn start_request(client: &ClientConnection, pooled: &mut PooledRequest) {
    client.note_early_data();
    let merge_slashes = client.default_policy().head.merge_slashes;
    let PooledRequest { request, target, .. } = pooled;
    let head = &request.flow.exchange.request.head;
    if let Err(error) = parse_target(head.target(), merge_slashes, target) {
        return start_broken(client, pooled, error.into());
    }
    match examine(head, target) {
        Ok(framing) => match check_body(client, &framing) {
            Ok(()) => start_complete(client, pooled, framing),
            Err(error) => start_refused(client, pooled, Read::All, error, Level::Error),
        },
        Err(error) => {
            find_host(head, target);
            start_refused(client, pooled, Read::All, error, Level::Info);
        }
    }
}

/// Starts a request of a stream of HTTP/2, whose head is complete or malformed.
pub(super) fn start_stream(
    client: &ClientConnection,
    pooled: &mut PooledRequest,
    ends: bool,
    malformed: Option<HeadError>,
) {
    client.note_early_data();
    if let Some(error) = malformed {
        start_broken(client, pooled, error);
        pooled.message.is_malformed = error.status == Status::BAD_REQUEST;
        return;
    }
    let merge_slashes = client.default_policy().head.merge_slashes;
    let PooledRequest { request, target, .. } = pooled;
    let head = &request.flow.exchange.request.head;
    if let Err(error) = parse_target(head.target(), merge_slashes, target) {
        return start_broken(client, pooled, error.into());
    }
    let framing = match examine(head, target) {
        Ok(framing) => framing,
        Err(error) => {
            find_host(head, target);
            return start_refused(client, pooled, Read::All, error, Level::Info);
        }
    };
    let body = match framing.body {
        BodyLength::Length(1..) if ends => {
            let reason = "client prematurely closed stream";
            let error = HeadError { status: Status::BAD_REQUEST, reason, line_known: true };
            start_refused(client, pooled, Read::All, error, Level::Info);
            pooled.message.is_malformed = true;
            return;
        }
        BodyLength::None if !ends => BodyLength::Chunked,
        other => other,
    };
    start_complete(client, pooled, Framing { body, ..framing });
    let exchange = &pooled.request.flow.exchange;
    let is_enabled = exchange.scope.policy.http2.is_enabled || client.hosts().protocols.has(Protocols::HTTP2);
    if !is_enabled && pooled.message.refused.is_none() {
        let text =
            "client attempted to request the server name for which the negotiated protocol is disabled";
        exchange.log(Level::Info, text);
        pooled.message.refused = Some(Status::MISDIRECTED_REQUEST);
    }
}

/// Starts a request whose head or target is broken, only to answer it.
pub(crate) fn start_broken(client: &ClientConnection, pooled: &mut PooledRequest, error: HeadError) {
    parse_known_target(client, pooled, error.line_known);
    start_refused(client, pooled, Read::Part, error, Level::Info);
}

/// Starts a request that never came whole, only to be logged.
pub(crate) fn start_incomplete(client: &ClientConnection, pooled: &mut PooledRequest) {
    let received = client.input.bytes();
    let head = &mut pooled.request.flow.exchange.request.head;
    if head.line().is_empty() {
        head.set_beginning(received.trim_ascii());
    }
    parse_known_target(client, pooled, true);
    find_server(client, pooled, Read::Part, BodyLength::None);
    pooled.request.flow.exchange.request.length = received.len() as u64;
}

/// Takes apart what there is of a head that is broken or not whole.
fn parse_known_target(client: &ClientConnection, pooled: &mut PooledRequest, line_known: bool) {
    let merge_slashes = client.default_policy().head.merge_slashes;
    let PooledRequest { request, target, .. } = pooled;
    let head = &request.flow.exchange.request.head;
    match line_known && parse_target(head.target(), merge_slashes, target).is_ok() {
        true => find_host(head, target),
        // An invalid target is not a URI, even if a part of it was parsed.
        false => *target = Target::default(),
    }
}

/// Checks what came with the head of a chunked body, so that no handler acts on a request whose
/// framing is broken.
fn check_body(client: &ClientConnection, framing: &Framing) -> Result<(), HeadError> {
    if framing.body != BodyLength::Chunked {
        return Ok(());
    }
    let mut decoder = BodyDecoder::new(framing.body, u64::MAX)?;
    let mut input = client.input.bytes();
    loop {
        match decoder.decode(input)? {
            Chunk::Data { skip, length } => input = &input[skip + length..],
            Chunk::NeedMore { .. } | Chunk::End { .. } => return Ok(()),
        }
    }
}

fn start_complete(client: &ClientConnection, pooled: &mut PooledRequest, framing: Framing) {
    find_server(client, pooled, Read::All, framing.body);
    pooled.message.framing = framing;
    pooled.message.body_done = matches!(framing.body, BodyLength::None | BodyLength::Length(0));
    let exchange = &mut pooled.request.flow.exchange;
    exchange.wire.keep_alive = framing.keep_alive;
    for line in exchange.request.head.ignored() {
        let line = String::from_utf8_lossy(line);
        let text =
            format!("client sent invalid header line: \"{line}\" while reading client request headers");
        exchange.log(Level::Info, &text);
    }
    tell_request(exchange);
    if client.clear_by_mistake && pooled.message.refused.is_none() {
        let text = "client sent plain HTTP request to HTTPS port while reading client request headers";
        exchange.log(Level::Info, text);
        pooled.message.refused = Some(Status(497));
    }
    let flow = &mut pooled.request.flow;
    pooled.message.refused = pooled.message.refused.or_else(|| flow.unknown_method());
    if client.info.tls.is_some() && pooled.message.refused.is_none() {
        let flow = &mut pooled.request.flow;
        if let Some(status) = client_certificate::check(client, flow) {
            pooled.message.refuse_last(&mut flow.exchange, status);
        }
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

fn start_refused(
    client: &ClientConnection,
    pooled: &mut PooledRequest,
    read: Read,
    error: HeadError,
    level: Level,
) {
    let head = &mut pooled.request.flow.exchange.request.head;
    if head.version == Version::Http09 {
        // A line that is no request does not ask for HTTP/0.9 either.
        head.version = Version::Http10;
    }
    find_server(client, pooled, read, BodyLength::None);
    pooled.request.flow.exchange.log(level, error.reason);
    pooled.message.refused = Some(error.status);
}

/// Finds the server for a request, whose target was taken apart.
fn find_server(client: &ClientConnection, pooled: &mut PooledRequest, read: Read, body: BodyLength) {
    let requests = &client.info.requests;
    requests.set(requests.get() + 1);
    let PooledRequest { request, target, .. } = pooled;
    let flow = &mut request.flow;
    let exchange = &mut flow.exchange;
    exchange.take_up(&client.info, &client.serving.site.variables, client.started.unwrap_or_else(Time::now));
    let request = &mut exchange.request;
    fill(request, target, body);
    (request.length, request.pipelined) = (client.head_length as u64, client.pipelined);
    flow.start(client.default_server());
    let found = match read.leaves_host_open(&flow.exchange.request) {
        true => Ok(client.default_server()),
        false => client.hosts().find(&flow.exchange),
    };
    let server = found.unwrap_or_else(|TooManySteps| {
        pooled.message.refused = Some(Status::INTERNAL_SERVER_ERROR);
        client.default_server()
    });
    pooled.request.flow.choose(server);
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

impl PooledRequest {
    fn new(flow: Flow) -> PooledRequest {
        PooledRequest {
            request: engine::Request::new(flow, 0),
            message: Message::default(),
            course: Course::default(),
            target: Target::default(),
        }
    }

    /// How much memory the head of the request has, in bytes.
    pub(super) fn memory(&self) -> usize {
        let request = &self.request.flow.exchange.request;
        let args = request.args.as_ref().map_or(0, Vec::capacity);
        let texts = request.uri.capacity() + request.path.capacity() + args;
        request.head.memory() + texts + request.host.capacity()
    }

    /// Ends the request, and with it all that is attached to it; whether its memory is worth being kept.
    pub(crate) fn clear(&mut self) -> bool {
        let PooledRequest { request: served, message, course, target } = self;
        let request = &mut served.flow.exchange.request;
        if let Some(mut args) = request.args.take() {
            args.clear();
            target.args = args;
        }
        let is_small = [&request.uri, &request.path, &request.host, &target.path, &target.args]
            .iter()
            .all(|text| text.capacity() <= KEPT_TEXT)
            && request.head.memory() <= KEPT_HEAD;
        served.clear();
        (*message, *course) = (Message::default(), Course::default());
        is_small
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_TEXT, Message, PooledRequest};
    use contract::{Exchange, Overlaid, RequestBody};
    use engine::Flow;
    use http::{Status, Version};
    use site::testing;
    use std::rc::Rc;
    use std::sync::{Arc, Weak};

    fn pooled() -> PooledRequest {
        let (_, site) = testing::site("server { }", &[]).unwrap();
        let server = site.listens[0].hosts(None).default_server();
        let (connection, request) = (Rc::new(testing::connection("")), contract::Request::new());
        let (scope, variables) = (Arc::clone(&server.scope), Arc::clone(&site.variables));
        PooledRequest::new(Flow::new(
            Exchange::new(connection, request, scope, variables),
            Arc::clone(server),
        ))
    }

    /// What can be reported about a request and its response.
    fn told(pooled: &PooledRequest) -> String {
        let PooledRequest { request: served, message, course: _, target } = pooled;
        let exchange = &served.flow.exchange;
        let Exchange { request, response, internal, valid_location, uri_behind_alias, .. } = exchange;
        let Exchange { error, error_page_used, wire, note, subrequest, file, .. } = exchange;
        let state = (internal, valid_location, uri_behind_alias, error, error_page_used);
        let Message { framing, refused, body_done, left, is_tunnel, .. } = message;
        let rest = (wire, note, subrequest, file, framing, refused, body_done, left, is_tunnel, target);
        let attached = (exchange.attached::<Rc<()>>().is_some(), exchange.overlaid.is_some());
        let budget = exchange.budget().spend(0);
        format!("{request:?} {response:?} {state:?} {rest:?} {attached:?} {budget:?}")
    }

    #[test]
    fn nothing_of_a_request_is_left_for_the_next_one() {
        let mut pooled = pooled();
        let fresh = told(&pooled);
        let attached = Rc::new(());
        let exchange = &mut pooled.request.flow.exchange;
        exchange.request = testing::request("POST", "/path", "host");
        exchange.request.head.fields.push(b"Cookie", b"secret").unwrap();
        exchange.request.args = Some(b"args".to_vec());
        exchange.request.body = Some(RequestBody::Memory(b"body"[..].into()));
        (exchange.request.port, exchange.request.content_length) = (Some(1), Some(4));
        (exchange.request.chunked, exchange.request.length, exchange.request.pipelined) = (true, 1, true);
        exchange.request.head.version = Version::Http10;
        let response = &mut exchange.response;
        (response.status, response.reason) = (Status::NOT_FOUND, Some((Status::NOT_FOUND, b"x".into())));
        (response.content_type, response.etag) = (Some(b"a/b"[..].into()), Some(b"\"e\""[..].into()));
        (response.content_length, response.last_modified) = (Some(1), Some(1));
        response.location = Some((*b"/").into());
        (response.accept_ranges, response.vary, response.expects_trailers) = (true, true, true);
        response.fields.push(b"Set-Cookie", b"secret").unwrap();
        response.trailers.push(b"X", b"y").unwrap();
        response.memo = Some(Rc::default());
        (exchange.internal, exchange.valid_location, exchange.uri_behind_alias) = (true, false, true);
        (exchange.error, exchange.error_page_used) = (Some(Status::NOT_FOUND), contract::Replaced::Once);
        (exchange.wire.bytes, exchange.wire.keep_alive, exchange.note, exchange.subrequest) =
            (1, true, 1, true);
        exchange.attach(Rc::clone(&attached));
        exchange.overlaid = Some(Rc::new(Overlaid {
            path: b"/a".to_vec(),
            uri_start: None,
            root_end: 0,
            metadata: None,
            below: Weak::new(),
            scope: Weak::new(),
        }));
        assert!(exchange.budget().spend(u32::MAX).is_err());
        let message = &mut pooled.message;
        (message.refused, message.body_done, message.left) = (Some(Status::BAD_REQUEST), true, true);
        message.framing.keep_alive = true;
        assert!(pooled.clear());
        assert_eq!(Rc::strong_count(&attached), 1, "it ended with the request");
        assert!(pooled.target.args.capacity() > 0, "the memory is kept");
        assert_eq!(told(&pooled), fresh);
    }

    #[test]
    fn requests_that_outlast_it_share_nothing_with_the_next_one() {
        let mut pooled = pooled();
        let inner = pooled.request.flow.exchange.inner(contract::Request::new());
        assert!(inner.budget().spend(u32::MAX).is_err());
        pooled.clear();
        let exchange = &pooled.request.flow.exchange;
        exchange.attach(1);
        assert!(exchange.budget().spend(0).is_ok() && inner.attached::<i32>().is_none());
        let budget = exchange.budget();
        pooled.clear();
        assert!(budget.spend(u32::MAX).is_err());
        assert!(pooled.request.flow.exchange.budget().spend(0).is_ok(), "a body may still hold the other");
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut pooled = pooled();
        pooled.request.flow.exchange.request.args = Some(vec![b'a'; KEPT_TEXT + 1]);
        assert!(!pooled.clear());
    }
}

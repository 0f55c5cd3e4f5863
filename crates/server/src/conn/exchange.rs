//! From a head to an exchange in its virtual server.

use super::pace::Pace;
use super::{BrokenHead, Io, pool};
use crate::pipeline::Flow;
use contract::clock::Time;
use contract::log::Level;
use contract::policy::HeadPolicy;
use contract::{BodyFeed, Event, Exchange, Request};
use h1::{BodyDecoder, BodyLength, Chunk, Framing, HeadError, HeadLimits, Target, examine, parse_target};
use http::{RequestHead, Status, Version};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A request at the start of its way.
pub(crate) struct Begun {
    pub(crate) flow: Flow,
    pub(crate) framing: Framing,
    /// What is wrong with the request itself.
    pub(crate) refused: Option<Status>,
    /// What is left to read of the body; it is made when the location, and so its limit, is known.
    body: Option<Box<BodyDecoder>>,
    /// Whether the body was read to its end.
    pub(crate) body_done: bool,
    /// Where the body goes that is passed on while it comes.
    pub(crate) feed: Option<BodyFeed>,
    /// How slowly the body comes.
    pub(crate) pace: Option<Pace>,
    /// Whether the client went away in the middle of the body.
    pub(crate) left: bool,
    /// Subrequests that run beside the request.
    pub(crate) aside: Option<JoinSet<()>>,
}

/// Fields whose values nobody should find in a log.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A target, taken apart, and memory for the target as it came.
pub(crate) type Parsed = (Target, Vec<u8>);

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

/// Starts a request whose head is complete.
pub(crate) fn begin(io: &Io, head: Box<RequestHead>) -> Begun {
    let (mut target, uri) = pool::target();
    let merge_slashes = io.default_policy().head.merge_slashes;
    if let Err(error) = parse_target(head.target(), merge_slashes, &mut target) {
        // What was understood of a target that is none is nobody's URI.
        return refuse(io, head, Parsed::default(), error, Level::Info);
    }
    match examine(&head, &mut target) {
        Ok(framing) => match check_body(io, &framing) {
            Ok(()) => whole(io, head, (target, uri), framing),
            Err(error) => refuse(io, head, (target, uri), error, Level::Error),
        },
        Err(error) => refuse(io, head, (target, uri), error, Level::Info),
    }
}

/// Starts a request whose head is broken, only to answer it.
pub(crate) fn broken(io: &Io, broken: BrokenHead) -> Begun {
    refuse(io, broken.head, Parsed::default(), broken.error, Level::Info)
}

/// A request that never came whole, only to be logged.
pub(crate) fn unparsed(io: &Io, head: Box<RequestHead>) -> Flow {
    flow(io, head, Parsed::default(), BodyLength::None)
}

/// Checks what came with the head of a chunked body, so that no handler acts on a request whose
/// framing is broken.
fn check_body(io: &Io, framing: &Framing) -> Result<(), HeadError> {
    if framing.body != BodyLength::Chunked {
        return Ok(());
    }
    let mut decoder = BodyDecoder::new(framing.body, u64::MAX)?;
    let mut input = io.input.bytes();
    loop {
        match decoder.decode(input)? {
            Chunk::Data { skip, length } => input = &input[skip + length..],
            Chunk::NeedMore { .. } | Chunk::End { .. } => return Ok(()),
        }
    }
}

fn whole(io: &Io, head: Box<RequestHead>, target: Parsed, framing: Framing) -> Begun {
    let mut flow = flow(io, head, target, framing.body);
    flow.exchange.wire.keep_alive = framing.keep_alive;
    tell_request(&flow.exchange);
    let body_done = matches!(framing.body, BodyLength::None | BodyLength::Length(0));
    let refused = io.clear_by_mistake.then(|| {
        let text = "client sent plain HTTP request to HTTPS port while reading client request headers";
        flow.exchange.log(Level::Info, text);
        Status(497)
    });
    Begun { flow, framing, refused, body: None, body_done, feed: None, pace: None, left: false, aside: None }
}

/// Tells whoever looks for a fault what was asked.
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

fn refuse(io: &Io, mut head: Box<RequestHead>, target: Parsed, error: HeadError, level: Level) -> Begun {
    if head.version == Version::Http09 {
        // A line that is no request does not ask for HTTP/0.9 either.
        head.version = Version::Http10;
    }
    let flow = flow(io, head, target, BodyLength::None);
    flow.exchange.log(level, error.reason);
    let framing = Framing { body: BodyLength::None, keep_alive: false, expect_continue: false };
    Begun {
        flow,
        framing,
        refused: Some(error.status),
        body: None,
        body_done: false,
        feed: None,
        pace: None,
        left: false,
        aside: None,
    }
}

fn flow(io: &Io, head: Box<RequestHead>, parsed: Parsed, body: BodyLength) -> Flow {
    let requests = &io.info.requests;
    requests.set(requests.get() + 1);
    let request = request(head, parsed, body, (io.head_length as u64, io.pipelined));
    let (server, variables) = (io.default_server(), &io.serving.site.variables);
    let connection = Rc::clone(&io.info);
    let exchange = Exchange::new(connection, request, Arc::clone(&server.scope), Arc::clone(variables));
    let mut flow = Flow::new(exchange, Arc::clone(server));
    flow.exchange.response.fields = pool::fields();
    flow.exchange.started = io.started.unwrap_or_else(Time::now);
    let server = io.hosts().find(&flow.exchange);
    flow.choose(server);
    flow
}

/// A request with this head; its length in bytes, and whether it came before the one before was answered.
pub(crate) fn request(
    head: Box<RequestHead>,
    (target, mut uri): Parsed,
    body: BodyLength,
    (length, pipelined): (u64, bool),
) -> Request {
    if !target.path.is_empty() {
        uri.extend_from_slice(target.request_uri(head.target()));
    }
    Request {
        method: head.method(),
        length,
        pipelined,
        uri,
        path: target.path,
        args: if target.args.is_empty() { None } else { Some(target.args) },
        host: target.host.name,
        port: target.host.port,
        content_length: match body {
            BodyLength::Length(length) => Some(length),
            BodyLength::None | BodyLength::Chunked => None,
        },
        chunked: body == BodyLength::Chunked,
        body: None,
        stream: None,
        head,
    }
}

impl Begun {
    /// Reads on in the body. Its limit is that of the location that was found first.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<Chunk, HeadError> {
        if self.body.is_none() {
            let policy = &self.flow.exchange.scope.policy.request_body;
            let limit = policy.client_max_body_size.unwrap_or(u64::MAX);
            // A length that was declared is judged with the location; only chunks can still surprise.
            let limit = if self.framing.body == BodyLength::Chunked { limit } else { u64::MAX };
            self.body = Some(Box::new(BodyDecoder::new(self.framing.body, limit)?));
        }
        self.body.as_mut().map_or(Ok(Chunk::End { consumed: 0 }), |body| body.decode(input))
    }

    /// Skips what the input has of the body and tells whether that was all of it.
    ///
    /// # Errors
    /// The body's framing is broken, or it is too long: what follows cannot be a request.
    pub(crate) fn skip_body(&mut self, io: &mut Io) -> Result<bool, HeadError> {
        while !self.body_done && self.refused.is_none() {
            let chunk = self.decode(io.input.bytes());
            let consumed = match chunk.inspect_err(|error| self.framing_is_lost(error.status))? {
                Chunk::Data { skip, length } => skip + length,
                Chunk::NeedMore { consumed } => {
                    io.input.consume(consumed);
                    break;
                }
                Chunk::End { consumed } => {
                    self.body_done = true;
                    consumed
                }
            };
            self.flow.exchange.request.length += consumed as u64;
            io.input.consume(consumed);
        }
        Ok(self.body_done)
    }

    /// Takes note that nothing more of this connection can be understood, and why.
    pub(crate) fn framing_is_lost(&mut self, status: Status) {
        self.refused = Some(status);
        self.framing.keep_alive = false;
        self.flow.exchange.wire.keep_alive = false;
    }
}

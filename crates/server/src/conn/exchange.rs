//! From a head to an exchange in its virtual server.

use super::Io;
use crate::pipeline::Flow;
use crate::route;
use contract::clock::Time;
use contract::policy::HeadPolicy;
use contract::{Exchange, Request};
use h1::{BodyDecoder, BodyLength, Chunk, Framing, HeadError, HeadLimits, Target, examine, parse_target};
use http::{RequestHead, Status};
use std::rc::Rc;
use std::sync::Arc;

/// A request at the start of its way.
pub(crate) struct Begun {
    pub(crate) flow: Flow,
    pub(crate) framing: Framing,
    /// What is wrong with the request itself.
    pub(crate) refused: Option<Status>,
    /// What is left to read of the body.
    pub(crate) body: BodyDecoder,
    /// Whether the body was read to its end.
    pub(crate) body_done: bool,
}

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
    let mut target = Target::default();
    let merge_slashes = io.default_policy().head.merge_slashes;
    let examined = parse_target(head.target(), merge_slashes, &mut target)
        .and_then(|()| examine(&head, &mut target));
    match examined {
        Ok(framing) => match check_body(io, &framing) {
            Ok(()) => whole(io, head, target, framing),
            Err(error) => refuse(io, head, target, error),
        },
        Err(error) => refuse(io, head, target, error),
    }
}

/// Starts a request whose head is broken, only to answer it.
pub(crate) fn broken(io: &Io, head: Box<RequestHead>, error: HeadError) -> Begun {
    refuse(io, head, Target::default(), error)
}

/// A request that never came whole, only to be logged.
pub(crate) fn unparsed(io: &Io, head: Box<RequestHead>) -> Flow {
    flow(io, head, Target::default(), BodyLength::None)
}

/// Checks what came with the head of a chunked body, so that no handler acts on a request whose
/// framing is broken.
fn check_body(io: &Io, framing: &Framing) -> Result<(), HeadError> {
    let mut decoder = BodyDecoder::new(framing.body, u64::MAX)?;
    let mut input = io.input.bytes();
    while framing.body == BodyLength::Chunked {
        match decoder.decode(input)? {
            Chunk::Data { skip, length } => input = &input[skip + length..],
            Chunk::NeedMore { .. } | Chunk::End { .. } => break,
        }
    }
    Ok(())
}

fn whole(io: &Io, head: Box<RequestHead>, target: Target, framing: Framing) -> Begun {
    let flow = flow(io, head, target, framing.body);
    // The length was parsed and is checked against the location's limit; nothing is stored of a body
    // that no handler asks for, so that here any length is fine.
    let body = BodyDecoder::new(framing.body, u64::MAX).unwrap_or(BodyDecoder::Length(0));
    let body_done = matches!(framing.body, BodyLength::None | BodyLength::Length(0));
    Begun { flow, framing, refused: None, body, body_done }
}

fn refuse(io: &Io, head: Box<RequestHead>, target: Target, error: HeadError) -> Begun {
    let flow = flow(io, head, target, BodyLength::None);
    flow.exchange.log(contract::log::Level::Info, error.reason);
    let framing = Framing { body: BodyLength::None, keep_alive: false, expect_continue: false };
    let body = BodyDecoder::Length(0);
    Begun { flow, framing, refused: Some(error.status), body, body_done: false }
}

fn flow(io: &Io, head: Box<RequestHead>, target: Target, body: BodyLength) -> Flow {
    let requests = &io.info.requests;
    requests.set(requests.get() + 1);
    let request = Request {
        method: head.method(),
        length: io.head_length as u64,
        pipelined: io.pipelined,
        uri: target.request_uri(head.target()).into(),
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
        head,
    };
    let site = &io.thread().site;
    let hosts = io.hosts();
    let scope = Arc::clone(&hosts.default_server().scope);
    let mut exchange = Exchange::new(Rc::clone(&io.info), request, scope, Arc::clone(&site.variables));
    exchange.started = io.started.unwrap_or_else(Time::now);
    let server = Arc::clone(route::server(hosts, &exchange));
    Flow::new(exchange, server)
}

impl Begun {
    /// Skips what the input has of the body; tells whether that was all of it.
    pub(crate) fn body_is_done(&mut self, io: &mut Io) -> bool {
        while !self.body_done && !io.input.is_empty() && self.refused.is_none() {
            match self.body.decode(io.input.bytes()) {
                Ok(Chunk::Data { skip, length }) => {
                    self.flow.exchange.request.length += (skip + length) as u64;
                    io.input.consume(skip + length);
                }
                Ok(Chunk::NeedMore { consumed }) => {
                    io.input.consume(consumed);
                    break;
                }
                Ok(Chunk::End { consumed }) => {
                    self.flow.exchange.request.length += consumed as u64;
                    io.input.consume(consumed);
                    self.body_done = true;
                }
                Err(_) => {
                    // The framing is lost: what follows cannot be a request.
                    self.framing.keep_alive = false;
                    return false;
                }
            }
        }
        if let BodyDecoder::Length(0) = self.body {
            self.body_done = true;
        }
        self.body_done
    }
}

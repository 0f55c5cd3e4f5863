//! Explains how the server would answer a request, and why. The request runs through the same pipeline as in serving, but
//! without a connection. Nothing is sent, logged or counted. Files are only read, and no other server is contacted.

mod choice;

use crate::conn::fill;
use crate::conn::http1::{Answer, append_head, limits};
use bytes::Bytes;
use contract::policy::HeadPolicy;
use contract::{Body, BodyReader, Connection, Event, Events, Exchange, Peer, Piece, Request};
use engine::{self, After, Detached, Flow, Sent};
use h1::{HeadParser, HeadProgress};
use http::semantics::{BodyLength, Framing, examine};
use http::uri::{Target, parse_target};
use http::{HeadError, RequestHead, Status};
use journal::Level;
use net::SocketAddress;
use site::Site;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::{Buffer, Timer};

/// A request to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its head as it would be on the wire, up to the empty line.
    pub head: Vec<u8>,
    /// Who would send it.
    pub client: IpAddr,
    /// The port that it would come to.
    pub port: u16,
    /// The server's address that would receive it; without one, the first address that listens on the port.
    pub address: Option<IpAddr>,
    /// Whether the connection would be encrypted.
    pub is_encrypted: bool,
}

/// How the server would answer a request.
#[derive(Debug)]
pub struct Explanation {
    /// What is decided, step by step.
    pub steps: Vec<Event>,
    /// How it ends.
    pub end: End,
}

/// How a request ends.
#[derive(Debug)]
pub enum End {
    /// With a response: its head as it would be on the wire, and its content.
    Answered(Vec<u8>, Content),
    /// It is passed to another server, as the last step says.
    Passed,
    /// The connection is closed without a response.
    Closed,
}

/// The content of a response.
#[derive(Debug)]
pub enum Content {
    /// There is none.
    None,
    /// A file, or a part of one, whose path the last step about a file has.
    File,
    /// These bytes.
    Bytes(Bytes),
    /// What is made while it is sent.
    Made,
}

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum Unexplained {
    /// No server has the address.
    #[error("no server listens on port {0}; the addresses are: {1}")]
    NobodyListens(u16, String),
    /// The client and the address do not speak the same.
    #[error("the connections to {0} are {1}")]
    Scheme(SocketAddress, &'static str),
    /// The system's fault.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Explains how the server would answer a request.
///
/// # Errors
/// The request would not reach any server.
pub fn explain(site: &Site, question: &Question) -> Result<Explanation, Unexplained> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let events = Rc::new(Events::default());
    let (mut flow, refused) = begin(site, question, &events)?;
    let progress = match refused {
        Some(status) => flow.fail(status),
        None => flow.run(),
    };
    let mut request = engine::Request::new(flow, 0);
    request.start(progress);
    let mut watcher = Watcher::default();
    let after = runtime.block_on(poll_fn(|cx| request.poll(cx, &mut watcher)));
    let end = match (after, watcher.body) {
        (After::Taken, Some(body)) => answered(&mut request.flow, &body),
        (After::Passed, _) => End::Passed,
        _ => End::Closed,
    };
    Ok(Explanation { steps: events.take(), end })
}

/// The request at its start, and what is wrong with it before any location is asked.
fn begin(
    site: &Site,
    question: &Question,
    events: &Rc<Events>,
) -> Result<(Flow, Option<Status>), Unexplained> {
    let (address, hosts, local) = choice::reached(site, question)?;
    if question.is_encrypted && !hosts.is_encrypted() {
        return Err(Unexplained::Scheme(address, "not encrypted"));
    }
    let policy = &hosts.default_server().scope.policy;
    let mut request = Request { length: question.head.len() as u64, ..Request::new() };
    let mut target = Target::default();
    let parsed = parse_question(&question.head, &mut request.head, &mut target, &policy.head);
    let framing = parsed.as_ref().ok().copied();
    if framing.is_none() {
        // An invalid request has no URI, even if a part of it was parsed.
        target = Target::default();
    }
    let connection = Rc::new(connection(question, local, events));
    fill(&mut request, &mut target, framing.map_or(BodyLength::None, |framing| framing.body));
    let server = hosts.default_server();
    let (scope, variables) = (Arc::clone(&server.scope), Arc::clone(&site.variables));
    let mut flow = Flow::new(Exchange::new(connection, request, scope, variables), Arc::clone(server));
    flow.exchange.wire.keep_alive = framing.is_some_and(|framing| framing.keep_alive);
    let found = hosts.find(&flow.exchange);
    let chosen = found.unwrap_or(server);
    events.add(choice::of_server(hosts, chosen, &flow.exchange.request.host, &address));
    flow.choose(chosen);
    let in_clear = hosts.is_encrypted() && !question.is_encrypted;
    let refused = match parsed {
        Ok(_) if found.is_err() => Some(Status::INTERNAL_SERVER_ERROR),
        Ok(_) => in_clear.then_some(Status(497)).or_else(|| flow.unknown_method()),
        Err((status, reason)) => {
            flow.exchange.log(Level::Info, reason);
            Some(status)
        }
    };
    Ok((flow, refused))
}

/// Reads a head, its target and how its body is framed; else the status to answer with, and why.
fn parse_question(
    bytes: &[u8],
    head: &mut RequestHead,
    target: &mut Target,
    policy: &HeadPolicy,
) -> Result<Framing, (Status, &'static str)> {
    let refused = |error: HeadError| (error.status, error.reason);
    match HeadParser::new().parse(bytes, head, &limits(policy)).map_err(refused)? {
        HeadProgress::Complete { .. } => {}
        HeadProgress::Partial => return Err((Status::BAD_REQUEST, "the head does not end")),
    }
    parse_target(head.target(), policy.merge_slashes, target).map_err(|error| refused(error.into()))?;
    examine(head, target).map_err(refused)
}

fn connection(question: &Question, local: IpAddr, events: &Rc<Events>) -> Connection {
    let client = Peer::Inet(SocketAddr::new(question.client, 0));
    let local = Peer::Inet(SocketAddr::new(local, question.port));
    Connection {
        secure: question.is_encrypted,
        debug: true,
        events: Some(Rc::clone(events)),
        ..Connection::new(client, local)
    }
}

/// The sender of a request that is only explained: it brings nothing, and keeps the body that would be sent.
#[derive(Default)]
struct Watcher {
    body: Option<Body>,
}

impl BodyReader for Watcher {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        Poll::Ready(Ok(false))
    }
}

impl engine::End for Watcher {
    fn put_back(&mut self, _: Bytes) {}

    fn give_up_body(&mut self, _: &mut Exchange, _: Status) {}

    fn settle(&mut self, _: &mut Exchange) -> Result<(), Status> {
        Ok(())
    }

    fn take_body(&mut self, _: &mut Flow, body: Body) -> Option<Body> {
        self.body = Some(body);
        None
    }

    fn head(&mut self, _: &mut Flow, _: &Body, _: bool) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        true
    }

    fn give(&mut self, _: &mut Exchange, _: Piece) {}

    fn finish(&mut self, _: &mut Flow) {}

    fn send(&mut self, _: &mut Context<'_>, _: &mut Exchange, _: usize) -> io::Result<Sent> {
        Ok(Sent::All)
    }

    fn poll_gone(&mut self, _: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn detach(&mut self, _: Detached) {}

    fn timer(&self) -> Option<&Timer> {
        None
    }

    fn explains(&self) -> bool {
        true
    }
}

fn answered(flow: &mut Flow, body: &Body) -> End {
    let answer = Answer::new(flow);
    let mut output = Buffer::default();
    append_head(&mut output, flow, &answer);
    let content = match body {
        _ if !answer.has_body || matches!(body, Body::Empty) => Content::None,
        _ if flow.exchange.file.is_some() => Content::File,
        body => in_memory(body).map_or(Content::Made, Content::Bytes),
    };
    End::Answered(output.bytes().to_vec(), content)
}

/// All of a body, where it is there.
fn in_memory(body: &Body) -> Option<Bytes> {
    let mut whole = Vec::new();
    for piece in body.pieces()? {
        let Piece::Bytes(bytes) = piece else { return None };
        whole.extend_from_slice(bytes);
    }
    Some(whole.into())
}

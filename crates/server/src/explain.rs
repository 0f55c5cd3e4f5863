//! What would become of a request, and why: the way of serving without a connection, watched. Nothing is sent,
//! logged or counted; files are only looked at, and no other server is asked.

mod choice;

use crate::conn::{Answer, Buffer, append_head, fill, limits};
use crate::pipeline::{Flow, Progress};
use crate::site::Site;
use bytes::Bytes;
use contract::log::Level;
use contract::policy::HeadPolicy;
use contract::{
    Body, Connection, Event, Events, Exchange, Outcome, Peer, Piece, Request, Streamed, Subrequest,
    Subresponse, Work,
};
use h1::{BodyLength, Framing, HeadError, HeadParser, HeadProgress, Target, examine, parse_target};
use http::{RequestHead, Status};
use net::SocketAddress;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A request to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its head as it would be on the wire, up to the empty line.
    pub head: Vec<u8>,
    /// Who would send it.
    pub client: IpAddr,
    /// The port that it would come to.
    pub port: u16,
    /// The address of ours that it would come to; without one the first that listens on the port.
    pub address: Option<IpAddr>,
    /// Whether the connection would be encrypted.
    pub is_encrypted: bool,
}

/// What would become of it.
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
    #[error("nothing listens on port {0}; the addresses are: {1}")]
    NobodyListens(u16, String),
    /// The client and the address do not speak the same.
    #[error("the connections to {0} are {1}")]
    Scheme(SocketAddress, &'static str),
    /// The system's fault.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Site {
    /// Explains what would become of a request.
    ///
    /// # Errors
    /// The request would not reach any server.
    pub fn explain(&self, question: &Question) -> Result<Explanation, Unexplained> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let events = Rc::new(Events::default());
        let explainer = Explainer { events: Rc::clone(&events), runtime };
        let (mut flow, refused) = self.begin(question, &events)?;
        let progress = match refused {
            Some(status) => flow.fail(status),
            None => flow.run(),
        };
        let end = match explainer.drive(&mut flow, progress) {
            Some(Progress::Respond(body)) => answered(&mut flow, &body),
            Some(_) => End::Closed,
            None => End::Passed,
        };
        Ok(Explanation { steps: events.take(), end })
    }

    /// The request at its start, and what is wrong with it before any location is asked.
    fn begin(&self, question: &Question, events: &Rc<Events>) -> Result<(Flow, Option<Status>), Unexplained> {
        let (address, hosts, local) = self.reached(question)?;
        if question.is_encrypted && !hosts.is_encrypted {
            return Err(Unexplained::Scheme(address, "not encrypted"));
        }
        let policy = &hosts.default_server().scope.policy;
        let mut request = Request { length: question.head.len() as u64, ..Request::new() };
        let mut target = Target::default();
        let understood = understand(&question.head, &mut request.head, &mut target, &policy.head);
        let framing = understood.as_ref().ok().copied();
        if framing.is_none() {
            // What was understood of a request that is none is nobody's URI.
            target = Target::default();
        }
        let connection = Rc::new(connection(question, local, events));
        fill(&mut request, &mut target, framing.map_or(BodyLength::None, |framing| framing.body));
        let server = hosts.default_server();
        let (scope, variables) = (Arc::clone(&server.scope), Arc::clone(&self.variables));
        let mut flow = Flow::new(Exchange::new(connection, request, scope, variables), Arc::clone(server));
        flow.exchange.wire.keep_alive = framing.is_some_and(|framing| framing.keep_alive);
        let found = hosts.find(&flow.exchange);
        let chosen = found.unwrap_or(server);
        events.add(choice::of_server(hosts, chosen, &flow.exchange.request.host, &address));
        flow.choose(chosen);
        let in_clear = hosts.is_encrypted && !question.is_encrypted;
        let refused = match understood {
            Ok(_) if found.is_err() => Some(Status::INTERNAL_SERVER_ERROR),
            Ok(_) => in_clear.then_some(Status(497)),
            Err((status, reason)) => {
                flow.exchange.log(Level::Info, reason);
                Some(status)
            }
        };
        Ok((flow, refused))
    }
}

/// Reads a head, its target and how its body is framed; else the status to answer with, and why.
fn understand(
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
    parse_target(head.target(), policy.merge_slashes, target).map_err(refused)?;
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

/// Does the work that handlers wait for, as far as it needs nobody else.
struct Explainer {
    events: Rc<Events>,
    runtime: Runtime,
}

/// How deep requests inside of the server are followed, as where they are served.
const SUBREQUEST_DEPTH: u32 = 50;

impl Explainer {
    /// Follows a request to its end, or to where another server would have to be asked.
    fn drive(&self, flow: &mut Flow, progress: Progress) -> Option<Progress> {
        self.drive_at(flow, progress, 0)
    }

    fn drive_at(&self, flow: &mut Flow, mut progress: Progress, depth: u32) -> Option<Progress> {
        loop {
            let Progress::Wait(work) = progress else { return Some(progress) };
            progress = flow.resume(self.perform(flow, work, depth)?);
        }
    }

    /// The outcome of some work; none if another server would do it.
    fn perform(&self, flow: &Flow, work: Work, depth: u32) -> Option<Outcome> {
        Some(match work {
            Work::Sleep(_) | Work::RequestBody | Work::RequestStream => Outcome::Done,
            Work::Job(job) => Outcome::Job(job()),
            Work::Subrequest(wanted) => self.subrequest(flow, wanted, depth),
            Work::Aside(all) => {
                all.into_iter().for_each(|wanted| drop(self.subrequest(flow, wanted, depth)));
                Outcome::Done
            }
            Work::Task(task) => Outcome::Task(self.runtime.block_on(task)),
            Work::Upstream { .. } => return None,
        })
    }

    /// A request inside of the server. Where another server would answer it, that is taken to agree.
    fn subrequest(&self, parent: &Flow, wanted: Subrequest, depth: u32) -> Outcome {
        if depth >= SUBREQUEST_DEPTH {
            return Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
        }
        let before = self.events.take();
        let path = String::from_utf8_lossy(&wanted.path).into_owned();
        let is_streamed = wanted.content == contract::Content::Streamed;
        let mut flow = parent.subrequest(wanted);
        let progress = flow.run();
        let progress = self.drive_at(&mut flow, progress, depth + 1);
        let inner = self.events.take();
        before.into_iter().for_each(|event| self.events.add(event));
        let is_passed = progress.is_none();
        if is_passed {
            flow.exchange.response.status = Status::OK;
        }
        let status = flow.exchange.response.status.0;
        let taken = if is_passed { ", which the other server is taken to answer" } else { "" };
        let text = format!("a request inside of the server, for \"{path}\": {status}{taken}");
        self.events.add(Event::new("subrequest", text).with("uri", &path).among(inner));
        let body = match progress {
            Some(Progress::Respond(body)) => body,
            Some(_) => return Outcome::Failed(Status::INTERNAL_SERVER_ERROR),
            None => Body::Empty,
        };
        if is_streamed {
            return Outcome::Streamed(Streamed { head: Box::new(flow.exchange.response), body });
        }
        let content = in_memory(&body).unwrap_or_default();
        Outcome::Subresponse(Subresponse { exchange: Box::new(flow.exchange), content })
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

//! Requests inside of the server: made on behalf of another one, their content unused, collected, or streamed into a
//! body.

use super::cold::FileReading;
use super::detached::Detached;
use super::doing::Doing;
use super::end::{End, Sent};
use super::request::{After, Request};
use crate::pipeline::Flow;
use bytes::Bytes;
use contract::{
    Body, BodyReader, Content, Event, Events, Exchange, NoBody, Outcome, Piece, Pull, Reach, Source,
    Streamed, Subrequest, Subresponse, Task, Turn,
};
use http::Status;
use journal::Level;
use journal::shares::{self, Place};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::Timer;
use wire::memory::{self, Held};

/// How deep subrequests may nest, as in nginx.
pub(crate) const DEPTH_MAX: u32 = 50;

/// How many subrequests one request may come to, however they nest.
const COUNT_MAX: u32 = 64 * 1024;

/// How many subrequests of one request begin in a turn. Each takes as long as a request.
const TURN_MAX: u32 = 8;

/// About how much processor time a subrequest takes, in nanoseconds.
const SUBREQUEST_NS: u64 = 50_000;

/// The most content of a subrequest that is collected, in bytes.
const COLLECTED_MAX: usize = 8 * 1024 * 1024;

/// What the subrequests of one request have in common; attached to it.
#[derive(Default)]
struct Subrequests {
    /// How many there were.
    count: Cell<u32>,
    /// How many of them began in the turn of this number.
    in_turn: Cell<(u64, u32)>,
    /// Whether the log has a message about one that was refused.
    told: Cell<bool>,
    /// Detached requests that the request gives to its sender at its next poll; none when the request is over.
    left: RefCell<Option<Vec<Detached>>>,
}

impl Subrequests {
    fn of(exchange: &Exchange) -> Rc<Subrequests> {
        exchange.attached_or(Reach::Shared, || {
            let left = RefCell::new(Some(Vec::new()));
            Subrequests { left, ..Subrequests::default() }
        })
    }
}

/// A request inside of the server.
pub(crate) struct Inner {
    /// It is taken when the request is over.
    request: Option<Box<Request>>,
    parent: Inside,
    content: Content,
    /// The response, until the requester that polls it takes it.
    streamed: Option<Streamed>,
}

impl Inner {
    /// A request on behalf of a flow that is itself so many subrequests deep; none if there are too many.
    pub(crate) fn new(parent: &Flow, wanted: Subrequest, depth: u32, explains: bool) -> Option<Inner> {
        if !may_run(parent, &wanted, depth) {
            return None;
        }
        let content = wanted.content;
        let told = parent.exchange.connection.events.as_ref().filter(|_| explains);
        let told = told.map(|events| Told::new(events, &wanted.path));
        let mut request = Box::new(Request::new(parent.subrequest(wanted), depth + 1));
        let progress = request.flow.run();
        request.start(progress);
        let keeps_body = explains || content != Content::Collected;
        let is_unused = !explains && matches!(content, Content::Unused | Content::Judged);
        let parent = Inside { keeps_body, is_unused, explains, told, ..Inside::default() };
        Some(Inner { request: Some(request), parent, content, streamed: None })
    }

    /// Whether the requester does not wait for it. An explanation always waits: its events have one order.
    pub(crate) fn is_polled_by_requester(&self) -> bool {
        self.content == Content::Begun && !self.parent.explains
    }

    /// Ready with the response, which is whole unless the content is streamed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let failed = Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
        let Some(request) = &mut self.request else { return Poll::Ready(failed) };
        let after = ready!(request.poll(cx, &mut self.parent));
        let Some(mut request) = self.request.take() else { return Poll::Ready(failed) };
        let is_passed = matches!(after, After::Passed);
        if is_passed {
            // The other server is taken to agree.
            request.flow.exchange.response.status = Status::OK;
        }
        if let Some(told) = self.parent.told.take() {
            told.end(request.flow.exchange.response.status, is_passed);
        }
        let body = std::mem::replace(&mut self.parent.body, Body::Empty);
        Poll::Ready(match after {
            // It is the end of the request that asks for it, too.
            After::Closed => Outcome::Failed(request.flow.exchange.response.status),
            After::Cut(_) => failed,
            After::Taken | After::Passed if matches!(self.content, Content::Streamed | Content::Begun) => {
                Outcome::Streamed(streamed(request, body))
            }
            After::Sent | After::Taken | After::Passed => {
                let mut content = std::mem::take(&mut self.parent.collected);
                if self.content == Content::Collected {
                    append_there(&body, &mut content);
                }
                request.flow.exchange.wire.bytes = content.len() as u64;
                if self.content != Content::Judged {
                    log(&mut request.flow);
                }
                Outcome::Subresponse(Subresponse {
                    exchange: Box::new(request.flow.exchange),
                    content: content.into(),
                })
            }
        })
    }
}

impl Task for Inner {
    fn poll(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        Poll::Ready(match ready!(Inner::poll(self, turn.cx)) {
            Outcome::Streamed(streamed) => {
                self.streamed = Some(streamed);
                Ok(())
            }
            Outcome::Failed(status) => Err(status),
            _ => Err(Status::INTERNAL_SERVER_ERROR),
        })
    }

    fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
        match self.streamed {
            Some(streamed) => Box::new(streamed),
            None => Box::new(()),
        }
    }
}

pub(crate) fn may_run(parent: &Flow, wanted: &Subrequest, depth: u32) -> bool {
    let exchange = &parent.exchange;
    let shared = Subrequests::of(exchange);
    let count = shared.count.get() + 1;
    shared.count.set(count);
    let (turn, begun) = shared.in_turn.get();
    shared.in_turn.set((shares::turn(), if turn == shares::turn() { begun + 1 } else { 1 }));
    let problem = match (depth >= DEPTH_MAX, count > COUNT_MAX) {
        (true, _) => "subrequests cycle",
        (_, true) => "too many subrequests",
        _ => return true,
    };
    if !shared.told.replace(true) {
        let path = String::from_utf8_lossy(&wanted.path);
        exchange.log(Level::Error, &format!("{problem} while processing \"{path}\""));
    }
    false
}

/// Whether a request has begun as many subrequests in this turn as it may.
pub(crate) fn has_enough(exchange: &Exchange) -> bool {
    let Some(shared) = exchange.attached::<Subrequests>() else { return false };
    let (turn, begun) = shared.in_turn.get();
    turn == shares::turn() && begun >= TURN_MAX
}

/// The place of a request that has begun enough subrequests for one turn.
pub(crate) fn place(exchange: &Exchange) -> Place {
    let count = exchange.attached::<Subrequests>().map_or(0, |shared| shared.count.get());
    let account = exchange.overlaid.as_ref().map_or(0, |own| own.account());
    Place { account, used_ns: u64::from(count) * SUBREQUEST_NS }
}

/// Lets other connections go first. The request is polled again in a further turn.
pub(crate) fn yield_turn(cx: &Context<'_>, place: Place) {
    shares::yield_turn(place);
    // A stream of HTTP/2 has to be woken itself.
    cx.waker().wake_by_ref();
}

/// Leaves detached requests of a subrequest to the request that it belongs to.
///
/// # Errors
/// That request is over: another request has to wait for these.
pub(crate) fn leave(parent: &Flow, wanted: Vec<Subrequest>, depth: u32) -> Result<(), Vec<Subrequest>> {
    let shared = Subrequests::of(&parent.exchange);
    if shared.left.borrow().is_none() {
        return Err(wanted);
    }
    let detached = wanted.into_iter().filter_map(|wanted| Detached::new(parent, wanted, depth));
    let mut detached: Vec<Detached> = detached.collect();
    if let Some(left) = &mut *shared.left.borrow_mut() {
        left.append(&mut detached);
    }
    Ok(())
}

/// Gives the detached requests that subrequests left to the sender of the request.
#[inline]
pub(crate) fn hand_over(exchange: &Exchange, is_over: bool, end: &mut dyn End) {
    let Some(shared) = exchange.attached::<Subrequests>() else { return };
    let left = match is_over {
        true => shared.left.take(),
        false => shared.left.borrow_mut().as_mut().map(std::mem::take),
    };
    left.into_iter().flatten().for_each(|request| end.detach(request));
}

pub(crate) fn log(flow: &mut Flow) {
    if flow.exchange.scope.policy.log_subrequest {
        flow.log();
    }
}

/// Appends content that is in memory.
fn append_there(body: &Body, content: &mut Vec<u8>) {
    for piece in body.pieces().unwrap_or_default() {
        if let Piece::Bytes(bytes) = piece {
            content.extend_from_slice(bytes);
        }
    }
}

fn streamed(mut request: Box<Request>, body: Body) -> Streamed {
    let head = Box::new(request.flow.exchange.response.clone());
    let body = match body {
        Body::Source(source) => Body::Source(Box::new(Part { source, request: Some(request), doing: None })),
        Body::Tunnel(_) => Body::Empty,
        body => {
            request.flow.exchange.wire.bytes = body.length().unwrap_or(0);
            log(&mut request.flow);
            body
        }
    };
    Streamed { head, body }
}

/// The content of a subrequest, while it comes. What it waits for is done on behalf of the subrequest.
struct Part {
    source: Box<dyn Source>,
    /// The subrequest, until its content has ended.
    request: Option<Box<Request>>,
    doing: Option<Doing>,
}

impl Source for Part {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        let Some(request) = &mut self.request else { return Pull::End };
        let Request { flow, depth, .. } = &mut **request;
        let mut parent = Inside::default();
        loop {
            if let Some(doing) = &mut self.doing {
                match doing.poll(turn.cx, flow, &mut parent) {
                    Poll::Pending => return Pull::Pending { lasts: false },
                    Poll::Ready(Ok(outcome)) => self.source.resume(outcome),
                    Poll::Ready(Err(_)) => return Pull::Failed,
                }
                self.doing = None;
            }
            let mut inner = Turn { cx: turn.cx, exchange: &mut flow.exchange, body: &mut NoBody };
            match self.source.pull(&mut inner) {
                Pull::Await(work) => {
                    self.doing = Some(Doing::start(work, flow, *depth, &mut parent));
                }
                Pull::Piece(piece) => {
                    flow.exchange.wire.bytes += piece.length();
                    return Pull::Piece(piece);
                }
                Pull::End => {
                    log(flow);
                    self.request = None;
                    return Pull::End;
                }
                other => return other,
            }
        }
    }

    fn resume(&mut self, _: Outcome) {}

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(request) = &mut self.request {
            let exchange = &mut request.flow.exchange;
            self.source.read_ahead(&mut Turn { cx: turn.cx, exchange, body: &mut NoBody });
        }
    }
}

/// The sender of a subrequest: the request that waits for it, or none.
pub struct Inside {
    /// Whether the body is taken as it is.
    keeps_body: bool,
    /// Whether nothing takes the content.
    is_unused: bool,
    explains: bool,
    collected: Vec<u8>,
    /// The part of a file that is being collected.
    reading: Option<FileReading>,
    body: Body,
    told: Option<Told>,
    held: Held,
    /// Detached requests, to be taken over.
    pub detached: Vec<Detached>,
}

impl Default for Inside {
    fn default() -> Inside {
        Inside {
            keeps_body: true,
            is_unused: true,
            explains: false,
            collected: Vec::new(),
            reading: None,
            body: Body::Empty,
            told: None,
            held: Held::default(),
            detached: Vec::new(),
        }
    }
}

impl BodyReader for Inside {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        Poll::Ready(Ok(false))
    }
}

impl End for Inside {
    fn put_back(&mut self, _: Bytes) {}

    fn give_up_body(&mut self, _: &mut Exchange, _: Status) {}

    fn settle(&mut self, _: &mut Exchange) -> Result<(), Status> {
        Ok(())
    }

    fn take_body(&mut self, flow: &mut Flow, body: Body) -> Option<Body> {
        if !self.keeps_body || (self.is_unused && flow.exchange.wire.outlasts) {
            return Some(body);
        }
        self.body = body;
        None
    }

    fn head(&mut self, _: &mut Flow, body: &Body, _: bool) -> bool {
        !self.is_unused && !matches!(body, Body::Tunnel(_))
    }

    fn has_room(&self) -> bool {
        self.reading.is_none()
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) => self.collected.extend_from_slice(&bytes),
            Piece::File { file, offset, length } => {
                let room = (COLLECTED_MAX as u64 + 1).saturating_sub(self.collected.len() as u64);
                // What is more than that is an error, and need not be read.
                self.reading = Some(FileReading::new(file, offset, length.min(room)));
            }
        }
    }

    fn finish(&mut self, _: &mut Flow) {}

    fn send(&mut self, cx: &mut Context<'_>, _: &mut Exchange, _: usize) -> io::Result<Sent> {
        if let Some(reading) = &mut self.reading {
            match reading.poll_append(cx, &mut self.collected) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(Sent::AwaitsServer),
            }
            self.reading = None;
        }
        self.held.set(self.collected.len());
        match self.collected.len() > COLLECTED_MAX || (!self.collected.is_empty() && memory::is_exhausted()) {
            true => Err(io::Error::other("the content is too long to be collected")),
            false => Ok(Sent::All),
        }
    }

    fn poll_gone(&mut self, _: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn detach(&mut self, request: Detached) {
        self.detached.push(request);
    }

    fn timer(&self) -> Option<&Timer> {
        None
    }

    fn explains(&self) -> bool {
        self.explains
    }
}

/// The events of a request inside of the server: its steps are among those of the request that asks for it.
struct Told {
    events: Rc<Events>,
    before: Vec<Event>,
    path: String,
}

impl Told {
    fn new(events: &Rc<Events>, path: &[u8]) -> Told {
        let path = String::from_utf8_lossy(path).into_owned();
        Told { events: Rc::clone(events), before: events.take(), path }
    }

    fn end(self, status: Status, is_passed: bool) {
        let inner = self.events.take();
        self.before.into_iter().for_each(|event| self.events.add(event));
        let (path, status) = (&self.path, status.0);
        let taken = if is_passed { ", which the other server is taken to answer" } else { "" };
        let text = format!("a request inside of the server, for \"{path}\": {status}{taken}");
        self.events.add(Event::new("subrequest", text).with("uri", path).among(inner));
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, Inner, SUBREQUEST_NS, TURN_MAX, has_enough, place, shares};
    use crate::pipeline::Flow;
    use crate::prototypes;
    use contract::{Body, Content, Exchange, Outcome, Piece, Pull, Subrequest};
    use http::Status;
    use site::Site;
    use site::testing;
    use site::testing::pull;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::Arc;

    fn flow(site: &Site) -> Flow {
        let server = Arc::clone(site.listens[0].hosts(None).default_server());
        let connection = Rc::new(testing::connection("127.0.0.1:1"));
        let scope = Arc::clone(&server.scope);
        let request = testing::request("GET", "/", "localhost");
        Flow::new(Exchange::new(connection, request, scope, Arc::clone(&site.variables)), server)
    }

    /// The outcome of a request on behalf of this one.
    fn run(flow: &Flow, wanted: Subrequest, depth: u32) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            match Inner::new(flow, wanted, depth, false) {
                Some(mut inner) => {
                    poll_fn(|cx| {
                        shares::begin_turn();
                        inner.poll(cx)
                    })
                    .await
                }
                None => Outcome::Failed(Status::INTERNAL_SERVER_ERROR),
            }
        })
    }

    fn text(piece: Piece) -> String {
        let Piece::Bytes(bytes) = piece else { panic!("a file") };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn content_that_is_collected() {
        let site = prototypes::site("location / { slice /part; } location /part { body $uri; }");
        let outcome = run(&flow(&site), Subrequest::get("/x", Content::Collected), 0);
        let Outcome::Subresponse(answer) = outcome else { panic!("no answer") };
        assert_eq!(answer.content, "/part1/part2/part3");
        let outcome = run(&flow(&site), Subrequest::get("/part", Content::Unused), 0);
        let Outcome::Subresponse(answer) = outcome else { panic!("no answer") };
        assert!(answer.content.is_empty() && answer.exchange.response.status == Status::OK);
    }

    #[test]
    fn a_request_that_is_judged_ends_before_its_content() {
        let site = prototypes::site("location / { slice /missing; }");
        let outcome = run(&flow(&site), Subrequest::get("/x", Content::Judged), 0);
        let Outcome::Subresponse(answer) = outcome else { panic!("no answer") };
        assert!(answer.content.is_empty() && answer.exchange.response.status == Status::OK);
    }

    #[test]
    fn content_that_is_streamed_asks_on_its_own_behalf() {
        let site = prototypes::site("location / { slice /part; } location /part { body $uri; }");
        let flow = flow(&site);
        let outcome = run(&flow, Subrequest::get("/x", Content::Streamed), 0);
        let Outcome::Streamed(answer) = outcome else { panic!("no answer") };
        let Body::Source(mut source) = answer.body else { panic!("no source") };
        for part in ["/part1", "/part2", "/part3"] {
            let Pull::Piece(piece) = pull(&mut *source) else { panic!("no {part}") };
            assert_eq!(text(piece), part);
        }
        assert!(matches!(pull(&mut *source), Pull::End));
    }

    #[test]
    fn a_turn_begins_a_bounded_number_of_subrequests() {
        let site = prototypes::site("location / { body x; }");
        let flow = flow(&site);
        let begin = || Inner::new(&flow, Subrequest::get("/x", Content::Collected), 0, false).is_some();
        shares::begin_turn();
        for _ in 0..TURN_MAX {
            assert!(!has_enough(&flow.exchange) && begin());
        }
        assert!(has_enough(&flow.exchange));
        assert_eq!(place(&flow.exchange).used_ns, u64::from(TURN_MAX) * SUBREQUEST_NS);
        shares::begin_turn();
        assert!(!has_enough(&flow.exchange));
    }

    #[test]
    fn circles_end_however_they_branch() {
        let site = prototypes::site("location / { auth /; body x; } location /s { slice /s; }");
        assert!(matches!(
            run(&flow(&site), Subrequest::get("/s", Content::Collected), 0),
            Outcome::Subresponse(answer) if answer.content.is_empty()
        ));
        let deep = run(&flow(&site), Subrequest::get("/s", Content::Collected), DEPTH_MAX);
        assert!(matches!(deep, Outcome::Failed(Status::INTERNAL_SERVER_ERROR)));
    }
}

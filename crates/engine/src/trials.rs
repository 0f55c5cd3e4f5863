//! The whole engine with a sender in memory, which is neither a connection nor a request.

use super::{After, Detached, End, Request, Sent};
use crate::pipeline::{Flow, Progress};
use crate::prototypes;
use bytes::Bytes;
use contract::{
    Body, BodyReader, Duplex, Exchange, Outcome, Piece, Pull, RequestBody, Source, Streaming, Task, Tunnel,
    Turn, Work,
};
use http::{Fields, Status};
use site::testing;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wire::Timer;

/// A sender in memory. Nothing wakes a task: the trials poll by themselves.
#[derive(Default)]
struct Memory {
    /// What comes of the request's body.
    upload: VecDeque<Bytes>,
    upload_ended: bool,
    detached: Vec<Detached>,
    /// The interim responses, which leave as soon as the client takes something.
    interim: Vec<(Status, String)>,
    gone: bool,
    /// How many bytes of the response the client takes.
    window: usize,
    held: VecDeque<u8>,
    got: Vec<u8>,
    has_head: bool,
    is_finished: bool,
    trailers: String,
}

/// How much is held of a response.
const HELD_MAX: usize = 8;

impl Memory {
    fn new(window: usize) -> Memory {
        Memory { window, ..Memory::default() }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.got).unwrap()
    }
}

impl BodyReader for Memory {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        let streaming = &mut exchange.request.streaming;
        match self.upload.pop_front() {
            Some(piece) => {
                take(&piece);
                *streaming = Some(Streaming::Begun);
                Poll::Ready(Ok(true))
            }
            None if self.upload_ended => {
                *streaming = Some(Streaming::Over);
                Poll::Ready(Ok(false))
            }
            None if self.gone => Poll::Ready(Err(Status::CLIENT_CLOSED)),
            None => Poll::Pending,
        }
    }
}

impl End for Memory {
    fn interim(&mut self, _: &mut Exchange, status: Status, fields: &Fields) {
        let lines = fields.iter().flat_map(|field| field.line.to_vec()).collect();
        self.interim.push((status, String::from_utf8(lines).unwrap()));
        self.held.extend(status.0.to_string().bytes());
    }

    fn put_back(&mut self, part: Bytes) {
        self.upload.push_front(part);
    }

    fn give_up_body(&mut self, _: &mut Exchange, _: Status) {}

    fn settle(&mut self, _: &mut Exchange) -> Result<(), Status> {
        Ok(())
    }

    fn head(&mut self, _: &mut Flow, _: &Body, _: bool) -> bool {
        self.has_head = true;
        true
    }

    fn has_room(&self) -> bool {
        self.held.len() < HELD_MAX
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        assert!(self.has_head && self.has_room(), "content before the head, or without room");
        let Piece::Bytes(bytes) = piece else { panic!("a file") };
        self.held.extend(bytes);
    }

    fn poll_read_raw(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.upload.pop_front() {
            Some(piece) => {
                room[..piece.len()].copy_from_slice(&piece);
                Poll::Ready(Ok(piece.len()))
            }
            None if self.upload_ended => Poll::Ready(Ok(0)),
            None => Poll::Pending,
        }
    }

    fn finish(&mut self, flow: &mut Flow) {
        if flow.exchange.response.expects_trailers {
            flow.end();
            let lines = flow.exchange.response.trailers.iter().map(|field| field.line.to_vec());
            self.trailers = String::from_utf8(lines.flatten().collect()).unwrap();
        }
        self.is_finished = true;
    }

    fn send(&mut self, _: &mut Context<'_>, _: &mut Exchange, limit: usize) -> io::Result<Sent> {
        if self.gone {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let count = self.held.len().min(self.window).min(limit);
        self.got.extend(self.held.drain(..count));
        self.window -= count;
        Ok(match (count, self.held.is_empty()) {
            (0, true) => Sent::All,
            (0, false) => Sent::AwaitsClient,
            _ => Sent::Some(count as u64),
        })
    }

    fn discard(&mut self, _: &io::Error) {
        self.held.clear();
    }

    fn poll_gone(&mut self, _: &mut Context<'_>, _: &mut Exchange, lasts: bool) -> Poll<()> {
        if self.gone && !lasts { Poll::Ready(()) } else { Poll::Pending }
    }

    fn detach(&mut self, request: Detached) {
        self.detached.push(request);
    }

    fn timer(&self) -> Option<&Timer> {
        None
    }
}

/// A request to a server with this content.
fn request(server: &str) -> Request {
    let site = prototypes::site(server);
    let server = Arc::clone(site.listens[0].hosts(None).default_server());
    let connection = Rc::new(testing::connection("127.0.0.1:1"));
    let scope = Arc::clone(&server.scope);
    let request = testing::request("POST", "/", "localhost");
    Request::new(Flow::new(Exchange::new(connection, request, scope, Arc::clone(&site.variables)), server), 0)
}

fn responds(source: impl Source + 'static) -> Request {
    let mut request = request("location / { }");
    request.flow.exchange.request.streaming = Some(Streaming::Untouched);
    request.start(Progress::Respond(Body::Source(Box::new(source))));
    request
}

fn poll(request: &mut Request, end: &mut Memory) -> Poll<After> {
    request.poll(&mut Context::from_waker(Waker::noop()), end)
}

/// Answers with the body of the request, as it comes.
struct Echo;

impl Source for Echo {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        let mut piece = Vec::new();
        match turn.body.poll_take(turn.cx, turn.exchange, &mut |bytes| piece.extend_from_slice(bytes)) {
            Poll::Ready(Ok(true)) => Pull::Piece(Piece::Bytes(piece.into())),
            Poll::Ready(Ok(false)) => Pull::End,
            Poll::Ready(Err(_)) => Pull::Failed,
            Poll::Pending => Pull::Pending { lasts: false },
        }
    }

    fn resume(&mut self, _: Outcome) {}
}

#[test]
fn a_response_begins_before_the_request_has_ended_and_both_block_in_turn() {
    let (mut request, mut end) = (responds(Echo), Memory::new(5));
    assert!(poll(&mut request, &mut end).is_pending());
    assert!(end.has_head && !end.upload_ended, "the head waits for the request");
    end.upload.extend([Bytes::from("one "), Bytes::from("two "), Bytes::from("three "), Bytes::from("four")]);
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "one t");
    assert!(!end.upload.is_empty(), "a client that takes nothing sends on");
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "one t");
    end.window = 100;
    assert!(poll(&mut request, &mut end).is_pending(), "the request has not ended");
    assert_eq!(end.text(), "one two three four");
    end.upload_ended = true;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert!(end.is_finished);
}

/// Gives a piece, and then breaks off.
struct Breaks(bool);

impl Source for Breaks {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        match std::mem::replace(&mut self.0, true) {
            false => Pull::Piece(Piece::Bytes("part".into())),
            true => Pull::Failed,
        }
    }

    fn resume(&mut self, _: Outcome) {}
}

#[test]
fn a_client_gets_what_there_is_of_content_that_breaks_off() {
    let (mut request, mut end) = (responds(Breaks(false)), Memory::new(3));
    assert!(poll(&mut request, &mut end).is_pending());
    end.window = 100;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Cut(_))));
    assert_eq!((end.text(), end.is_finished), ("part", false));
}

/// A client that takes little at a time gets all of them.
#[test]
fn pieces_wait_for_room() {
    let mut request = request("location / { }");
    let pieces = ["12345678", "abcdefgh", "ABCDEFGH"].map(|text| Piece::Bytes(text.into()));
    request.start(Progress::Respond(Body::Pieces(pieces.into())));
    let mut end = Memory::new(3);
    for _ in 0..3 {
        assert!(poll(&mut request, &mut end).is_pending());
    }
    end.window = 100;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!(end.text(), "12345678abcdefghABCDEFGH");
}

#[test]
fn a_client_that_resets_ends_whatever_waits_for_it() {
    let (mut waiting, mut end) = (responds(Echo), Memory::new(100));
    assert!(poll(&mut waiting, &mut end).is_pending());
    end.gone = true;
    assert!(matches!(poll(&mut waiting, &mut end), Poll::Ready(After::Cut(_))));

    let (mut blocked, mut end) = (responds(Echo), Memory::new(0));
    end.upload.push_back(Bytes::from("more than is held"));
    assert!(poll(&mut blocked, &mut end).is_pending());
    end.gone = true;
    assert!(matches!(poll(&mut blocked, &mut end), Poll::Ready(After::Cut(_))));

    let (mut asking, mut end) = (request("location / { body x; }"), Memory::new(100));
    asking.start(Progress::Wait(Work::Task(Box::new(Twice(false)))));
    end.gone = true;
    let after = poll(&mut asking, &mut end);
    assert!(matches!(after, Poll::Ready(After::Cut(_))), "{after:?}");
}

#[test]
fn earlier_responses_leave_before_a_request_waits_and_are_dropped_with_a_client_that_takes_none() {
    let (mut request, mut end) = (request("location / { body x; }"), Memory::new(0));
    end.held.extend(b"earlier");
    request.start(Progress::Wait(Work::Task(Box::new(Twice(true)))));
    assert!(poll(&mut request, &mut end).is_pending() && !end.has_head);
    end.gone = true;
    assert!(poll(&mut request, &mut end).is_ready());
    assert!(!end.held.iter().eq(b"earlier"), "it is waited for once more");
}

/// A task that gives a hint in each of two polls, and is done in the third one.
struct Hints(u32);

impl Task for Hints {
    fn poll(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        self.0 += 1;
        let mut fields = Fields::new();
        fields.push(b"Link", self.0.to_string().as_bytes()).unwrap();
        turn.exchange.hint(Status::EARLY_HINTS, Fields::new());
        turn.exchange.hint(Status::EARLY_HINTS, fields);
        if self.0 == 3 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
        Box::new(())
    }
}

#[test]
fn hints_leave_while_the_answer_is_waited_for() {
    let link = |number: u32| (Status::EARLY_HINTS, format!("Link: {number}\r\n"));
    let (mut request, mut end) = (request("hints 1; location / { body x; }"), Memory::new(2));
    request.start(Progress::Wait(Work::Task(Box::new(Hints(0)))));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(
        (end.interim.as_slice(), end.text()),
        (&[link(1)][..], "10"),
        "one without fields says nothing"
    );
    end.window = 2;
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!((end.interim.as_slice(), end.text()), (&[link(1), link(2)][..], "1031"));
    end.window = 100;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!((end.interim.len(), end.text()), (3, "103103103x"));
}

#[test]
fn hints_that_are_not_wanted_or_late_are_dropped() {
    let (mut unwanted, mut end) = (request("hints 0; location / { body x; }"), Memory::new(100));
    unwanted.start(Progress::Wait(Work::Task(Box::new(Hints(2)))));
    assert!(matches!(poll(&mut unwanted, &mut end), Poll::Ready(After::Sent)));
    assert_eq!((end.interim.len(), end.text()), (0, "x"));

    let (mut late, mut end) = (request("hints 1; location / { body x; }"), Memory::new(100));
    late.flow.exchange.wire.head_sent = true;
    late.start(Progress::Wait(Work::Task(Box::new(Hints(2)))));
    assert!(matches!(poll(&mut late, &mut end), Poll::Ready(After::Sent)));
    assert_eq!((end.interim.len(), end.text()), (0, "x"));
}

/// A task that is done when it is polled for the second time.
struct Twice(bool);

impl Task for Twice {
    fn poll(&mut self, _: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
        Box::new(())
    }
}

#[test]
fn work_is_waited_for_and_then_handlers_go_on() {
    let (mut request, mut end) = (request("location / { body x; }"), Memory::new(100));
    request.start(Progress::Wait(Work::Task(Box::new(Twice(false)))));
    assert!(poll(&mut request, &mut end).is_pending() && !end.has_head);
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!(end.text(), "x");
}

#[test]
fn what_nobody_waits_for_is_the_senders() {
    let (mut request, mut end) = (request("location / { mirror /copy; body x; }"), Memory::new(100));
    end.upload_ended = true;
    let progress = request.flow.run();
    request.start(progress);
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    drop(request);
    assert_eq!((end.text(), end.detached.len()), ("100x", 1));
    assert!(end.detached[0].poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn a_body_is_read_whole_or_as_far_as_it_is_there() {
    let (mut whole, mut end) = (request("location / { body x; }"), Memory::new(100));
    whole.start(Progress::Wait(Work::RequestBody));
    assert!(poll(&mut whole, &mut end).is_pending());
    assert_eq!(end.interim, [(Status::CONTINUE, String::new())]);
    assert_eq!(end.text(), "100", "a client waits for it");
    end.upload.extend([Bytes::from("ab"), Bytes::from("c")]);
    assert!(poll(&mut whole, &mut end).is_pending());
    end.upload_ended = true;
    assert!(matches!(poll(&mut whole, &mut end), Poll::Ready(After::Sent)));
    let body = &whole.flow.exchange.request.body;
    assert_eq!(body.as_ref().and_then(RequestBody::bytes).unwrap(), "abc");

    let (mut part, mut end) = (request("location / { body x; }"), Memory::new(100));
    end.upload.push_back(Bytes::from("ab"));
    part.start(Progress::Wait(Work::RequestStream));
    assert!(matches!(poll(&mut part, &mut end), Poll::Ready(After::Sent)));
    assert_eq!(part.flow.exchange.request.streaming, Some(Streaming::Untouched));
    assert_eq!(end.upload, ["ab"], "what was read belongs to the reader of the rest");
}

/// The far end of a tunnel.
#[derive(Clone, Default)]
struct Far(Rc<RefCell<Said>>);

/// What the far end was sent, what it has to say, and how it is.
#[derive(Default)]
struct Said {
    got: Vec<u8>,
    says: VecDeque<Bytes>,
    ended: bool,
    /// Whether it takes nothing at present.
    is_blocked: bool,
    /// Whether it knows that the client has ended.
    knows_end: bool,
}

impl Duplex for Far {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut far = self.0.borrow_mut();
        match far.says.pop_front() {
            Some(bytes) => {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            None if far.ended => Poll::Ready(Ok(0)),
            None => Poll::Pending,
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut far = self.0.borrow_mut();
        if far.is_blocked {
            return Poll::Pending;
        }
        far.got.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_end_writing(&mut self, _: &mut Context<'_>, _: bool) -> Poll<()> {
        let mut far = self.0.borrow_mut();
        far.knows_end = !far.is_blocked;
        if far.is_blocked { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// A request that has become a tunnel to this end, and ends with either side.
fn tunnel(far: &Far) -> Request {
    tunnel_of(far, None)
}

fn tunnel_of(far: &Far, half_close: Option<Duration>) -> Request {
    let mut request = request("location / { }");
    let tunnel = Tunnel {
        far: Box::new(far.clone()),
        first: Bytes::from("first "),
        before: Bytes::new(),
        idle: Duration::from_secs(1),
        half_close,
        rates: (0, 0),
    };
    request.start(Progress::Respond(Body::Tunnel(Box::new(tunnel))));
    request
}

#[test]
fn a_tunnel_moves_bytes_both_ways_until_one_side_ends() {
    let (far, mut end) = (Far::default(), Memory::new(100));
    let mut request = tunnel(&far);
    end.upload.push_back(Bytes::from("question"));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!((far.0.borrow().got.as_slice(), end.text()), (&b"question"[..], "first "));
    far.0.borrow_mut().says.push_back(Bytes::from("answer"));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "first answer");
    far.0.borrow_mut().ended = true;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
}

#[test]
fn a_tunnel_reads_no_more_than_the_other_side_takes() {
    let (far, mut end) = (Far::default(), Memory::new(8));
    let mut request = tunnel(&far);
    far.0.borrow_mut().is_blocked = true;
    let parts = || (0..4).map(|number| Bytes::from(format!("part {number} ")));
    end.upload.extend(parts());
    far.0.borrow_mut().says.extend(parts());
    assert!(poll(&mut request, &mut end).is_pending() && poll(&mut request, &mut end).is_pending());
    assert_eq!((end.text(), far.0.borrow().got.len()), ("first pa", 0));
    assert_eq!((end.upload.len(), far.0.borrow().says.len()), (3, 2), "both senders wait");
    (end.window, far.0.borrow_mut().is_blocked) = (100, false);
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "first part 0 part 1 part 2 part 3 ");
    assert_eq!(far.0.borrow().got, b"part 0 part 1 part 2 part 3 ");
}

#[test]
fn a_tunnel_whose_client_ends_first_moves_all_that_the_client_sent() {
    let (far, mut end) = (Far::default(), Memory::new(100));
    let mut request = tunnel(&far);
    far.0.borrow_mut().is_blocked = true;
    end.upload.extend([Bytes::from("last "), Bytes::from("words")]);
    end.upload_ended = true;
    assert!(poll(&mut request, &mut end).is_pending());
    far.0.borrow_mut().says.push_back(Bytes::from("answer"));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "first answer", "the other way waits for the blocked one");
    assert!(far.0.borrow().got.is_empty());
    far.0.borrow_mut().is_blocked = false;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!(far.0.borrow().got, b"last words");
}

#[test]
fn a_tunnel_may_go_on_after_the_end_of_one_side() {
    let (far, mut end) = (Far::default(), Memory::new(100));
    let mut request = tunnel_of(&far, Some(Duration::from_secs(1)));
    far.0.borrow_mut().is_blocked = true;
    end.upload.push_back(Bytes::from("question"));
    end.upload_ended = true;
    assert!(poll(&mut request, &mut end).is_pending());
    assert!(!far.0.borrow().knows_end, "the end overtakes the bytes");
    far.0.borrow_mut().is_blocked = false;
    assert!(poll(&mut request, &mut end).is_pending());
    assert!(far.0.borrow().knows_end && far.0.borrow().got == b"question");
    far.0.borrow_mut().says.push_back(Bytes::from("answer"));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(end.text(), "first answer");
    far.0.borrow_mut().ended = true;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
}

#[test]
fn a_tunnel_that_ends_waits_until_the_server_has_the_end() {
    let (far, mut end) = (Far::default(), Memory::new(100));
    let mut request = tunnel(&far);
    end.upload_ended = true;
    far.0.borrow_mut().is_blocked = true;
    assert!(poll(&mut request, &mut end).is_pending());
    far.0.borrow_mut().is_blocked = false;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert!(far.0.borrow().knows_end);
}

#[test]
fn a_tunnel_reads_no_further_for_a_client_that_takes_nothing() {
    let (far, mut end) = (Far::default(), Memory::new(0));
    let mut request = tunnel(&far);
    far.0.borrow_mut().says.extend([Bytes::from("one "), Bytes::from("two "), Bytes::from("three")]);
    far.0.borrow_mut().ended = true;
    end.upload.push_back(Bytes::from("question"));
    assert!(poll(&mut request, &mut end).is_pending());
    assert_eq!(far.0.borrow().says.len(), 2, "more is read than there is room for");
    assert_eq!(far.0.borrow().got, b"question", "the other way waits for the blocked one");
    end.window = 100;
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!(end.text(), "first one two three");
}

/// A source that breaks.
struct Panics;

impl Source for Panics {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        panic!("a source's fault");
    }

    fn resume(&mut self, _: Outcome) {}
}

#[test]
fn requests_of_one_sender_are_in_progress_at_once_and_one_that_panics_ends_no_other() {
    let (mut one, mut two, mut broken) = (responds(Echo), responds(Echo), responds(Panics));
    let [mut first, mut second, mut third] = [(); 3].map(|()| Memory::new(100));
    assert!(poll(&mut one, &mut first).is_pending() && poll(&mut two, &mut second).is_pending());
    let result = catch_unwind(AssertUnwindSafe(|| poll(&mut broken, &mut third).is_ready()));
    assert!(result.is_err());
    drop(broken);
    for (request, end, text) in [(&mut two, &mut second, "2"), (&mut one, &mut first, "1")] {
        end.upload.push_back(Bytes::from(text));
        end.upload_ended = true;
        assert!(matches!(poll(request, end), Poll::Ready(After::Sent)));
        assert_eq!(end.text(), text);
    }
}

#[test]
fn trailers_follow_the_content() {
    let (mut request, mut end) = (request("location / { body x; upper on; }"), Memory::new(100));
    request.start(Progress::Wait(Work::Task(Box::new(Twice(true)))));
    assert!(matches!(poll(&mut request, &mut end), Poll::Ready(After::Sent)));
    assert_eq!((end.text(), end.trailers.as_str()), ("X", "X-Wrapped: yes\r\n"));
}

//! The machine of a server next to that of the `h2` crate: both get the same frames, cut at random. After each frame, what
//! was delivered and what happened to the stream or the connection must be the same, or the difference is listed.
//!
//! `COMPARISON_RUNS` and `COMPARISON_SEED` choose how many sequences and which; `make compare-frames` tries a million.

use crate::frame::{FrameHead, HEAD_LENGTH, PREFACE, flag, kind};
use crate::properties::frames;
use crate::testing::frame;
use crate::{Code, Connection, Event, HeaderList, Limits};
use crate::{RequestRules, read_request};
use crate::{ResponseOptions, write_response};
use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{RequestHead, ResponseHead, Status};
use proptest::prelude::{Strategy, prop};
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many sequences are tried where nothing else is said.
const RUNS: u32 = 2000;

const STREAMS: u32 = 4;
const WINDOW: u32 = 1000;
const LIST_SIZE: u32 = 2000;

/// What a frame came to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// What the user of the connection was given.
    delivered: Vec<String>,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// These streams were cancelled.
    Streams(BTreeSet<u32>),
    /// The connection ends.
    Connection,
}

/// What a side has sent, as the fault that it tells.
fn fault(sent: &[u8]) -> Fault {
    let (mut rest, mut streams) = (sent, BTreeSet::new());
    while let Some(head) = FrameHead::read(rest) {
        let payload = &rest[HEAD_LENGTH..HEAD_LENGTH + head.length];
        match head.kind {
            kind::GOAWAY if payload[4..8] != [0; 4] => return Fault::Connection,
            kind::RST_STREAM if payload != [0; 4] => _ = streams.insert(head.stream),
            _ => {}
        }
        rest = &rest[HEAD_LENGTH + head.length..];
    }
    if streams.is_empty() { Fault::None } else { Fault::Streams(streams) }
}

/// Our machine, with a user that answers each request when it is whole.
struct Ours {
    connection: Connection,
    list: HeaderList,
    input: Vec<u8>,
    out: Vec<u8>,
    delivered: Vec<String>,
    is_over: bool,
}

impl Ours {
    fn new() -> Ours {
        let mut out = Vec::new();
        let (list_size, field_size) = (LIST_SIZE as usize, LIST_SIZE as usize);
        let limits = Limits { streams: STREAMS, window: WINDOW, list_size, field_size };
        let connection = Connection::new(limits, &mut out);
        let (list, input, delivered) = (HeaderList::default(), Vec::new(), Vec::new());
        Ours { connection, list, input, out, delivered, is_over: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while !self.is_over {
            let input = std::mem::take(&mut self.input);
            match self.connection.read(&input, &mut self.list, &mut self.out) {
                Ok(read) => {
                    read.event.iter().for_each(|event| self.act(event, &input));
                    self.input = input[read.consumed..].to_vec();
                    if read.event.is_none() {
                        return;
                    }
                }
                Err(failure) => {
                    self.connection.fail(failure, &mut self.out);
                    self.is_over = true;
                }
            }
        }
    }

    fn act(&mut self, event: &Event, input: &[u8]) {
        match event {
            Event::Request { stream, ends, .. } => {
                let mut head = RequestHead::new();
                let rules = RequestRules { underscores: true, ignore_invalid: false, max_fields: 100 };
                if read_request(&self.list, &rules, &mut head).is_err() {
                    return self.connection.release(*stream, Code::PROTOCOL_ERROR, &mut self.out);
                }
                let length = head.fields.get("content-length").map(|text| String::from_utf8_lossy(text));
                let length = length.and_then(|text| text.parse().ok());
                if *ends && length.is_some_and(|length| length > 0) {
                    return self.connection.release(*stream, Code::PROTOCOL_ERROR, &mut self.out);
                }
                if let Some(length) = length {
                    self.connection.expect(*stream, length);
                }
                let target = String::from_utf8_lossy(head.target()).into_owned();
                self.delivered.push(format!("{stream} request {target}"));
                self.end(*stream, *ends);
            }
            Event::Data { stream, bytes, ends, is_wrong } => {
                if *is_wrong {
                    return self.cancel(*stream);
                }
                for byte in &input[bytes.clone()] {
                    self.delivered.push(format!("{stream} byte {byte}"));
                }
                self.connection.widen(*stream, 0, WINDOW, &mut self.out);
                self.end(*stream, *ends);
            }
            Event::Trailers { stream, is_wrong } => {
                if *is_wrong {
                    return self.cancel(*stream);
                }
                self.delivered.push(format!("{stream} trailers"));
                self.end(*stream, true);
            }
            Event::Reset { stream, .. } => {
                self.delivered.push(format!("{stream} reset"));
                self.connection.release(*stream, Code::NO_ERROR, &mut self.out);
            }
            Event::Window { .. } | Event::Priority { .. } | Event::Goaway { .. } | Event::Response { .. } => {
            }
        }
    }

    /// Cancels a request whose content has another length than it announced.
    fn cancel(&mut self, stream: u32) {
        self.delivered.push(format!("{stream} reset"));
        self.connection.release(stream, Code::PROTOCOL_ERROR, &mut self.out);
    }

    /// Answers a request that is whole.
    fn end(&mut self, stream: u32, is_whole: bool) {
        if is_whole {
            self.delivered.push(format!("{stream} end"));
            let (head, options) =
                (ResponseHead::new(Status::OK), ResponseOptions { date: None, server: None });
            let out = &mut self.out;
            self.connection.head(stream, true, |block| write_response(&head, &options, block), out);
            self.connection.release(stream, Code::INTERNAL_ERROR, out);
        }
    }

    fn outcome(&mut self) -> Outcome {
        let fault = fault(&std::mem::take(&mut self.out));
        Outcome { delivered: std::mem::take(&mut self.delivered), fault }
    }
}

/// A connection in memory.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Directions>>);

/// What was sent to the server and not read yet, and what the server has sent.
#[derive(Default)]
struct Directions {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Pipe {
    fn with<T>(&self, act: impl FnOnce(&mut Directions) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|bytes| {
            let count = bytes.input.len().min(buffer.remaining());
            if count == 0 {
                return Poll::Pending;
            }
            buffer.put_slice(&bytes.input.drain(..count).collect::<Vec<u8>>());
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|own| own.output.extend_from_slice(bytes));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The machine of the `h2` crate, with the same user.
struct Theirs {
    pipe: Pipe,
    stage: Stage,
    requests: Vec<Request>,
    delivered: Vec<String>,
}

enum Stage {
    Handshake(Pin<Box<server::Handshake<Pipe, Bytes>>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Over,
}

/// A request whose content has not ended.
struct Request {
    stream: u32,
    content: RecvStream,
    response: SendResponse<Bytes>,
}

impl Theirs {
    fn new() -> Theirs {
        let pipe = Pipe::default();
        let mut builder = server::Builder::new();
        builder.max_concurrent_streams(STREAMS).initial_window_size(WINDOW);
        builder.max_header_list_size(LIST_SIZE).initial_connection_window_size((1 << 31) - 1);
        let handshake = Box::pin(builder.handshake(pipe.clone()));
        Theirs { pipe, stage: Stage::Handshake(handshake), requests: Vec::new(), delivered: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pipe.with(|own| own.input.extend_from_slice(bytes));
        // What the user does has the connection send something.
        while self.poll() {}
    }

    /// Returns whether anything happened.
    fn poll(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.stage {
            Stage::Handshake(handshake) => match handshake.as_mut().poll(&mut cx) {
                Poll::Ready(Ok(connection)) => self.stage = Stage::Open(Box::new(connection)),
                Poll::Ready(Err(_)) => self.stage = Stage::Over,
                Poll::Pending => return false,
            },
            Stage::Open(connection) => match connection.poll_accept(&mut cx) {
                Poll::Ready(Some(Ok((request, response)))) => {
                    let (head, content) = request.into_parts();
                    let stream = response.stream_id().as_u32();
                    self.delivered.push(format!("{stream} request {}", head.uri.path()));
                    self.requests.push(Request { stream, content, response });
                }
                Poll::Ready(_) => self.stage = Stage::Over,
                Poll::Pending => return self.poll_requests(&mut cx),
            },
            Stage::Over => return false,
        }
        true
    }

    fn poll_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let (requests, mut has_moved) = (std::mem::take(&mut self.requests), false);
        for mut request in requests {
            match request.poll(cx, &mut self.delivered) {
                Poll::Pending => self.requests.push(request),
                Poll::Ready(()) => has_moved = true,
            }
        }
        has_moved
    }

    fn outcome(&mut self) -> Outcome {
        let sent = self.pipe.with(|own| std::mem::take(&mut own.output));
        let fault = if let Stage::Over = self.stage { Fault::Connection } else { fault(&sent) };
        Outcome { delivered: std::mem::take(&mut self.delivered), fault }
    }
}

impl Request {
    /// Ready when the request was answered, or is over.
    fn poll(&mut self, cx: &mut Context<'_>, delivered: &mut Vec<String>) -> Poll<()> {
        let stream = self.stream;
        loop {
            match self.content.poll_data(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => {
                    delivered.extend(bytes.iter().map(|byte| format!("{stream} byte {byte}")));
                    drop(self.content.flow_control().release_capacity(bytes.len()));
                }
                Poll::Ready(Some(Err(_))) => break,
                Poll::Ready(None) => match self.content.poll_trailers(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => break,
                    Poll::Ready(Ok(trailers)) => {
                        delivered.extend(trailers.map(|_| format!("{stream} trailers")));
                        delivered.push(format!("{stream} end"));
                        drop(self.response.send_response(http_types::Response::new(()), true));
                        return Poll::Ready(());
                    }
                },
            }
        }
        delivered.push(format!("{stream} reset"));
        self.response.send_reset(Reason::NO_ERROR);
        Poll::Ready(())
    }
}

/// What came before a frame.
#[derive(Default)]
struct Before {
    /// The highest number of a stream.
    highest: u32,
    /// Streams that h2 has cancelled.
    cancelled: BTreeSet<u32>,
    /// Whether the frame may change the size of the table more than twice.
    may_resize: bool,
    /// Whether a block has begun that has no end.
    is_open: bool,
}

/// Why the two may differ about a frame, where that is meant.
fn listed(head: FrameHead, before: &Before, ours: &Outcome, theirs: &Outcome) -> Option<&'static str> {
    use Fault::{Connection, None as Nothing, Streams};
    let is_block = matches!(head.kind, kind::HEADERS | kind::CONTINUATION);
    let (is_cancelled, is_past) = (before.cancelled.contains(&head.stream), head.stream <= before.highest);
    match (head.kind, &ours.fault, &theirs.fault) {
        (_, Connection, Streams(_)) if before.is_open => {
            Some("h2 cancels a stream for the beginning of a block, and takes other frames before its end")
        }
        (kind::WINDOW_UPDATE, Streams(_), Connection) => {
            Some("h2 ends the connection for an increment of 0 (RFC 9113, section 6.9: a stream error)")
        }
        (kind::PRIORITY, Streams(_), Connection) => {
            Some("h2 ends the connection for a wrong length (RFC 9113, section 6.3: a stream error)")
        }
        (kind::GOAWAY, Nothing, Connection) => {
            Some("h2 ends the connection of a client that says goodbye with an error")
        }
        (kind::DATA, Streams(_), Nothing) if is_cancelled => {
            Some("h2 ignores content on a stream that it has cancelled, after the end of the stream, too")
        }
        (kind::PUSH_PROMISE, Connection, _) => {
            Some("h2 looks at the fields of a promise, which a client must not send (RFC 9113, section 8.4)")
        }
        (_, Connection, Nothing) if is_block && is_cancelled => {
            Some("h2 ignores a block on a stream that it has cancelled, after the end of the stream, too")
        }
        (_, Connection, Streams(_)) if is_block && (head.stream.is_multiple_of(2) || is_past) => {
            Some("h2 looks at the fields first, and at the number of the stream later")
        }
        (_, Connection, Streams(_)) if is_block && before.may_resize => {
            Some("h2 takes more than two changes of the table's size in a block (RFC 7541, section 4.2)")
        }
        (_, Streams(_), Connection) if is_block && theirs.delivered.is_empty() => {
            Some("h2 ends the connection for a pseudo-field with an invalid value (RFC 9113, section 8.1.1)")
        }
        (_, Nothing, Connection) if is_block && is_cancelled && theirs.delivered.is_empty() => {
            Some("h2 ends the connection for such a value on a stream, too, that it has cancelled")
        }
        (_, Streams(_), Nothing)
            if theirs.delivered.first() == Some(&format!("{} request ", head.stream)) =>
        {
            Some("h2 leaves it to its user to miss the path of a request (RFC 9113, section 8.3.1)")
        }
        (_, Streams(_), Nothing)
            if theirs.delivered == [format!("{} trailers", head.stream), format!("{} end", head.stream)] =>
        {
            Some("h2 takes pseudo-fields, and fields of the connection, in trailers (RFC 9113, section 8.1)")
        }
        _ => None,
    }
}

/// The head of the last frame.
fn last_head(frames: &[u8]) -> FrameHead {
    let (mut rest, mut last) = (frames.strip_prefix(PREFACE).unwrap_or(frames), None);
    while let Some(head) = FrameHead::read(rest) {
        last = Some(head);
        rest = &rest[HEAD_LENGTH + head.length..];
    }
    last.expect("a frame")
}

/// A frame, or a block in several. Settings are acknowledged once only: h2 takes one acknowledgement more for an error.
fn units() -> impl Strategy<Value = Vec<u8>> {
    let more = select(vec![vec![], vec![0x40, 1, b'c', 1, b'd'], vec![0x80], vec![0x82]]);
    (frames(), more, 0..10u8).prop_map(|(mut unit, more, chance)| {
        let head = last_head(&unit);
        if head.kind == kind::SETTINGS && head.has(flag::ACK) {
            return frame(kind::PING, 0, 0, &[0; 8]);
        }
        if head.kind == kind::HEADERS && !head.has(flag::END_HEADERS) && chance > 0 {
            unit.extend(frame(kind::CONTINUATION, flag::END_HEADERS, head.stream, &more));
        }
        unit
    })
}

fn compare(sequence: &[Vec<u8>], cut: usize) -> Result<(), TestCaseError> {
    let (mut ours, mut theirs, mut before) = (Ours::new(), Theirs::new(), Before::default());
    let start =
        [PREFACE, &FrameHead { length: 0, kind: kind::SETTINGS, flags: 0, stream: 0 }.bytes()].concat();
    let acknowledged = FrameHead { length: 0, kind: kind::SETTINGS, flags: 1, stream: 0 }.bytes().to_vec();
    for (index, bytes) in [start, acknowledged].iter().chain(sequence).enumerate() {
        let head = last_head(bytes);
        for part in bytes.chunks(cut) {
            ours.take(part);
            theirs.take(part);
        }
        let is_block = matches!(head.kind, kind::HEADERS | kind::CONTINUATION | kind::PUSH_PROMISE);
        if is_block && !head.has(flag::END_HEADERS) {
            // One of the two may judge a block before its end.
            before.is_open = true;
            continue;
        }
        before.may_resize = bytes.iter().filter(|byte| matches!(byte, 0x20..0x40)).count() > 2;
        let (own, other) = (ours.outcome(), theirs.outcome());
        if own != other {
            return match listed(head, &before, &own, &other) {
                Some(_) => Ok(()),
                None => Err(TestCaseError::fail(format!(
                    "frame {index} of {sequence:?}, {bytes:?}:\nwe: {own:?}\nh2: {other:?}"
                ))),
            };
        }
        match other.fault {
            Fault::None => {}
            Fault::Streams(streams) => before.cancelled.extend(streams),
            Fault::Connection => break,
        }
        before.is_open = false;
        if is_block {
            before.highest = before.highest.max(head.stream);
        }
    }
    Ok(())
}

#[test]
fn frames_come_to_the_same_as_in_another_implementation() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = number("COMPARISON_RUNS").unwrap_or(RUNS);
    let [a, b, c, d] = number("COMPARISON_SEED").unwrap_or(0).to_be_bytes();
    let seed: Vec<u8> = [a, b, c, d].repeat(8);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let sequences = (prop::collection::vec(units(), 0..20), 1..40usize);
    let result =
        TestRunner::new_with_rng(config, rng).run(&sequences, |(sequence, cut)| compare(&sequence, cut));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

//! A connection to a server in HTTP/2, which carries many requests at a time: what the server sends is kept for each request
//! until that takes it. How much that can be is bounded by the window of the stream.

use super::dialogue::INTERIM_MAX;
use ::upstream::{Broken, Carrier};
use bytes::{Bytes, BytesMut};
use h1::announced_length;
use http::{Fields, Status};
use http2::{BlockWriter, Code, Connection, Content, Event, FRAME_SIZE, HeaderList, Limits};
use journal::clock::Time;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wire::Buffer;
use wire::memory::{self, Held};

/// How much content of one response a server may send that the client has not taken, in bytes.
const WINDOW: u32 = 256 * 1024;

/// How long the names and values of a response may be together, in bytes.
const LIST_MAX: usize = 128 * 1024;

const LIMITS: Limits = Limits { streams: 1, window: WINDOW, list_size: LIST_MAX, field_size: LIST_MAX };

/// What is said of a stream that is not there.
pub(super) const GONE: &str = "upstream connection is gone";

/// What a second without a flood earns a server.
const EARNED_PER_SECOND: u32 = 100;

/// A connection that carries many requests.
pub(super) struct Session(RefCell<State>);

struct State {
    machine: Connection,
    list: HeaderList,
    /// What is to be sent besides the requests.
    out: Vec<u8>,
    /// What came for each request, the oldest first.
    inboxes: Vec<Inbox>,
    /// Whether the server ends the connection.
    is_leaving: bool,
    /// How the server broke the rules.
    fault: Option<String>,
    driver: Option<Waker>,
    /// Up to when the server was given back what time is worth, in milliseconds of uptime.
    earned_ms: u64,
}

/// What came for one request.
struct Inbox {
    stream: u32,
    waker: Option<Waker>,
    is_head: bool,
    interim: usize,
    heads: VecDeque<Head>,
    data: BytesMut,
    held: Held,
    trailers: Option<Fields>,
    end: Option<End>,
    /// How many bytes came that the request does not know of.
    unknown: usize,
    /// Whether the request waits until it may send more.
    is_blocked: bool,
}

/// The head of a response.
pub(super) struct Head {
    pub(super) status: Status,
    pub(super) fields: Fields,
    /// The length on the wire, in bytes.
    pub(super) wire_length: usize,
    /// How long the content is, if the head says so, in bytes.
    pub(super) length: Option<u64>,
}

#[derive(Clone)]
enum End {
    Whole,
    Reset(Code),
    Left(Code),
    Fault(String),
}

/// What comes next of a response.
pub(super) enum Met {
    Head(Head),
    Data(Bytes),
    Trailers(Fields),
    End,
    Reset(Code),
    /// The server does not act on the request, and ends the connection.
    Left(Code),
    /// The server broke the rules.
    Fault(String),
    More,
}

/// The place of a request on the connection.
pub(super) struct Stream {
    session: Rc<Session>,
    id: u32,
}

impl Session {
    /// A connection on which nothing was sent.
    pub(super) fn begin() -> Rc<dyn Carrier> {
        let mut out = Vec::new();
        let machine = Connection::client(LIMITS, &mut out);
        Rc::new(Session(RefCell::new(State {
            machine,
            list: HeaderList::default(),
            out,
            inboxes: Vec::new(),
            is_leaving: false,
            fault: None,
            driver: None,
            earned_ms: Time::now().uptime_ms,
        })))
    }

    /// Opens a stream for a request; `None` if the server allows none.
    pub(super) fn open(self: &Rc<Self>, is_head: bool) -> Option<Stream> {
        let mut state = self.0.borrow_mut();
        let stream = state.machine.open_stream()?;
        state.inboxes.push(Inbox::new(stream, is_head));
        Some(Stream { session: Rc::clone(self), id: stream })
    }
}

impl Stream {
    /// Appends the head of the request.
    pub(super) fn head(&self, ends: bool, write: impl FnOnce(&mut BlockWriter<'_>), out: &mut Vec<u8>) {
        self.session.0.borrow_mut().machine.head(self.id, ends, write, out);
    }

    /// Appends as much of a piece of the request's body as the server allows, and returns how much that was. Where others wait
    /// for the window of the connection, it leaves them their part.
    pub(super) fn send(&self, piece: &[u8], ends: bool, out: &mut Vec<u8>) -> usize {
        let mut state = self.session.0.borrow_mut();
        if state.machine.is_reset(self.id) {
            // The server does not want it.
            return piece.len();
        }
        let others = state.inboxes.iter().filter(|inbox| inbox.is_blocked && inbox.stream != self.id).count();
        let part = match others {
            0 => piece.len(),
            others => piece.len().min(state.machine.shared_room() / (others + 1) + 1),
        };
        let ends = ends && part == piece.len();
        let content = Content { bytes: &piece[..part], ends, frame: FRAME_SIZE };
        let sent = state.machine.data(self.id, content, out);
        if let Some(inbox) = state.inbox(self.id) {
            inbox.is_blocked = sent < piece.len();
        }
        sent
    }

    /// Whether a further piece of the request's body can be appended, or need not be.
    pub(super) fn has_room(&self) -> bool {
        let state = self.session.0.borrow();
        state.machine.room(self.id) > 0 || state.machine.is_reset(self.id)
    }

    /// Whether there is anything to send besides requests.
    pub(super) fn has_pending(&self) -> bool {
        !self.session.0.borrow().out.is_empty()
    }

    /// Appends that.
    pub(super) fn append_pending(&self, out: &mut Vec<u8>) {
        out.append(&mut self.session.0.borrow_mut().out);
    }

    /// Ready when there is something that the request has not taken: tells how many bytes came since the last time.
    pub(super) fn poll_input(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.session.0.borrow_mut();
        let is_lost = state.fault.is_some();
        let Some(inbox) = state.inbox(self.id) else { return Poll::Ready(0) };
        if is_lost || !inbox.is_empty() {
            return Poll::Ready(std::mem::take(&mut inbox.unknown));
        }
        if !inbox.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inbox.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes what comes next, of content no more than so many bytes, of which what is taken is subtracted.
    pub(super) fn next(&self, most: &mut usize) -> Met {
        let mut state = self.session.0.borrow_mut();
        let fault = state.fault.clone();
        let Some(inbox) = state.inbox(self.id) else { return Met::Fault(GONE.to_owned()) };
        if let Some(head) = inbox.heads.pop_front() {
            return Met::Head(head);
        }
        if !inbox.data.is_empty() {
            if *most == 0 {
                return Met::More;
            }
            let bytes = inbox.take_data(most);
            let held = inbox.data.len();
            let State { machine, out, .. } = &mut *state;
            machine.widen(self.id, held, WINDOW, out);
            state.stir();
            return Met::Data(bytes);
        }
        if let Some(trailers) = inbox.trailers.take() {
            return Met::Trailers(trailers);
        }
        match inbox.end.clone() {
            Some(End::Whole) => Met::End,
            Some(End::Reset(code)) => Met::Reset(code),
            Some(End::Left(code)) => Met::Left(code),
            Some(End::Fault(message)) => Met::Fault(message),
            None => fault.map_or(Met::More, Met::Fault),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.session.0.borrow_mut();
        let State { machine, out, inboxes, .. } = &mut *state;
        machine.release(self.id, Code::CANCEL, out);
        inboxes.retain(|inbox| inbox.stream != self.id);
        state.stir();
    }
}

impl Carrier for Session {
    fn read(&self, input: &mut Buffer, out: &mut Vec<u8>) -> Result<(), Broken> {
        let mut state = self.0.borrow_mut();
        state.replenish();
        loop {
            let State { machine, list, .. } = &mut *state;
            let read = match machine.read(input.bytes(), list, out) {
                Ok(read) => read,
                Err(failure) => {
                    machine.fail(failure, out);
                    // The machine names its peer as a server does.
                    let message = format!("upstream {}", failure.reason.trim_start_matches("client "));
                    state.fault = Some(message);
                    return Err(Broken);
                }
            };
            let is_last = read.event.is_none();
            if let Some(event) = read.event {
                state.take(event, input.bytes());
            }
            input.consume(read.consumed);
            if is_last {
                return Ok(());
            }
        }
    }

    fn append_pending(&self, out: &mut Vec<u8>) {
        out.append(&mut self.0.borrow_mut().out);
    }

    fn set_driver(&self, driver: &Waker) {
        self.0.borrow_mut().driver = Some(driver.clone());
    }

    fn allowed(&self) -> Option<usize> {
        self.0.borrow().machine.allowed_streams()
    }

    fn requests(&self) -> usize {
        self.0.borrow().machine.streams()
    }

    fn is_leaving(&self) -> bool {
        let state = self.0.borrow();
        state.is_leaving || state.fault.is_some() || state.machine.is_used_up()
    }

    fn wake_all(&self) {
        self.0.borrow_mut().inboxes.iter_mut().for_each(Inbox::wake);
    }
}

impl State {
    fn inbox(&mut self, stream: u32) -> Option<&mut Inbox> {
        let place = self.inboxes.binary_search_by_key(&stream, |inbox| inbox.stream).ok()?;
        self.inboxes.get_mut(place)
    }

    /// Wakes the driver if there is something to send.
    fn stir(&self) {
        if !self.out.is_empty() {
            self.driver.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// A server that sends something useless now and then does no harm.
    fn replenish(&mut self) {
        let now_ms = Time::now().uptime_ms;
        let seconds = now_ms.saturating_sub(self.earned_ms) / 1000;
        if seconds > 0 {
            self.earned_ms = now_ms;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            self.machine.earn(seconds.saturating_mul(EARNED_PER_SECOND));
        }
    }

    /// Gives what the server did to the requests that it concerns.
    fn take(&mut self, event: Event, input: &[u8]) {
        match event {
            Event::Response { stream, ends, length } => self.take_head(stream, ends, length),
            Event::Data { stream, bytes, ends, is_wrong } => {
                let Some(inbox) = self.inbox(stream) else { return };
                if !inbox.data.is_empty() && memory::is_exhausted() {
                    return inbox.end_with(End::Fault("memory is exhausted".to_owned()));
                }
                if !is_wrong {
                    inbox.add_data(input.get(bytes).unwrap_or_default());
                }
                inbox.finish(ends, is_wrong);
            }
            Event::Trailers { stream, is_wrong } => self.take_trailers(stream, is_wrong),
            Event::Reset { stream, code } => {
                if let Some(inbox) = self.inbox(stream) {
                    inbox.end_with(End::Reset(code));
                }
            }
            Event::Goaway { last, code } => {
                self.is_leaving = true;
                let unserved = self.inboxes.iter_mut().filter(|inbox| inbox.stream > last);
                unserved.for_each(|inbox| inbox.end_with(End::Left(code)));
            }
            Event::Window { stream: 0 } => {
                self.inboxes.iter_mut().filter(|inbox| inbox.is_blocked).for_each(Inbox::wake);
            }
            Event::Window { stream } => self.inbox(stream).into_iter().for_each(Inbox::wake),
            Event::Request { .. } | Event::Priority { .. } => {}
        }
    }

    fn take_head(&mut self, stream: u32, ends: bool, wire_length: usize) {
        let read = read_head(&self.list, wire_length);
        let Some(inbox) = self.inbox(stream) else { return };
        inbox.unknown += wire_length;
        let announced = read.and_then(|head| inbox.take_head(head, ends));
        match announced {
            Ok(Some(length)) => self.machine.expect(stream, length),
            Ok(None) => {}
            Err(message) => inbox.end_with(End::Fault(message)),
        }
    }

    fn take_trailers(&mut self, stream: u32, is_wrong: bool) {
        let mut fields = Fields::new();
        let read = match self.list.is_too_large() {
            true => Err(TOO_BIG),
            false => http2::read_trailers(&self.list, &mut fields).map_err(|malformed| malformed.0),
        };
        let Some(inbox) = self.inbox(stream) else { return };
        match read {
            Ok(()) => {
                inbox.trailers = Some(fields);
                inbox.finish(true, is_wrong);
            }
            Err(what) => inbox.end_with(End::Fault(format!("upstream {what}"))),
        }
    }
}

const TOO_BIG: &str = "sent too big header";

fn read_head(list: &HeaderList, wire_length: usize) -> Result<Head, String> {
    if list.is_too_large() {
        return Err(format!("upstream {TOO_BIG}"));
    }
    let mut fields = Fields::new();
    let status =
        http2::read_response(list, &mut fields).map_err(|malformed| format!("upstream {}", malformed.0))?;
    Ok(Head { status, fields, wire_length, length: None })
}

impl Inbox {
    fn new(stream: u32, is_head: bool) -> Inbox {
        Inbox {
            stream,
            waker: None,
            is_head,
            interim: 0,
            heads: VecDeque::new(),
            data: BytesMut::new(),
            held: Held::default(),
            trailers: None,
            end: None,
            unknown: 0,
            is_blocked: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.data.is_empty() && self.trailers.is_none() && self.end.is_none()
    }

    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// Takes a head; gives the length of the content if that has to be checked.
    fn take_head(&mut self, mut head: Head, ends: bool) -> Result<Option<u64>, String> {
        let status = head.status;
        if status == Status::SWITCHING_PROTOCOLS {
            return Err("upstream switched protocols unasked".to_owned());
        }
        if status < Status::OK {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err("upstream sent too many interim responses".to_owned());
            }
            self.heads.push_back(head);
            self.wake();
            return Ok(None);
        }
        head.length = announced_length(&head.fields).map_err(|error| error.0)?;
        let has_content = !self.is_head && !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
        let expected = head.length.filter(|_| has_content);
        if ends && expected.is_some_and(|length| length > 0) {
            return Err("upstream sent no content although it has announced some".to_owned());
        }
        self.heads.push_back(head);
        self.finish(ends, false);
        Ok(expected.filter(|_| !ends))
    }

    fn add_data(&mut self, bytes: &[u8]) {
        self.unknown += bytes.len();
        self.data.extend_from_slice(bytes);
        self.held.set(self.data.len());
    }

    fn take_data(&mut self, most: &mut usize) -> Bytes {
        let count = self.data.len().min(*most);
        *most -= count;
        let bytes = match count == self.data.len() {
            true => std::mem::take(&mut self.data),
            false => self.data.split_to(count),
        };
        self.held.set(self.data.len());
        bytes.freeze()
    }

    /// Notes whether the response is whole.
    fn finish(&mut self, ends: bool, is_wrong: bool) {
        const WRONG: &str = "upstream sent content of another length than it has announced";
        match (is_wrong, ends) {
            (true, _) => self.end_with(End::Fault(WRONG.to_owned())),
            (false, true) => self.end_with(End::Whole),
            (false, false) => self.wake(),
        }
    }

    /// What ends a response first counts: one that is whole stays so although the rest of the request is not wanted.
    fn end_with(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.wake();
    }
}

//! Connections that carry many requests at a time. A task of the thread drives each of them: it connects, writes what the
//! requests append, reads, and lets the protocol give each request its part. A request that waits for its client does not
//! stop the others.
//!
//! A connection without requests is kept as [`Keepalive`] says. Where that keeps none, a connection has one request.

use crate::balance::Lease;
use crate::call::Call;
use crate::dialogue::Carrier;
use crate::failure::{CONNECTING, Failure, HANDSHAKING, READING_HEAD, SENDING};
use crate::group::Keepalive;
use crate::patience::{Patience, Wait};
use crate::peer_state::Counted;
use crate::secured::Secured;
use crate::upload::PIECE;
use contract::hash::KeyedMap;
use journal::clock::Time;
use net::SocketAddress;
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::task::spawn_local;
use wire::memory::Held;
use wire::{Buffer, Transport};

/// How many requests a connection has at most at a time, whatever the server allows.
const REQUESTS_MAX: usize = 100;

/// While so much waits to be sent, nothing is read that may have to be answered, in bytes.
const UNREAD_AT: usize = 1024 * 1024;

/// How much is read at once, in bytes.
const READ: usize = 64 * 1024;

/// How often a connection reads in its turn.
const READS: usize = 8;

/// A connection that carries many requests at a time.
pub(crate) struct Shared {
    carrier: Rc<dyn Carrier>,
    key: Key,
    keepalive: Keepalive,
    /// How many requests the server allowed on another connection.
    allowed_before: Option<usize>,
    stage: Cell<Stage>,
    /// Why the connection cannot be used any more.
    end: RefCell<Option<End>>,
    sending: Sending,
    usage: Usage,
    /// The tasks of the requests that wait for the connection.
    waiting: RefCell<Vec<(u64, Waker)>>,
    driver: RefCell<Option<Waker>>,
    /// The connection is counted while it is open.
    counted: RefCell<Option<Counted>>,
}

/// What a connection sends, of all requests together.
#[derive(Default)]
struct Sending {
    /// What is written next.
    output: RefCell<Buffer>,
    /// The memory of that.
    held: RefCell<Held>,
    /// How many bytes were put there, how many of them were written, and how many may have left.
    appended: Cell<u64>,
    written: Cell<u64>,
    left: Cell<u64>,
    /// Whether a request waits until there is less to send.
    wants_room: Cell<bool>,
}

/// How requests use a connection.
struct Usage {
    /// How many requests use the connection, or wait for it.
    users: Cell<usize>,
    /// How many requests there were.
    requests: Cell<u64>,
    /// How often something came.
    reads: Cell<u64>,
    /// Whether a request found the connection idle, and nothing came since then.
    is_untried: Cell<bool>,
    /// Whether others are kept in its place, or the server does not answer.
    is_unwanted: Cell<bool>,
    opened_ms: u64,
    idle_since_ms: Cell<u64>,
}

impl Usage {
    fn new(now_ms: u64) -> Usage {
        Usage {
            users: Cell::default(),
            requests: Cell::default(),
            reads: Cell::default(),
            is_untried: Cell::default(),
            is_unwanted: Cell::default(),
            opened_ms: now_ms,
            idle_since_ms: Cell::new(now_ms),
        }
    }
}

/// Which requests can use a connection.
struct Key {
    group: u64,
    address: SocketAddress,
    protocol: TypeId,
    secured: Option<Secured>,
    local: Option<SocketAddr>,
    tag: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Handshaking,
    Open,
    Ended,
}

/// Why a connection ended.
#[derive(Clone)]
enum End {
    /// It was not opened.
    Unopened(Failure),
    /// The server closed it, or broke the rules.
    Closed,
    /// A call failed.
    Sending(Rc<io::Error>),
    Receiving(Rc<io::Error>),
}

thread_local! {
    /// The connections of each group.
    static TABLE: RefCell<KeyedMap<u64, Vec<Weak<Shared>>>> = RefCell::default();
}

/// A place on a connection, for one request.
pub(crate) struct Member {
    shared: Rc<Shared>,
    /// The number of the request.
    number: u64,
    /// Whether the connection was opened for this request.
    is_opener: bool,
    /// Whether the connection was kept for this request and had others before.
    is_kept: bool,
    /// How many bytes were appended before the request.
    start: Cell<u64>,
    /// How often something had come before it.
    reads: u64,
}

/// What a request finds that waited for a connection.
pub(crate) enum Found {
    /// It can begin.
    Room,
    /// There are as many requests as the server allows.
    Full,
}

/// A place on a connection that is there.
pub(crate) fn find(lease: &Lease, call: &Call) -> Option<Member> {
    look(lease, call, |shared| shared.takes_more().then(|| Member::new(Rc::clone(shared), false)))
}

/// A place on a new connection, over a transport that is being opened.
pub(crate) fn start(transport: Transport, carrier: Rc<dyn Carrier>, lease: &Lease, call: &Call) -> Member {
    let allowed_before = look(lease, call, |shared| shared.carrier.allowed());
    let group = lease.group();
    let key = Key {
        group: group.live.peers.id,
        address: lease.server().peer.address.clone(),
        protocol: call.protocol,
        secured: call.secured.clone(),
        local: call.local,
        tag: call.tag,
    };
    let shared = Rc::new(Shared {
        carrier,
        key,
        keepalive: group.keepalive,
        allowed_before,
        stage: Cell::new(Stage::Connecting),
        end: RefCell::default(),
        sending: Sending::default(),
        usage: Usage::new(Time::now().uptime_ms),
        waiting: RefCell::default(),
        driver: RefCell::default(),
        counted: RefCell::default(),
    });
    shared.append(|carrier, out| carrier.append_pending(out));
    TABLE.with_borrow_mut(|table| {
        table.entry(shared.key.group).or_default().push(Rc::downgrade(&shared));
    });
    let member = Member::new(Rc::clone(&shared), true);
    let (input, patience) = (Buffer::default(), Patience::default());
    let mut driver = Driver { shared, transport, input, broken: None, patience };
    spawn_local(async move { poll_fn(|cx| driver.poll(cx)).await });
    member
}

/// Looks at the connections to a server that can serve a request, up to the first that gives something.
fn look<T>(lease: &Lease, call: &Call, mut look: impl FnMut(&Rc<Shared>) -> Option<T>) -> Option<T> {
    let (group, address) = (lease.group(), &lease.server().peer.address);
    let fits = |shared: &Rc<Shared>| {
        let key = &shared.key;
        let is_for_all = !group.keepalive.local || key.tag == call.tag;
        let is_alike =
            key.protocol == call.protocol && key.secured == call.secured && key.local == call.local;
        is_for_all && is_alike && key.address == *address
    };
    TABLE.with_borrow(|table| {
        let all = table.get(&group.live.peers.id)?.iter().filter_map(Weak::upgrade);
        all.filter(fits).find_map(|shared| look(&shared))
    })
}

impl Shared {
    /// Whether a further request can use the connection.
    fn takes_more(&self) -> bool {
        let allowed = self.carrier.allowed();
        let has_place = allowed.is_none_or(|allowed| self.carrier.requests() < allowed);
        let most = if self.keepalive.connections == 0 { 1 } else { REQUESTS_MAX };
        let room = allowed.or(self.allowed_before).unwrap_or(REQUESTS_MAX).min(most);
        has_place && self.usage.users.get() < room && !self.is_spent()
    }

    /// Whether the connection takes no further requests.
    fn is_spent(&self) -> bool {
        let Keepalive { connections, requests, time, .. } = self.keepalive;
        let age = Duration::from_millis(Time::now().uptime_ms.saturating_sub(self.usage.opened_ms));
        self.stage.get() == Stage::Ended
            || self.usage.is_unwanted.get()
            || self.carrier.is_leaving()
            || self.usage.requests.get() >= requests
            || (connections == 0 && self.usage.requests.get() > 0)
            || age > time
    }

    /// Appends to what is sent.
    fn append(&self, write: impl FnOnce(&dyn Carrier, &mut Vec<u8>)) {
        let mut output = self.sending.output.borrow_mut();
        let before = output.bytes().len();
        output.append(|out| write(&*self.carrier, out));
        self.sending.appended.set(self.sending.appended.get() + (output.bytes().len() - before) as u64);
    }

    fn wake_driver(&self) {
        // Cloned, because waking may poll the driver, which borrows this cell.
        let driver = self.driver.borrow().clone();
        driver.iter().for_each(Waker::wake_by_ref);
    }

    /// Wakes the requests that wait for the connection.
    fn wake_waiting(&self) {
        // Taken out first, because a request that is woken may register again.
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// The connection ends, and with it all requests that are on it.
    fn end(&self, end: End) {
        if self.stage.replace(Stage::Ended) == Stage::Ended {
            return;
        }
        *self.end.borrow_mut() = Some(end);
        *self.counted.borrow_mut() = None;
        // At the end of a thread its storage may be gone before.
        let _ = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            let Some(all) = table.get_mut(&self.key.group) else { return };
            all.retain(|other| !std::ptr::eq(other.as_ptr(), self) && other.strong_count() > 0);
            if all.is_empty() {
                table.remove(&self.key.group);
            }
        });
        self.wake_waiting();
        self.carrier.wake_all();
    }

    /// The last request has left. Where too many connections are idle, the one that was idle for the longest time is closed.
    fn rest(&self) {
        self.usage.idle_since_ms.set(Time::now().uptime_ms);
        let all: Vec<Rc<Shared>> = TABLE.with_borrow(|table| {
            let all = table.get(&self.key.group).into_iter().flatten();
            all.filter_map(Weak::upgrade).collect()
        });
        let is_idle = |shared: &&Rc<Shared>| shared.usage.users.get() == 0 && !shared.usage.is_unwanted.get();
        if all.iter().filter(is_idle).count() > self.keepalive.connections
            && let Some(oldest) =
                all.iter().filter(is_idle).min_by_key(|shared| shared.usage.idle_since_ms.get())
        {
            oldest.usage.is_unwanted.set(true);
            oldest.wake_driver();
        }
    }
}

impl Member {
    fn new(shared: Rc<Shared>, is_opener: bool) -> Member {
        let (users, number) = (shared.usage.users.get(), shared.usage.requests.get());
        if users == 0 && number > 0 {
            shared.usage.is_untried.set(true);
        }
        shared.usage.users.set(users + 1);
        shared.usage.requests.set(number + 1);
        let (is_kept, reads) = (shared.usage.is_untried.get(), shared.usage.reads.get());
        Member { shared, number, is_opener, is_kept, start: Cell::new(0), reads }
    }

    /// The protocol's view of the connection.
    pub(crate) fn carrier(&self) -> &Rc<dyn Carrier> {
        &self.shared.carrier
    }

    /// Ready when the connection is open and the request can begin, or must look for another one.
    pub(crate) fn poll_place(&self, cx: &mut Context<'_>, lease: &Lease) -> Poll<Result<Found, Failure>> {
        let Shared { carrier, stage, allowed_before, end, counted, .. } = &*self.shared;
        if let Some(end) = &*end.borrow() {
            return Poll::Ready(Err(match end {
                End::Unopened(failure) => failure.clone(),
                End::Closed => Failure::premature(READING_HEAD),
                End::Sending(error) => Failure::io("send", error, SENDING),
                End::Receiving(error) => Failure::io("recv", error, READING_HEAD),
            }));
        }
        if stage.get() == Stage::Open {
            counted.borrow_mut().get_or_insert_with(|| lease.count_connection());
            // Before the server has said how many requests it allows there is one, or as many as it allowed before.
            let allowed = carrier.allowed();
            let room = allowed.or(*allowed_before).unwrap_or(1).max(usize::from(allowed.is_none()));
            if carrier.requests() < room {
                return Poll::Ready(Ok(Found::Room));
            }
            // A server that allows none at first may allow some later. Each connection is worth one wait for that.
            if allowed.is_some_and(|allowed| allowed > 0 || !self.is_opener) {
                return Poll::Ready(Ok(Found::Full));
            }
        }
        let mut waiting = self.shared.waiting.borrow_mut();
        waiting.retain(|(number, _)| *number != self.number);
        waiting.push((self.number, cx.waker().clone()));
        Poll::Pending
    }

    /// The failure of a server that is too slow to give a place, unless that of the timer itself. Other requests do not wait
    /// for this connection.
    pub(crate) fn why_late(&self, timer: io::Result<()>) -> Failure {
        self.shared.usage.is_unwanted.set(true);
        let doing = if self.shared.stage.get() == Stage::Handshaking { HANDSHAKING } else { CONNECTING };
        match timer {
            Ok(()) => Failure::timed_out(doing),
            Err(error) => Failure::io("connect", &error, doing),
        }
    }

    /// Lets the request append to what is sent; gives how many bytes that were. The buffer is the argument in the meantime.
    pub(crate) fn append<T>(&self, output: &mut Buffer, write: impl FnOnce(&mut Buffer) -> T) -> (T, usize) {
        let Sending { output: shared, appended, held, .. } = &self.shared.sending;
        std::mem::swap(&mut *shared.borrow_mut(), output);
        let before = output.bytes().len();
        let written = write(output);
        let count = output.bytes().len() - before;
        held.borrow_mut().set(output.capacity());
        std::mem::swap(&mut *shared.borrow_mut(), output);
        appended.set(appended.get() + count as u64);
        if count > 0 {
            self.shared.wake_driver();
        }
        (written, count)
    }

    /// Notes that the request begins with what is appended next.
    pub(crate) fn begin(&self) {
        self.start.set(self.shared.sending.appended.get());
    }

    /// Whether a part of the request may have left.
    pub(crate) fn has_left(&self) -> bool {
        self.shared.sending.left.get() > self.start.get()
    }

    /// Notes that the server did not answer this request in time. One that said nothing at all in this time gets no further
    /// requests on this connection.
    pub(crate) fn note_silence(&self) {
        if self.shared.usage.reads.get() == self.reads {
            self.shared.usage.is_unwanted.set(true);
        }
    }

    /// Wakes all requests once there is less to send.
    pub(crate) fn await_room(&self) {
        self.shared.sending.wants_room.set(true);
    }

    /// What a system call would have reported to this request about the connection; `None` while it is open.
    pub(crate) fn ended(&self) -> Option<io::Result<Option<io::Error>>> {
        let end = self.shared.end.borrow();
        Some(match end.as_ref()? {
            End::Receiving(error) => Err(copy(error)),
            End::Sending(error) => Ok(Some(copy(error))),
            End::Unopened(_) | End::Closed => Ok(None),
        })
    }

    /// Whether the server may have closed the connection before this request came.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_kept && self.shared.usage.is_untried.get()
    }

    /// Whether the connection was opened for this request.
    pub(crate) fn is_opener(&self) -> bool {
        self.is_opener
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Shared { usage: Usage { users, .. }, waiting, .. } = &*self.shared;
        waiting.borrow_mut().retain(|(number, _)| *number != self.number);
        users.set(users.get() - 1);
        if users.get() == 0 {
            self.shared.rest();
            self.shared.wake_driver();
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    if let Some(number) = error.raw_os_error() {
        return io::Error::from_raw_os_error(number);
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<tls::Failure>()) {
        Some(failure) => io::Error::new(error.kind(), failure.clone()),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// What drives a connection. Connections do not outlive the event loop.
struct Driver {
    shared: Rc<Shared>,
    transport: Transport,
    /// What was read and not used yet.
    input: Buffer,
    /// Why nothing can be written any more.
    broken: Option<io::Error>,
    patience: Patience,
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &self.shared.driver;
        if !driver.borrow().as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *driver.borrow_mut() = Some(cx.waker().clone());
            self.shared.carrier.set_driver(cx.waker());
        }
        let end = ready!(self.poll_end(cx));
        self.shared.end(end);
        self.transport.say_goodbye();
        Poll::Ready(())
    }

    /// Drives the connection to its end.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.shared.stage.get() != Stage::Open
            && let Err(failure) = ready!(self.poll_open(cx))
        {
            return Poll::Ready(End::Unopened(failure));
        }
        for _ in 0..READS {
            self.write(cx);
            if self.shared.sending.output.borrow().bytes().len() >= UNREAD_AT && self.broken.is_none() {
                return self.poll_idle(cx);
            }
            match self.transport.poll_read_into(cx, &mut self.input, READ) {
                Poll::Pending => return self.poll_idle(cx),
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(read) => {
                    return Poll::Ready(match (self.broken.take(), read) {
                        (Some(error), _) => End::Sending(Rc::new(error)),
                        (None, Ok(_)) => End::Closed,
                        (None, Err(error)) => End::Receiving(Rc::new(error)),
                    });
                }
            }
            self.shared.usage.reads.set(self.shared.usage.reads.get() + 1);
            self.shared.usage.is_untried.set(false);
            let mut read = Ok(());
            self.shared.append(|carrier, out| read = carrier.read(&mut self.input, out));
            self.input.release();
            self.shared.wake_waiting();
            if read.is_err() {
                self.write(cx);
                return Poll::Ready(End::Closed);
            }
        }
        // The socket may hold more bytes. Events are edge-triggered, so no further event would announce them.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits for the connection and its handshake. Requests limit the time, each for itself.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Shared { stage, usage: Usage { users, .. }, .. } = &*self.shared;
        if users.get() == 0 {
            return Poll::Ready(Err(Failure::timed_out(CONNECTING)));
        }
        if stage.get() == Stage::Connecting {
            let connected = ready!(self.transport.poll_connected(cx));
            if let Err(error) = connected {
                return Poll::Ready(Err(Failure::io("connect", &error, CONNECTING)));
            }
            stage.set(Stage::Handshaking);
        }
        if let Err(error) = ready!(self.transport.poll_handshake(cx)) {
            return Poll::Ready(Err(Failure::handshake(&error)));
        }
        stage.set(Stage::Open);
        self.shared.wake_waiting();
        Poll::Ready(Ok(()))
    }

    /// Writes as much as the server takes. What it said before its connection broke is still read.
    fn write(&mut self, cx: &mut Context<'_>) {
        let Shared { sending, carrier, .. } = &*self.shared;
        let Sending { output, held, written, left, appended, wants_room } = sending;
        self.shared.append(|carrier, out| carrier.append_pending(out));
        let mut output = output.borrow_mut();
        while !output.is_empty() && self.broken.is_none() {
            match self.transport.poll_write(cx, output.bytes()) {
                Poll::Ready(Ok(count)) => {
                    output.consume(count);
                    written.set(written.get() + count as u64);
                }
                Poll::Ready(Err(error)) => {
                    self.broken = Some(error);
                    self.shared.usage.is_unwanted.set(true);
                }
                Poll::Pending => break,
            }
        }
        left.set(if self.transport.is_sending() { appended.get() } else { written.get() });
        output.release();
        held.borrow_mut().set(output.capacity());
        let has_room = output.bytes().len() < PIECE;
        drop(output);
        if has_room && wants_room.replace(false) {
            carrier.wake_all();
        }
    }

    /// Ready when no request needs the connection any more.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.shared.usage.users.get() > 0 {
            self.patience.clear();
            return Poll::Pending;
        }
        if self.shared.is_spent() {
            return Poll::Ready(End::Closed);
        }
        self.patience.poll(cx, Wait::Read, self.shared.keepalive.timeout).map(|_| End::Closed)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end(End::Closed);
    }
}

//! The sessions of datagrams of a thread: which session a datagram belongs to, what waits in each, and which one ends when
//! there are too many.
//!
//! A source address of UDP is easily forged, so everything that a datagram takes is limited. A flood of forged addresses
//! leaves sessions that are never answered: the oldest one of these ends first. When the clients of one network have half of
//! the places of a thread, a further session takes the place of an unanswered one of the same network.

use crate::datagram_routes::{Ends, Routes};
use contract::hash::KeyedMap;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// The bytes that may wait in one session. Further datagrams are dropped, as by a full socket.
const SESSION_BYTES: usize = 256 * 1024;

/// The bytes that may wait in all sessions of a thread.
const THREAD_BYTES: usize = 16 * 1024 * 1024;

/// The bits of an address that say its network.
const IPV4_NETWORK_BITS: u32 = 24;
const IPV6_NETWORK_BITS: u32 = 56;

impl Ends {
    /// The network of the client.
    fn network(&self) -> u128 {
        let keep = |bits: u128, width: u32, kept: u32| bits >> (width - kept) << (width - kept);
        match self.client.ip().to_canonical() {
            IpAddr::V4(ip) => keep(u32::from(ip).into(), 32, IPV4_NETWORK_BITS),
            IpAddr::V6(ip) => keep(u128::from(ip), 128, IPV6_NETWORK_BITS),
        }
    }
}

/// The sessions of a thread.
#[derive(Default)]
pub(crate) struct Sessions {
    /// The session that further datagrams of a client belong to.
    open: RefCell<KeyedMap<Ends, Rc<Inbox>>>,
    /// How many sessions the clients of a network have that were not evicted.
    networks: RefCell<KeyedMap<u128, usize>>,
    /// All sessions, the oldest first; some of them have ended or were answered.
    unanswered: RefCell<VecDeque<Weak<Inbox>>>,
    /// The bytes that wait in all sessions.
    bytes: Cell<usize>,
    /// How datagrams get here that other threads or processes read.
    pub(crate) routes: Arc<Routes>,
    /// The number of the thread.
    pub(crate) thread: usize,
    /// Whether the thread reads its sockets of datagrams.
    reads: Cell<bool>,
    /// Wakes the tasks that would read.
    resumed: Notify,
}

/// What a client sent in one session and the session did not take yet.
pub(crate) struct Inbox {
    pub(crate) ends: Ends,
    sessions: Rc<Sessions>,
    queue: RefCell<VecDeque<Box<[u8]>>>,
    bytes: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    /// How many datagrams of the client still belong to the session; `None` is any number.
    left: Cell<Option<u64>>,
    is_answered: Cell<bool>,
    is_evicted: Cell<bool>,
}

/// Whether a datagram has a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// It is in the inbox of its session, or was dropped because too much waits there.
    Taken,
    /// It begins a session.
    First,
}

impl Sessions {
    /// The sessions of the thread with this number.
    pub(crate) fn new(routes: &Arc<Routes>, thread: usize) -> Rc<Sessions> {
        let reads = Cell::new(routes.reads());
        Rc::new(Sessions { routes: Arc::clone(routes), thread, reads, ..Sessions::default() })
    }

    /// Whether the thread reads its sockets of datagrams.
    pub(crate) fn reads(&self) -> bool {
        self.reads.get()
    }

    pub(crate) fn set_reads(&self, reads: bool) {
        self.reads.set(reads);
        if reads {
            self.resumed.notify_waiters();
        }
    }

    /// Waits until the thread reads its sockets of datagrams again.
    pub(crate) async fn until_reading(&self) {
        while !self.reads.get() {
            self.resumed.notified().await;
        }
    }

    /// Gives a datagram to its session, if it has one.
    pub(crate) fn deliver(&self, ends: &Ends, payload: &[u8]) -> Delivered {
        let Some(inbox) = self.open.borrow().get(ends).cloned() else { return Delivered::First };
        inbox.push(payload);
        Delivered::Taken
    }

    /// Opens a session with its first datagram. At most `requests` datagrams of the client belong to it; 0 is any number.
    pub(crate) fn open(self: &Rc<Sessions>, ends: Ends, requests: u64, payload: &[u8]) -> Rc<Inbox> {
        let inbox = Rc::new(Inbox {
            ends,
            sessions: Rc::clone(self),
            queue: RefCell::default(),
            bytes: Cell::new(0),
            waker: RefCell::default(),
            left: Cell::new((requests > 0).then_some(requests)),
            is_answered: Cell::new(false),
            is_evicted: Cell::new(false),
        });
        self.open.borrow_mut().insert(ends, Rc::clone(&inbox));
        self.routes.opened(ends, self.thread);
        *self.networks.borrow_mut().entry(ends.network()).or_default() += 1;
        let mut unanswered = self.unanswered.borrow_mut();
        // The list has each session that is there, so that it is never much longer than there are sessions.
        if unanswered.len() >= 2 * self.open.borrow().len() + 64 {
            unanswered.retain(|session| session.upgrade().is_some_and(|inbox| !inbox.is_answered.get()));
        }
        unanswered.push_back(Rc::downgrade(&inbox));
        drop(unanswered);
        inbox.push(payload);
        inbox
    }

    /// Whether the network of a client has half of the places already.
    pub(crate) fn is_crowded(&self, ends: &Ends, places: usize) -> bool {
        let count = self.networks.borrow().get(&ends.network()).copied().unwrap_or(0);
        count >= (places / 2).max(1)
    }

    /// Ends the oldest unanswered session, of the network of this client if one is given. Returns whether there was one.
    pub(crate) fn evict(&self, of: Option<&Ends>) -> bool {
        let network = of.map(Ends::network);
        let mut unanswered = self.unanswered.borrow_mut();
        let mut place = 0;
        while let Some(session) = unanswered.get(place) {
            let inbox = session.upgrade().filter(|inbox| !inbox.is_answered.get() && !inbox.is_evicted.get());
            let Some(inbox) = inbox else {
                unanswered.remove(place);
                continue;
            };
            if network.is_some_and(|network| network != inbox.ends.network()) {
                place += 1;
                continue;
            }
            unanswered.remove(place);
            drop(unanswered);
            inbox.evict();
            return true;
        }
        false
    }
}

impl Inbox {
    /// Appends a datagram. The last one that belongs to the session lets the next one begin another session.
    fn push(&self, payload: &[u8]) {
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.saturating_sub(1)));
            if left <= 1 {
                self.close();
            }
        }
        let (own, all) = (self.bytes.get() + payload.len(), self.sessions.bytes.get() + payload.len());
        let is_full = own > SESSION_BYTES || all > THREAD_BYTES;
        // Empty datagrams take memory, too.
        if is_full || self.queue.borrow().len() > SESSION_BYTES / 64 {
            return;
        }
        self.bytes.set(own);
        self.sessions.bytes.set(all);
        self.queue.borrow_mut().push_back(payload.into());
        self.wake();
    }

    /// Takes the next datagram. The task of the last call is woken.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Box<[u8]>> {
        let Some(payload) = self.queue.borrow_mut().pop_front() else {
            self.wait(cx);
            return Poll::Pending;
        };
        self.bytes.set(self.bytes.get() - payload.len());
        self.sessions.bytes.set(self.sessions.bytes.get() - payload.len());
        Poll::Ready(payload)
    }

    /// The bytes that wait.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.get()
    }

    /// Whether the session ends because its place is needed. The task of the last call is woken.
    pub(crate) fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_evicted.get() {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    /// Notes that the client was answered.
    pub(crate) fn answered(&self) {
        self.is_answered.set(true);
    }

    /// The next datagram of the client begins another session.
    pub(crate) fn close(&self) {
        let mut open = self.sessions.open.borrow_mut();
        if open.get(&self.ends).is_some_and(|inbox| std::ptr::eq(&raw const **inbox, self)) {
            let closed = open.remove(&self.ends);
            self.sessions.routes.closed(&self.ends, self.sessions.thread);
            // Dropping it may borrow the sessions.
            drop(open);
            drop(closed);
        }
    }

    fn evict(&self) {
        self.is_evicted.set(true);
        self.leave_network();
        self.close();
        self.wake();
    }

    fn leave_network(&self) {
        let mut networks = self.sessions.networks.borrow_mut();
        let network = self.ends.network();
        let left = networks.get_mut(&network).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            networks.remove(&network);
        }
    }

    fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        let waker = self.waker.borrow().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.sessions.bytes.set(self.sessions.bytes.get() - self.bytes.get());
        // A session that was evicted does not count any more, so that the next one evicts no second.
        if !self.is_evicted.get() {
            self.leave_network();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivered, Ends, SESSION_BYTES, Sessions, THREAD_BYTES};
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    fn ends(client: &str) -> Ends {
        Ends { client: client.parse().unwrap(), server: "192.0.2.1:53".parse().unwrap() }
    }

    fn taken(inbox: &super::Inbox) -> Option<Vec<u8>> {
        match inbox.poll_take(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(payload) => Some(payload.into()),
            Poll::Pending => None,
        }
    }

    fn is_evicted(inbox: &super::Inbox) -> bool {
        inbox.poll_evicted(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn datagrams_belong_to_a_session_until_it_has_enough() {
        let sessions = Rc::new(Sessions::default());
        let client = ends("198.51.100.1:1000");
        assert_eq!(sessions.deliver(&client, b"1"), Delivered::First);
        let first = sessions.open(client, 3, b"1");
        assert_eq!(sessions.deliver(&client, b""), Delivered::Taken);
        assert_eq!(sessions.deliver(&ends("198.51.100.1:1001"), b"x"), Delivered::First);
        assert_eq!(sessions.deliver(&client, b"3"), Delivered::Taken);
        assert_eq!(sessions.deliver(&client, b"4"), Delivered::First, "three are enough");
        let second = sessions.open(client, 0, b"4");
        let all = [taken(&first), taken(&first), taken(&first), taken(&first)];
        assert_eq!(all, [Some(b"1".to_vec()), Some(Vec::new()), Some(b"3".to_vec()), None]);
        drop(first);
        assert_eq!(
            sessions.deliver(&client, b"5"),
            Delivered::Taken,
            "the first one does not close the second"
        );
        second.close();
        assert_eq!(sessions.deliver(&client, b"6"), Delivered::First);
    }

    #[test]
    fn what_waits_is_bounded() {
        let sessions = Rc::new(Sessions::default());
        let payload = vec![0; 60_000];
        let fill = |port: usize| {
            let client = ends(&format!("198.51.100.1:{port}"));
            let inbox = sessions.open(client, 0, &payload);
            for _ in 0..10 {
                sessions.deliver(&client, &payload);
            }
            inbox
        };
        let inboxes: Vec<_> = (1..200).map(fill).collect();
        assert!(inboxes.iter().all(|inbox| inbox.memory() <= SESSION_BYTES));
        assert!(sessions.bytes.get() <= THREAD_BYTES && sessions.bytes.get() > THREAD_BYTES - payload.len());
        inboxes.iter().for_each(|inbox| inbox.close());
        drop(inboxes);
        assert_eq!((sessions.bytes.get(), sessions.networks.borrow().len()), (0, 0));
        let client = ends("198.51.100.1:1");
        let inbox = sessions.open(client, 0, b"");
        for _ in 0..10_000 {
            sessions.deliver(&client, b"");
        }
        assert!(std::iter::from_fn(|| taken(&inbox)).count() < 5_000, "empty datagrams count, too");
    }

    #[test]
    fn the_oldest_unanswered_session_ends_first() {
        let sessions = Rc::new(Sessions::default());
        let clients =
            ["198.51.100.1:1", "198.51.100.2:1", "[2001:db8::1]:1", "198.51.100.3:1", "203.0.113.1:1"];
        let all = clients.map(|client| sessions.open(ends(client), 0, b""));
        all[0].answered();
        assert!(
            sessions.is_crowded(&ends("198.51.100.9:9"), 6)
                && !sessions.is_crowded(&ends("203.0.113.9:9"), 6)
        );
        assert!(sessions.evict(Some(&ends("203.0.113.200:7"))));
        assert!(!sessions.evict(Some(&ends("203.0.113.200:7"))));
        assert!(sessions.evict(None) && sessions.evict(None));
        let evicted: Vec<bool> = all.iter().map(|inbox| is_evicted(inbox)).collect();
        assert_eq!(evicted, [false, true, true, false, true]);
        assert_eq!(sessions.deliver(&ends(clients[1]), b"again"), Delivered::First);
        drop(all);
        assert!(sessions.evict(None), "198.51.100.3 is open");
        assert!(!sessions.evict(None), "an answered session stays");
        assert_eq!(sessions.open.borrow().len(), 1);
    }

    #[test]
    fn networks_are_prefixes() {
        let network = |client: &str| ends(client).network();
        assert_eq!(network("198.51.100.1:1"), network("198.51.100.255:2"));
        assert_ne!(network("198.51.100.1:1"), network("198.51.101.1:1"));
        assert_eq!(network("198.51.100.1:1"), network("[::ffff:198.51.100.7]:1"));
        assert_eq!(network("[2001:db8:0:1::1]:1"), network("[2001:db8:0:2::1]:1"));
        assert_ne!(network("[2001:db8:0:100::1]:1"), network("[2001:db8:0:200::1]:1"));
    }
}

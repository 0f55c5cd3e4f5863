//! How a datagram gets to its session if another thread or process read it.
//!
//! As a rule the kernel gives all datagrams of a client to one socket, and one thread reads that socket. There are two
//! exceptions. A thread reads the sockets of another one that stands still. And after an upgrade, or if a new worker replaces
//! another one, two processes have the same sockets: the newer one reads them, and the older one keeps its sessions until
//! they end. So workers form a chain, from the newest to the oldest, with a [`DatagramLink`] between neighbours:
//!
//! - A datagram of a session of this process goes to the mailbox of the session's thread.
//! - Any other one goes to the older worker, which does the same, and returns what no worker before it has a session for.
//! - What comes back, or is asked of no one, begins a session at the thread that read it.
//!
//! A worker ends after all older ones, because they receive through it.

use contract::hash::KeyedMap;
use net::{AsyncDatagramLink, LinkMessage, StrayDatagram};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The bytes of datagrams that may wait in the mailbox of a thread. Further ones are dropped, as by a full socket.
const MAILBOX_BYTES: usize = 4 * 1024 * 1024;

/// What a waiting datagram takes besides its payload.
const LETTER_BYTES: usize = size_of::<Letter>();

/// Both ends of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) client: SocketAddr,
    /// The address and port that the client asked.
    pub(crate) server: SocketAddr,
}

impl Ends {
    pub(crate) fn of(datagram: &StrayDatagram) -> Ends {
        Ends { client: datagram.client, server: datagram.server }
    }
}

/// A datagram for a thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) datagram: StrayDatagram,
    /// Whether it begins a session if it belongs to none: all workers were asked.
    pub(crate) begins: bool,
}

/// The ways of datagrams between the threads of a worker, and to its neighbours.
#[derive(Default)]
pub(crate) struct Routes {
    /// The thread that has a session.
    owners: Mutex<KeyedMap<Ends, usize>>,
    mailboxes: Vec<Mailbox>,
    /// The worker that had the sockets before.
    older: Neighbour,
    /// The worker that reads the sockets in place of this one.
    newer: Neighbour,
    /// Whether the threads of this worker read the sockets.
    reads: AtomicBool,
    /// Whether this worker ends before the older one, which begins all further sessions.
    has_released: AtomicBool,
}

#[derive(Default)]
struct Mailbox {
    letters: Mutex<Letters>,
    bell: Notify,
}

#[derive(Default)]
struct Letters {
    queue: VecDeque<Letter>,
    bytes: usize,
}

/// The line to another worker, as long as that worker lives.
#[derive(Default)]
struct Neighbour {
    link: Mutex<Option<Arc<AsyncDatagramLink>>>,
    /// Whether there is one, for a look without a lock.
    is_there: AtomicBool,
}

impl Neighbour {
    fn set(&self, link: &Arc<AsyncDatagramLink>) {
        let mut own = locked(&self.link);
        self.is_there.store(true, Ordering::Relaxed);
        *own = Some(Arc::clone(link));
    }

    /// Forgets the line to this worker. Returns whether it was still the neighbour.
    fn forget(&self, link: &Arc<AsyncDatagramLink>) -> bool {
        let mut own = locked(&self.link);
        let is_own = own.as_ref().is_some_and(|own| Arc::ptr_eq(own, link));
        if is_own {
            self.is_there.store(false, Ordering::Relaxed);
            *own = None;
        }
        is_own
    }

    fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Sends a message. Gives its datagram back if there is no such worker. One for which the line has no room is lost.
    fn send(&self, message: LinkMessage) -> Option<StrayDatagram> {
        let link = if self.is_there() { locked(&self.link).clone() } else { None };
        let is_gone = |error: std::io::Error| error.kind() != std::io::ErrorKind::WouldBlock;
        let is_sent = link.is_some_and(|link| !link.send(&message).is_err_and(is_gone));
        match message {
            LinkMessage::Asks(datagram) | LinkMessage::Returns(datagram) => {
                Some(datagram).filter(|_| !is_sent)
            }
            _ => None,
        }
    }
}

impl Routes {
    /// The ways of a worker with so many threads. One that reads from its start has no older neighbour to ask first.
    pub(crate) fn new(threads: usize, reads: bool) -> Arc<Routes> {
        let mailboxes = (0..threads).map(|_| Mailbox::default()).collect();
        Arc::new(Routes { mailboxes, reads: AtomicBool::new(reads), ..Routes::default() })
    }

    /// Whether the threads of this worker read the sockets.
    pub(crate) fn reads(&self) -> bool {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reads(&self, reads: bool) {
        self.reads.store(reads, Ordering::Relaxed);
    }

    /// Whether a newer worker passes on the datagrams of sessions of this one.
    pub(crate) fn is_fed(&self) -> bool {
        self.newer.is_there()
    }

    /// Whether older workers receive through this one.
    pub(crate) fn feeds(&self) -> bool {
        self.older.is_there() && !self.has_released.load(Ordering::Relaxed)
    }

    pub(crate) fn set_older(&self, link: &Arc<AsyncDatagramLink>) {
        self.older.set(link);
    }

    pub(crate) fn set_newer(&self, link: &Arc<AsyncDatagramLink>) {
        self.newer.set(link);
    }

    /// The older worker is gone.
    pub(crate) fn forget_older(&self, link: &Arc<AsyncDatagramLink>) {
        self.older.forget(link);
    }

    /// The newer worker is gone, or reads no more. Returns whether it was the neighbour until now. The threads look at their
    /// sessions, which are passed no more datagrams.
    pub(crate) fn forget_newer(&self, link: &Arc<AsyncDatagramLink>) -> bool {
        let is_own = self.newer.forget(link);
        self.mailboxes.iter().for_each(|mailbox| mailbox.bell.notify_one());
        is_own
    }

    /// The line to the older worker, if that is to read again when this one ends: there is no newer one.
    pub(crate) fn heir(&self) -> Option<Arc<AsyncDatagramLink>> {
        locked(&self.older.link).clone().filter(|_| !self.is_fed())
    }

    /// The older worker was told to read again.
    pub(crate) fn released(&self) {
        self.has_released.store(true, Ordering::Relaxed);
    }

    /// All threads have ended: no neighbour can send more. What is on the way goes where it belongs, and then the lines end.
    pub(crate) fn stop_receiving(&self) {
        for neighbour in [&self.older, &self.newer] {
            locked(&neighbour.link).iter().for_each(|link| link.stop_receiving());
        }
    }

    /// Whether any line is still there.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.older.is_there() || self.newer.is_there()
    }

    /// Passes on what waits for threads that have ended.
    pub(crate) fn empty_mailboxes(&self) {
        for thread in 0..self.mailboxes.len() {
            while let Some(Letter { datagram, .. }) = self.letter(thread) {
                self.search_on(datagram);
            }
        }
    }

    /// A thread has a session from now on.
    pub(crate) fn opened(&self, ends: Ends, thread: usize) {
        locked(&self.owners).insert(ends, thread);
    }

    /// A thread has that session no more.
    pub(crate) fn closed(&self, ends: &Ends, thread: usize) {
        let mut owners = locked(&self.owners);
        if owners.get(ends) == Some(&thread) {
            owners.remove(ends);
        }
    }

    /// Passes a datagram on for which `thread` has no session. Gives it back if it begins one there.
    pub(crate) fn pass_on(&self, datagram: StrayDatagram, thread: usize) -> Option<StrayDatagram> {
        match self.owner(&datagram).filter(|owner| *owner != thread) {
            Some(owner) => {
                self.post(owner, Letter { datagram, begins: false });
                None
            }
            None => self.ask_older(datagram),
        }
    }

    /// A newer worker asks, or a thread of this one has the session no more.
    pub(crate) fn asked(&self, datagram: StrayDatagram) {
        match self.owner(&datagram) {
            Some(owner) => self.post(owner, Letter { datagram, begins: false }),
            None => self.search_on(datagram),
        }
    }

    /// No thread of this worker has a session for a datagram.
    pub(crate) fn search_on(&self, datagram: StrayDatagram) {
        if let Some(datagram) = self.ask_older(datagram) {
            self.returned(datagram);
        }
    }

    /// No worker has a session for a datagram: the thread that read it begins one.
    pub(crate) fn returned(&self, datagram: StrayDatagram) {
        let message = LinkMessage::Returns(datagram);
        let has_released = self.has_released.load(Ordering::Relaxed);
        let reader = if has_released { &self.older } else { &self.newer };
        if let Some(datagram) = reader.send(message) {
            self.begin(datagram);
        }
    }

    /// A datagram begins a session, but the threads of this worker begin none any more: another worker does, if one reads.
    pub(crate) fn begin_elsewhere(&self, datagram: StrayDatagram) {
        if self.has_released.load(Ordering::Relaxed) || self.is_fed() {
            self.returned(datagram);
        }
    }

    /// A datagram begins a session here.
    pub(crate) fn begin(&self, datagram: StrayDatagram) {
        let thread = usize::from(datagram.thread) % self.mailboxes.len().max(1);
        self.post(thread, Letter { datagram, begins: true });
    }

    /// Waits until a thread has mail, or the newer worker is gone.
    pub(crate) async fn has_mail(&self, thread: usize) {
        match self.mailboxes.get(thread) {
            Some(mailbox) => mailbox.bell.notified().await,
            None => std::future::pending().await,
        }
    }

    /// The next letter for a thread.
    pub(crate) fn letter(&self, thread: usize) -> Option<Letter> {
        let mut letters = locked(&self.mailboxes.get(thread)?.letters);
        let letter = letters.queue.pop_front()?;
        letters.bytes -= letter.datagram.payload.len() + LETTER_BYTES;
        Some(letter)
    }

    fn owner(&self, datagram: &StrayDatagram) -> Option<usize> {
        locked(&self.owners).get(&Ends::of(datagram)).copied()
    }

    fn ask_older(&self, datagram: StrayDatagram) -> Option<StrayDatagram> {
        if !self.feeds() {
            return Some(datagram);
        }
        self.older.send(LinkMessage::Asks(datagram))
    }

    fn post(&self, thread: usize, letter: Letter) {
        let Some(mailbox) = self.mailboxes.get(thread) else { return };
        let mut letters = locked(&mailbox.letters);
        let bytes = letters.bytes + letter.datagram.payload.len() + LETTER_BYTES;
        if bytes <= MAILBOX_BYTES {
            letters.bytes = bytes;
            letters.queue.push_back(letter);
            drop(letters);
            mailbox.bell.notify_one();
        }
    }
}

/// What a panic left is whole: each change is one call.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Ends, LETTER_BYTES, Letter, MAILBOX_BYTES, Routes};
    use crate::event_loop::runtime;
    use net::{AsyncDatagramLink, DatagramLink, Ecn, LinkMessage, StrayDatagram};
    use std::sync::Arc;

    fn stray(port: u16, payload: &[u8]) -> StrayDatagram {
        let server = "192.0.2.1:53".parse().unwrap();
        let client = ([198, 51, 100, 1], port).into();
        StrayDatagram { bound: server, client, server, ecn: Ecn::Unable, thread: 1, payload: payload.into() }
    }

    fn lines() -> (Arc<AsyncDatagramLink>, Arc<AsyncDatagramLink>) {
        let (one, other) = DatagramLink::pair().unwrap();
        (Arc::new(one.into_tokio().unwrap()), Arc::new(other.into_tokio().unwrap()))
    }

    async fn next(link: &AsyncDatagramLink) -> LinkMessage {
        link.receive(&mut Vec::new()).await.unwrap().unwrap()
    }

    #[test]
    fn a_datagram_goes_to_the_thread_of_its_session() {
        let routes = Routes::new(2, true);
        let (known, unknown) = (stray(1, b"known"), stray(2, b"unknown"));
        routes.opened(Ends::of(&known), 0);
        assert_eq!(routes.pass_on(known.clone(), 1), None);
        assert_eq!(routes.letter(0), Some(Letter { datagram: known.clone(), begins: false }));
        assert_eq!(routes.pass_on(unknown.clone(), 1), Some(unknown));
        routes.closed(&Ends::of(&known), 1);
        assert_eq!(routes.pass_on(known.clone(), 1), None, "another thread closes its own session only");
        routes.closed(&Ends::of(&known), 0);
        assert_eq!(routes.pass_on(known.clone(), 1), Some(known));
    }

    /// Three workers: the oldest has a session, the newest reads.
    #[test]
    fn a_chain_of_workers_finds_a_session_or_begins_it() {
        runtime(None).unwrap().block_on(async {
            let [oldest, middle, newest] =
                [Routes::new(1, false), Routes::new(1, false), Routes::new(2, true)];
            let (to_oldest, from_middle) = lines();
            let (to_middle, from_newest) = lines();
            oldest.set_newer(&from_middle);
            middle.set_older(&to_oldest);
            middle.set_newer(&from_newest);
            newest.set_older(&to_middle);
            let (known, unknown) = (stray(1, b"known"), stray(2, b"unknown"));
            oldest.opened(Ends::of(&known), 0);
            for datagram in [known.clone(), unknown.clone()] {
                assert_eq!(newest.pass_on(datagram, 1), None);
                let LinkMessage::Asks(datagram) = next(&from_newest).await else { panic!("not asked") };
                middle.asked(datagram);
                let LinkMessage::Asks(datagram) = next(&from_middle).await else { panic!("not asked") };
                oldest.asked(datagram);
            }
            assert_eq!(oldest.letter(0), Some(Letter { datagram: known, begins: false }));
            assert_eq!(oldest.letter(0), None);
            let LinkMessage::Returns(datagram) = next(&to_oldest).await else { panic!("not returned") };
            middle.returned(datagram);
            let LinkMessage::Returns(datagram) = next(&to_middle).await else { panic!("not returned") };
            newest.returned(datagram);
            assert_eq!(newest.letter(1), Some(Letter { datagram: unknown, begins: true }));
        });
    }

    #[test]
    fn a_worker_whose_neighbour_is_gone_serves_by_itself() {
        runtime(None).unwrap().block_on(async {
            let routes = Routes::new(2, true);
            let (to_older, gone) = lines();
            routes.set_older(&to_older);
            drop(gone);
            let datagram = stray(1, b"x");
            assert_eq!(routes.pass_on(datagram.clone(), 0), Some(datagram));
        });
    }

    /// A datagram that came back to a worker that leaves goes to the one that reads.
    #[test]
    fn a_worker_that_leaves_begins_no_session() {
        runtime(None).unwrap().block_on(async {
            let routes = Routes::new(1, false);
            let datagram = stray(1, b"x");
            routes.begin_elsewhere(datagram.clone());
            assert_eq!(routes.letter(0), None, "no worker reads");
            let (to_newer, newer) = lines();
            routes.set_newer(&to_newer);
            routes.begin_elsewhere(datagram.clone());
            assert_eq!(next(&newer).await, LinkMessage::Returns(datagram));
        });
    }

    #[test]
    fn a_mailbox_is_bounded() {
        let routes = Routes::new(1, true);
        let datagram = stray(1, &[0; 1000]);
        routes.opened(Ends::of(&datagram), 0);
        (0..10_000).for_each(|_| routes.asked(datagram.clone()));
        let count = std::iter::from_fn(|| routes.letter(0)).count();
        assert_eq!(count, MAILBOX_BYTES / (1000 + LETTER_BYTES));
        routes.asked(datagram);
        assert!(routes.letter(0).is_some());
    }
}

//! Idle connections of a thread, kept for its next requests. One that the other server closes, or that says
//! anything unasked, is closed at once.

use crate::group::Group;
use net::{SocketAddress, Stream};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, spawn_local};

/// A connection between two requests.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) stream: Stream,
    /// How many requests it had.
    pub(crate) requests: u64,
    pub(crate) opened: Instant,
}

struct Idle {
    address: SocketAddress,
    /// Who opened it.
    tag: usize,
    slot: Slot,
    watcher: AbortHandle,
}

type Slot = Rc<RefCell<Option<Parked>>>;

thread_local! {
    /// The idle connections of each group; the one that was used last comes last.
    static IDLE: RefCell<HashMap<u64, VecDeque<Idle>>> = RefCell::new(HashMap::new());
}

/// An idle connection to an address.
pub(crate) fn take(group: &Group, tag: usize, address: &SocketAddress) -> Option<Parked> {
    let fits = |idle: &Idle| idle.address == *address && (!group.keepalive.local || idle.tag == tag);
    loop {
        let idle = IDLE.with_borrow_mut(|groups| {
            let queue = groups.get_mut(&group.members.id)?;
            let index = queue.iter().rposition(fits)?;
            queue.remove(index)
        })?;
        idle.watcher.abort();
        let parked = idle.slot.borrow_mut().take();
        if let Some(mut parked) = parked
            && is_silent(&mut parked.stream)
        {
            return Some(parked);
        }
    }
}

/// Keeps a connection; the one that was idle for the longest time gives way.
pub(crate) fn put(group: &Group, tag: usize, address: SocketAddress, parked: Parked) {
    let slot: Slot = Rc::new(RefCell::new(Some(parked)));
    let watcher =
        spawn_local(watch(group.members.id, Rc::clone(&slot), group.keepalive.timeout)).abort_handle();
    let limit = group.keepalive.connections;
    IDLE.with_borrow_mut(|groups| {
        let queue = groups.entry(group.members.id).or_default();
        while queue.len() >= limit {
            if let Some(oldest) = queue.pop_front() {
                oldest.watcher.abort();
            }
        }
        queue.push_back(Idle { address, tag, slot, watcher });
    });
}

fn is_silent(stream: &mut Stream) -> bool {
    stream.poll_peek(&mut Context::from_waker(Waker::noop()), &mut [0]).is_pending()
}

/// Closes a connection when its time is over or something comes.
async fn watch(group: u64, slot: Slot, limit: Duration) {
    let stirs = poll_fn(|cx| match slot.borrow_mut().as_mut() {
        Some(parked) => parked.stream.poll_peek(cx, &mut [0]).map(|_| ()),
        None => Poll::Ready(()),
    });
    drop(tokio::time::timeout(limit, stirs).await);
    IDLE.with_borrow_mut(|groups| {
        if let Some(queue) = groups.get_mut(&group) {
            queue.retain(|idle| !Rc::ptr_eq(&idle.slot, &slot));
        }
    });
    slot.borrow_mut().take();
}

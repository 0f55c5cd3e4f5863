//! Idle connections of a thread, kept for its next requests. A connection that the upstream server closes, or that says
//! anything unasked, is closed at once.

use crate::balance::Lease;
use crate::call::Call;
use crate::peer_state::Counted;
use crate::secured::Secured;
use contract::hash::KeyedMap;
use journal::clock::Time;
use net::SocketAddress;
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::task::spawn_local;
use wire::Transport;

/// A connection between two requests.
pub(crate) struct Parked {
    pub(crate) transport: Transport,
    /// The type of the dialogue that it serves.
    protocol: TypeId,
    /// How it is encrypted, if it is.
    secured: Option<Secured>,
    /// The address that it comes from, if that was set.
    local: Option<SocketAddr>,
    /// The header of the PROXY protocol that it began with: it serves requests of that client only.
    preface: Box<[u8]>,
    /// How many requests it had.
    pub(crate) requests: u64,
    /// When it was opened, in milliseconds of uptime.
    pub(crate) opened_ms: u64,
    /// It is counted while it is open.
    #[expect(dead_code, reason = "it counts as long as it is there")]
    counted: Counted,
    /// The address that it leads to.
    address: SocketAddress,
    /// Identifies the settings under which it was used last.
    tag: usize,
    /// When it has been idle for too long.
    expires: Instant,
}

impl Parked {
    /// A connection that was opened for a request and had none yet.
    pub(crate) fn new(transport: Transport, lease: &Lease, call: &Call) -> Box<Parked> {
        let now = Time::now();
        Box::new(Parked {
            transport,
            protocol: call.protocol,
            secured: call.secured.clone(),
            local: call.local,
            preface: call.preface.as_slice().into(),
            requests: 0,
            opened_ms: now.uptime_ms,
            counted: lease.count_connection(),
            address: lease.server().peer.address.clone(),
            tag: call.tag,
            expires: now.instant,
        })
    }

    /// Whether a request can use this connection, which was opened for another one.
    fn can_serve(&self, call: &Call) -> bool {
        let comes_from = (self.local, &*self.preface);
        self.protocol == call.protocol
            && self.secured == call.secured
            && comes_from == (call.local, &*call.preface)
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

#[derive(Default)]
struct Pool {
    /// The idle connections of each group; the one that was used last comes last.
    groups: KeyedMap<u64, VecDeque<Box<Parked>>>,
    /// The task that closes connections whose time is over, or that the upstream server closes, while it runs.
    keeper: Option<Waker>,
}

/// An idle connection to a server that can serve a request: over TLS with the same settings and name if it needs that.
pub(crate) fn take(lease: &Lease, call: &Call) -> Option<Box<Parked>> {
    let (group, address) = (lease.group(), &lease.server().peer.address);
    let fits = |parked: &Parked| {
        let is_shared = !group.keepalive.local || parked.tag == call.tag;
        parked.address == *address && is_shared && parked.can_serve(call)
    };
    POOL.with_borrow_mut(|pool| {
        let queue = pool.groups.get_mut(&group.live.peers.id)?;
        loop {
            // The last one fits most often.
            let mut parked = match queue.back().is_some_and(|last| fits(last)) {
                true => queue.pop_back()?,
                false => queue.remove(queue.iter().rposition(|parked| fits(parked))?)?,
            };
            // Whatever arrived since the last response would be taken for the next one.
            if parked.transport.is_silent() {
                return Some(parked);
            }
        }
    })
}

/// Keeps a connection to a server; where there are too many, the one that was idle for the longest time is closed.
pub(crate) fn put(lease: &Lease, tag: usize, mut parked: Box<Parked>) {
    let group = lease.group();
    (parked.tag, parked.expires) = (tag, Time::now().instant + group.keepalive.timeout);
    let starts = POOL.with_borrow_mut(|pool| {
        let watched = pool.keeper.as_ref().map(|keeper| {
            let mut cx = Context::from_waker(keeper);
            parked.transport.poll_stirred(&mut cx).is_pending()
        });
        if watched == Some(false) {
            return false;
        }
        let queue = pool.groups.entry(group.live.peers.id).or_default();
        while queue.len() >= group.keepalive.connections {
            if let Some(mut oldest) = queue.pop_front() {
                oldest.transport.say_goodbye();
            }
        }
        queue.push_back(parked);
        watched.is_none()
    });
    if starts {
        spawn_local(keep());
    }
}

/// Closes connections whose time is over, or that stir, until none is left.
async fn keep() {
    let _keeper = Keeper;
    while let Some(next) = poll_fn(|cx| Poll::Ready(POOL.with_borrow_mut(|pool| pool.sweep(cx)))).await {
        let mut sleep = std::pin::pin!(tokio::time::sleep_until(next.into()));
        let mut is_first = true;
        // Woken by a connection or by the clock, it looks at all of them.
        poll_fn(|cx| match std::mem::replace(&mut is_first, false) {
            true => sleep.as_mut().poll(cx),
            false => Poll::Ready(()),
        })
        .await;
    }
}

/// Ends with the task of [`keep`], also where the thread ends it. Connections do not outlive the event loop.
struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        // At the end of a thread its storage may be gone before.
        let _ = POOL.try_with(|pool| {
            let pool = std::mem::take(&mut *pool.borrow_mut());
            drop(pool);
        });
    }
}

impl Pool {
    /// Closes what has to be closed, watches the others, and gives the time at which the next one expires.
    fn sweep(&mut self, cx: &mut Context<'_>) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        self.groups.retain(|_, queue| {
            queue.retain_mut(|idle| {
                let stays = idle.expires > now && idle.transport.poll_stirred(cx).is_pending();
                if !stays {
                    idle.transport.say_goodbye();
                } else {
                    next = Some(next.map_or(idle.expires, |next| next.min(idle.expires)));
                }
                stays
            });
            !queue.is_empty()
        });
        self.keeper = next.map(|_| cx.waker().clone());
        next
    }
}

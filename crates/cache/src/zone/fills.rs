//! Objects that one request fetches from the upstream server while others wait or read along (`proxy_cache_lock`).

use super::{State, Zone};
use crate::arriving::Arriving;
use crate::head::Head;
use crate::key::Key;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The state of an object that one request fetches from the upstream server.
#[derive(Debug)]
pub(super) struct FillState {
    ticket: u64,
    /// The time from which another request may fetch it, too.
    until: Instant,
    /// The content, once it has begun to arrive.
    arriving: Option<Arc<Arriving>>,
    waiting: Vec<Waker>,
}

impl FillState {
    /// The head of the response, if it has arrived.
    pub(super) fn head(&self) -> Option<&Head> {
        self.arriving.as_ref().map(|arriving| &arriving.head)
    }

    /// Lets the requests that wait go on.
    pub(super) fn wake(self) {
        self.waiting.into_iter().for_each(Waker::wake);
    }
}

impl Zone {
    /// Gives a request the right to fill an object, unless another request has it. The right excludes others for the time
    /// `exclusive` only.
    pub fn try_fill(self: &Arc<Self>, key: &Key, exclusive: Duration, now: Instant) -> Option<FillRight> {
        let mut state = self.lock();
        if state.fills.get(key).is_some_and(|filling| now < filling.until) {
            return None;
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        // The requests that waited for an earlier request now wait for this one.
        let waiting = state.fills.remove(key).map(|filling| filling.waiting).unwrap_or_default();
        state.fills.insert(*key, FillState { ticket, until: now + exclusive, arriving: None, waiting });
        Some(FillRight { zone: Arc::clone(self), key: *key, ticket })
    }

    /// The time until another request may fill an object, too; `None` if no request fills it.
    pub fn fill_left(&self, key: &Key, now: Instant) -> Option<Duration> {
        let state = self.lock();
        state.fills.get(key).map(|filling| filling.until.saturating_duration_since(now))
    }

    /// The object that a request is filling, if its content has begun to arrive.
    pub fn arriving(&self, key: &Key) -> Option<Arc<Arriving>> {
        let arriving = self.lock().fills.get(key)?.arriving.clone();
        arriving.filter(|arriving| arriving.is_open())
    }

    /// Whether a response for this key was not kept a short time ago, while other requests waited for it: until one is kept, nothing is
    /// gained by waiting.
    pub fn is_passed(&self, key: &Key, now: Instant) -> bool {
        // Mostly there is none, which needs no lock. One that is not counted yet only lets a request wait.
        self.passed.load(Ordering::Relaxed) > 0 && self.lock().passed.has(key, now)
    }

    /// Notes that a response for this key is kept.
    pub(super) fn unpass(&self, state: &mut State, key: &Key) {
        if !state.passed.is_empty() {
            self.passed.store(state.passed.forget(key), Ordering::Relaxed);
        }
    }

    /// Ready when no request fills an object, or when its content has begun to arrive. The task is woken then.
    pub fn poll_filled(&self, key: &Key, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let Some(filling) = state.fills.get_mut(key) else { return Poll::Ready(()) };
        if filling.arriving.as_ref().is_some_and(|arriving| arriving.is_open()) {
            return Poll::Ready(());
        }
        if !filling.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            filling.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The right of one request to fill an object, while others wait or get the stale object. The right ends when the
/// `FillRight` is dropped.
#[derive(Debug)]
pub struct FillRight {
    zone: Arc<Zone>,
    key: Key,
    ticket: u64,
}

impl FillRight {
    /// Ends the right because the response is not kept. The requests that wait for it need not wait for one another: they go on at once,
    /// and so do others for the next minutes ([`Zone::is_passed`]). If no request has waited, nothing is noted.
    pub fn pass(self, now: Instant) {
        let mut state = self.zone.lock();
        let has_waited = state
            .fills
            .get(&self.key)
            .is_some_and(|filling| filling.ticket == self.ticket && !filling.waiting.is_empty());
        if has_waited {
            let count = state.passed.note(self.key, now);
            self.zone.passed.store(count, Ordering::Relaxed);
        }
    }

    /// Lets other requests read the content while it arrives.
    pub(crate) fn show(&self, arriving: Arc<Arriving>) {
        let mut state = self.zone.lock();
        let filling = state.fills.get_mut(&self.key).filter(|filling| filling.ticket == self.ticket);
        let waiting = filling.map(|filling| {
            filling.arriving = Some(arriving);
            std::mem::take(&mut filling.waiting)
        });
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Drop for FillRight {
    fn drop(&mut self) {
        let mut state = self.zone.lock();
        let is_own = state.fills.get(&self.key).is_some_and(|filling| filling.ticket == self.ticket);
        // Another request may have taken the filling over.
        let filling = if is_own { state.fills.remove(&self.key) } else { None };
        drop(state);
        filling.into_iter().for_each(FillState::wake);
    }
}

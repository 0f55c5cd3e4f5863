//! Objects that one request gets from the other server, while others wait.

use super::Zone;
use crate::arriving::Arriving;
use crate::head::Head;
use crate::key::Key;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// An object that one request gets from the other server.
#[derive(Debug)]
pub(super) struct Filling {
    ticket: u64,
    /// When another request may do the same.
    until: Instant,
    /// The content, once it comes.
    arriving: Option<Arc<Arriving>>,
    waiting: Vec<Waker>,
}

impl Filling {
    /// What is known of the object, if that came already.
    pub(super) fn head(&self) -> Option<&Head> {
        self.arriving.as_ref().map(|arriving| &arriving.head)
    }

    /// Lets the requests that wait go on.
    pub(super) fn wake(self) {
        self.waiting.into_iter().for_each(Waker::wake);
    }
}

impl Zone {
    /// Takes the filling of an object for a request, unless another request has it and did not take longer than its
    /// `age`.
    pub fn fill(self: &Arc<Self>, key: &Key, age: Duration, now: Instant) -> Option<Fill> {
        let mut state = self.lock();
        if state.fills.get(key).is_some_and(|filling| now < filling.until) {
            return None;
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let waiting = state.fills.remove(key).map(|filling| filling.waiting).unwrap_or_default();
        state.fills.insert(*key, Filling { ticket, until: now + age, arriving: None, waiting });
        Some(Fill { zone: Arc::clone(self), key: *key, ticket })
    }

    /// How long the filling of an object may still take before another request may do it; `None` where no request fills
    /// it.
    pub fn fill_left(&self, key: &Key, now: Instant) -> Option<Duration> {
        let state = self.lock();
        state.fills.get(key).map(|filling| filling.until.saturating_duration_since(now))
    }

    /// The object that a request is filling, if its content comes already.
    pub fn arriving(&self, key: &Key) -> Option<Arc<Arriving>> {
        let arriving = self.lock().fills.get(key)?.arriving.clone();
        arriving.filter(|arriving| arriving.is_open())
    }

    /// Ready when no request fills an object, or its content comes; the task is woken then.
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

/// The right of one request to fill an object, while others wait or get what there was before. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Fill {
    zone: Arc<Zone>,
    key: Key,
    ticket: u64,
}

impl Fill {
    /// Lets other requests read the content that comes.
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

impl Drop for Fill {
    fn drop(&mut self) {
        let mut state = self.zone.lock();
        let is_own = state.fills.get(&self.key).is_some_and(|filling| filling.ticket == self.ticket);
        // Another request may have taken the filling over.
        let filling = if is_own { state.fills.remove(&self.key) } else { None };
        drop(state);
        filling.into_iter().for_each(Filling::wake);
    }
}

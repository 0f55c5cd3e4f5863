//! When buffers are to be written, for whoever does it.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The next moment at which something is to be written.
#[derive(Debug, Default)]
pub(super) struct Bell(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    due: Option<Instant>,
    waker: Option<Waker>,
}

impl Bell {
    /// Something is to be written at this moment, at the latest.
    pub(super) fn ring(&self, moment: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.due.is_some_and(|due| due <= moment) {
            return;
        }
        state.due = Some(moment);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next moment. Whoever asks is woken when it comes to be or becomes an earlier one.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Instant> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(cx.waker().clone());
        state.due.map_or(Poll::Pending, Poll::Ready)
    }

    /// Forgets the moment, before all that was due is written.
    pub(super) fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).due = None;
    }
}

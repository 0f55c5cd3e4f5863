//! When the next buffer has to be written.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The next moment at which a buffer has to be written.
#[derive(Debug, Default)]
pub(super) struct NextWrite(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    due: Option<Instant>,
    waker: Option<Waker>,
}

impl NextWrite {
    /// Requests a write at this moment or earlier.
    pub(super) fn schedule(&self, moment: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.due.is_some_and(|due| due <= moment) {
            return;
        }
        state.due = Some(moment);
        let waker = state.waker.take();
        // The woken task locks the state, too.
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next moment. The task is woken when a moment is set or moved forward.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Instant> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(cx.waker().clone());
        state.due.map_or(Poll::Pending, Poll::Ready)
    }

    /// Forgets the moment. Call it before the due buffers are written: a buffer that is not due yet schedules itself again.
    pub(super) fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).due = None;
    }
}

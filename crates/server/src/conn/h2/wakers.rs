//! Wakers of streams: a connection learns which of its streams has something to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// The streams of a connection that were woken.
#[derive(Default)]
pub(super) struct Woken {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: Vec<u32>,
    /// The task of the connection.
    connection: Option<Waker>,
}

/// Wakes one stream.
pub(super) struct StreamWaker {
    woken: Arc<Woken>,
    stream: u32,
    is_woken: AtomicBool,
}

impl Woken {
    /// The task to wake when a stream is woken.
    pub(super) fn set_connection(&self, cx: &Context<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.connection.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.connection = Some(cx.waker().clone());
        }
    }

    /// Moves the numbers of the woken streams to `out`.
    pub(super) fn take(&self, out: &mut Vec<u32>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        out.append(&mut state.streams);
    }

    pub(super) fn waker(self: &Arc<Self>, stream: u32) -> Arc<StreamWaker> {
        Arc::new(StreamWaker { woken: Arc::clone(self), stream, is_woken: AtomicBool::new(false) })
    }
}

impl StreamWaker {
    /// Takes note that the stream is polled: from now on it is woken again.
    pub(super) fn rearm(&self) {
        // A wake-up may come from another thread, and the stream must see what was written before it.
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The first wake-up since the last poll queues the stream; further ones find it queued. `AcqRel` makes what the
        // waking thread wrote visible to `rearm`, also if its wake-up was not the first.
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let mut state = self.woken.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.streams.push(self.stream);
            if let Some(connection) = &state.connection {
                connection.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Woken;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake, Waker};

    struct Counter(AtomicU32);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_is_told_once_until_it_is_polled() {
        let counter = Arc::new(Counter(AtomicU32::new(0)));
        let connection = Waker::from(Arc::clone(&counter));
        let woken = Arc::new(Woken::default());
        woken.set_connection(&Context::from_waker(&connection));
        let [one, three] = [1, 3].map(|stream| woken.waker(stream));
        let wakers = [&one, &three].map(|waker| Waker::from(Arc::clone(waker)));
        for waker in [&wakers[1], &wakers[0], &wakers[1]] {
            waker.wake_by_ref();
        }
        let mut streams = Vec::new();
        woken.take(&mut streams);
        assert_eq!((&streams[..], counter.0.load(Ordering::Relaxed)), (&[3, 1][..], 2));
        wakers[0].wake_by_ref();
        one.rearm();
        wakers[0].wake_by_ref();
        woken.take(&mut streams);
        assert_eq!(streams, [3, 1, 1]);
    }
}

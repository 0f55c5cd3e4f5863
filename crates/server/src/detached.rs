//! The detached requests of a thread.

use crate::task_table::Member;
use crate::thread::{Serving, Thread};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use wire::Timer;

/// How many such requests a worker has at most; further ones are dropped.
const DETACHED_MAX: usize = 4096;

/// How many there are in all threads.
static DETACHED: AtomicUsize = AtomicUsize::new(0);

/// A detached request. It ends at the latest with its site.
pub(crate) struct Detached {
    request: engine::Detached,
    serving: Rc<Serving>,
    _place: Place,
    /// Never set; polled only so that `wake_all` reaches this task.
    timer: Timer,
}

impl Detached {
    /// Takes over a request under this site; none if there are too many.
    pub(crate) fn new(request: engine::Detached, serving: &Rc<Serving>, thread: &Thread) -> Option<Detached> {
        let place = Place::take(&thread.detached)?;
        let timer = Timer::new(&thread.timers);
        Some(Detached { request, serving: Rc::clone(serving), _place: place, timer })
    }
}

/// Counts a detached request while it exists: among those of its thread, and of the worker.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(of_thread: &Rc<Cell<usize>>) -> Option<Place> {
        let one_more = |count| (count < DETACHED_MAX).then_some(count + 1);
        DETACHED.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        of_thread.set(of_thread.get() + 1);
        Some(Place(Rc::clone(of_thread)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        DETACHED.fetch_sub(1, Relaxed);
        self.0.set(self.0.get() - 1);
    }
}

impl Future for Detached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.serving.is_over() || self.request.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let _: Poll<()> = self.timer.poll(cx);
        Poll::Pending
    }
}

impl Member for Detached {
    fn number(&self) -> u64 {
        self.request.connection().serial
    }
}

#[cfg(test)]
mod tests {
    use super::{DETACHED_MAX, Place};
    use std::rc::Rc;

    #[test]
    fn a_worker_has_a_bounded_number() {
        let threads = [Rc::default(), Rc::default()];
        let places: Vec<_> =
            (0..DETACHED_MAX).map_while(|number| Place::take(&threads[number % 2])).collect();
        assert_eq!((places.len(), threads[0].get()), (DETACHED_MAX, DETACHED_MAX / 2));
        assert!(Place::take(&threads[0]).is_none());
        drop(places);
        assert!(threads[0].get() == 0 && Place::take(&threads[1]).is_some());
    }
}

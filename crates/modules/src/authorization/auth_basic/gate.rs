//! How many passwords are computed at a time, so that they take neither all processors nor all threads for
//! what blocks. Who waits does so on the event loop, and leaves the queue with the client.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many checks may wait for their turn.
const WAITING_MAX: usize = 64;

/// The most places. A thread has more threads than that for what blocks, and other work for them.
const PLACES_MAX: usize = 16;

/// A door with a bounded queue before it.
pub(super) struct Gate {
    places: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: usize,
    /// Who waits, first come first, with a number to tell them apart.
    queue: Vec<(u64, Waker)>,
    next: u64,
}

/// A place inside, until it is dropped.
pub(super) struct Place(&'static Gate);

/// The wait for a place; none if too many wait already.
pub(super) struct Entering {
    gate: &'static Gate,
    number: Option<u64>,
}

impl Gate {
    /// A gate for half of the processors: the others go on serving.
    pub(super) fn of_this_machine() -> Gate {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Gate::new((processors / 2).clamp(1, PLACES_MAX))
    }

    fn new(places: usize) -> Gate {
        Gate { places, state: Mutex::default() }
    }

    /// Waits for a place.
    pub(super) fn enter(&'static self) -> Entering {
        Entering { gate: self, number: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Entering {
    type Output = Option<Place>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Place>> {
        let gate = self.gate;
        let mut state = gate.state();
        if state.inside < gate.places {
            state.inside += 1;
            if let Some(number) = self.number.take() {
                state.leave_queue(number);
            }
            return Poll::Ready(Some(Place(gate)));
        }
        match self.number {
            Some(number) => {
                if let Some(waiting) = state.queue.iter_mut().find(|(other, _)| *other == number) {
                    waiting.1.clone_from(cx.waker());
                }
            }
            None if state.queue.len() >= WAITING_MAX => return Poll::Ready(None),
            None => {
                let number = state.next;
                state.next += 1;
                state.queue.push((number, cx.waker().clone()));
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl State {
    fn leave_queue(&mut self, number: u64) {
        self.queue.retain(|(other, _)| *other != number);
    }

    fn wake_first(&self) {
        if let Some((_, waker)) = self.queue.first() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.gate.state();
            state.leave_queue(number);
            // It may have been woken for a place that it does not take.
            state.wake_first();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.inside -= 1;
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::{Entering, Gate, Place, WAITING_MAX};
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn poll(self: &Arc<Woken>, entering: &mut Entering) -> Poll<Option<Place>> {
            Pin::new(entering).poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
        }

        fn times(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// How many are inside and how many wait.
    fn counts(gate: &Gate) -> (usize, usize) {
        let state = gate.state();
        (state.inside, state.queue.len())
    }

    fn gate() -> &'static Gate {
        Box::leak(Box::new(Gate::new(1)))
    }

    #[test]
    fn who_waits_comes_in_when_somebody_leaves() {
        let (gate, woken) = (gate(), Arc::<Woken>::default());
        let Poll::Ready(Some(place)) = woken.poll(&mut gate.enter()) else { panic!("no place") };
        let mut waiting = gate.enter();
        assert!(woken.poll(&mut waiting).is_pending() && woken.poll(&mut waiting).is_pending());
        assert_eq!((woken.times(), counts(gate)), (0, (1, 1)));
        drop(place);
        assert_eq!(woken.times(), 1);
        let Poll::Ready(Some(place)) = woken.poll(&mut waiting) else { panic!("no place") };
        assert_eq!(counts(gate), (1, 0));
        drop((place, waiting));
        assert_eq!((counts(gate), woken.times()), ((0, 0), 0));
    }

    #[test]
    fn the_queue_is_bounded_and_can_be_left() {
        let (gate, woken) = (gate(), Arc::<Woken>::default());
        let Poll::Ready(Some(place)) = woken.poll(&mut gate.enter()) else { panic!("no place") };
        let mut queue: Vec<_> = (0..WAITING_MAX).map(|_| gate.enter()).collect();
        assert!(queue.iter_mut().all(|waiting| woken.poll(waiting).is_pending()));
        assert!(matches!(woken.poll(&mut gate.enter()), Poll::Ready(None)));
        drop(place);
        assert_eq!(woken.times(), 1);
        queue.remove(0);
        assert_eq!(woken.times(), 1, "the next one is woken in place of who left");
        assert!(matches!(woken.poll(&mut queue[0]), Poll::Ready(Some(_))));
        drop(queue);
        assert_eq!(counts(gate), (0, 0));
    }
}

//! Timers that are precise to a millisecond, for recovery from lost packets and for pacing. Setting one moves a node of a
//! tree, which costs more than [`Timer`](crate::Timer). The thread has an alarm for them only while any is set.

use crate::timer::Timers;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::time::sleep_until;

/// When a timer is due, and its number.
type Key = (Instant, u64);

/// The precise timers of a thread that are set.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The tasks that wait, the one of the next timer first.
    set: RefCell<BTreeMap<Key, Option<Waker>>>,
    numbers: Cell<u64>,
    /// What the alarm is armed for.
    armed: Cell<Option<Instant>>,
    /// The task that arms the alarm.
    driver: RefCell<Option<Waker>>,
}

impl Queue {
    /// Wakes tasks when their timers are due; runs for as long as the thread serves.
    pub(crate) async fn run(&self) {
        loop {
            let next = poll_fn(|cx| self.poll_next(cx)).await;
            let mut alarm = pin!(sleep_until(next.into()));
            poll_fn(|cx| match self.poll_changed(cx, next) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => alarm.as_mut().poll(cx),
            })
            .await;
            self.armed.set(None);
            self.wake_due();
        }
    }

    /// Wakes all tasks that wait.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<_> = self.set.borrow_mut().values_mut().filter_map(Option::take).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn next(&self) -> Option<Instant> {
        self.set.borrow().first_key_value().map(|((due, _), _)| *due)
    }

    /// Waits until any timer is set; gives when the next one is due.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Instant> {
        let next = self.next();
        self.armed.set(next);
        self.await_change(cx);
        next.map_or(Poll::Pending, Poll::Ready)
    }

    /// Ready when no timer is set any more, or one that is due before this moment.
    fn poll_changed(&self, cx: &mut Context<'_>, armed: Instant) -> Poll<()> {
        self.await_change(cx);
        if self.next().is_none_or(|next| next < armed) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn await_change(&self, cx: &Context<'_>) {
        *self.driver.borrow_mut() = Some(cx.waker().clone());
    }

    /// Wakes the driver if the alarm is armed for nothing, or not for the next timer. One that is early does no harm.
    fn arm(&self) {
        let (next, armed) = (self.next(), self.armed.get());
        let is_late = next.is_some_and(|next| armed.is_none_or(|armed| next < armed));
        if is_late || (next.is_none() && armed.is_some()) {
            self.driver.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes the tasks whose timers are due.
    fn wake_due(&self) {
        let mut due = Vec::new();
        let now = Instant::now();
        for (_, waker) in self.set.borrow_mut().iter_mut().take_while(|((at, _), _)| *at <= now) {
            due.extend(waker.take());
        }
        // Those that nothing waits for any more must not arm the alarm again.
        self.set.borrow_mut().retain(|(at, _), waker| *at > now || waker.is_some());
        due.into_iter().for_each(Waker::wake);
    }
}

/// One timer that is precise to a millisecond. It is not set at first.
#[derive(Debug)]
pub struct PreciseTimer {
    timers: Rc<Timers>,
    number: u64,
    due: Option<Instant>,
}

impl PreciseTimer {
    /// One of the timers of a thread.
    pub fn new(timers: &Rc<Timers>) -> PreciseTimer {
        let numbers = &timers.precise.numbers;
        numbers.set(numbers.get() + 1);
        PreciseTimer { timers: Rc::clone(timers), number: numbers.get(), due: None }
    }

    /// Sets the timer to this moment, in place of what it was set to before.
    pub fn set(&mut self, due: Instant) {
        let queue = &self.timers.precise;
        let waker = self.take();
        self.due = Some(due);
        queue.set.borrow_mut().insert((due, self.number), waker);
        queue.arm();
    }

    /// Unsets the timer.
    pub fn clear(&mut self) {
        drop(self.take());
        self.due = None;
        self.timers.precise.arm();
    }

    /// When the timer is due, if it is set.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Ready when the timer is due; else the task is woken then, or by [`Timers::wake_all`]. It stays due until it is set
    /// anew or cleared.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else { return Poll::Pending };
        if due <= Instant::now() {
            return Poll::Ready(());
        }
        let queue = &self.timers.precise;
        queue.set.borrow_mut().insert((due, self.number), Some(cx.waker().clone()));
        queue.arm();
        Poll::Pending
    }

    /// Takes the timer out of the queue, with the task that waits.
    fn take(&self) -> Option<Waker> {
        let due = self.due?;
        self.timers.precise.set.borrow_mut().remove(&(due, self.number)).flatten()
    }
}

impl Drop for PreciseTimer {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::PreciseTimer;
    use crate::testing::runtime;
    use crate::timer::{Timer, Timers};
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;
    use std::time::{Duration, Instant};
    use tokio::task::{spawn_local, yield_now};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Runs a test together with the timers of a thread.
    fn with_timers<F: Future<Output = ()>>(test: impl FnOnce(Rc<Timers>) -> F) {
        runtime().block_on(async {
            let timers = Timers::new();
            let driven = Rc::clone(&timers);
            spawn_local(async move { driven.run().await });
            test(timers).await;
        });
    }

    fn from_now(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    /// The coarse timers wait for the end of a tick, so that one after another takes a tick each.
    #[test]
    fn it_does_not_wait_for_a_tick() {
        with_timers(async |timers| {
            let coarse = Timer::new(&timers);
            let mut precise = PreciseTimer::new(&timers);
            let (mut of_coarse, mut of_precise) = (Vec::new(), Vec::new());
            for _ in 0..10 {
                let started = Instant::now();
                coarse.set(Duration::from_millis(1));
                poll_fn(|cx| coarse.poll(cx)).await;
                of_coarse.push(started.elapsed());
                let due = from_now(1);
                precise.set(due);
                poll_fn(|cx| precise.poll(cx)).await;
                assert!(Instant::now() >= due, "it is early");
                of_precise.push(due.elapsed());
            }
            // The first coarse one may have been set at the end of a tick.
            assert!(of_precise.iter().min() < of_coarse[1..].iter().min(), "{of_precise:?} {of_coarse:?}");
        });
    }

    #[test]
    fn tasks_are_woken_in_the_order_in_which_timers_are_due() {
        with_timers(async |timers| {
            let order = Rc::new(RefCell::new(Vec::new()));
            let started = Instant::now();
            let tasks = [60, 20, 40, 21].map(|ms| {
                let (order, timers) = (Rc::clone(&order), Rc::clone(&timers));
                spawn_local(async move {
                    let mut timer = PreciseTimer::new(&timers);
                    timer.set(started + HOUR);
                    timer.set(started + Duration::from_millis(ms));
                    poll_fn(|cx| timer.poll(cx)).await;
                    order.borrow_mut().push(ms);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            let mut sorted = order.borrow().clone();
            sorted.sort_unstable();
            assert_eq!(*order.borrow(), sorted);
            assert!(timers.precise.set.borrow().is_empty());
        });
    }

    #[test]
    fn the_alarm_is_armed_only_while_a_timer_is_set() {
        with_timers(async |timers| {
            let armed = async || {
                for _ in 0..3 {
                    yield_now().await;
                }
                timers.precise.armed.get()
            };
            assert_eq!(armed().await, None);
            let (mut late, mut soon) = (PreciseTimer::new(&timers), PreciseTimer::new(&timers));
            late.set(Instant::now() + 2 * HOUR);
            assert_eq!(armed().await, late.due());
            soon.set(Instant::now() + HOUR);
            assert_eq!(armed().await, soon.due());
            assert!(poll_fn(|cx| Poll::Ready(soon.poll(cx))).await.is_pending());
            soon.clear();
            drop(late);
            assert_eq!(armed().await, None);
            assert!(poll_fn(|cx| Poll::Ready(soon.poll(cx))).await.is_pending(), "it is not set");
        });
    }

    #[test]
    fn all_who_wait_can_be_woken() {
        with_timers(async |timers| {
            let mut timer = PreciseTimer::new(&timers);
            timer.set(Instant::now() + HOUR);
            let mut polls = 0;
            let waiting = poll_fn(|cx| {
                polls += 1;
                match timer.poll(cx) {
                    Poll::Pending if polls == 1 => Poll::Pending,
                    polled => Poll::Ready(polled),
                }
            });
            let waking = async {
                yield_now().await;
                timers.wake_all();
            };
            let (polled, ()) = tokio::join!(waiting, waking);
            assert!(polled.is_pending());
        });
    }
}

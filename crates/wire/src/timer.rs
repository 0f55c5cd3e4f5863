//! Coarse timers, one wheel a thread. Setting one is a store; it costs nothing more until it is due. The wheel turns only
//! when there is something to see: a thread whose connections are idle is, too.

use crate::precise::Queue;
use crate::vacancies::Vacancies;
use journal::clock::Time;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How late a timer may be.
const TICK_MS: u64 = 20;

/// Ticks of one turn of the wheel; a later deadline goes around again.
const SLOTS: usize = 512;

thread_local! {
    static CURRENT: RefCell<Weak<Timers>> = const { RefCell::new(Weak::new()) };
}

/// The timers of a thread.
#[derive(Debug)]
pub struct Timers {
    wheel: RefCell<Wheel>,
    /// Those that cannot wait for a tick.
    pub(crate) precise: Queue,
}

#[derive(Debug)]
struct Wheel {
    start_ms: u64,
    /// The tick that was handled last.
    now: u64,
    /// No bucket of a tick before this one has anything in it.
    next: u64,
    entries: Vec<Entry>,
    free: Vacancies,
    buckets: Vec<Vec<usize>>,
    queued: usize,
    ticker: Option<Waker>,
}

/// It outlives its timer, for the next one: so does its place in a bucket, which serves that one, too.
#[derive(Debug, Default)]
struct Entry {
    /// When the timer is due, in milliseconds since the wheel exists.
    deadline: Option<u64>,
    /// The tick of the first bucket that the entry is in.
    bucket: Option<u64>,
    waker: Option<Waker>,
    is_free: bool,
}

/// One timer. It is not set at first.
#[derive(Debug)]
pub struct Timer {
    timers: Rc<Timers>,
    index: usize,
}

/// The time was over before the future was ready.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed;

impl Entry {
    /// The task is to be woken when the timer is due.
    fn wake(&mut self, cx: &mut Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }
}

impl Timers {
    /// No timer yet.
    pub fn new() -> Rc<Timers> {
        let wheel = Wheel {
            start_ms: Time::now().uptime_ms,
            now: 0,
            next: u64::MAX,
            entries: Vec::new(),
            free: Vacancies::default(),
            buckets: vec![Vec::new(); SLOTS],
            queued: 0,
            ticker: None,
        };
        Rc::new(Timers { wheel: RefCell::new(wheel), precise: Queue::default() })
    }

    /// Makes these the timers of the calling thread ([`Timer::here`]).
    pub fn make_current(self: &Rc<Timers>) {
        CURRENT.set(Rc::downgrade(self));
    }

    /// Wakes tasks when their timers are due; runs next to the connections for as long as the thread serves.
    pub async fn run(&self) {
        tokio::join!(self.turn_wheel(), self.precise.run());
    }

    async fn turn_wheel(&self) {
        loop {
            let (next, delay) = poll_fn(|cx| self.wheel.borrow_mut().poll_queued(cx)).await;
            let mut sleep = pin!(tokio::time::sleep(delay));
            poll_fn(|cx| match self.wheel.borrow_mut().poll_sooner(cx, next) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => sleep.as_mut().poll(cx),
            })
            .await;
            let due = self.wheel.borrow_mut().turn();
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes all tasks that wait for a timer, so that they look at the state of the thread.
    pub fn wake_all(&self) {
        let wakers: Vec<_> =
            self.wheel.borrow_mut().entries.iter_mut().filter_map(|entry| entry.waker.take()).collect();
        wakers.into_iter().for_each(Waker::wake);
        self.precise.wake_all();
    }
}

impl Wheel {
    /// Waits until there is anything to wait for; gives the tick of that, and how far it is.
    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<(u64, Duration)> {
        if self.queued > 0 {
            let due_ms = self.next.saturating_mul(TICK_MS);
            return Poll::Ready((self.next, Duration::from_millis(due_ms.saturating_sub(self.age_ms()))));
        }
        self.ticker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready when there is something to wait for that comes before this tick.
    fn poll_sooner(&mut self, cx: &mut Context<'_>, next: u64) -> Poll<()> {
        if self.next < next {
            return Poll::Ready(());
        }
        self.ticker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// How long the wheel has existed, in milliseconds.
    fn age_ms(&self) -> u64 {
        Time::now().uptime_ms.saturating_sub(self.start_ms)
    }

    /// The tick that is over.
    fn tick(&self) -> u64 {
        self.age_ms() / TICK_MS
    }

    /// Handles all ticks up to now and gives back who is to be woken.
    fn turn(&mut self) -> Vec<Waker> {
        let mut due = Vec::new();
        let now = self.tick();
        self.pass(now);
        (self.next, self.ticker) = (u64::MAX, None);
        while self.now < now {
            self.now += 1;
            let bucket = std::mem::take(&mut self.buckets[bucket_of(self.now)]);
            self.queued -= bucket.len();
            for index in bucket {
                self.visit(index, &mut due);
            }
        }
        if self.queued > 0 {
            let mut ahead = self.now + 1..self.now + SLOTS as u64;
            let next = ahead.find(|&tick| !self.buckets[bucket_of(tick)].is_empty());
            self.next = next.unwrap_or(u64::MAX);
        }
        due
    }

    /// Goes past ticks of which nothing is to be handled.
    fn pass(&mut self, tick: u64) {
        self.now = self.now.max(tick.min(self.next - 1));
    }

    fn visit(&mut self, index: usize, due: &mut Vec<Waker>) {
        let now = self.now;
        // It may have been given back since.
        let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.bucket == Some(now)) else {
            return;
        };
        entry.bucket = None;
        match entry.deadline {
            Some(deadline) if deadline <= now.saturating_mul(TICK_MS) => due.extend(entry.waker.take()),
            Some(deadline) => self.queue(index, deadline.div_ceil(TICK_MS)),
            None => {}
        }
    }

    /// Puts an entry into the bucket of a tick.
    fn queue(&mut self, index: usize, tick: u64) {
        let bucket = tick.clamp(self.now + 1, self.now + SLOTS as u64 - 1);
        let entry = &mut self.entries[index];
        if entry.bucket.is_some_and(|queued| queued <= bucket) {
            return;
        }
        entry.bucket = Some(bucket);
        self.buckets[bucket_of(bucket)].push(index);
        self.queued += 1;
        if bucket < self.next {
            self.next = bucket;
            self.ticker.take().into_iter().for_each(Waker::wake);
        }
    }
}

fn as_ms(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(u64::from(duration.subsec_millis()))
}

fn bucket_of(tick: u64) -> usize {
    usize::try_from(tick % SLOTS as u64).unwrap_or(0)
}

impl Timer {
    /// A timer of the calling thread.
    ///
    /// Errors if the thread has no [`Timers`].
    pub fn here() -> io::Result<Timer> {
        let timers = CURRENT.with_borrow(Weak::upgrade);
        timers.map(|timers| Timer::new(&timers)).ok_or_else(|| io::Error::other("a thread without timers"))
    }

    /// One of these timers.
    pub fn new(timers: &Rc<Timers>) -> Timer {
        let mut wheel = timers.wheel.borrow_mut();
        let Wheel { entries, free, .. } = &mut *wheel;
        let index = free.take(entries.len()).unwrap_or_else(|| {
            entries.push(Entry::default());
            entries.len() - 1
        });
        entries[index].is_free = false;
        drop(wheel);
        Timer { timers: Rc::clone(timers), index }
    }

    /// Sets the timer, in place of what it was set to before.
    pub fn set(&self, delay: Duration) {
        self.set_in(&mut self.timers.wheel.borrow_mut(), delay);
    }

    /// Sets the timer and waits for it: the task is woken when it is due.
    #[inline]
    pub fn start(&self, cx: &mut Context<'_>, delay: Duration) {
        let mut wheel = self.timers.wheel.borrow_mut();
        self.set_in(&mut wheel, delay);
        wheel.entries[self.index].wake(cx);
    }

    fn set_in(&self, wheel: &mut Wheel, delay: Duration) {
        let age_ms = wheel.age_ms();
        // The current millisecond has begun already.
        let deadline = age_ms.saturating_add(as_ms(delay)).saturating_add(1);
        let entry = &mut wheel.entries[self.index];
        entry.deadline = Some(deadline);
        // Most entries are in a bucket of an earlier tick already, which passes them on.
        if entry.bucket.is_none_or(|bucket| bucket.saturating_mul(TICK_MS) > deadline) {
            wheel.pass(age_ms / TICK_MS);
            wheel.queue(self.index, deadline.div_ceil(TICK_MS));
        }
    }

    /// Unsets the timer.
    pub fn clear(&self) {
        let mut wheel = self.timers.wheel.borrow_mut();
        let entry = &mut wheel.entries[self.index];
        entry.deadline = None;
        entry.waker = None;
    }

    /// Whether a task waits for the timer, which was not due when the wheel looked last.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.timers.wheel.borrow().entries[self.index].waker.is_some()
    }

    /// Ready when the timer is due; else the task is woken then, or by [`Timers::wake_all`].
    #[inline]
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut wheel = self.timers.wheel.borrow_mut();
        if wheel.entries[self.index].deadline.is_some_and(|deadline| deadline <= wheel.age_ms()) {
            return Poll::Ready(());
        }
        wheel.entries[self.index].wake(cx);
        Poll::Pending
    }

    /// Runs a future for at most this long. One that is ready at once costs no timer.
    pub async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
        let mut future = pin!(future);
        let mut is_set = false;
        let result = poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            if !is_set {
                self.set(limit);
                is_set = true;
            }
            self.poll(cx).map(|()| Err(Elapsed))
        })
        .await;
        if is_set {
            self.clear();
        }
        result
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut wheel = self.timers.wheel.borrow_mut();
        let Wheel { entries, free, .. } = &mut *wheel;
        let entry = &mut entries[self.index];
        (entry.deadline, entry.is_free) = (None, true);
        let waker = entry.waker.take();
        free.give(self.index, entries, |entry| entry.is_free);
        drop(wheel);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::{Timer, Timers};
    use crate::testing::runtime;
    use std::future::{Future, poll_fn};
    use std::rc::Rc;
    use std::task::Poll;
    use std::time::{Duration, Instant};
    use tokio::task::spawn_local;

    /// Runs a test together with the timers of a thread.
    fn with_timers<F: Future<Output = ()>>(test: impl FnOnce(Rc<Timers>) -> F) {
        runtime().block_on(async {
            let timers = Timers::new();
            let wheel = Rc::clone(&timers);
            spawn_local(async move { wheel.run().await });
            test(timers).await;
        });
    }

    #[test]
    fn never_early_and_a_later_deadline_moves() {
        with_timers(async |timers| {
            let timer = Timer::new(&timers);
            let started = Instant::now();
            timer.set(Duration::from_millis(50));
            timer.set(Duration::from_millis(120));
            poll_fn(|cx| timer.poll(cx)).await;
            assert!(started.elapsed() >= Duration::from_millis(120));
            timer.set(Duration::from_secs(3600));
            timer.set(Duration::from_millis(40));
            poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn a_timer_that_is_set_while_the_wheel_waits_for_another_is_in_time() {
        with_timers(async |timers| {
            let (late, soon) = (Timer::new(&timers), Timer::new(&timers));
            late.set(Duration::from_secs(60));
            // By now the wheel waits.
            tokio::time::sleep(Duration::from_millis(30)).await;
            for _ in 0..2 {
                let started = Instant::now();
                soon.set(Duration::from_millis(50));
                poll_fn(|cx| soon.poll(cx)).await;
                assert!(started.elapsed() >= Duration::from_millis(50));
            }
            assert!(poll_fn(|cx| Poll::Ready(late.poll(cx))).await.is_pending());
        });
    }

    #[test]
    fn the_wheel_waits_for_what_is_next() {
        with_timers(async |timers| {
            let (first, second) = (Timer::new(&timers), Timer::new(&timers));
            first.set(Duration::from_secs(3));
            second.set(Duration::from_secs(7200));
            let (next, delay) = poll_fn(|cx| timers.wheel.borrow_mut().poll_queued(cx)).await;
            assert!(delay > Duration::from_millis(2900), "{delay:?}");
            second.set(Duration::from_secs(2));
            assert!(timers.wheel.borrow().next < next);
            drop((first, second));
            timers.wheel.borrow_mut().turn();
            assert!(timers.wheel.borrow().now < next, "what is to come is not passed");
        });
    }

    #[test]
    fn timers_in_turn_lie_in_one_bucket() {
        with_timers(async |timers| {
            for seconds in [60, 60, 90, 60] {
                Timer::new(&timers).set(Duration::from_secs(seconds));
            }
            assert_eq!((timers.wheel.borrow().entries.len(), timers.wheel.borrow().queued), (1, 1));
            let timer = Timer::new(&timers);
            assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx))).await.is_pending(), "it is not set");
            timer.set(Duration::from_millis(40));
            poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn a_future_in_time_wins() {
        with_timers(async |timers| {
            let timer = Timer::new(&timers);
            assert_eq!(timer.within(Duration::from_secs(60), async { 7 }).await.unwrap(), 7);
            let never = std::future::pending::<()>();
            assert!(timer.within(Duration::from_millis(30), never).await.is_err());
        });
    }
}

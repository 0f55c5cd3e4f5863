//! Coarse timers, one wheel a thread. Setting one is a store; it costs nothing more until it is due.

use contract::clock::Time;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How late a timer may be, and how often the wheel turns while any timer is set.
const TICK: Duration = Duration::from_millis(TICK_MS);
const TICK_MS: u64 = 20;

/// Ticks of one turn of the wheel; a later deadline goes around again.
const SLOTS: usize = 512;

/// The timers of a thread.
pub(crate) struct Timers {
    wheel: RefCell<Wheel>,
}

struct Wheel {
    start_ms: u64,
    /// The tick that was handled last.
    now: u64,
    entries: Vec<Entry>,
    free: Vec<usize>,
    buckets: Vec<Vec<(usize, u32)>>,
    queued: usize,
    ticker: Option<Waker>,
}

#[derive(Default)]
struct Entry {
    generation: u32,
    /// The tick at which the timer is due.
    deadline: Option<u64>,
    /// The tick of the bucket that the timer lies in.
    bucket: Option<u64>,
    waker: Option<Waker>,
}

/// One timer. It is not set at first.
pub(crate) struct Timer {
    timers: Rc<Timers>,
    index: usize,
}

/// The time was over before the future was ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed;

impl Timers {
    pub(crate) fn new() -> Rc<Timers> {
        let wheel = Wheel {
            start_ms: Time::now().uptime_ms,
            now: 0,
            entries: Vec::new(),
            free: Vec::new(),
            buckets: vec![Vec::new(); SLOTS],
            queued: 0,
            ticker: None,
        };
        Rc::new(Timers { wheel: RefCell::new(wheel) })
    }

    /// Turns the wheel; runs beside the connections for as long as the thread serves.
    pub(crate) async fn run(&self) {
        loop {
            poll_fn(|cx| self.wheel.borrow_mut().poll_queued(cx)).await;
            tokio::time::sleep(TICK).await;
            let due = self.wheel.borrow_mut().turn();
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes whoever waits for any timer, so that it looks at the state of the thread.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<_> =
            self.wheel.borrow_mut().entries.iter_mut().filter_map(|entry| entry.waker.take()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wheel {
    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.queued > 0 {
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

    fn tick_after(&self, delay: Duration) -> u64 {
        self.age_ms().saturating_add(as_ms(delay)).saturating_add(1).div_ceil(TICK_MS)
    }

    /// Handles all ticks up to now and gives back who is to be woken.
    fn turn(&mut self) -> Vec<Waker> {
        let mut due = Vec::new();
        let now = self.tick();
        while self.now < now {
            self.now += 1;
            let bucket = std::mem::take(&mut self.buckets[bucket_of(self.now)]);
            self.queued -= bucket.len();
            for (index, generation) in bucket {
                self.visit(index, generation, &mut due);
            }
        }
        due
    }

    fn visit(&mut self, index: usize, generation: u32, due: &mut Vec<Waker>) {
        let now = self.now;
        let entry = &mut self.entries[index];
        if entry.generation != generation || entry.bucket != Some(now) {
            return;
        }
        entry.bucket = None;
        match entry.deadline {
            Some(deadline) if deadline <= now => due.extend(entry.waker.take()),
            Some(deadline) => self.queue(index, deadline),
            None => {}
        }
    }

    fn queue(&mut self, index: usize, deadline: u64) {
        let bucket = deadline.clamp(self.now + 1, self.now + SLOTS as u64 - 1);
        let entry = &mut self.entries[index];
        if entry.bucket.is_some_and(|queued| queued <= bucket) {
            return;
        }
        entry.bucket = Some(bucket);
        self.buckets[bucket_of(bucket)].push((index, entry.generation));
        self.queued += 1;
        if let Some(ticker) = self.ticker.take() {
            // The wheel stood still, so its time is behind.
            ticker.wake();
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
    pub(crate) fn new(timers: &Rc<Timers>) -> Timer {
        let mut wheel = timers.wheel.borrow_mut();
        let index = wheel.free.pop().unwrap_or_else(|| {
            wheel.entries.push(Entry::default());
            wheel.entries.len() - 1
        });
        drop(wheel);
        Timer { timers: Rc::clone(timers), index }
    }

    /// Sets the timer, in place of what it was set to before.
    pub(crate) fn set(&self, delay: Duration) {
        let mut wheel = self.timers.wheel.borrow_mut();
        if wheel.queued == 0 {
            wheel.now = wheel.tick();
        }
        let deadline = wheel.tick_after(delay);
        wheel.entries[self.index].deadline = Some(deadline);
        wheel.queue(self.index, deadline);
    }

    /// Unsets the timer.
    pub(crate) fn clear(&self) {
        let mut wheel = self.timers.wheel.borrow_mut();
        let entry = &mut wheel.entries[self.index];
        entry.deadline = None;
        entry.waker = None;
    }

    /// Ready when the timer is due; else the task is woken then, or by [`Timers::wake_all`].
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut wheel = self.timers.wheel.borrow_mut();
        let now = wheel.tick();
        let entry = &mut wheel.entries[self.index];
        if entry.deadline.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(());
        }
        if !entry.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            entry.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Runs a future for at most this long. One that is ready at once costs no timer.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
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
        let entry = &mut wheel.entries[self.index];
        *entry = Entry { generation: entry.generation.wrapping_add(1), ..Entry::default() };
        wheel.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::{Timer, Timers};
    use std::time::{Duration, Instant};
    use tokio::task::LocalSet;

    fn on_a_thread(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn never_early_and_a_later_deadline_moves() {
        on_a_thread(async {
            let timers = Timers::new();
            let wheel = std::rc::Rc::clone(&timers);
            tokio::task::spawn_local(async move { wheel.run().await });
            let timer = Timer::new(&timers);
            let started = Instant::now();
            timer.set(Duration::from_millis(50));
            timer.set(Duration::from_millis(120));
            std::future::poll_fn(|cx| timer.poll(cx)).await;
            assert!(started.elapsed() >= Duration::from_millis(120));
            timer.set(Duration::from_secs(3600));
            timer.set(Duration::from_millis(40));
            std::future::poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn a_future_in_time_wins() {
        on_a_thread(async {
            let timers = Timers::new();
            let wheel = std::rc::Rc::clone(&timers);
            tokio::task::spawn_local(async move { wheel.run().await });
            let timer = Timer::new(&timers);
            assert_eq!(timer.within(Duration::from_secs(60), async { 7 }).await.unwrap(), 7);
            let never = std::future::pending::<()>();
            assert!(timer.within(Duration::from_millis(30), never).await.is_err());
        });
    }
}

//! The tasks of a thread's connections: polled in turn by one task of the runtime, so that each of them is a few bytes
//! of a table, and none waits behind those that have much to send.

use crate::pulse::Pulse;
use journal::clock::Turn;
use journal::shares::{self, Account, Place};
use net::Events;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::task::coop;
use wire::Vacancies;

/// How many calls of the kernel a member makes in one turn.
const TURN_CALLS: u32 = 128;

/// How often members are polled before the runtime looks at all else: new connections, timers, servers behind.
const ROUNDS: usize = 16;

/// After how long it does so in any case.
const SLICE: Duration = Duration::from_micros(500);

/// How many members are polled between two looks at the clock.
const LOOKS_AT_CLOCK: usize = 8;

/// How much of files all members send that have something to do at once, in bytes, until the last one has its turn.
const FILES_AT_ONCE: u64 = 32 * 1024 * 1024;

/// The least and the most of it for each of them.
const FILE_TURN: std::ops::RangeInclusive<u64> = 128 * 1024..=2 * 1024 * 1024;

/// If more members than this are ready, those with large transfers yield.
const MANY: usize = 64;

thread_local! {
    /// How many members have something to do at once, and whether the one that is polled lets them go first.
    static MEMBERS_READY: Cell<usize> = const { Cell::new(0) };
    static YIELDS: Cell<bool> = const { Cell::new(false) };
    static POLLED: Polled = const { Polled::new() };
}

/// Lets all other members go first that have something to do, and those that will have when it is their turn.
///
/// The member has to be pending then; nothing else need wake it.
pub(crate) fn yield_turn() {
    YIELDS.set(true);
}

/// Whether enough connections are ready that large transfers should yield.
pub(crate) fn is_busy() -> bool {
    MEMBERS_READY.get() > MANY
}

/// How much of a file may be sent in this turn, in bytes, so that others have theirs soon.
pub(crate) fn file_turn() -> u64 {
    let share = FILES_AT_ONCE / (MEMBERS_READY.get() as u64).max(1);
    share.clamp(*FILE_TURN.start(), *FILE_TURN.end())
}

/// A task of a [`TaskTable`].
pub(crate) trait Member: Future<Output = ()> + Unpin {
    /// The number by which logs call it.
    fn number(&self) -> u64;
}

/// Tasks that are polled in turn. What wakes them may be anywhere; they stay on their thread.
pub(crate) struct TaskTable<T> {
    events: Rc<Events>,
    pulse: Arc<Pulse>,
    slots: RefCell<Slots<T>>,
    queue: Arc<Mutex<Queue>>,
    /// Members that yielded.
    later: RefCell<VecDeque<u32>>,
    /// Members that yielded because of the rules, pages or listings of a site, by that site. Those that used least come
    /// first.
    expensive: RefCell<Vec<(Account, Waiting)>>,
}

/// Members with what their requests used, in nanoseconds; the one that used least comes first.
type Waiting = VecDeque<(u64, u32)>;

struct Slots<T> {
    all: Vec<Slot<T>>,
    free: Vacancies,
}

struct Slot<T> {
    member: Presence<T>,
    /// It outlives the member, for the next one: to be woken for nothing does no harm.
    waker: Arc<MemberWaker>,
}

enum Presence<T> {
    /// The slot is free.
    Free,
    /// It is being polled.
    BeingPolled,
    Here(T),
}

impl<T> Slot<T> {
    /// Takes the member away, if it is there.
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(&mut self.member, Presence::BeingPolled) {
            Presence::Here(member) => Some(member),
            other => {
                self.member = other;
                None
            }
        }
    }

    fn is_free(&self) -> bool {
        matches!(self.member, Presence::Free)
    }
}

/// The members to poll.
#[derive(Default)]
struct Queue {
    ready: Vec<u32>,
    /// The task that polls, if it waits.
    driver: Option<Waker>,
}

/// The table that a thread is polling. Only the thread itself wakes members by this, which needs no lock.
struct Polled {
    /// The queue of the table; null while the thread polls none.
    queue: Cell<*const Mutex<Queue>>,
    /// The members that the thread woke meanwhile.
    ready: RefCell<Vec<u32>>,
}

impl Polled {
    const fn new() -> Polled {
        Polled { queue: Cell::new(std::ptr::null()), ready: RefCell::new(Vec::new()) }
    }

    /// Takes a member that was woken, if it belongs to the table.
    fn take(&self, member: &MemberWaker) -> bool {
        let is_own = self.queue.get() == Arc::as_ptr(&member.queue);
        if is_own {
            self.ready.borrow_mut().push(member.slot);
        }
        is_own
    }
}

/// Lasts as long as the thread polls the table.
struct Polling<'a>(&'a Arc<Mutex<Queue>>);

impl Polling<'_> {
    fn begin(queue: &Arc<Mutex<Queue>>) -> Polling<'_> {
        POLLED.with(|polled| polled.queue.set(Arc::as_ptr(queue)));
        Polling(queue)
    }

    /// Gives the members that were woken to an empty list.
    fn give(&self, batch: &mut Vec<u32>) -> MutexGuard<'_, Queue> {
        let mut queue = lock(self.0);
        std::mem::swap(&mut queue.ready, batch);
        POLLED.with(|polled| batch.append(&mut polled.ready.borrow_mut()));
        queue
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        POLLED.with(|polled| {
            polled.queue.set(std::ptr::null());
            let mut left = polled.ready.borrow_mut();
            if !left.is_empty() {
                lock(self.0).ready.append(&mut left);
            }
        });
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes a member.
struct MemberWaker {
    queue: Arc<Mutex<Queue>>,
    slot: u32,
    is_queued: AtomicBool,
    is_later: AtomicBool,
}

impl MemberWaker {
    fn new(queue: &Arc<Mutex<Queue>>, slot: u32) -> Arc<MemberWaker> {
        let queue = Arc::clone(queue);
        Arc::new(MemberWaker {
            queue,
            slot,
            is_queued: AtomicBool::default(),
            is_later: AtomicBool::default(),
        })
    }
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        // Only the first wake-up since the last poll queues the member. `AcqRel` pairs with the swap in `poll_member`.
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        if POLLED.try_with(|polled| polled.take(self)).unwrap_or(false) {
            return;
        }
        let driver = {
            let mut queue = lock(&self.queue);
            queue.ready.push(self.slot);
            queue.driver.take()
        };
        // After the lock is free: the driver takes the same lock.
        driver.into_iter().for_each(Waker::wake);
    }
}

impl<T: Member> TaskTable<T> {
    /// Free yet; these events are looked for, too.
    pub(crate) fn new(events: Rc<Events>, pulse: Arc<Pulse>) -> Rc<TaskTable<T>> {
        let slots = RefCell::new(Slots { all: Vec::new(), free: Vacancies::default() });
        Rc::new(TaskTable {
            events,
            pulse,
            slots,
            queue: Arc::default(),
            later: RefCell::default(),
            expensive: RefCell::default(),
        })
    }

    /// What happens to the connections of the thread.
    pub(crate) fn events(&self) -> &Rc<Events> {
        &self.events
    }

    /// Adds a member, which is polled soon.
    pub(crate) fn add(&self, member: T) {
        let mut slots = self.slots.borrow_mut();
        let Slots { all, free } = &mut *slots;
        let slot = free.take(all.len()).unwrap_or_else(|| {
            // There are fewer descriptors than numbers.
            let slot = u32::try_from(all.len()).unwrap_or(u32::MAX);
            all.push(Slot { member: Presence::Free, waker: MemberWaker::new(&self.queue, slot) });
            all.len() - 1
        });
        let slot = &mut all[slot];
        slot.member = Presence::Here(member);
        slot.waker.wake_by_ref();
    }

    /// The members with the lowest ranks, at most `count` of them. A member without a rank is left out.
    pub(crate) fn lowest<R: Ord + Copy>(&self, count: usize, rank: impl Fn(&T) -> Option<R>) -> Vec<u32> {
        let slots = self.slots.borrow();
        let rank = |(slot, at): (u32, &Slot<T>)| match &at.member {
            Presence::Here(member) => rank(member).map(|rank| (rank, slot)),
            Presence::BeingPolled | Presence::Free => None,
        };
        let mut ranked: Vec<_> = (0..).zip(&slots.all).filter_map(rank).collect();
        if count < ranked.len() {
            ranked.select_nth_unstable(count);
            ranked.truncate(count);
        }
        ranked.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Changes a member and polls it soon. Does nothing if its slot is free by now.
    pub(crate) fn change(&self, slot: u32, change: impl FnOnce(&mut T)) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.all.get_mut(slot as usize) else { return };
        if let Presence::Here(member) = &mut slot.member {
            change(member);
            slot.waker.wake_by_ref();
        }
    }

    /// Polls all members whenever they are woken, until the events cannot be had any more.
    pub(crate) async fn run(&self) -> io::Error {
        let mut batch = Vec::new();
        loop {
            if let Err(error) = poll_fn(|cx| self.poll_rounds(cx, &mut batch)).await {
                return error;
            }
            // The runtime polls its own events only when no task is ready.
            tokio::task::yield_now().await;
        }
    }

    /// Ends all members.
    pub(crate) fn clear(&self) {
        loop {
            let members: Vec<_> = self.slots.borrow_mut().all.iter_mut().filter_map(Slot::take).collect();
            if members.is_empty() {
                return;
            }
        }
    }

    /// Ready when the runtime should look at all else.
    fn poll_rounds(&self, cx: &mut Context<'_>, batch: &mut Vec<u32>) -> Poll<io::Result<()>> {
        let started = Instant::now();
        let polling = Polling::begin(&self.queue);
        for _ in 0..ROUNDS {
            self.pulse.beat();
            // Sleep only after `poll` returned `Pending`: the last event may have woken no connection.
            let is_in_vain = self.events.poll(cx)?.is_pending();
            let waited = self.later.borrow().len() + self.expensive.borrow().len();
            if batch.is_empty() {
                let mut queue = polling.give(batch);
                if batch.is_empty() && waited == 0 && is_in_vain {
                    queue.driver = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            let is_quiet = batch.is_empty();
            self.poll_batch(batch, started);
            if waited > 0 {
                self.poll_later(is_quiet.then_some(started));
            }
            if (is_quiet && waited > 0) || started.elapsed() > SLICE || !coop::has_budget_remaining() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Polls them in turn, for as long as they may have the thread to themselves. A few of them share a reading of the
    /// clock.
    fn poll_batch(&self, batch: &mut Vec<u32>, started: Instant) {
        let mut polled = 0;
        let mut turn = Turn::begin();
        for &slot in batch.iter() {
            MEMBERS_READY.set(batch.len() - polled);
            polled += 1;
            self.poll_member(slot);
            // What members want of the runtime itself is counted for all of them together.
            let looks = polled % LOOKS_AT_CLOCK == 0;
            if !coop::has_budget_remaining() || (looks && turn.renew().instant - started > SLICE) {
                break;
            }
        }
        batch.drain(..polled);
    }

    /// The connection whose request used least of those for the site that used least of the processor lately.
    fn take_expensive(&self) -> Option<u32> {
        let mut sites = self.expensive.borrow_mut();
        let least = (0..sites.len()).min_by_key(|&at| shares::used(sites[at].0))?;
        let slot = sites[least].1.pop_front();
        if sites[least].1.is_empty() {
            sites.swap_remove(least);
        }
        slot.map(|(_, slot)| slot)
    }

    /// Polls connections that yielded: for a while if no other one is ready, else only one of them.
    fn poll_later(&self, started: Option<Instant>) {
        loop {
            // Neither kind waits for the other.
            let next = [self.later.borrow_mut().pop_front(), self.take_expensive()];
            if next == [None; 2] {
                break;
            }
            for slot in next.into_iter().flatten() {
                MEMBERS_READY.set(self.later.borrow().len() + 1);
                if let Some(slot) = self.slots.borrow().all.get(slot as usize) {
                    slot.waker.is_later.store(false, Ordering::Relaxed);
                }
                self.poll_member(slot);
            }
            if started.is_none_or(|started| started.elapsed() > SLICE) {
                break;
            }
        }
    }

    fn put_later(&self, slot: u32, place: Option<Place>) {
        let Some(Place { account, used_ns }) = place else { return self.later.borrow_mut().push_back(slot) };
        let mut sites = self.expensive.borrow_mut();
        let site = sites.iter().position(|(known, _)| *known == account).unwrap_or_else(|| {
            sites.push((account, VecDeque::new()));
            sites.len() - 1
        });
        let slots = &mut sites[site].1;
        slots.insert(slots.partition_point(|(used, _)| *used <= used_ns), (used_ns, slot));
    }

    fn poll_member(&self, slot: u32) {
        let (mut member, waker) = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.all.get_mut(slot as usize) else { return };
            // A wake-up from now on queues the member again. The member must see all writes before earlier wake-ups:
            // that needs a swap with `AcqRel`, and a store is not enough.
            slot.waker.is_queued.swap(false, Ordering::AcqRel);
            if slot.waker.is_later.load(Ordering::Relaxed) {
                // It yielded, and is polled when it is its turn.
                return;
            }
            let Some(member) = slot.take() else { return };
            (member, Waker::from(Arc::clone(&slot.waker)))
        };
        YIELDS.set(false);
        shares::take_yield();
        self.pulse.polls(member.number());
        self.events.allow(TURN_CALLS);
        let polled =
            catch_unwind(AssertUnwindSafe(|| Pin::new(&mut member).poll(&mut Context::from_waker(&waker))));
        // Tasks that are no members make as many calls as the runtime lets them.
        self.events.allow(u32::MAX);
        if let Ok(Poll::Pending) = polled {
            let place = &mut self.slots.borrow_mut().all[slot as usize];
            place.member = Presence::Here(member);
            let place_later = shares::take_yield();
            if (YIELDS.get() || place_later.is_some()) && !place.waker.is_later.swap(true, Ordering::Relaxed)
            {
                self.put_later(slot, place_later);
            }
            return;
        }
        // A fault of the server ends one connection only.
        drop(catch_unwind(AssertUnwindSafe(|| drop(member))));
        let mut slots = self.slots.borrow_mut();
        let Slots { all, free } = &mut *slots;
        all[slot as usize].member = Presence::Free;
        free.give(slot as usize, all, Slot::is_free);
    }
}

#[cfg(test)]
mod tests {
    use super::{LOOKS_AT_CLOCK, MANY, Member, MemberWaker, SLICE, Slot, TaskTable, is_busy, yield_turn};
    use crate::event_loop::runtime;
    use journal::shares::{self, Place};
    use net::{Endpoint, Events, ListenOptions, SocketAddress, bind};
    use std::cell::{Cell, RefCell};
    use std::future::{Future, pending, poll_fn};
    use std::io::Write;
    use std::net::TcpStream;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::{Duration, Instant};
    use tokio::sync::Notify;
    use tokio::task::{JoinHandle, spawn_blocking, spawn_local, yield_now};

    type Task = Pin<Box<dyn Future<Output = ()>>>;

    /// Yields once.
    async fn give_way() {
        let mut yielded = false;
        poll_fn(|_| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => {
                yield_turn();
                Poll::Pending
            }
        })
        .await;
    }

    impl Member for Task {
        fn number(&self) -> u64 {
            1
        }
    }

    impl Member for Ranked {
        fn number(&self) -> u64 {
            2
        }
    }

    /// Runs a test with a table that is polled meanwhile.
    fn with_crowd<F: Future<Output = ()>>(test: impl FnOnce(Rc<TaskTable<Task>>) -> F) {
        runtime(None).unwrap().block_on(async {
            let table = TaskTable::new(Events::new().unwrap(), Arc::default());
            let driver = Rc::clone(&table);
            let driver: JoinHandle<_> = spawn_local(async move { driver.run().await });
            tokio::time::timeout(Duration::from_secs(20), test(table)).await.expect("nobody is woken");
            driver.abort();
        });
    }

    async fn until(done: impl Fn() -> bool) {
        while !done() {
            yield_now().await;
        }
    }

    #[test]
    fn members_are_woken_from_anywhere_and_leave_their_seats() {
        with_crowd(async |table| {
            let (done, wake) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
            for _ in 0..3 {
                for _ in 0..10 {
                    let (done, wake) = (Rc::clone(&done), Rc::clone(&wake));
                    table.add(Box::pin(async move {
                        spawn_blocking(|| ()).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        done.set(done.get() + 1);
                        wake.notified().await;
                        done.set(done.get() + 1);
                    }));
                }
                until(|| done.get() == 10).await;
                wake.notify_waiters();
                until(|| done.get() == 20).await;
                done.set(0);
            }
            assert_eq!(table.slots.borrow().all.len(), 10);
        });
    }

    #[test]
    fn members_are_found_by_rank_and_changed() {
        runtime(None).unwrap().block_on(async {
            let table = TaskTable::new(Events::new().unwrap(), Arc::default());
            for rank in [Some(5), None, Some(1), Some(9), Some(3)] {
                table.add(Ranked(rank));
            }
            let lowest = |count| {
                let mut slots = table.lowest(count, |member| member.0);
                slots.sort_unstable();
                slots
            };
            assert_eq!(lowest(2), [2, 4]);
            table.change(2, |member| member.0 = Some(7));
            assert_eq!(lowest(2), [0, 4]);
            assert_eq!(lowest(100), [0, 2, 3, 4]);
            table.change(99, |member| member.0 = None);
        });
    }

    /// Yields as a request that used so much of a site's share.
    async fn yield_for(account: u64, used_ns: u64) {
        let mut yielded = false;
        poll_fn(|cx| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => {
                shares::yield_turn(Place { account, used_ns });
                // As a stream of HTTP/2 does; the connection keeps its place all the same.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn the_site_and_the_request_that_used_least_go_on_first() {
        with_crowd(async |table| {
            shares::charge(1, 2_000_000);
            shares::charge(2, 1_000_000);
            let order = Rc::new(RefCell::new(Vec::new()));
            for (name, place) in
                [("much", (1, 9)), ("little", (1, 3)), ("other", (2, 9)), ("at once", (0, 0))]
            {
                let order = Rc::clone(&order);
                table.add(Box::pin(async move {
                    if place.0 != 0 {
                        yield_for(place.0, place.1).await;
                    }
                    order.borrow_mut().push(name);
                    pending::<()>().await;
                }));
            }
            until(|| order.borrow().len() == 4).await;
            assert_eq!(*order.borrow(), ["at once", "other", "little", "much"]);
        });
    }

    struct Ranked(Option<u32>);

    impl Future for Ranked {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            std::task::Poll::Pending
        }
    }

    #[test]
    fn who_yields_comes_behind_those_who_come_later() {
        with_crowd(async |table| {
            let order = Rc::new(RefCell::new(Vec::new()));
            let (bulk, other) = (Rc::clone(&order), Rc::clone(&order));
            let (room, place) = (Rc::new(Notify::new()), Rc::clone(&table));
            let told = Rc::clone(&room);
            table.add(Box::pin(async move {
                bulk.borrow_mut().push("bulk");
                // It comes when the turn of the first one is over.
                place.add(Box::pin(async move { other.borrow_mut().push("other") }));
                give_way().await;
                bulk.borrow_mut().push("rest");
                told.notify_one();
            }));
            room.notified().await;
            assert_eq!(*order.borrow(), ["bulk", "other", "rest"]);
        });
    }

    #[test]
    fn who_yields_is_polled_although_others_never_rest() {
        with_crowd(async |table| {
            let done = Rc::new(Cell::new(false));
            let told = Rc::clone(&done);
            table.add(Box::pin(poll_fn(|cx| {
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            })));
            table.add(Box::pin(async move {
                for _ in 0..100 {
                    give_way().await;
                }
                told.set(true);
            }));
            until(|| done.get()).await;
        });
    }

    #[test]
    fn who_takes_long_does_not_hold_up_the_runtime() {
        with_crowd(async |table| {
            let (order, first) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Notify::new()));
            let (other, told) = (Rc::clone(&order), Rc::clone(&first));
            let accepting = spawn_local(async move {
                told.notified().await;
                other.borrow_mut().push("other");
            });
            let all = 3 * LOOKS_AT_CLOCK;
            for _ in 0..all {
                let (order, first) = (Rc::clone(&order), Rc::clone(&first));
                table.add(Box::pin(async move {
                    first.notify_one();
                    let started = Instant::now();
                    while started.elapsed() <= SLICE {}
                    order.borrow_mut().push("member");
                }));
            }
            accepting.await.unwrap();
            assert!(order.borrow().len() <= LOOKS_AT_CLOCK + 1, "{order:?}");
            until(|| order.borrow().len() == all + 1).await;
        });
    }

    #[test]
    fn many_who_are_ready_are_noticed() {
        with_crowd(async |table| {
            let busy = Rc::new(RefCell::new(Vec::new()));
            for _ in 0..=MANY {
                let busy = Rc::clone(&busy);
                table.add(Box::pin(async move { busy.borrow_mut().push(is_busy()) }));
            }
            until(|| busy.borrow().len() > MANY).await;
            assert!(busy.borrow()[0] && !busy.borrow()[1]);
        });
    }

    #[test]
    fn what_interests_nobody_hides_nothing_that_comes_later() {
        with_crowd(async |table| {
            let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
            let socket = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap().remove(0);
            let &SocketAddress::Inet(address) = socket.address() else { panic!("not TCP") };
            let listener = socket.into_tokio().unwrap();
            let (read, mut peers) = (Rc::new(Cell::new(0)), Vec::new());
            for _ in 0..2 {
                peers.push(TcpStream::connect(address).unwrap());
                let (mut client, _) = listener.accept(table.events()).await.unwrap();
                let read = Rc::clone(&read);
                table.add(Box::pin(async move {
                    poll_fn(|cx| client.poll_read(cx, &mut [0; 9])).await.unwrap();
                    read.set(read.get() + 1);
                    pending::<()>().await;
                }));
            }
            yield_now().await;
            for (at, peer) in peers.iter_mut().enumerate() {
                for _ in 0..2 {
                    peer.write_all(b"x").unwrap();
                    until(|| read.get() == at + 1).await;
                    // Free reads the second time.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
    }

    #[test]
    fn a_fault_ends_one_member() {
        with_crowd(async |table| {
            let done = Rc::new(Cell::new(false));
            let told = Rc::clone(&done);
            table.add(Box::pin(async { panic!("a fault of the server") }));
            table.add(Box::pin(async move { told.set(true) }));
            until(|| done.get()).await;
            assert_eq!(table.slots.borrow().all.iter().filter(|slot| slot.is_free()).count(), 2);
        });
    }

    #[test]
    fn a_seat_is_small() {
        assert!(size_of::<Slot<[u64; 4]>>() <= 48 && size_of::<MemberWaker>() <= 16);
    }

    #[test]
    fn all_members_can_be_ended() {
        with_crowd(async |table| {
            let held = Rc::new(());
            for _ in 0..3 {
                let held = Rc::clone(&held);
                table.add(Box::pin(async move {
                    pending::<()>().await;
                    drop(held);
                }));
            }
            yield_now().await;
            table.clear();
            assert_eq!(Rc::strong_count(&held), 1);
        });
    }
}

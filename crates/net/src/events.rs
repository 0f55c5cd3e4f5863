//! What happens to the connections that a thread accepted: a separate epoll instance, inside of tokio's.
//!
//! A place in it is a few bytes of a table. It owns no task and no allocation, so that a connection costs little while
//! it is idle. It is taken when there is something to wait for, and left by closing the descriptor.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How many events are taken at once.
const AT_ONCE: usize = 256;

/// So many events at once are taken as a sign that there are more by now.
const BUSY: usize = 8;

/// How many calls the end of a connection may take, whatever was made before in that turn.
const LAST_CALLS: u32 = 2;

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

thread_local! {
    /// The events of the connections that this thread opens.
    static CURRENT: RefCell<Weak<Events>> = const { RefCell::new(Weak::new()) };
    /// How often this thread took events, or bytes of a connection, from the kernel.
    static MOMENT: Cell<u64> = const { Cell::new(0) };
    /// The moment when it took events last.
    static EVENTS_TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// A number that grows whenever this thread takes events, or bytes of a connection, from the kernel. All bytes that it has
/// read arrived before this moment.
pub fn moment() -> u64 {
    MOMENT.get()
}

/// The [`moment`] when this thread took events last. What a connection had reported
/// ([`Stream::had_reported`](crate::Stream::had_reported)) arrived before.
pub fn events_moment() -> u64 {
    EVENTS_TAKEN.get()
}

/// Begins a new moment.
pub(crate) fn take_moment() -> u64 {
    MOMENT.set(MOMENT.get().wrapping_add(1));
    MOMENT.get()
}

/// The events of the connections of one thread.
pub struct Events {
    epoll: AsyncFd<OwnedFd>,
    taken: RefCell<Vec<epoll::Event>>,
    places: RefCell<Places>,
    /// How many calls may still be made before others have their turn.
    allowance: Cell<u32>,
}

#[derive(Default)]
struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
}

/// What is known of one descriptor.
#[derive(Default)]
struct Place {
    /// Tells events of a descriptor from those of an earlier one.
    generation: u32,
    state: State,
    /// Whether the kernel tells when it can be written to. It need not before a write blocks.
    tells_writable: bool,
    /// The task that waited last. It stays here when it is woken, because it usually waits again.
    waker: Option<Waker>,
}

impl Place {
    fn data(&self, index: u32) -> EventData {
        EventData::new_u64(u64::from(self.generation) << 32 | u64::from(index))
    }

    /// Edge-triggered: the kernel reports a change once, so a descriptor that stays ready costs no further events.
    fn flags(&self) -> EventFlags {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if self.tells_writable { flags | EventFlags::OUT } else { flags }
    }

    /// Returns the waker of before.
    #[inline(never)]
    fn set_waker(&mut self, waker: &Waker) -> Option<Waker> {
        self.waker.replace(waker.clone())
    }
}

/// For what a descriptor is ready, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State(u8);

impl State {
    const READABLE: u8 = 1;
    /// The peer sends no more, which is there to be read until it was.
    const ENDED: u8 = 2;
    const WRITABLE: u8 = 4;
    /// The kernel reported something to read, and nothing was read since.
    const UNREAD: u8 = 8;

    fn of(flags: EventFlags) -> State {
        let mut state = 0;
        if flags.contains(EventFlags::IN) {
            state |= State::READABLE | State::UNREAD;
        }
        if flags.contains(EventFlags::OUT) {
            state |= State::WRITABLE;
        }
        if flags.contains(EventFlags::RDHUP) {
            state |= State::READABLE | State::ENDED;
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            state |= State::READABLE | State::ENDED | State::WRITABLE;
        }
        State(state)
    }
}

/// What is taken to be known of a descriptor until a write blocks.
const WRITABLE: State = State(State::WRITABLE);

/// What a descriptor can be ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Wanted {
    Read = State::READABLE | State::UNREAD | State::ENDED,
    Write = State::WRITABLE,
    /// That the peer sends no more.
    End = State::ENDED,
}

impl Wanted {
    fn flags(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Events of nothing yet, on the event loop of this thread.
    ///
    /// Errors if the system has no descriptor left; panics outside of a tokio runtime.
    #[allow(unsafe_code)]
    pub fn new() -> io::Result<Rc<Events>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // SAFETY: the descriptor is owned, and stays the same for as long as its owner lives.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?;
        let taken = RefCell::new(Vec::with_capacity(AT_ONCE));
        Ok(Rc::new(Events { epoll, taken, places: RefCell::default(), allowance: Cell::new(u32::MAX) }))
    }

    /// Makes these the events of the connections that the calling thread opens ([`Stream::connect`](crate::Stream::connect)).
    pub fn make_current(self: &Rc<Events>) {
        CURRENT.set(Rc::downgrade(self));
    }

    pub(crate) fn current() -> Option<Rc<Events>> {
        CURRENT.with_borrow(Weak::upgrade)
    }

    /// Takes what happened, and wakes who waits for it. The task of the last call is woken when something happens
    /// later.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.epoll.poll_read_ready(cx))?;
            let count = self.look()?;
            if count < BUSY {
                guard.clear_ready();
            }
            if count > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Takes all that happened, and tells how much that was: who has its turn because its time is up has to know
    /// whether what it waited for came in time.
    fn look(&self) -> io::Result<usize> {
        let (mut all, most) = (0, self.places.borrow().all.len());
        loop {
            let count = self.look_once()?;
            all += count;
            // epoll gives one event for each descriptor; a full buffer means that there may be more.
            if count < AT_ONCE || all >= most {
                return Ok(all);
            }
        }
    }

    /// Takes what happened, up to so much at once, and tells how much that was.
    fn look_once(&self) -> io::Result<usize> {
        let mut taken = self.taken.borrow_mut();
        taken.clear();
        match epoll::wait(self.epoll.get_ref(), spare_capacity(&mut *taken), Some(&NO_WAIT)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        EVENTS_TAKEN.set(take_moment());
        for event in taken.iter() {
            self.note(event.data.u64(), State::of(event.flags));
        }
        Ok(taken.len())
    }

    /// Lets the next task make so many calls before it has to let others have their turn.
    pub fn allow(&self, calls: u32) {
        self.allowance.set(calls);
    }

    /// Lets the task that has its turn make so many calls more, if it has not that many left.
    fn allow_more(&self, calls: u32) {
        self.allowance.set(self.allowance.get().max(calls));
    }

    fn note(&self, data: u64, state: State) {
        let mut places = self.places.borrow_mut();
        let Ok(generation) = u32::try_from(data >> 32) else { return };
        let Ok(index) = usize::try_from(data & u64::from(u32::MAX)) else { return };
        // The descriptor may have been closed since, and its place be another one's.
        let Some(place) = places.all.get_mut(index).filter(|place| place.generation == generation) else {
            return;
        };
        let before = place.state;
        place.state.0 |= state.0;
        // A task sleeps only for what is not known yet.
        if place.state == before {
            return;
        }
        let Some(waker) = place.waker.take() else { return };
        // Waking may run code that borrows the places.
        drop(places);
        waker.wake_by_ref();
        let mut places = self.places.borrow_mut();
        let place = places.all.get_mut(index).filter(|place| place.generation == generation);
        match place {
            Some(place) if place.waker.is_none() => place.waker = Some(waker),
            // See `remove`.
            _ => {
                drop(places);
                drop(waker);
            }
        }
    }

    /// Adds a descriptor of which this is known; gives its place.
    fn add(&self, descriptor: BorrowedFd<'_>, known: State) -> io::Result<u32> {
        let mut places = self.places.borrow_mut();
        let index = match places.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(places.all.len()).map_err(io::Error::other)?;
                places.all.push(Place::default());
                index
            }
        };
        let place = &mut places.all[index as usize];
        (place.state, place.tells_writable) = (known, known != WRITABLE);
        if let Err(error) = epoll::add(self.epoll.get_ref(), descriptor, place.data(index), place.flags()) {
            places.free.push(index);
            return Err(error.into());
        }
        Ok(index)
    }

    fn remove(&self, index: u32) {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index as usize];
        let waker = place.waker.take();
        *place = Place { generation: place.generation.wrapping_add(1), ..Place::default() };
        places.free.push(index);
        // Dropping the waker may drop a task with descriptors in it, which borrows the places.
        drop(places);
        drop(waker);
    }

    /// Waits until a descriptor may be ready. The task of the last call is woken.
    #[inline]
    fn poll_place(&self, cx: &mut Context<'_>, index: u32, wanted: Wanted) -> Poll<()> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index as usize];
        if place.state.0 & wanted.flags() != 0 {
            return Poll::Ready(());
        }
        if !place.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            let before = place.set_waker(cx.waker());
            // See `remove`.
            drop(places);
            drop(before);
        }
        Poll::Pending
    }

    /// Gives what was known before.
    fn forget(&self, index: u32, flags: u8) -> State {
        let state = &mut self.places.borrow_mut().all[index as usize].state;
        let before = *state;
        state.0 &= !flags;
        before
    }

    fn is_known(&self, index: u32, wanted: Wanted) -> bool {
        self.places.borrow().all[index as usize].state.0 & wanted.flags() != 0
    }

    /// Takes note that a descriptor cannot be written to.
    fn block_writes(&self, index: u32, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index as usize];
        place.state.0 &= !State::WRITABLE;
        if !std::mem::replace(&mut place.tells_writable, true) {
            // If it can be written to by now, that is an event, too.
            epoll::modify(self.epoll.get_ref(), descriptor, place.data(index), place.flags())?;
        }
        Ok(())
    }

    /// Takes one call from what the task may make in this turn.
    #[inline]
    fn poll_allowance(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(left) = self.allowance.get().checked_sub(1) else {
            // The descriptor may still be ready, and no new edge would wake the task: it wakes itself for its next turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        self.allowance.set(left);
        Poll::Ready(())
    }
}

/// What is known of a descriptor, which has a place among the events as soon as it has to be waited for: one whose
/// request is there when it is accepted, and that is closed with the answer, never has.
#[derive(Debug)]
pub(crate) struct Registration {
    events: Rc<Events>,
    stage: Cell<Stage>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing was tried yet that it was not ready for.
    Untried,
    /// All was read that there was.
    Emptied,
    /// It has this place.
    Placed(u32),
}

impl Registration {
    /// That of a descriptor, which has to be closed first.
    pub(crate) fn new(events: &Rc<Events>) -> Registration {
        Registration { events: Rc::clone(events), stage: Cell::new(Stage::Untried) }
    }

    /// Waits until the descriptor may be ready. The task of the last call is woken.
    #[inline]
    pub(crate) fn poll(
        &self,
        cx: &mut Context<'_>,
        descriptor: BorrowedFd<'_>,
        wanted: Wanted,
    ) -> Poll<io::Result<()>> {
        match (self.stage.get(), wanted) {
            (Stage::Placed(index), _) => ready!(self.events.poll_place(cx, index, wanted)),
            (Stage::Emptied, Wanted::Read) => {
                let index = self.place(descriptor, WRITABLE)?;
                ready!(self.events.poll_place(cx, index, wanted));
            }
            (Stage::Untried | Stage::Emptied, _) => {}
        }
        self.events.poll_allowance(cx).map(Ok)
    }

    /// Lets the task that has its turn do something last that does not wait for another turn.
    pub(crate) fn allow_last(&self) {
        self.events.allow_more(LAST_CALLS);
    }

    /// Takes further calls from what the task may make in this turn, for one that did the work of several.
    pub(crate) fn spend(&self, calls: u32) {
        let allowance = &self.events.allowance;
        allowance.set(allowance.get().saturating_sub(calls));
    }

    /// Waits until the peer sends no more. The task of the last call is woken.
    pub(crate) fn poll_ended(
        &self,
        cx: &mut Context<'_>,
        descriptor: BorrowedFd<'_>,
    ) -> Poll<io::Result<()>> {
        let index = match self.stage.get() {
            Stage::Placed(index) => index,
            // Only connections with a place get events.
            Stage::Untried | Stage::Emptied => self.place(descriptor, WRITABLE)?,
        };
        self.events.poll_place(cx, index, Wanted::End).map(Ok)
    }

    /// Ready when something may have arrived that was not read. The task of the last call is woken.
    pub(crate) fn poll_stirred(&self, cx: &mut Context<'_>, descriptor: BorrowedFd<'_>) -> Poll<()> {
        let index = match self.stage.get() {
            Stage::Placed(index) => index,
            // A connection that cannot be watched is of no use.
            Stage::Untried | Stage::Emptied => match self.place(descriptor, WRITABLE) {
                Ok(index) => index,
                Err(_) => return Poll::Ready(()),
            },
        };
        self.events.poll_place(cx, index, Wanted::Read)
    }

    /// Takes note that the descriptor was not ready.
    pub(crate) fn blocked(&self, descriptor: BorrowedFd<'_>, wanted: Wanted) -> io::Result<()> {
        match (self.stage.get(), wanted) {
            (Stage::Placed(index), Wanted::Write) => self.events.block_writes(index, descriptor)?,
            (Stage::Placed(index), _) => _ = self.events.forget(index, wanted.flags()),
            (Stage::Untried | Stage::Emptied, Wanted::Write) => {
                self.place(descriptor, State::default())?;
            }
            (Stage::Untried | Stage::Emptied, _) => {
                self.place(descriptor, WRITABLE)?;
            }
        }
        Ok(())
    }

    /// Takes note of a read, which may have taken all that there was. Gives whether the kernel had reported something to
    /// read, and nothing was read since.
    pub(crate) fn was_read(&self, is_emptied: bool) -> bool {
        let forgotten = if is_emptied { State::READABLE | State::UNREAD } else { State::UNREAD };
        match self.stage.get() {
            Stage::Placed(index) => self.events.forget(index, forgotten).0 & State::UNREAD != 0,
            Stage::Untried | Stage::Emptied => {
                if is_emptied {
                    self.stage.set(Stage::Emptied);
                }
                false
            }
        }
    }

    /// Whether there may be something to read, as far as that is known without asking.
    pub(crate) fn may_have_more(&self) -> bool {
        match self.stage.get() {
            Stage::Untried => true,
            Stage::Emptied => false,
            Stage::Placed(index) => self.events.is_known(index, Wanted::Read),
        }
    }

    /// Takes note that no more can be written.
    pub(crate) fn filled(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.blocked(descriptor, Wanted::Write)
    }

    /// Whether the descriptor can be written to, and nothing else happened to it: no error, no end.
    pub(crate) fn is_only_writable(&self) -> bool {
        match self.stage.get() {
            Stage::Untried => false,
            Stage::Emptied => true,
            Stage::Placed(index) => self.events.places.borrow().all[index as usize].state == WRITABLE,
        }
    }

    fn place(&self, descriptor: BorrowedFd<'_>, known: State) -> io::Result<u32> {
        let index = self.events.add(descriptor, known)?;
        self.stage.set(Stage::Placed(index));
        Ok(index)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Stage::Placed(index) = self.stage.get() {
            self.events.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    /// A registration that has its place, and gets an event at once.
    fn placed(events: &Rc<Events>, stream: &UnixStream) -> Registration {
        let registration = Registration::new(events);
        registration.blocked(stream.as_fd(), Wanted::Write).unwrap();
        registration
    }

    async fn until(stream: &UnixStream, registration: &Registration, wanted: Wanted) {
        poll_fn(|cx| {
            while let Poll::Ready(result) = registration.events.poll(cx) {
                result.unwrap();
            }
            registration.poll(cx, stream.as_fd(), wanted)
        })
        .await
        .unwrap();
    }

    async fn is_ready(stream: &UnixStream, registration: &Registration, wanted: Wanted) -> bool {
        poll_fn(|cx| Poll::Ready(registration.poll(cx, stream.as_fd(), wanted))).await.is_ready()
    }

    #[test]
    fn what_happens_is_told_once() {
        run(async {
            let events = Events::new().unwrap();
            let (mut ours, mut theirs) = pair();
            let registration = placed(&events, &ours);
            until(&ours, &registration, Wanted::Write).await;
            assert!(!is_ready(&ours, &registration, Wanted::Read).await, "nothing came");
            theirs.write_all(b"x").unwrap();
            until(&ours, &registration, Wanted::Read).await;
            assert_eq!(ours.read(&mut [0; 9]).unwrap(), 1);
            registration.was_read(true);
            assert!(!is_ready(&ours, &registration, Wanted::Read).await, "all was read");
            drop(theirs);
            until(&ours, &registration, Wanted::Read).await;
            registration.was_read(true);
            until(&ours, &registration, Wanted::Read).await;
            assert_eq!(ours.read(&mut [0; 9]).unwrap(), 0, "the end is there until it was read");
        });
    }

    #[test]
    fn a_place_is_taken_when_there_is_something_to_wait_for() {
        run(async {
            let events = Events::new().unwrap();
            let (ours, mut theirs) = pair();
            let registration = Registration::new(&events);
            assert!(is_ready(&ours, &registration, Wanted::Read).await, "that is to be tried");
            theirs.write_all(b"x").unwrap();
            registration.was_read(true);
            assert!(is_ready(&ours, &registration, Wanted::Write).await);
            assert!(events.places.borrow().all.is_empty());
            until(&ours, &registration, Wanted::Read).await;
            assert_eq!(events.places.borrow().all.len(), 1, "earlier events are reported");
            drop(registration);
            assert_eq!(events.places.borrow().free, [0]);
        });
    }

    #[test]
    fn events_of_the_one_before_are_nobody_s() {
        run(async {
            let events = Events::new().unwrap();
            let (ours, mut theirs) = pair();
            let before = placed(&events, &ours);
            theirs.write_all(b"x").unwrap();
            drop(before);
            let (next, _kept) = pair();
            let registration = placed(&events, &next);
            assert_eq!(events.look().unwrap(), 2, "the descriptor is not closed yet");
            assert!(!is_ready(&next, &registration, Wanted::Read).await);
        });
    }

    #[test]
    fn all_that_happened_is_known_at_once() {
        run(async {
            let events = Events::new().unwrap();
            let ends: Vec<_> = (0..3 * AT_ONCE).map(|_| pair()).collect();
            let all: Vec<_> = ends.iter().map(|(ours, _)| placed(&events, ours)).collect();
            assert_eq!(events.look().unwrap(), all.len());
            for (_, theirs) in &ends {
                (&*theirs).write_all(b"x").unwrap();
            }
            poll_fn(|cx| events.poll(cx)).await.unwrap();
            for ((ours, _), registration) in ends.iter().zip(&all) {
                assert!(is_ready(ours, registration, Wanted::Read).await);
            }
        });
    }

    #[test]
    fn a_task_without_allowance_comes_again() {
        run(async {
            let events = Events::new().unwrap();
            let (ours, _theirs) = pair();
            let registration = placed(&events, &ours);
            until(&ours, &registration, Wanted::Write).await;
            events.allow(1);
            assert!(is_ready(&ours, &registration, Wanted::Write).await);
            assert!(!is_ready(&ours, &registration, Wanted::Write).await);
            registration.allow_last();
            for left in (0..LAST_CALLS).rev() {
                assert!(is_ready(&ours, &registration, Wanted::Write).await);
                assert_eq!(events.allowance.get(), left);
            }
        });
    }

    #[test]
    fn that_it_can_be_written_to_is_told_only_after_a_write_blocked() {
        run(async {
            let events = Events::new().unwrap();
            let (ours, _theirs) = pair();
            let registration = Registration::new(&events);
            registration.blocked(ours.as_fd(), Wanted::Read).unwrap();
            assert_eq!(events.look().unwrap(), 0);
            assert!(is_ready(&ours, &registration, Wanted::Write).await);
            for is_first in [true, false] {
                registration.blocked(ours.as_fd(), Wanted::Write).unwrap();
                assert!(!is_ready(&ours, &registration, Wanted::Write).await);
                assert_eq!(events.look().unwrap(), usize::from(is_first), "it is asked for once");
                assert_eq!(is_ready(&ours, &registration, Wanted::Write).await, is_first);
            }
        });
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_waited_once_is_woken_by_all_that_is_new() {
        run(async {
            let events = Events::new().unwrap();
            let (mut ours, mut theirs) = pair();
            let registration = placed(&events, &ours);
            events.look().unwrap();
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(Arc::clone(&wakes));
            let cx = &mut Context::from_waker(&waker);
            assert!(registration.poll(cx, ours.as_fd(), Wanted::Read).is_pending());
            for round in 1..=3 {
                for _ in 0..2 {
                    theirs.write_all(b"x").unwrap();
                    assert_eq!(events.look().unwrap(), 1);
                    assert_eq!(wakes.0.load(Ordering::Relaxed), round, "it did not read what it knows of");
                }
                assert_eq!(ours.read(&mut [0; 9]).unwrap(), 2);
                registration.was_read(true);
            }
            drop(registration);
            drop(waker);
            assert_eq!(Arc::strong_count(&wakes), 1);
        });
    }

    #[test]
    fn a_place_is_small() {
        assert!(size_of::<Place>() <= 24 && size_of::<Registration>() <= 16);
    }
}

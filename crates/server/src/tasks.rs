//! What runs on a thread of the worker: it accepts connections, serves them, and goes over from site to site.

use crate::conn::ConnectionTask;
use crate::datagram_routes::{Ends, Letter, Routes};
use crate::datagram_sessions::{Delivered, Sessions};
use crate::detached::Detached;
use crate::event_loop::{Order, runtime};
use crate::pulse::Pulse;
use crate::receiving::Receiving;
use crate::services::Services;
use crate::successor::Settings;
use crate::task::{ACCEPT_PAUSE, Task, make_room};
use crate::task_table::TaskTable;
use crate::thread::{Counted, Serving, Thread};
use journal::Level;
use journal::counters::{self, Count};
use net::{BoundSocket, DatagramPort, Events, Listener, SocketType};
use site::Site;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc as events, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet, spawn_local};
use wire::Timer;

/// How long requests may take to end that were told to.
const ENDING: Duration = Duration::from_secs(1);

/// Sockets of a thread, each with the place of its address among [`Site::listens`].
pub(crate) type ThreadSockets = Vec<(usize, BoundSocket)>;

/// A socket on the event loop of its thread.
pub(crate) enum Listening {
    /// Connections are accepted.
    Connections(Listener),
    /// Datagrams are received.
    Datagrams(DatagramPort),
}

/// Another site for a thread.
pub(crate) struct Succession {
    pub(crate) site: Arc<Site>,
    pub(crate) settings: Settings,
    /// The addresses that the thread does not listen on yet, on its event loop, each with its place in the site.
    pub(crate) listeners: Vec<(usize, Listening)>,
    /// Where to tell that it serves now.
    pub(crate) done: events::UnboundedSender<()>,
}

/// What a thread is to do besides serving its connections.
pub(crate) enum Change {
    /// Serve another site.
    Site(Succession),
    /// Accept connections from the sockets of another thread, until the sender of `until` is gone.
    Help { listeners: Vec<(usize, Listening)>, until: watch::Receiver<()> },
    /// Read the sockets of datagrams, or leave them to another process.
    Reading { reads: bool, done: events::UnboundedSender<()> },
}

/// The channel of a thread, in both directions.
pub(crate) struct ThreadChannel {
    pub(crate) orders: watch::Receiver<Order>,
    /// Receives a message when it accepts connections.
    pub(crate) ready: mpsc::Sender<io::Result<Member>>,
    /// Its signs of life.
    pub(crate) pulse: Arc<Pulse>,
    /// The ways of datagrams to other threads and processes.
    pub(crate) routes: Arc<Routes>,
}

/// A thread that accepts.
pub(crate) struct Member {
    pub(crate) changes: events::UnboundedSender<Change>,
    /// Its event loop.
    pub(crate) runtime: Handle,
}

/// Serves until a command ends it; reports when it accepts.
pub(crate) fn serve(
    index: usize,
    (site, settings): (Arc<Site>, Settings),
    sockets: ThreadSockets,
    channel: ThreadChannel,
) -> io::Result<()> {
    journal::name_thread(u32::try_from(index + 1).unwrap_or(0));
    let ThreadChannel { orders, ready, pulse, routes } = channel;
    pulse.begin();
    let runtime = match runtime(Some(&pulse)) {
        Ok(runtime) => runtime,
        Err(error) => {
            drop(ready.send(Err(error)));
            return Ok(());
        }
    };
    let thread = Thread::new(site, settings, pulse, Sessions::new(&routes, index));
    let result = runtime.block_on(async {
        let mut tasks = match Tasks::start(&thread, index, sockets) {
            Ok(tasks) => tasks,
            Err(error) => {
                drop(ready.send(Err(error)));
                return Ok(());
            }
        };
        let (sender, changes) = events::unbounded_channel();
        drop(ready.send(Ok(Member { changes: sender, runtime: Handle::current() })));
        drop(ready);
        let table = Rc::clone(&tasks.table);
        let result = until_told(&thread, orders, changes, &mut tasks).await;
        tasks.services.end().await;
        table.clear();
        result
    });
    // Jobs off the event loop may still run; their results are dropped.
    runtime.shutdown_background();
    result
}

/// What a thread cannot serve without.
struct Tasks {
    timers: JoinHandle<()>,
    table: Rc<TaskTable<Task>>,
    connections: JoinHandle<io::Error>,
    accepting: JoinSet<()>,
    doors: Vec<Door>,
    services: Services,
}

/// A socket that connections are accepted from.
struct Door {
    /// The place of its address among [`Site::listens`] of the site that serves.
    place: Rc<Cell<usize>>,
    task: AbortHandle,
    /// What receives, if datagrams arrive.
    receiving: Option<Rc<Receiving>>,
}

impl Tasks {
    fn start(thread: &Rc<Thread>, index: usize, sockets: ThreadSockets) -> io::Result<Tasks> {
        let timers = Rc::clone(&thread.timers);
        timers.make_current();
        let timers = spawn_local(async move { timers.run().await });
        let mut tasks = Tasks::new(timers, index, Arc::clone(&thread.pulse))?;
        let (table, owner) = (Rc::downgrade(&tasks.table), Rc::downgrade(thread));
        let adopt = move |request, serving: &Rc<Serving>| {
            let (Some(table), Some(thread)) = (table.upgrade(), owner.upgrade()) else { return false };
            let Some(detached) = Detached::new(request, serving, &thread) else { return false };
            table.add(Task::Detached(Box::new(detached)));
            true
        };
        let _ = thread.adopt.set(Box::new(adopt));
        listeners(sockets)?.into_iter().for_each(|(place, listener)| tasks.open(thread, place, listener));
        tasks.services.start(&thread.serving().site);
        Ok(tasks)
    }

    /// Those that every thread has, and its timers.
    fn new(timers: JoinHandle<()>, index: usize, pulse: Arc<Pulse>) -> io::Result<Tasks> {
        let events = Events::new()?;
        events.make_current();
        let table = TaskTable::new(events, pulse);
        let connections = Rc::clone(&table);
        let connections = spawn_local(async move { connections.run().await });
        let (accepting, services) = (JoinSet::new(), Services::new(index));
        Ok(Tasks { timers, table, connections, accepting, doors: Vec::new(), services })
    }

    /// Accepts from the sockets of another thread for as long as that is wanted.
    fn help(
        &mut self,
        thread: &Rc<Thread>,
        listeners: Vec<(usize, Listening)>,
        mut until: watch::Receiver<()>,
    ) {
        self.doors.retain(|door| !door.task.is_finished());
        let first = self.doors.len();
        listeners.into_iter().for_each(|(place, listener)| self.open(thread, place, listener));
        let opened: Vec<_> = self.doors[first..].iter().map(|door| door.task.clone()).collect();
        spawn_local(async move {
            while until.changed().await.is_ok() {}
            opened.iter().for_each(AbortHandle::abort);
        });
    }

    fn open(&mut self, thread: &Rc<Thread>, place: usize, listening: Listening) {
        let place = Rc::new(Cell::new(place));
        let (thread, table, its_place) = (Rc::clone(thread), Rc::clone(&self.table), Rc::clone(&place));
        let (task, receiving) = match listening {
            Listening::Connections(listener) => {
                (self.accepting.spawn_local(accept(thread, table, its_place, listener)), None)
            }
            Listening::Datagrams(port) => {
                let receiving = Rc::new(Receiving { thread, table, place: its_place, port: Rc::new(port) });
                (self.accepting.spawn_local(Rc::clone(&receiving).run()), Some(receiving))
            }
        };
        self.doors.push(Door { place, task, receiving });
    }

    /// Gives the datagrams that other threads or processes read to their sessions, or begins those.
    async fn open_mail(&mut self, thread: &Thread) {
        while let Some(Letter { datagram, begins }) = next_letter(thread) {
            let receives = |receiving: &&Rc<Receiving>| receiving.port.address() == datagram.bound;
            let mut receiving = self.doors.iter().filter_map(|door| door.receiving.as_ref());
            match receiving.find(receives).filter(|_| begins) {
                Some(receiving) => receiving.begin(Ends::of(&datagram), &datagram.payload).await,
                // Its address is gone if it was to begin a session.
                None if begins => {}
                None => thread.sessions.routes.search_on(datagram),
            }
        }
    }

    /// Goes over to another site. Nothing can fail here: no thread may stay behind when others went over.
    async fn succeed(&mut self, thread: &Rc<Thread>, succession: Succession) {
        self.services.end().await;
        let Succession { site, settings, listeners, done } = succession;
        let before = thread.serving();
        self.doors.retain(|door| match site.find(&before.site.listens[door.place.get()], door.place.get()) {
            Some(place) => {
                door.place.set(place);
                true
            }
            None => {
                door.task.abort();
                false
            }
        });
        self.services.start(&site);
        thread.succeed(site, settings);
        listeners.into_iter().for_each(|(place, listener)| self.open(thread, place, listener));
        // Who asked may have given up waiting.
        let _ = done.send(());
    }

    /// Gives the reason, once a task has ended that never should.
    async fn broken(&mut self) -> io::Error {
        loop {
            tokio::select! {
                _ = &mut self.timers => return io::Error::other("the timers of a thread stand still"),
                end = &mut self.connections => return end.unwrap_or_else(io::Error::other),
                Some(end) = self.accepting.join_next() => {
                    if !end.is_err_and(|error| error.is_cancelled()) {
                        return io::Error::other("a thread accepts no more");
                    }
                }
            }
        }
    }
}

/// Puts sockets on the event loop of this thread, or of the one whose handle was entered.
pub(crate) fn listeners(sockets: ThreadSockets) -> io::Result<Vec<(usize, Listening)>> {
    let listening = |socket: BoundSocket| match socket.endpoint().transport {
        SocketType::Stream => socket.into_tokio().map(Listening::Connections),
        SocketType::Datagram => socket.into_datagram_port().map(Listening::Datagrams),
    };
    sockets.into_iter().map(|(place, socket)| Ok((place, listening(socket)?))).collect()
}

async fn accept(thread: Rc<Thread>, table: Rc<TaskTable<Task>>, place: Rc<Cell<usize>>, listener: Listener) {
    loop {
        match listener.accept(table.events()).await {
            Ok((stream, peer)) => {
                counters::add(Count::Accepted);
                let mut counted = Counted::new(&thread);
                if make_room(&thread, &table) && counted.is_none() {
                    tokio::task::yield_now().await;
                    counted = Counted::new(&thread);
                }
                if let Some(counted) = counted {
                    table.add(Task::Connection(ConnectionTask::new(counted, place.get(), stream, &peer)));
                } else if thread.places.complains(Instant::now()) {
                    let text = format!("{} worker_connections are not enough", thread.places.limit());
                    thread.log(Level::Error, &text);
                }
            }
            Err(error) => {
                let reason = net::system_message(&error);
                thread.log(Level::Crit, &format!("accept() failed ({reason})"));
                thread.places.lack();
                make_room(&thread, &table);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn until_told(
    thread: &Rc<Thread>,
    mut orders: watch::Receiver<Order>,
    mut changes: events::UnboundedReceiver<Change>,
    tasks: &mut Tasks,
) -> io::Result<()> {
    let told = loop {
        tokio::select! {
            told = orders.wait_for(|order| *order != Order::Serve) => {
                break told.map_or(Order::Stop, |order| *order);
            }
            Some(change) = changes.recv() => match change {
                Change::Site(succession) => tasks.succeed(thread, succession).await,
                Change::Help { listeners, until } => tasks.help(thread, listeners, until),
                Change::Reading { reads, done } => {
                    thread.sessions.set_reads(reads);
                    // The worker may have given up waiting.
                    let _ = done.send(());
                }
            },
            () = has_mail(thread) => tasks.open_mail(thread).await,
            error = tasks.broken() => return Err(error),
        }
    };
    if told == Order::Stop {
        return Ok(());
    }
    tasks.accepting.shutdown().await;
    thread.draining.set(true);
    thread.timers.wake_all();
    let timer = Timer::new(&thread.timers);
    let limit = thread.serving().settings.shutdown_timeout;
    let bounded = async {
        match limit {
            Some(limit) if timer.within(limit, until_idle(thread)).await.is_err() => {
                thread.end_requests();
                let _ = timer.within(ENDING, until_idle(thread)).await;
            }
            Some(_) => {}
            None => until_idle(thread).await,
        }
    };
    tokio::select! {
        () = bounded => Ok(()),
        () = forward_mail(thread) => Ok(()),
        _ = orders.wait_for(|order| *order == Order::Stop) => Ok(()),
        error = tasks.broken() => Err(error),
    }
}

async fn has_mail(thread: &Thread) {
    thread.sessions.routes.has_mail(thread.sessions.thread).await;
}

/// The next letter that is not for a session of the thread; those that are get theirs.
fn next_letter(thread: &Thread) -> Option<Letter> {
    let sessions = &thread.sessions;
    loop {
        let letter = sessions.routes.letter(sessions.thread)?;
        let Letter { datagram, .. } = &letter;
        if sessions.deliver(&Ends::of(datagram), &datagram.payload) == Delivered::First {
            return Some(letter);
        }
    }
}

/// Gives datagrams to the sessions of a thread that drains. No session begins.
async fn forward_mail(thread: &Thread) {
    loop {
        has_mail(thread).await;
        while let Some(Letter { datagram, begins }) = next_letter(thread) {
            match begins {
                true => thread.sessions.routes.begin_elsewhere(datagram),
                false => thread.sessions.routes.search_on(datagram),
            }
        }
        if !thread.sessions.routes.is_fed() {
            thread.timers.wake_all();
        }
    }
}

/// Waits until nothing goes on here, and no older worker receives through this one.
async fn until_idle(thread: &Thread) {
    while !thread.is_idle() || thread.sessions.routes.feeds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Settings, Tasks, Thread, events, until_told};
    use crate::event_loop::runtime;
    use site::testing;
    use std::io;
    use std::rc::Rc;
    use std::sync::Arc;
    use tokio::sync::watch;
    use tokio::task::spawn_local;

    /// A thread with these tasks that nothing ends.
    fn end_with(
        timers: impl Future<Output = ()> + 'static,
        accept: impl Future<Output = ()> + 'static,
    ) -> String {
        let settings =
            Settings { connections: 1, shutdown_timeout: None, request_memory: None, drains: false };
        let thread = Thread::new(testing::served("location / { }"), settings, Arc::default(), Rc::default());
        let (_order, orders) = watch::channel(Order::Serve);
        let (_change, changes) = events::unbounded_channel();
        let end: io::Result<()> = runtime(None).unwrap().block_on(async {
            let mut tasks = Tasks::new(spawn_local(timers), 0, Arc::default()).unwrap();
            tasks.accepting.spawn_local(accept);
            until_told(&thread, orders, changes, &mut tasks).await
        });
        end.unwrap_err().to_string()
    }

    #[test]
    fn a_thread_that_lost_a_task_ends() {
        let panics = || async { panic!("a fault of the server") };
        assert!(end_with(panics(), std::future::pending()).contains("timers"));
        assert!(end_with(std::future::pending(), panics()).contains("accepts"));
    }
}

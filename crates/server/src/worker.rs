//! The worker: threads that share a site, each with its own sockets, timers and connections.

use crate::commands::Commands;
use crate::conn::Connection;
use crate::logs;
use crate::places::Places;
use crate::site::Site;
use crate::timer::{Timer, Timers};
use contract::counters::{self, Activity, Count};
use contract::log::{self, Level};
use net::channel::{Command, Report, WorkerEnd};
use net::{BoundSocket, Listener};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc as events, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_local};

/// How long accepting pauses when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How many jobs off the event loop of a thread run at once; more wait for their turn. It is what a thread
/// pool of nginx has by default.
const JOBS: usize = 32;

/// What a worker process serves, and how.
pub struct Worker {
    /// The configuration.
    pub site: Arc<Site>,
    /// The sockets of each address, in the order of [`Site::listens`].
    pub sockets: Vec<Vec<BoundSocket>>,
    /// How many threads serve.
    pub threads: usize,
    /// The processors that may run each thread, by their numbers; none leaves the choice to the kernel.
    pub processors: Vec<Vec<usize>>,
    /// How many connections a thread may have.
    pub connections: usize,
    /// How long a graceful stop may take.
    pub shutdown_timeout: Option<Duration>,
    /// The line to the supervisor.
    pub channel: WorkerEnd,
}

/// What all threads are told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Serve,
    Drain,
    Stop,
}

/// Serves until the supervisor says otherwise, or is gone. The supervisor is told when all threads accept.
///
/// # Errors
/// A thread could not be started, or ended by itself. All others are ended then, too: clients would wait in
/// its queues for ever, and the supervisor starts a worker that is whole.
pub fn run(worker: Worker) -> io::Result<()> {
    let threads = worker.threads.max(1);
    let mut shares: Vec<Vec<(usize, BoundSocket)>> = (0..threads).map(|_| Vec::new()).collect();
    for (listen, sockets) in worker.sockets.iter().enumerate() {
        for (thread, share) in net::bound::share_out(sockets, threads)?.into_iter().enumerate() {
            shares[thread].extend(share.into_iter().map(|socket| (listen, socket)));
        }
    }
    drop(worker.sockets);
    let (order, orders) = watch::channel(Order::Serve);
    let (ready, readiness) = mpsc::channel();
    let (end, mut ends) = events::unbounded_channel();
    let start = |(index, sockets): (usize, Vec<(usize, BoundSocket)>)| {
        let (site, orders, ready) = (Arc::clone(&worker.site), orders.clone(), ready.clone());
        let end = End(end.clone());
        let settings = (worker.connections, worker.shutdown_timeout);
        let processors = worker.processors.get(index).cloned().unwrap_or_default();
        std::thread::Builder::new().name(format!("serve-{index}")).spawn(move || {
            let _end = end;
            stay_on(&processors, &site);
            serve(index, site, sockets, settings, (orders, ready))
        })
    };
    let handles: Vec<_> = shares.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
    drop(ready);
    for _ in 0..threads {
        readiness.recv().map_err(|_| io::Error::other("a thread of the worker ended"))??;
    }
    worker.channel.send(&Report::Ready)?;
    runtime()?.block_on(async {
        tokio::select! {
            () = obey(worker.channel, &worker.site, &order, &orders) => {}
            () = logs::write_when_due(&worker.site) => {}
            _ = ends.recv() => { order.send_replace(Order::Stop); }
        }
    });
    drop(orders);
    for handle in handles {
        handle.join().map_err(|_| io::Error::other("a thread of the worker panicked"))??;
    }
    logs::finish(&worker.site);
    Ok(())
}

/// Ties this thread to its processors, where it has any of its own.
fn stay_on(processors: &[usize], site: &Site) {
    if processors.is_empty() {
        return;
    }
    if let Err(error) = net::processors::stay_on(processors) {
        let reason = net::system_message(&error);
        site.log(Level::Alert, &format!("sched_setaffinity() failed ({reason})"));
    }
}

/// Tells of the end of a thread, however it comes.
struct End(events::UnboundedSender<()>);

impl Drop for End {
    fn drop(&mut self) {
        // Nobody listens where the end was asked for.
        let _ = self.0.send(());
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(JOBS).build()
}

/// Passes the supervisor's commands on until the threads are to end.
async fn obey(
    channel: WorkerEnd,
    site: &Site,
    order: &watch::Sender<Order>,
    _orders: &watch::Receiver<Order>,
) {
    let Ok(mut commands) = Commands::new(channel) else {
        order.send_replace(Order::Drain);
        return;
    };
    loop {
        match commands.next().await {
            Command::ReopenLogs => logs::reopen(site, &commands),
            Command::Terminate => {
                order.send_replace(Order::Stop);
                return;
            }
            Command::Quit => {
                order.send_replace(Order::Drain);
                drained_or_terminated(&mut commands, order).await;
                return;
            }
        }
    }
}

/// Waits until the last thread has ended, or for the command to end at once.
async fn drained_or_terminated(commands: &mut Commands, order: &watch::Sender<Order>) {
    // `obey` holds one receiver, every thread that still serves another one.
    let drained = async {
        while order.receiver_count() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = commands.terminated() => { order.send_replace(Order::Stop); }
    }
}

/// What the connections of a thread share.
pub(crate) struct Thread {
    pub(crate) site: Arc<Site>,
    pub(crate) timers: Rc<Timers>,
    /// Whether idle connections are to be closed and no response keeps one.
    pub(crate) draining: Cell<bool>,
    pub(crate) places: Places,
}

/// Counts a connection for as long as it lives.
pub(crate) struct Counted {
    thread: Rc<Thread>,
    /// What the connection does.
    pub(crate) activity: Activity,
}

impl Counted {
    fn new(thread: &Rc<Thread>) -> Option<Counted> {
        thread.places.take().then(|| {
            counters::add(Count::Handled);
            Counted { thread: Rc::clone(thread), activity: Activity::new() }
        })
    }

    pub(crate) fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.thread.places.release();
    }
}

type Signals = (watch::Receiver<Order>, mpsc::Sender<io::Result<()>>);

fn serve(
    index: usize,
    site: Arc<Site>,
    sockets: Vec<(usize, BoundSocket)>,
    (limit, shutdown_timeout): (usize, Option<Duration>),
    (orders, ready): Signals,
) -> io::Result<()> {
    log::name_thread(u32::try_from(index + 1).unwrap_or(0));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            drop(ready.send(Err(error)));
            return Ok(());
        }
    };
    let thread = Rc::new(Thread {
        site,
        timers: Timers::new(),
        draining: Cell::new(false),
        places: Places::new(limit),
    });
    let local = LocalSet::new();
    let result = local.block_on(&runtime, async {
        let tasks = match Tasks::start(&thread, sockets) {
            Ok(tasks) => tasks,
            Err(error) => {
                drop(ready.send(Err(error)));
                return Ok(());
            }
        };
        drop(ready.send(Ok(())));
        drop(ready);
        until_told(&thread, orders, tasks, shutdown_timeout).await
    });
    // Jobs off the event loop may still run; nobody waits for their results.
    runtime.shutdown_background();
    result
}

/// What a thread cannot serve without.
struct Tasks {
    timers: JoinHandle<()>,
    accepting: JoinSet<()>,
}

impl Tasks {
    fn start(thread: &Rc<Thread>, sockets: Vec<(usize, BoundSocket)>) -> io::Result<Tasks> {
        let timers = Rc::clone(&thread.timers);
        let timers = spawn_local(async move { timers.run().await });
        let mut accepting = JoinSet::new();
        for (listen, socket) in sockets {
            accepting.spawn_local(accept(Rc::clone(thread), listen, socket.into_tokio()?));
        }
        Ok(Tasks { timers, accepting })
    }

    /// Gives the reason, once a task has ended that never should.
    async fn broken(&mut self) -> io::Error {
        tokio::select! {
            _ = &mut self.timers => io::Error::other("the timers of a thread stand still"),
            Some(_) = self.accepting.join_next() => io::Error::other("a thread accepts no more"),
        }
    }
}

async fn accept(thread: Rc<Thread>, listen: usize, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                counters::add(Count::Accepted);
                let mut counted = Counted::new(&thread);
                if make_room(&thread) && counted.is_none() {
                    tokio::task::yield_now().await;
                    counted = Counted::new(&thread);
                }
                if let Some(counted) = counted {
                    spawn_local(Connection::new(counted, listen, stream, &peer));
                } else if thread.places.complains(Instant::now()) {
                    let text = format!("{} worker_connections are not enough", thread.places.limit());
                    thread.site.log(Level::Error, &text);
                }
            }
            Err(error) => {
                let reason = net::system_message(&error);
                thread.site.log(Level::Crit, &format!("accept() failed ({reason})"));
                thread.places.lack();
                make_room(&thread);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Asks idle connections to give way, where there will soon be no place for new ones; whether it did.
fn make_room(thread: &Thread) -> bool {
    let now = Instant::now();
    let asks = thread.places.asks(now);
    if asks {
        if thread.places.complains(now) {
            let limit = thread.places.limit();
            let text = format!("{limit} worker_connections are not enough, reusing connections");
            thread.site.log(Level::Warn, &text);
        }
        thread.timers.wake_all();
    }
    asks
}

async fn until_told(
    thread: &Rc<Thread>,
    mut orders: watch::Receiver<Order>,
    mut tasks: Tasks,
    shutdown_timeout: Option<Duration>,
) -> io::Result<()> {
    let told = tokio::select! {
        told = orders.wait_for(|order| *order != Order::Serve) => told.map_or(Order::Stop, |order| *order),
        error = tasks.broken() => return Err(error),
    };
    if told == Order::Stop {
        return Ok(());
    }
    tasks.accepting.shutdown().await;
    thread.draining.set(true);
    thread.timers.wake_all();
    let drained = async {
        while thread.places.taken() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let timer = Timer::new(&thread.timers);
    let bounded = async {
        match shutdown_timeout {
            Some(limit) => drop(timer.within(limit, drained).await),
            None => drained.await,
        }
    };
    tokio::select! {
        () = bounded => Ok(()),
        _ = orders.wait_for(|order| *order == Order::Stop) => Ok(()),
        error = tasks.broken() => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{End, JOBS, Order, Tasks, Thread, Timers, events, runtime, until_told};
    use crate::places::Places;
    use crate::prototypes::site;
    use std::cell::Cell;
    use std::io;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::task::{JoinSet, LocalSet, spawn_local};

    /// How a thread ends whose tasks are these; it is never told to.
    fn end_with(
        timers: impl Future<Output = ()> + 'static,
        accept: impl Future<Output = ()> + 'static,
    ) -> String {
        let thread = Rc::new(Thread {
            site: site("location / { }"),
            timers: Timers::new(),
            draining: Cell::new(false),
            places: Places::new(1),
        });
        let (_order, orders) = watch::channel(Order::Serve);
        let end: io::Result<()> = LocalSet::new().block_on(&runtime().unwrap(), async {
            let mut accepting = JoinSet::new();
            accepting.spawn_local(accept);
            let tasks = Tasks { timers: spawn_local(timers), accepting };
            until_told(&thread, orders, tasks, None).await
        });
        end.unwrap_err().to_string()
    }

    #[test]
    fn a_thread_that_lost_a_task_ends() {
        let panics = || async { panic!("a fault of the server") };
        assert!(end_with(panics(), std::future::pending()).contains("timers"));
        assert!(end_with(std::future::pending(), panics()).contains("accepts"));
    }

    #[test]
    fn many_slow_jobs_do_not_take_all_threads_of_the_system() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let job = || {
            let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::park_timeout(Duration::from_millis(5));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            running
        };
        runtime().unwrap().block_on(async {
            let jobs: Vec<_> = (0..10 * JOBS).map(|_| tokio::task::spawn_blocking(job)).collect();
            for job in jobs {
                assert!(job.await.unwrap() <= JOBS);
            }
        });
    }

    #[test]
    fn the_end_of_a_thread_is_told_however_it_comes() {
        let (end, mut ends) = events::unbounded_channel();
        let end = End(end);
        let thread = std::thread::spawn(move || {
            let _end = end;
            panic!("a fault of the server");
        });
        assert!(thread.join().is_err());
        assert!(ends.try_recv().is_ok());
    }
}

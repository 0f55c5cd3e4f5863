//! The worker: threads that share a site, each with its own sockets, timers and connections.

use crate::commands::Commands;
use crate::conn::Connection;
use crate::site::Site;
use crate::timer::{Timer, Timers};
use contract::log::{self, Level};
use net::channel::{Command, Report, WorkerEnd};
use net::{BoundSocket, Listener};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// How long accepting pauses when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What a worker process serves, and how.
pub struct Worker {
    /// The configuration.
    pub site: Arc<Site>,
    /// The sockets of each address, in the order of [`Site::listens`].
    pub sockets: Vec<Vec<BoundSocket>>,
    /// How many threads serve.
    pub threads: usize,
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
    let start = |(index, sockets): (usize, Vec<(usize, BoundSocket)>)| {
        let (site, orders, ready) = (Arc::clone(&worker.site), orders.clone(), ready.clone());
        let settings = (worker.connections, worker.shutdown_timeout);
        std::thread::Builder::new()
            .name(format!("serve-{index}"))
            .spawn(move || serve(index, site, sockets, settings, (orders, ready)))
    };
    let handles: Vec<_> = shares.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
    drop(ready);
    for _ in 0..threads {
        readiness.recv().map_err(|_| io::Error::other("a thread of the worker ended"))??;
    }
    worker.channel.send(&Report::Ready)?;
    runtime()?.block_on(obey(worker.channel, &worker.site, &order, &orders));
    drop(orders);
    for handle in handles {
        handle.join().map_err(|_| io::Error::other("a thread of the worker panicked"))?;
    }
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
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
            Command::ReopenLogs => reopen_logs(site, &commands),
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

fn reopen_logs(site: &Site, commands: &Commands) {
    for file in site.logs.iter() {
        if let (Err(error), Some(path)) = (file.open(), file.path()) {
            commands.report(format!("open() \"{}\" failed: {error}", path.display()));
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
    connections: Cell<usize>,
    limit: usize,
}

/// Counts a connection for as long as it lives.
pub(crate) struct Counted(Rc<Thread>);

impl Counted {
    fn new(thread: &Rc<Thread>) -> Option<Counted> {
        let count = thread.connections.get();
        if count >= thread.limit {
            return None;
        }
        thread.connections.set(count + 1);
        Some(Counted(Rc::clone(thread)))
    }

    pub(crate) fn thread(&self) -> &Rc<Thread> {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

type Signals = (watch::Receiver<Order>, mpsc::Sender<io::Result<()>>);

fn serve(
    index: usize,
    site: Arc<Site>,
    sockets: Vec<(usize, BoundSocket)>,
    (limit, shutdown_timeout): (usize, Option<Duration>),
    (orders, ready): Signals,
) {
    log::name_thread(u32::try_from(index + 1).unwrap_or(0));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            drop(ready.send(Err(error)));
            return;
        }
    };
    let thread = Rc::new(Thread {
        site,
        timers: Timers::new(),
        draining: Cell::new(false),
        connections: Cell::new(0),
        limit,
    });
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let listening = listen(&thread, sockets);
        let accepting = match listening {
            Ok(tasks) => tasks,
            Err(error) => {
                drop(ready.send(Err(error)));
                return;
            }
        };
        drop(ready.send(Ok(())));
        drop(ready);
        until_told(&thread, orders, accepting, shutdown_timeout).await;
    });
    // Jobs off the event loop may still run; nobody waits for their results.
    runtime.shutdown_background();
}

type Tasks = Vec<tokio::task::JoinHandle<()>>;

fn listen(thread: &Rc<Thread>, sockets: Vec<(usize, BoundSocket)>) -> io::Result<Tasks> {
    let timers = Rc::clone(&thread.timers);
    tokio::task::spawn_local(async move { timers.run().await });
    let accept_on = |(listen, socket): (usize, BoundSocket)| {
        let listener = socket.into_tokio()?;
        Ok(tokio::task::spawn_local(accept(Rc::clone(thread), listen, listener)))
    };
    sockets.into_iter().map(accept_on).collect()
}

async fn accept(thread: Rc<Thread>, listen: usize, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match Counted::new(&thread) {
                Some(counted) => {
                    tokio::task::spawn_local(Connection::new(counted, listen, stream, &peer));
                }
                None => {
                    let text = format!("{} worker_connections are not enough", thread.limit);
                    thread.site.log(Level::Error, &text);
                }
            },
            Err(error) => {
                thread.site.log(Level::Crit, &format!("accept() failed: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn until_told(
    thread: &Rc<Thread>,
    mut orders: watch::Receiver<Order>,
    accepting: Tasks,
    shutdown_timeout: Option<Duration>,
) {
    let told = orders.wait_for(|order| *order != Order::Serve).await.map_or(Order::Stop, |order| *order);
    for task in &accepting {
        task.abort();
    }
    if told == Order::Stop {
        return;
    }
    for task in accepting {
        // A cancelled task is no error here.
        drop(task.await);
    }
    thread.draining.set(true);
    thread.timers.wake_all();
    let drained = async {
        while thread.connections.get() > 0 {
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
        () = bounded => {}
        _ = orders.wait_for(|order| *order == Order::Stop) => {}
    }
}

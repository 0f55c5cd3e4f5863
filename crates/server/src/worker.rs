//! The worker: threads that share a site, each with its own sockets, timers and connections.

use crate::adoption::{Adoption, Crew, share_again, share_all};
use crate::commands::Commands;
use crate::datagram_routes::Routes;
use crate::event_loop::{Order, runtime};
use crate::logs;
use crate::neighbours::Neighbours;
use crate::pulse::{Alarm, Pulse};
use crate::spare_memory::SpareMemory;
use crate::successor::{Replay, Settings};
use crate::tasks::{ThreadChannel, ThreadSockets, serve};
use crate::watchdog::{Sign, Watchdog};
use contract::reloads;
use journal::Level;
use net::channel::{Command, Report, Told, WorkerEnd};
use net::{BoundSocket, DatagramLink};
use site::Site;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{mpsc as events, watch};

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
    /// What may change while it serves.
    pub settings: Settings,
    /// How another configuration is compiled, which comes over the channel.
    pub replay: Arc<Replay>,
    /// The line to the supervisor.
    pub channel: WorkerEnd,
    /// The line to a worker that has sessions of datagrams that came to these sockets.
    pub older: Option<DatagramLink>,
}

/// Serves until the supervisor says otherwise, or is gone. The supervisor gets a message when all threads accept.
///
/// # Errors
/// A thread could not be started, or ended by itself. All others are ended then, too: clients would wait in
/// its queues for ever, and the supervisor starts a worker that is whole.
pub fn run(worker: Worker) -> io::Result<()> {
    let mut site = Arc::clone(&worker.site);
    let result = run_crew(worker, &mut site);
    if let Err(error) = &result {
        site.log(Level::Emerg, &format!("the worker failed ({})", net::system_message(error)));
    }
    result
}

/// `site` is the one that serves, at all times.
fn run_crew(worker: Worker, site: &mut Arc<Site>) -> io::Result<()> {
    let threads = worker.threads.max(1);
    let groups = worker.sockets.iter().map(Vec::as_slice).enumerate();
    let shares = share_all(groups, threads);
    let sockets = shares.iter().map(share_again).collect();
    drop(worker.sockets);
    let (order, orders) = watch::channel(Order::Serve);
    let (end, mut ends) = events::unbounded_channel();
    let alarm = Arc::new(Alarm::default());
    let pulses: Vec<_> = (0..threads).map(|_| Pulse::new(&alarm)).collect();
    let routes = Routes::new(threads, worker.older.is_none());
    let start = |(index, sockets): (usize, ThreadSockets)| {
        let (pulse, routes) = (Arc::clone(&pulses[index]), Arc::clone(&routes));
        let (ready, readiness) = mpsc::channel();
        let channel = ThreadChannel { orders: orders.clone(), ready, pulse, routes };
        let (site, settings, end) =
            (Arc::clone(&worker.site), worker.settings, End(end.clone(), orders.clone()));
        let processors = worker.processors.get(index).cloned().unwrap_or_default();
        let thread = std::thread::Builder::new().name(format!("serve-{index}")).spawn(move || {
            let _end = end;
            stay_on(&processors, &site);
            serve(index, (site, settings), sockets, channel)
        })?;
        Ok((thread, readiness))
    };
    if worker.site.is_encrypted() {
        // Nobody waits for it but a client that comes at once, who would in any case.
        drop(std::thread::Builder::new().name("seed".to_owned()).spawn(tls::seed));
    }
    let started: Vec<_> = shares.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
    let (handles, readiness): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let ended = |_| io::Error::other("a thread of the worker ended");
    // Each thread has its own channel, so that members, sockets and pulses have the same order.
    let members: Vec<_> = readiness
        .into_iter()
        .map(|readiness: mpsc::Receiver<_>| readiness.recv().map_err(ended)?)
        .collect::<io::Result<_>>()?;
    worker.channel.send(&Report::Ready)?;
    // The first site ends with the last that was served by it.
    drop(worker.site);
    let changes = members.iter().map(|member| member.changes.clone()).collect();
    let neighbours = Neighbours::new(routes, changes);
    let mut crew = Crew::new(site, members, sockets, (worker.replay, neighbours));
    let watchdog = Watchdog::new(pulses, alarm);
    runtime(None)?.block_on(async {
        worker.older.into_iter().for_each(|older| crew.neighbours.follow(older));
        tokio::select! {
            () = obey(worker.channel, &mut crew, watchdog, (&order, &orders)) => {}
            _ = ends.recv() => { order.send_replace(Order::Stop); }
        }
    });
    drop(orders);
    for handle in handles {
        handle.join().map_err(|_| io::Error::other("a thread of the worker panicked"))??;
    }
    logs::finish(crew.site);
    Ok(())
}

/// Ties this thread to its processors, if the configuration names any.
fn stay_on(processors: &[usize], site: &Site) {
    if processors.is_empty() {
        return;
    }
    if let Err(error) = net::processors::stay_on(processors) {
        let reason = net::system_message(&error);
        site.log(Level::Alert, &format!("sched_setaffinity() failed ({reason})"));
    }
}

/// Reports an unexpected end of a thread, whatever its cause.
struct End(events::UnboundedSender<()>, watch::Receiver<Order>);

impl Drop for End {
    fn drop(&mut self) {
        // A thread that has drained leaves the others the time that they need.
        if *self.1.borrow() == Order::Serve {
            let _ = self.0.send(());
        }
    }
}

/// Passes the supervisor's commands on until the threads are to end.
async fn obey(
    channel: WorkerEnd,
    crew: &mut Crew<'_>,
    mut watchdog: Watchdog,
    (order, _orders): (&watch::Sender<Order>, &watch::Receiver<Order>),
) {
    let Ok(mut commands) = Commands::new(channel) else {
        order.send_replace(Order::Drain);
        return;
    };
    let mut adoption: Option<Adoption> = None;
    let mut spare_memory = SpareMemory::default();
    loop {
        let (site, past) = (Arc::clone(crew.site), crew.past.clone());
        let told = tokio::select! {
            told = commands.next() => told,
            () = logs::write_when_due(&site) => continue,
            () = logs::write_for(&past) => continue,
            () = spare_memory.give_back() => continue,
            sign = watchdog.sign(|thread| crew.has_connections(thread)) => {
                match sign {
                    Sign::NeedsHelp { thread, helper } => crew.help(thread, helper),
                    Sign::GoesOn { thread } => crew.end_help(thread),
                    Sign::StandsStill { thread, message } => {
                        let place = site.place_of(|scope| watchdog.served(thread).is(scope));
                        site.log(Level::Error, &(message + &place.unwrap_or_default()));
                    }
                    Sign::Message(text) => site.log(Level::Error, &text),
                }
                continue;
            }
            compiled = Adoption::compiled(&mut adoption) => {
                adoption = None;
                let (report, before) = crew.take_over(compiled).await;
                spare_memory.after_compiling(before);
                commands.report(&report);
                continue;
            }
        };
        match told {
            Told::Parcel(Ok(parcel)) => adoption = Some(crew.adopt(parcel)),
            Told::Parcel(Err(error)) => {
                commands.report(&Report::Declined(0, net::system_message(&error)));
            }
            Told::Newer(link) => crew.neighbours.lead(link),
            Told::Command(Command::ReopenLogs) => logs::reopen(crew.site, &past, &commands),
            Told::Command(Command::Reloads(told)) => reloads::set(told),
            Told::Command(Command::Terminate) => {
                order.send_replace(Order::Stop);
                return;
            }
            Told::Command(Command::Quit) => {
                order.send_replace(Order::Drain);
                crew.neighbours.leave();
                crew.close_sockets();
                let reopen = |commands: &Commands| logs::reopen(&site, &past, commands);
                tokio::select! {
                    () = drained_or_terminated(&mut commands, order, reopen) => {}
                    () = logs::write_when_due(&site) => {}
                    () = logs::write_for(&past) => {}
                }
                crew.neighbours.finish().await;
                return;
            }
        }
    }
}

/// Waits until the last thread has ended, or for the command to end at once.
async fn drained_or_terminated(
    commands: &mut Commands,
    order: &watch::Sender<Order>,
    reopen: impl Fn(&Commands),
) {
    // `obey` holds one receiver, every thread that still serves another one.
    let drained = async {
        while order.receiver_count() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = commands.terminated(reopen) => { order.send_replace(Order::Stop); }
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Order, events, watch};

    #[test]
    fn an_end_that_nobody_asked_for_is_told() {
        for (order, is_told) in [(Order::Serve, true), (Order::Drain, false)] {
            let (end, mut ends) = events::unbounded_channel();
            let end = End(end, watch::channel(order).1);
            let thread = std::thread::spawn(move || {
                let _end = end;
                panic!("a fault of the server");
            });
            assert!(thread.join().is_err());
            assert_eq!(ends.try_recv().is_ok(), is_told);
        }
    }
}

//! A worker that serves takes another configuration over: it is compiled next to the serving threads, which then go
//! over to it, each at once.

use crate::neighbours::Neighbours;
use crate::successor::{Replay, Settings, Successor};
use crate::tasks::{Change, Member, Succession, ThreadSockets, listeners};
use journal::Level;
use net::bound::{has_connections, share_out};
use net::channel::{Parcel, Report};
use net::{BoundSocket, SocketType, system_message};
use site::Site;
use site::ThreadGuard;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc as events, oneshot, watch};

/// Of so many sockets of a thread it is known whether connections wait.
const SOCKETS_LOOKED_AT: usize = 256;

/// The serving threads, and what they serve.
pub(crate) struct Crew<'a> {
    pub(crate) site: &'a mut Arc<Site>,
    threads: Vec<Member>,
    /// The sockets of each thread.
    sockets: Vec<ThreadSockets>,
    /// For each thread that stands still and has help: what ends when its helper should stop.
    help: Vec<Option<watch::Sender<()>>>,
    replay: Arc<Replay>,
    /// The lines to workers with the same sockets of datagrams.
    pub(crate) neighbours: Rc<Neighbours>,
    /// The sites before, as long as anything is served by them.
    pub(crate) past: Vec<Weak<Site>>,
}

/// A configuration that is being compiled.
pub(crate) struct Adoption {
    generation: u32,
    compiled: oneshot::Receiver<Result<Ready, String>>,
}

/// A configuration that can serve.
struct Ready {
    site: Arc<Site>,
    settings: Settings,
    sockets: Vec<(usize, BoundSocket)>,
}

impl Adoption {
    /// Ready when the configuration is compiled, or cannot be. It may be dropped without loss.
    pub(crate) async fn compiled(adoption: &mut Option<Adoption>) -> Compiled {
        let Some(adoption) = adoption else { return std::future::pending().await };
        let result = (&mut adoption.compiled).await;
        let result = result.unwrap_or_else(|_| Err("the configuration could not be compiled".to_owned()));
        Compiled { generation: adoption.generation, result }
    }
}

/// The result of the compiling.
pub(crate) struct Compiled {
    generation: u32,
    result: Result<Ready, String>,
}

impl Crew<'_> {
    /// Threads that serve a site, and the sockets of each.
    pub(crate) fn new<'a>(
        site: &'a mut Arc<Site>,
        threads: Vec<Member>,
        sockets: Vec<ThreadSockets>,
        (replay, neighbours): (Arc<Replay>, Rc<Neighbours>),
    ) -> Crew<'a> {
        let help = threads.iter().map(|_| None).collect();
        tls::set_served(Arc::clone(&site.certificates));
        Crew { site, threads, sockets, help, replay, neighbours, past: Vec::new() }
    }

    /// Whether connections wait to be accepted by a thread, or datagrams to be read if this process reads them. Of many
    /// sockets only the first ones are looked at.
    pub(crate) fn has_connections(&self, thread: usize) -> bool {
        let sockets = self.sockets[thread].iter().map(|(_, socket)| socket);
        let is_ours = |socket: &&BoundSocket| {
            self.neighbours.reads() || socket.endpoint().transport == SocketType::Stream
        };
        has_connections(sockets.filter(is_ours).take(SOCKETS_LOOKED_AT)).unwrap_or(false)
    }

    /// Drops the listening sockets. As long as another process has them open, connections wait in them.
    pub(crate) fn close_sockets(&mut self) {
        self.sockets.iter_mut().for_each(Vec::clear);
        self.help.iter_mut().for_each(|help| *help = None);
    }

    /// Lets another thread accept connections instead of a thread that is blocked.
    pub(crate) fn help(&mut self, thread: usize, helper: usize) {
        let own = &self.sockets[helper];
        let is_own = |socket: &BoundSocket| own.iter().any(|(_, other)| socket.is_shared_with(other));
        let others = self.sockets[thread].iter().filter(|(_, socket)| !is_own(socket));
        let others = others.map(|(place, socket)| (*place, socket.share())).collect();
        let helper = &self.threads[helper];
        let listeners = {
            let _entered = helper.runtime.enter();
            listeners(others)
        };
        match listeners {
            Ok(listeners) => {
                let (until, ends) = watch::channel(());
                // A helper that has ended ends the worker, too.
                drop(helper.changes.send(Change::Help { listeners, until: ends }));
                self.help[thread] = Some(until);
            }
            Err(error) => {
                let reason = system_message(&error);
                self.site.log(Level::Error, &format!("a thread cannot help another one ({reason})"));
            }
        }
    }

    /// Ends the help for a thread that goes on.
    pub(crate) fn end_help(&mut self, thread: usize) {
        self.help[thread] = None;
    }

    /// Begins to compile what a parcel brought, with the state of the site that serves.
    pub(crate) fn adopt(&self, parcel: Parcel) -> Adoption {
        let Parcel { generation, record, logs, sockets } = parcel;
        let (replay, kept) = (Arc::clone(&self.replay), self.site.kept.clone());
        let (done, compiled) = oneshot::channel();
        site::build(move |guard: Option<ThreadGuard>| {
            let compile = || {
                let Successor { mut site, settings } = replay(&record, kept)?;
                hand_out(&site, logs)?;
                site.compiled_by = guard;
                Ok(Ready { site: Arc::new(site), settings, sockets })
            };
            // The supervisor may have given up waiting.
            drop(done.send(compile()));
        });
        Adoption { generation, compiled }
    }

    /// Lets all threads go over; the report says whether they serve it now. Where they do, the site before comes with it.
    pub(crate) async fn take_over(&mut self, compiled: Compiled) -> (Report, Option<Arc<Site>>) {
        let generation = compiled.generation;
        let taken_over = match compiled.result {
            Ok(ready) => self.go_over(ready).await.map_err(|error| system_message(&error)),
            Err(reason) => Err(reason),
        };
        match taken_over {
            Ok(before) => (Report::Adopted(generation), Some(before)),
            Err(reason) => (Report::Declined(generation, reason), None),
        }
    }

    /// All that may fail comes before the first thread gets the site, so that either all serve it or none does. A thread that
    /// ended meanwhile ends the worker.
    async fn go_over(&mut self, ready: Ready) -> io::Result<Arc<Site>> {
        let Ready { site, settings, sockets } = ready;
        let shares = shares(sockets, self.threads.len());
        let added: Vec<_> = shares.iter().map(share_again).collect();
        let listeners = |(thread, share): (&Member, ThreadSockets)| {
            let _entered = thread.runtime.enter();
            listeners(share)
        };
        let listeners: Vec<_> = self.threads.iter().zip(shares).map(listeners).collect::<io::Result<_>>()?;
        let (done, mut results) = events::unbounded_channel();
        let ended = || io::Error::other("a thread of the worker ended");
        for (thread, listeners) in self.threads.iter().zip(listeners) {
            let succession = Succession { site: Arc::clone(&site), settings, listeners, done: done.clone() };
            thread.changes.send(Change::Site(succession)).map_err(|_| ended())?;
        }
        drop(done);
        for _ in &self.threads {
            results.recv().await.ok_or_else(ended)?;
        }
        for (sockets, added) in self.sockets.iter_mut().zip(added) {
            let kept = std::mem::take(sockets)
                .into_iter()
                .filter_map(|(place, socket)| Some((site.find(&self.site.listens[place], place)?, socket)));
            *sockets = kept.chain(added).collect();
        }
        crate::logs::hand_over(self.site, &site);
        tls::set_served(Arc::clone(&site.certificates));
        let before = std::mem::replace(self.site, site);
        self.past.retain(|past| past.strong_count() > 0);
        self.past.push(Arc::downgrade(&before));
        Ok(before)
    }
}

/// Gives log files to a site. The supervisor opened them, because the worker may not.
fn hand_out(site: &Site, files: Vec<std::os::fd::OwnedFd>) -> Result<(), String> {
    let logs: Vec<_> = site.logs.iter().filter(|log| log.path().is_some()).collect();
    if logs.len() != files.len() {
        return Err(format!("{} log files were given for {}", files.len(), logs.len()));
    }
    logs.iter().zip(files).for_each(|(log, file)| log.take_over(File::from(file)));
    Ok(())
}

/// A share of the sockets for each thread.
fn shares(sockets: Vec<(usize, BoundSocket)>, threads: usize) -> Vec<ThreadSockets> {
    let mut groups: Vec<(usize, Vec<BoundSocket>)> = Vec::new();
    for (place, socket) in sockets {
        match groups.last_mut().filter(|(last, _)| *last == place) {
            Some((_, group)) => group.push(socket),
            None => groups.push((place, vec![socket])),
        }
    }
    let groups = groups.iter().map(|(place, group)| (*place, &group[..]));
    share_all(groups, threads)
}

/// Shares the sockets of several addresses out among threads.
pub(crate) fn share_all<'a>(
    groups: impl Iterator<Item = (usize, &'a [BoundSocket])>,
    threads: usize,
) -> Vec<ThreadSockets> {
    let mut shares: Vec<ThreadSockets> = (0..threads).map(|_| Vec::new()).collect();
    for (place, sockets) in groups {
        for (thread, share) in share_out(sockets, threads).into_iter().enumerate() {
            shares[thread].extend(share.into_iter().map(|socket| (place, socket)));
        }
    }
    shares
}

/// The same descriptors once more.
pub(crate) fn share_again(share: &ThreadSockets) -> ThreadSockets {
    share.iter().map(|(place, socket)| (*place, socket.share())).collect()
}

#[cfg(test)]
mod tests {
    use super::{Change, Crew, Member, Ready, events};
    use crate::event_loop::runtime;
    use crate::neighbours::Neighbours;
    use crate::successor::Settings;
    use net::bind::bind;
    use net::{Endpoint, ListenOptions, SocketAddress};
    use site::testing;
    use std::cell::Cell;
    use std::sync::Arc;

    /// A socket that the last thread cannot take keeps the first from going over, too.
    #[test]
    fn all_threads_go_over_or_none() {
        let address = SocketAddress::Abstract(format!("crew-{}", std::process::id()).into_bytes());
        let socket =
            || bind(&Endpoint::stream(address.clone()), &ListenOptions::default(), 1).unwrap().remove(0);
        let settings =
            Settings { connections: 1, shutdown_timeout: None, request_memory: None, drains: false };
        let [healthy, other, ended] = [(); 3].map(|()| runtime(None).unwrap());
        let handles = [&healthy, &other, &ended].map(|runtime| runtime.handle().clone());
        drop(ended);
        for (failing, runtime) in [(true, &handles[2]), (false, &handles[1])] {
            let (members, mut successions): (Vec<_>, Vec<_>) = [&handles[0], runtime]
                .map(|runtime| {
                    let (successions, received) = events::unbounded_channel();
                    (Member { changes: successions, runtime: runtime.clone() }, received)
                })
                .into_iter()
                .unzip();
            let mut current = testing::served("location / { }");
            let before = Arc::clone(&current);
            let sockets = members.iter().map(|_| Vec::new()).collect();
            let replay = Arc::new(|_: &[u8], _| Err("nothing is replayed".to_owned()));
            let neighbours = Neighbours::new(Arc::default(), Vec::new());
            let mut crew = Crew::new(&mut current, members, sockets, (replay, neighbours));
            let ready =
                Ready { site: testing::served("location / { }"), settings, sockets: vec![(0, socket())] };
            let told = Cell::new(0);
            let went = healthy.block_on(async {
                let answer = async {
                    for received in &mut successions {
                        match received.recv().await {
                            Some(Change::Help { .. } | Change::Reading { .. }) => unreachable!(),
                            Some(Change::Site(succession)) => {
                                told.set(told.get() + 1);
                                succession.done.send(()).unwrap();
                            }
                            None => std::future::pending().await,
                        }
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    went = crew.go_over(ready) => went,
                    () = answer => unreachable!(),
                }
            });
            assert_eq!(went.is_err(), failing, "{:?}", went.err());
            assert_eq!(Arc::ptr_eq(&before, &current), failing);
            let unread = successions.iter_mut().filter_map(|received| received.try_recv().ok()).count();
            assert_eq!(told.get() + unread, if failing { 0 } else { 2 });
        }
    }
}

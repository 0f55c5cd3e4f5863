//! A worker that serves takes another configuration over: it is compiled beside the serving threads, which then go
//! over to it, each at once.

use crate::site::Site;
use crate::successor::{Replay, Settings, Successor};
use crate::thread::{Member, Share, Succession, listeners};
use net::bound::share_out;
use net::channel::{Parcel, Report};
use net::{BoundSocket, system_message};
use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc as events;
use tokio::task::{JoinHandle, spawn_blocking};

/// The serving threads, and what they serve.
pub(crate) struct Crew<'a> {
    pub(crate) site: &'a mut Arc<Site>,
    pub(crate) threads: Vec<Member>,
    pub(crate) replay: Arc<Replay>,
    /// The sites before, as long as anything is served by them.
    pub(crate) past: Vec<Weak<Site>>,
}

/// A configuration that is being compiled.
pub(crate) struct Adoption {
    generation: u32,
    compiled: JoinHandle<Result<Ready, String>>,
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

/// What became of the compiling.
pub(crate) struct Compiled {
    generation: u32,
    result: Result<Ready, String>,
}

impl Crew<'_> {
    /// Begins to compile what a parcel brought, with the state of the site that serves.
    pub(crate) fn adopt(&self, parcel: Parcel) -> Adoption {
        let Parcel { generation, record, logs, sockets } = parcel;
        let (replay, kept) = (Arc::clone(&self.replay), self.site.kept.clone());
        let compiled = spawn_blocking(move || {
            let Successor { site, settings } = replay(&record, kept)?;
            hand_out(&site, logs)?;
            Ok(Ready { site: Arc::new(site), settings, sockets })
        });
        Adoption { generation, compiled }
    }

    /// Lets all threads go over; the report says whether they serve it now.
    pub(crate) async fn take_over(&mut self, compiled: Compiled) -> Report {
        let generation = compiled.generation;
        let taken_over = match compiled.result {
            Ok(ready) => self.go_over(ready).await.map_err(|error| system_message(&error)),
            Err(reason) => Err(reason),
        };
        match taken_over {
            Ok(()) => Report::Adopted(generation),
            Err(reason) => Report::Declined(generation, reason),
        }
    }

    /// All that may fail comes before the first thread is told, so that either all serve it or none does. A thread that
    /// ended meanwhile ends the worker.
    async fn go_over(&mut self, ready: Ready) -> io::Result<()> {
        let Ready { site, settings, sockets } = ready;
        let shares = shares(sockets, self.threads.len())?;
        let listeners = |(thread, share): (&Member, Share)| {
            let _entered = thread.runtime.enter();
            listeners(share)
        };
        let listeners: Vec<_> = self.threads.iter().zip(shares).map(listeners).collect::<io::Result<_>>()?;
        let (done, mut results) = events::unbounded_channel();
        let ended = || io::Error::other("a thread of the worker ended");
        for (thread, listeners) in self.threads.iter().zip(listeners) {
            let succession = Succession { site: Arc::clone(&site), settings, listeners, done: done.clone() };
            thread.successions.send(succession).map_err(|_| ended())?;
        }
        drop(done);
        for _ in &self.threads {
            results.recv().await.ok_or_else(ended)?;
        }
        crate::logs::hand_over(self.site, &site);
        let before = std::mem::replace(self.site, site);
        self.past.retain(|past| past.strong_count() > 0);
        self.past.push(Arc::downgrade(&before));
        Ok(())
    }
}

/// Gives log files to a site, which were opened by somebody who may.
fn hand_out(site: &Site, files: Vec<std::os::fd::OwnedFd>) -> Result<(), String> {
    let logs: Vec<_> = site.logs.iter().filter(|log| log.path().is_some()).collect();
    if logs.len() != files.len() {
        return Err(format!("{} log files were given for {}", files.len(), logs.len()));
    }
    logs.iter().zip(files).for_each(|(log, file)| log.take_over(File::from(file)));
    Ok(())
}

/// A share of the sockets for each thread.
fn shares(sockets: Vec<(usize, BoundSocket)>, threads: usize) -> io::Result<Vec<Share>> {
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
) -> io::Result<Vec<Share>> {
    let mut shares: Vec<Share> = (0..threads).map(|_| Vec::new()).collect();
    for (place, sockets) in groups {
        for (thread, share) in share_out(sockets, threads)?.into_iter().enumerate() {
            shares[thread].extend(share.into_iter().map(|socket| (place, socket)));
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::{Crew, Member, Ready, events};
    use crate::prototypes::site;
    use crate::successor::Settings;
    use crate::worker::runtime;
    use net::bind::bind;
    use net::{ListenOptions, SocketAddress};
    use std::cell::Cell;
    use std::sync::Arc;

    /// A socket that the last thread cannot take keeps the first from going over, too.
    #[test]
    fn all_threads_go_over_or_none() {
        let address = SocketAddress::Abstract(format!("crew-{}", std::process::id()).into_bytes());
        let socket = || bind(&address, &ListenOptions::default(), 1).unwrap().remove(0);
        let settings = Settings { connections: 1, shutdown_timeout: None, drains: false };
        let (healthy, ended) = (runtime().unwrap(), runtime().unwrap());
        let handles = [&healthy, &ended].map(|runtime| runtime.handle().clone());
        drop(ended);
        for (failing, runtime) in [(true, &handles[1]), (false, &handles[0])] {
            let (members, mut successions): (Vec<_>, Vec<_>) = [&handles[0], runtime]
                .map(|runtime| {
                    let (successions, received) = events::unbounded_channel();
                    (Member { successions, runtime: runtime.clone() }, received)
                })
                .into_iter()
                .unzip();
            let mut current = site("location / { }");
            let before = Arc::clone(&current);
            let mut crew = Crew {
                site: &mut current,
                threads: members,
                replay: Arc::new(|_, _| Err("nothing is replayed".to_owned())),
                past: Vec::new(),
            };
            let ready = Ready { site: site("location / { }"), settings, sockets: vec![(0, socket())] };
            let told = Cell::new(0);
            let went = healthy.block_on(async {
                let answer = async {
                    for received in &mut successions {
                        match received.recv().await {
                            Some(succession) => {
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
            assert_eq!(went.is_err(), failing, "{went:?}");
            assert_eq!(Arc::ptr_eq(&before, &current), failing);
            let unread = successions.iter_mut().filter_map(|received| received.try_recv().ok()).count();
            assert_eq!(told.get() + unread, if failing { 0 } else { 2 });
        }
    }
}

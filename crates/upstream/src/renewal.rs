//! Looks the hosts of a group up again whenever what is known of them is no longer valid.

use crate::group::Group;
use crate::live::{ChangingServer, Found, Live, OfService};
use crate::resolver::{Lookup, Resolving, ServiceAddress, ServiceLookup, Unresolved};
use contract::Service;
use dns::Code;
use journal::clock::Time;
use journal::{ErrorLog, Level};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::Timer;

/// The least time between two look-ups of a host.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Keeps the members of a group up to date.
#[derive(Debug)]
pub struct Renewal {
    live: Arc<Live>,
    resolving: Resolving,
    log: ErrorLog,
}

/// A host that is looked up again and again.
struct Host {
    place: usize,
    server: ChangingServer,
    state: State,
}

enum State {
    Addresses(Lookup),
    Services(ServiceLookup),
    /// What was found is valid still.
    Resting(Timer),
}

impl Renewal {
    /// The renewal of a group's members; none if no member changes.
    pub fn new(group: &Group, resolving: &Resolving, log: &ErrorLog) -> Option<Renewal> {
        let live = Arc::clone(&group.live);
        live.hosts().next()?;
        Some(Renewal { live, resolving: resolving.clone(), log: log.clone() })
    }

    /// Begins a look-up.
    fn look_up(&self, server: &ChangingServer) -> State {
        match &server.service {
            None => State::Addresses(Lookup::new(&server.host, &self.resolving)),
            Some(service) => State::Services(ServiceLookup::new(service, &server.host, &self.resolving)),
        }
    }

    /// Goes on with a host for as long as it has something to do. Ready if the thread has no timers.
    fn poll_host(&self, cx: &mut Context<'_>, host: &mut Host) -> Poll<()> {
        loop {
            let found = match &mut host.state {
                State::Resting(timer) => {
                    ready!(timer.poll(cx));
                    host.state = self.look_up(&host.server);
                    continue;
                }
                State::Addresses(lookup) => ready!(lookup.poll(cx, &self.log)).map(|(ips, until)| {
                    let found = |ip| Found { address: SocketAddr::new(ip, 0), service: None };
                    (ips.into_iter().map(found).collect(), until)
                }),
                State::Services(lookup) => {
                    ready!(lookup.poll(cx, &self.log)).map(|(all, until)| (of_services(&all), until))
                }
            };
            let pause = self.take(host, found);
            let Ok(timer) = Timer::here() else { return Poll::Ready(()) };
            timer.start(cx, pause);
            host.state = State::Resting(timer);
        }
    }

    /// Replaces the members by what was found. Returns how long that is valid.
    fn take(&self, host: &Host, found: Result<(Vec<Found>, Instant), Unresolved>) -> Duration {
        match found {
            Ok((found, until)) => {
                self.live.put(host.place, found);
                until.saturating_duration_since(Time::now().instant).max(PAUSE_MIN)
            }
            Err(reason) => {
                self.log.write(Level::Error, &complaint(&host.server, reason));
                if reason != Unresolved::Code(Code::NotFound) {
                    // The servers that are known stay.
                    return self.resolving.timeout.max(PAUSE_MIN);
                }
                self.live.put(host.place, Vec::new());
                self.resolving.resolver.absence().max(PAUSE_MIN)
            }
        }
    }
}

fn complaint(server: &ChangingServer, reason: Unresolved) -> String {
    match &server.service {
        None => format!("{} could not be resolved ({reason})", server.host),
        Some(service) => format!("service {service} of {} could not be resolved ({reason})", server.host),
    }
}

/// The servers of a service: those of another priority than the first are backups.
fn of_services(all: &[ServiceAddress]) -> Vec<Found> {
    let first = all.iter().map(|one| one.service.priority).min();
    let found = |ServiceAddress { service, ip }: &ServiceAddress| {
        let is_backup = Some(service.priority) != first;
        let of_service = OfService { target: service.target.clone(), weight: service.weight, is_backup };
        Found { address: SocketAddr::new(*ip, service.port), service: Some(of_service) }
    };
    all.iter().map(found).collect()
}

impl Service for Renewal {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let host = |(place, server): (usize, &ChangingServer)| {
            let state = self.look_up(server);
            Host { place, server: server.clone(), state }
        };
        let mut hosts: Vec<Host> = self.live.hosts().map(host).collect();
        Box::pin(async move {
            poll_fn(|cx| {
                hosts.retain_mut(|host| self.poll_host(cx, host).is_pending());
                if hosts.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        })
    }
}

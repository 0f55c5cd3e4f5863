//! Services of a host (RFC 2782): from its name to hosts and ports, and from these to addresses.

use super::chase::Chase;
use super::{Patience, Resolving, Unresolved};
use dns::{Answer, Code, Name, Service, Wanted};
use journal::{ErrorLog, Level};
use std::net::IpAddr;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The look-up of the services of a host.
#[derive(Debug)]
pub(crate) struct ServiceLookup {
    resolving: Resolving,
    /// The words for the log: `service http of example.com`.
    shown: String,
    stage: Stage,
    patience: Patience,
}

#[derive(Debug)]
enum Stage {
    Services(Chase),
    Hosts(Vec<Host>, Instant),
}

/// A host of a service.
#[derive(Debug)]
struct Host {
    service: Service,
    chase: Chase,
    outcome: Option<Result<(Answer, Instant), Unresolved>>,
}

/// An address of a service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAddress {
    pub(crate) service: Service,
    pub(crate) ip: IpAddr,
}

impl ServiceLookup {
    /// A look-up of a service, as `http` or `_http._tcp`.
    pub(crate) fn new(service: &str, host: &str, resolving: &Resolving) -> ServiceLookup {
        let name = match service.contains('.') {
            true => Name::new(&format!("{service}.{host}")),
            false => Name::new(&format!("_{service}._tcp.{host}")),
        };
        ServiceLookup {
            resolving: resolving.clone(),
            shown: format!("service {service} of {host}"),
            stage: Stage::Services(Chase::new(&resolving.resolver, name, Wanted::Services)),
            patience: Patience::new(resolving.timeout),
        }
    }

    /// Ready with the addresses of all hosts, and the time until which they are valid. A host without an address is
    /// logged and left out.
    ///
    /// # Errors
    /// There is no service, no host has an address, or no server answers in time.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        log: &ErrorLog,
    ) -> Poll<Result<(Vec<ServiceAddress>, Instant), Unresolved>> {
        if let Stage::Services(chase) = &mut self.stage {
            let Poll::Ready(found) = chase.poll(cx, log) else {
                return self.patience.poll(cx).map(|()| Err(Unresolved::Code(Code::TimedOut)));
            };
            let (Answer::Services(services), until) = found? else {
                return Poll::Ready(Err(Unresolved::Code(Code::NotFound)));
            };
            let resolver = &self.resolving.resolver;
            let host = |service: &Service| {
                let chase = Chase::new(resolver, Some(service.target.clone()), Wanted::Addresses);
                Host { service: service.clone(), chase, outcome: None }
            };
            self.stage = Stage::Hosts(services.iter().map(host).collect(), until);
            self.patience = Patience::new(self.resolving.timeout);
        }
        self.poll_hosts(cx, log)
    }

    fn poll_hosts(
        &mut self,
        cx: &mut Context<'_>,
        log: &ErrorLog,
    ) -> Poll<Result<(Vec<ServiceAddress>, Instant), Unresolved>> {
        let Stage::Hosts(hosts, until) = &mut self.stage else { return Poll::Pending };
        let mut is_done = true;
        for host in hosts.iter_mut().filter(|host| host.outcome.is_none()) {
            match host.chase.poll(cx, log) {
                Poll::Ready(outcome) => host.outcome = Some(outcome),
                Poll::Pending => is_done = false,
            }
        }
        if !is_done {
            ready!(self.patience.poll(cx));
        }
        Poll::Ready(joined(hosts, *until, (&self.shown, log)))
    }
}

/// The addresses of all hosts, those with the lowest priority first.
fn joined(
    hosts: &[Host],
    mut until: Instant,
    (shown, log): (&str, &ErrorLog),
) -> Result<(Vec<ServiceAddress>, Instant), Unresolved> {
    let mut addresses = Vec::new();
    let mut failure = None;
    for Host { service, outcome, .. } in hosts {
        let reason = match outcome {
            Some(Ok((Answer::Addresses(found), valid))) => {
                addresses.extend(found.iter().map(|&ip| ServiceAddress { service: service.clone(), ip }));
                until = until.min(*valid);
                continue;
            }
            Some(Ok(_)) => Unresolved::Code(Code::NotFound),
            Some(Err(reason)) => *reason,
            None => Unresolved::Code(Code::TimedOut),
        };
        let message = format!("{} could not be resolved ({reason}) while resolving {shown}", service.target);
        log.write(Level::Error, &message);
        // That a host does not exist counts for more than a server that failed: it is known.
        if failure.is_none() || reason == Unresolved::Code(Code::NotFound) {
            failure = Some(reason);
        }
    }
    if addresses.is_empty() {
        return Err(failure.unwrap_or(Unresolved::Code(Code::NotFound)));
    }
    addresses.sort_by_key(|address| address.service.priority);
    Ok((addresses, until))
}

//! Looking up names while requests are served. What was found is shared by all threads. Each thread asks the name servers
//! itself, the same question only once at a time. No thread waits for an answer: a request polls its [`Lookup`].

mod asked;
mod asking;
mod chase;
mod services;
mod stream;

use crate::random::random;
use chase::Chase;
use dns::{Answer, Cache, Code, Kind, Name, Wanted};
use journal::ErrorLog;
use journal::clock::Time;
use net::SocketAddress;
pub(crate) use services::{ServiceAddress, ServiceLookup};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wire::Timer;

/// Which name servers are asked, and what for (`resolver`).
#[derive(Clone, Debug)]
pub struct NameServers {
    /// Their addresses; at least one. They are asked in turn.
    pub addresses: Vec<SocketAddress>,
    /// How long answers are valid, in place of what they say themselves (`valid`).
    pub valid: Option<Duration>,
    /// Whether IPv4 addresses are asked for (`ipv4`).
    pub ipv4: bool,
    /// Whether IPv6 addresses are asked for (`ipv6`).
    pub ipv6: bool,
}

/// Looks names up.
#[derive(Debug)]
pub struct Resolver {
    /// A number that no other resolver of this process has.
    id: u64,
    servers: NameServers,
    /// How many questions were asked: each begins with the next server.
    questions: AtomicUsize,
    cache: Mutex<Cache>,
}

/// How a scope looks names up.
#[derive(Clone, Debug)]
pub struct Resolving {
    /// `resolver`
    pub resolver: Arc<Resolver>,
    /// `resolver_timeout`
    pub timeout: Duration,
}

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The server says so, or no server answers.
    Code(Code),
    /// Too many names are looked up at this time.
    Busy,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unresolved::Code(code) => code.fmt(f),
            Unresolved::Busy => f.write_str("too many names are looked up at this time"),
        }
    }
}

/// An answer that is no alias, and until when it is valid.
type Valid = (Answer, Instant);

impl Resolver {
    /// A resolver that knows nothing yet.
    pub fn new(servers: NameServers) -> Resolver {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let id = SERIAL.fetch_add(1, Ordering::Relaxed);
        let cache = Mutex::new(Cache::new(servers.valid));
        Resolver { id, servers, questions: AtomicUsize::new(0), cache }
    }

    fn cached(&self, name: &Name, wanted: Wanted) -> Option<Valid> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(name, wanted, Time::now().instant)
    }

    fn keep(&self, name: &Name, wanted: Wanted, found: &dns::Found) -> Instant {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put((name.clone(), wanted), found, Time::now().instant)
    }

    /// How long it is known that a name does not exist.
    pub(crate) fn absence(&self) -> Duration {
        self.servers.valid.unwrap_or(Duration::from_secs(10))
    }

    /// The server that the next question is for.
    fn next_server(&self) -> usize {
        self.questions.fetch_add(1, Ordering::Relaxed) % self.servers.addresses.len().max(1)
    }

    /// What is asked about a name.
    fn kinds(&self, wanted: Wanted) -> &'static [Kind] {
        match wanted {
            Wanted::Services => &[Kind::Srv],
            Wanted::Addresses if !self.servers.ipv6 => &[Kind::A],
            Wanted::Addresses if !self.servers.ipv4 => &[Kind::Aaaa],
            Wanted::Addresses => &[Kind::A, Kind::Aaaa],
        }
    }
}

/// The look-up of the addresses of one name.
#[derive(Debug)]
pub struct Lookup {
    chase: Chase,
    patience: Patience,
}

impl Lookup {
    /// A look-up of this host. It starts when it is polled.
    pub fn new(host: &str, resolving: &Resolving) -> Lookup {
        let chase = Chase::new(&resolving.resolver, Name::new(host), Wanted::Addresses);
        Lookup { chase, patience: Patience::new(resolving.timeout) }
    }

    /// Ready with the addresses, at least one, and the time until which they are valid. What is wrong with messages of
    /// name servers goes to the log.
    ///
    /// # Errors
    /// The name has no addresses, or no server answers in time.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        log: &ErrorLog,
    ) -> Poll<Result<(Vec<IpAddr>, Instant), Unresolved>> {
        let Poll::Ready(found) = self.chase.poll(cx, log) else {
            return self.patience.poll(cx).map(|()| Err(Unresolved::Code(Code::TimedOut)));
        };
        Poll::Ready(match found? {
            (Answer::Addresses(addresses), until) => Ok((self.turned(&addresses), until)),
            (Answer::Services(_) | Answer::Alias(_), _) => Err(Unresolved::Code(Code::NotFound)),
        })
    }

    /// As in nginx, addresses that were known before begin with any of them.
    fn turned(&self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let mut all = addresses.to_vec();
        if self.chase.was_known() && all.len() > 1 {
            let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
            all.rotate_left(usize::try_from(random() % count).unwrap_or(0));
        }
        all
    }
}

/// How long an answer is waited for.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    timer: Option<Timer>,
}

impl Patience {
    fn new(limit: Duration) -> Patience {
        Patience { limit, timer: None }
    }

    /// Ready when the time is over, which runs from the first call; or if the thread has no timers.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = &self.timer {
            return timer.poll(cx);
        }
        let Ok(timer) = Timer::here() else { return Poll::Ready(()) };
        timer.start(cx, self.limit);
        self.timer = Some(timer);
        Poll::Pending
    }
}

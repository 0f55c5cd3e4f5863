//! Asking one server after the other until one has an answer.

use crate::attempts::Attempts;
use crate::balance::{Choice, Lease};
use crate::group::{Group, Server};
use crate::link::Link;
use crate::settings::{Failures, Settings};
use contract::log::Level;
use contract::{BodyStream, RequestLog, Work};
use http::Status;
use net::system_message;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

/// A request to a group of servers.
#[derive(Debug)]
pub struct Call {
    /// The servers.
    pub group: Arc<Group>,
    /// What the servers are chosen by ([`Group::key`]).
    pub key: Vec<u8>,
    /// How long to wait and when to ask another.
    pub settings: Arc<Settings>,
    /// Where failures are told.
    pub log: RequestLog,
    /// What becomes known.
    pub attempts: Attempts,
    /// `http://` or its like, for the log.
    pub scheme: &'static str,
    /// What stands behind the server's address in the log.
    pub uri: String,
    /// Whether the request may be sent twice.
    pub is_idempotent: bool,
    /// Its content, where that is passed on as it comes and so cannot be sent twice.
    pub stream: Option<BodyStream>,
    /// Who asks; connections may be kept for the same only.
    pub tag: usize,
}

/// What came of a [`Call`]: an answer, the connection that its content comes over, and what the log calls the server;
/// or the status to answer with.
pub type Answered<T> = Result<(T, Link, String), Status>;

/// Why a server has no answer.
#[derive(Debug)]
pub struct Failure {
    /// What it counts as.
    pub kind: Failures,
    /// The line for the error log.
    pub message: String,
}

impl Failure {
    /// The failure of a call on the connection, while doing something: `sending request to upstream`.
    pub fn io(call: &str, error: &io::Error, doing: &str) -> Failure {
        if error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() {
            let message = format!("upstream timed out (110: Connection timed out) while {doing}");
            return Failure { kind: Failures::TIMEOUT, message };
        }
        let message = format!("{call}() failed ({}) while {doing}", system_message(error));
        Failure { kind: Failures::ERROR, message }
    }

    /// The server sent what is no response.
    pub fn invalid(message: String) -> Failure {
        Failure { kind: Failures::INVALID_HEADER, message }
    }
}

/// An attempt that came to nothing.
struct Broken {
    lease: Option<Lease>,
    link: Option<Link>,
    failure: Failure,
}

impl Broken {
    /// Whether it was a kept connection that the server had given up already.
    fn is_stale(&self) -> bool {
        let is_silent = |link: &Link| link.is_reused() && link.input.is_empty();
        self.failure.kind == Failures::ERROR && self.link.as_ref().is_some_and(is_silent)
    }
}

impl Call {
    /// Asking servers by `talk` until one has an answer that `judge` finds no fault with, or until no other may be
    /// asked: work whose result is an [`Answered`]. There is no other way to a [`Link`], so that whoever must not ask
    /// other servers knows by the work that this would.
    pub fn work<T: 'static>(
        self,
        talk: impl AsyncFn(&Call, &mut Link) -> Result<T, Failure> + 'static,
        judge: impl Fn(&T) -> Option<Failures> + 'static,
    ) -> Work {
        let settings = Arc::clone(&self.settings);
        settings.work(Box::pin(async move {
            let answered: Answered<T> = self.run(talk, judge).await.map(|(answer, mut link)| {
                let url = self.url_of(&mut link);
                (answer, link, url)
            });
            Box::new(answered) as Box<dyn Any>
        }))
    }

    /// The answer, which has a fault where no other server may be asked, or the status of the failure.
    async fn run<T>(
        &self,
        talk: impl AsyncFn(&Call, &mut Link) -> Result<T, Failure>,
        judge: impl Fn(&T) -> Option<Failures>,
    ) -> Result<(T, Link), Status> {
        let started = Instant::now();
        let mut choice = Choice::new(&self.group, self.key.clone(), self.settings.next_upstream_tries);
        let mut is_first = true;
        loop {
            let Some(lease) = choice.choose() else { return Err(self.nobody(is_first)) };
            let redirected = is_first && !self.attempts.is_empty();
            is_first = false;
            self.attempts.begin(&lease.server().name, redirected);
            let url = self.url(lease.server());
            match self.attempt(lease, &talk).await {
                Ok((answer, mut link)) => {
                    let fault = judge(&answer).filter(|_| choice.has_more());
                    let Some(fault) = fault.filter(|&fault| self.may_go_on(fault, &link, started)) else {
                        return Ok((answer, link));
                    };
                    link.done();
                    if fault.counts() {
                        self.blame(link.lease(), &url);
                    }
                }
                Err(broken) => {
                    let is_stale = broken.is_stale();
                    let (status, goes_on) = self.broken(broken, is_stale, &url, started);
                    if is_stale {
                        choice.forgive();
                    }
                    if !goes_on || !choice.has_more() {
                        return Err(status);
                    }
                }
            }
        }
    }

    async fn attempt<T>(
        &self,
        lease: Lease,
        talk: &impl AsyncFn(&Call, &mut Link) -> Result<T, Failure>,
    ) -> Result<(T, Link), Broken> {
        let opened = Link::open(lease, &self.attempts, self.tag, self.settings.connect_timeout).await;
        let mut link = opened.map_err(|(lease, error)| Broken {
            lease: Some(lease),
            link: None,
            failure: Failure::io("connect", &error, "connecting to upstream"),
        })?;
        match talk(self, &mut link).await {
            Ok(answer) => Ok((answer, link)),
            Err(failure) => Err(Broken { lease: None, link: Some(link), failure }),
        }
    }

    /// Tells of a failure; gives its status, and whether another server may be asked.
    fn broken(&self, broken: Broken, is_stale: bool, url: &str, started: Instant) -> (Status, bool) {
        let Broken { lease, link, failure } = broken;
        self.log.write(Level::Error, &failure.message, Some(url));
        let status = failure.kind.status();
        self.attempts.note(|attempt| attempt.status = Some(status));
        let goes_on = match &link {
            Some(link) => self.may_go_on(failure.kind, link, started),
            None => self.allows(failure.kind, started),
        };
        if !is_stale {
            if let Some(mut link) = link {
                self.blame(link.lease(), url);
            }
            if let Some(mut lease) = lease {
                self.blame(&mut lease, url);
            }
        }
        (status, goes_on)
    }

    fn blame(&self, lease: &mut Lease, url: &str) {
        if lease.fail() {
            self.log.write(Level::Warn, "upstream server temporarily disabled", Some(url));
        }
    }

    fn may_go_on(&self, failure: Failures, link: &Link, started: Instant) -> bool {
        // A connection that breaks at once may have got nothing of what was taken for it.
        if self.stream.as_ref().is_some_and(|stream| link.sent_anything() || !stream.is_untouched()) {
            return false;
        }
        let may_have_acted = link.sent_anything() && !self.is_idempotent;
        let kind = if may_have_acted { failure.with(Failures::NON_IDEMPOTENT) } else { failure };
        self.allows(kind, started)
    }

    fn allows(&self, kind: Failures, started: Instant) -> bool {
        let limit = self.settings.next_upstream_timeout;
        self.settings.next_upstream.has(kind) && (limit.is_zero() || started.elapsed() < limit)
    }

    fn nobody(&self, is_first: bool) -> Status {
        let redirected = is_first && !self.attempts.is_empty();
        self.attempts.begin(&self.group.name, redirected);
        self.attempts.note(|attempt| attempt.status = Some(Status::BAD_GATEWAY));
        let url = format!("{}{}{}", self.scheme, self.group.name, self.uri);
        self.log.write(Level::Error, "no live upstreams while connecting to upstream", Some(&url));
        Status::BAD_GATEWAY
    }

    /// What the log calls a server.
    pub fn url(&self, server: &Server) -> String {
        let separator = if server.address.is_unix() { ":" } else { "" };
        format!("{}{}{separator}{}", self.scheme, server.name, self.uri)
    }

    /// What the log calls the server at the other end of a connection.
    pub fn url_of(&self, link: &mut Link) -> String {
        self.url(link.lease().server())
    }
}

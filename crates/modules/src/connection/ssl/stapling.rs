//! Fetches answers of OCSP responders while the site is served (`ssl_stapling`).

use super::IN_BOTH;
use super::responder::Responder;
use super::values::{parse_file, parse_responder};
use crate::gateway::resolver::resolving;
use contract::{Directive, Pem, ScopeBuilder, Service, Threads, TlsPolicy, View};
use journal::clock::Time;
use journal::{ErrorLog, Level};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tls::{OcspSubject, Stapling};
use upstream::Resolving;
use wire::Timer;

/// `ssl_stapling on | off`
pub(super) static SSL_STAPLING: Directive<bool> = Directive::flag("ssl_stapling")
    .within(IN_BOTH)
    .default("off")
    .help("Whether clients get the answer of an OCSP responder with the certificate.");

/// `ssl_stapling_file FILE`
pub(super) static SSL_STAPLING_FILE: Directive<Option<Pem>> = Directive::new("ssl_stapling_file", parse_file)
    .within(IN_BOTH)
    .help("The file with that answer, as DER. Without a file the answer is fetched.");

/// `ssl_stapling_responder URL`
pub(super) static SSL_STAPLING_RESPONDER: Directive<Box<str>> =
    Directive::new("ssl_stapling_responder", parse_responder)
        .within(IN_BOTH)
        .help("The URL of the OCSP responder, instead of the one in the certificate.");

/// `ssl_stapling_verify on | off`
pub(super) static SSL_STAPLING_VERIFY: Directive<bool> = Directive::flag("ssl_stapling_verify")
    .within(IN_BOTH)
    .default("off")
    .help("Whether the signer of a fetched answer must be trusted by `ssl_trusted_certificate`.");

/// How long the first pause after a failure is. Each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// The longest time until the clock is looked at again, which may have been set.
const LOOK: Duration = Duration::from_secs(600);

/// Keeps the answers for the certificates of a server fresh.
struct Fetching {
    stapling: Arc<Stapling>,
    /// How the names of responders are looked up; by the system if there is no `resolver`.
    resolving: Option<Resolving>,
    log: ErrorLog,
}

/// How answers of responders are fetched, if no file has them.
pub(super) fn configure(view: &View<'_>, policy: &TlsPolicy, builder: &mut ScopeBuilder) -> Arc<Stapling> {
    let verifies = view.get(&SSL_STAPLING_VERIFY).copied().unwrap_or_default();
    let stapling = Arc::new(Stapling::new(view.get(&SSL_STAPLING_RESPONDER).cloned(), verifies));
    if policy.stapling_file.is_none() && !policy.certificates.is_empty() {
        serve(view, builder, &stapling);
    }
    stapling
}

/// Has the answers for the certificates of a server fetched while it is served.
fn serve(view: &View<'_>, builder: &mut ScopeBuilder, stapling: &Arc<Stapling>) {
    let log = builder.policy.error_log.clone();
    let fetching = Fetching { stapling: Arc::clone(stapling), resolving: resolving(view), log };
    builder.serve(Threads::One, Arc::new(fetching));
}

/// A certificate whose answers no other server fetches.
struct Claimed(Arc<OcspSubject>);

impl Claimed {
    fn new(subject: Arc<OcspSubject>) -> Option<Claimed> {
        subject.claim().then(|| Claimed(subject))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Service for Fetching {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let claimed = self.stapling.subjects().into_iter().filter_map(Claimed::new);
        let mut all: Vec<_> =
            claimed.map(|claimed| Box::pin(keep_fresh(Arc::clone(&self), claimed))).collect();
        Box::pin(poll_fn(move |cx| {
            all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
            if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

/// Fetches an answer whenever one is due.
async fn keep_fresh(fetching: Arc<Fetching>, claimed: Claimed) {
    let Ok(timer) = Timer::here() else { return };
    let Claimed(subject) = &claimed;
    let mut pause = PAUSE_MIN;
    loop {
        let left_s = u64::try_from(subject.due().saturating_sub(Time::now().seconds)).unwrap_or(0);
        let rest = if left_s > 0 {
            Duration::from_secs(left_s).min(LOOK)
        } else if let Err((url, reason)) = fetching.fetch(subject).await {
            let names = subject.names();
            let message = format!(
                "{reason} while requesting certificate status, responder: {url}, certificate: \"{names}\""
            );
            fetching.log.write(Level::Error, &message);
            let rest = pause;
            pause = (pause * 2).min(PAUSE_MAX);
            rest
        } else {
            pause = PAUSE_MIN;
            continue;
        };
        timer.set(rest);
        poll_fn(|cx| timer.poll(cx)).await;
    }
}

impl Fetching {
    /// Fetches one answer. The error has the responder and the reason.
    async fn fetch(&self, subject: &OcspSubject) -> Result<(), (String, String)> {
        let url = self.stapling.responder.as_deref().or(subject.question().responder()).unwrap_or_default();
        let failed = |reason: String| (url.to_owned(), reason);
        let responder = Responder::parse(url).map_err(failed)?;
        let answer = responder.ask(&subject.question().request(), self.resolving.as_ref(), &self.log).await;
        let answer = answer.map_err(failed)?;
        subject.take(&answer).map_err(|error| failed(error.to_string()))
    }
}

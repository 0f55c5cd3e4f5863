//! The work of a site that belongs to no request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Work that a feature does in addition to requests: resolving names again, checking other servers, removing files.
///
/// It starts when a thread begins to serve the site. It is dropped when another site takes over, or the thread ends:
/// two sites never run it at the same time. State that outlives a site ([`Origin::keep`](crate::Origin::keep)) is
/// handed on to the service of the next site.
pub trait Service: Send + Sync {
    /// Begins the work in the calling thread.
    ///
    /// The future is polled by the event loop of that thread, and must not block. It may wait for sockets (`net`) and
    /// timers (`wire::Timer::here`), and run jobs off the event loop (`wire::Job`). If it is ready, the work is over.
    /// If it panics, the work begins again after a pause.
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// The threads of a worker that run a [`Service`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One of them.
    One,
    /// Each of them.
    All,
}

/// A [`Service`] of a site.
#[derive(Clone)]
pub struct SiteService {
    /// The feature that added it.
    pub feature: &'static str,
    /// The threads that run it.
    pub threads: Threads,
    /// The work.
    pub service: Arc<dyn Service>,
}

//! The services of a site in one thread.

use contract::{SiteService, Threads};
use journal::Level;
use site::Site;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a service that panicked rests.
const PAUSE: Duration = Duration::from_secs(1);

/// The services of the site that the thread serves.
pub(crate) struct Services {
    running: JoinSet<()>,
    /// The number of the thread. The first one runs what one thread is to run.
    thread: usize,
}

impl Services {
    /// Nothing runs in the thread of this number yet.
    pub(crate) fn new(thread: usize) -> Services {
        Services { running: JoinSet::new(), thread }
    }

    /// Starts the services of a site. Those of the site before must have ended.
    pub(crate) fn start(&mut self, site: &Arc<Site>) {
        let has = |threads| threads == Threads::All || self.thread == 0;
        for service in site.services.iter().filter(|service| has(service.threads)) {
            self.running.spawn_local(run(service.clone(), Arc::downgrade(site)));
        }
    }

    /// Ends all of them.
    pub(crate) async fn end(&mut self) {
        self.running.shutdown().await;
    }
}

/// Runs a service until it is over. If it panics, neither the thread nor the service ends.
async fn run(service: SiteService, site: Weak<Site>) {
    while !ends_well(&service).await {
        if let Some(site) = site.upgrade() {
            site.log(Level::Alert, &format!("a service of \"{}\" panicked", service.feature));
        }
        sleep(PAUSE).await;
    }
}

/// Runs a service once; `false` if it panicked.
async fn ends_well(service: &SiteService) -> bool {
    let start = || Arc::clone(&service.service).start();
    let Ok(mut work) = catch_unwind(AssertUnwindSafe(start)) else { return false };
    let is_over = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(|()| true),
        Err(_) => Poll::Ready(false),
    });
    let is_over = is_over.await;
    catch_unwind(AssertUnwindSafe(|| drop(work))).is_ok() && is_over
}

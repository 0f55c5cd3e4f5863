//! Gives memory back to the system after a reload, and after requests held much of it.
//!
//! Compiling a configuration takes several times the memory of what comes out of it, and then the site before is freed. The
//! allocator keeps all of that: without this the worker would have the memory of several configurations for ever.
//!
//! A site with thousands of servers takes a while to be freed, too, so the last reference to it is kept here, where no
//! connection waits for it.

use net::process::release_memory;
use site::Site;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How long after a site is gone the threads have freed what they kept for it. They look for that in the same way
/// (`thread::give_up_behind`).
const FREED_AFTER: Duration = Duration::from_millis(250);

/// How long after a peak of requests memory is given back. A load that goes up and down keeps what it needs again.
const PEAK_OVER_AFTER: Duration = Duration::from_secs(5);

/// How long it takes until it is looked whether a site still serves, at first and at most.
const UNUSED_SOON: Duration = Duration::from_millis(100);
const UNUSED_LATE: Duration = Duration::from_secs(2);

/// What is to be given back.
#[derive(Default)]
pub(crate) struct SpareMemory {
    /// Sites that do not serve new connections any more.
    past: Vec<Arc<Site>>,
    /// Whether something was freed since memory was given back.
    is_due: bool,
    /// When memory is given back because requests held much and hold less now.
    due_at: Option<Instant>,
}

impl SpareMemory {
    /// A configuration was compiled; this is the site before it, if that one does not serve new connections any more.
    pub(crate) fn after_compiling(&mut self, before: Option<Arc<Site>>) {
        self.past.extend(before);
        self.is_due = true;
    }

    /// Waits until requests hold much less than before.
    async fn await_fall(&mut self) {
        if self.due_at.is_none() {
            wire::memory::falls().await;
            // Kept if the caller drops this future.
            self.due_at = Some(Instant::now() + PEAK_OVER_AFTER);
        }
        if let Some(at) = self.due_at {
            sleep_until(at).await;
        }
        (self.due_at, self.is_due) = (None, true);
    }

    /// Gives memory back whenever some is free; never ends. It may be dropped without loss.
    pub(crate) async fn give_back(&mut self) {
        let mut pause = UNUSED_SOON;
        loop {
            if self.is_due {
                sleep(FREED_AFTER).await;
                release_memory();
                self.is_due = false;
            }
            if self.past.is_empty() {
                self.await_fall().await;
                continue;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.await_fall() => continue,
            }
            pause = (2 * pause).min(UNUSED_LATE);
            let count = self.past.len();
            self.past.retain(|site| Arc::strong_count(site) > 1);
            self.is_due = self.past.len() < count;
        }
    }
}

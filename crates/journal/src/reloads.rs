//! The results of reloads that the supervisor sent to this process, for status pages.

use net::channel::Reloads;
use std::sync::{Mutex, PoisonError};

static RELOADS: Mutex<Reloads> = Mutex::new(Reloads { generation: 0, succeeded: 0, failed: 0, since: 0 });

/// What is known; nothing but zeros where there is no supervisor.
pub fn get() -> Reloads {
    *RELOADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records their results.
pub fn set(reloads: Reloads) {
    *RELOADS.lock().unwrap_or_else(PoisonError::into_inner) = reloads;
}

//! What became of reloads, as the supervisor told this process, for whoever shows it.

use net::channel::Reloads;
use std::sync::{Mutex, PoisonError};

static RELOADS: Mutex<Reloads> = Mutex::new(Reloads { generation: 0, succeeded: 0, failed: 0, since: 0 });

/// What is known; nothing but zeros where there is no supervisor.
pub fn get() -> Reloads {
    *RELOADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of what became of them.
pub fn set(reloads: Reloads) {
    *RELOADS.lock().unwrap_or_else(PoisonError::into_inner) = reloads;
}

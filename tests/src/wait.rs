//! Waiting with a limit. The only place of the harness that sleeps.

use std::time::{Duration, Instant};

/// Blocks this test's thread; the servers under test are separate processes.
#[allow(clippy::disallowed_methods)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Asks `ready` every few milliseconds until it says yes; `false` when `limit` has passed without that.
pub fn until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if ready() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        pause(Duration::from_millis(5));
    }
}

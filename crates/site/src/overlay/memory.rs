//! How much memory all compiled files take.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How much compiled files take at most, in bytes, with those that only requests in progress still use.
const LIVE_BYTES_MAX: usize = 256 * 1024 * 1024;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Memory that counts as long as this lives.
#[derive(Debug)]
pub(super) struct Charge(usize);

impl Charge {
    /// Counts so many bytes. The error is the limit, if they would be too many.
    pub(super) fn new(bytes: usize) -> Result<Charge, usize> {
        let charge = Charge(bytes);
        let before = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > LIVE_BYTES_MAX { Err(LIVE_BYTES_MAX) } else { Ok(charge) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        LIVE_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

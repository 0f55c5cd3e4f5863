//! The memory that requests in progress hold in this process: bodies, buffers and streams. It has a limit, before which
//! new requests are refused, and at which those in progress that ask for more are cut.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;

/// No limit.
const UNLIMITED: usize = usize::MAX;

/// How much a thread holds without telling the others, in bytes.
const UNTOLD: isize = 64 * 1024;

/// How much less has to be held than before so that memory is given back to the system, in bytes.
const FALL: usize = 32 * 1024 * 1024;

/// How long there is between two complaints, in milliseconds.
const COMPLAINT_PAUSE_MS: u64 = 1000;

// `Relaxed` everywhere: these are sums and limits, and no other memory is read through them.
static LIMIT: AtomicUsize = AtomicUsize::new(UNLIMITED);
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most that was held since memory was last given back.
static PEAK: AtomicUsize = AtomicUsize::new(0);
static FALLS: LazyLock<Notify> = LazyLock::new(Notify::new);
static COMPLAINED_MS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What the thread holds beyond what the others know.
    static OWN: Cell<isize> = const { Cell::new(0) };
}

/// Sets the limit of this process in bytes; none is no limit.
pub fn limit_to(bytes: Option<usize>) {
    LIMIT.store(bytes.unwrap_or(UNLIMITED), Relaxed);
}

/// The limit of this process in bytes.
pub fn limit() -> usize {
    LIMIT.load(Relaxed)
}

/// How much requests hold, in bytes; what each thread holds beyond this is little.
pub fn held() -> usize {
    HELD.load(Relaxed)
}

/// Whether so much is held that new requests are refused: seven eighths of the limit.
pub fn is_scarce() -> bool {
    let limit = limit();
    held() >= limit - limit / 8
}

/// Whether all is held that may be held: a request that needs more is cut.
pub fn is_exhausted() -> bool {
    held() >= limit()
}

/// Whether a message should warn again that memory is scarce; `now_ms` is the uptime in milliseconds.
pub fn complains(now_ms: u64) -> bool {
    let last = COMPLAINED_MS.load(Relaxed);
    let again = last == 0 || now_ms.saturating_sub(last) >= COMPLAINT_PAUSE_MS;
    again && COMPLAINED_MS.compare_exchange(last, now_ms.max(1), Relaxed, Relaxed).is_ok()
}

/// Ready when much less is held than before, so that the allocator has memory that is worth giving back. For one task of
/// the process.
pub async fn falls() {
    FALLS.notified().await;
}

/// Memory that a request holds. It is counted until this is dropped.
#[derive(Debug, Default)]
pub struct Held(usize);

impl Held {
    /// Counts so many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            let difference =
                isize::try_from(bytes).unwrap_or(isize::MAX) - isize::try_from(self.0).unwrap_or(0);
            self.0 = bytes;
            count(difference);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn count(difference: isize) {
    let own = OWN.try_with(|own| {
        let all = own.get().saturating_add(difference);
        let is_told = all.abs() >= UNTOLD;
        own.set(if is_told { 0 } else { all });
        if is_told { all } else { 0 }
    });
    // A thread that ends tells at once.
    let told = own.unwrap_or(difference);
    if told >= 0 {
        let more = told.unsigned_abs();
        PEAK.fetch_max(HELD.fetch_add(more, Relaxed).saturating_add(more), Relaxed);
    } else {
        let less = told.unsigned_abs();
        // Threads tell at different times, so that less may be known than is given back.
        let update = HELD.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(less)));
        let (Ok(before) | Err(before)) = update;
        let (held, peak) = (before.saturating_sub(less), PEAK.load(Relaxed));
        let has_fallen = peak.saturating_sub(held) >= FALL;
        if has_fallen && PEAK.compare_exchange(peak, held, Relaxed, Relaxed).is_ok() {
            FALLS.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, UNTOLD, complains, held, is_exhausted, is_scarce, limit_to};

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let unit = UNTOLD.unsigned_abs();
        limit_to(Some(16 * unit));
        assert!(!is_scarce() && !is_exhausted());
        let mut all: Vec<Held> = (0..14).map(|_| Held::default()).collect();
        all.iter_mut().for_each(|held| held.set(unit));
        assert_eq!(held(), 14 * unit);
        assert!(is_scarce() && !is_exhausted());
        all[0].set(3 * unit);
        assert!(is_exhausted());
        all[0].set(unit / 2);
        assert!(!is_exhausted());
        drop(all);
        assert!(held() <= unit && !is_scarce());
        limit_to(None);
        assert!(complains(5000) && !complains(5500) && complains(6000));
    }
}

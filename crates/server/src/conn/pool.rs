//! Requests that ended, whose memory serves further ones.

use super::exchange::PooledRequest;
use std::cell::RefCell;

/// How many requests a thread keeps.
const KEPT: usize = 64;

/// Requests that ended, whose memory serves further ones. One belongs to each thread.
#[derive(Default)]
pub(crate) struct Requests {
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    kept: RefCell<Vec<Box<PooledRequest>>>,
}

impl Requests {
    /// A request of which nothing is known.
    pub(super) fn take(&self) -> Option<Box<PooledRequest>> {
        self.kept.borrow_mut().pop()
    }

    /// Ends a request, and keeps it where that is wanted.
    pub(super) fn keep(&self, mut pooled: Box<PooledRequest>, is_wanted: bool) {
        // What is attached to the request may end others.
        let is_small = pooled.clear();
        let mut kept = self.kept.borrow_mut();
        if is_small && is_wanted && kept.len() < KEPT {
            kept.push(pooled);
        }
    }

    /// Forgets all of them, and with them the site that they belonged to.
    pub(crate) fn forget(&self) {
        self.kept.take();
    }
}

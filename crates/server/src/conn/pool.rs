//! Requests that ended, whose memory serves further ones.

use std::cell::RefCell;

/// How many requests a thread keeps.
const KEPT: usize = 64;

/// What a pool keeps.
pub(crate) trait Pooled {
    /// Ends the request, and with it all that is attached to it. Returns whether its memory is worth being kept.
    fn clear(&mut self) -> bool;
}

/// Requests that ended, whose memory serves further ones. Each belongs to a thread.
pub(crate) struct Pool<T> {
    kept: RefCell<Vec<Box<T>>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { kept: RefCell::default() }
    }
}

impl<T: Pooled> Pool<T> {
    /// A request of which nothing is known.
    pub(super) fn take(&self) -> Option<Box<T>> {
        self.kept.borrow_mut().pop()
    }

    /// Ends a request, and keeps it where that is wanted.
    pub(super) fn keep(&self, mut pooled: Box<T>, is_wanted: bool) {
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

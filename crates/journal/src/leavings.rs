//! What threads keep for configurations: it is looked through when one of those is gone.

use std::cell::RefCell;

thread_local! {
    static LOOKS: RefCell<Vec<fn()>> = const { RefCell::new(Vec::new()) };
}

/// Registers a cleanup that runs on this thread after a configuration is dropped. Call it once per thread.
pub fn look_through_by(look: fn()) {
    LOOKS.with_borrow_mut(|looks| looks.push(look));
}

/// Gives up what was kept for a configuration that is gone.
pub fn give_up() {
    let looks = LOOKS.with_borrow(Vec::clone);
    looks.into_iter().for_each(|look| look());
}

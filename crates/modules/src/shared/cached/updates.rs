//! Rights to update kept responses.

use cache::FillRight;
use contract::{Exchange, Reach};
use std::cell::RefCell;

/// The rights to update responses with these keys, on their way from the requests that send them to those that get them
/// anew; attached to all of these. A page may include several such responses.
#[derive(Default)]
pub(super) struct Updates(RefCell<Vec<(Box<[u8]>, FillRight)>>);

impl Updates {
    /// Takes the right for a key, if the request is an update.
    pub(super) fn take(exchange: &Exchange, text: &[u8]) -> Option<FillRight> {
        if !exchange.subrequest {
            return None;
        }
        let updates = exchange.attached::<Updates>()?;
        let mut updates = updates.0.borrow_mut();
        let at = updates.iter().position(|(other, _)| **other == *text)?;
        Some(updates.swap_remove(at).1)
    }

    /// Passes the right for a key on.
    pub(super) fn add(exchange: &Exchange, text: &[u8], fill: FillRight) {
        let updates = exchange.attached_or(Reach::Shared, Updates::default);
        updates.0.borrow_mut().push((text.into(), fill));
    }
}

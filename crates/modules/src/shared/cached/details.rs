//! What only some requests that use a cache have to remember. Those that find nothing, as most, do without its memory.

use super::Cached;
use cache::rfc9111::Wish;
use cache::{FillRight, Key, Object, Reading};
use http::Status;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// What only some requests have to remember.
#[derive(Default)]
pub(super) struct Details {
    /// What the request says about kept responses, if the rules let it count.
    pub(super) wish: Wish,
    /// The status for a request that removes what is kept.
    pub(super) removes: Option<Status>,
    /// The key of the file, if it is that of a variant, and the `Vary` that it comes from.
    pub(super) variant: Cell<Option<Key>>,
    pub(super) vary: RefCell<Box<[u8]>>,
    /// The number that the variant shares with the response that the main key finds.
    pub(super) family: Cell<Option<u64>>,
    /// The right to get the response, if the request has it.
    pub(super) fill: RefCell<Option<FillRight>>,
    /// What is there already: to be sent, or to be found valid again.
    pub(super) object: RefCell<Option<Arc<Object>>>,
    /// How the file of the key is read.
    pub(super) reading: Cell<Reading>,
    /// Until when other requests are waited for.
    pub(super) waits_until: Cell<Option<Instant>>,
}

impl Details {
    pub(super) fn new(
        wish: Wish,
        removes: Option<Status>,
        fill: Option<FillRight>,
    ) -> OnceCell<Box<Details>> {
        Box::new(Details { wish, removes, fill: RefCell::new(fill), ..Details::default() }).into()
    }
}

impl Cached {
    pub(super) fn details(&self) -> &Details {
        self.details.get_or_init(Box::default)
    }

    /// What the request says about kept responses, if the rules let it count.
    pub(super) fn wish(&self) -> Wish {
        self.details.get().map_or_else(Wish::default, |details| details.wish)
    }

    /// The key of the file: the main one, or that of a variant.
    pub(super) fn key(&self) -> Key {
        self.details.get().and_then(|details| details.variant.get()).unwrap_or(self.main)
    }

    pub(super) fn set_key(&self, key: Key) {
        if key != self.key() {
            self.details().variant.set(Some(key).filter(|key| *key != self.main));
        }
    }

    /// How the file of the key is read.
    pub(super) fn reading(&self) -> Reading {
        self.details.get().map_or_else(Reading::default, |details| details.reading.get())
    }

    /// Whether the request has the right to get the response.
    pub(super) fn has_fill(&self) -> bool {
        self.details.get().is_some_and(|details| details.fill.borrow().is_some())
    }

    /// The object that was there already.
    pub(super) fn met(&self) -> Option<Arc<Object>> {
        self.details.get()?.object.borrow().clone()
    }

    pub(super) fn take_met(&self) -> Option<Arc<Object>> {
        self.details.get()?.object.take()
    }
}

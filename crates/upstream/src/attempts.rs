//! What is known of the servers that were asked on behalf of a request (`$upstream_addr` and its kin).

use http::{Fields, Status};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// One server that was asked.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Its address, or the name of the group where none of its servers could be asked.
    pub address: String,
    /// The status that it answered, or that its failure stands for.
    pub status: Option<Status>,
    /// How long connecting took.
    pub connect_time: Option<Duration>,
    /// How long it took until its head was there.
    pub header_time: Option<Duration>,
    /// How long it took until its response was whole.
    pub response_time: Option<Duration>,
    /// Bytes of content.
    pub length: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Whether an internal redirect leads from the attempt before to this one.
    pub redirected: bool,
}

/// The servers that were asked, in order. A clone is the same list, so that work which is still going on
/// can add to what the request shows.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    list: Rc<RefCell<Vec<Attempt>>>,
    head: Rc<RefCell<Option<Rc<Fields>>>>,
}

impl Attempts {
    /// None so far.
    pub fn new() -> Attempts {
        Attempts::default()
    }

    /// Adds an attempt.
    pub fn begin(&self, address: &str, redirected: bool) {
        let attempt = Attempt { address: address.to_owned(), redirected, ..Attempt::default() };
        self.list.borrow_mut().push(attempt);
    }

    /// Changes what is known of the last attempt.
    pub fn note(&self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.list.borrow_mut().last_mut() {
            change(attempt);
        }
    }

    /// Looks at all attempts.
    pub fn with<T>(&self, look: impl FnOnce(&[Attempt]) -> T) -> T {
        look(&self.list.borrow())
    }

    /// Whether none was made.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Keeps the fields of the last response.
    pub fn set_fields(&self, fields: Fields) {
        *self.head.borrow_mut() = Some(Rc::new(fields));
    }

    /// The fields of the last response.
    pub fn fields(&self) -> Option<Rc<Fields>> {
        self.head.borrow().clone()
    }
}

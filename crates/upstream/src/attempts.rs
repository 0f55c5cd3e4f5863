//! The servers that were tried for a request (`$upstream_addr`, `$upstream_status` and so on).

use contract::{Exchange, Reach};
use http::{Fields, Status};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// One server that was asked.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Its address, or the name of the group where none of its servers could be asked.
    pub address: Arc<str>,
    /// The status that it answered, or that its failure stands for.
    pub status: Option<Status>,
    /// How long connecting took.
    pub connect_time: Option<Duration>,
    /// How long it took until its head was there.
    pub header_time: Option<Duration>,
    /// How long it took until the first byte came through a tunnel.
    pub first_byte_time: Option<Duration>,
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
    /// Whether its content, of which nothing says the length, ended with an encrypted connection that was not closed in the way of
    /// TLS (`close_notify`): an attacker may have cut it off.
    pub may_be_cut: bool,
}

/// The servers that were asked, in order. A clone is the same list, so that work which is still going on
/// can add to what the request shows.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Rc<Known>);

#[derive(Debug, Default)]
struct Known {
    list: RefCell<Vec<Attempt>>,
    /// The fields of the last response.
    fields: RefCell<Rc<Fields>>,
    /// The fields after its content.
    trailers: RefCell<Fields>,
}

impl Attempts {
    /// Those of this exchange, if any were made on its behalf.
    pub fn known(exchange: &Exchange) -> Option<Attempts> {
        exchange.attached::<Known>().map(Attempts)
    }

    /// Those of this exchange, to which more are added. A request inside of the server has its own.
    pub fn of(exchange: &Exchange) -> Attempts {
        Attempts::known(exchange).unwrap_or_else(|| {
            let new = Attempts::default();
            exchange.attach(Reach::Own, Rc::clone(&new.0));
            new
        })
    }

    /// Makes it those of this exchange, with its memory if it is no longer used.
    pub(crate) fn renew(&mut self, exchange: &Exchange) {
        if let Some(known) = Attempts::known(exchange) {
            *self = known;
            return;
        }
        let Some(Known { list, fields, trailers }) = Rc::get_mut(&mut self.0) else {
            *self = Attempts::of(exchange);
            return;
        };
        list.get_mut().clear();
        trailers.get_mut().clear();
        match Rc::get_mut(fields.get_mut()) {
            Some(fields) => fields.clear(),
            None => *fields.get_mut() = Rc::default(),
        }
        exchange.attach(Reach::Own, Rc::clone(&self.0));
    }

    /// Whether the content of the last response may be only the start of it, so that nothing may keep it. The client gets it as from
    /// nginx.
    pub fn may_be_cut(exchange: &Exchange) -> bool {
        let last = |list: &[Attempt]| list.last().is_some_and(|attempt| attempt.may_be_cut);
        Attempts::known(exchange).is_some_and(|attempts| attempts.with(last))
    }

    /// Adds an attempt.
    #[inline]
    pub fn begin(&self, address: &Arc<str>, redirected: bool) {
        let attempt = Attempt { address: Arc::clone(address), redirected, ..Attempt::default() };
        self.0.list.borrow_mut().push(attempt);
        self.0.trailers.borrow_mut().clear();
    }

    /// Changes what is known of the last attempt.
    pub fn note(&self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.0.list.borrow_mut().last_mut() {
            change(attempt);
        }
    }

    /// Looks at all attempts.
    pub fn with<T>(&self, look: impl FnOnce(&[Attempt]) -> T) -> T {
        look(&self.0.list.borrow())
    }

    /// Whether none was made.
    pub fn is_empty(&self) -> bool {
        self.0.list.borrow().is_empty()
    }

    /// Keeps the fields of the last response; leaves other ones, which count for nothing.
    #[inline]
    pub fn set_fields(&self, fields: &mut Fields) -> Rc<Fields> {
        let mut known = self.0.fields.borrow_mut();
        match Rc::get_mut(&mut known) {
            Some(known) => std::mem::swap(known, fields),
            None => *known = Rc::new(std::mem::take(fields)),
        }
        Rc::clone(&known)
    }

    /// Keeps the fields after the content of the last response.
    pub fn set_trailers(&self, trailers: &Fields) {
        self.0.trailers.borrow_mut().clone_from(trailers);
    }

    /// Looks at the fields after the content of the last response; none before its end.
    pub fn with_trailers<T>(&self, look: impl FnOnce(&Fields) -> T) -> T {
        look(&self.0.trailers.borrow())
    }

    /// The fields of the last response; none where there was no response.
    pub fn fields(&self) -> Rc<Fields> {
        Rc::clone(&self.0.fields.borrow())
    }
}

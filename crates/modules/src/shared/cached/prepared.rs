//! The head of a response that is in memory, as one location sends it: made at one hit, copied at further ones.

use bytes::Bytes;
use cache::Object;
use contract::{Exchange, Scope};
use http::{Fields, HeadMemo, Status};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use upstream::Attempts;

/// The head of a response, as one location sends it.
#[derive(Debug)]
pub(crate) struct Prepared {
    scope: Weak<Scope>,
    reason: Option<(Status, Cow<'static, [u8]>)>,
    content_type: Option<Bytes>,
    etag: Option<Bytes>,
    last_modified: Option<i64>,
    accept_ranges: bool,
    omits_server: bool,
    omits_date: bool,
    fields: Fields,
}

/// Fields whose effect depends on more than the location.
const PARTICULAR: [&str; 6] =
    ["Location", "Refresh", "Set-Cookie", "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Charset"];

impl Prepared {
    /// The head of an object for this exchange, if there is one already.
    pub(crate) fn find(object: &Object, exchange: &Exchange) -> Option<Arc<Prepared>> {
        let prepared = object.derived().and_then(|derived| derived.downcast::<Prepared>().ok())?;
        std::ptr::eq(prepared.scope.as_ptr(), Arc::as_ptr(&exchange.scope)).then_some(prepared)
    }

    /// Whether the head of the response of this exchange will be the same for other requests, as far as that is known
    /// before it is made.
    pub(crate) fn is_usual(exchange: &Exchange) -> bool {
        exchange.error.is_none()
            && exchange.response.fields.is_empty()
            && exchange.response.content_type.is_none()
            && exchange.wire.limit_rate.is_none()
            && !(exchange.response.omits_server || exchange.response.omits_date)
            && Attempts::known(exchange).is_none()
    }

    /// Keeps the head that was made for an object.
    pub(crate) fn keep(object: &Object, exchange: &Exchange) {
        let response = &exchange.response;
        let is_particular = PARTICULAR.iter().any(|name| object.head.fields.get(name).is_some());
        if is_particular || response.status != Status::OK || response.location.is_some() {
            return;
        }
        object.derive(Arc::new(Prepared {
            scope: Arc::downgrade(&exchange.scope),
            reason: response.reason.clone().filter(|(_, words)| **words != *Status::OK.reason().as_bytes()),
            content_type: response.content_type.clone(),
            etag: response.etag.clone(),
            last_modified: response.last_modified,
            accept_ranges: response.accept_ranges,
            omits_server: response.omits_server,
            omits_date: response.omits_date,
            fields: response.fields.clone(),
        }));
    }

    /// Makes it the head of the response.
    pub(crate) fn apply(self: &Arc<Self>, exchange: &mut Exchange) {
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.reason.clone_from(&self.reason);
        response.content_type.clone_from(&self.content_type);
        response.etag.clone_from(&self.etag);
        response.last_modified = self.last_modified;
        response.accept_ranges = self.accept_ranges;
        for field in self.fields.iter() {
            // The list that these fields come from has room for them.
            let _ = response.fields.push_checked(&field);
        }
        response.memo = Some(memo(self));
        (response.omits_server, response.omits_date) = (self.omits_server, self.omits_date);
        exchange.wire.relayed = false;
    }
}

/// A head, and the text that one thread sent for it. The weak pointer keeps the address from becoming another head's.
type Sent = (Weak<Prepared>, Rc<HeadMemo>);

/// How many of them a thread knows.
const MEMOS: usize = 256;

thread_local! {
    /// The texts of the heads that this thread sent last.
    static TEXTS: RefCell<Vec<Option<Sent>>> = const { RefCell::new(Vec::new()) };
}

/// What this thread knows of the text of a head.
fn memo(prepared: &Arc<Prepared>) -> Rc<HeadMemo> {
    TEXTS.with_borrow_mut(|texts| {
        if texts.is_empty() {
            texts.resize_with(MEMOS, || None);
        }
        let address = Arc::as_ptr(prepared) as usize;
        let text = &mut texts[(address / size_of::<Prepared>()) % MEMOS];
        match text {
            Some((known, memo)) if std::ptr::eq(known.as_ptr(), Arc::as_ptr(prepared)) => Rc::clone(memo),
            _ => {
                let memo = Rc::<HeadMemo>::default();
                *text = Some((Arc::downgrade(prepared), Rc::clone(&memo)));
                memo
            }
        }
    })
}

//! Refuses requests by the settings of `.htaccess` files. As in Apache the settings that refused a request do not refuse
//! the error document that they name for it.

use crate::shared::apache::lookup;
use contract::{Exchange, Reach, Replaced, Scope, Step};
use http::Status;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The settings that refused the request.
struct Refused {
    scope: Arc<Scope>,
    /// Whether the request has left these settings since then.
    is_over: Cell<bool>,
}

/// Ends a request that the settings do not let in.
pub(crate) fn refuse(exchange: &Exchange, status: Status) -> Step {
    note(exchange);
    lookup::refuse(exchange, status)
}

/// Notes that the settings ask for a user, if this step does.
pub(crate) fn noted(exchange: &Exchange, step: Step) -> Step {
    if matches!(step, Step::Finish(Status::UNAUTHORIZED)) {
        note(exchange);
    }
    step
}

fn note(exchange: &Exchange) {
    if !lookup::is_lookup(exchange) {
        exchange.attach(
            Reach::Own,
            Rc::new(Refused { scope: Arc::clone(&exchange.scope), is_over: Cell::new(false) }),
        );
    }
}

/// Whether the access rules are not asked: the same settings let the directory in whose index this is, or refused the
/// request whose error document this is.
pub(crate) fn is_let_in(exchange: &Exchange) -> bool {
    is_document(exchange) || lookup::is_let_in(exchange) || is_of_same(exchange)
}

/// Notes that settings apply which let in every request.
#[inline]
pub(crate) fn pass(exchange: &Exchange) {
    is_document(exchange);
}

/// The settings of a request that looks for forms of its document by subrequests.
#[derive(Default)]
struct Asking(RefCell<Option<Arc<Scope>>>);

/// Lets the settings of this request not be asked again for a subrequest that has the same, as in Apache; or ends that.
pub(crate) fn let_in_same(exchange: &Exchange, is_asking: bool) {
    let asking = exchange.attached_or(Reach::Shared, Asking::default);
    asking.0.replace(is_asking.then(|| Arc::clone(&exchange.scope)));
}

fn is_of_same(exchange: &Exchange) -> bool {
    let has_scope = |asking: Rc<Asking>| {
        asking.0.borrow().as_ref().is_some_and(|scope| Arc::ptr_eq(scope, &exchange.scope))
    };
    exchange.subrequest && exchange.attached::<Asking>().is_some_and(has_scope)
}

/// Whether this is the error document of a request that the same settings refused, or the path that a rule leads to from
/// there. As in Apache they are asked again if other settings applied in between.
fn is_document(exchange: &Exchange) -> bool {
    exchange.error.is_some() && exchange.error_page_used == Replaced::Kept && is_of_refused(exchange)
}

fn is_of_refused(exchange: &Exchange) -> bool {
    exchange.attached::<Refused>().is_some_and(|refused| {
        let is_over = refused.is_over.get() || !Arc::ptr_eq(&refused.scope, &exchange.scope);
        refused.is_over.set(is_over);
        !is_over
    })
}

//! Refuses requests by the settings of `.htaccess` files. As in Apache the settings that refused a request do not refuse
//! the error document that they name for it.

use crate::files::index;
use contract::{Exchange, Replaced, Scope, Step};
use http::Status;
use std::cell::Cell;
use std::sync::Arc;

/// The settings that refused the request.
struct Refused {
    scope: Arc<Scope>,
    /// Whether the request has left these settings since then.
    is_over: Cell<bool>,
}

/// Ends a request that the settings do not let in.
pub(crate) fn refuse(exchange: &Exchange, status: Status) -> Step {
    if !index::is_lookup(exchange) {
        exchange.attach_own(Refused { scope: Arc::clone(&exchange.scope), is_over: Cell::new(false) });
    }
    index::refuse(exchange, status)
}

/// Whether the access rules are not asked: the same settings let the directory in whose index this is, or refused the
/// request whose error document this is.
pub(crate) fn is_let_in(exchange: &Exchange) -> bool {
    is_document(exchange) || index::is_let_in(exchange)
}

/// Whether this is the error document of a request that the same settings refused, or the path that a rule leads to from
/// there. As in Apache they are asked again if other settings applied in between.
fn is_document(exchange: &Exchange) -> bool {
    if exchange.error.is_none() || exchange.error_page_used != Replaced::Kept {
        return false;
    }
    exchange.attached::<Refused>().is_some_and(|refused| {
        let is_over = refused.is_over.get() || !Arc::ptr_eq(&refused.scope, &exchange.scope);
        refused.is_over.set(is_over);
        !is_over
    })
}

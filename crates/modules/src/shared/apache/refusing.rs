//! Refuses requests by the settings of `.htaccess` files. As in Apache the settings that refused a request do not refuse
//! the error document that they name for it.

use crate::files::index;
use contract::{Exchange, Replaced, Scope, Step};
use http::Status;
use std::sync::Arc;

/// The settings that refused the request.
struct Refused(Arc<Scope>);

/// Ends a request that the settings do not let in.
pub(crate) fn refuse(exchange: &Exchange, status: Status) -> Step {
    if !index::is_lookup(exchange) {
        exchange.attach_own(Refused(Arc::clone(&exchange.scope)));
    }
    index::refuse(exchange, status)
}

/// Whether this is the error document of a request that the same settings refused. Where a rule leads elsewhere from the
/// document, it is not.
pub(crate) fn is_document(exchange: &Exchange) -> bool {
    let Some(status) = exchange.error.filter(|_| exchange.error_page_used == Replaced::Kept) else {
        return false;
    };
    let is_same = |refused: &Refused| Arc::ptr_eq(&refused.0, &exchange.scope);
    let pages = &exchange.scope.policy.error_pages;
    exchange.attached::<Refused>().is_some_and(|refused| is_same(&refused))
        && pages
            .iter()
            .find(|page| page.statuses.contains(&status))
            .is_some_and(|page| page.target.evaluate(exchange) == exchange.request.path)
}

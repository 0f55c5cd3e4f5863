//! The lookup of an index where `.htaccess` files count: their rules may refuse or redirect it, even if it does not exist.

use contract::{Exchange, Reach, Reroute, Scope, Step};
use http::Status;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How far the search for an index came where `.htaccess` files count.
#[derive(Default)]
pub(crate) struct Search {
    /// The path and the query of the directory.
    pub(crate) directory: (Vec<u8>, Option<Vec<u8>>),
    /// The settings of the directory.
    pub(crate) scope: Option<Arc<Scope>>,
    /// The path of the index that was found; empty when the request went elsewhere from there.
    pub(crate) index: Vec<u8>,
    /// The position of the name to try next.
    pub(crate) next: usize,
    /// Whether there is no further name.
    pub(crate) is_last: bool,
    /// The error for whose document this is.
    pub(crate) error: Option<Status>,
    /// The status that a file refused an index with.
    pub(crate) refused: Cell<Option<Status>>,
    /// Whether the name is that of a directory.
    pub(crate) is_directory: bool,
    /// Whether this is no index, but the path of a `FallbackResource`.
    pub(crate) is_fallback: bool,
    /// Whether a refusal sent the request back to the directory.
    pub(crate) is_back: Cell<bool>,
}

impl Search {
    /// Whether the answer to the lookup of an index is that of the directory. As in Apache a redirect is, and the last
    /// index may ask for a password.
    pub(crate) fn ends_with(&self, status: Status) -> bool {
        self.is_fallback || status.is_redirection() || status == Status::UNAUTHORIZED && self.is_last
    }

    /// The search that a refusal sent back to the directory.
    pub(crate) fn of(exchange: &Exchange) -> Option<Rc<Search>> {
        let search = exchange.attached::<Search>()?;
        (search.is_back.get() && search.directory.0 == exchange.request.path).then_some(search)
    }
}

/// An index that does not exist, while a subrequest finds out whether the rules refuse or redirect it.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) path: RefCell<Vec<u8>>,
    /// The settings of the directory.
    pub(crate) scope: RefCell<Option<Arc<Scope>>>,
    /// The status that a rule answered with.
    pub(crate) answered: Cell<Option<Status>>,
}

/// Whether the request asks about an index that does not exist. As in Apache it does not follow a rule that leads
/// elsewhere.
pub(crate) fn is_asked(exchange: &Exchange) -> bool {
    asked(exchange).is_some()
}

fn asked(exchange: &Exchange) -> Option<Rc<Asked>> {
    if !exchange.subrequest {
        return None;
    }
    let asked = exchange.attached::<Asked>()?;
    let is_same = *asked.path.borrow() == exchange.request.path;
    is_same.then_some(asked)
}

/// Whether the request is the lookup of an index, and has the settings that let its directory in. As in Apache they are
/// not asked again.
pub(crate) fn is_let_in(exchange: &Exchange) -> bool {
    let scope = match asked(exchange) {
        Some(asked) => asked.scope.borrow().clone(),
        None if is_lookup(exchange) => exchange.attached::<Search>().and_then(|search| search.scope.clone()),
        None => None,
    };
    scope.is_some_and(|scope| Arc::ptr_eq(&scope, &exchange.scope))
}

/// Whether the request is the lookup of an index. In Apache that is a subrequest, for which some rules do not count.
pub(crate) fn is_lookup(exchange: &Exchange) -> bool {
    let is_index =
        |search: Rc<Search>| search.error == exchange.error && search.index == exchange.request.path;
    exchange.attached::<Search>().is_some_and(is_index) || is_asked(exchange)
}

/// Goes to the path of a `FallbackResource`. In Apache that is a lookup like that of an index; its refusal is final.
pub(crate) fn fall_back(exchange: &Exchange, path: Vec<u8>) -> Step {
    let scope = Some(Arc::clone(&exchange.scope));
    let (index, error) = (path.clone(), exchange.error);
    exchange
        .attach(Reach::Own, Rc::new(Search { scope, index, error, is_fallback: true, ..Search::default() }));
    Step::Reroute(Reroute::Uri { path, args: exchange.request.args.clone() })
}

/// Whether the request is the lookup of a `FallbackResource`.
pub(crate) fn is_fallback(exchange: &Exchange) -> bool {
    exchange.attached::<Search>().is_some_and(|search| search.is_fallback) && is_lookup(exchange)
}

/// Notes that a rule sends the request elsewhere.
pub(crate) fn end_lookup(exchange: &Exchange) {
    if let Some(search) = exchange.attached::<Search>() {
        let directory = search.directory.clone();
        exchange.attach(Reach::Own, Rc::new(Search { directory, ..Search::default() }));
    }
}

/// Refuses a request by a rule of a `.htaccess` file: if it is the lookup of an index, the next name is tried.
pub(crate) fn refuse(exchange: &Exchange, status: Status) -> Step {
    if let Some(asked) = asked(exchange) {
        asked.answered.set(Some(status));
        return Step::Finish(status);
    }
    match exchange.attached::<Search>() {
        Some(search) if is_lookup(exchange) && !search.ends_with(status) => {
            search.is_back.set(true);
            // A directory all of whose indexes are missing is listed; one with a forbidden index is not.
            if status != Status::NOT_FOUND {
                search.refused.set(Some(status));
            }
            let (path, args) = search.directory.clone();
            Step::Reroute(Reroute::Uri { path, args })
        }
        _ => Step::Finish(status),
    }
}

//! Filters of responses.

use crate::{Body, Exchange};

/// A feature's part in a response. Filters run in the order of the module list, once a response.
///
/// A filter that changes content wraps the body in its own [`Source`](crate::Source): the
/// outermost source is pulled when the connection can take more, so that backpressure and waiting
/// need no code in a filter.
///
/// A filter that gives a good response the status of an error ends it: the error's page is sent in its
/// place, and passes all filters in its turn.
pub trait Filter: Send + Sync {
    /// Changes the exchange's response head and its body.
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body;

    /// Whether it changes what subrequests answer, too. Most filters are about what a client sees.
    fn is_for_subrequests(&self) -> bool {
        false
    }

    /// Adds trailers when all content was sent, where the response's head says that it expects any.
    fn end(&self, exchange: &mut Exchange) {
        let _ = exchange;
    }
}

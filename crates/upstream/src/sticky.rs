//! Sessions: requests that belong together go to the same server (`sticky`).

use contract::Exchange;
use std::fmt::{Debug, Formatter, Result};

/// Finds the session of a request, and the server of a session. Servers are known by their routes, which the
/// configuration sets (`route=`) or which follow from their addresses.
pub trait Sticky: Send + Sync {
    /// The session of a request; empty if it has none.
    fn session(&self, exchange: &Exchange) -> Vec<u8>;

    /// The route of the server that a session belongs to.
    fn route(&self, session: &[u8]) -> Option<Vec<u8>>;

    /// The value of `Set-Cookie` that keeps further requests with the server of this route.
    fn cookie(&self, exchange: &Exchange, route: &[u8]) -> Option<Vec<u8>> {
        let _ = (exchange, route);
        None
    }

    /// When the servers of sessions are learned from answers; `None` if they are not.
    fn learns(&self) -> Option<Learns> {
        None
    }

    /// The session that an answer begins; empty if it begins none.
    fn begun(&self, exchange: &Exchange) -> Vec<u8> {
        let _ = exchange;
        Vec::new()
    }

    /// Learns that a session belongs to the server of this route.
    fn learn(&self, lesson: &Lesson, route: &[u8]) {
        let _ = (lesson, route);
    }
}

impl Debug for dyn Sticky {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.write_str("Sticky")
    }
}

/// When the servers of sessions are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// As soon as the head of the answer is there.
    AtHead,
    /// When the connection to the server is given up.
    AtEnd,
}

/// The session of a request, which its server answered.
#[derive(Debug)]
pub struct Lesson {
    /// The session.
    pub session: Vec<u8>,
    /// Whether the answer begins it. One that the request names must be known.
    pub is_begun: bool,
}

impl Lesson {
    /// What the answer to a request teaches; nothing if neither names a session.
    pub(crate) fn of(sticky: &dyn Sticky, exchange: &Exchange, session: &[u8]) -> Option<Lesson> {
        let begun = sticky.begun(exchange);
        let is_begun = !begun.is_empty();
        let session = if is_begun { begun } else { session.to_vec() };
        (!session.is_empty()).then_some(Lesson { session, is_begun })
    }
}

//! Detached subrequests: they outlast the request that started them, its client and its connection.

use super::inner::{self, Inside};
use super::request::{After, Request};
use crate::pipeline::Flow;
use contract::{Carrier, Connection, Subrequest};
use journal::shares;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::memory::{self, Held};

/// About how much memory such a request takes besides its body, in bytes.
const SIZE_BYTES: usize = 4096;

/// A detached subrequest (`mirror`).
///
/// It has the body of the request that it comes from, as far as that was read, and what was attached to that. It ends when
/// there is an answer, whose content is not read.
pub struct Detached {
    request: Box<Request>,
    end: Inside,
    is_begun: bool,
    _held: Held,
}

impl Detached {
    /// A request on behalf of a flow that is itself so many subrequests deep; none if there are too many, or if requests
    /// hold all the memory that they may.
    pub(crate) fn new(parent: &Flow, wanted: Subrequest, depth: u32) -> Option<Detached> {
        if memory::is_exhausted() || !inner::may_run(parent, &wanted, depth) {
            return None;
        }
        let mut flow = parent.subrequest(wanted);
        // The client's socket may be closed before this request ends, and its number may belong to another connection then.
        let connection = Connection { carrier: Carrier::Other, ..(*flow.exchange.connection).clone() };
        flow.exchange.connection = Rc::new(connection);
        let mut held = Held::default();
        held.set(SIZE_BYTES);
        let request = Box::new(Request::new(flow, depth + 1));
        Some(Detached { request, end: Inside::default(), is_begun: false, _held: held })
    }

    /// The connection that the request came by.
    pub fn connection(&self) -> &Connection {
        &self.request.flow.exchange.connection
    }

    /// Goes on; ready when the request is over.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        shares::begin_turn();
        if !std::mem::replace(&mut self.is_begun, true) {
            let progress = self.request.flow.run();
            self.request.start(progress);
        }
        if let After::Sent | After::Taken = ready!(self.request.poll(cx, &mut self.end)) {
            inner::log(&mut self.request.flow);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prototypes;
    use contract::{Content, Exchange};
    use site::testing;
    use std::sync::Arc;
    use std::task::Waker;

    fn flow(server: &str) -> Flow {
        let site = prototypes::site(server);
        let server = Arc::clone(site.listens[0].hosts(None).default_server());
        let connection = Connection {
            carrier: Carrier::Stream(contract::SocketProbe::of(&std::io::stdin())),
            ..testing::connection("127.0.0.1:1")
        };
        let scope = Arc::clone(&server.scope);
        let request = testing::request("GET", "/", "localhost");
        Flow::new(Exchange::new(connection.into(), request, scope, Arc::clone(&site.variables)), server)
    }

    fn poll(detached: &mut Detached) -> Poll<()> {
        detached.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_detached_request_outlasts_the_one_that_it_comes_from() {
        let parent = flow("location / { body x; }");
        let mut detached = Detached::new(&parent, Subrequest::get("/", Content::Unused), 0).unwrap();
        let connection = Rc::clone(&parent.exchange.connection);
        drop(parent);
        assert_eq!(Rc::strong_count(&connection), 1, "it keeps the connection");
        let Connection { serial, carrier, .. } = detached.connection();
        assert_eq!((*serial, *carrier), (connection.serial, Carrier::Other));
        assert!(poll(&mut detached).is_ready());
    }

    #[test]
    fn depth_is_bounded() {
        let parent = flow("location / { body x; }");
        assert!(Detached::new(&parent, Subrequest::get("/", Content::Unused), inner::DEPTH_MAX).is_none());
    }
}

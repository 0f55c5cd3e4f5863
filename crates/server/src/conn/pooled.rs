//! A request with the memory that it leaves to further ones.

use super::life::Life;
use super::pool::Pooled;
use contract::{Body, Exchange};
use engine::{Flow, Progress};
use http::Status;
use http::semantics::{BodyLength, Framing};
use http::uri::Target;
use journal::Level;
use journal::clock::Time;
use wire::memory;

/// A request with a text that grew past this is not kept, in bytes.
const KEPT_TEXT: usize = 4096;

/// A request whose head grew past this is not kept, in bytes.
const KEPT_HEAD: usize = 16 * 1024;

/// The framing of a request of which nothing is known.
const UNFRAMED: Framing = Framing { body: BodyLength::None, keep_alive: false, expect_continue: false };

/// A request on its way, with the memory that it leaves to further ones.
pub(crate) struct PooledRequest {
    pub(super) life: Life,
    pub(super) received: Received,
    /// Memory for what a target is taken apart into.
    pub(super) target: Target,
}

/// What the head of a request says about its message, in every version of HTTP.
pub(super) struct Received {
    pub(super) framing: Framing,
    /// What is wrong with the request itself.
    pub(super) refused: Option<Status>,
}

impl Default for Received {
    fn default() -> Received {
        Received { framing: UNFRAMED, refused: None }
    }
}

impl Received {
    /// Notes that this request is the last one of its connection, and why.
    pub(super) fn refuse_last(&mut self, exchange: &mut Exchange, status: Status) {
        self.refused = Some(status);
        self.framing.keep_alive = false;
        exchange.wire.keep_alive = false;
    }
}

impl PooledRequest {
    pub(super) fn new(flow: Flow) -> PooledRequest {
        PooledRequest {
            life: Life::new(engine::Request::new(flow, 0)),
            received: Received::default(),
            target: Target::default(),
        }
    }

    pub(super) fn flow(&mut self) -> &mut Flow {
        &mut self.life.request.flow
    }

    pub(super) fn exchange(&self) -> &Exchange {
        &self.life.request.flow.exchange
    }

    /// Runs handlers until the request has to wait. `arrived` is a moment before which its first byte had arrived.
    pub(super) fn advance(&mut self, draining: bool, arrived: u64) -> Progress {
        let _shared = site::SharedLooks::begin(arrived);
        let flow = &mut self.life.request.flow;
        flow.exchange.wire.keep_alive = self.received.framing.keep_alive && !draining;
        match self.received.refused {
            Some(status) => flow.fail(status),
            // Requests in progress come first: what they hold already is lost if they are cut.
            None if memory::is_scarce() => Progress::Respond(refuse(flow)),
            None => flow.run(),
        }
    }
}

impl Pooled for PooledRequest {
    fn clear(&mut self) -> bool {
        let PooledRequest { life, received, target } = self;
        let request = &mut life.request.flow.exchange.request;
        if let Some(mut args) = request.args.take() {
            args.clear();
            target.args = args;
        }
        let is_small = [&request.uri, &request.path, &request.host, &target.path, &target.args]
            .iter()
            .all(|text| text.capacity() <= KEPT_TEXT)
            && request.head.memory() <= KEPT_HEAD;
        life.clear();
        *received = Received::default();
        is_small
    }
}

/// The answer to a request for which there is no memory.
fn refuse(flow: &mut Flow) -> Body {
    if memory::complains(Time::now().uptime_ms) {
        let (held, limit) = (memory::held(), memory::limit());
        let text = format!(
            "requests in progress hold {held} of {limit} bytes (request_memory): new requests are refused"
        );
        flow.exchange.log(Level::Alert, &text);
    }
    flow.fail_at_once(Status::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::{KEPT_TEXT, Pooled, PooledRequest, Received};
    use contract::{Exchange, Overlaid, Reach, RequestBody, Routing};
    use engine::Flow;
    use http::{Status, Version};
    use site::testing;
    use std::rc::Rc;
    use std::sync::{Arc, Weak};

    fn pooled() -> PooledRequest {
        let (_, site) = testing::site("server { }", &[]).unwrap();
        let server = site.listens[0].hosts(None).default_server();
        let (connection, request) = (Rc::new(testing::connection("")), contract::Request::new());
        let (scope, variables) = (Arc::clone(&server.scope), Arc::clone(&site.variables));
        PooledRequest::new(Flow::new(
            Exchange::new(connection, request, scope, variables),
            Arc::clone(server),
        ))
    }

    /// What can be reported about a request and its response.
    fn told(pooled: &PooledRequest) -> String {
        let PooledRequest { life, received, target } = pooled;
        let exchange = &life.request.flow.exchange;
        let Exchange { request, response, routing, error, error_page_used, .. } = exchange;
        let Exchange { wire, subrequest, file, .. } = exchange;
        let state = (routing, error, error_page_used);
        let Received { framing, refused } = received;
        let rest = (wire, subrequest, file, framing, refused, target);
        let attached = (exchange.attached::<Rc<()>>().is_some(), exchange.overlaid.is_some());
        let budget = exchange.budget().spend(0);
        format!("{request:?} {response:?} {state:?} {rest:?} {attached:?} {budget:?}")
    }

    #[test]
    fn nothing_of_a_request_is_left_for_the_next_one() {
        let mut pooled = pooled();
        let fresh = told(&pooled);
        let attached = Rc::new(());
        let exchange = &mut pooled.life.request.flow.exchange;
        exchange.request = testing::request("POST", "/path", "host");
        exchange.request.head.fields.push(b"Cookie", b"secret").unwrap();
        exchange.request.args = Some(b"args".to_vec());
        exchange.request.body = Some(RequestBody::Memory(b"body"[..].into()));
        (exchange.request.port, exchange.request.content_length) = (Some(1), Some(4));
        (exchange.request.chunked, exchange.request.length, exchange.request.pipelined) = (true, 1, true);
        exchange.request.head.version = Version::Http10;
        let response = &mut exchange.response;
        (response.status, response.reason) = (Status::NOT_FOUND, Some((Status::NOT_FOUND, b"x".into())));
        (response.content_type, response.etag) = (Some(b"a/b"[..].into()), Some(b"\"e\""[..].into()));
        (response.content_length, response.last_modified) = (Some(1), Some(1));
        response.location = Some((*b"/").into());
        (response.accept_ranges, response.vary, response.expects_trailers) = (true, true, true);
        response.fields.push(b"Set-Cookie", b"secret").unwrap();
        response.trailers.push(b"X", b"y").unwrap();
        response.memo = Some(Rc::default());
        exchange.routing = Routing { internal: true, valid_location: false, uri_below_alias: true };
        (exchange.error, exchange.error_page_used) = (Some(Status::NOT_FOUND), contract::Replaced::Once);
        (exchange.wire.bytes, exchange.wire.keep_alive, exchange.subrequest) = (1, true, true);
        exchange.attach(Reach::Shared, Rc::new(Rc::clone(&attached)));
        exchange.overlaid = Some(Rc::new(Overlaid {
            path: b"/a".to_vec(),
            uri_start: None,
            root_end: 0,
            metadata: None,
            below: Weak::new(),
            scope: Weak::new(),
        }));
        assert!(exchange.budget().spend(u32::MAX).is_err());
        pooled.received.refused = Some(Status::BAD_REQUEST);
        pooled.received.framing.keep_alive = true;
        assert!(pooled.clear());
        assert_eq!(Rc::strong_count(&attached), 1, "it ended with the request");
        assert!(pooled.target.args.capacity() > 0, "the memory is kept");
        assert_eq!(told(&pooled), fresh);
    }

    #[test]
    fn requests_that_outlast_it_share_nothing_with_the_next_one() {
        let mut pooled = pooled();
        let inner = pooled.life.request.flow.exchange.inner(contract::Request::new());
        assert!(inner.budget().spend(u32::MAX).is_err());
        pooled.clear();
        let exchange = &pooled.life.request.flow.exchange;
        exchange.attach(Reach::Shared, Rc::new(1));
        assert!(exchange.budget().spend(0).is_ok() && inner.attached::<i32>().is_none());
        let budget = exchange.budget();
        pooled.clear();
        assert!(budget.spend(u32::MAX).is_err());
        assert!(
            pooled.life.request.flow.exchange.budget().spend(0).is_ok(),
            "a body may still hold the other"
        );
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut pooled = pooled();
        pooled.life.request.flow.exchange.request.args = Some(vec![b'a'; KEPT_TEXT + 1]);
        assert!(!pooled.clear());
    }
}

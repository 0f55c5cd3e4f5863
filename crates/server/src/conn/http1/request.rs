//! A request in HTTP/1 with the memory that it leaves to further ones.

use super::message::Message;
use crate::conn::pool::Pooled;
use crate::conn::pooled::PooledRequest;
use contract::Body;
use wire::Buffer;

/// A request in HTTP/1 on its way.
pub(crate) struct Http1Request {
    pub(super) pooled: PooledRequest,
    pub(super) message: Message,
}

impl Http1Request {
    pub(super) fn new(pooled: PooledRequest) -> Http1Request {
        Http1Request { pooled, message: Message::default() }
    }

    /// Judges what there is of the request's body before the response leaves: a body that is broken
    /// gets its own answer. Tells, too, whether nothing of the request is left to read or to wait for.
    pub(super) fn settle(&mut self, input: &mut Buffer, body: Body) -> (Body, bool) {
        let Http1Request { pooled: PooledRequest { life, received, .. }, message } = self;
        let flow = &mut life.request.flow;
        match message.skip(input, &mut flow.exchange, received) {
            Ok(done) => (body, received.refused.is_some() || (done && !received.framing.expect_continue)),
            Err(status) => (flow.fail_at_once(status), true),
        }
    }
}

impl Pooled for Http1Request {
    fn clear(&mut self) -> bool {
        let is_small = self.pooled.clear();
        self.message = Message::default();
        is_small
    }
}

#[cfg(test)]
mod tests {
    use super::{Http1Request, Pooled, PooledRequest};
    use crate::conn::http1::message::Fate;
    use bytes::Bytes;
    use contract::Exchange;
    use engine::Flow;
    use site::testing;
    use std::rc::Rc;
    use std::sync::Arc;

    #[test]
    fn nothing_of_a_message_is_left_for_the_next_one() {
        let site = testing::served("");
        let server = site.listens[0].hosts(None).default_server();
        let (connection, variables) = (Rc::new(testing::connection("")), Arc::clone(&site.variables));
        let exchange =
            Exchange::new(connection, contract::Request::new(), Arc::clone(&server.scope), variables);
        let mut request = Http1Request::new(PooledRequest::new(Flow::new(exchange, Arc::clone(server))));
        let message = &mut request.message;
        (message.body_done, message.left, message.is_tunnel) = (true, true, true);
        (message.first, message.content) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        message.fate = Fate::Refused;
        assert!(request.clear());
        let message = &request.message;
        assert!(!message.body_done && !message.left && !message.is_tunnel);
        assert!(message.first.is_empty() && message.content.is_empty());
        assert!(matches!(message.fate, Fate::Kept));
    }
}

//! A request of a connection in HTTP/1 that cannot be answered at once: until its response was sent, and what follows that.

use super::Http1;
use super::end::Http1End;
use super::message::Fate;
use super::request::Http1Request;
use crate::conn::pooled::PooledRequest;
use contract::Scope;
use engine::Progress;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A request that is being served, and its connection.
pub(crate) struct Serving {
    pub(crate) http1: Box<Http1>,
    request: Box<Http1Request>,
}

/// What happens to a connection whose request is over.
pub(crate) enum Served {
    /// It waits for the next request.
    Kept,
    /// Answers to the requests before are still to be sent; then it is closed.
    Refused,
    Closing(Arc<Scope>, bool),
    Closed,
}

impl Serving {
    pub(super) fn new(http1: Box<Http1>, mut request: Box<Http1Request>, progress: Progress) -> Serving {
        http1.client.timer.clear();
        request.pooled.life.start(progress);
        Serving { http1, request }
    }

    /// Goes on; ready with what happens to the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served> {
        let Serving { http1, request } = self;
        let Http1Request { pooled: PooledRequest { life, received, .. }, message } = &mut **request;
        let Http1 { client, bytes, .. } = &mut **http1;
        ready!(life.poll(cx, &mut Http1End { client, bytes, received, message }));
        Poll::Ready(self.end())
    }

    /// Logs the request, whose connection ends before the response was sent whole.
    pub(crate) fn cut_off(&mut self) {
        let Serving { http1, request } = self;
        let Http1Request { pooled: PooledRequest { life, received, .. }, message } = &mut **request;
        let Http1 { client, bytes, .. } = &mut **http1;
        Http1End { client, bytes, received, message }.subtract_unsent(&mut life.request.flow.exchange);
        life.cut_off();
    }

    /// What happens to the connection, whose request is over.
    fn end(&mut self) -> Served {
        let Serving { http1, request } = self;
        let Http1Request { pooled, message } = &mut **request;
        let scope = Arc::clone(&pooled.exchange().scope);
        let unread = !message.body_done || message.is_tunnel;
        match std::mem::take(&mut message.fate) {
            Fate::Kept => {
                http1.prepare_next(&scope.policy);
                Served::Kept
            }
            Fate::Ended => Served::Closing(scope, unread),
            Fate::Refused => Served::Refused,
            Fate::Broken(error) => {
                http1.bytes.reset_if_timed_out(&error, &scope.policy.lingering);
                Served::Closed
            }
        }
    }

    /// Gives back the connection, and ends the request with all that is attached to it.
    pub(crate) fn into_connection(self) -> Box<Http1> {
        let Serving { http1, request } = self;
        http1.end(request);
        http1
    }
}

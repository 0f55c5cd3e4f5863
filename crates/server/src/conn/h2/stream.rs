//! A request of a connection in HTTP/2 that cannot be answered at once: until its response was sent, and what follows
//! that.

use super::end::{StreamEnd, Transfer};
use super::shared::Shared;
use super::wakers::StreamWaker;
use crate::conn::pooled::PooledRequest;
use crate::thread::Serving;
use engine::Progress;
use http2::Code;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// How much a stream sends before others have their turn, in bytes.
pub(super) const TURN: usize = 16 * 1024;

/// A request that is being served.
pub(super) struct Stream {
    pooled: Box<PooledRequest>,
    pub(super) transfer: Transfer,
    waker: Arc<StreamWaker>,
    /// What it is served by.
    pub(super) serving: Rc<Serving>,
    /// Whether it is to be polled.
    pub(super) is_queued: bool,
    /// Whether it is among the streams that wait for their turn to send.
    pub(super) awaits_turn: bool,
    /// Whether it is among the streams that wait for a window.
    pub(super) is_blocked: bool,
}

impl Stream {
    pub(super) fn new(
        mut pooled: Box<PooledRequest>,
        progress: Progress,
        transfer: Transfer,
        (waker, serving): (Arc<StreamWaker>, Rc<Serving>),
    ) -> Stream {
        pooled.life.start(progress);
        Stream { pooled, transfer, waker, serving, is_queued: false, awaits_turn: false, is_blocked: false }
    }

    /// Goes on, and sends no more than so many bytes of content. Ready when the request is over, with the code for the stream.
    pub(super) fn poll(&mut self, shared: &mut Shared, quantum: usize) -> Poll<Code> {
        self.waker.rearm();
        let waker = Waker::from(Arc::clone(&self.waker));
        (self.transfer.quantum, self.transfer.wants_turn) = (quantum, false);
        self.transfer.awaits_window = false;
        let Stream { pooled, transfer, serving, .. } = self;
        ready!(
            pooled.life.poll(&mut Context::from_waker(&waker), &mut StreamEnd { shared, transfer, serving })
        );
        Poll::Ready(self.transfer.code)
    }

    /// Logs the request, which ends before its response was sent whole.
    pub(super) fn cut_off(&mut self) {
        self.pooled.life.cut_off();
    }

    /// Ends the request with all that is attached to it; its memory serves further ones.
    pub(super) fn end(self, shared: &Shared) {
        shared.client.thread().requests.keep(self.pooled, self.serving.is_current());
    }
}

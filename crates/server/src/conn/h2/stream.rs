//! A request of a connection in HTTP/2 that cannot be answered at once: until its response was sent, and what follows
//! that.

use super::end::{StreamEnd, Transfer};
use super::shared::Shared;
use super::wakers::StreamWaker;
use crate::conn::exchange::PooledRequest;
use crate::thread::Serving;
use engine::{After, Inside, Progress};
use http2::Code;
use journal::Level;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use wire::memory::Held;

/// How much a stream sends before others have their turn, in bytes.
pub(super) const TURN: usize = 16 * 1024;

/// A request that is being served.
pub(super) struct Stream {
    pooled: Box<PooledRequest>,
    pub(super) transfer: Transfer,
    stage: Stage,
    waker: Arc<StreamWaker>,
    /// What it is served by.
    pub(super) serving: Rc<Serving>,
    /// Whether it is to be polled.
    pub(super) is_queued: bool,
    /// Whether it is among the streams that wait for their turn to send.
    pub(super) awaits_turn: bool,
    /// Whether it is among the streams that wait for a window.
    pub(super) is_blocked: bool,
    /// The code to cancel the stream with, unless it ends in order.
    code: Code,
    held: Held,
}

enum Stage {
    /// The response is made and sent.
    Responding,
    /// What follows the response is done (`post_action`).
    FollowingUp,
    /// All is over.
    Over,
}

impl Stream {
    pub(super) fn new(
        mut pooled: Box<PooledRequest>,
        progress: Progress,
        transfer: Transfer,
        (waker, serving): (Arc<StreamWaker>, Rc<Serving>),
    ) -> Stream {
        pooled.request.start(progress);
        let (stage, code) = (Stage::Responding, pooled.message.code());
        Stream {
            pooled,
            transfer,
            stage,
            waker,
            serving,
            is_queued: false,
            awaits_turn: false,
            is_blocked: false,
            code,
            held: Held::default(),
        }
    }

    /// Goes on, and sends no more than so many bytes of content. Ready when the request is over, with the code for the stream.
    pub(super) fn poll(&mut self, shared: &mut Shared, quantum: usize) -> Poll<Code> {
        self.waker.rearm();
        let waker = Waker::from(Arc::clone(&self.waker));
        (self.transfer.quantum, self.transfer.wants_turn) = (quantum, false);
        self.transfer.awaits_window = false;
        let polled = self.poll_stages(&mut Context::from_waker(&waker), shared);
        let content = self.transfer.upload.memory() + self.transfer.outgoing.memory();
        self.held.set(content + self.pooled.memory());
        polled
    }

    fn poll_stages(&mut self, cx: &mut Context<'_>, shared: &mut Shared) -> Poll<Code> {
        loop {
            let Stream { pooled, transfer, stage, serving, .. } = self;
            let request = &mut pooled.request;
            let next = match stage {
                Stage::Responding => {
                    let after = ready!(request.poll(cx, &mut StreamEnd { shared, transfer, serving }));
                    self.responded(after, shared)
                }
                Stage::FollowingUp => {
                    let mut end = Inside::default();
                    let polled = request.poll_follow_up(cx, &mut end);
                    let thread = shared.client.thread();
                    end.detached.into_iter().for_each(|request| thread.detach(request, serving));
                    ready!(polled);
                    Stage::Over
                }
                Stage::Over => {
                    request.flow.log();
                    return Poll::Ready(self.code);
                }
            };
            self.stage = next;
        }
    }

    fn responded(&mut self, after: After, shared: &mut Shared) -> Stage {
        let Stream { pooled, transfer, code, .. } = self;
        let request = &mut pooled.request;
        if transfer.upload.has_failed() {
            *code = Code::PROTOCOL_ERROR;
        }
        match after {
            After::Sent if transfer.is_tunnel && !transfer.outgoing.has_content() => {
                shared.data(transfer.stream, &[], true, &mut request.flow.exchange);
            }
            After::Sent => {}
            After::Cut(error) => {
                let text = format!("{} while sending response to client", net::system_message(&error));
                request.flow.exchange.log(Level::Info, &text);
            }
            After::Closed | After::Taken | After::Passed => return Stage::Over,
        }
        if request.follow_up() { Stage::FollowingUp } else { Stage::Over }
    }

    /// Logs the request, which ends before its response was sent whole.
    pub(super) fn cut_off(&mut self) {
        self.pooled.request.cut_off();
    }

    /// Ends the request with all that is attached to it; its memory serves further ones.
    pub(super) fn end(self, shared: &Shared) {
        shared.client.thread().requests.keep(self.pooled, self.serving.is_current());
    }
}

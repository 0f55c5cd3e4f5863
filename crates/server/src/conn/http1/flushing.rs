//! A connection in HTTP/1 whose client has to take the answers to its requests before it goes on.

use super::Http1;
use engine::Pace;
use std::task::{Context, Poll, ready};

/// A connection whose client has to take what was answered.
pub(crate) struct Flushing {
    pub(crate) http1: Box<Http1>,
    pace: Pace,
    /// Whether the connection closes then.
    closes: bool,
}

impl Flushing {
    pub(crate) fn new(http1: Box<Http1>, closes: bool) -> Flushing {
        let policy = http1.client.default_policy();
        let pace = Pace::new(http1.bytes.send_timeout, policy.sending.send_min_rate);
        Flushing { http1, pace, closes }
    }

    /// Ready when all was taken, or the connection closes. Returns whether further requests may come.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Http1 { client, bytes, .. } = &mut *self.http1;
        match ready!(bytes.poll_flush(cx, &mut self.pace, &client.timer, false)) {
            Ok(()) if !self.closes => {
                self.http1.set_timer();
                Poll::Ready(true)
            }
            Ok(()) => Poll::Ready(false),
            Err(error) => {
                bytes.reset_if_timed_out(&error, &client.default_policy().lingering);
                Poll::Ready(false)
            }
        }
    }
}

//! Closing a connection so that its last response is read: what the client still sends is drained
//! first, because a reset would overtake the response (RFC 9112, section 9.6).

use super::byte_stream::ByteStream;
use super::client::Client;
use contract::Scope;
use contract::policy::LingeringClose;
use engine::Pace;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// A connection that is being closed.
pub(crate) struct Closing {
    pub(super) client: Client,
    bytes: ByteStream,
    scope: Arc<Scope>,
    /// Whether the client may still be sending.
    unread: bool,
    stage: Stage,
}

enum Stage {
    /// The last bytes are written.
    Flushing(Pace),
    /// What the client still sends is drained.
    Draining { started: Instant, pace: Pace },
}

impl Closing {
    /// Writes what is left to write and closes. The last bytes leave with the end, which saves a segment.
    pub(super) fn new(client: Client, bytes: ByteStream, scope: Arc<Scope>, unread: bool) -> Closing {
        let stage = Stage::Flushing(Pace::of_response(&scope.policy.sending));
        Closing { client, bytes, scope, unread, stage }
    }

    /// Ready when the connection is closed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Closing { client, bytes, scope, stage, .. } = self;
            match stage {
                Stage::Flushing(pace) => {
                    let is_empty = bytes.output.is_empty();
                    if let Err(error) = ready!(bytes.poll_flush(cx, pace, &client.timer, true)) {
                        bytes.reset_if_timed_out(&error, &scope.policy.lingering);
                        return Poll::Ready(());
                    }
                    bytes.is_held |= !is_empty;
                    // Without its end, a client of TLS takes the response for one that was cut off.
                    let polled = bytes.transport.poll_goodbye(cx);
                    if !matches!(ready!(pace.limit(&client.timer, cx, polled)), Ok(Ok(()))) {
                        return Poll::Ready(());
                    }
                    if !self.ends_lingering() {
                        return Poll::Ready(());
                    }
                    let started = Instant::now();
                    self.stage = Stage::Draining { started, pace: Pace::new(Duration::ZERO, 0) };
                    self.begin_to_wait();
                }
                Stage::Draining { pace, .. } => {
                    bytes.input.consume(usize::MAX);
                    if client.thread().places.are_wanted() {
                        return Poll::Ready(());
                    }
                    if ready!(bytes.poll_paced(cx, pace, &client.timer)).is_err() || !self.begin_to_wait() {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }

    /// Ends our side; tells whether the client's input has to be drained.
    fn ends_lingering(&mut self) -> bool {
        let bytes = &mut self.bytes;
        let linger = match self.scope.policy.lingering.close {
            LingeringClose::Always => true,
            LingeringClose::On => self.unread || !bytes.input.is_empty() || bytes.transport.may_have_more(),
            LingeringClose::Off => false,
        };
        // If the client has sent more than was read, the kernel answers `close` alone with a reset, and drops the held bytes.
        let ends = linger || bytes.is_held;
        ends && bytes.transport.shutdown_write().is_ok() && linger
    }

    /// Sets the time for the next wait; `false` if there is none left.
    fn begin_to_wait(&mut self) -> bool {
        let policy = &self.scope.policy.lingering;
        let Stage::Draining { started, pace } = &mut self.stage else { return false };
        let left = policy.time.saturating_sub(started.elapsed());
        *pace = Pace::new(policy.timeout.min(left), 0);
        !left.is_zero()
    }
}

//! Closing a connection so that its last response is read: what the client still sends is drained
//! first, because a reset would overtake the response (RFC 9112, section 9.6).

use super::ClientConnection;
use super::http1::poll_input;
use contract::Scope;
use contract::policy::LingeringClose;
use engine::Pace;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// A connection that is being closed.
pub(crate) struct Closing {
    pub(crate) client: Box<ClientConnection>,
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
    pub(crate) fn new(client: Box<ClientConnection>, scope: Arc<Scope>, unread: bool) -> Closing {
        let stage = Stage::Flushing(Pace::of_response(&scope.policy.sending));
        Closing { client, scope, unread, stage }
    }

    /// Ready when the connection is closed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.stage {
                Stage::Flushing(pace) => {
                    let is_empty = self.client.output.is_empty();
                    if let Err(error) = ready!(self.client.poll_flush(cx, pace, true)) {
                        self.client.reset_if_timed_out(&error, &self.scope.policy.lingering);
                        return Poll::Ready(());
                    }
                    self.client.is_held |= !is_empty;
                    if !self.ends_lingering() {
                        return Poll::Ready(());
                    }
                    let started = Instant::now();
                    self.stage = Stage::Draining { started, pace: Pace::new(Duration::ZERO, 0) };
                    self.begin_to_wait();
                }
                Stage::Draining { pace, .. } => {
                    let ClientConnection { stream, input, timer, counted, .. } = &mut *self.client;
                    input.consume(usize::MAX);
                    if counted.thread().places.are_wanted() {
                        return Poll::Ready(());
                    }
                    if ready!(poll_input(stream, input, (pace, timer), cx)).is_err() || !self.begin_to_wait()
                    {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }

    /// Ends our side; tells whether the client's input has to be drained.
    fn ends_lingering(&mut self) -> bool {
        let client = &mut self.client;
        let linger = match self.scope.policy.lingering.close {
            LingeringClose::Always => true,
            LingeringClose::On => self.unread || !client.input.is_empty() || client.stream.may_have_more(),
            LingeringClose::Off => false,
        };
        client.stream.say_goodbye();
        // If the client has sent more than was read, the kernel answers `close` alone with a reset, and drops the held bytes.
        let ends = linger || client.is_held;
        ends && client.stream.shutdown_write().is_ok() && linger
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

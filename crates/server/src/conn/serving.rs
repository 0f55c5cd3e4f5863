//! A request of a connection that cannot be answered at once: until its response was sent, and what follows that.

use super::ClientConnection;
use super::course::{Course, Fate, Stage};
use super::exchange::PooledRequest;
use super::http1::{Http1, poll_input};
use contract::Scope;
use engine::{After, Inside, Pace, Progress};
use http::Status;
use journal::Level;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// A request that is being served, and its connection.
pub(crate) struct Serving {
    pub(crate) client: Box<ClientConnection>,
    pooled: Box<PooledRequest>,
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
    pub(crate) fn new(
        client: Box<ClientConnection>,
        mut pooled: Box<PooledRequest>,
        progress: Progress,
    ) -> Serving {
        client.timer.clear();
        pooled.request.start(progress);
        Serving { client, pooled }
    }

    /// Goes on; ready with what happens to the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served> {
        let polled = self.poll_stages(cx);
        if polled.is_pending() {
            let buffers = self.client.input.capacity() + self.client.output.capacity();
            let bytes = buffers + self.pooled.message.content.len() + self.pooled.memory();
            self.pooled.course.held.set(bytes);
        }
        polled
    }

    fn poll_stages(&mut self, cx: &mut Context<'_>) -> Poll<Served> {
        loop {
            let Serving { client, pooled } = self;
            let PooledRequest { request, message, course: Course { stage, fate, .. }, .. } = &mut **pooled;
            let next = match stage {
                Stage::Responding => {
                    let after = ready!(request.poll(cx, &mut Http1 { client, message }));
                    self.responded(after)
                }
                Stage::Discarding { started, pace } => {
                    let policy = &request.flow.exchange.scope.policy.lingering;
                    let left = policy.time.saturating_sub(started.elapsed());
                    let ClientConnection { stream, input, timer, counted, .. } = &mut **client;
                    let is_over = left.is_zero() || counted.thread().places.are_wanted();
                    let read = match is_over {
                        true => Err(Status::CLIENT_CLOSED),
                        false => ready!(poll_input(stream, input, (pace, timer), cx)),
                    };
                    let skipped = read.and_then(|()| message.skip(input, &mut request.flow.exchange));
                    match skipped {
                        Ok(false) if message.refused.is_none() => {
                            let policy = &request.flow.exchange.scope.policy.lingering;
                            let left = policy.time.saturating_sub(started.elapsed());
                            *pace = Pace::new(policy.timeout.min(left), 0);
                            continue;
                        }
                        Ok(true) => {}
                        Ok(false) | Err(_) => *fate = Fate::Ended,
                    }
                    if request.follow_up() { Stage::FollowingUp } else { Stage::Over }
                }
                Stage::FollowingUp => {
                    // It goes on without the client.
                    let mut end = Inside::default();
                    let polled = request.poll_follow_up(cx, &mut end);
                    end.detached.into_iter().for_each(|request| client.detach(request));
                    if polled.is_pending() {
                        // Polled only so that `wake_all` reaches this connection when a site is past.
                        let _: Poll<()> = client.timer.poll(cx);
                        return Poll::Pending;
                    }
                    Stage::Over
                }
                Stage::Over => Stage::Over,
            };
            if matches!(next, Stage::Over) {
                return Poll::Ready(self.end());
            }
            self.pooled.course.stage = next;
        }
    }

    /// What follows a response.
    fn responded(&mut self, after: After) -> Stage {
        let Serving { client, pooled } = self;
        let PooledRequest { request, message, course: Course { fate, .. }, .. } = &mut **pooled;
        let exchange = &mut request.flow.exchange;
        match after {
            After::Sent => {
                if message.is_tunnel {
                    // What is left was counted and never went.
                    let unsent = client.output.bytes().len() as u64;
                    exchange.wire.bytes = exchange.wire.bytes.saturating_sub(unsent);
                    client.output.consume(usize::MAX);
                }
                // A client that is answered before it has sent its body learns by the end that the rest is not wanted.
                let is_cut_short = message.is_awaited(exchange);
                let keep_alive = message.answer.is_some_and(|answer| answer.keep_alive);
                if keep_alive && !message.is_tunnel && !is_cut_short {
                    match message.skip(&mut client.input, exchange) {
                        Ok(true) => {}
                        Ok(false) if message.refused.is_none() => {
                            let policy = &exchange.scope.policy.lingering;
                            let pace = Pace::new(policy.timeout.min(policy.time), 0);
                            return Stage::Discarding { started: Instant::now(), pace };
                        }
                        Ok(false) | Err(_) => *fate = Fate::Ended,
                    }
                } else {
                    *fate = Fate::Ended;
                }
            }
            After::Cut(error) => {
                let text = format!("{} while sending response to client", net::system_message(&error));
                exchange.log(Level::Info, &text);
                *fate = Fate::Broken(error);
                self.subtract_unsent();
            }
            After::Closed | After::Taken | After::Passed => {
                if message.left {
                    exchange.response.status = Status::BAD_REQUEST;
                }
                *fate = Fate::Refused;
                return Stage::Over;
            }
        }
        if self.pooled.request.follow_up() { Stage::FollowingUp } else { Stage::Over }
    }

    /// Logs the request, whose connection ends before the response was sent whole.
    pub(crate) fn cut_off(&mut self) {
        self.subtract_unsent();
        self.pooled.request.cut_off();
    }

    /// The log counts no bytes that do not leave any more.
    fn subtract_unsent(&mut self) {
        let Serving { client, pooled } = self;
        let PooledRequest { request, message, .. } = &mut **pooled;
        let unsent = (client.output.bytes().len() + message.content.len()) as u64;
        let bytes = &mut request.flow.exchange.wire.bytes;
        *bytes = bytes.saturating_sub(unsent);
    }

    /// Logs the request and ends it.
    fn end(&mut self) -> Served {
        let Serving { client, pooled } = self;
        let PooledRequest { request, message, course: Course { fate, .. }, .. } = &mut **pooled;
        request.flow.log();
        let scope = Arc::clone(&request.flow.exchange.scope);
        let unread = !message.body_done || message.is_tunnel;
        match std::mem::replace(fate, Fate::Ended) {
            Fate::Kept => {
                client.prepare_next(&scope.policy);
                Served::Kept
            }
            Fate::Ended => Served::Closing(scope, unread),
            Fate::Refused => Served::Refused,
            Fate::Broken(error) => {
                client.reset_if_timed_out(&error, &scope.policy.lingering);
                Served::Closed
            }
        }
    }

    /// Gives back the connection, and ends the request with all that is attached to it.
    pub(crate) fn into_client(self) -> Box<ClientConnection> {
        let Serving { client, pooled } = self;
        client.end(pooled);
        client
    }
}

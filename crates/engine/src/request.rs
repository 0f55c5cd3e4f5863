//! A request that has to wait: for work, for its client, or for both.

use super::doing::{Doing, Passed};
use super::end::End;
use super::inner;
use super::pace::Pace;
use super::sending::{Sending, poll_flush};
use crate::pipeline::{Flow, Progress};
use crate::served;
use contract::{Body, Outcome, Work};
use http::Status;
use journal::shares;
use std::io;
use std::task::{Context, Poll, ready};

/// A request and what it waits for.
pub struct Request {
    /// The request on its way through the handlers.
    pub flow: Flow,
    state: State,
    /// How many subrequests deep it is.
    pub depth: u32,
    /// The length of the content that the log tells of, whatever follows the response.
    length: Option<u64>,
}

enum State {
    /// Nothing is waited for.
    Idle,
    /// Work is begun when the client has the answers to its requests before this one: it may send nothing more before.
    Clearing(Work, Option<Box<Pace>>),
    /// A handler waits for work.
    Waiting(Doing),
    /// The response is sent.
    Sending(Sending),
    /// The connection closes without a response.
    Closed,
}

/// How the response ended.
#[derive(Debug)]
pub enum After {
    /// All of it was sent.
    Sent,
    /// The sender took the body as it is.
    Taken,
    /// It was cut off.
    Cut(io::Error),
    /// The connection closes without a response.
    Closed,
    /// Another server would be asked, which an explanation does not do.
    Passed,
}

impl Request {
    /// A request that is so many subrequests deep.
    pub fn new(flow: Flow, depth: u32) -> Request {
        Request { flow, state: State::Idle, depth, length: None }
    }

    /// Forgets the request, and keeps the memory for another one.
    pub fn clear(&mut self) {
        let Request { flow, state, depth: _, length: _ } = self;
        *state = State::Idle;
        flow.clear();
    }

    /// Goes on from what the handlers came to.
    pub fn start(&mut self, progress: Progress) {
        self.state = match progress {
            Progress::Respond(body) => State::Sending(Sending::new(body)),
            Progress::Wait(work) => State::Clearing(work, None),
            Progress::Close => State::Closed,
        };
    }

    /// Goes on until the response was sent; ready with how it ended.
    pub fn poll<E: End>(&mut self, cx: &mut Context<'_>, end: &mut E) -> Poll<After> {
        let tunnel = match &mut self.state {
            State::Sending(sending) => sending.tunnel(),
            _ => None,
        };
        // A tunnel goes on directly, and knows the type of its sender: a message costs little more than the calls between.
        let polled = match tunnel.map(|tunnel| tunnel.poll(cx, &mut self.flow, end)) {
            None => self.go_on(cx, end),
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) => {
                self.state = State::Idle;
                Poll::Ready(After::Sent)
            }
        };
        if !self.flow.exchange.subrequest {
            inner::hand_over(&self.flow.exchange, polled.is_ready(), end);
        }
        polled
    }

    fn go_on(&mut self, cx: &mut Context<'_>, end: &mut dyn End) -> Poll<After> {
        served::note(&self.flow.exchange);
        if !self.flow.exchange.subrequest {
            shares::begin_turn();
        }
        loop {
            let Request { flow, state, depth, .. } = self;
            match state {
                State::Idle | State::Closed => return Poll::Ready(After::Closed),
                State::Clearing(_, pace) => {
                    let cleared = match end.has_unsent() {
                        true => {
                            let sending = &flow.exchange.scope.policy.sending;
                            let pace = pace.get_or_insert_with(|| Box::new(Pace::of_response(sending)));
                            ready!(poll_flush(cx, flow, end, pace))
                        }
                        false => Ok(()),
                    };
                    let State::Clearing(work, _) = std::mem::replace(state, State::Idle) else { continue };
                    *state = State::Waiting(match cleared {
                        Ok(()) => Doing::start(work, flow, *depth, end),
                        Err(error) => {
                            end.discard(&error);
                            Doing::Done(Some(Outcome::Failed(Status::CLIENT_CLOSED)))
                        }
                    });
                }
                State::Waiting(doing) => {
                    let Ok(outcome) = ready!(doing.poll(cx, flow, end)) else {
                        self.state = State::Idle;
                        return Poll::Ready(After::Passed);
                    };
                    let progress = flow.resume(outcome);
                    self.start(progress);
                }
                State::Sending(sending) => {
                    if !sending.is_begun() {
                        match begin(flow, end, sending) {
                            Start::Sending => {}
                            Start::Otherwise(body) => {
                                self.start(Progress::Respond(body));
                                continue;
                            }
                            Start::Taken => {
                                self.state = State::Idle;
                                return Poll::Ready(After::Taken);
                            }
                        }
                    }
                    let sent = ready!(sending.poll(cx, flow, end, *depth));
                    self.state = State::Idle;
                    return Poll::Ready(sent.map_or_else(After::Cut, |()| After::Sent));
                }
            }
        }
    }

    /// Ends and logs a request whose connection ends before the response was sent whole.
    pub fn cut_off(&mut self) {
        // What the request waits for notes how long it took.
        self.state = State::Idle;
        let exchange = &mut self.flow.exchange;
        if !exchange.wire.head_sent {
            exchange.response.status = Status::CLIENT_CLOSED;
        }
        self.flow.log();
    }

    /// Begins what follows a response (`post_action`); what it answers goes nowhere. Tells whether there is anything to
    /// wait for, by [`Request::poll_follow_up`].
    pub fn follow_up(&mut self) -> bool {
        if self.flow.exchange.scope.policy.post_action.is_none() {
            return false;
        }
        // By this the log tells whether the response was sent whole.
        self.length = self.flow.exchange.response.content_length;
        if let Some(progress) = self.flow.follow_up() {
            self.follow(progress);
        }
        !matches!(self.state, State::Idle)
    }

    fn follow(&mut self, progress: Progress) {
        self.state = match progress {
            Progress::Wait(work) => State::Clearing(work, None),
            Progress::Respond(_) | Progress::Close => {
                self.flow.exchange.response.content_length = self.length;
                State::Idle
            }
        };
    }

    /// Goes on with what follows the response; ready when that is over. It goes on without the client.
    pub fn poll_follow_up(&mut self, cx: &mut Context<'_>, end: &mut dyn End) -> Poll<()> {
        shares::begin_turn();
        loop {
            let Request { flow, state, depth, .. } = self;
            match state {
                State::Clearing(..) => {
                    let State::Clearing(work, _) = std::mem::replace(state, State::Idle) else { continue };
                    *state = State::Waiting(Doing::start(work, flow, *depth, end));
                }
                State::Waiting(doing) => {
                    let polled = ready!(doing.poll(cx, flow, end));
                    let outcome =
                        polled.unwrap_or_else(|Passed| Outcome::Failed(Status::INTERNAL_SERVER_ERROR));
                    let progress = flow.resume(outcome);
                    self.follow(progress);
                }
                State::Idle | State::Sending(_) | State::Closed => return Poll::Ready(()),
            }
        }
    }
}

/// How a response begins.
enum Start {
    Sending,
    /// The body of the request is broken, which has its own answer.
    Otherwise(Body),
    /// The sender took the body as it is.
    Taken,
}

fn begin(flow: &mut Flow, end: &mut dyn End, sending: &mut Sending) -> Start {
    if !sending.is_settled
        && let Err(status) = end.settle(&mut flow.exchange)
    {
        return Start::Otherwise(flow.fail_at_once(status));
    }
    sending.is_settled = true;
    match end.take_body(flow, sending.take_body()) {
        Some(body) => {
            sending.begin(flow, end, body);
            Start::Sending
        }
        None => Start::Taken,
    }
}

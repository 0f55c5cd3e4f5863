//! The work that a handler or a body waits for. This is the only place that does it.

use super::collecting::Collecting;
use super::detached::Detached;
use super::end::End;
use super::hints;
use super::inner::{self, Inner};
use crate::pipeline::Flow;
use contract::{Outcome, Subrequest, Task, Turn, Work};
use http::Status;
use journal::shares::{self, Place};
use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep};
use wire::Job;

/// Work that was begun.
pub(crate) enum Doing {
    Sleep(Pin<Box<Sleep>>),
    /// Others go first: the place after them, and the turn in which the request yielded.
    Yield(Place, Option<u64>),
    /// A subrequest at this depth that begins in another turn than this, which has had enough of them.
    Later(Option<Subrequest>, u32, u64),
    Body(Box<Collecting>),
    Task {
        task: Box<dyn Task>,
        lasts: bool,
        /// Whether the sender has early hints that the client did not take yet.
        has_hints: bool,
    },
    Job(Job<Box<dyn Any + Send>>),
    Inner(Box<Inner>),
    /// Detached subrequests, one after the other, without other work meanwhile.
    Each {
        wanted: std::vec::IntoIter<Subrequest>,
        depth: u32,
        inner: Option<Box<Inner>>,
    },
    Done(Option<Outcome>),
    /// Another server would be asked, which an explanation does not do.
    Passed,
}

/// Another server would be asked, which an explanation does not do.
pub(crate) struct Passed;

impl Doing {
    /// Begins work on behalf of a flow that is so many subrequests deep.
    #[inline]
    pub(crate) fn start(work: Work, flow: &mut Flow, depth: u32, end: &mut dyn End) -> Doing {
        let explains = end.explains();
        match work {
            Work::Sleep(_) | Work::Yield(_) | Work::RequestBody | Work::RequestStream if explains => {
                Doing::done(Outcome::Done)
            }
            Work::Yield(place) => Doing::Yield(place, None),
            Work::Sleep(delay) => Doing::Sleep(Box::pin(sleep(delay))),
            Work::RequestBody | Work::RequestStream if flow.exchange.subrequest => Doing::done(Outcome::Done),
            Work::RequestBody => Doing::collect(flow, true, end),
            Work::RequestStream => Doing::collect(flow, false, end),
            Work::Subrequest(wanted) if !explains && inner::has_enough(&flow.exchange) => {
                Doing::Later(Some(wanted), depth, shares::turn())
            }
            Work::Subrequest(wanted) => Doing::subrequest(flow, wanted, depth, explains),
            Work::Aside(all) if explains => Doing::each(all, depth),
            Work::Aside(all) if flow.exchange.subrequest => match inner::leave(flow, all, depth) {
                Ok(()) => Doing::done(Outcome::Done),
                Err(all) => Doing::each(all, depth),
            },
            Work::Aside(all) => {
                let detached = all.into_iter().filter_map(|wanted| Detached::new(flow, wanted, depth));
                detached.for_each(|request| end.detach(request));
                Doing::done(Outcome::Done)
            }
            Work::Job(job) => Doing::Job(Job::start(|| Ok(job()))),
            Work::Upstream { .. } if explains => Doing::Passed,
            Work::Task(task) => Doing::Task { task, lasts: false, has_hints: false },
            Work::Upstream { task, lasts } => Doing::Task { task, lasts, has_hints: false },
        }
    }

    fn subrequest(flow: &mut Flow, wanted: Subrequest, depth: u32, explains: bool) -> Doing {
        match Inner::new(flow, wanted, depth, explains) {
            Some(inner) if inner.is_polled_by_requester() => Doing::done(Outcome::Begun(Box::new(inner))),
            Some(inner) => Doing::Inner(Box::new(inner)),
            None => Doing::done(Outcome::Failed(Status::INTERNAL_SERVER_ERROR)),
        }
    }

    fn collect(flow: &mut Flow, whole: bool, end: &mut dyn End) -> Doing {
        match flow.exchange.request.streaming {
            Some(_) => Doing::done(Outcome::Done),
            None => Doing::Body(Box::new(Collecting::new(&mut flow.exchange, whole, end))),
        }
    }

    fn each(wanted: Vec<Subrequest>, depth: u32) -> Doing {
        Doing::Each { wanted: wanted.into_iter(), depth, inner: None }
    }

    fn done(outcome: Outcome) -> Doing {
        Doing::Done(Some(outcome))
    }

    /// Goes on with the work. It ends when the client has gone, unless the work ends soon or outlasts the client.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut dyn End,
    ) -> Poll<Result<Outcome, Passed>> {
        let (polled, lasts) = match self {
            Doing::Sleep(sleep) => (sleep.as_mut().poll(cx).map(|()| Outcome::Done), false),
            Doing::Yield(place, turn) => {
                let is_later = turn.is_some_and(|turn| turn != shares::turn());
                if !is_later {
                    turn.get_or_insert_with(shares::turn);
                    inner::yield_turn(cx, *place);
                }
                (if is_later { Poll::Ready(Outcome::Done) } else { Poll::Pending }, false)
            }
            Doing::Later(wanted, depth, turn) => {
                if *turn != shares::turn()
                    && let Some(wanted) = wanted.take()
                {
                    *self = Doing::subrequest(flow, wanted, *depth, false);
                    return self.poll(cx, flow, end);
                }
                inner::yield_turn(cx, inner::place(&flow.exchange));
                (Poll::Pending, false)
            }
            Doing::Body(collecting) => {
                let collected = ready!(collecting.poll(cx, &mut flow.exchange, end));
                return Poll::Ready(Ok(collected.map_or_else(Outcome::Failed, |()| Outcome::Done)));
            }
            Doing::Task { task, lasts, has_hints } => {
                let polled = task.poll(&mut Turn { cx, exchange: &mut flow.exchange, body: end });
                *has_hints |= hints::give(&mut flow.exchange, end);
                if let Poll::Ready(done) = polled {
                    return Poll::Ready(Ok(self.conclude(done)));
                }
                if *has_hints {
                    *has_hints = hints::send(cx, &mut flow.exchange, end);
                }
                (Poll::Pending, *lasts)
            }
            // It is done soon, and then the answer, even for a client that has closed its side of the connection.
            Doing::Job(job) => {
                let result = ready!(Pin::new(job).poll(cx));
                let failed = |_| Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
                return Poll::Ready(Ok(result.map_or_else(failed, Outcome::Job)));
            }
            Doing::Inner(inner) => (inner.poll(cx), false),
            Doing::Each { wanted, depth, inner } => loop {
                if let Some(inner) = inner {
                    let _: Outcome = ready!(inner.poll(cx));
                }
                *inner = match wanted.next() {
                    Some(wanted) => Inner::new(flow, wanted, *depth, end.explains()).map(Box::new),
                    None => return Poll::Ready(Ok(Outcome::Done)),
                };
            },
            Doing::Done(outcome) => {
                let failed = Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
                return Poll::Ready(Ok(outcome.take().unwrap_or(failed)));
            }
            Doing::Passed => return Poll::Ready(Err(Passed)),
        };
        if polled.is_pending() && end.poll_gone(cx, &mut flow.exchange, lasts).is_ready() {
            return Poll::Ready(Ok(Outcome::Failed(Status::CLIENT_CLOSED)));
        }
        polled.map(Ok)
    }

    /// The outcome of a task that is done.
    fn conclude(&mut self, done: Result<(), Status>) -> Outcome {
        match (done, std::mem::replace(self, Doing::Done(None))) {
            (Ok(()), Doing::Task { task, .. }) => Outcome::Task(task.into_outcome()),
            (Err(status), _) => Outcome::Failed(status),
            (Ok(()), _) => Outcome::Failed(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

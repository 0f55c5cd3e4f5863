//! Sending a response, piece by piece.

use super::doing::{Doing, Passed};
use super::end::{End, Sent};
use super::limit::{is_limited, limit};
use super::pace::Pace;
use super::tunnel::Tunnelling;
use crate::pipeline::Flow;
use contract::{Body, Exchange, Piece, Pull, Source, Turn, Work};
use std::io;
use std::task::{Context, Poll, ready};

/// A response that is being sent.
pub(crate) struct Sending {
    pace: Pace,
    rest: Rest,
    /// What the source waits for.
    doing: Option<Doing>,
    /// Whether it was looked whether the request's body is broken.
    pub(super) is_settled: bool,
}

enum Rest {
    /// Nothing was sent yet.
    Whole(Body),
    /// The same, to be sent when earlier responses have left, which have their own limits.
    Clearing(Body),
    Piece(Option<Piece>),
    Pieces(std::vec::IntoIter<Piece>),
    Source(Box<dyn Source>),
    /// The client does not take the content, which is read to its end all the same; the error is the client's.
    Drained(Box<dyn Source>, Option<io::Error>),
    Tunnel(Box<Tunnelling>),
    /// All was given to the sender of the request.
    Nothing,
    /// The content cannot be completed. The client gets what there is of it.
    Cut,
}

impl Sending {
    pub(super) fn new(body: Body) -> Sending {
        let pace = Pace::new(std::time::Duration::ZERO, 0);
        Sending { pace, rest: Rest::Whole(body), doing: None, is_settled: false }
    }

    pub(super) fn is_begun(&self) -> bool {
        !matches!(self.rest, Rest::Whole(_))
    }

    /// The tunnel that the response has become, if it has.
    #[inline]
    pub(super) fn tunnel(&mut self) -> Option<&mut Tunnelling> {
        match &mut self.rest {
            Rest::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        }
    }

    pub(super) fn take_body(&mut self) -> Body {
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Whole(body) => body,
            _ => Body::Empty,
        }
    }

    /// Begins to send, now that the settings are known that count.
    pub(super) fn begin(&mut self, flow: &mut Flow, end: &mut dyn End, body: Body) {
        self.pace = Pace::of_response(&flow.exchange.scope.policy.sending);
        if end.timer().is_some() && is_limited(&flow.exchange) {
            self.rest = Rest::Clearing(body);
        } else if flow.has_unsent() || !end.take_whole(flow, &body) {
            self.head(flow, end, body);
        }
    }

    /// Gives the head of the response.
    fn head(&mut self, flow: &mut Flow, end: &mut dyn End, body: Body) {
        let has_body = end.head(flow, &body, self.pace.is_limited());
        self.rest = match body {
            Body::Tunnel(tunnel) => Rest::Tunnel(Box::new(Tunnelling::new(*tunnel, flow, end))),
            Body::Source(source) if !has_body && flow.exchange.wire.outlasts => Rest::Drained(source, None),
            _ if !has_body => Rest::Piece(None),
            Body::Empty => Rest::Piece(None),
            Body::Piece(piece) => Rest::Piece(Some(piece)),
            Body::Pieces(pieces) => Rest::Pieces(pieces.into_iter()),
            Body::Source(source) => Rest::Source(source),
        };
    }

    /// Goes on; ready when all was sent.
    ///
    /// # Errors
    /// The client is gone, or the content cannot be completed.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut dyn End,
        depth: u32,
    ) -> Poll<io::Result<()>> {
        let error = match ready!(self.poll_rest(cx, flow, end, depth)) {
            Err(error) => error,
            sent => return Poll::Ready(sent),
        };
        let Some(source) = self.take_outlasting(flow) else { return Poll::Ready(Err(error)) };
        end.discard(&error);
        self.rest = Rest::Drained(source, Some(error));
        self.poll_rest(cx, flow, end, depth)
    }

    /// The content that is read to its end although the client is gone.
    fn take_outlasting(&mut self, flow: &mut Flow) -> Option<Box<dyn Source>> {
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Source(source) if flow.exchange.wire.outlasts => Some(source),
            rest => {
                self.rest = rest;
                let unsent = flow.take_unsent()?;
                // What is waited for belongs to other content.
                self.doing = None;
                Some(unsent)
            }
        }
    }

    fn poll_rest(
        &mut self,
        cx: &mut Context<'_>,
        flow: &mut Flow,
        end: &mut dyn End,
        depth: u32,
    ) -> Poll<io::Result<()>> {
        loop {
            let Sending { pace, rest, doing, .. } = self;
            let next = match rest {
                Rest::Drained(source, error) => {
                    if error.is_none()
                        && let Poll::Ready(Err(failed)) = poll_flush(cx, flow, end, pace)
                    {
                        end.discard(&failed);
                        *error = Some(failed);
                    }
                    match ready!(poll_drained(cx, flow, end, (source.as_mut(), doing))) {
                        Some(work) => {
                            *doing = Some(Doing::start(work, flow, depth, end));
                            continue;
                        }
                        None => match error.take() {
                            Some(error) => return Poll::Ready(Err(error)),
                            None => None,
                        },
                    }
                }
                Rest::Whole(_) | Rest::Clearing(_) => {
                    ready!(poll_flush(cx, flow, end, pace))?;
                    pace.limit_to(limit(&mut flow.exchange));
                    let (Rest::Clearing(body) | Rest::Whole(body)) = std::mem::replace(rest, Rest::Nothing)
                    else {
                        continue;
                    };
                    self.head(flow, end, body);
                    continue;
                }
                Rest::Tunnel(tunnel) => return tunnel.poll(cx, flow, end).map(Ok),
                Rest::Nothing => return poll_flush(cx, flow, end, pace),
                Rest::Cut => {
                    ready!(poll_flush(cx, flow, end, pace))?;
                    return Poll::Ready(Err(io::Error::other("the content could not be completed")));
                }
                Rest::Piece(_) | Rest::Pieces(_) => ready!(poll_next(cx, flow, end, (rest, pace)))?,
                Rest::Source(source) => {
                    let pulled = ready!(poll_source(cx, flow, end, (source.as_mut(), doing, pace)));
                    match pulled? {
                        Pull::Piece(piece) => Some(piece),
                        Pull::Await(work) => {
                            *doing = Some(Doing::start(work, flow, depth, end));
                            continue;
                        }
                        Pull::End => None,
                        Pull::Pending { .. } | Pull::Failed => {
                            *rest = Rest::Cut;
                            continue;
                        }
                    }
                }
            };
            match next {
                Some(piece) => end.give(&mut flow.exchange, piece),
                None => {
                    if let Some(source) = flow.take_unsent() {
                        self.rest = Rest::Drained(source, None);
                        continue;
                    }
                    end.finish(flow);
                    let rest = std::mem::replace(&mut self.rest, Rest::Nothing);
                    if let Rest::Source(source) | Rest::Drained(source, _) = rest {
                        source.finish(&flow.exchange);
                    }
                }
            }
        }
    }
}

/// Asks a source for what comes next. What is there is sent before anything is waited for.
fn poll_source(
    cx: &mut Context<'_>,
    flow: &mut Flow,
    end: &mut dyn End,
    (source, doing, pace): (&mut dyn Source, &mut Option<Doing>, &mut Pace),
) -> Poll<io::Result<Pull>> {
    match poll_sent(cx, &mut flow.exchange, end, pace, true) {
        Poll::Ready(sent) => sent?,
        Poll::Pending => {
            // A client that takes nothing is no reason not to get more, where that is wanted.
            source.read_ahead(&mut Turn { cx, exchange: &mut flow.exchange, body: end });
            return Poll::Pending;
        }
    }
    if let Some(work) = doing {
        if let Poll::Ready(Err(error)) = poll_flush(cx, flow, end, pace) {
            return Poll::Ready(Err(error));
        }
        match ready!(work.poll(cx, flow, end)) {
            Ok(outcome) => source.resume(outcome),
            Err(Passed) => return Poll::Ready(Ok(Pull::Failed)),
        }
        *doing = None;
    }
    let pulled = source.pull(&mut Turn { cx, exchange: &mut flow.exchange, body: end });
    let Pull::Pending { lasts } = pulled else { return Poll::Ready(Ok(pulled)) };
    if let Poll::Ready(Err(error)) = poll_flush(cx, flow, end, pace) {
        return Poll::Ready(Err(error));
    }
    match end.poll_gone(cx, &mut flow.exchange, lasts) {
        Poll::Ready(()) => Poll::Ready(Ok(Pull::Failed)),
        Poll::Pending => Poll::Pending,
    }
}

/// How many pieces of content that no client takes are read in one turn.
const DRAINED_MAX: usize = 16;

/// Reads content that no client takes. Ready at its end, or with work that has to be done for more of it.
fn poll_drained(
    cx: &mut Context<'_>,
    flow: &mut Flow,
    end: &mut dyn End,
    (source, doing): (&mut dyn Source, &mut Option<Doing>),
) -> Poll<Option<Work>> {
    if let Some(work) = doing {
        match ready!(work.poll(cx, flow, end)) {
            Ok(outcome) => source.resume(outcome),
            Err(Passed) => return Poll::Ready(None),
        }
        *doing = None;
    }
    for _ in 0..DRAINED_MAX {
        match source.pull(&mut Turn { cx, exchange: &mut flow.exchange, body: end }) {
            Pull::Piece(_) => {}
            Pull::Await(work) => return Poll::Ready(Some(work)),
            Pull::Pending { .. } => {
                // Nothing but the upstream server is waited for.
                let _: Poll<()> = end.poll_gone(cx, &mut flow.exchange, true);
                return Poll::Pending;
            }
            Pull::End | Pull::Failed => return Poll::Ready(None),
        }
    }
    // There may be more content, and no event announces it: ask for another turn, after those of other connections.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The next piece, once there is room: it would displace another one.
fn poll_next(
    cx: &mut Context<'_>,
    flow: &mut Flow,
    end: &mut dyn End,
    (rest, pace): (&mut Rest, &mut Pace),
) -> Poll<io::Result<Option<Piece>>> {
    ready!(poll_sent(cx, &mut flow.exchange, end, pace, true))?;
    Poll::Ready(Ok(match rest {
        Rest::Piece(piece) => piece.take(),
        Rest::Pieces(pieces) => pieces.next(),
        _ => None,
    }))
}

/// Waits until all was sent.
pub(super) fn poll_flush(
    cx: &mut Context<'_>,
    flow: &mut Flow,
    end: &mut dyn End,
    pace: &mut Pace,
) -> Poll<io::Result<()>> {
    poll_sent(cx, &mut flow.exchange, end, pace, false)
}

/// Sends until all has left, or until there is room.
#[inline]
fn poll_sent(
    cx: &mut Context<'_>,
    exchange: &mut Exchange,
    end: &mut dyn End,
    pace: &mut Pace,
    room: bool,
) -> Poll<io::Result<()>> {
    while end.has_unsent() && !(room && end.has_room()) {
        let Poll::Ready(limit) = pace.poll_allowance(cx) else {
            // The place of a client that leaves is for others.
            return match end.poll_gone(cx, exchange, false) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Poll::Pending => Poll::Pending,
            };
        };
        match end.send(cx, exchange, limit)? {
            Sent::Some(count) => pace.moved(count, end.timer()),
            Sent::All => break,
            Sent::AwaitsServer => return Poll::Pending,
            Sent::AwaitsClient => {
                let Some(timer) = end.timer() else { return Poll::Pending };
                let _ = ready!(pace.limit(timer, cx, Poll::<()>::Pending));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
    }
    Poll::Ready(Ok(()))
}

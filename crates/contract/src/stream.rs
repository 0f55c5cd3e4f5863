//! The body of a request on its way from the client to whoever passes it on.

use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The body of a request that is still coming. It is read from the client no faster than it is taken; clones
/// share it.
#[derive(Clone, Debug)]
pub struct BodyStream(Rc<RefCell<State>>);

/// The other end of a [`BodyStream`]. Dropped before [`finish`](BodyFeed::finish), it cuts the body off.
#[derive(Debug)]
pub struct BodyFeed(Rc<RefCell<State>>);

/// The body cannot be completed: the client left, was too slow, or broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff;

#[derive(Debug, Default)]
struct State {
    /// What was given and not taken yet.
    piece: Option<Bytes>,
    /// Whether anything was taken.
    touched: bool,
    end: Option<Result<(), CutOff>>,
    taker: Option<Waker>,
    giver: Option<Waker>,
}

impl BodyStream {
    /// A stream with nothing in it, and its other end.
    pub fn new() -> (BodyFeed, BodyStream) {
        let state = Rc::<RefCell<State>>::default();
        (BodyFeed(Rc::clone(&state)), BodyStream(state))
    }

    /// Whether nothing was taken yet, so that all of the body is still to come.
    pub fn is_untouched(&self) -> bool {
        !self.0.borrow().touched
    }

    /// Whether all was taken and nothing more comes.
    pub fn is_over(&self) -> bool {
        let state = self.0.borrow();
        state.piece.is_none() && state.end == Some(Ok(()))
    }

    /// Takes the next piece; `None` at the end.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, CutOff>> {
        let mut state = self.0.borrow_mut();
        if let Some(piece) = state.piece.take() {
            state.touched = true;
            if let Some(giver) = state.giver.take() {
                giver.wake();
            }
            return Poll::Ready(Ok(Some(piece)));
        }
        match state.end {
            Some(end) => Poll::Ready(end.map(|()| None)),
            None => {
                state.taker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl BodyFeed {
    /// Ready when the piece before was taken.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        if state.piece.is_none() {
            return Poll::Ready(());
        }
        state.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives a piece; there has to be room for it.
    pub fn give(&self, piece: Bytes) {
        let mut state = self.0.borrow_mut();
        debug_assert!(state.piece.is_none(), "the piece before was not taken");
        state.piece = Some(piece);
        wake(&mut state.taker);
    }

    /// Tells that the body is whole.
    pub fn finish(self) {
        self.0.borrow_mut().end = Some(Ok(()));
    }
}

impl Drop for BodyFeed {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.end.get_or_insert(Err(CutOff));
        wake(&mut state.taker);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyStream, CutOff};
    use bytes::Bytes;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn pieces_come_one_by_one_and_then_the_end() {
        let mut cx = Context::from_waker(Waker::noop());
        let (feed, stream) = BodyStream::new();
        assert!(stream.is_untouched() && stream.poll_take(&mut cx).is_pending());
        feed.give(Bytes::from_static(b"a"));
        assert!(stream.is_untouched() && feed.poll_room(&mut cx).is_pending());
        let piece = |text: &'static str| Poll::Ready(Ok(Some(Bytes::from_static(text.as_bytes()))));
        assert_eq!(stream.poll_take(&mut cx), piece("a"));
        assert!(!stream.is_untouched() && feed.poll_room(&mut cx).is_ready());
        feed.give(Bytes::from_static(b"b"));
        feed.finish();
        assert!(!stream.is_over());
        assert_eq!(stream.clone().poll_take(&mut cx), piece("b"));
        assert!(stream.is_over());
        assert_eq!(stream.poll_take(&mut cx), Poll::Ready(Ok(None)));
    }

    #[test]
    fn a_feed_that_goes_away_cuts_the_body_off() {
        let mut cx = Context::from_waker(Waker::noop());
        let (feed, stream) = BodyStream::new();
        feed.give(Bytes::from_static(b"a"));
        drop(feed);
        assert!(matches!(stream.poll_take(&mut cx), Poll::Ready(Ok(Some(_)))));
        assert_eq!(stream.poll_take(&mut cx), Poll::Ready(Err(CutOff)));
        assert!(!stream.is_over());
    }
}

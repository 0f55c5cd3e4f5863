//! What a request has at hand while it is polled, and the work that is done so.

use crate::Exchange;
use http::Status;
use std::any::Any;
use std::task::{Context, Poll};

/// What a request has at hand while it is polled.
pub struct Turn<'a, 'cx> {
    /// The task to wake.
    pub cx: &'a mut Context<'cx>,
    /// The request and its response.
    pub exchange: &'a mut Exchange,
    /// The request's body, where [`Work::RequestStream`](crate::Work::RequestStream) did not find it whole.
    pub body: &'a mut dyn BodyReader,
}

/// The body of a request as it comes from the client.
pub trait BodyReader {
    /// Hands over the next bytes, piece by piece, and tells whether more of the body is to come. The client is read no
    /// faster than this is called.
    ///
    /// # Errors
    /// The body cannot be completed, and the request ends with this status: the client left, was too slow, or broke
    /// the rules.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>>;
}

/// The body of a request that has none, or whose body was read whole.
#[derive(Debug)]
pub struct NoBody;

impl BodyReader for NoBody {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        Poll::Ready(Ok(false))
    }
}

/// Work that is polled in the turns of the request that waits for it. It is dropped if the request ends.
pub trait Task: 'static {
    /// Goes on with the work; ready when it is done.
    ///
    /// # Errors
    /// The work cannot be done, and [`Outcome::Failed`](crate::Outcome::Failed) says so.
    fn poll(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>>;

    /// What [`Outcome::Task`](crate::Outcome::Task) holds when the work is done.
    fn into_outcome(self: Box<Self>) -> Box<dyn Any>;
}

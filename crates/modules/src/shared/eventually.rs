//! Work that is a future.

use contract::{Task, Turn};
use http::Status;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::task::{Poll, ready};

/// A future as a [`Task`]: the outcome is its output.
pub(crate) struct Eventually<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    output: Option<T>,
}

impl<T: 'static> Eventually<T> {
    /// The task of a future of this thread.
    pub(crate) fn boxed(future: impl Future<Output = T> + 'static) -> Box<dyn Task> {
        Box::new(Eventually { future: Box::pin(future), output: None })
    }
}

impl<T: 'static> Task for Eventually<T> {
    fn poll(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
        self.output = Some(ready!(self.future.as_mut().poll(turn.cx)));
        Poll::Ready(Ok(()))
    }

    fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
        match self.output {
            Some(output) => Box::new(output),
            // A task that is not done has no outcome, which is of no type that anyone expects.
            None => Box::new(()),
        }
    }
}

//! Work off the event loop.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::{JoinHandle, spawn_blocking};

/// What another thread does, because it blocks. The thread finishes the job also if this is dropped.
#[derive(Debug)]
pub struct Job<T>(JoinHandle<io::Result<T>>);

impl<T: Send + 'static> Job<T> {
    /// Begins the job. It has to be called on an event loop.
    pub fn start(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> Job<T> {
        Job(spawn_blocking(act))
    }
}

impl<T> Future for Job<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Pin::new(&mut self.0).poll(cx).map(|done| done.map_err(io::Error::other)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Job;
    use crate::testing::runtime;
    use std::io;

    #[test]
    fn a_job_that_panics_is_an_error() {
        runtime().block_on(async {
            assert_eq!(Job::start(|| Ok(7)).await.unwrap(), 7);
            let failed = Job::<()>::start(|| panic!("a fault of the server")).await.unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::Other);
        });
    }
}

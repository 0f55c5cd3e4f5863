//! How long a server is waited for.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::Timer;

/// What a server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Connect,
    Send,
    Read,
}

/// How long a server is waited for. The time for one thing runs until it comes, or something else is waited for.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    timer: Option<Timer>,
    waits: Option<Wait>,
    /// Whether the timer runs, although nothing may be waited for.
    is_running: bool,
}

impl Patience {
    /// Ready when the time is over.
    ///
    /// # Errors
    /// The thread has no timers.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, wait: Wait, limit: Duration) -> Poll<io::Result<()>> {
        let timer = match &self.timer {
            Some(timer) => timer,
            None => self.timer.insert(Timer::here()?),
        };
        if self.waits != Some(wait) {
            (self.waits, self.is_running) = (Some(wait), true);
            timer.start(cx, limit);
            return Poll::Pending;
        }
        timer.poll(cx).map(Ok)
    }

    /// Notes that the server did something: the next wait begins anew.
    pub(crate) fn moved(&mut self) {
        self.waits = None;
    }

    /// Waits for nothing any more.
    pub(crate) fn clear(&mut self) {
        self.waits = None;
        if let Some(timer) = self.timer.as_ref().filter(|_| self.is_running) {
            timer.clear();
            self.is_running = false;
        }
    }
}

//! What a thread has in progress, and how it makes room for more.

use crate::conn::ConnectionTask;
use crate::detached::Detached;
use crate::task_table::{self, TaskTable};
use crate::thread::Thread;
use journal::Level;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long accepting pauses when the process has no descriptor left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What a thread has in progress.
pub(crate) enum Task {
    Connection(ConnectionTask),
    Detached(Box<Detached>),
}

impl Task {
    /// See [`ConnectionTask::idle_since_ms`].
    fn idle_since_ms(&self) -> Option<u64> {
        match self {
            Task::Connection(connection) => connection.idle_since_ms(),
            Task::Detached(_) => None,
        }
    }

    /// See [`ConnectionTask::close_if_idle`].
    fn close_if_idle(&mut self) {
        if let Task::Connection(connection) = self {
            connection.close_if_idle();
        }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Task::Connection(connection) => Pin::new(connection).poll(cx),
            Task::Detached(detached) => Pin::new(detached).poll(cx),
        }
    }
}

impl task_table::Member for Task {
    fn number(&self) -> u64 {
        match self {
            Task::Connection(connection) => connection.number(),
            Task::Detached(detached) => detached.number(),
        }
    }
}

/// Closes idle connections where places run out, the ones that have been idle for longest first. Returns whether it did.
pub(crate) fn make_room(thread: &Thread, table: &TaskTable<Task>) -> bool {
    let now = Instant::now();
    let Some(wanted) = thread.places.asks(now) else { return false };
    if thread.places.complains(now) {
        let limit = thread.places.limit();
        let text = format!("{limit} worker_connections are not enough, reusing connections");
        thread.log(Level::Warn, &text);
    }
    let idle = table.lowest(wanted, Task::idle_since_ms);
    if idle.len() < wanted {
        // Connections that only wait for their client to close look at the places by themselves.
        thread.timers.wake_all();
    }
    idle.into_iter().for_each(|slot| table.change(slot, Task::close_if_idle));
    true
}

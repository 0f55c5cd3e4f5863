//! Closing a connection so that its last response is read: what the client still sends is drained
//! first, because a reset would overtake the response (RFC 9112, section 9.6).

use super::pace::Pace;
use super::{Io, body, send};
use contract::Scope;
use contract::policy::LingeringClose;
use std::sync::Arc;
use std::time::Instant;

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whether the client may still be sending.
    pub(crate) unread: bool,
}

/// Writes what is left to write and closes. The last bytes leave with the end, which saves a segment.
pub(crate) async fn flush_and_close(mut io: Box<Io>, scope: Arc<Scope>, manner: Manner) -> Option<Box<Io>> {
    let mut pace = Pace::of_response(&scope.policy.sending);
    match send::flush_and_hold(&mut io, &mut pace).await {
        Ok(()) => {
            io.is_held = true;
            close(io, &scope, manner).await;
        }
        Err(error) => send::reset_if_timed_out(&io, &error, &scope.policy.lingering),
    }
    None
}

/// Closes, after draining the client's input where the settings say so.
pub(crate) async fn close(mut io: Box<Io>, scope: &Scope, manner: Manner) {
    let policy = &scope.policy.lingering;
    let linger = match policy.close {
        LingeringClose::Always => true,
        LingeringClose::On => manner.unread || !io.input.is_empty() || io.stream.may_have_more(),
        LingeringClose::Off => false,
    };
    io.stream.say_goodbye();
    // Closing alone would drop what was held back where the client has sent what nobody reads.
    let ends = linger || io.is_held;
    if !ends || io.stream.shutdown_write().is_err() || !linger {
        return;
    }
    let started = Instant::now();
    loop {
        let left = policy.time.saturating_sub(started.elapsed());
        io.input.consume(usize::MAX);
        if left.is_zero() || body::more_unless_scarce(&mut io, policy.timeout.min(left)).await.is_err() {
            return;
        }
    }
}

//! How far serving a request came.

use engine::Pace;
use std::io;
use std::time::Instant;
use wire::memory::Held;

/// How far serving a request came. It is kept with the request, whose memory is there already.
#[derive(Default)]
pub(super) struct Course {
    pub(super) stage: Stage,
    pub(super) fate: Fate,
    /// The memory of the connection's buffers while the request waits.
    pub(super) held: Held,
}

#[derive(Default)]
pub(super) enum Stage {
    /// The response is made and sent.
    #[default]
    Responding,
    /// The rest of the request's body is skipped.
    Discarding { started: Instant, pace: Pace },
    /// What follows the response is done (`post_action`).
    FollowingUp,
    /// All is over.
    Over,
}

/// What happened to a request.
#[derive(Default)]
pub(super) enum Fate {
    /// The connection waits for the next request.
    #[default]
    Kept,
    /// The connection is closed.
    Ended,
    /// The connection closes without a response.
    Refused,
    /// The response was cut off.
    Broken(io::Error),
}

//! What a worker needs to serve another configuration than the one that it was started with.

use contract::Kept;
use site::Site;
use std::time::Duration;

/// Settings of a worker that may change while it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many connections a thread may have.
    pub connections: usize,
    /// How long what began under a configuration may take once another one serves, or the worker is to end.
    pub shutdown_timeout: Option<Duration>,
    /// How many bytes requests in progress may hold; none is no limit.
    pub request_memory: Option<usize>,
    /// Whether connections of the configuration before are to end.
    pub drains: bool,
}

/// Another configuration, compiled.
pub struct Successor {
    /// What serves.
    pub site: Site,
    /// The settings of the worker.
    pub settings: Settings,
}

/// Compiles what a [`net::channel::Parcel`] says, with the state of the configuration before; an error is for the log.
pub type Replay = dyn Fn(&[u8], Kept) -> Result<Successor, String> + Send + Sync;

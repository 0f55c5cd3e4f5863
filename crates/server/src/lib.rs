//! The server: connections, threads, and the worker that serves a site. Also `fulmar explain`, which needs no connection.

#![forbid(unsafe_code)]

// A new configuration for a worker that serves.
mod adoption;
mod commands;
mod conn;
// How a datagram gets to a session of another thread or process.
mod datagram_routes;
// Which session a datagram belongs to.
mod datagram_sessions;
// Requests that no client waits for.
mod detached;
mod event_loop;
mod explain;
mod logs;
mod neighbours;
// How many connections a thread may hold.
mod places;
// What a thread tells the watchdog while it serves.
mod pulse;
mod receiving;
#[cfg(test)]
mod second_reader;
mod services;
#[cfg(test)]
mod serving;
mod spare_memory;
// What a worker needs to serve another configuration.
mod successor;
mod task;
mod task_table;
mod tasks;
mod thread;
mod watchdog;
mod worker;

pub use explain::{Content, End, Explanation, Question, Unexplained, explain};
pub use successor::{Replay, Settings, Successor};
pub use worker::{Worker, run};

/// The version of the product.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

//! The server: connections, threads, and the worker that serves a site. Also `fulmar explain`, which needs no connection.

#![forbid(unsafe_code)]

mod adoption;
mod commands;
mod conn;
mod detached;
mod event_loop;
mod explain;
mod logs;
mod places;
mod pulse;
mod services;
#[cfg(test)]
mod serving;
mod spare_memory;
mod successor;
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

//! The server: from a configuration to sites, from connections to responses.
//!
//! It knows the structure of a configuration (`http`, `server`, `location`, `listen`) and the way of a
//! request, and no feature: those come to it as a list of modules.

#![forbid(unsafe_code)]

mod adoption;
mod commands;
mod conn;
mod crowd;
mod encryption;
mod error_page;
mod explain;
mod hosts;
mod keepalive;
mod listens;
mod load;
mod locations;
mod logs;
mod overlay;
mod pipeline;
mod places;
mod protocols;
#[cfg(test)]
mod prototypes;
mod redirect;
#[cfg(test)]
mod serving;
mod site;
mod structure;
mod successor;
#[cfg(test)]
mod testing;
mod thread;
mod timer;
mod vacancies;
mod worker;

pub use explain::{Content, End, Explanation, Question, Unexplained};
pub use load::{Loaded, Options, load};
pub use site::{Listen, Site};
pub use structure::STRUCTURE;
pub use successor::{Replay, Settings, Successor};
pub use worker::{Worker, run};

/// The version of the product.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

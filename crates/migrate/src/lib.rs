//! `fulmar migrate`: the server that is installed and Fulmar run copies of one configuration, get the same requests, and their
//! responses are compared.
//!
//! The copies listen on spare ports of loopback addresses. All that they write goes to a directory of the run.

#![forbid(unsafe_code)]

pub mod client;
pub mod compare;
mod copy;
mod example;
mod files;
mod known;
mod old_server;
pub mod page;
mod process;
pub mod report;
mod requests;
pub mod response;
mod run;
mod site;
mod urls;

pub use copy::Decision;
pub use files::ROOT_FILES_MAX;
pub use known::{KNOWN, Known};
pub use old_server::OldServer;
pub use run::{Explain, Failure, Options, Outcome, run};

//! The features, one file each, and the one ordered list of them.
//!
//! Handlers of a phase and filters of a response run in the order of this list.

#![forbid(unsafe_code)]

pub mod access;
pub mod access_log;
pub mod autoindex;
pub mod client;
pub mod error_log;
pub mod error_page;
pub mod headers;
pub mod index;
pub mod internal;
pub mod keepalive;
pub mod lingering;
pub mod map;
pub mod not_modified;
pub mod process;
pub mod range;
pub mod redirects;
pub mod rewrite;
pub mod root;
pub mod satisfy;
pub mod sending;
pub mod server_tokens;
pub mod static_files;
#[cfg(test)]
mod testing;
pub mod try_files;
pub mod types;
pub mod variables;

/// What several features share.
mod shared {
    pub(crate) mod escape;
    pub(crate) mod files;
    pub(crate) mod names;
}

use contract::Module;

/// Every feature, in the order in which their handlers and filters run.
pub static ALL: &[&Module] = &[
    &process::MODULE,
    &error_log::MODULE,
    &root::MODULE,
    &types::MODULE,
    &client::MODULE,
    &keepalive::MODULE,
    &lingering::MODULE,
    &sending::MODULE,
    &redirects::MODULE,
    &server_tokens::MODULE,
    &variables::MODULE,
    &rewrite::MODULE,
    &access::MODULE,
    &try_files::MODULE,
    &index::MODULE,
    &autoindex::MODULE,
    &static_files::MODULE,
    &error_page::MODULE,
    &internal::MODULE,
    &satisfy::MODULE,
    &map::MODULE,
    &not_modified::MODULE,
    &headers::MODULE,
    &range::MODULE,
    &access_log::MODULE,
];

//! The features, one file each, and the one ordered list of them.
//!
//! Handlers of a phase and filters of a response run in the order of this list.

#![forbid(unsafe_code)]

pub mod access;
pub mod autoindex;
pub mod error_page;
pub mod index;
pub mod internal;
pub mod map;
pub mod rewrite;
pub mod satisfy;
pub mod static_files;
#[cfg(test)]
mod testing;
pub mod try_files;

/// What several features share.
mod shared {
    pub(crate) mod escape;
    pub(crate) mod files;
    pub(crate) mod names;
}

use contract::Module;

/// Every feature, in the order in which their handlers and filters run.
pub static ALL: &[&Module] = &[
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
];

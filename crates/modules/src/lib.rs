//! The features, one file each, and the one ordered list of them.
//!
//! Handlers of a phase and filters of a response run in the order of this list.

#![forbid(unsafe_code)]

use contract::Module;

/// Every feature, in the order in which their handlers and filters run.
pub static ALL: &[&Module] = &[
];

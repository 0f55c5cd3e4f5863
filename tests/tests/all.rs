//! The end-to-end tests: one binary, a module an area.

// Tests report by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod differential;

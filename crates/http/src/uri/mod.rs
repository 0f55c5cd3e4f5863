//! URIs as they arrive in requests (RFC 3986): request targets, paths and hosts.
//!
//! A path from here starts with a slash, is decoded once and has no segment `.` or `..`. Appending it to a directory
//! therefore stays below that directory.

mod climbing;
mod host;
mod path;
#[cfg(test)]
mod properties;
mod target;

pub use climbing::{has_parent_segment, may_climb};
pub use host::{Host, InvalidHost};
pub use path::{InvalidPath, normalise_path, split_unchecked_uri, unescape_uri};
pub use target::{InvalidTarget, Target, TargetForm, authority, parse_target};

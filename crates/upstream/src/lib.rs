//! Other servers that requests are passed to, whatever protocol they speak: which one, over which
//! connection, how long to wait, and what is done when one fails.
//!
//! A protocol compiles its [`Options`] to [`Settings`], and serves a request by [`Call::work`] with a function
//! that talks over a [`Link`]. The content that follows comes as a [`Content`] over the same link, which
//! then returns to the pool of its thread.

#![forbid(unsafe_code)]

mod attempts;
mod balance;
mod call;
mod content;
mod crc32;
mod group;
mod link;
mod method;
mod names;
mod options;
mod pool;
mod settings;
mod tier;
mod upload;

pub use attempts::{Attempt, Attempts};
pub use balance::{Choice, Lease};
pub use call::{Answered, Call, Failure};
pub use content::{Content, Decode, Decoded, Reader};
pub use group::{Group, Keepalive, Server, resolve};
pub use link::Link;
pub use method::Method;
pub use names::Names;
pub use options::{OPTION_COUNT, Options};
pub use settings::{Failures, Ignored, Settings};
pub use upload::{Coding, Upload};

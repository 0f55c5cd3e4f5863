//! Starts contenders, loads them with a tool, and records what was measured. Nothing here judges it.

pub mod contender;
pub mod digest;
pub mod engine;
pub mod environment;
pub mod features;
pub mod load;
pub mod process;
pub mod reference;
pub mod system;
pub(crate) mod tls;
pub mod tool;

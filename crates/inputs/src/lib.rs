//! What a configuration names outside of its own text: files, pipes, host names, the environment, certificates and keys.

#![forbid(unsafe_code)]

mod pem;
mod system;

pub use pem::{PairFinder, Pem, PemSource};
pub use system::{System, origin};

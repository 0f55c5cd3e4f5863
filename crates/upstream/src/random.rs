//! Random numbers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A random number; each call has its own keys.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}

//! One feature, one file, always in the same order.

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(_tree: &Tree) -> Vec<Finding> {
    Vec::new()
}

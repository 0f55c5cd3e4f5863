//! What an archive is made of.

use std::path::Path;

use crate::model::block::Block;
use crate::model::experiment::Experiment;

/// What is packed.
pub struct Contents<'a> {
    /// The folder of results.
    pub out: &'a Path,
    /// The experiments that have blocks, in the order of the report.
    pub experiments: &'a [Experiment],
    /// All experiments, to which findings may refer.
    pub all: &'a [Experiment],
    /// All blocks of the folder.
    pub blocks: &'a [Block],
    /// Who measured.
    pub authors: &'a [String],
}

impl Contents<'_> {
    /// When the first and the last block began, in seconds since 1970. What could not begin has no time.
    pub fn times(&self) -> (f64, f64) {
        let times = || self.blocks.iter().map(|block| block.began_s).filter(|began_s| *began_s > 0.0);
        (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
    }
}

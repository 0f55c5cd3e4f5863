//! Draws conclusions from blocks and published figures. Nothing here measures.

pub mod audit;
pub mod comparison;
pub mod findings;
pub mod power;
pub mod statistics;

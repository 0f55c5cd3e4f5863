//! `fulmar-lab` repeats published web-server benchmarks side by side on one machine, and shows the evidence.
//!
//! Experiments ([`model::experiment`]) and contenders ([`measure::contender`]) are data. A run
//! ([`measure::engine`]) starts the contenders of an experiment, checks that they answer alike, loads them in turn
//! with a tool ([`measure::tool`]), and writes one [`model::block::Block`] for each measurement. Reports and findings
//! are computed from those blocks alone.
//!
//! The modules are four floors, lowest first: [`model`], [`measure`], [`judge`], [`show`]. A file imports from its own
//! floor and from lower ones; `cargo xtask tidy` checks it.

pub mod judge;
pub mod measure;
pub mod model;
pub mod show;

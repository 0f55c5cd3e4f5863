//! `fulmar-lab` repeats published web-server benchmarks side by side on one machine, and shows the evidence.
//!
//! Experiments ([`experiment`]) and contenders ([`contender`]) are data. A run ([`engine`]) starts the contenders
//! of an experiment, sees that they answer alike, loads them in turn with a tool ([`tool`]), and writes one
//! [`block::Block`] for each measurement. Whatever is said about them later is computed from those blocks alone.

pub mod audit;
pub mod block;
pub mod commands;
pub mod comparison;
pub mod contender;
pub mod digest;
pub mod engine;
pub mod experiment;
pub mod export;
pub mod features;
pub mod figure;
pub mod findings;
pub mod load;
pub mod machine;
pub mod numbers;
pub mod process;
mod random;
pub mod reference;
pub mod report;
pub mod statistics;
mod tls;
pub mod tool;
pub mod words;

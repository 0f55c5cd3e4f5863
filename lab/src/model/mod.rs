//! What the lab measures and records: figures, machines, experiments, orders to tools, blocks.

pub mod block;
pub mod experiment;
pub mod figure;
pub mod machine;
pub mod numbers;
pub mod order;
pub(crate) mod random;
pub mod words;

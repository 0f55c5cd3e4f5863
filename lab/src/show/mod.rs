//! The command line, the report, and exports.

pub mod commands;
pub mod export;
pub mod import;
pub mod report;

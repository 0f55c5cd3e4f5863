//! The command line, the report, and exports.

pub mod archive;
pub mod commands;
pub mod export;
pub mod import;
pub mod report;

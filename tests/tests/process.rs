//! Processes: the command line, signals, reload, upgrade, deadlines.

mod certificates;
pub(crate) mod command_line;
mod core_files;
mod deadlines;
mod endings;
mod foreign;
mod in_place;
mod judgements;
mod listening;
mod memory;
mod pid_file;
pub(crate) mod reload;
mod serve;
mod service_manager;
mod settings;
mod signals;
mod soak;
mod status;
mod threads;

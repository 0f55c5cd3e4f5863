//! Processes: the command line, signals, reload, upgrade, deadlines.

mod command_line;
mod deadlines;
mod endings;
mod in_place;
mod judgements;
mod listening;
mod reload;
mod service_manager;
mod settings;
mod signals;
mod soak;

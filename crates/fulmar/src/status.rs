//! `fulmar status`: whether the server of a configuration serves.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use inputs::System;
use journal::ErrorLog;
use net::control::Command;

use crate::configuration::Reader;
use crate::paths::Paths;
use crate::subcommand::{self, Named};

/// Asks the running server whether it serves, and prints which configuration: the first, or the one of a later reload. Only
/// the superuser and the server's own user get an answer. A container's health check can use it.
///
/// The exit status is 0 if the server serves, else 1.
#[derive(Debug, Parser)]
#[command(name = "fulmar status", bin_name = "fulmar status", version = server::VERSION)]
pub(crate) struct Arguments {
    #[command(flatten)]
    named: Named,
}

/// Asks the server; `arguments` begins with the program's own name, and `status` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let flags = arguments.named.flags();
    let Some(paths) = Paths::told(&flags) else { return ExitCode::FAILURE };
    let reader = Reader::new(Arc::new(System), paths, flags.globals, modules::ALL.to_vec());
    crate::send(Command::Status, &reader, &ErrorLog::default())
}

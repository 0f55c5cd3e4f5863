//! The program: command line, test mode, supervisor, reload and upgrade.
//!
//! It joins the features (`modules::ALL`) with the server; what happens to a request is not decided here.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

mod cache;
mod certificate_list;
mod certificates;
mod command_line;
mod completions;
mod configuration;
mod console;
mod domains;
mod explain;
mod fmt;
mod issuance;
mod layered;
mod lint;
mod listening;
mod local_certificates;
mod messages;
mod migrate;
mod paths;
mod pid_file;
mod proxy;
mod recorder;
mod reload;
mod reports;
mod respawn;
mod serve;
mod service_manager;
mod sockets;
mod start;
mod state;
mod status;
mod subcommand;
mod supervisor;
mod surroundings;
mod survey;
mod tell;
mod test_mode;
mod upgrade;
mod version;
mod worker;

use command_line::{Flags, UsageError};
use configuration::Reader;
use console::{err, out, say};
use inputs::System;
use net::control::Command;
use paths::Paths;
use start::Purpose;
use tell::Verdict;
use test_mode::Detail;

/// Does what the command line asks for; `arguments` begins with the program's own name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let word = arguments.get(1).and_then(|word| word.to_str());
    if let Some(command) = subcommand::ALL.iter().find(|command| word == Some(command.name)) {
        return (command.run)(&arguments);
    }
    let flags = match Flags::parse(arguments.get(1..).unwrap_or_default()) {
        Ok(flags) => flags,
        Err(UsageError(text)) => {
            say(&text);
            return ExitCode::FAILURE;
        }
    };
    if flags.version {
        err(&match (flags.help, flags.features) {
            (true, _) => version::help(),
            (false, true) => version::features(modules::ALL),
            (false, false) => version::version(),
        });
        if !flags.test {
            return ExitCode::SUCCESS;
        }
    }
    match Paths::told(&flags) {
        Some(paths) => act(flags, paths, arguments),
        None => ExitCode::FAILURE,
    }
}

fn act(flags: Flags, paths: Paths, arguments: Vec<OsString>) -> ExitCode {
    let reader = Reader::new(Arc::new(System), paths, flags.globals, modules::ALL.to_vec());
    if flags.test {
        return test_mode::run(&reader, Detail { dump: flags.dump, quiet: flags.quiet });
    }
    let log = messages::first_log(&reader.paths);
    match flags.signal {
        Some(command) => send(command, &reader, &log),
        None => start::run(reader, log, Purpose::Server(arguments)),
    }
}

/// `-s`, `fulmar status` and `fulmar certificates renew`.
fn send(command: Command, reader: &Reader, log: &journal::ErrorLog) -> ExitCode {
    let pid = match reader.read() {
        Ok(configuration) => {
            messages::notes(&configuration.read, log);
            configuration.process.pid
        }
        // All other commands need only the pid file, and the environment may lack what templates need.
        Err(refusal) => match reader.pid_path().filter(|_| command != Command::Reload) {
            Some(pid) => {
                say("the configuration has an error, which -t shows; only its \"pid\" is used");
                pid
            }
            None => {
                messages::refusal(&refusal, log);
                return ExitCode::FAILURE;
            }
        },
    };
    match tell::tell(&pid, command) {
        Verdict::Done(text) => {
            if matches!(command, Command::Status | Command::Renew) {
                out(format!("{text}\n").as_bytes());
            }
            ExitCode::SUCCESS
        }
        Verdict::Unknown => {
            say("the signal was sent; what came of it is in the error log");
            ExitCode::SUCCESS
        }
        Verdict::Refused(text) => {
            err(&format!("{}\n", text.trim_end()));
            ExitCode::FAILURE
        }
        Verdict::Failed(text) => {
            messages::message(journal::Level::Error, &text, log);
            ExitCode::FAILURE
        }
    }
}

//! `-t` and `-T`: everything that a start does, as far as it leaves nothing behind.

use std::process::ExitCode;

use conf::Diagnostic;
use contract::log::ErrorLog;

use crate::configuration::{Configuration, Reader};
use crate::console::{out, say};
use crate::messages;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    /// Print all files after a success.
    pub(crate) dump: bool,
    /// No word of success.
    pub(crate) quiet: bool,
}

/// Tests the configuration; the exit status is 0 if it is good and 1 if not.
///
/// Log files are opened, and created where they do not exist, as are directories for temporary files. Addresses are
/// tried, and may be in use. The pid file is not touched.
pub(crate) fn run(reader: &Reader, log: &ErrorLog, detail: Detail) -> ExitCode {
    let path = reader.paths.conf.display();
    let configuration = match reader.read() {
        Ok(configuration) => configuration,
        Err(refusal) => {
            messages::refusal(&refusal, log);
            say(&format!("configuration file {path} test failed"));
            return ExitCode::FAILURE;
        }
    };
    messages::notes(&configuration.read, log);
    if !detail.quiet {
        say(&format!("the configuration file {path} syntax is ok"));
    }
    let problems = problems(&configuration);
    if !problems.is_empty() {
        for problem in &problems {
            messages::diagnostic(problem, &configuration.read, log);
        }
        say(&format!("configuration file {path} test failed"));
        return ExitCode::FAILURE;
    }
    if !detail.quiet {
        say(&format!("configuration file {path} test is successful"));
    }
    if detail.dump {
        dump(&configuration);
    }
    // The process ends with it: to take a large one apart would be for nothing.
    std::mem::forget(configuration);
    ExitCode::SUCCESS
}

/// What would keep the server from starting: the first kind of problem only, as a start would meet it.
fn problems(configuration: &Configuration) -> Vec<Diagnostic> {
    let files = configuration.open_files();
    if !files.is_empty() {
        return files;
    }
    let listens = &configuration.site.listens;
    let check = |listen: &server::Listen| net::bind::check(&listen.address, &listen.options).err();
    listens.iter().filter_map(check).map(|error| Diagnostic::emerg(error.to_string())).take(1).collect()
}

fn dump(configuration: &Configuration) {
    for (_, path, text) in configuration.read.sources.iter() {
        out(format!("# configuration file {}:\n", path.display()).as_bytes());
        out(text);
        out(b"\n");
    }
}

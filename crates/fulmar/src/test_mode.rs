//! `-t` and `-T`: checks everything that a start needs, and creates and changes nothing.

use std::collections::HashSet;
use std::process::ExitCode;

use conf::Diagnostic;
use journal::ErrorLog;

use crate::configuration::{Configuration, Reader};
use crate::console::{out, say};
use crate::messages;
use crate::survey;

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
/// A missing log or directory for temporary files must be possible to create. Addresses may be in use. The pid file is
/// not touched, and nothing is logged.
pub(crate) fn run(reader: &Reader, detail: Detail) -> ExitCode {
    let path = reader.paths.conf.display();
    let log = &ErrorLog::default();
    messages::check_first_log(&reader.paths);
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
    problems.iter().for_each(|problem| messages::diagnostic(problem, &configuration.read, log));
    if problems.iter().any(Diagnostic::is_error) {
        say(&format!("configuration file {path} test failed"));
        return ExitCode::FAILURE;
    }
    let closed = look_beside(&configuration, detail);
    match closed {
        _ if detail.quiet => {}
        0 => say(&format!("configuration file {path} test is successful")),
        // The files belong to others, who must not be able to keep a configuration from being loaded.
        _ => say(&format!(
            "configuration file {path} test is successful, but all requests for {closed} of its roots end with an error"
        )),
    }
    if detail.dump {
        dump(&configuration);
    }
    // The process ends with it: to take a large one apart would be for nothing.
    std::mem::forget(configuration);
    ExitCode::SUCCESS
}

/// Warns of `.htaccess` files. They belong to others, and a start does not fail by them. Gives the number of sites that are
/// closed as a whole.
fn look_beside(configuration: &Configuration, detail: Detail) -> usize {
    let Some(found) = configuration.site.survey() else { return 0 };
    let problems = found.problems.iter().map(survey::problem);
    problems.for_each(|text| say(&format!("[warn] {text}")));
    if !detail.quiet {
        found.found.iter().for_each(|file| say(&survey::found(file)));
        say(&survey::summary(&found));
    }
    let closed = found.problems.iter().filter(|problem| problem.is_root && problem.status.is_some());
    closed.map(|problem| &problem.path).collect::<HashSet<_>>().len()
}

/// What a start would warn of, or fail by: the first kind of error only, as a start would meet it.
fn problems(configuration: &Configuration) -> Vec<Diagnostic> {
    let mut problems = configuration.check_files();
    if !problems.iter().any(Diagnostic::is_error) {
        let mut listens = configuration.site.listens.iter();
        let error = listens.find_map(|listen| net::bind::check(&listen.endpoint, &listen.options).err());
        problems.extend(error.map(|error| {
            let problem = Diagnostic::emerg(error.to_string());
            error.hint().into_iter().fold(problem, Diagnostic::hint)
        }));
    }
    problems
}

fn dump(configuration: &Configuration) {
    for (_, path, text) in configuration.read.sources.iter() {
        out(format!("# configuration file {}:\n", path.display()).as_bytes());
        out(&conf::hide_keys(text));
        out(b"\n");
    }
}

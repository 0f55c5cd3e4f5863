//! Messages of a start or a test: on the standard error stream, and in the log that exists already.

use std::io;
use std::path::Path;
use std::sync::Arc;

use journal::{ErrorLog, Level, LogFile, Target};

use crate::configuration::{Read, Refusal};
use crate::console::{err, say};
use crate::paths::Paths;

/// Opens the log that is written to until the configuration names another one.
///
/// Where the packaged place does not exist, the standard error stream alone will do; where `-e` asked for a
/// file that cannot be written, that is reported.
pub(crate) fn first_log(paths: &Paths) -> ErrorLog {
    let Some(path) = &paths.error_log else { return ErrorLog::default() };
    let file = LogFile::at(path);
    match file.open() {
        Ok(()) => ErrorLog::new(vec![Target::file(Arc::new(file), Level::Notice)]),
        Err(error) => {
            tell_of_first_log(paths, path, &error);
            ErrorLog::default()
        }
    }
}

/// The same for a test, which writes to no log: only says what keeps the log from being opened.
pub(crate) fn check_first_log(paths: &Paths) {
    let Some(path) = &paths.error_log else { return };
    if let Err(error) = LogFile::at(path).check() {
        tell_of_first_log(paths, path, &error);
    }
}

fn tell_of_first_log(paths: &Paths, path: &Path, error: &io::Error) {
    if paths.error_log_given {
        let (path, reason) = (path.display(), net::system_message(error));
        say(&format!("[alert] could not open error log file: open() \"{path}\" failed ({reason})"));
    }
}

/// Tells the warnings, then why a configuration was refused.
pub(crate) fn refusal(refusal: &Refusal, log: &ErrorLog) {
    notes(&refusal.read, log);
    refusal.errors().for_each(|error| diagnostic(error, &refusal.read, log));
}

/// Tells the warnings and notes about a configuration.
pub(crate) fn notes(read: &Read, log: &ErrorLog) {
    read.notes.iter().for_each(|note| diagnostic(note, read, log));
}

/// Tells something that has no place in a file.
pub(crate) fn message(level: Level, text: &str, log: &ErrorLog) {
    say(&format!("[{}] {text}", level.name()));
    log.write(level, text);
}

/// Tells one thing about a configuration.
pub(crate) fn diagnostic(diagnostic: &conf::Diagnostic, read: &Read, log: &ErrorLog) {
    err(&read.render(diagnostic));
    log.write(diagnostic.level, &read.line(diagnostic));
}

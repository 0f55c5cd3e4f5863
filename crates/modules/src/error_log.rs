//! Messages about what goes wrong: `error_log`.
//!
//! A log is a file, whose name may be relative to the prefix (`-p`), or `stderr`. It has the messages
//! of its level and all that are worse: `debug`, `info`, `notice`, `warn`, `error` (the default),
//! `crit`, `alert`, `emerg`. A level of the configuration may have several logs; its own hide those
//! from outside. Lines look like this, which tools such as fail2ban read:
//!
//! ```text
//! 2026/11/21 20:05:56 [error] 4242#1: *7 MESSAGE, client: 192.0.2.1, server: example.com, request: "GET / HTTP/1.1", host: "example.com"
//! ```
//!
//! Without a directive, messages go to `/var/log/fulmar/error.log`, or where `-e` says. Logs to
//! `syslog:` and `memory:` are refused. `log_not_found off` keeps files that are not found out of the log.
//!
//! ```conf
//! error_log /var/log/fulmar/error.log warn;
//! error_log stderr crit;
//! ```

use conf::value::flag;
use conf::{Arity, Contexts, Diagnostic};
use contract::log::{ErrorLog, Level, LogFile, LogFiles, Target};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use std::sync::Arc;

/// Messages about what goes wrong.
pub static MODULE: Module = Module {
    name: "error_log",
    directives: &[&ERROR_LOG, &LOG_NOT_FOUND],
    variables: &[],
    compile: Some(compile),
};

/// `error_log FILE [LEVEL]`
pub static ERROR_LOG: Directive<Target> = Directive::new("error_log", parse)
    .within(Contexts::MAIN.or(Contexts::HTTP).or(Contexts::SERVER).or(Contexts::LOCATION))
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("/var/log/fulmar/error.log error")
    .help("A log of messages, and the least level that it has.");

/// `log_not_found on|off`
pub static LOG_NOT_FOUND: Directive<bool> = Directive::new("log_not_found", |args, _| args.value(0, flag))
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .args(Arity::Flag)
    .default("on")
    .help("Whether a file that is not found is logged.");

/// The error log of a level: its own, or the one that it inherits, or the default one, which is then
/// added to the files. The supervisor asks for the main level's.
pub fn of_level(view: &View<'_>, logs: &LogFiles) -> ErrorLog {
    let targets: Vec<_> = view.all(&ERROR_LOG).iter().map(|written| written.value.clone()).collect();
    if targets.is_empty() {
        return ErrorLog::new(vec![Target::file(logs.default_error_file(), Level::Error)]);
    }
    ErrorLog::new(targets)
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Target, Diagnostic> {
    let word = args.word(0)?;
    for (start, what) in [(&b"syslog:"[..], "syslog"), (b"memory:", "a buffer in memory")] {
        if word.text.starts_with(start) {
            let message = format!("\"error_log\" to {what} is not built yet");
            let error = Diagnostic::emerg(message).at(args.node.span).under(word.span);
            return Err(error.hint("log to a file or to stderr"));
        }
    }
    let level = level(args)?;
    let file = match &*word.text {
        b"stderr" => Arc::new(LogFile::stderr()),
        path => loading.logs.file(&loading.path(path)),
    };
    Ok(Target::file(file, level))
}

fn level(args: &Args<'_>) -> Result<Level, Diagnostic> {
    let mut level = None;
    let mut debug_kinds = false;
    for word in args.words().iter().skip(1) {
        let complain = |what: &str| {
            let message = format!("{what} log level \"{word}\"");
            Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
        };
        // The kinds of debug messages are not told apart.
        if DEBUG_KINDS.iter().any(|name| word.is(name)) {
            if level.is_some() {
                return complain("invalid");
            }
            debug_kinds = true;
            continue;
        }
        let Some(found) = Level::ALL.into_iter().find(|level| word.is(level.name())) else {
            return complain("invalid");
        };
        if debug_kinds || level.replace(found).is_some() {
            return complain("duplicate");
        }
    }
    Ok(if debug_kinds { Level::Debug } else { level.unwrap_or(Level::Error) })
}

const DEBUG_KINDS: [&str; 7] =
    ["debug_core", "debug_alloc", "debug_mutex", "debug_event", "debug_http", "debug_mail", "debug_stream"];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.error_log = of_level(view, &builder.logs);
    if let Some(&on) = view.get(&LOG_NOT_FOUND) {
        builder.policy.log_not_found = on;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::log::Level;

    #[test]
    fn a_level_shows_itself_and_what_is_worse() {
        let site = Site::location("error_log one.log warn; error_log stderr;");
        let exchange = site.get("/");
        let log = &exchange.scope.policy.error_log;
        assert!(log.shows(Level::Warn) && log.shows(Level::Emerg));
        assert!(!log.shows(Level::Notice));
        let quiet = Site::location("error_log one.log;").get("/");
        assert!(!quiet.scope.policy.error_log.shows(Level::Warn));
    }

    #[test]
    fn files_that_are_not_found() {
        assert!(Site::location("").get("/").scope.policy.log_not_found);
        assert!(!Site::location("log_not_found off;").get("/").scope.policy.log_not_found);
    }

    #[test]
    fn debug_may_be_narrowed() {
        assert!(
            Site::location("error_log x debug_http debug_event;")
                .get("/")
                .scope
                .policy
                .error_log
                .shows(Level::Debug)
        );
    }

    #[test]
    fn wrong_levels() {
        assert_eq!(Site::error("error_log x loud;"), "invalid log level \"loud\"");
        assert_eq!(Site::error("error_log x warn crit;"), "duplicate log level \"crit\"");
        for before in ["warn", "debug"] {
            assert_eq!(
                Site::error(&format!("error_log x {before} debug_http;")),
                "invalid log level \"debug_http\""
            );
        }
        assert_eq!(Site::error("error_log x debug_http debug;"), "duplicate log level \"debug\"");
        assert_eq!(Site::error("error_log syslog:server=a;"), "\"error_log\" to syslog is not built yet");
    }
}

//! Sets where messages about errors go: `error_log`.
//!
//! A log is a file, relative to the prefix (`-p`), or `stderr`. It contains the messages of its level and of all more
//! severe levels: `debug`, `info`, `notice`, `warn`, `error` (the default), `crit`, `alert`, `emerg`. A level of the
//! configuration may have several logs; they replace those of outer levels. Tools such as fail2ban can read the
//! lines:
//!
//! ```text
//! 2026/11/21 20:05:56 [error] 4242#1: *7 MESSAGE, client: 192.0.2.1, server: example.com, request: "GET / HTTP/1.1", host: "example.com"
//! ```
//!
//! Lines are cut after 2 KB. With `format=json` (Fulmar only) each line is an object with `time`, `level`, `pid`,
//! `thread`, `connection`, `message`, and data of the request: `client`, `server`, `request`, `upstream`, `host` and
//! `referrer`.
//!
//! `syslog:server=ADDRESS` sends messages to a syslog server, with the parameters of `access_log`; the severity is
//! the level of the message. If all logs outside of `http` are syslog servers, messages of the level `error` and
//! above also go to the default file. `memory:SIZE`, a log in memory, is rejected, because only a debugger could read it.
//!
//! A log that cannot be written is reported once a minute in the other logs, or on the standard error stream. Its
//! messages are lost, and no request waits. When the log can be written again, the number of lost lines is reported;
//! it is also a metric.
//!
//! Each log takes 1,000 messages about clients in a second. Then a line says that further messages are suppressed,
//! and the next second begins with their number. Messages more severe than `error`, and `debug` messages, are never
//! suppressed.
//!
//! Without a directive, messages go to the default file: `/var/log/fulmar/error.log`, or the one that `-e` names. If
//! `/var/log/fulmar/error.log` cannot be opened, they go to the standard error stream. With `log_not_found off`, files that do
//! not exist are not logged.
//!
//! ```conf
//! error_log /var/log/fulmar/error.log warn;
//! error_log /var/log/fulmar/error.json info format=json;
//! error_log syslog:server=unix:/dev/log,nohostname crit;
//! error_log stderr crit;
//! ```

use crate::shared::syslog;
use conf::value::flag;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Directive, Exchange, Loading, Module, Rule, ScopeBuilder, View};
use journal::{ErrorLog, Form, Level, LogFile, LogFiles, Sink, Target};
use std::sync::Arc;

/// Messages about what goes wrong.
pub static MODULE: Module = Module {
    name: "error_log",
    directives: &[&ERROR_LOG, &LOG_NOT_FOUND],
    variables: &[],
    compile: Some(compile),
};

/// `error_log FILE [LEVEL] [format=text|json]`
pub static ERROR_LOG: Directive<Use> = Directive::new("error_log", parse)
    .within(
        Contexts::MAIN
            .or(Contexts::HTTP)
            .or(Contexts::SERVER)
            .or(Contexts::LOCATION)
            .or(Contexts::ALL_STREAM),
    )
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("/var/log/fulmar/error.log error")
    .help("A log of messages, and its lowest level.");

/// `log_not_found on|off`
pub static LOG_NOT_FOUND: Directive<bool> = Directive::new("log_not_found", |args, _| args.value(0, flag))
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .args(Arity::Flag)
    .default("on")
    .help("Whether a file that is not found is logged.");

/// What one use of `error_log` says.
pub struct Use {
    target: Target,
    is_main: bool,
}

/// The error log of a level of the configuration: its own, or the one that it inherits, or the default file. The default file is added, too,
/// if the main level has logs on syslog servers only.
pub fn of_level(view: &View<'_>, logs: &LogFiles) -> ErrorLog {
    let uses = view.all(&ERROR_LOG);
    let mut targets: Vec<_> = uses.iter().map(|written| written.value.target.clone()).collect();
    let is_file = |target: &Target| matches!(target.sink, Sink::File(_));
    if uses.iter().all(|written| written.value.is_main) && !targets.iter().any(is_file) {
        targets.push(Target::file(logs.default_error_file(), Level::Error));
    }
    ErrorLog::new(targets)
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Use, Diagnostic> {
    let word = args.word(0)?;
    let sink = match &*word.text {
        b"stderr" => Sink::File(Arc::new(LogFile::stderr())),
        text if text.starts_with(syslog::START) => Sink::Syslog(syslog::parse(args, word, loading)?),
        text if text.starts_with(b"memory:") => {
            let message = "\"error_log\" to a buffer in memory is not supported";
            let error = Diagnostic::emerg(message).at(args.node.span).under(word.span);
            loading.refuse(error.hint("only a debugger could read it; log to a file below /dev/shm"))?;
            Sink::File(Arc::new(LogFile::stderr()))
        }
        path => Sink::File(loading.logs.file(&loading.path(path))),
    };
    let (level, form) = level_and_form(args)?;
    Ok(Use { target: Target { sink, level, form }, is_main: args.context == Contexts::MAIN })
}

fn level_and_form(args: &Args<'_>) -> Result<(Level, Form), Diagnostic> {
    let (mut level, mut form) = (None, None);
    let mut debug_kinds = false;
    for word in args.words().iter().skip(1) {
        let complain = |message: String| Err(Diagnostic::emerg(message).at(args.node.span).under(word.span));
        if let Some(name) = word.text.strip_prefix(b"format=") {
            let Some((_, found)) = FORMS.iter().find(|(known, _)| known.as_bytes() == name) else {
                return complain(format!("invalid parameter \"{word}\""));
            };
            if form.replace(*found).is_some() {
                return complain("duplicate \"format\"".to_owned());
            }
            continue;
        }
        // nginx selects kinds of debug messages. Here each of these words means the level `debug`.
        if DEBUG_KINDS.iter().any(|name| word.is(name)) {
            if level.is_some() {
                return complain(format!("invalid log level \"{word}\""));
            }
            debug_kinds = true;
            continue;
        }
        let Some(found) = Level::ALL.into_iter().find(|level| word.is(level.name())) else {
            return complain(format!("invalid log level \"{word}\""));
        };
        if debug_kinds || level.replace(found).is_some() {
            return complain(format!("duplicate log level \"{word}\""));
        }
    }
    let level = if debug_kinds { Level::Debug } else { level.unwrap_or(Level::Error) };
    Ok((level, form.unwrap_or(Form::Text)))
}

const FORMS: [(&str, Form); 2] = [("text", Form::Text), ("json", Form::Json)];

const DEBUG_KINDS: [&str; 7] =
    ["debug_core", "debug_alloc", "debug_mutex", "debug_event", "debug_http", "debug_mail", "debug_stream"];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.error_log = of_level(view, &builder.logs);
    if view.get(&LOG_NOT_FOUND) == Some(&false) {
        builder.keep(MissingUnlogged);
    }
    Ok(())
}

/// A file that is not there is not logged.
struct MissingUnlogged;

/// Whether a file that is not there is logged.
pub(crate) fn logs_missing(exchange: &Exchange) -> bool {
    exchange.scope.kept::<MissingUnlogged>().is_none()
}

#[cfg(test)]
mod tests {
    use super::logs_missing;
    use crate::testing::{Site, main_level};
    use contract::Config;
    use journal::{Level, LogFiles};
    use std::path::Path;

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
        assert!(logs_missing(&Site::location("").get("/")));
        assert!(!logs_missing(&Site::location("log_not_found off;").get("/")));
    }

    #[test]
    fn each_kind_of_debug_messages_means_all_of_them() {
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
    fn syslog_servers_alone_add_the_default_file() {
        let logs = LogFiles::default();
        let path = |text| {
            let (config, _) = main_level(text).unwrap();
            super::of_level(&config.view(Config::MAIN), &logs).path().map(Path::to_path_buf)
        };
        let default = logs.default_error_log.clone();
        assert_eq!(path(""), default);
        assert_eq!(path("error_log syslog:server=[::1] info;"), default);
        assert_eq!(path("error_log stderr;"), None);
        assert_eq!(path("error_log syslog:server=[::1]; error_log /x;").as_deref(), Some(Path::new("/x")));
        let below = Site::location("error_log syslog:server=[::1];").get("/");
        assert_eq!(below.scope.policy.error_log.path(), None);
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
        assert_eq!(Site::error("error_log x format=xml;"), "invalid parameter \"format=xml\"");
        assert_eq!(Site::error("error_log x format=json format=text;"), "duplicate \"format\"");
        assert_eq!(
            Site::error("error_log memory:32m debug;"),
            "\"error_log\" to a buffer in memory is not supported"
        );
    }
}

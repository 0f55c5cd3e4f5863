//! Sets how the processes of the server run: their user, threads, limits and environment.
//!
//! Fulmar has a supervisor and one worker process. `worker_processes` is the number of threads of the worker.
//! `worker_connections` and `worker_rlimit_nofile` apply to each thread; if the machine allows fewer open files, the
//! threads share those. With `daemon off` the server stays in the foreground. With `master_process off` the process
//! that was started serves requests itself. The worker runs as `user`, if the supervisor runs as root. When the
//! server stops, `worker_shutdown_timeout` limits how long the worker finishes its requests.
//!
//! **Reload.** The worker stays and takes over the new configuration. Requests in progress finish with the previous
//! configuration; the next requests on the same connections use the new one. A connection closes after its next
//! response if its address is gone or its TLS settings changed. `reload_connections drain` closes all connections in
//! this way, as nginx does. `worker_shutdown_timeout` of the previous configuration limits how long requests may use
//! it. Some settings, such as `user`, `worker_processes` and `env`, need a new worker: the connections of the
//! previous worker then close.
//!
//! **Idle connections.** If a sixteenth of a thread's `worker_connections` or less is free, or no descriptor is free,
//! the thread closes idle connections, and the error log warns ("reusing connections"). A connection is idle while it
//! waits for its first or next request. The connection that has been idle for longest closes first. A connection that
//! has received part of a request, or whose response is being sent, is not closed.
//!
//! **Memory.** `request_memory` limits the memory of requests in progress: headers, bodies, buffers and responses of
//! upstream servers. The default is half of the machine's memory, or of the memory limit of the container (the control
//! group); `off` means no limit. If seven eighths are in use, new
//! requests get 503, and responses of upstream servers go to files where that is allowed; the error log says so at
//! most once a second. If all of it is in use, a request that needs more is ended; one with its body in memory gets
//! 503.
//!
//! **Blocked threads.** A thread can be blocked: it is stopped, computes, or waits for a disk. After 0.3 s another
//! thread accepts its new clients. After 1 s the error log names the thread, the connection and the cause.
//!
//! `worker_cpu_affinity` binds threads to processors. Each mask is for one thread; its last digit is the first
//! processor. `auto` binds the threads in turn to the processors that the process may use, or to those of a mask
//! after `auto`. `worker_priority` is the nice value of the worker; a negative value needs root.
//!
//! **Environment.** The worker keeps `TZ` and the variables that `env` names, and gets those that `env` sets. A new
//! program after USR2 gets the same, and what it needs to notify the service manager. With `master_process off`
//! environment, priority and limits stay as they are.
//!
//! The worker writes a core file only if `worker_rlimit_core` is set, because such a process can also be inspected by
//! other processes of its user. Core files go to `working_directory`.
//!
//! `debug_connection` logs the connections of some clients in detail, whatever the level of the logs: by address,
//! network, name or `unix:`. The log shows the client, the headers of the request without secrets, the location, and
//! the response. `error_log FILE debug` does the same for all clients.
//!
//! `load_module` is accepted for modules that are built in. For other modules it gives a warning, and the directives
//! of the module are reported where they are used.
//!
//! ```conf
//! user www-data;
//! worker_processes auto;
//! worker_rlimit_nofile 8192;
//! worker_shutdown_timeout 30s;
//! request_memory 2g;
//! pid /run/fulmar.pid;
//! events {
//!     worker_connections 1024;
//! }
//! ```

mod affinity;
mod debugging;
mod environment;
mod group;
mod memory;

pub use affinity::{Affinity, PROCESSORS_MAX};
pub use debugging::DEBUG_CONNECTION;
use debugging::debugged_clients;
pub use environment::{Env, environment};
pub use memory::REQUEST_MEMORY;

use conf::catalogue::{Loadable, judge_parameter, module_of_file};
use conf::{Arity, Contexts, Diagnostic, Span, Word, value};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, SectionId, View};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Processes.
pub static MODULE: Module = Module {
    name: "process",
    directives: &[
        &USER,
        &group::GROUP,
        &PID,
        &DAEMON,
        &MASTER_PROCESS,
        &WORKER_PROCESSES,
        &WORKER_CPU_AFFINITY,
        &WORKER_PRIORITY,
        &WORKER_RLIMIT_NOFILE,
        &WORKER_RLIMIT_CORE,
        &WORKER_SHUTDOWN_TIMEOUT,
        &RELOAD_CONNECTIONS,
        &ENV,
        &WORKING_DIRECTORY,
        &LOAD_MODULE,
        &EVENTS,
        &WORKER_CONNECTIONS,
        &REQUEST_MEMORY,
        &USE,
        &DEBUG_CONNECTION,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `user NAME [GROUP]`
pub static USER: Directive<User> = Directive::new("user", parse_user)
    .within(Contexts::MAIN)
    .args(Arity::Range(1, 2))
    .help("The user and the group that the worker runs as.");

/// `pid FILE`
pub static PID: Directive<PathBuf> =
    Directive::new("pid", |args, loading| Ok(loading.path(&args.word(0)?.text)))
        .within(Contexts::MAIN)
        .default("/run/fulmar.pid")
        .help("The file with the process id of the supervisor.");

/// `daemon on | off`
pub static DAEMON: Directive<bool> = Directive::flag("daemon")
    .within(Contexts::MAIN)
    .default("on")
    .help("Whether the server runs in the background.");

/// `master_process on | off`
pub static MASTER_PROCESS: Directive<bool> = Directive::flag("master_process")
    .within(Contexts::MAIN)
    .default("on")
    .help("Whether a separate worker process answers requests.");

/// `worker_processes NUMBER | auto`
pub static WORKER_PROCESSES: Directive<usize> = Directive::new("worker_processes", parse_threads)
    .within(Contexts::MAIN)
    .default("1")
    .help("How many threads serve; `auto` is one for each processor.");

/// `worker_cpu_affinity MASK … | auto [MASK]`
pub static WORKER_CPU_AFFINITY: Directive<Affinity> = Directive::new("worker_cpu_affinity", affinity::parse)
    .within(Contexts::MAIN)
    .args(Arity::AtLeast(1))
    .help("Which processors run which thread.");

/// `worker_priority NUMBER`
pub static WORKER_PRIORITY: Directive<i32> = Directive::new("worker_priority", parse_priority)
    .within(Contexts::MAIN)
    .default("0")
    .help("The nice value of the worker, from -20 (highest priority) to 19.");

/// `worker_rlimit_nofile NUMBER`
pub static WORKER_RLIMIT_NOFILE: Directive<u64> = Directive::number("worker_rlimit_nofile")
    .within(Contexts::MAIN)
    .help("How many files each thread may have open.");

/// `worker_rlimit_core SIZE`
pub static WORKER_RLIMIT_CORE: Directive<u64> =
    Directive::new("worker_rlimit_core", |args, _| args.value(0, value::offset))
        .within(Contexts::MAIN)
        .help("The maximum size of a core file of the worker.");

/// `worker_shutdown_timeout TIME`
pub static WORKER_SHUTDOWN_TIMEOUT: Directive<Duration> = Directive::time("worker_shutdown_timeout")
    .within(Contexts::MAIN)
    .help("How long a worker that stops may finish its requests.");

/// `reload_connections keep | drain`
pub static RELOAD_CONNECTIONS: Directive<Reloading> =
    Directive::new("reload_connections", |args, _| args.value(0, |word| value::choice(word, &RELOADING)))
        .within(Contexts::MAIN)
        .default("keep")
        .help("Whether connections take up a new configuration, or close after their next response.");

const RELOADING: [(&str, Reloading); 2] = [("keep", Reloading::Keep), ("drain", Reloading::Drain)];

/// What happens to the connections that there are when a new configuration takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloading {
    /// Their next requests are answered by the new one.
    Keep,
    /// They end.
    Drain,
}

/// `working_directory DIRECTORY`
pub static WORKING_DIRECTORY: Directive<PathBuf> =
    Directive::new("working_directory", |args, _| Ok(OsStr::from_bytes(&args.word(0)?.text).into()))
        .within(Contexts::MAIN)
        .help("The working directory of the worker. Core files are written there.");

/// `env NAME[=VALUE]`
pub static ENV: Directive<Env> = Directive::new("env", environment::parse)
    .within(Contexts::MAIN)
    .rule(Rule::List)
    .default("TZ")
    .help("A variable of the environment that the worker keeps or gets.");

/// `load_module FILE`
pub static LOAD_MODULE: Directive<()> = Directive::new("load_module", parse_load_module)
    .within(Contexts::MAIN)
    .rule(Rule::List)
    .help("A module of nginx. Modules that are built in need no loading.");

/// `events { … }`
pub static EVENTS: Directive<SectionId> =
    Directive::new("events", |args, _| args.opened.ok_or_else(|| args.error("has no opening \"{\"")))
        .within(Contexts::MAIN)
        .opens(Arity::None, Contexts::EVENTS)
        .rule(Rule::Never)
        .help("Contains the directives for connections and events.");

/// `worker_connections NUMBER`
pub static WORKER_CONNECTIONS: Directive<u64> = Directive::new("worker_connections", parse_connections)
    .within(Contexts::EVENTS)
    .default("512")
    .help("How many connections each thread may have.");

/// `use METHOD`
pub static USE: Directive<()> = Directive::new("use", parse_use)
    .within(Contexts::EVENTS)
    .default("epoll")
    .help("How the server waits for events. It always uses epoll.");

/// nginx's ways to wait for events on Linux.
const METHODS: [&str; 3] = ["epoll", "poll", "select"];

/// A user and a group by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub name: String,
    /// The group; without one it is the group with the user's name.
    pub group: Option<String>,
    /// Where it was written.
    pub span: Span,
}

/// What the configuration says of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Who the worker runs as, where that was written.
    pub user: Option<User>,
    /// The file with the supervisor's process id.
    pub pid: PathBuf,
    /// Whether to go to the background.
    pub daemon: bool,
    /// Whether there is a worker process next to the supervisor.
    pub master_process: bool,
    /// How many threads serve; at least one.
    pub threads: usize,
    /// How many connections each thread may have.
    pub connections: u64,
    /// How many bytes requests in progress may hold, where that was written; none is no limit.
    pub request_memory: Option<Option<u64>>,
    /// Which processors run which thread.
    pub affinity: Option<Affinity>,
    /// The niceness of the worker, where it is not that of the supervisor.
    pub priority: Option<i32>,
    /// How many files each thread may have open.
    pub open_files: Option<u64>,
    /// How long a core file may be, in bytes.
    pub core_file: Option<u64>,
    /// Which variables the worker has.
    pub env: Vec<Env>,
    /// After how long a leaving worker closes its connections.
    pub shutdown_timeout: Option<Duration>,
    /// What happens to the connections that there are when this configuration takes effect.
    pub reloading: Reloading,
    /// Where the worker works.
    pub working_directory: Option<PathBuf>,
}

/// The settings of processes, read from the main level; what is odd about them is added to `notes`.
///
/// # Errors
/// Settings that do not fit together.
pub fn settings(main: &View<'_>, notes: &mut Vec<Diagnostic>) -> Result<ProcessSettings, Diagnostic> {
    let events = main.get(&EVENTS).map(|&section| main.at(section));
    let connections = events.and_then(|events| events.get(&WORKER_CONNECTIONS).copied());
    let open_files = main.written(&WORKER_RLIMIT_NOFILE);
    if let Some(written) = &open_files
        && *written.value == 0
    {
        let message = "\"worker_rlimit_nofile\" leaves no file to open";
        return Err(Diagnostic::emerg(message).at(written.span));
    }
    let threads = main.get(&WORKER_PROCESSES).copied().unwrap_or(1).max(1);
    let affinity = main.written(&WORKER_CPU_AFFINITY);
    if let Some(written) = &affinity
        && let Some(warning) = written.value.warning(threads)
    {
        notes.push(Diagnostic::warn(warning).at(written.span));
    }
    Ok(ProcessSettings {
        user: group::user(main),
        pid: main.get(&PID).cloned().unwrap_or_else(|| PathBuf::from("/run/fulmar.pid")),
        daemon: main.get(&DAEMON).copied().unwrap_or(true),
        master_process: main.get(&MASTER_PROCESS).copied().unwrap_or(true),
        threads,
        connections: connections.unwrap_or(512),
        request_memory: main.get(&REQUEST_MEMORY).copied(),
        affinity: affinity.map(|written| written.value.clone()),
        priority: main.get(&WORKER_PRIORITY).copied().filter(|priority| *priority != 0),
        open_files: open_files.map(|written| *written.value),
        core_file: main.get(&WORKER_RLIMIT_CORE).copied(),
        env: main.all(&ENV).iter().map(|written| written.value.clone()).collect(),
        shutdown_timeout: main.get(&WORKER_SHUTDOWN_TIMEOUT).copied().filter(|timeout| !timeout.is_zero()),
        reloading: main.get(&RELOAD_CONNECTIONS).copied().unwrap_or(Reloading::Keep),
        working_directory: main.get(&WORKING_DIRECTORY).cloned(),
    })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.debugged = debugged_clients(view).map(Arc::new);
    Ok(())
}

fn parse_user(args: &Args<'_>, _: &mut Loading) -> Result<User, Diagnostic> {
    let text = |word: &Word| word.to_string();
    let group = args.words().get(1).map(text);
    Ok(User { name: text(args.word(0)?), group, span: args.node.span })
}

fn parse_threads(args: &Args<'_>, _: &mut Loading) -> Result<usize, Diagnostic> {
    let word = args.word(0)?;
    if word.is("auto") {
        return Ok(std::thread::available_parallelism().map_or(1, usize::from));
    }
    let number = value::number(word).ok().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| args.error("invalid value"))
}

fn parse_priority(args: &Args<'_>, _: &mut Loading) -> Result<i32, Diagnostic> {
    let word = args.word(0)?;
    let (sign, digits) = match &*word.text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let digits = Word { text: digits.into(), quoted: false, span: word.span };
    let number = value::number(&digits).ok().and_then(|number| i32::try_from(number).ok());
    number.map(|number| sign * number).ok_or_else(|| args.error("invalid number"))
}

fn parse_connections(args: &Args<'_>, _: &mut Loading) -> Result<u64, Diagnostic> {
    let word = args.word(0)?;
    let complain = |text: String| Diagnostic::emerg(text).at(args.node.span).under(word.span);
    match value::number(word) {
        Ok(0) => Err(complain("0 worker_connections are not enough for any listening socket".to_owned())),
        Ok(count) => Ok(count),
        Err(_) => Err(complain(format!("invalid number \"{word}\""))),
    }
}

fn parse_use(args: &Args<'_>, loading: &mut Loading) -> Result<(), Diagnostic> {
    let word = args.word(0)?;
    if let Some(refusal) = judge_parameter("use", word) {
        return loading.refuse(refusal.at(args.node.span).under(word.span));
    }
    if METHODS.iter().any(|method| word.is(method)) {
        return Ok(());
    }
    let message = format!("invalid event type \"{word}\"");
    Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
}

fn parse_load_module(args: &Args<'_>, loading: &mut Loading) -> Result<(), Diagnostic> {
    let word = args.word(0)?;
    let path = word.to_string();
    match module_of_file(&path) {
        Some(Loadable::Own(module) | Loadable::Foreign(module)) if is_built_in(module, loading) => Ok(()),
        Some(known) => {
            loading.note(known.diagnostic().at(args.node.span).under(word.span));
            Ok(())
        }
        None => {
            let message = format!("\"load_module\" has no effect (no module is known in \"{word}\")");
            let warning = Diagnostic::warn(message).at(args.node.span).under(word.span);
            loading.note(warning.hint("the directives of the module are errors where they stand"));
            Ok(())
        }
    }
}

/// Whether a module of nginx, or another known one, is one of the features.
fn is_built_in(module: &str, loading: &Loading) -> bool {
    let feature = ["http_", "ngx_"].iter().find_map(|start| module.strip_prefix(start)).unwrap_or(module);
    let feature = feature.strip_suffix("-nginx-module").unwrap_or(feature);
    let feature = feature.replace('-', "_");
    // The directives of cache_purge are those of each protocol.
    feature == "cache_purge" || loading.modules.iter().any(|own| own.name == feature)
}

#[cfg(test)]
mod tests {
    use super::{ProcessSettings, debugged_clients, settings};
    use crate::testing::main_level;
    use contract::{Config, Peer};
    use std::path::Path;
    use std::time::Duration;

    fn of(text: &str) -> ProcessSettings {
        let (config, _) = main_level(text).unwrap();
        settings(&config.view(contract::Config::MAIN), &mut Vec::new()).unwrap()
    }

    #[test]
    fn defaults() {
        let settings = of("events {}");
        assert!(settings.daemon && settings.master_process && settings.user.is_none());
        assert_eq!((settings.threads, settings.connections, settings.open_files), (1, 512, None));
        assert_eq!(settings.pid, Path::new("/run/fulmar.pid"));
    }

    #[test]
    fn everything_written() {
        let settings = of("user www adm; pid /run/x.pid; daemon off; master_process off; \
            worker_processes 3; worker_rlimit_nofile 99; worker_shutdown_timeout 2s; \
            worker_priority -5; worker_rlimit_core 2g; env A=b; env C; \
            events { worker_connections 7; }");
        let user = settings.user.unwrap();
        assert_eq!((user.name.as_str(), user.group.as_deref()), ("www", Some("adm")));
        assert_eq!(settings.pid, Path::new("/run/x.pid"));
        assert!(!settings.daemon && !settings.master_process);
        assert_eq!((settings.threads, settings.connections, settings.open_files), (3, 7, Some(99)));
        assert_eq!(settings.shutdown_timeout, Some(Duration::from_secs(2)));
        assert_eq!((settings.priority, settings.core_file), (Some(-5), Some(2 << 30)));
        assert_eq!(settings.env.len(), 2);
    }

    #[test]
    fn threads_by_number_or_by_processors() {
        assert!(of("worker_processes auto;").threads >= 1);
        assert_eq!(of("worker_processes 0;").threads, 1);
        let error = |text| main_level(text).map(|_| ()).unwrap_err();
        assert_eq!(error("worker_processes many;"), "\"worker_processes\" directive invalid value");
        assert_eq!(error("events { worker_connections x; }"), "invalid number \"x\"");
    }

    #[test]
    fn priorities_have_signs() {
        assert_eq!([of("worker_priority +7;").priority, of("worker_priority 0;").priority], [Some(7), None]);
        for text in ["worker_priority --1;", "worker_priority x;", "worker_priority 99999999999;"] {
            let error = main_level(text).map(|_| ()).unwrap_err();
            assert_eq!(error, "\"worker_priority\" directive invalid number", "{text}");
        }
    }

    #[test]
    fn masks_for_every_thread() {
        let (config, _) = main_level("worker_processes 3; worker_cpu_affinity 01 10;").unwrap();
        let mut notes = Vec::new();
        settings(&config.view(contract::Config::MAIN), &mut notes).unwrap();
        assert!(notes[0].message.contains("using last mask"), "{notes:?}");
    }

    #[test]
    fn ways_to_wait_for_events() {
        for method in ["epoll", "poll", "select"] {
            assert!(main_level(&format!("events {{ use {method}; }}")).unwrap().1.is_empty(), "{method}");
        }
        let error = |method| main_level(&format!("events {{ use {method}; }}")).map(|_| ()).unwrap_err();
        assert_eq!(error("magic"), "invalid event type \"magic\"");
        assert!(error("kqueue").contains("BSD"), "{}", error("kqueue"));
    }

    #[test]
    fn modules_to_load() {
        for file in [
            "acme",
            "geoip2",
            "headers_more_filter",
            "set_misc",
            "brotli_filter",
            "brotli_static",
            "zstd_filter",
            "zstd_static",
        ] {
            let text = format!("load_module /x/ngx_http_{file}_module.so;");
            assert!(main_level(&text).unwrap().1.is_empty(), "{file}");
        }
        let (_, notes) = main_level("load_module modules/ngx_http_geoip_module.so;").unwrap();
        assert!(notes[0].contains("has no effect"), "{notes:?}");
        let (_, notes) = main_level("load_module modules/ngx_of_nobody.so;").unwrap();
        assert!(notes[0].contains("no module is known in \"modules/ngx_of_nobody.so\""), "{notes:?}");
    }

    #[test]
    fn clients_by_network_name_and_socket() {
        let text = "events { debug_connection 10.0.0.0/8; debug_connection ::1; debug_connection unix:;
            debug_connection localhost; }";
        let (config, notes) = main_level(text).unwrap();
        let clients = debugged_clients(&config.view(Config::MAIN)).unwrap();
        let has = |text: &str| clients.has(&Peer::Inet(text.parse().unwrap()));
        assert!(has("10.9.9.9:1") && has("[::1]:1") && has("127.0.0.1:1") && clients.has(&Peer::Unix(None)));
        assert!(!has("11.0.0.1:1") && !has("[::2]:1") && notes.is_empty());
        let (config, _) = main_level("events { }").unwrap();
        assert!(debugged_clients(&config.view(Config::MAIN)).is_none());
    }

    #[test]
    fn what_is_no_client() {
        let none = main_level("events { worker_connections 0; }").err();
        assert_eq!(none.as_deref(), Some("0 worker_connections are not enough for any listening socket"));
        let (_, notes) = main_level("events { debug_connection 10.0.0.1/8; }").unwrap();
        assert_eq!(notes, ["low address bits of 10.0.0.1/8 are meaningless"]);
        let error = main_level("events { debug_connection no.such.host.invalid; }").map(|_| ()).unwrap_err();
        assert_eq!(error, "host not found in debug_connection \"no.such.host.invalid\"");
    }
}

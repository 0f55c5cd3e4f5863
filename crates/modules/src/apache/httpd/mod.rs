//! Reads the settings of a server in Apache's main configuration.
//!
//! A main file in Apache's language is given with `-c`, as one in nginx's. [httpd.conf](../httpd.md) says what is built, what
//! differs, and what is refused. The directives for the files of directories are those of
//! [.htaccess files](../htaccess.md).
//!
//! nginx: none
//!
//! ```conf
//! ServerRoot /etc/apache2
//! Listen 8080
//! Timeout 60
//! KeepAliveTimeout 5
//! <Directory />
//!     AllowOverride None
//!     Require all denied
//! </Directory>
//! <Directory /srv/www>
//!     Require all granted
//! </Directory>
//! <VirtualHost *:8080>
//!     ServerName shop.example.org
//!     DocumentRoot /srv/www/shop
//!     Alias /images/ /srv/images/
//! </VirtualHost>
//! ```

mod accepted;
mod log_format;
mod mapping;
mod redirects;

use crate::apache::mod_mime::is_program_type;
use conf::{Arity, Contexts, Diagnostic, Dialect, Node, Word, value};
use contract::{Args, Counted, Directive, Loading, Module, Root, Template};
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// The settings of servers.
pub static MODULE: Module = Module {
    name: "httpd",
    directives: &[
        &ACCESS_FILE_NAME,
        &mapping::ALIAS,
        &log_format::CUSTOM_LOG,
        &DOCUMENT_ROOT,
        &ERROR_LOG,
        &KEEP_ALIVE,
        &KEEP_ALIVE_TIMEOUT,
        &log_format::LOG_FORMAT,
        &LOG_LEVEL,
        &MAX_KEEP_ALIVE_REQUESTS,
        &PID_FILE,
        &redirects::REDIRECT,
        &redirects::REDIRECT_MATCH,
        &redirects::REDIRECT_PERMANENT,
        &redirects::REDIRECT_TEMP,
        &SERVER_TOKENS,
        &TIMEOUT,
        &TYPES_CONFIG,
        &USER,
        &accepted::MUTEX,
        &accepted::DEFAULT_RUNTIME_DIR,
        &accepted::SERVER_LIMIT,
        &accepted::START_SERVERS,
        &accepted::MIN_SPARE_THREADS,
        &accepted::MAX_SPARE_THREADS,
        &accepted::MIN_SPARE_SERVERS,
        &accepted::MAX_SPARE_SERVERS,
        &accepted::THREADS_PER_CHILD,
        &accepted::THREAD_LIMIT,
        &accepted::MAX_REQUEST_WORKERS,
        &accepted::MAX_CLIENTS,
        &accepted::MAX_CONNECTIONS_PER_CHILD,
        &accepted::MAX_REQUESTS_PER_CHILD,
        &accepted::ASYNC_REQUEST_WORKER_FACTOR,
        &accepted::EXTENDED_STATUS,
        &accepted::GRACEFUL_SHUTDOWN_TIMEOUT,
        &accepted::SCORE_BOARD_FILE,
        &accepted::SERVER_ADMIN,
        &accepted::USE_CANONICAL_NAME,
        &accepted::USE_CANONICAL_PHYSICAL_PORT,
        &accepted::HOSTNAME_LOOKUPS,
        &accepted::TRACE_ENABLE,
        &accepted::REQUEST_READ_TIMEOUT,
    ],
    variables: &[],
    compile: None,
};

/// What Apache does unless its configuration says otherwise, where nginx does something else.
pub const DEFAULTS: &str = "root htdocs; default_type ''; types { } access_log off; client_max_body_size 1g; \
    keepalive_timeout 5s; keepalive_requests 100;";

/// The same for each server.
pub const SERVER_DEFAULTS: &str = "htaccess on;";

/// Modules of Apache that have no directive for the files of directories.
const MODULES: [&str; 17] = [
    "http_core",
    "log_config",
    "logio",
    "macro",
    "mpm_event",
    "mpm_prefork",
    "mpm_worker",
    "php",
    "php5",
    "php7",
    "php8",
    "reqtimeout",
    "socache_shmcb",
    "status",
    "unixd",
    "version",
    "watchdog",
];

/// Whether directives of a module of Apache, which is named without `mod_`, are read in a main configuration.
pub fn is_built(name: &str) -> bool {
    MODULES.contains(&name) || super::apache_core::sections::is_honoured(name)
}

const SERVERS: Contexts = Contexts::VIRTUAL_HOST;

/// `AccessFileName NAME …`
static ACCESS_FILE_NAME: Directive<Arc<[Box<[u8]>]>> =
    Directive::new("AccessFileName", super::htaccess::parse_names)
        .within(SERVERS)
        .args(Arity::AtLeast(1))
        .slot(crate::shared::per_directory::slot::NAMES)
        .default(".htaccess")
        .help("The names of files with settings. In each directory the first file that exists counts.");

/// `DocumentRoot DIRECTORY`
static DOCUMENT_ROOT: Directive<Root> = Directive::new("DocumentRoot", |args, loading| {
    let path = directory(&args.word(0)?.text, loading);
    let text = path.strip_suffix(b"/").filter(|shorter| !shorter.is_empty()).unwrap_or(&path);
    Ok(Root { path: Template::literal(text), alias: None, prefix: loading.prefix.clone() })
})
.within(SERVERS)
.slot("root")
.help("The directory to which the path of a URI is appended.");

/// `ErrorLog FILE`
static ERROR_LOG: Directive<Counted> = expands(
    Directive::new("ErrorLog", |args, loading| {
        let path = log_path(args, loading, args.word(0)?)?;
        lines([line(args, "error_log", &[&path, b"warn"])])
    }),
    Arity::Exactly(1),
)
.within(Contexts::ALL_HTTPD)
.help("A file with warnings and errors.");

/// `KeepAlive On | Off`
static KEEP_ALIVE: Directive<()> = Directive::new("KeepAlive", |args, loading| {
    if !args.value(0, value::flag)? {
        let message = "\"KeepAlive Off\" is not built: connections are kept";
        let note = Diagnostic::warn(message).at(args.node.span);
        loading.note(note.hint("write KeepAliveTimeout 1 to keep them for a second"));
    }
    Ok(())
})
.within(SERVERS)
.args(Arity::Flag)
.help("Has no effect: connections are always kept for the next request.");

/// `KeepAliveTimeout SECONDS | MILLISECONDSms`
static KEEP_ALIVE_TIMEOUT: Directive<Counted> = expands(
    Directive::new("KeepAliveTimeout", |args, _| lines([line(args, "keepalive_timeout", &[&time(args)?])])),
    Arity::Exactly(1),
)
.within(SERVERS)
.help("How long a connection without a request is kept.");

/// `LogLevel [MODULE:]LEVEL …`
static LOG_LEVEL: Directive<()> = Directive::new("LogLevel", |args, loading| {
    if !(args.words().len() == 1 && args.word(0)?.text.eq_ignore_ascii_case(b"warn")) {
        let message = "only \"LogLevel warn\" is built: error logs have warnings and errors";
        loading.note(Diagnostic::warn(message).at(args.node.span));
    }
    Ok(())
})
.within(SERVERS)
.args(Arity::AtLeast(1))
.help("Has no effect: error logs have warnings and errors.");

/// `MaxKeepAliveRequests NUMBER`
static MAX_KEEP_ALIVE_REQUESTS: Directive<Counted> = expands(
    Directive::new("MaxKeepAliveRequests", |args, _| {
        let number = args.value(0, value::number)?;
        // 0 is no limit.
        let number = if number == 0 { u64::from(u32::MAX) } else { number };
        lines([line(args, "keepalive_requests", &[number.to_string().as_bytes()])])
    }),
    Arity::Exactly(1),
)
.within(SERVERS)
.help("How many requests a connection may carry.");

/// `PidFile FILE`
static PID_FILE: Directive<Counted> = expands(
    Directive::new("PidFile", |args, loading| {
        let path = loading.path(&args.word(0)?.text);
        lines([line(args, "pid", &[path.as_os_str().as_bytes()])])
    }),
    Arity::Exactly(1),
)
.within(Contexts::HTTPD)
.help("The file with the process id of the supervisor.");

/// `ServerTokens Full | OS | Minimal | Minor | Major | Prod`
static SERVER_TOKENS: Directive<Counted> = expands(
    Directive::new("ServerTokens", |args, _| {
        let word = args.word(0)?.text.to_ascii_lowercase();
        let shows: &[u8] = if word.starts_with(b"prod") { b"off" } else { b"on" };
        lines([line(args, "server_tokens", &[shows])])
    }),
    Arity::Exactly(1),
)
.within(SERVERS)
.help("Whether the header `Server` shows the version: not with `Prod`.");

/// `Timeout SECONDS`
static TIMEOUT: Directive<Counted> = expands(
    Directive::new("Timeout", |args, _| {
        let time = time(args)?;
        let names = ["client_header_timeout", "client_body_timeout", "send_timeout"];
        lines(names.map(|name| line(args, name, &[&time])))
    }),
    Arity::Exactly(1),
)
.within(SERVERS)
.help("How long Fulmar waits for a client, while it reads and while it writes.");

/// `TypesConfig FILE`
static TYPES_CONFIG: Directive<Counted> = expands(
    Directive::new("TypesConfig", |args, loading| {
        let path = loading.path(&args.word(0)?.text);
        let text = loading.origin.inputs.read(&path).map_err(|error| {
            args.error(&format!("cannot read \"{}\" ({error})", path.display())).under(args.node.args[0].span)
        })?;
        let types = types(args, &text);
        if let Some(program) = types.iter().find(|node| is_program_type(&node.name.text)) {
            let message = format!("the type \"{}\" in \"{}\" names programs", program.name, path.display());
            let hint = "remove the line from the file of types";
            return Err(args.error(&message).under(args.node.args[0].span).hint(hint));
        }
        lines([Node { block: Some(types), ..line(args, "types", &[]) }])
    }),
    Arity::Exactly(1),
)
.within(SERVERS)
.help("A file with the media types of file name extensions.");

/// `User NAME`
static USER: Directive<Counted> = expands(
    Directive::new("User", |args, _| lines([line(args, "user", &[&args.word(0)?.text])])),
    Arity::Exactly(1),
)
.within(Contexts::HTTPD)
.help("The user that the worker runs as.");

/// The whole path that a text means, as Apache makes it: sections for directories compare with it. `..` takes a segment away,
/// whatever is there on the disk. A slash at the end stays.
fn directory(text: &[u8], loading: &Loading) -> Vec<u8> {
    let whole = value::full_name(text, &loading.prefix).into_os_string().into_vec();
    let mut path = Vec::with_capacity(whole.len());
    for segment in whole.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => path.truncate(path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            _ => {
                path.push(b'/');
                path.extend_from_slice(segment);
            }
        }
    }
    if path.is_empty() || text.ends_with(b"/") {
        path.push(b'/');
    }
    path
}

/// A directive that stands for lines in nginx's language.
const fn expands(directive: Directive<Counted>, arity: Arity) -> Directive<Counted> {
    directive.splices(arity).args(arity)
}

fn lines(nodes: impl Into<Vec<Node>>) -> Result<Counted, Diagnostic> {
    Ok(Counted::Only(nodes.into()))
}

/// A line in nginx's language, at the place of an Apache directive.
fn line(args: &Args<'_>, name: &str, words: &[&[u8]]) -> Node {
    let node = args.node;
    let word = |text: &&[u8]| Word { text: (*text).into(), quoted: true, span: node.span };
    Node {
        name: Word::new(name, node.name.span),
        args: words.iter().map(word).collect(),
        block: None,
        span: node.span,
        end_line: node.end_line,
        dialect: Dialect::Nginx,
    }
}

/// A time in seconds, or in milliseconds with `ms`, as nginx writes it.
fn time(args: &Args<'_>) -> Result<Vec<u8>, Diagnostic> {
    let word = args.word(0)?;
    let text = word.to_string();
    let digits = text.strip_suffix("ms").or_else(|| text.strip_suffix('s')).unwrap_or(&text);
    match digits.parse::<u32>() {
        Ok(_) if text.ends_with("ms") => Ok(text.into_bytes()),
        Ok(number) => Ok(format!("{number}s").into_bytes()),
        Err(_) => Err(args.invalid(word).hint("write a number of seconds")),
    }
}

/// The path of a log. A program or a service that takes the lines is not built.
fn log_path(args: &Args<'_>, loading: &mut Loading, word: &Word) -> Result<Vec<u8>, Diagnostic> {
    let is_other = word.text.starts_with(b"|") || word.text.starts_with(b"syslog");
    if is_other || word.text.contains(&b'$') {
        let message = format!("\"{word}\" as a log is not built");
        let refusal = Diagnostic::emerg(message).at(args.node.span).under(word.span);
        loading.refuse(refusal.hint("write the path of a file; logrotate(8) can rotate it"))?;
    }
    Ok(loading.path(&word.text).as_os_str().as_bytes().to_vec())
}

/// The lines of `types { … }` for a file with `TYPE EXTENSION …` in each line. As in Apache, the last type of an extension
/// counts.
fn types(args: &Args<'_>, text: &[u8]) -> Vec<Node> {
    let mut types: BTreeMap<Vec<u8>, &str> = BTreeMap::new();
    for text in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let name = words.next().and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name.filter(|name| !name.starts_with('#')) else { continue };
        types.extend(words.map(|extension| (extension.to_ascii_lowercase(), name)));
    }
    types.iter().map(|(extension, name)| line(args, name, &[extension])).collect()
}

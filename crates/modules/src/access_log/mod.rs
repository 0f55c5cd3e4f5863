//! A line for each request: `access_log` and `log_format`.
//!
//! `access_log` names a file, relative to the prefix (`-p`), and a format; a level may have several
//! logs, and its own hide those from outside. `off` logs nothing. With `if=CONDITION` a request is
//! logged unless the condition is empty or `0`. Devices such as `/dev/stdout` are files too, and the
//! name `stderr` is standard error. Without any directive requests are logged to
//! `/var/log/fulmar/access.log` in the format `combined`:
//!
//! ```text
//! $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
//! ```
//!
//! `log_format` defines other formats. A variable without a value is `-`. Quotes, backslashes and
//! whatever is not printable ASCII are written as `\xHH`; with `escape=json` they are escaped as in
//! JSON strings, with `escape=none` not at all, and then a missing value is nothing.
//!
//! The name of the file may have variables; then it is opened for each line, and a name that climbs by
//! `..` is not written to. A line is written at once, so `buffer=` and `flush=` are checked and change
//! nothing. Compressed logs (`gzip`) and logs to `syslog:` are refused.
//!
//! ```conf
//! log_format timed escape=json '{"request":"$request","status":$status,"time":$request_time}';
//! server {
//!     listen 8080;
//!     access_log logs/access.log;
//!     access_log logs/timed.log timed if=$arg_log;
//!     location /quiet {
//!         access_log off;
//!     }
//! }
//! ```

mod line;

use conf::catalogue::judge_parameter;
use conf::{Arity, Contexts, Diagnostic, Word, value};
use contract::log::{Level, LogFile};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Phase, Rule, ScopeBuilder, Step, Template, View,
    Written,
};
use line::{Escape, Line};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A line for each request.
pub static MODULE: Module = Module {
    name: "access_log",
    directives: &[&LOG_FORMAT, &ACCESS_LOG],
    variables: &[],
    compile: Some(compile),
};

/// `log_format NAME [escape=default|json|none] TEXT …`
pub static LOG_FORMAT: Directive<Format> = Directive::new("log_format", parse_format)
    .within(Contexts::HTTP)
    .args(Arity::AtLeast(2))
    .rule(Rule::List)
    .help("A format of the access log.");

/// `access_log FILE [FORMAT] [if=CONDITION]`, `access_log off`
pub static ACCESS_LOG: Directive<Target> = Directive::new("access_log", parse_target)
    .within(
        Contexts::HTTP
            .or(Contexts::SERVER)
            .or(Contexts::LOCATION)
            .or(Contexts::LOCATION_IF)
            .or(Contexts::LIMIT_EXCEPT),
    )
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("/var/log/fulmar/access.log combined")
    .help("A log of requests, or `off`.");

/// A format by its name.
pub struct Format {
    name: Box<[u8]>,
    line: Arc<Line>,
}

/// What one use of `access_log` asks for.
pub enum Target {
    /// No log at all.
    Off,
    /// A log.
    To {
        /// Where it is.
        place: Place,
        /// The name of its format.
        format: Word,
        /// What has to hold.
        condition: Option<Template>,
    },
}

/// Where a log is.
#[derive(Clone)]
pub enum Place {
    /// A file that stays open.
    File(Arc<LogFile>),
    /// A file whose name depends on the request; it is opened for each line.
    Computed {
        /// The name.
        name: Template,
        /// Where relative names start.
        prefix: PathBuf,
    },
}

const COMBINED: &[u8] = b"combined";

fn parse_format(args: &Args<'_>, loading: &mut Loading) -> Result<Format, Diagnostic> {
    let (name, words) = (args.word(0)?, &args.words()[1..]);
    let (escape, words) = match words {
        [first, rest @ ..] if first.text.starts_with(b"escape=") => {
            let escape = match &first.text[b"escape=".len()..] {
                b"default" => Escape::Default,
                b"json" => Escape::Json,
                b"none" => Escape::None,
                other => {
                    let other = String::from_utf8_lossy(other);
                    let message = format!("unknown log format escaping \"{other}\"");
                    return Err(Diagnostic::emerg(message).at(args.node.span).under(first.span));
                }
            };
            (escape, rest)
        }
        _ => (Escape::Default, words),
    };
    // Each word is a text of its own: a name at its end does not go on in the next one.
    let parts = words.iter().map(|word| loading.template(word)).collect::<Result<_, _>>()?;
    Ok(Format { name: name.text.clone(), line: Arc::new(Line::Custom { parts, escape }) })
}

fn parse_target(args: &Args<'_>, loading: &mut Loading) -> Result<Target, Diagnostic> {
    let place = args.word(0)?;
    if place.is("off") {
        return match args.words().get(1) {
            None => Ok(Target::Off),
            Some(word) => Err(args.invalid(word)),
        };
    }
    if place.text.starts_with(b"syslog:") {
        let message = "\"access_log\" to syslog is not built yet";
        let error = Diagnostic::emerg(message).at(args.node.span).under(place.span);
        return Err(error.hint("log to a file"));
    }
    let place_of = match &*place.text {
        b"stderr" => Place::File(Arc::new(LogFile::stderr())),
        text if text.contains(&b'$') => {
            Place::Computed { name: loading.template(place)?, prefix: loading.prefix.clone() }
        }
        path => Place::File(loading.logs.file(&loading.path(path))),
    };
    let format = args.words().get(1).cloned().unwrap_or_else(|| Word::new("combined", place.span));
    let (condition, buffered) = parse_parameters(args, loading)?;
    if buffered && matches!(place_of, Place::Computed { .. }) {
        let message = "buffered logs cannot have variables in name";
        return Err(Diagnostic::emerg(message).at(args.node.span).under(place.span));
    }
    Ok(Target::To { place: place_of, format, condition })
}

/// The condition among the parameters behind the format, and whether there is a buffer.
fn parse_parameters(args: &Args<'_>, loading: &mut Loading) -> Result<(Option<Template>, bool), Diagnostic> {
    let mut condition = None;
    let (mut buffer, mut flush) = (None, None);
    for word in args.words().iter().skip(2) {
        let wrong = |what: &str, value: &Word| {
            Diagnostic::emerg(format!("invalid {what} \"{value}\"")).at(args.node.span).under(word.span)
        };
        let rest = |start: &str| {
            let text = word.text.strip_prefix(start.as_bytes())?;
            Some(Word { text: text.into(), ..word.clone() })
        };
        if let Some(text) = rest("buffer=") {
            let size = value::size(&text).ok().filter(|&size| size > 0);
            buffer = Some(size.ok_or_else(|| wrong("buffer size", &text))?);
        } else if let Some(text) = rest("flush=") {
            let time = value::time_ms(&text).ok().filter(|&time| time > 0);
            flush = Some(time.ok_or_else(|| wrong("flush time", &text))?);
        } else if let Some(text) = rest("if=") {
            condition = Some(loading.template(&text)?);
        } else if word.is("gzip") || word.text.starts_with(b"gzip=") {
            let message = "\"access_log\" with \"gzip\" is not built yet";
            let error = Diagnostic::emerg(message).at(args.node.span).under(word.span);
            return Err(error.hint("compress the log when it is rotated"));
        } else {
            return Err(judge_parameter("access_log", word).unwrap_or_else(|| args.invalid(word)));
        }
    }
    if flush.is_some() && buffer.is_none() {
        let message = format!("no buffer is defined for access_log \"{}\"", args.word(0)?);
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    Ok((condition, buffer.is_some()))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let formats = view.all(&LOG_FORMAT);
    let logs = logs_of(view, &formats)?;
    // Outside of servers there are no requests, and so no default log.
    if view.context().intersects(Contexts::MAIN.or(Contexts::HTTP)) {
        return check_names(&formats);
    }
    let logs = match logs {
        None => return Ok(()),
        Some(logs) if logs.is_empty() => {
            let file = builder.logs.file(&builder.logs.default_access_log);
            vec![Log { place: Place::File(file), line: Arc::new(Line::Combined), condition: None }]
        }
        Some(logs) => logs,
    };
    builder.handle(Phase::Log, AccessLog { logs });
    Ok(())
}

fn check_names(formats: &[Written<'_, Format>]) -> Result<(), Diagnostic> {
    for (index, format) in formats.iter().enumerate() {
        let name = &format.value.name;
        let earlier = formats[..index].iter().any(|earlier| earlier.value.name == *name);
        if earlier || **name == *COMBINED {
            let name = String::from_utf8_lossy(name);
            let message = format!("duplicate \"log_format\" name \"{name}\"");
            return Err(Diagnostic::emerg(message).at(format.span));
        }
    }
    Ok(())
}

/// The logs that a scope names; `None` where it wants none.
fn logs_of(view: &View<'_>, formats: &[Written<'_, Format>]) -> Result<Option<Vec<Log>>, Diagnostic> {
    let targets = view.all(&ACCESS_LOG);
    if targets.iter().any(|target| matches!(target.value, Target::Off)) {
        return Ok(None);
    }
    let mut logs = Vec::new();
    for target in &targets {
        let Target::To { place, format, condition } = target.value else { continue };
        let named = formats.iter().find(|known| known.value.name.eq_ignore_ascii_case(&format.text));
        let line = match named {
            Some(known) => Arc::clone(&known.value.line),
            None if format.text.eq_ignore_ascii_case(COMBINED) => Arc::new(Line::Combined),
            None => {
                let message = format!("unknown log format \"{format}\"");
                return Err(Diagnostic::emerg(message).at(target.span).under(format.span));
            }
        };
        logs.push(Log { place: place.clone(), line, condition: condition.clone() });
    }
    Ok(Some(logs))
}

/// The logs of a scope.
struct AccessLog {
    logs: Vec<Log>,
}

struct Log {
    place: Place,
    line: Arc<Line>,
    condition: Option<Template>,
}

thread_local! {
    /// The line that is being made, kept so that most lines allocate nothing.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Handler for AccessLog {
    fn run(&self, exchange: &mut Exchange) -> Step {
        for log in &self.logs {
            let holds = |condition: &Template| !matches!(&condition.evaluate(exchange)[..], b"" | b"0");
            if log.condition.as_ref().is_none_or(holds) {
                LINE.with_borrow_mut(|line| {
                    line.clear();
                    log.line.write(exchange, line);
                    line.push(b'\n');
                    log.place.append(exchange, line);
                });
            }
        }
        Step::Next
    }
}

impl Place {
    fn append(&self, exchange: &Exchange, line: &[u8]) {
        match self {
            Place::File(file) => {
                if let Some(complaint) = file.append(line) {
                    exchange.log(Level::Alert, &complaint);
                }
            }
            Place::Computed { name, prefix } => {
                let name = name.evaluate(exchange);
                if let Err(error) = append_to(&name, prefix, line) {
                    let name = String::from_utf8_lossy(&name);
                    exchange.log(Level::Crit, &format!("open() \"{name}\" failed ({error})"));
                }
            }
        }
    }
}

/// Appends a line to a file that is opened for it. A client that can choose a part of the name cannot
/// climb out of the directory.
fn append_to(name: &[u8], prefix: &Path, line: &[u8]) -> io::Result<()> {
    let path = prefix.join(OsStr::from_bytes(name));
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let file = LogFile::at(&path);
    file.open()?;
    drop(file.write(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Exchange, Phase};

    /// What is in this log below the prefix after the request was logged.
    fn logged(site: &Site, exchange: &mut Exchange, name: &str) -> String {
        site.open_logs();
        site.run(Phase::Log, exchange);
        std::fs::read_to_string(site.root().join(name)).unwrap()
    }

    #[test]
    fn combined_byte_for_byte() {
        let site = Site::location("access_log a.log;");
        let mut exchange = site.get("/x\"?y");
        exchange.request.head.fields.push(b"User-Agent", b"a\\b\xc3").unwrap();
        exchange.wire.bytes = 120;
        exchange.wire.head_bytes = 100;
        let line = logged(&site, &mut exchange, "a.log");
        let (start, rest) = line.split_once(" [").unwrap();
        let (_time, rest) = rest.split_once("] ").unwrap();
        assert_eq!(start, "127.0.0.1 - -");
        assert_eq!(rest, "\"GET /x\\x22?y HTTP/1.1\" 200 20 \"-\" \"a\\x5Cb\\xC3\"\n");
    }

    #[test]
    fn formats_and_missing_values() {
        let site = Site::location(
            "log_format a '$arg_x|' '$arg_y'; log_format j escape=json '$arg_x|$arg_y'; \
             log_format n escape=none '$arg_x|$arg_y'; \
             access_log a.log A; access_log j.log j; access_log n.log n;",
        );
        assert_eq!(logged(&site, &mut site.get("/?x=\""), "a.log"), "\\x22|-\n");
        assert_eq!(logged(&site, &mut site.get("/?x=\""), "j.log"), "\\\"|\n\\\"|\n");
        assert_eq!(logged(&site, &mut site.get("/?x=\""), "n.log"), "\"|\n\"|\n\"|\n");
    }

    #[test]
    fn a_condition_decides() {
        let site = Site::location("access_log c.log combined if=$arg_log;");
        assert_eq!(logged(&site, &mut site.get("/?log=0"), "c.log"), "");
        assert_eq!(logged(&site, &mut site.get("/"), "c.log"), "");
        assert_eq!(logged(&site, &mut site.get("/?log=1"), "c.log").lines().count(), 1);
    }

    #[test]
    fn a_name_for_each_request_stays_below_its_directory() {
        let site = Site::location("error_log stderr emerg; access_log in/$arg_n.log combined;");
        std::fs::create_dir(site.root().join("in")).unwrap();
        assert_eq!(logged(&site, &mut site.get("/?n=a"), "in/a.log").lines().count(), 1);
        site.run(Phase::Log, &mut site.get("/?n=../b"));
        assert!(!site.root().join("b.log").exists());
    }

    #[test]
    fn a_variable_ends_with_its_word() {
        let site = Site::location("log_format a b$uri 'c'; access_log a.log a;");
        assert_eq!(logged(&site, &mut site.get("/x"), "a.log"), "b/xc\n");
    }

    #[test]
    fn off_is_no_handler() {
        let off = Site::location("access_log off;").get("/");
        assert!(off.scope.handlers(Phase::Log).is_empty());
        let default = Site::location("").get("/");
        assert_eq!(default.scope.handlers(Phase::Log).len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("access_log off x;", "invalid parameter \"x\""),
            ("access_log x y;", "unknown log format \"y\""),
            ("access_log x combined flush=1s;", "no buffer is defined for access_log \"x\""),
            ("access_log x combined buffer=0;", "invalid buffer size \"0\""),
            ("access_log x combined buffer=1k flush=x;", "invalid flush time \"x\""),
            ("access_log x combined gzip=3;", "\"access_log\" with \"gzip\" is not built yet"),
            ("access_log $uri combined buffer=1k;", "buffered logs cannot have variables in name"),
            ("access_log syslog:server=x;", "\"access_log\" to syslog is not built yet"),
            ("log_format combined x; access_log x;", "duplicate \"log_format\" name \"combined\""),
            ("log_format a escape=x y; access_log off;", "unknown log format escaping \"x\""),
        ] {
            assert_eq!(Site::error(text), message, "{text}");
        }
    }
}

//! Logs requests: `access_log`, `log_format`, `open_log_file_cache` and `log_subrequest`.
//!
//! `access_log` names a file, relative to the prefix (`-p`), and a format. A level may have several logs; they
//! replace those of outer levels. `off` logs nothing. With `if=CONDITION` a request is logged unless the condition is
//! empty or `0`. Devices such as `/dev/stdout` work as files; `stderr` is the standard error stream. Without any
//! directive, requests are logged to `/var/log/fulmar/access.log`, or to the standard error stream if that file
//! cannot be opened, in the format `combined`:
//!
//! ```text
//! $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
//! ```
//!
//! `log_format` defines other formats. A variable without a value is `-`. Quotes, backslashes and all characters that
//! are not printable ASCII are written as `\xHH`. With `escape=json` they are escaped as in JSON strings,
//! and bytes that are not UTF-8 become U+FFFD, so that each line stays JSON. With
//! `escape=none` they are not escaped, and a missing value is empty.
//!
//! The format `json` is predefined (Fulmar only). Each line is an object with `time`, which has milliseconds, and the
//! variables `remote_addr`, `remote_user`, `host`, `request_method`, `request_uri`, `server_protocol`, `status`,
//! `bytes_sent`, `body_bytes_sent`, `request_length`, `request_time`, `http_referer`, `http_user_agent`,
//! `ssl_protocol`, `connection`, `connection_requests`, `upstream_addr`, `upstream_status` and
//! `upstream_response_time`; and, if the request could not be parsed, `request` with its first line. Numbers are JSON numbers. Missing values are
//! left out. A `log_format` with the name `json` replaces it.
//!
//! With `buffer=SIZE` each thread collects lines, and writes them when they have this size, when the first line has
//! waited for `flush=TIME`, when logs are reopened, and when the server is reloaded or stops. With `gzip` or
//! `gzip=LEVEL` (1, the fastest, to 9) each write is compressed, and `zcat` reads the file; without `buffer=`, 64 KB
//! are collected then. Each thread has one buffer for each file; all directives for that file share it.
//!
//! With `lines_per_second=NUMBER` (Fulmar only) the file gets at most that many lines in a second, and then a line
//! with the number of the others (`… and 1,234 more requests this second`). It is meant for terminals; `fulmar serve`
//! and `make serve` use it. If several directives name one file, the limit applies to all their lines together.
//!
//! `syslog:server=ADDRESS` sends each line to a syslog server in the form of RFC 3164, by UDP (port 514 by default)
//! or to a Unix socket (`unix:/dev/log`). Further parameters follow after commas: `facility=` (default `local7`),
//! `severity=` (`info`), `tag=` (`nginx`, so that filters for nginx's messages work) and `nohostname`.
//!
//! The name of the file may contain variables. Then the worker's user opens the file for each line. As in
//! nginx, such a file gets no lines while the document root does not exist. `open_log_file_cache` keeps up to `max` of these files open if they are used `min_uses` times within
//! the `inactive` time, and checks after the `valid` time whether their paths still exist. If the
//! name with its values contains `..`, the line is lost.
//!
//! With `log_subrequest on`, subrequests, such as those of `auth_request`, have their own lines before the line of
//! the main request.
//!
//! A log that cannot be written does not delay requests: its lines are lost, the error log says so once a minute, and
//! a full device is tried again after a second. A named pipe that nobody reads takes lines until it is full; further
//! lines are lost.
//!
//! ```conf
//! log_format timed escape=json '{"request":"$request","status":$status,"time":$request_time}';
//! server {
//!     listen 8080;
//!     access_log logs/access.log combined buffer=32k flush=5s;
//!     access_log logs/timed.log timed if=$arg_log;
//!     access_log logs/access.json.gz json gzip flush=1m;
//!     location /quiet {
//!         access_log off;
//!     }
//! }
//! ```

mod cache;
mod json;
mod line;
mod place;
mod target;

pub use cache::OpenLogs;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Phase, Rule, ScopeBuilder, Step, Template, View,
    Written,
};
use journal::LogFiles;
pub use line::{Escape, Line};
use place::Output;
pub use place::{Named, Place};
use std::cell::RefCell;
use std::sync::Arc;
pub use target::Target;

/// A line for each request.
pub static MODULE: Module = Module {
    name: "access_log",
    directives: &[&LOG_FORMAT, &ACCESS_LOG, &OPEN_LOG_FILE_CACHE, &LOG_SUBREQUEST],
    variables: &[],
    compile: Some(compile),
};

/// `log_format NAME [escape=default|json|none] TEXT …`
pub static LOG_FORMAT: Directive<Format> = Directive::new("log_format", parse_format)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .args(Arity::AtLeast(2))
    .rule(Rule::List)
    .help("A format of the access log.");

/// `access_log FILE [FORMAT [buffer=SIZE] [gzip[=LEVEL]] [flush=TIME] [lines_per_second=NUMBER] [if=CONDITION]]`,
/// `access_log off`
pub static ACCESS_LOG: Directive<Target> = Directive::new("access_log", target::parse)
    .within(
        Contexts::HTTP
            .or(Contexts::SERVER)
            .or(Contexts::LOCATION)
            .or(Contexts::LOCATION_IF)
            .or(Contexts::LIMIT_EXCEPT)
            .or(Contexts::ALL_STREAM),
    )
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("/var/log/fulmar/access.log combined")
    .help("A log of requests, or `off`.");

/// `open_log_file_cache off | max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]`
pub static OPEN_LOG_FILE_CACHE: Directive<Option<Arc<OpenLogs>>> =
    Directive::new("open_log_file_cache", cache::parse)
        .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
        .args(Arity::Range(1, 4))
        .default("off")
        .help("How many logs are kept open whose names depend on requests, and for how long.");

/// `log_subrequest on|off`
pub static LOG_SUBREQUEST: Directive<bool> = Directive::flag("log_subrequest")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("off")
    .help("Whether subrequests are logged, too.");

/// A format by its name.
pub struct Format {
    name: Box<[u8]>,
    line: Arc<Line>,
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
    // Each word is a separate text: a name at its end does not go on in the next one.
    let parts = words.iter().map(|word| loading.template(word)).collect::<Result<_, _>>()?;
    Ok(Format { name: name.text.clone(), line: Arc::new(Line::Custom { parts, escape }) })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(&on) = view.get(&LOG_SUBREQUEST) {
        builder.policy.log_subrequest = on;
    }
    let formats = view.all(&LOG_FORMAT);
    let logs = logs_of(view, &formats, &builder.logs)?;
    // Outside of servers there are no requests, and so no default log.
    if view.context().intersects(Contexts::MAIN.or(Contexts::HTTP).or(Contexts::STREAM)) {
        // `stream` has no ready format.
        let ready: &[u8] = if view.context().intersects(Contexts::STREAM) { b"" } else { COMBINED };
        return check_names(&formats, ready);
    }
    let logs = match logs {
        None => return Ok(()),
        // `stream` has no default log.
        Some(logs) if logs.is_empty() && view.context() == Contexts::STREAM_SERVER => return Ok(()),
        Some(logs) if logs.is_empty() => {
            let file = builder.logs.default_access_file();
            vec![Log { output: Output::File(file), line: Arc::new(Line::Combined), condition: None }]
        }
        Some(logs) => logs,
    };
    builder.handle(Phase::Log, AccessLog { logs });
    Ok(())
}

fn check_names(formats: &[Written<'_, Format>], ready: &[u8]) -> Result<(), Diagnostic> {
    for (index, format) in formats.iter().enumerate() {
        let name = &format.value.name;
        let earlier = formats[..index].iter().any(|earlier| earlier.value.name == *name);
        if earlier || **name == *ready {
            let name = String::from_utf8_lossy(name);
            let message = format!("duplicate \"log_format\" name \"{name}\"");
            return Err(Diagnostic::emerg(message).at(format.span));
        }
    }
    Ok(())
}

/// The logs that a scope names; `None` where it wants none.
fn logs_of(
    view: &View<'_>,
    formats: &[Written<'_, Format>],
    files: &LogFiles,
) -> Result<Option<Vec<Log>>, Diagnostic> {
    let targets = view.all(&ACCESS_LOG);
    if targets.iter().any(|target| matches!(target.value, Target::Off)) {
        return Ok(None);
    }
    let mut logs = Vec::new();
    for target in &targets {
        let Target::To { place, format, ready, condition } = target.value else { continue };
        let named = formats.iter().find(|known| known.value.name.eq_ignore_ascii_case(&format.text));
        let Some(line) = named.map(|known| &known.value.line).or(ready.as_ref()) else {
            let message = format!("unknown log format \"{format}\"");
            return Err(Diagnostic::emerg(message).at(target.span).under(format.span));
        };
        let line = Arc::clone(line);
        let output = Output::new(place, view, files);
        logs.push(Log { output, line, condition: condition.clone() });
    }
    Ok(Some(logs))
}

/// The logs of a scope.
struct AccessLog {
    logs: Vec<Log>,
}

struct Log {
    output: Output,
    line: Arc<Line>,
    condition: Option<Template>,
}

thread_local! {
    /// The line that is being made, kept so that most lines allocate nothing.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Handler for AccessLog {
    fn run(&self, exchange: &mut Exchange) -> Step {
        LINE.with_borrow_mut(|line| {
            for log in &self.logs {
                if log.is_wanted(exchange, line) {
                    line.clear();
                    log.line.write(exchange, line);
                    line.push(b'\n');
                    log.output.write(exchange, line);
                }
            }
        });
        Step::Next
    }
}

impl Log {
    fn is_wanted(&self, exchange: &Exchange, scratch: &mut Vec<u8>) -> bool {
        let Some(condition) = &self.condition else { return true };
        scratch.clear();
        condition.write(exchange, scratch);
        !matches!(&scratch[..], b"" | b"0")
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Exchange, Phase};
    use std::io::Read;

    /// What is in this log below the prefix after the request was logged.
    fn logged(site: &Site, exchange: &mut Exchange, name: &str) -> String {
        site.open_logs();
        exchange.wire.answered = true;
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
    fn a_sample_has_so_many_lines() {
        let site = Site::location("log_format s 'line'; access_log s.log s lines_per_second=2;");
        site.open_logs();
        for _ in 0..1502 {
            let mut exchange = site.get("/");
            exchange.wire.answered = true;
            site.run(Phase::Log, &mut exchange);
        }
        site.flush_logs();
        let text = std::fs::read_to_string(site.root().join("s.log")).unwrap();
        let number = |line: &str| line.split(' ').nth(2)?.replace(',', "").parse::<usize>().ok();
        let (lines, counts): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| *line == "line");
        assert_eq!(
            lines.len() + counts.iter().filter_map(|line| number(line)).sum::<usize>(),
            1502,
            "{text}"
        );
        assert!(lines.len() < 150 && counts[0].ends_with(" more requests this second"), "{text}");
        for (conf, message) in [
            ("access_log a.log s lines_per_second=0;", "invalid number of lines \"0\""),
            (
                "access_log $uri s lines_per_second=9;",
                "logs with variables in name cannot have \"lines_per_second\"",
            ),
            (
                "access_log a.log s lines_per_second=8; access_log a.log s lines_per_second=9;",
                "already defined with conflicting parameters",
            ),
        ] {
            let error = Site::error(&format!("log_format s 'x'; {conf}"));
            assert!(error.contains(message), "{conf}: {error}");
        }
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
    fn a_line_in_json() {
        let site = Site::location("access_log a.log json;");
        let mut exchange = site.get("/x");
        exchange.request.head.fields.push(b"User-Agent", b"a\"\xff").unwrap();
        exchange.wire.bytes = 120;
        let line = logged(&site, &mut exchange, "a.log");
        let (start, rest) = line.split_at("{\"time\":\"2026-11-21T20:05:56.123+00:00\"".len());
        assert!(start.starts_with("{\"time\":\"20"), "{line}");
        let (middle, rest) = rest.split_once(",\"request_time\":").unwrap();
        let expected = r#","remote_addr":"127.0.0.1","host":"localhost","request_method":"GET","request_uri":"/x",
            "server_protocol":"HTTP/1.1","status":200,"bytes_sent":120,"body_bytes_sent":120,"request_length":0"#;
        assert_eq!(middle, expected.replace("\n            ", ""));
        assert!(rest.ends_with(
            ",\"http_user_agent\":\"a\\\"\u{fffd}\",\"connection\":1,\"connection_requests\":1}\n"
        ));
        let own = Site::location("log_format json 'own $status'; access_log a.log json;");
        assert_eq!(logged(&own, &mut own.get("/"), "a.log"), "own 200\n");
    }

    #[test]
    fn gathered_lines_are_written_together() {
        let site = Site::location("log_format u $uri; access_log a.log u buffer=4; access_log a.log u;");
        assert_eq!(logged(&site, &mut site.get("/a"), "a.log"), "");
        assert_eq!(logged(&site, &mut site.get("/bcdef"), "a.log"), "/a\n/a\n/bcdef\n/bcdef\n");
    }

    #[test]
    fn a_log_is_read_by_zcat() {
        let site = Site::location("log_format u $uri; access_log a.gz u gzip=9;");
        for target in ["/a", "/b"] {
            site.open_logs();
            site.run(Phase::Log, &mut site.get(target));
        }
        site.open_logs();
        let file = std::fs::File::open(site.root().join("a.gz")).unwrap();
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "/a\n/b\n");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("access_log off x;", "invalid parameter \"x\""),
            ("access_log x combined y;", "invalid parameter \"y\""),
            ("access_log x y;", "unknown log format \"y\""),
            ("access_log x combined flush=1s;", "no buffer is defined for access_log \"x\""),
            ("access_log x combined buffer=0;", "invalid buffer size \"0\""),
            ("access_log x combined buffer=1k flush=x;", "invalid flush time \"x\""),
            ("access_log x combined gzip=0;", "invalid compression level \"0\""),
            ("access_log x combined gzip=10;", "invalid compression level \"10\""),
            ("access_log $uri combined buffer=1k;", "buffered logs cannot have variables in name"),
            ("access_log syslog:server=[::1] combined gzip;", "logs to syslog cannot be buffered"),
            ("access_log stderr combined buffer=1k;", "logs to stderr cannot be buffered"),
            (
                "access_log x combined gzip; access_log x combined buffer=64k;",
                "access_log \"x\" already defined with conflicting parameters",
            ),
            ("log_format combined x; access_log x;", "duplicate \"log_format\" name \"combined\""),
            ("log_format a escape=x y; access_log off;", "unknown log format escaping \"x\""),
            ("open_log_file_cache inactive=1s;", "\"open_log_file_cache\" must have \"max\" parameter"),
            ("open_log_file_cache max=x;", "invalid \"open_log_file_cache\" parameter \"max=x\""),
            ("open_log_file_cache on;", "invalid \"open_log_file_cache\" parameter \"on\""),
        ] {
            assert_eq!(Site::error(text), message, "{text}");
        }
        Site::location(
            "open_log_file_cache off; access_log x combined gzip buffer=64k; access_log x combined gzip=1;",
        );
    }
}

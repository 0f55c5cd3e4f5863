//! Sets limits for reading requests: sizes, times and strictness.
//!
//! **Head.** The request line and the headers must fit into `client_header_buffer_size` or, if they are longer,
//! into `large_client_header_buffers`. A longer request line gets 414, a longer header 400. A request with more
//! than `max_headers` headers gets 400. The complete head must arrive within `client_header_timeout`.
//!
//! **Body.** A body longer than `client_max_body_size` gets 413; 0 means no limit. `client_body_timeout` limits the
//! time between two reads. With `client_body_min_rate` (Fulmar only), it limits the total waiting time, plus one
//! second for each that many bytes: `client_body_min_rate 500` ends an upload that stays below 500 bytes per second
//! for longer than the timeout.
//!
//! A body that Fulmar has to buffer and that is longer than `client_body_buffer_size` goes to a file in
//! `client_body_temp_path`, by default `$CACHE_DIRECTORY` (the packaged unit of systemd sets it) or the system's directory for temporary files. A start,
//! a reload and `-t` warn if the worker cannot write there. The file has no name, so that
//! nothing is left behind. With `client_body_in_file_only clean`, every buffered body goes to a file that has a
//! name until the request ends; with `on`, the file stays. `$request_body_file` passes the name to an upstream, so
//! that the body itself need not be sent. For a file without a name, the variable is a path that only privileged
//! processes can open.
//!
//! **Strictness.** With `ignore_invalid_headers on`, Fulmar ignores headers whose names contain characters other
//! than letters, digits and hyphens, and underscores unless `underscores_in_headers` is on. The error log names
//! them at level `info`. `merge_slashes` merges adjacent slashes of the path. `strict_line_ends` (Fulmar only)
//! rejects heads with lines that end with a lone LF.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     client_max_body_size 4;
//!     max_headers 3;
//!     location / {
//!         return 200 "$uri [$http_x_a] [$http_x_b]\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET //a///b HTTP/1.1
//! Host: localhost
//! X_A: 1
//! X-B: 2
//!
//! HTTP/1.1 200 OK
//!
//! /a/b [] [2]
//! ---
//! GET / HTTP/1.1
//! Host: localhost
//! X-A: 1
//! X-B: 2
//! X-C: 3
//!
//! HTTP/1.1 400 Bad Request
//! ```

use conf::{Arity, Contexts, Diagnostic, value};
use contract::policy::BodyFile;
use contract::{Args, Directive, Loading, Module, ScopeBuilder, View};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How requests are read.
pub static MODULE: Module = Module {
    name: "client",
    directives: &[
        &CLIENT_HEADER_TIMEOUT,
        &CLIENT_HEADER_BUFFER_SIZE,
        &LARGE_CLIENT_HEADER_BUFFERS,
        &MAX_HEADERS,
        &IGNORE_INVALID_HEADERS,
        &UNDERSCORES_IN_HEADERS,
        &MERGE_SLASHES,
        &STRICT_LINE_ENDS,
        &CLIENT_MAX_BODY_SIZE,
        &CLIENT_BODY_TIMEOUT,
        &CLIENT_BODY_MIN_RATE,
        &CLIENT_BODY_BUFFER_SIZE,
        &CLIENT_BODY_TEMP_PATH,
        &CLIENT_BODY_IN_FILE_ONLY,
    ],
    variables: &[],
    compile: Some(compile),
};

const SERVERS: Contexts = Contexts::HTTP.or(Contexts::SERVER);
const LEVELS: Contexts = SERVERS.or(Contexts::LOCATION);

/// `client_header_timeout TIME`
pub static CLIENT_HEADER_TIMEOUT: Directive<Duration> = Directive::time("client_header_timeout")
    .within(SERVERS)
    .default("60s")
    .help("How long a client may take for the head of a request.");

/// `client_header_buffer_size SIZE`
pub static CLIENT_HEADER_BUFFER_SIZE: Directive<u64> = Directive::size("client_header_buffer_size")
    .within(SERVERS)
    .default("1k")
    .help("The size of the buffer for the head of most requests.");

/// `large_client_header_buffers NUMBER SIZE`
pub static LARGE_CLIENT_HEADER_BUFFERS: Directive<(usize, usize)> =
    Directive::new("large_client_header_buffers", parse_buffers)
        .within(SERVERS)
        .args(Arity::Exactly(2))
        .default("4 8k")
        .help("The number and size of the buffers for long heads; no line may be longer than one of them.");

/// `max_headers NUMBER`
pub static MAX_HEADERS: Directive<u64> = Directive::number("max_headers")
    .within(SERVERS)
    .default("1000")
    .help("How many headers a request may have.");

/// `ignore_invalid_headers on | off`
pub static IGNORE_INVALID_HEADERS: Directive<bool> = Directive::flag("ignore_invalid_headers")
    .within(SERVERS)
    .default("on")
    .help("Whether headers with unusual names are ignored.");

/// `underscores_in_headers on | off`
pub static UNDERSCORES_IN_HEADERS: Directive<bool> = Directive::flag("underscores_in_headers")
    .within(SERVERS)
    .default("off")
    .help("Whether names of headers may contain underscores.");

/// `merge_slashes on | off`
pub static MERGE_SLASHES: Directive<bool> = Directive::flag("merge_slashes")
    .within(SERVERS)
    .default("on")
    .help("Whether several slashes of a path become one.");

/// `strict_line_ends on | off`
pub static STRICT_LINE_ENDS: Directive<bool> = Directive::flag("strict_line_ends")
    .within(SERVERS)
    .default("off")
    .help("Whether a lone LF at the end of a line is an error.");

/// `client_max_body_size SIZE`
pub static CLIENT_MAX_BODY_SIZE: Directive<u64> = Directive::offset("client_max_body_size")
    .within(LEVELS)
    .default("1m")
    .help("How long the body of a request may be; 0 is any length.");

/// `client_body_timeout TIME`
pub static CLIENT_BODY_TIMEOUT: Directive<Duration> = Directive::time("client_body_timeout")
    .within(LEVELS)
    .default("60s")
    .help("How long a client may pause while it sends a body.");

/// `client_body_min_rate SIZE`
pub static CLIENT_BODY_MIN_RATE: Directive<u64> = Directive::size("client_body_min_rate")
    .within(LEVELS)
    .default("0")
    .help("The lowest speed of a request body in bytes per second, after `client_body_timeout`; 0 means no limit.");

/// `client_body_buffer_size SIZE`
pub static CLIENT_BODY_BUFFER_SIZE: Directive<u64> = Directive::size("client_body_buffer_size")
    .within(LEVELS)
    .default("16k")
    .help("The size of the buffer for the body of a request.");

/// `client_body_in_file_only on | clean | off`
pub static CLIENT_BODY_IN_FILE_ONLY: Directive<BodyFile> =
    Directive::new("client_body_in_file_only", |args, _| {
        const CHOICES: [(&str, BodyFile); 3] =
            [("off", BodyFile::WhenLong), ("on", BodyFile::Forever), ("clean", BodyFile::UntilTheEnd)];
        args.value(0, |word| value::choice(word, &CHOICES))
    })
    .within(LEVELS)
    .default("off")
    .help("Whether every body is kept in a file with a name.");

/// `client_body_temp_path PATH [LEVEL …]`
pub static CLIENT_BODY_TEMP_PATH: Directive<Arc<Path>> =
    Directive::new("client_body_temp_path", |args, loading| {
        // Files without a name need no levels of directories; what is written there is still to be numbers.
        let mut levels = args.words().iter().skip(1).map(value::number);
        if levels.any(|level| level.unwrap_or(0) == 0) {
            return Err(args.error("invalid value"));
        }
        Ok(loading.directory(args.word(0)?, args.node.span).into())
    })
    .within(LEVELS)
    .args(Arity::Range(1, 4))
    .help("Where bodies that are longer than their buffer are kept, in files without a name.");

fn parse_buffers(args: &Args<'_>, _: &mut Loading) -> Result<(usize, usize), Diagnostic> {
    let number = value::number(args.word(0)?).unwrap_or(0);
    let size = value::size(args.word(1)?).unwrap_or(0);
    match (usize::try_from(number), usize::try_from(size)) {
        (Ok(number @ 1..), Ok(size @ 1..)) => Ok((number, size)),
        _ => Err(args.error("invalid value")),
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let head = &mut builder.policy.head;
    view.assign(&CLIENT_HEADER_TIMEOUT, &mut head.client_header_timeout);
    view.assign(&LARGE_CLIENT_HEADER_BUFFERS, &mut head.large_client_header_buffers);
    view.assign(&IGNORE_INVALID_HEADERS, &mut head.ignore_invalid_headers);
    view.assign(&UNDERSCORES_IN_HEADERS, &mut head.underscores_in_headers);
    view.assign(&MERGE_SLASHES, &mut head.merge_slashes);
    view.assign(&STRICT_LINE_ENDS, &mut head.strict_line_ends);
    view.assign_size(&CLIENT_HEADER_BUFFER_SIZE, &mut head.client_header_buffer_size);
    view.assign_size(&MAX_HEADERS, &mut head.max_headers);
    let body = &mut builder.policy.request_body;
    if let Some(&length) = view.get(&CLIENT_MAX_BODY_SIZE) {
        body.client_max_body_size = (length > 0).then_some(length);
    }
    view.assign(&CLIENT_BODY_TIMEOUT, &mut body.client_body_timeout);
    view.assign(&CLIENT_BODY_MIN_RATE, &mut body.client_body_min_rate);
    view.assign_size(&CLIENT_BODY_BUFFER_SIZE, &mut body.client_body_buffer_size);
    view.assign(&CLIENT_BODY_TEMP_PATH, &mut body.client_body_temp_path);
    view.assign(&CLIENT_BODY_IN_FILE_ONLY, &mut body.client_body_in_file_only);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use std::time::Duration;

    #[test]
    fn zero_is_any_length() {
        let limit = |text| Site::location(text).get("/").scope.policy.request_body.client_max_body_size;
        assert_eq!(limit("client_max_body_size 0;"), None);
        assert_eq!(limit("client_max_body_size 1g;"), Some(1 << 30));
        assert_eq!(limit(""), Some(1 << 20));
    }

    #[test]
    fn settings_of_the_server() {
        let site = Site::server(
            "client_header_timeout 500ms; large_client_header_buffers 2 1k; max_headers 5; merge_slashes off;",
        );
        let head = &site.get("/").scope.policy.head;
        assert_eq!(head.client_header_timeout, Duration::from_millis(500));
        assert_eq!(head.large_client_header_buffers, (2, 1024));
        assert_eq!(head.max_headers, 5);
        assert!(!head.merge_slashes);
    }

    #[test]
    fn there_must_be_a_buffer() {
        for wrong in ["0 8k", "4 0", "x 8k", "4 8g"] {
            assert_eq!(
                Site::error(&format!("large_client_header_buffers {wrong};")),
                "\"large_client_header_buffers\" directive invalid value"
            );
        }
    }
}

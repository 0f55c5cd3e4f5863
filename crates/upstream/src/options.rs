//! The directives that all protocols share, written once. A protocol makes them its own with a prefix:
//!
//! ```
//! use upstream::{Names, Options};
//! static NAMES: Names = Names::new("proxy_");
//! static OPTIONS: Options = Options::new(&NAMES);
//! ```

use crate::bind::{self, Bind};
use crate::cache_options::CacheOptions;
use crate::failures::Failures;
use crate::ignored::Ignored;
use crate::names::Names;
use crate::option::{bits, flag, of, size, time};
use crate::store_options::{self, StorePath};
use conf::{Arity, Diagnostic, value};
use contract::{Amount, AnyDirective, Args, Directive, Loading, Rule};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How many directives [`Options`] has.
pub const OPTION_COUNT: usize = 29 + CacheOptions::COUNT;

/// How many of those are not about bodies that are kept or changed on their way. They come first in [`Options::list`].
pub const STREAMING_OPTION_COUNT: usize = 15;

/// The directives that all protocols share, under one protocol's names.
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct Options {
    pub connect_timeout: Directive<Duration>,
    pub send_timeout: Directive<Duration>,
    pub read_timeout: Directive<Duration>,
    pub buffering: Directive<bool>,
    pub request_buffering: Directive<bool>,
    pub buffer_size: Directive<u64>,
    pub buffers: Directive<(u64, u64)>,
    pub busy_buffers_size: Directive<u64>,
    pub max_temp_file_size: Directive<u64>,
    pub temp_file_write_size: Directive<u64>,
    pub temp_path: Directive<Arc<Path>>,
    pub next_upstream: Directive<Failures>,
    pub next_upstream_tries: Directive<u64>,
    pub next_upstream_timeout: Directive<Duration>,
    pub bind: Directive<Option<Bind>>,
    pub socket_keepalive: Directive<bool>,
    pub socket_rcvbuf: Directive<u64>,
    pub socket_sndbuf: Directive<u64>,
    pub ignore_client_abort: Directive<bool>,
    pub pass_request_headers: Directive<bool>,
    pub pass_request_body: Directive<bool>,
    pub intercept_errors: Directive<bool>,
    pub limit_rate: Directive<Amount>,
    pub hide_header: Directive<Box<[u8]>>,
    pub pass_header: Directive<Box<[u8]>>,
    pub ignore_headers: Directive<Ignored>,
    pub force_ranges: Directive<bool>,
    pub store: Directive<StorePath>,
    pub store_access: Directive<u32>,
    /// Those about keeping responses.
    pub cache: CacheOptions,
}

impl Options {
    /// The directives under these names.
    pub const fn new(names: &'static Names) -> Options {
        Options {
            connect_timeout: time(names.of("connect_timeout"), "60s", "How long connecting may take."),
            send_timeout: time(
                names.of("send_timeout"),
                "60s",
                "The longest pause while the request is sent.",
            ),
            read_timeout: time(
                names.of("read_timeout"),
                "60s",
                "The longest pause while the response is read.",
            ),
            buffering: flag(names.of("buffering"), "on", "Whether a response is taken as fast as it comes."),
            request_buffering: flag(names.of("request_buffering"), "on", REQUEST),
            buffer_size: size(
                names.of("buffer_size"),
                "4k",
                "The largest size of the headers of a response.",
            ),
            buffers: of(Directive::new(names.of("buffers"), parse_buffers), BUFFERS)
                .args(Arity::Exactly(2))
                .default("8 4k"),
            busy_buffers_size: size(names.of("busy_buffers_size"), "", "Nothing: what is there is sent."),
            max_temp_file_size: size(names.of("max_temp_file_size"), "1024m", TEMP_SIZE),
            temp_file_write_size: size(names.of("temp_file_write_size"), "", "Nothing: all is written."),
            temp_path: of(Directive::new(names.of("temp_path"), parse_path), TEMP_PATH)
                .args(Arity::Range(1, 4)),
            next_upstream: of(Directive::new(names.of("next_upstream"), parse_failures), NEXT)
                .args(Arity::AtLeast(1))
                .rule(Rule::List)
                .default("error timeout"),
            next_upstream_tries: of(Directive::number(names.of("next_upstream_tries")), TRIES).default("0"),
            next_upstream_timeout: time(names.of("next_upstream_timeout"), "0", TRIES_TIME),
            bind: of(Directive::new(names.of("bind"), bind::parse), BIND).args(Arity::Range(1, 2)),
            socket_keepalive: flag(names.of("socket_keepalive"), "off", KEEPALIVE),
            socket_rcvbuf: size(names.of("socket_rcvbuf"), "0", RECEIVES),
            socket_sndbuf: size(names.of("socket_sndbuf"), "0", SENDS),
            ignore_client_abort: flag(names.of("ignore_client_abort"), "off", ABORT),
            pass_request_headers: flag(names.of("pass_request_headers"), "on", "Whether fields are passed."),
            pass_request_body: flag(names.of("pass_request_body"), "on", "Whether the body is passed."),
            intercept_errors: flag(names.of("intercept_errors"), "off", INTERCEPT),
            limit_rate: of(Directive::amount(names.of("limit_rate")), RATE).default("0"),
            hide_header: of(Directive::new(names.of("hide_header"), parse_name), HIDE).rule(Rule::List),
            pass_header: of(Directive::new(names.of("pass_header"), parse_name), PASS).rule(Rule::List),
            ignore_headers: of(Directive::new(names.of("ignore_headers"), parse_ignored), IGNORE)
                .args(Arity::AtLeast(1))
                .rule(Rule::List),
            force_ranges: flag(names.of("force_ranges"), "off", RANGES),
            store: of(Directive::new(names.of("store"), store_options::parse_store), STORE).default("off"),
            store_access: of(
                Directive::new(names.of("store_access"), store_options::parse_access),
                STORE_ACCESS,
            )
            .args(Arity::Range(1, 3))
            .default("user:rw"),
            cache: CacheOptions::new(names),
        }
    }

    /// Those that a protocol has which passes bodies on as they come.
    pub const fn streaming(&'static self) -> [&'static dyn AnyDirective; STREAMING_OPTION_COUNT] {
        joined(&[&self.list()])
    }

    /// All of them.
    pub const fn list(&'static self) -> [&'static dyn AnyDirective; OPTION_COUNT] {
        [
            &self.connect_timeout,
            &self.send_timeout,
            &self.read_timeout,
            &self.buffer_size,
            &self.next_upstream,
            &self.next_upstream_tries,
            &self.next_upstream_timeout,
            &self.bind,
            &self.socket_keepalive,
            &self.socket_rcvbuf,
            &self.socket_sndbuf,
            &self.intercept_errors,
            &self.hide_header,
            &self.pass_header,
            &self.ignore_headers,
            &self.buffering,
            &self.request_buffering,
            &self.buffers,
            &self.busy_buffers_size,
            &self.max_temp_file_size,
            &self.temp_file_write_size,
            &self.temp_path,
            &self.ignore_client_abort,
            &self.pass_request_headers,
            &self.pass_request_body,
            &self.limit_rate,
            &self.force_ranges,
            &self.store,
            &self.store_access,
            &self.cache.path,
            &self.cache.cache,
            &self.cache.key,
            &self.cache.valid,
            &self.cache.methods,
            &self.cache.min_uses,
            &self.cache.bypass,
            &self.cache.no_cache,
            &self.cache.lock,
            &self.cache.lock_timeout,
            &self.cache.lock_age,
            &self.cache.use_stale,
            &self.cache.background_update,
            &self.cache.revalidate,
            &self.cache.max_range_offset,
            &self.cache.purge,
            &self.cache.rules,
        ]
    }
}

/// The first `ALL` directives of these lists, one list after the other.
pub const fn joined<const ALL: usize>(
    lists: &[&[&'static dyn AnyDirective]],
) -> [&'static dyn AnyDirective; ALL] {
    let mut all: [&'static dyn AnyDirective; ALL] = [lists[0][0]; ALL];
    let (mut at, mut list, mut place) = (0, 0, 0);
    while at < ALL {
        if place == lists[list].len() {
            (list, place) = (list + 1, 0);
            continue;
        }
        all[at] = lists[list][place];
        (at, place) = (at + 1, place + 1);
    }
    all
}

const REQUEST: &str = "Whether the body of a request is read whole before a server is asked.";
const BUFFERS: &str = "How much of a response is kept in memory: a number of buffers and the size of each.";
const TEMP_SIZE: &str = "How much of a response may go to a file when the buffers are full; 0 means none.";
const TEMP_PATH: &str = "Where those files are; they have no name.";
const NEXT: &str = "After which failures another server is asked.";
const TRIES: &str = "How many servers are asked at most; 0 is all.";
const TRIES_TIME: &str = "For how long other servers are asked; 0 is any time.";
const BIND: &str = "The local address of connections, with or without a port; `off` lets the system choose.";
const KEEPALIVE: &str = "Whether the system probes connections that are idle (TCP keep-alive).";
const RECEIVES: &str = "How much the system buffers of what a server sends; 0 is as much as it chooses.";
const SENDS: &str = "How much the system buffers of what a server is sent; 0 is as much as it chooses.";
const ABORT: &str = "Whether a request goes on without the client.";
const INTERCEPT: &str = "Whether `error_page` replaces errors of the server, too.";
const RATE: &str = "How many bytes a second a response that is buffered is read at; 0 is any number.";
const HIDE: &str = "A field of responses that is not passed on.";
const PASS: &str = "A field of responses that is passed on although it usually is not.";
const RANGES: &str = "Whether ranges are cut out of a response that has no `Accept-Ranges`.";
const STORE: &str =
    "Whether responses are stored in files that stay: by `root` or `alias`, or under this name.";
const STORE_ACCESS: &str =
    "Who else may read or write the stored files: `user:`, `group:`, `all:` with `r` or `rw`.";
const IGNORE: &str = "Fields of responses that are not acted upon.";

fn parse_buffers(args: &Args<'_>, _: &mut Loading) -> Result<(u64, u64), Diagnostic> {
    let number = value::number(args.word(0)?).unwrap_or(0);
    match value::size(args.word(1)?) {
        Ok(size @ 1..) if number > 0 => Ok((number, size)),
        _ => Err(args.error("invalid value")),
    }
}

fn parse_path(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<Path>, Diagnostic> {
    Ok(loading.directory(args.word(0)?, args.node.span).into())
}

fn parse_name(args: &Args<'_>, _: &mut Loading) -> Result<Box<[u8]>, Diagnostic> {
    Ok(args.word(0)?.text.to_ascii_lowercase().into())
}

fn parse_failures(args: &Args<'_>, loading: &mut Loading) -> Result<Failures, Diagnostic> {
    bits(args, loading, &Failures::NAMES).map(Failures)
}

fn parse_ignored(args: &Args<'_>, loading: &mut Loading) -> Result<Ignored, Diagnostic> {
    bits(args, loading, &Ignored::NAMES).map(Ignored)
}

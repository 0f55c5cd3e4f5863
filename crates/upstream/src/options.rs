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
use conf::{Arity, Contexts, Diagnostic, value};
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
            connect_timeout: time(names.of("connect_timeout"), "60s", CONNECT),
            send_timeout: time(names.of("send_timeout"), "60s", SEND),
            read_timeout: time(names.of("read_timeout"), "60s", READ),
            buffering: flag(names.of("buffering"), "on", BUFFERING),
            request_buffering: flag(names.of("request_buffering"), "on", REQUEST),
            buffer_size: size(names.of("buffer_size"), "4k", HEAD),
            buffers: of(Directive::new(names.of("buffers"), parse_buffers), BUFFERS)
                .args(Arity::Exactly(2))
                .default("8 4k"),
            busy_buffers_size: size(names.of("busy_buffers_size"), "", BUSY),
            max_temp_file_size: size(names.of("max_temp_file_size"), "1024m", TEMP_SIZE),
            temp_file_write_size: size(names.of("temp_file_write_size"), "", WRITE_SIZE),
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
            pass_request_headers: flag(names.of("pass_request_headers"), "on", PASS_HEADERS),
            pass_request_body: flag(names.of("pass_request_body"), "on", PASS_BODY),
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

    /// The same for `stream`, as far as it has them.
    #[must_use]
    pub const fn in_stream(mut self) -> Options {
        const LEVELS: Contexts = Contexts::ALL_STREAM;
        self.connect_timeout = self.connect_timeout.within(LEVELS);
        self.next_upstream_tries = self.next_upstream_tries.within(LEVELS);
        self.next_upstream_timeout = self.next_upstream_timeout.within(LEVELS);
        self.bind = self.bind.within(LEVELS);
        self.socket_keepalive = self.socket_keepalive.within(LEVELS);
        self.socket_rcvbuf = self.socket_rcvbuf.within(LEVELS);
        self.socket_sndbuf = self.socket_sndbuf.within(LEVELS);
        self
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
            &self.cache.valid.valid,
            &self.cache.methods,
            &self.cache.min_uses,
            &self.cache.bypass,
            &self.cache.no_cache,
            &self.cache.lock.lock,
            &self.cache.lock.timeout,
            &self.cache.lock.age,
            &self.cache.use_stale,
            &self.cache.background_update,
            &self.cache.revalidate,
            &self.cache.max_range_offset,
            &self.cache.purge,
            &self.cache.rules,
            &self.cache.valid.heuristic,
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

const CONNECT: &str = "How long connecting to the upstream server may take.";
const SEND: &str = "The longest pause between two parts of the request that the upstream server accepts.";
const READ: &str = "The longest pause between two parts of the response that the upstream server sends.";
const HEAD: &str = "How long the head of a response may be.";
const BUFFERING: &str =
    "Whether a response is read as fast as the upstream server sends it, also if the client is slower.";
const BUSY: &str = "Has no effect: Fulmar sends what it has received.";
const WRITE_SIZE: &str = "Has no effect: Fulmar writes what it has received.";
const PASS_HEADERS: &str = "Whether the headers of the request are passed on.";
const PASS_BODY: &str = "Whether the body of the request is passed on.";
const REQUEST: &str =
    "Whether the whole body of a request is read before the upstream server gets the request.";
const BUFFERS: &str = "How much of a response is kept in memory: a number of buffers and the size of each.";
const TEMP_SIZE: &str = "How much of a response may go to a file when the buffers are full; 0 means none.";
const TEMP_PATH: &str =
    "The directory of the temporary files of `max_temp_file_size`; the files have no name.";
const NEXT: &str = "The failures after which the request is sent to another server.";
const TRIES: &str = "How many servers are tried at most; 0 means all.";
const TRIES_TIME: &str = "For how long servers are tried; 0 means no limit.";
const BIND: &str = "The local address of connections, with or without a port; `off` lets the system choose.";
const KEEPALIVE: &str = "Whether the kernel probes connections that are idle (TCP keep-alive).";
const RECEIVES: &str = "The size of the kernel's receive buffer of a connection; 0 lets the kernel choose.";
const SENDS: &str = "The size of the kernel's send buffer of a connection; 0 lets the kernel choose.";
const ABORT: &str =
    "Whether a request to the upstream server continues after the client has closed its connection.";
const INTERCEPT: &str = "Whether `error_page` also replaces error responses of the upstream server.";
const RATE: &str = "How many bytes of a buffered response are read per second; 0 means no limit.";
const HIDE: &str = "A header of responses that clients do not get.";
const PASS: &str = "A header of responses that clients get although Fulmar removes it by default.";
const RANGES: &str = "Whether range requests are answered also from responses without `Accept-Ranges`.";
const STORE: &str = "Whether responses are also stored as files, with the path of `root` or `alias` (`on`), or with this path.";
const STORE_ACCESS: &str =
    "Who else may read or write the stored files: `user:`, `group:`, `all:` with `r` or `rw`.";
const IGNORE: &str = "Headers of responses that have no effect on Fulmar.";

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

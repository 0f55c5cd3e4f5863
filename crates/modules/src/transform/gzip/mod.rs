//! Compresses responses with gzip.
//!
//! With `gzip on`, Fulmar compresses content for clients that accept gzip, if its media type is in `gzip_types`
//! (`text/html` always is, `*` means all), and if it has at least `gzip_min_length` bytes or an unknown length.
//! `gzip_comp_level` is from 1 (fast) to 9 (small); levels above 6 gain little. `$gzip_ratio` is the original size
//! divided by the compressed size. [coding](coding.md) says which headers change, how slow content is sent,
//! which compressed files are kept in memory, and which pages must not be compressed.
//!
//! `gzip_vary on` sends `Vary: Accept-Encoding` with every response that could be compressed, whether this client gets
//! it compressed or not. Every site with a shared cache in front needs it. Requests through a proxy (with a `Via`
//! header) get compressed content only as `gzip_proxied` says. Requests with HTTP/1.0 get it only with
//! `gzip_http_version 1.0`. Clients whose `User-Agent` matches a pattern of `gzip_disable` never get it.
//!
//! `gzip_window` limits how far back the compressor looks for repetitions. `gzip_buffers`, `gzip_hash`,
//! `gzip_no_buffer` and `postpone_gzipping` are checked and have no effect: Fulmar compresses up to 64 KB at a time,
//! as fast as the client reads, and slow content as it comes.
//!
//! ```file html/page.html
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```
//!
//! ```file html/short.html
//! <p>short</p>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     gzip on;
//!     gzip_min_length 20;
//!     gzip_vary on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//! Vary: Accept-Encoding
//! Content-Encoding: gzip
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 67
//! Vary: Accept-Encoding
//!
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ---
//! GET /short.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Length: 13
//!
//! <p>short</p>
//! ```

use crate::shared::compression::{
    Coding, GZIP_DISABLE, GZIP_HTTP_VERSION, GZIP_PROXIED, GZIP_VARY, LENGTH_MIN, LEVELS, Offer, Rules,
    Settings, parse_buffers, parse_power, show_ratio,
};
use crate::shared::media_types::{self, MediaTypes, Words};
use conf::{Arity, Contexts, value};
use contract::{Directive, Module, Rule, Variable, View};

/// Responses compressed on their way.
pub static MODULE: Module = Module {
    name: "gzip",
    directives: &[
        &GZIP,
        &GZIP_TYPES,
        &GZIP_COMP_LEVEL,
        &GZIP_MIN_LENGTH,
        &GZIP_VARY,
        &GZIP_PROXIED,
        &GZIP_HTTP_VERSION,
        &GZIP_DISABLE,
        &GZIP_WINDOW,
        &GZIP_BUFFERS,
        &GZIP_HASH,
        &GZIP_NO_BUFFER,
        &POSTPONE_GZIPPING,
    ],
    variables: &[Variable::new("gzip_ratio", |exchange, _, out| show_ratio(exchange, Coding::Gzip, out))],
    compile: None,
};

/// `gzip on | off`
pub static GZIP: Directive<bool> = Directive::flag("gzip")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether responses are compressed for clients that accept this coding.");

/// `gzip_types TYPE … | *`
pub static GZIP_TYPES: Directive<Words> = Directive::new("gzip_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types that are compressed, besides `text/html`.");

/// `gzip_comp_level 1 … 9`
pub static GZIP_COMP_LEVEL: Directive<u64> =
    Directive::new("gzip_comp_level", |args, _| args.value(0, |word| value::bounded(word, 1, Some(9))))
        .within(LEVELS)
        .default("1")
        .help("How much work goes into compression.");

/// `gzip_min_length LENGTH`
pub static GZIP_MIN_LENGTH: Directive<u64> = Directive::size("gzip_min_length")
    .within(LEVELS)
    .default("20")
    .help("The shortest content that is compressed, in bytes.");

/// `gzip_window SIZE`
pub static GZIP_WINDOW: Directive<u64> =
    Directive::new("gzip_window", |args, _| parse_power(args, &WINDOWS, WINDOW_WORDS))
        .within(LEVELS)
        .default("32k")
        .help("How far back a repetition is found.");

/// `gzip_buffers NUMBER SIZE`
pub static GZIP_BUFFERS: Directive<()> = Directive::new("gzip_buffers", parse_buffers)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .default("32 4k")
    .help("Accepted; memory does not depend on it.");

/// `gzip_hash SIZE`
pub static GZIP_HASH: Directive<u64> =
    Directive::new("gzip_hash", |args, _| parse_power(args, &HASHES, HASH_WORDS))
        .within(LEVELS)
        .help("Accepted; the compressor chooses the size of its tables itself.");

/// `gzip_no_buffer on | off`
pub static GZIP_NO_BUFFER: Directive<bool> =
    Directive::flag("gzip_no_buffer").within(LEVELS).default("off").help("Accepted; no output is held back.");

/// `postpone_gzipping SIZE`
pub static POSTPONE_GZIPPING: Directive<u64> = Directive::size("postpone_gzipping")
    .within(LEVELS)
    .default("0")
    .help("Accepted; no output is held back.");

/// Window sizes as powers of two.
const WINDOWS: std::ops::RangeInclusive<u32> = 9..=15;
const WINDOW_WORDS: &str = "must be 512, 1k, 2k, 4k, 8k, 16k, or 32k";

/// Sizes of hash tables as powers of two.
const HASHES: std::ops::RangeInclusive<u32> = 9..=17;
const HASH_WORDS: &str = "must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k";

/// What a level offers of it.
pub(crate) fn offer(view: &View<'_>) -> Option<Offer> {
    view.get(&GZIP).copied().filter(|&on| on)?;
    let number = |directive, default| view.get(directive).copied().unwrap_or(default);
    let level = u8::try_from(number(&GZIP_COMP_LEVEL, 1)).unwrap_or(1);
    let window = u8::try_from(number(&GZIP_WINDOW, 1 << 15).trailing_zeros()).unwrap_or(15);
    Some(Offer {
        coding: Coding::Gzip,
        settings: Settings::Gzip { level, window },
        types: MediaTypes::of(view, &GZIP_TYPES, &[]),
        min_length: number(&GZIP_MIN_LENGTH, LENGTH_MIN),
        rules: Some(Rules::new(view)),
        condition: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("gzip_comp_level 10;"), "value must be between 1 and 9");
        assert_eq!(
            Site::error("gzip_window 3k;"),
            "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"
        );
        assert_eq!(Site::error("gzip_buffers 0 4k;"), "\"gzip_buffers\" directive invalid value");
        assert_eq!(Site::error("gzip_static some;"), "invalid value \"some\"");
    }
}

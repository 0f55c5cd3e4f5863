//! Compresses responses with brotli (RFC 7932), and sends files that were compressed with it.
//!
//! The directives are those of the module ngx_brotli. With `brotli on`, Fulmar compresses content for clients that
//! accept `br`, if its media type is in `brotli_types` (`text/html` always is, `*` means all), and if it has at least
//! `brotli_min_length` bytes or an unknown length. `brotli_comp_level` is from 0 (fast) to 11 (small); levels above 6
//! are meant for files, whose compressed form is kept. `brotli_window` limits how far back repetitions are found.
//! With `brotli_static on`, clients that accept brotli get `page.html.br` instead of `page.html`, if that file
//! exists; with `always` every client gets it. `$brotli_ratio` is the original size divided by the compressed size.
//!
//! [coding](coding.md) and [precompressed](precompressed.md) say which coding is chosen if several are on, and which
//! headers change. `gzip_vary` also applies to brotli; the other `gzip_` directives do not. `brotli_buffers` is
//! checked and has no effect.
//!
//! In nginx this is a third-party module.
//!
//! nginx: ngx_http_brotli_filter_module ngx_http_brotli_static_module
//!
//! ```file html/page.html
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```
//!
//! ```file html/style.css
//! plain
//! ```
//!
//! ```file html/style.css.br
//! brotli
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     brotli on;
//!     brotli_static on;
//!     gzip_vary on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, br
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//! Vary: Accept-Encoding
//! Content-Encoding: br
//! ---
//! GET /style.css HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, br
//!
//! HTTP/1.1 200 OK
//! Content-Length: 7
//! Vary: Accept-Encoding
//! Content-Encoding: br
//!
//! brotli
//! ```

use crate::shared::compression::{
    Coding, LENGTH_MIN, LEVELS, Mode, Offer, Settings, parse_buffers, parse_mode, parse_power, show_ratio,
};
use crate::shared::media_types::{self, MediaTypes, Words};
use conf::{Arity, Contexts, value};
use contract::{Directive, Module, Rule, Variable, View};

/// Responses compressed with brotli.
pub static MODULE: Module = Module {
    name: "brotli",
    directives: &[
        &BROTLI,
        &BROTLI_TYPES,
        &BROTLI_COMP_LEVEL,
        &BROTLI_MIN_LENGTH,
        &BROTLI_WINDOW,
        &BROTLI_BUFFERS,
        &BROTLI_STATIC,
    ],
    variables: &[Variable::new("brotli_ratio", |exchange, _, out| show_ratio(exchange, Coding::Brotli, out))],
    compile: None,
};

/// `brotli on | off`
pub static BROTLI: Directive<bool> = Directive::flag("brotli")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether responses are compressed for clients that accept this coding.");

/// `brotli_types TYPE … | *`
pub static BROTLI_TYPES: Directive<Words> = Directive::new("brotli_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types that are compressed, besides `text/html`.");

/// `brotli_comp_level 0 … 11`
pub static BROTLI_COMP_LEVEL: Directive<u64> = Directive::new("brotli_comp_level", |args, _| {
    args.value(0, |word| value::bounded(word, 0, Some(QUALITY_MAX)))
})
.within(LEVELS)
.default("6")
.help("How much work goes into compression.");

/// `brotli_min_length LENGTH`
pub static BROTLI_MIN_LENGTH: Directive<u64> = Directive::size("brotli_min_length")
    .within(LEVELS)
    .default("20")
    .help("The shortest content that is compressed, in bytes.");

/// `brotli_window SIZE`
pub static BROTLI_WINDOW: Directive<u64> =
    Directive::new("brotli_window", |args, _| parse_power(args, &WINDOWS, WINDOW_WORDS))
        .within(LEVELS)
        .default("512k")
        .help("How far back a repetition is found.");

/// `brotli_buffers NUMBER SIZE`
pub static BROTLI_BUFFERS: Directive<()> = Directive::new("brotli_buffers", parse_buffers)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .default("32 4k")
    .help("Accepted; memory does not depend on it.");

/// `brotli_static on | off | always`
pub static BROTLI_STATIC: Directive<Mode> = Directive::new("brotli_static", parse_mode)
    .within(LEVELS)
    .default("off")
    .help("Whether the compressed file `NAME.br` is sent instead of the file.");

const QUALITY_MAX: u64 = 11;
const QUALITY: u8 = 6;

/// Window sizes as powers of two.
const WINDOWS: std::ops::RangeInclusive<u32> = 10..=24;
const WINDOW: u8 = 19;
const WINDOW_WORDS: &str = "must be a power of two from 1k to 16m";

/// What a level offers of it.
pub(crate) fn offer(view: &View<'_>) -> Option<Offer> {
    view.get(&BROTLI).copied().filter(|&on| on)?;
    let small = |number: u64, default| u8::try_from(number).unwrap_or(default);
    let quality = view.get(&BROTLI_COMP_LEVEL).map_or(QUALITY, |&level| small(level, QUALITY));
    let window = view.get(&BROTLI_WINDOW).map_or(WINDOW, |size| small(size.trailing_zeros().into(), WINDOW));
    Some(Offer {
        coding: Coding::Brotli,
        settings: Settings::Brotli { quality, window },
        types: MediaTypes::of(view, &BROTLI_TYPES, &[]),
        min_length: view.get(&BROTLI_MIN_LENGTH).copied().unwrap_or(LENGTH_MIN),
        rules: None,
        condition: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("brotli_comp_level 12;"), "value must be between 0 and 11");
        assert_eq!(
            Site::error("brotli_window 3k;"),
            "\"brotli_window\" directive must be a power of two from 1k to 16m"
        );
        assert_eq!(Site::error("brotli_buffers 0 4k;"), "\"brotli_buffers\" directive invalid value");
        assert_eq!(Site::error("brotli_static some;"), "invalid value \"some\"");
    }
}

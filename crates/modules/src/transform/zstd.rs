//! Compresses responses with Zstandard (RFC 8878), and sends files that were compressed with it.
//!
//! The directives are those of the module zstd-nginx-module. With `zstd on`, Fulmar compresses content for clients
//! that accept `zstd`, if its media type is in `zstd_types` (`text/html` always is, `*` means all), and if it has at
//! least `zstd_min_length` bytes or an unknown length. `zstd_comp_level` is from 1 (fast) to 22 (small); levels above
//! 9 are meant for files, whose compressed form is kept. Repetitions are found up to 1 MB back, so that every client
//! can decompress the content (RFC 9659 allows 8 MB). With `zstd_static on`, clients that accept zstd get
//! `page.html.zst` instead of `page.html`, if that file exists; with `always` every client gets it. `$zstd_ratio` is
//! the original size divided by the compressed size.
//!
//! `zstd_dict_file` names a dictionary. Only clients with the same dictionary can decompress the content. Browsers
//! have none: the directive is meant for applications that talk to each other.
//!
//! [coding](coding.md) and [precompressed](precompressed.md) say which coding is chosen if several are on, and which
//! headers change. `gzip_vary` also applies to zstd; the other `gzip_` directives do not. `zstd_buffers` is checked
//! and has no effect.
//!
//! differs: in nginx this is a third-party module.
//!
//! ```file html/page.html
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```
//!
//! ```file html/style.css
//! plain
//! ```
//!
//! ```file html/style.css.zst
//! zstd
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     zstd on;
//!     zstd_static on;
//!     gzip_vary on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, zstd
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//! Vary: Accept-Encoding
//! Content-Encoding: zstd
//! ---
//! GET /style.css HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, zstd
//!
//! HTTP/1.1 200 OK
//! Content-Length: 5
//! Vary: Accept-Encoding
//! Content-Encoding: zstd
//!
//! zstd
//! ```

use crate::shared::compression::{
    Coding, Dictionary, LENGTH_MIN, LEVELS, Mode, Offer, Settings, parse_buffers, parse_mode, show_ratio,
};
use crate::shared::files;
use crate::shared::media_types::{self, MediaTypes, Words};
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{Args, Directive, Loading, Module, Rule, Variable, View};

/// Responses compressed with Zstandard.
pub static MODULE: Module = Module {
    name: "zstd",
    directives: &[
        &ZSTD,
        &ZSTD_TYPES,
        &ZSTD_COMP_LEVEL,
        &ZSTD_MIN_LENGTH,
        &ZSTD_BUFFERS,
        &ZSTD_DICT_FILE,
        &ZSTD_STATIC,
    ],
    variables: &[Variable::new("zstd_ratio", |exchange, _, out| show_ratio(exchange, Coding::Zstd, out))],
    compile: None,
};

/// `zstd on | off`
pub static ZSTD: Directive<bool> = Directive::flag("zstd")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether responses are compressed for clients that accept this coding.");

/// `zstd_types TYPE … | *`
pub static ZSTD_TYPES: Directive<Words> = Directive::new("zstd_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types that are compressed, besides `text/html`.");

/// `zstd_comp_level 1 … 22`
pub static ZSTD_COMP_LEVEL: Directive<u64> =
    Directive::new("zstd_comp_level", |args, _| args.value(0, |word| value::bounded(word, 1, Some(22))))
        .within(LEVELS)
        .default("1")
        .help("How much work goes into compression.");

/// `zstd_min_length LENGTH`
pub static ZSTD_MIN_LENGTH: Directive<u64> = Directive::size("zstd_min_length")
    .within(LEVELS)
    .default("20")
    .help("The shortest content that is compressed, in bytes.");

/// `zstd_buffers NUMBER SIZE`
pub static ZSTD_BUFFERS: Directive<()> = Directive::new("zstd_buffers", parse_buffers)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .default("32 4k")
    .help("Accepted; memory does not depend on it.");

/// `zstd_dict_file FILE`
pub static ZSTD_DICT_FILE: Directive<Dictionary> = Directive::new("zstd_dict_file", parse_dictionary)
    .within(Contexts::HTTP)
    .help("A dictionary that clients must have, too.");

/// `zstd_static on | off | always`
pub static ZSTD_STATIC: Directive<Mode> = Directive::new("zstd_static", parse_mode)
    .within(LEVELS)
    .default("off")
    .help("Whether the compressed file `NAME.zst` is sent instead of the file.");

fn parse_dictionary(args: &Args<'_>, loading: &mut Loading) -> Result<Dictionary, Diagnostic> {
    let word = args.word(0)?;
    let path = loading.path(&word.text);
    let read = loading.origin.inputs.read(&path);
    read.map(|bytes| Dictionary(bytes.into())).map_err(|error| {
        let message = format!("open() \"{}\" failed ({})", path.display(), files::reason(&error));
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    })
}

/// What a level offers of it.
pub(crate) fn offer(view: &View<'_>) -> Option<Offer> {
    view.get(&ZSTD).copied().filter(|&on| on)?;
    let level = view.get(&ZSTD_COMP_LEVEL).and_then(|&level| i32::try_from(level).ok()).unwrap_or(1);
    Some(Offer {
        coding: Coding::Zstd,
        settings: Settings::Zstd { level, dictionary: view.get(&ZSTD_DICT_FILE).cloned() },
        types: MediaTypes::of(view, &ZSTD_TYPES, &[]),
        min_length: view.get(&ZSTD_MIN_LENGTH).copied().unwrap_or(LENGTH_MIN),
        rules: None,
        condition: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("zstd_comp_level 0;"), "value must be between 1 and 22");
        assert_eq!(Site::error("zstd_comp_level 23;"), "value must be between 1 and 22");
        assert_eq!(Site::error("zstd_buffers 0 4k;"), "\"zstd_buffers\" directive invalid value");
        assert_eq!(Site::error("zstd_static some;"), "invalid value \"some\"");
        let error = Site::error("zstd_dict_file /nonexistent/dictionary;");
        assert_eq!(error, "open() \"/nonexistent/dictionary\" failed (2: No such file or directory)");
    }
}

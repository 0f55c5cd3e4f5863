//! Compresses responses as `.htaccess` files say: the output filters `DEFLATE` and `BROTLI_COMPRESS`.
//!
//! `AddOutputFilterByType` names media types, `SetOutputFilter` all files, `AddOutputFilter` extensions. A variable
//! `no-gzip` or `no-brotli` of the environment switches the filter off. What the location compresses stays compressed.
//!
//! nginx: none
//!
//! ```file html/a.css
//! p { margin: 0; padding: 0; border: 0; color: black; background-color: white }
//! ```
//!
//! ```file html/.htaccess
//! <IfModule mod_deflate.c>
//! AddOutputFilterByType DEFLATE text/html text/css
//! </IfModule>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//!     types { text/css css; }
//! }
//! ```
//!
//! ```http
//! GET /a.css HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Encoding: gzip
//! Vary: Accept-Encoding
//! ```

use crate::shared::apache::{environment, in_all_files, values, wrong};
use crate::shared::media_types::{MediaTypes, Words};
use crate::transform::coding::{Coding, Offer, Settings};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Module, Replaced, View};

/// Output filters.
pub static MODULE: Module = Module {
    name: "mod_filter",
    directives: &[&BY_TYPE, &SET, &ADD, &REMOVE],
    variables: &[],
    compile: None,
};

/// `AddOutputFilterByType FILTER[;FILTER …] TYPE …`
pub(crate) static BY_TYPE: Directive<Line> =
    in_all_files(Directive::new("AddOutputFilterByType", |args, _| parse(args, Kind::Types(rest(args)))))
        .args(Arity::AtLeast(2))
        .slot("htaccess filter")
        .help("The filters of responses with these media types.");

/// `SetOutputFilter FILTER[;FILTER …] | None`
pub(crate) static SET: Directive<Line> =
    in_all_files(Directive::new("SetOutputFilter", |args, _| parse(args, Kind::All)))
        .args(Arity::Exactly(1))
        .slot("htaccess filter")
        .help("The filters of all responses.");

/// `AddOutputFilter FILTER[;FILTER …] EXTENSION …`
pub(crate) static ADD: Directive<Line> = in_all_files(Directive::new("AddOutputFilter", |args, _| {
    parse(args, Kind::Extensions(extensions(rest(args))))
}))
.args(Arity::AtLeast(2))
.slot("htaccess filter")
.help("The filters of files with these extensions.");

/// `RemoveOutputFilter EXTENSION …`
pub(crate) static REMOVE: Directive<Line> = in_all_files(Directive::new("RemoveOutputFilter", |args, _| {
    let words = args.words().iter().map(|word| word.text.to_ascii_lowercase().into()).collect();
    Ok(Line { codings: Vec::new(), kind: Kind::Extensions(extensions(words)) })
}))
.args(Arity::AtLeast(1))
.slot("htaccess filter")
.help("Extensions whose files have no filters by `AddOutputFilter`.");

/// One directive.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    codings: Vec<Coding>,
    kind: Kind,
}

/// Which responses have a filter.
#[derive(Clone, Debug)]
enum Kind {
    All,
    /// Media types in lower case.
    Types(Words),
    /// In lower case, without a dot.
    Extensions(Words),
}

/// The settings of the filters, which are the defaults of Apache.
const LEVEL_GZIP: u8 = 6;
const LEVEL_BROTLI: u8 = 5;
const WINDOW_GZIP: u8 = 15;
const LENGTH_MIN_GZIP: u64 = 69;
const WINDOW_BROTLI: u8 = 18;

fn parse(args: &Args<'_>, kind: Kind) -> Result<Line, Diagnostic> {
    let word = args.word(0)?;
    let mut codings = Vec::new();
    for name in word.to_string().to_ascii_uppercase().split(';') {
        match name {
            "DEFLATE" => codings.push(Coding::Gzip),
            "BROTLI_COMPRESS" => codings.push(Coding::Brotli),
            "NONE" | "" => {}
            _ => {
                let error = wrong(args, "a filter that is not built,", word);
                return Err(error.hint("DEFLATE and BROTLI_COMPRESS are the filters that a file can have"));
            }
        }
    }
    Ok(Line { codings, kind })
}

/// The words from the second on, in lower case.
fn rest(args: &Args<'_>) -> Words {
    let lower = |word: &Word| word.text.to_ascii_lowercase().into();
    args.words().iter().skip(1).map(lower).collect()
}

fn extensions(words: Words) -> Words {
    words.into_iter().map(|word| word.strip_prefix(b".").unwrap_or(&word).into()).collect()
}

/// Which responses a filter of a file compresses.
pub(crate) struct OutputFilter {
    coding: Coding,
    /// Extensions in lower case; none for all files.
    extensions: Option<Words>,
}

impl OutputFilter {
    /// Whether it compresses this response.
    pub(crate) fn applies(&self, exchange: &Exchange) -> bool {
        let off: &[u8] = if self.coding == Coding::Gzip { b"no-gzip" } else { b"no-brotli" };
        let is_html =
            exchange.response.content_type.as_deref().is_some_and(|name| name.starts_with(b"text/html"));
        let only_html = self.coding == Coding::Gzip && is_set(exchange, b"gzip-only-text/html");
        let is_own_page = exchange.error.is_some() && exchange.error_page_used == Replaced::No;
        !is_own_page
            && !is_set(exchange, off)
            && (is_html || !only_html)
            && self.extensions.as_ref().is_none_or(|extensions| {
                let name = exchange.request.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let mut parts = name.split(|&byte| byte == b'.').skip(1);
                parts.any(|part| extensions.iter().any(|known| known.eq_ignore_ascii_case(part)))
            })
    }
}

/// Whether a variable is set, and not to zero.
fn is_set(exchange: &Exchange, name: &[u8]) -> bool {
    environment::get(exchange, name).is_some_and(|value| *value != *b"0")
}

/// What the files of a level have compressed, brotli first.
pub(crate) fn offers(view: &View<'_>) -> Vec<Offer> {
    let lines = values(view, &SET);
    let mut offers = Vec::new();
    for coding in [Coding::Brotli, Coding::Gzip] {
        let mut extensions: Words = Vec::new();
        let (mut types, mut all): (Words, bool) = (Vec::new(), false);
        for line in &lines {
            let is_meant = line.codings.contains(&coding);
            match &line.kind {
                Kind::All => all = is_meant,
                Kind::Types(more) if is_meant => types.extend(more.iter().cloned()),
                Kind::Types(_) => {}
                Kind::Extensions(more) if is_meant => extensions.extend(more.iter().cloned()),
                Kind::Extensions(gone) => extensions.retain(|known| !gone.contains(known)),
            }
        }
        if all {
            offers.push(offer(coding, None, None));
        }
        if !types.is_empty() {
            offers.push(offer(coding, Some(types), None));
        }
        if !extensions.is_empty() {
            offers.push(offer(coding, None, Some(extensions)));
        }
    }
    offers
}

fn offer(coding: Coding, types: Option<Words>, extensions: Option<Words>) -> Offer {
    let (settings, min_length) = match coding {
        Coding::Brotli => (Settings::Brotli { quality: LEVEL_BROTLI, window: WINDOW_BROTLI }, 1),
        _ => (Settings::Gzip { level: LEVEL_GZIP, window: WINDOW_GZIP }, LENGTH_MIN_GZIP),
    };
    let types = MediaTypes::exactly(types);
    let filter = Some(OutputFilter { coding, extensions });
    Offer { coding, settings, types, min_length, rules: None, filter }
}

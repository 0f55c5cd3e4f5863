//! Applies output filters to responses as `.htaccess` files say: `DEFLATE`, `BROTLI_COMPRESS`, `INCLUDES`, `SUBSTITUTE`
//! and `RATE_LIMIT`.
//!
//! `AddOutputFilterByType` names media types, `SetOutputFilter` all files, `AddOutputFilter` extensions.
//! `FilterProvider` gives a filter a condition, and `FilterChain` switches the filter on. A variable `no-gzip` or
//! `no-brotli` of the environment switches the compression off. What the location compresses stays compressed.
//!
//! [`INCLUDES`](mod_include.md), [`SUBSTITUTE`](mod_substitute.md) and [`RATE_LIMIT`](mod_ratelimit.md) have pages of
//! their own.
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

use crate::shared::apache::expression::Expression;
use crate::shared::apache::{environment, in_all_files, values, without_effect, wrong};
use crate::shared::compression::{Coding, Offer, Settings};
use crate::shared::media_types::{MediaTypes, Words};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Loading, Module, Replaced, View};
use std::sync::Arc;

/// Output filters.
pub static MODULE: Module = Module {
    name: "mod_filter",
    directives: &[&BY_TYPE, &SET, &ADD, &REMOVE, &DECLARE, &PROVIDER, &CHAIN, &PROTOCOL],
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
    Ok(Line { filters: Vec::new(), kind: Kind::Extensions(extensions(words)) })
}))
.args(Arity::AtLeast(1))
.slot("htaccess filter")
.help("Extensions whose files have no filters by `AddOutputFilter`.");

/// `FilterDeclare NAME [TYPE]`
pub(crate) static DECLARE: Directive<()> = without_effect(
    "FilterDeclare",
    Arity::Range(1, 2),
    "Has no effect: `FilterProvider` declares its filter.",
);

/// `FilterProvider NAME FILTER EXPRESSION`
pub(crate) static PROVIDER: Directive<Line> = in_all_files(Directive::new("FilterProvider", parse_provider))
    .args(Arity::Exactly(3))
    .slot("htaccess filter")
    .help("What a filter of this name does to responses for which an expression holds.");

/// `FilterChain [+|-|@|=|!]NAME …`
pub(crate) static CHAIN: Directive<Line> = in_all_files(Directive::new("FilterChain", |args, _| {
    let names = args.words().iter().map(|word| word.text.clone()).collect();
    Ok(Line { filters: Vec::new(), kind: Kind::Chain(names) })
}))
.args(Arity::AtLeast(1))
.slot("htaccess filter")
.help("Which filters of `FilterProvider` run: `-NAME` removes one, `=NAME` keeps only this one, `!` removes all.");

/// `FilterProtocol NAME [FILTER] FLAGS`
pub(crate) static PROTOCOL: Directive<()> = without_effect(
    "FilterProtocol",
    Arity::Range(2, 3),
    "Has no effect: each filter changes the fields that its change of the content needs.",
);

/// What a filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Compress(Coding),
    Includes,
    Substitute,
    RateLimit,
}

/// One directive.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    filters: Vec<Output>,
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
    /// Those for which an expression holds, if this name is in the chain.
    Provided(Box<[u8]>, Arc<Expression>),
    /// Changes of the chain, with their signs.
    Chain(Words),
}

/// The settings of the filters, which are the defaults of Apache.
const LEVEL_GZIP: u8 = 6;
const LEVEL_BROTLI: u8 = 5;
const WINDOW_GZIP: u8 = 15;
const LENGTH_MIN_GZIP: u64 = 69;
const WINDOW_BROTLI: u8 = 18;

fn parse(args: &Args<'_>, kind: Kind) -> Result<Line, Diagnostic> {
    let word = args.word(0)?;
    let names = word.to_string();
    let filters = names.split(';').filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    let filters = filters.map(|name| output(args, word, name)).collect::<Result<_, _>>()?;
    Ok(Line { filters, kind })
}

fn parse_provider(args: &Args<'_>, loading: &mut Loading) -> Result<Line, Diagnostic> {
    let (name, filter, expression) = (args.word(0)?, args.word(1)?, args.word(2)?);
    let filters = vec![output(args, filter, &filter.to_string())?];
    let expression = Expression::parse(args, loading, std::slice::from_ref(expression))?;
    Ok(Line { filters, kind: Kind::Provided(name.text.clone(), Arc::new(expression)) })
}

fn output(args: &Args<'_>, word: &Word, name: &str) -> Result<Output, Diagnostic> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "DEFLATE" => Output::Compress(Coding::Gzip),
        "BROTLI_COMPRESS" => Output::Compress(Coding::Brotli),
        "INCLUDES" => Output::Includes,
        "SUBSTITUTE" => Output::Substitute,
        "RATE_LIMIT" => Output::RateLimit,
        _ => {
            let error = wrong(args, "a filter that is not supported,", word);
            return Err(error.hint(
                "the filters that a file can have are DEFLATE, BROTLI_COMPRESS, INCLUDES, SUBSTITUTE and RATE_LIMIT",
            ));
        }
    })
}

/// The words from the second on, in lower case.
fn rest(args: &Args<'_>) -> Words {
    let lower = |word: &Word| word.text.to_ascii_lowercase().into();
    args.words().iter().skip(1).map(lower).collect()
}

fn extensions(words: Words) -> Words {
    words.into_iter().map(|word| word.strip_prefix(b".").unwrap_or(&word).into()).collect()
}

/// Which responses one filter of a file changes.
pub(crate) struct OutputFilter {
    output: Output,
    types: MediaTypes,
    /// Extensions in lower case; none for all files.
    extensions: Option<Words>,
    /// Of `FilterProvider`.
    condition: Option<Arc<Expression>>,
}

impl OutputFilter {
    /// Whether it changes this response.
    pub(crate) fn applies(&self, exchange: &Exchange) -> bool {
        let content_type = exchange.response.content_type.as_deref();
        let is_own_page = exchange.error.is_some() && exchange.error_page_used == Replaced::No;
        !is_own_page
            && self.is_switched_on(exchange)
            && self.types.hold(content_type)
            && self.extensions.as_ref().is_none_or(|extensions| {
                let name = exchange.request.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let mut parts = name.split(|&byte| byte == b'.').skip(1);
                parts.any(|part| extensions.iter().any(|known| known.eq_ignore_ascii_case(part)))
            })
            && self.condition.as_ref().is_none_or(|condition| {
                // What cannot be judged within the request's budget is not changed.
                condition.holds(exchange, &exchange.budget()).unwrap_or(false)
            })
    }

    /// Whether the environment leaves it on.
    fn is_switched_on(&self, exchange: &Exchange) -> bool {
        match self.output {
            Output::Compress(Coding::Gzip) => {
                let content_type = exchange.response.content_type.as_deref();
                let is_html = content_type.is_some_and(|name| name.starts_with(b"text/html"));
                !is_set(exchange, b"no-gzip") && (is_html || !is_set(exchange, b"gzip-only-text/html"))
            }
            Output::Compress(_) => !is_set(exchange, b"no-brotli"),
            Output::Includes | Output::Substitute | Output::RateLimit => true,
        }
    }
}

/// Whether a variable is set, and not to zero.
fn is_set(exchange: &Exchange, name: &[u8]) -> bool {
    environment::get(exchange, name).is_some_and(|value| *value != *b"0")
}

/// The extensions whose files have filters by `AddOutputFilter`.
pub(crate) fn extensions_of(view: &View<'_>) -> Words {
    let mut known = Words::new();
    for line in values(view, &SET) {
        match line.kind {
            Kind::Extensions(gone) if line.filters.is_empty() => known.retain(|one| !gone.contains(one)),
            Kind::Extensions(more) => known.extend(more),
            _ => {}
        }
    }
    known
}

/// Which responses the files of a level apply a filter to: those for which one of the list holds.
pub(crate) fn filtered(view: &View<'_>, output: Output) -> Vec<OutputFilter> {
    let lines = values(view, &SET);
    let chain = chain(&lines);
    let mut extensions: Words = Vec::new();
    let (mut types, mut all): (Words, bool) = (Vec::new(), false);
    let mut filters = Vec::new();
    let filter = |types: Option<Words>, extensions, condition| OutputFilter {
        output,
        types: MediaTypes::exactly(types),
        extensions,
        condition,
    };
    for Line { filters: named, kind } in lines {
        let is_meant = named.contains(&output);
        match kind {
            Kind::All => all = is_meant,
            Kind::Types(more) if is_meant => types.extend(more),
            Kind::Extensions(more) if is_meant => extensions.extend(more),
            Kind::Extensions(gone) => extensions.retain(|known| !gone.contains(known)),
            Kind::Provided(name, condition) if is_meant && chain.contains(&name) => {
                filters.push(filter(None, None, Some(condition)));
            }
            Kind::Types(_) | Kind::Provided(..) | Kind::Chain(_) => {}
        }
    }
    if all {
        filters.push(filter(None, None, None));
    }
    if !types.is_empty() {
        filters.push(filter(Some(types), None, None));
    }
    if !extensions.is_empty() {
        filters.push(filter(None, Some(extensions), None));
    }
    filters
}

/// The names of the filters that count.
fn chain(lines: &[Line]) -> Words {
    let mut chain = Words::new();
    let changes = lines.iter().flat_map(|line| match &line.kind {
        Kind::Chain(changes) => &changes[..],
        _ => &[],
    });
    for change in changes {
        match &change[..] {
            [b'!', ..] => chain.clear(),
            [b'=', name @ ..] => chain = vec![name.into()],
            [b'-', name @ ..] => chain.retain(|known| **known != *name),
            [b'+' | b'@', name @ ..] | name => chain.push(name.into()),
        }
    }
    chain
}

/// What the files of a level have compressed, brotli first.
pub(crate) fn offers(view: &View<'_>) -> Vec<Offer> {
    let of_coding =
        |coding| filtered(view, Output::Compress(coding)).into_iter().map(move |f| offer(coding, f));
    [Coding::Brotli, Coding::Gzip].into_iter().flat_map(of_coding).collect()
}

fn offer(coding: Coding, filter: OutputFilter) -> Offer {
    let (settings, min_length) = match coding {
        Coding::Brotli => (Settings::Brotli { quality: LEVEL_BROTLI, window: WINDOW_BROTLI }, 1),
        _ => (Settings::Gzip { level: LEVEL_GZIP, window: WINDOW_GZIP }, LENGTH_MIN_GZIP),
    };
    Offer {
        coding,
        settings,
        types: MediaTypes::exactly(None),
        min_length,
        rules: None,
        condition: Some(Box::new(move |exchange| filter.applies(exchange))),
    }
}

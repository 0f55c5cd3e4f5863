//! Carries out commands in pages (server-side includes) as `.htaccess` files say: `Options +Includes` with the output
//! filter `INCLUDES` or the handler `server-parsed`.
//!
//! The commands are those of Apache: `include`, `echo`, `set`, `if`, `elif`, `else`, `endif`, `config`, `fsize`,
//! `flastmod`, `printenv` and `comment`. Expressions are those of `<If>`, with `v("NAME")` for a variable of the page.
//! What a page includes is a request inside of the server, to which all rules apply; `file` names a file in the
//! directory of the page or below it.
//!
//! Pages include each other up to 10 levels deep, as in Apache. One request includes at most 10,000 pages.
//!
//! `exec` is not supported: it leaves the message of an error. Neither is the syntax of expressions of Apache 2.2
//! (`SSILegacyExprParser`). Pages that the server's configuration has (`ssi on`) keep nginx's commands.
//!
//! nginx: none
//!
//! ```file html/page.shtml
//! <!--#set var="name" value="you & me" -->
//! <!--#include virtual="/top.txt" -->, <!--#echo var="name" -->
//! <!--#if expr='v("QUERY_STRING") = "long"' -->long<!--#else -->short<!--#endif -->
//! ```
//!
//! ```file html/top.txt
//! Hello
//! ```
//!
//! ```file html/.htaccess
//! Options +Includes
//! AddType text/html .shtml
//! AddOutputFilter INCLUDES .shtml
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /page.shtml HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//!
//!
//! Hello
//! , you &amp; me
//! short
//! ```

use crate::apache::mod_filter::{Output, OutputFilter, filtered};
use crate::apache::mod_mime::Parsed;
use crate::shared::apache::{in_file, last, wrong};
use crate::shared::files;
use crate::shared::per_directory::options;
use crate::transform::ssi;
use conf::value::{choice, flag};
use conf::{Arity, Diagnostic};
use contract::{Body, Directive, Exchange, Filter, Module, ScopeBuilder, View};
use std::os::unix::fs::MetadataExt;

/// Commands in pages.
pub static MODULE: Module = Module {
    name: "mod_include",
    directives: &[
        &X_BIT_HACK,
        &SSI_ERROR_MSG,
        &SSI_ETAG,
        &SSI_LAST_MODIFIED,
        &SSI_LEGACY_EXPR_PARSER,
        &SSI_TIME_FORMAT,
        &SSI_UNDEFINED_ECHO,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `XBitHack On | Off | Full`
pub(crate) static X_BIT_HACK: Directive<XBit> = in_file(Directive::new("XBitHack", |args, _| {
    let table = [("off", XBit::Off), ("on", XBit::On), ("full", XBit::Full)];
    args.value(0, |word| choice(word, &table))
}))
.args(Arity::Exactly(1))
.help("Whether files of HTML that their owner may execute are pages with commands.");

/// `SSIErrorMsg TEXT`
pub(crate) static SSI_ERROR_MSG: Directive<Box<[u8]>> =
    text("SSIErrorMsg", "The text for a command that fails.");

/// `SSIETag On | Off`
pub(crate) static SSI_ETAG: Directive<bool> =
    switch("SSIETag", "Whether pages with commands have an entity tag.");

/// `SSILastModified On | Off`
pub(crate) static SSI_LAST_MODIFIED: Directive<bool> =
    switch("SSILastModified", "Whether pages with commands have the time of the last modification.");

/// `SSILegacyExprParser Off`
pub(crate) static SSI_LEGACY_EXPR_PARSER: Directive<()> =
    in_file(Directive::new("SSILegacyExprParser", |args, _| match args.value(0, flag)? {
        true => Err(wrong(args, "an unsupported value", args.word(0)?).hint("write v(\"NAME\") for $NAME")),
        false => Ok(()),
    }))
    .args(Arity::Flag)
    .help("Whether expressions are those of Apache 2.2, which is not supported.");

/// `SSITimeFormat FORMAT`
pub(crate) static SSI_TIME_FORMAT: Directive<Box<[u8]>> =
    text("SSITimeFormat", "The form of dates, as for `strftime`.");

/// `SSIUndefinedEcho TEXT`
pub(crate) static SSI_UNDEFINED_ECHO: Directive<Box<[u8]>> =
    text("SSIUndefinedEcho", "The text for a variable that has no value.");

const fn text(name: &'static str, help: &'static str) -> Directive<Box<[u8]>> {
    in_file(Directive::new(name, |args, _| Ok(args.word(0)?.text.clone()))).args(Arity::Exactly(1)).help(help)
}

const fn switch(name: &'static str, help: &'static str) -> Directive<bool> {
    in_file(Directive::new(name, |args, _| args.value(0, flag))).args(Arity::Flag).default("off").help(help)
}

/// What the permission to execute a file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XBit {
    Off,
    On,
    /// As `On`; and if its group may execute a file, it keeps the time of its last modification.
    Full,
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let filters = filtered(view, Output::Includes);
    let parsed = Parsed::of(view);
    let x_bit = last(view, &X_BIT_HACK).unwrap_or(XBit::Off);
    let is_asked = !filters.is_empty() || parsed.is_some() || x_bit != XBit::Off;
    if is_asked && options::includes(view) {
        let text = |directive| last(view, directive).map(|text: Box<[u8]>| text.into_vec());
        builder.filter(Includes {
            filters,
            parsed,
            x_bit,
            keeps_tag: last(view, &SSI_ETAG).unwrap_or(false),
            keeps_time: last(view, &SSI_LAST_MODIFIED).unwrap_or(false),
            texts: ssi::Texts {
                error: text(&SSI_ERROR_MSG),
                date: text(&SSI_TIME_FORMAT),
                undefined: text(&SSI_UNDEFINED_ECHO),
            },
        });
    }
    Ok(())
}

struct Includes {
    filters: Vec<OutputFilter>,
    parsed: Option<Parsed>,
    x_bit: XBit,
    keeps_tag: bool,
    keeps_time: bool,
    texts: ssi::Texts,
}

impl Filter for Includes {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_error = exchange.response.status.is_error() || exchange.response.status.is_redirection();
        let mode = self.mode(exchange);
        let is_executable = mode.is_some_and(|mode| mode & 0o100 != 0);
        let is_parsed = self.parsed.as_ref().is_some_and(|parsed| parsed.has(&exchange.request.path));
        if is_error
            || !(is_executable || is_parsed || self.filters.iter().any(|filter| filter.applies(exchange)))
        {
            return body;
        }
        let (time, tag) = (exchange.response.last_modified, exchange.response.etag.clone());
        let body = ssi::expand_as_apache(exchange, body, &self.texts);
        let keeps_time =
            self.keeps_time || (self.x_bit == XBit::Full && mode.is_some_and(|mode| mode & 0o10 != 0));
        exchange.response.last_modified = time.filter(|_| keeps_time);
        exchange.response.etag = tag.filter(|_| self.keeps_tag);
        body
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

impl Includes {
    /// The permissions of a file of HTML, if they matter.
    fn mode(&self, exchange: &Exchange) -> Option<u32> {
        let content_type = exchange.response.content_type.as_deref().unwrap_or_default();
        if self.x_bit == XBit::Off || exchange.file.is_none() || !content_type.starts_with(b"text/html") {
            return None;
        }
        let path = exchange.path().ok()?;
        std::fs::metadata(files::as_path(&path)).ok().map(|metadata| metadata.mode())
    }
}

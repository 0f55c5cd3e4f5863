//! Replaces texts in responses: `sub_filter`.
//!
//! Fulmar searches for each text, ignoring the case of ASCII letters, and replaces it once in a response, or
//! everywhere with `sub_filter_once off`. A level may have up to 255 texts. Both the text and its replacement may
//! contain variables; an empty text is not searched for. If several texts begin at the same place, the first one of
//! the configuration is used. Replacements are not searched again. A level with its own `sub_filter` inherits none.
//!
//! This applies to responses of any status whose media type is in `sub_filter_types` (`text/html` always is, `*`
//! means all), and to responses of subrequests. Content of any length is changed while it is sent, also where a text
//! is split between two parts; compressed content is not changed. `Last-Modified` and `ETag` are removed, unless
//! `sub_filter_last_modified on` keeps the time, and a weak entity tag.
//!
//! nginx: --with-http_sub_module
//!
//! ```file html/page.html
//! <a href="http://INSIDE.example/">in</a> <a href="http://inside.example/x">x</a>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     sub_filter '"http://inside.example/' '"https://$host/';
//!     sub_filter '</a>' '</a>!';
//!     location /all/ {
//!         alias html/;
//!         sub_filter '</a>' '</a>!';
//!         sub_filter_once off;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//!
//! <a href="https://localhost/">in</a>! <a href="http://inside.example/x">x</a>
//! ---
//! GET /all/page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! <a href="http://INSIDE.example/">in</a>! <a href="http://inside.example/x">x</a>!
//! ```

mod automaton;
mod replacing;

use crate::shared::changed::changed;
use crate::shared::media_types::{self, MediaTypes, Words};
use crate::shared::validators;
use automaton::Automaton;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Body, Directive, Exchange, Filter, Loading, Module, Rule, ScopeBuilder, Template, View,
};
use replacing::Replacing;
use std::sync::Arc;

/// Texts that are replaced in responses.
pub static MODULE: Module = Module {
    name: "sub_filter",
    directives: &[&SUB_FILTER, &SUB_FILTER_ONCE, &SUB_FILTER_TYPES, &SUB_FILTER_LAST_MODIFIED],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// How many texts one level may replace, as in nginx.
const TEXTS_MAX: usize = 255;

/// `sub_filter TEXT REPLACEMENT`
pub static SUB_FILTER: Directive<Pair> = Directive::new("sub_filter", parse)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .help("A text and its replacement.");

/// `sub_filter_once on | off`
pub static SUB_FILTER_ONCE: Directive<bool> = Directive::flag("sub_filter_once")
    .within(LEVELS)
    .default("on")
    .help("Whether a text is replaced once in a response, or wherever it is.");

/// `sub_filter_types TYPE … | *`
pub static SUB_FILTER_TYPES: Directive<Words> = Directive::new("sub_filter_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types in which texts are replaced, besides `text/html`.");

/// `sub_filter_last_modified on | off`
pub static SUB_FILTER_LAST_MODIFIED: Directive<bool> = Directive::flag("sub_filter_last_modified")
    .within(LEVELS)
    .default("off")
    .help("Whether `Last-Modified` stays, and `ETag` as a weak one.");

/// A text and its replacement.
#[derive(Clone)]
pub struct Pair {
    text: Template,
    replacement: Template,
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Pair, Diagnostic> {
    let text = args.word(0)?;
    if text.text.is_empty() {
        return Err(Diagnostic::emerg("empty search pattern").at(args.node.span).under(text.span));
    }
    Ok(Pair { text: loading.template(text)?, replacement: loading.template(args.word(1)?)? })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&SUB_FILTER);
    if let Some(beyond) = written.get(TEXTS_MAX) {
        return Err(Diagnostic::emerg("number of search patterns exceeds 255").at(beyond.span));
    }
    if written.is_empty() {
        return Ok(());
    }
    let pairs: Box<[Pair]> = written.into_iter().map(|written| written.value.clone()).collect();
    let texts: Option<Vec<&[u8]>> = pairs.iter().map(|pair| pair.text.constant()).collect();
    let automaton = texts.map(|texts| Arc::new(Automaton::new(texts)));
    let flag = |directive, default| view.get(directive).copied().unwrap_or(default);
    builder.filter(SubFilter {
        automaton,
        pairs,
        once: flag(&SUB_FILTER_ONCE, true),
        keeps_time: flag(&SUB_FILTER_LAST_MODIFIED, false),
        types: MediaTypes::of(view, &SUB_FILTER_TYPES, &[]),
    });
    Ok(())
}

struct SubFilter {
    pairs: Box<[Pair]>,
    /// Made beforehand where no text has variables.
    automaton: Option<Arc<Automaton>>,
    once: bool,
    keeps_time: bool,
    types: MediaTypes,
}

impl Filter for SubFilter {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let response = &exchange.response;
        if response.content_length == Some(0)
            || response.is_coded()
            || !self.types.hold(response.content_type.as_deref())
            || matches!(body, Body::Tunnel(_))
        {
            return body;
        }
        let Some(replacing) = self.replacing(exchange) else { return body };
        exchange.response.content_length = None;
        exchange.file = None;
        match self.keeps_time {
            true => validators::weaken(&mut exchange.response),
            false => validators::remove(&mut exchange.response),
        }
        if exchange.is_head() { Body::Empty } else { changed(body, replacing) }
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

impl SubFilter {
    /// The replacement for this exchange, or `None` where there is no text to look for.
    fn replacing(&self, exchange: &Exchange) -> Option<Replacing> {
        let replacement = |pair: &Pair| pair.replacement.evaluate(exchange).into();
        if let Some(automaton) = &self.automaton {
            let replacements = self.pairs.iter().map(replacement).collect();
            return Some(Replacing::new(Arc::clone(automaton), replacements, self.once));
        }
        let texts = self.pairs.iter().map(|pair| (pair.text.evaluate(exchange), pair));
        let texts: Vec<_> = texts.filter(|(text, _)| !text.is_empty()).collect();
        let replacements: Vec<_> = texts.iter().map(|(_, pair)| replacement(pair)).collect();
        let automaton = Automaton::new(texts.iter().map(|(text, _)| &**text));
        (!texts.is_empty()).then(|| Replacing::new(automaton.into(), replacements, self.once))
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::changed::tests::drain;
    use crate::testing::Site;
    use contract::{Body, Exchange};

    const TEXT: &str = "foo Foo bar";

    fn send(text: &str, change: impl FnOnce(&mut Exchange)) -> (Exchange, String) {
        let site = Site::location(text);
        let mut exchange = site.get("/?a=foo&b=BAR");
        let response = &mut exchange.response;
        response.content_type = Some("text/html; charset=utf-8".into());
        response.content_length = Some(TEXT.len() as u64);
        response.etag = Some("\"a\"".into());
        response.last_modified = Some(1);
        change(&mut exchange);
        let scope = std::sync::Arc::clone(&exchange.scope);
        let body = Body::bytes(TEXT);
        let body = scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
        let text = String::from_utf8(drain(body).unwrap()).unwrap();
        (exchange, text)
    }

    #[test]
    fn the_head_tells_that_the_content_is_another() {
        let (exchange, text) = send("sub_filter foo 1; sub_filter bar $arg_a;", |_| {});
        assert_eq!(text, "1 Foo foo");
        let response = &exchange.response;
        assert_eq!((response.content_length, response.last_modified), (None, None));
        assert!(response.etag.is_none());
        let (exchange, text) =
            send("sub_filter foo 1; sub_filter_once off; sub_filter_last_modified on;", |_| {});
        assert_eq!(text, "1 1 bar");
        assert_eq!(exchange.response.last_modified, Some(1));
        assert_eq!(exchange.response.etag.as_deref(), Some(&b"W/\"a\""[..]));
    }

    #[test]
    fn texts_with_variables() {
        let text = |conf: &str| send(conf, |_| {}).1;
        assert_eq!(text("sub_filter $arg_b 1; sub_filter $arg_c 2;"), "foo Foo 1");
        let (exchange, text) = send("sub_filter $arg_c 2;", |_| {});
        assert_eq!((text.as_str(), exchange.response.content_length), (TEXT, Some(TEXT.len() as u64)));
    }

    #[test]
    fn what_is_left_as_it_is() {
        let is_changed = |conf: &str, change: fn(&mut Exchange)| send(conf, change).1 != TEXT;
        assert!(is_changed("sub_filter foo 1;", |_| {}));
        assert!(is_changed("sub_filter foo 1;", |exchange| exchange.response.status.0 = 500));
        assert!(!is_changed("sub_filter foo 1;", |exchange| exchange.response.content_length = Some(0)));
        assert!(!is_changed("sub_filter foo 1;", |exchange| exchange.response.content_type = None));
        assert!(is_changed("sub_filter foo 1; sub_filter_types *;", |exchange| exchange
            .response
            .content_type = None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(Site::error("sub_filter '' a;"), "empty search pattern");
        let many = "sub_filter a b;".repeat(256);
        assert_eq!(Site::error(&many), "number of search patterns exceeds 255");
    }
}

//! The charset that `Content-Type` names.
//!
//! `charset NAME` adds `; charset=NAME` to responses whose media type is in `charset_types` (`text/html` always is,
//! `*` is all) and that name none; `override_charset on` puts it in the place of one that another server named. The
//! name may be a variable. Redirections with 301 and 302 get none, as in nginx. The content is not changed: recoding
//! from another charset (`source_charset`) is not built.
//!
//! ```file html/note.txt
//! note
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     charset utf-8;
//!     types { text/plain txt; }
//!     root html;
//! }
//! ```
//!
//! ```http
//! GET /note.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/plain; charset=utf-8
//!
//! note
//! ```

use crate::shared::media_types::{self, MediaTypes, Words};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Filter, Module, Rule, ScopeBuilder, Template, View};
use http::Status;

/// The charset of responses.
pub static MODULE: Module = Module {
    name: "charset",
    directives: &[&CHARSET, &CHARSET_TYPES, &OVERRIDE_CHARSET],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `charset NAME | off`
pub static CHARSET: Directive<Option<Template>> = Directive::new("charset", |args, loading| {
    let word = args.word(0)?;
    if word.is("off") { Ok(None) } else { loading.template(word).map(Some) }
})
.within(LEVELS.or(Contexts::LOCATION_IF))
.default("off")
.help("The charset that is added to Content-Type.");

/// `charset_types TYPE … | *`
pub static CHARSET_TYPES: Directive<Words> = Directive::new("charset_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml")
    .help("The media types that get a charset, besides `text/html`.");

/// `override_charset on | off`
pub static OVERRIDE_CHARSET: Directive<bool> = Directive::flag("override_charset")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether a charset that another server named is replaced.");

const TYPES: [&str; 5] =
    ["text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(name) = view.get(&CHARSET).cloned().flatten() {
        builder.filter(Charset {
            name,
            types: MediaTypes::of(view, &CHARSET_TYPES, &TYPES),
            replaces: view.get(&OVERRIDE_CHARSET).copied().unwrap_or(false),
        });
    }
    Ok(())
}

struct Charset {
    name: Template,
    types: MediaTypes,
    replaces: bool,
}

impl Filter for Charset {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_moved = matches!(exchange.response.status, Status::MOVED_PERMANENTLY | Status::FOUND);
        if let Some(media_type) = exchange.response.content_type.as_deref().filter(|_| !is_moved)
            && let Some(named) = self.name(exchange, media_type)
        {
            exchange.response.content_type = Some(named);
        }
        body
    }
}

impl Charset {
    /// The media type with the charset, where it gets one.
    fn name(&self, exchange: &Exchange, media_type: &[u8]) -> Option<Bytes> {
        let mut parts = media_type.split(|&byte| byte == b';');
        let bare = parts.next().unwrap_or_default().trim_ascii_end();
        let has_charset = parts.any(is_charset);
        if if has_charset { !self.replaces } else { !self.types.hold(Some(bare)) } {
            return None;
        }
        let kept = if has_charset { bare } else { media_type };
        let name = self.name.evaluate(exchange);
        (!name.is_empty()).then(|| [kept, b"; charset=", &name].concat().into())
    }
}

fn is_charset(parameter: &[u8]) -> bool {
    const NAME: &[u8] = b"charset=";
    parameter.trim_ascii_start().get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::Body;

    fn named(conf: &str, media_type: &'static str, status: u16) -> String {
        let site = Site::location(conf);
        let mut exchange = site.get("/?c=latin1");
        exchange.response.status.0 = status;
        exchange.response.content_type = (!media_type.is_empty()).then(|| media_type.into());
        let scope = std::sync::Arc::clone(&exchange.scope);
        let _ = scope.filters().iter().fold(Body::Empty, |body, filter| filter.apply(&mut exchange, body));
        exchange.response.content_type.map_or_else(String::new, |text| String::from_utf8_lossy(&text).into())
    }

    #[test]
    fn what_names_none_gets_one() {
        let of = |media_type| named("charset utf-8;", media_type, 200);
        assert_eq!(of("text/html"), "text/html; charset=utf-8");
        assert_eq!(of("text/plain; format=flowed"), "text/plain; format=flowed; charset=utf-8");
        assert_eq!(of("text/html; Charset=x"), "text/html; Charset=x");
        assert_eq!([of("image/png"), of("")], ["image/png", ""]);
        assert_eq!(named("charset utf-8;", "text/html", 302), "text/html");
        assert_eq!(named("charset utf-8;", "text/html", 404), "text/html; charset=utf-8");
    }

    #[test]
    fn as_configured() {
        assert_eq!(named("charset off;", "text/html", 200), "text/html");
        assert_eq!(named("charset $arg_c;", "text/html", 200), "text/html; charset=latin1");
        assert_eq!(named("charset $arg_d;", "text/html", 200), "text/html");
        assert_eq!(named("charset a; charset_types *;", "image/png", 200), "image/png; charset=a");
        assert_eq!(named("charset a; charset_types image/png;", "text/css", 200), "text/css");
        let overrides = "charset a; override_charset on;";
        assert_eq!(named(overrides, "text/css; charset=b", 200), "text/css; charset=a");
    }
}

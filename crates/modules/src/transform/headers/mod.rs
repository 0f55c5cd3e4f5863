//! Adds headers to responses: `add_header`, `add_trailer`, `expires`.
//!
//! `add_header` adds a header to responses with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308, and with
//! `always` to all responses. An empty value adds nothing. `add_header Last-Modified` and `add_header ETag` replace
//! the server's own header; with an empty value they remove it. `add_trailer` adds a header after the content, for
//! clients with HTTP/1.1 or HTTP/2. Its value is computed when the content has been sent.
//!
//! `add_header_inherit` says which `add_header` of outer levels apply to a level: with `on`, the default, all of them
//! if the level itself has none, and otherwise none; with `merge` all of them in any case; with `off` none.
//! `add_trailer_inherit` says the same of `add_trailer`.
//!
//! `expires` sets `Expires` and `Cache-Control`: a time from now on (negative for the past), a time after the last
//! modification (`modified`), a time of day (`@15h30m`), `epoch` for content that is stale at once, `max` for content
//! that stays fresh for years, or `off`. With both `expires` and `add_header Cache-Control` the response has two
//! `Cache-Control` headers. A `*` in the example stands for any text.
//!
//! `Content-Length` and `Transfer-Encoding` cannot be added, because they say where the content ends. `add_header
//! Content-Length`, which many configurations contain for empty responses, is ignored with a warning. `add_header
//! Transfer-Encoding` is an error.
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     add_header X-Server outer;
//!     location /page.txt {
//!         add_header X-Location "of $request_uri";
//!         add_header Cache-Control public;
//!         add_header_inherit merge;
//!         expires 1h;
//!     }
//!     location /missing {
//!         add_header X-Always yes always;
//!         add_header X-Good yes;
//!         return 404;
//!     }
//!     location /never {
//!         expires epoch;
//!         return 204;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Location: of /page.txt
//! X-Server: outer
//! Expires: *
//! Cache-Control: max-age=3600
//! Cache-Control: public
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! X-Always: yes
//! ---
//! GET /never HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 204 No Content
//! X-Server: outer
//! Expires: Thu, 01 Jan 1970 00:00:01 GMT
//! Cache-Control: no-cache
//! ```

pub(crate) mod expires;

use crate::shared::scratch::with_scratch;
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{
    Args, Body, Directive, Exchange, Filter, Loading, Module, Rule, ScopeBuilder, Template, View,
};
use expires::Expires;
use http::Status;
use journal::Level;

/// Fields added to responses.
pub static MODULE: Module = Module {
    name: "headers",
    directives: &[&EXPIRES, &ADD_HEADER, &ADD_HEADER_INHERIT, &ADD_TRAILER, &ADD_TRAILER_INHERIT],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF);

/// `expires [modified] TIME | @TIME | epoch | max | off`
pub static EXPIRES: Directive<Expires> = Directive::new("expires", expires::parse)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .default("off")
    .help("When content expires: sets `Expires` and `Cache-Control`.");

/// `add_header NAME VALUE [always]`
pub static ADD_HEADER: Directive<Added> = Directive::new("add_header", parse_header)
    .within(LEVELS)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .help("A header that is added to responses.");

/// `add_header_inherit on | off | merge`
pub static ADD_HEADER_INHERIT: Directive<Inherit> = Directive::new("add_header_inherit", parse_inherit)
    .within(LEVELS)
    .default("on")
    .help("Inherits `add_header` of outer levels: `on` if the level has none itself, `merge` always, `off` never.");

/// `add_trailer NAME VALUE [always]`
pub static ADD_TRAILER: Directive<Added> = Directive::new("add_trailer", parse_added)
    .within(LEVELS)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .help("A header that is added after the content.");

/// `add_trailer_inherit on | off | merge`
pub static ADD_TRAILER_INHERIT: Directive<Inherit> = Directive::new("add_trailer_inherit", parse_inherit)
    .within(LEVELS)
    .default("on")
    .help("Inherits `add_trailer` of outer levels: `on` if the level has none itself, `merge` always, `off` never.");

/// A field to add.
#[derive(Clone)]
pub struct Added {
    name: Box<[u8]>,
    value: Template,
    always: bool,
    /// It stands there, and is not added.
    left_out: bool,
}

/// What a level takes over from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    /// Nothing.
    Off,
    /// All, if it sets none itself.
    On,
    /// All, after its own.
    Merge,
}

fn parse_header(args: &Args<'_>, loading: &mut Loading) -> Result<Added, Diagnostic> {
    let mut added = parse_added(args, loading)?;
    let word = args.word(0)?;
    if word.text.eq_ignore_ascii_case(b"transfer-encoding") {
        let message = format!("\"add_header\" cannot add \"{word}\", which says where the content ends");
        return Err(Diagnostic::emerg(message).at(args.node.span).under(word.span));
    }
    if word.text.eq_ignore_ascii_case(b"content-length") {
        let message =
            format!("\"add_header {word}\" is left out, since the server says where the content ends");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span).hint("delete the line"));
        added.left_out = true;
    }
    Ok(added)
}

fn parse_added(args: &Args<'_>, loading: &mut Loading) -> Result<Added, Diagnostic> {
    let always = match args.words().get(2) {
        None => false,
        Some(word) if word.is("always") => true,
        Some(word) => return Err(args.invalid(word)),
    };
    let value = loading.template(args.word(1)?)?;
    Ok(Added { name: args.word(0)?.text.clone(), value, always, left_out: false })
}

fn parse_inherit(args: &Args<'_>, _: &mut Loading) -> Result<Inherit, Diagnostic> {
    const CHOICES: [(&str, Inherit); 3] =
        [("off", Inherit::Off), ("on", Inherit::On), ("merge", Inherit::Merge)];
    args.value(0, |word| value::choice(word, &CHOICES))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let mut headers = inherited(*view, &ADD_HEADER, &ADD_HEADER_INHERIT);
    headers.retain(|added| !added.left_out);
    let trailers = inherited(*view, &ADD_TRAILER, &ADD_TRAILER_INHERIT);
    let expires = view.get(&EXPIRES).filter(|expires| !expires.is_off()).cloned();
    if !headers.is_empty() || !trailers.is_empty() || expires.is_some() {
        builder.filter(AddFields { expires, headers, trailers });
    }
    Ok(())
}

/// The fields that a level adds. It is not a [`Rule`]: another directive decides at each level what is inherited, and
/// inherited fields follow the level's own, as in nginx.
fn inherited(view: View<'_>, directive: &Directive<Added>, inherit: &Directive<Inherit>) -> Vec<Added> {
    let mut own: Vec<Added> = view.here(directive).iter().map(|written| written.value.clone()).collect();
    let mode = view.get(inherit).copied().unwrap_or(Inherit::On);
    let takes = mode == Inherit::Merge || mode == Inherit::On && own.is_empty();
    if let Some(outer) = view.enclosing().next().filter(|_| takes) {
        own.extend(inherited(outer, directive, inherit));
    }
    own
}

/// Adds fields to a response.
struct AddFields {
    expires: Option<Expires>,
    headers: Vec<Added>,
    trailers: Vec<Added>,
}

impl Filter for AddFields {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let good = is_good(exchange.response.status);
        if let Some(expires) = self.expires.as_ref().filter(|_| good) {
            expires.apply(exchange);
        }
        for added in self.headers.iter().filter(|added| good || added.always) {
            with_scratch(|value| {
                added.value.write(exchange, value);
                one_line(value);
                add(exchange, &added.name, value);
            });
        }
        exchange.response.expects_trailers |= self.trailers.iter().any(|added| good || added.always);
        body
    }

    fn end(&self, exchange: &mut Exchange) {
        let good = is_good(exchange.response.status);
        for added in self.trailers.iter().filter(|added| good || added.always) {
            let mut value = added.value.evaluate(exchange);
            one_line(&mut value);
            if !value.is_empty() && exchange.response.trailers.push(&added.name, &value).is_err() {
                complain(exchange, &added.name);
            }
        }
    }
}

/// A value that stays within its line: CR, LF and NUL become spaces (RFC 9110, section 5.5), so that
/// what a client put into a variable cannot add a field or a response.
fn one_line(value: &mut Vec<u8>) {
    for byte in value.iter_mut() {
        if matches!(byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
    value.truncate(value.trim_ascii_end().len());
}

/// Whether fields are added without `always`.
fn is_good(status: Status) -> bool {
    matches!(status.0, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

fn add(exchange: &mut Exchange, name: &[u8], value: &[u8]) {
    let response = &mut exchange.response;
    if name.eq_ignore_ascii_case(b"etag") {
        response.etag = (!value.is_empty()).then(|| Bytes::copy_from_slice(value));
        return;
    }
    if name.eq_ignore_ascii_case(b"last-modified") {
        response.last_modified = http::parse_date(value);
        response.fields.remove("last-modified");
        let canonical = response.last_modified.map(http::format_date);
        if canonical.is_some_and(|text| text.as_bytes() == value) {
            return;
        }
        response.last_modified = None;
    }
    if !value.is_empty() && response.fields.push(name, value).is_err() {
        complain(exchange, name);
    }
}

fn complain(exchange: &Exchange, name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    exchange.log(Level::Error, &format!("\"{name}\" is no name of a field, it is left out"));
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Body, Exchange};
    use http::Status;

    fn filtered(site: &Site, target: &str, status: u16) -> Exchange {
        let mut exchange = site.get(target);
        exchange.response.status = Status(status);
        exchange.wire.answered = true;
        exchange.response.etag = Some(b"\"old\"".as_slice().into());
        exchange.response.last_modified = Some(784_111_777);
        let scope = std::sync::Arc::clone(&exchange.scope);
        let mut body = Body::Empty;
        for filter in scope.filters() {
            body = filter.apply(&mut exchange, body);
        }
        for filter in scope.filters() {
            filter.end(&mut exchange);
        }
        exchange
    }

    fn fields(exchange: &Exchange) -> Vec<String> {
        let text = String::from_utf8_lossy;
        exchange.response.fields.iter().map(|f| format!("{}: {}", text(f.name), text(f.value))).collect()
    }

    #[test]
    fn errors_only_get_what_is_always_added() {
        let site = Site::location("add_header X-A 1 always; add_header X-B $arg_b; add_header X-C \"\";");
        assert_eq!(fields(&filtered(&site, "/?b=2", 200)), ["X-A: 1", "X-B: 2"]);
        assert_eq!(fields(&filtered(&site, "/?b=2", 404)), ["X-A: 1"]);
        for status in [201, 204, 206, 301, 302, 303, 304, 307, 308] {
            assert_eq!(fields(&filtered(&site, "/?b=2", status)).len(), 2, "{status}");
        }
        for status in [202, 300, 305, 400, 500] {
            assert_eq!(fields(&filtered(&site, "/?b=2", status)).len(), 1, "{status}");
        }
    }

    #[test]
    fn validators_are_replaced() {
        let site = Site::location("add_header ETag '\"new\"'; add_header Last-Modified '';");
        let exchange = filtered(&site, "/", 200);
        assert_eq!(exchange.response.etag.as_deref(), Some(&b"\"new\""[..]));
        assert_eq!(exchange.response.last_modified, None);
        assert!(fields(&exchange).is_empty());
        let text = "Sunday, 06-Nov-94 08:49:38 GMT";
        let exchange = filtered(&Site::location(&format!("add_header Last-Modified '{text}';")), "/", 200);
        assert_eq!(exchange.response.last_modified, None);
        assert_eq!(fields(&exchange), [format!("Last-Modified: {text}")], "sent as it was written");
        let site = Site::location("add_header last-modified soon;");
        let exchange = filtered(&site, "/", 200);
        assert_eq!(
            (exchange.response.last_modified, fields(&exchange)),
            (None, vec!["last-modified: soon".into()])
        );
    }

    #[test]
    fn a_line_end_never_gets_into_the_head() {
        let site = Site::location("add_header X-A $uri;");
        let exchange = filtered(&site, "/a\r\nSet-Cookie: b\n", 200);
        assert_eq!(fields(&exchange), ["X-A: /a  Set-Cookie: b"]);
    }

    #[test]
    fn trailers_are_kept_apart() {
        let site = Site::location("add_trailer X-T $status;");
        let exchange = filtered(&site, "/", 200);
        assert!(exchange.response.expects_trailers);
        assert_eq!(exchange.response.trailers.get("x-t"), Some(&b"200"[..]));
        assert!(fields(&exchange).is_empty());
        let refused = filtered(&site, "/", 500).response;
        assert!(refused.trailers.is_empty() && !refused.expects_trailers);
    }

    #[test]
    fn inheritance() {
        let inner = |mode: &str| {
            let text = format!("add_header A 1; add_header B 2; if ($arg_x) {{ {mode} }}");
            let site = Site::location(&text);
            let scope = site.inner();
            let mut exchange = site.get("/");
            exchange.scope = scope.clone();
            for filter in scope.filters() {
                filter.apply(&mut exchange, Body::Empty);
            }
            fields(&exchange)
        };
        assert_eq!(inner(""), ["A: 1", "B: 2"]);
        assert_eq!(inner("add_header C 3;"), ["C: 3"]);
        assert_eq!(inner("add_header C 3; add_header_inherit merge;"), ["C: 3", "A: 1", "B: 2"]);
        assert!(inner("add_header_inherit off;").is_empty());
        assert_eq!(inner("add_header Content-Length 7; add_header C 3;"), ["C: 3"]);
        assert!(inner("add_header content-length 7;").is_empty(), "it counts as written");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(Site::error("add_header a b c;"), "invalid parameter \"c\"");
        assert!(Site::error("add_header transfer-encoding x;").contains("where the content ends"));
    }
}

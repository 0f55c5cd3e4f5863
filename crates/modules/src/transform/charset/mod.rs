//! Sets the charset in `Content-Type`, and converts content to another charset.
//!
//! `charset NAME` adds `; charset=NAME` to responses without a charset whose media type is in `charset_types`
//! (`text/html` always is, `*` means all). With `override_charset on` it replaces the charset of an upstream server.
//! Redirects with 301 and 302 get none, as in nginx.
//!
//! Fulmar converts content if `source_charset` names another charset, or if `override_charset` replaces the charset
//! of an upstream server. This needs a `charset_map` of the two charsets, which works in both directions. Each line
//! of the map contains a byte on the left, and its counterpart in the other charset on the right, both in hexadecimal
//! digits. Bytes without a line become `?`. UTF-8, which must be on the right, may have up to three bytes; characters
//! that the map does not contain become HTML references (`&#8364;`). nginx ships files with `charset_map` for common
//! charsets; use `include`. If there is no map, the content stays as it is, and the error log says so. Compressed
//! content is not converted.
//!
//! An upstream server can choose the charset with `X-Accel-Charset`.
//!
//! `charset` and `source_charset` may be variables. Responses of subrequests are converted to the charset of the
//! response that they become part of.
//!
//! ```file html/note.txt
//! note
//! ```
//!
//! ```file html/old.html
//! 10 EUR
//! ```
//!
//! ```conf
//! charset_map my-charset utf-8 {
//!     23 E282AC; # the euro instead of #
//! }
//! server {
//!     listen 8080;
//!     charset utf-8;
//!     types { text/plain txt; text/html html; }
//!     root html;
//!     location = /price {
//!         source_charset my-charset;
//!         default_type text/html;
//!         return 200 "10 #";
//!     }
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
//! ---
//! GET /price HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html; charset=utf-8
//! Transfer-Encoding: chunked
//!
//! 10 €
//! ```

mod recoding;
mod table;
mod utf8;

pub use table::CharsetMap;

use crate::shared::changed::changed;
use crate::shared::gateway::NamedCharset;
use crate::shared::media_types::{self, MediaTypes, Words};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Body, Directive, Exchange, Filter, Loading, Module, Reach, Rule, ScopeBuilder, Template, View,
};
use http::Status;
use journal::Level;
use recoding::Recoding;
use std::rc::Rc;
use std::sync::Arc;
use table::Table;

/// The charset of responses.
pub static MODULE: Module = Module {
    name: "charset",
    directives: &[&CHARSET, &SOURCE_CHARSET, &CHARSET_MAP, &CHARSET_TYPES, &OVERRIDE_CHARSET],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `charset NAME | off`
pub static CHARSET: Directive<Option<Template>> = Directive::new("charset", |args, loading| {
    if args.word(0)?.is("off") { Ok(None) } else { parse_name(args, loading).map(Some) }
})
.within(LEVELS.or(Contexts::LOCATION_IF))
.default("off")
.help("The charset of responses, which Content-Type names.");

/// `source_charset NAME`
pub static SOURCE_CHARSET: Directive<Template> = Directive::new("source_charset", parse_name)
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .help("The charset that the content is stored in.");

/// `charset_map NAME NAME { … }`
pub static CHARSET_MAP: Directive<CharsetMap> = Directive::new("charset_map", table::parse)
    .within(Contexts::HTTP)
    .block(Arity::Exactly(2))
    .rule(Rule::List)
    .help("A table from the bytes of one charset to those of another.");

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
    .help("Whether the charset of an upstream server is replaced, and its content converted.");

const TYPES: [&str; 5] =
    ["text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"];

/// A name, or a variable; a dollar further on is a part of the name.
fn parse_name(args: &Args<'_>, loading: &mut Loading) -> Result<Template, Diagnostic> {
    let word = args.word(0)?;
    if word.text.starts_with(b"$") { loading.template(word) } else { Ok(Template::literal(&word.text)) }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let maps = view.all(&CHARSET_MAP);
    for (at, map) in maps.iter().enumerate() {
        if maps[..at].iter().any(|earlier| earlier.value.is_like(map.value)) {
            return Err(Diagnostic::emerg(map.value.duplicate()).at(map.span));
        }
    }
    let name = view.get(&CHARSET).cloned().flatten();
    // What a subrequest answers may have to be recoded, whatever its own location says.
    if name.is_none() && !view.is_anywhere(&CHARSET_MAP) {
        return Ok(());
    }
    let spelled = |name: Template| {
        let known = name.constant().and_then(|name| maps.iter().find_map(|map| map.value.spelling(name)));
        known.map_or(name, Template::literal)
    };
    let charset = Charset {
        name: name.map(spelled),
        source: view.get(&SOURCE_CHARSET).cloned(),
        types: MediaTypes::of(view, &CHARSET_TYPES, &TYPES),
        replaces: view.get(&OVERRIDE_CHARSET).copied().unwrap_or(false),
        maps: maps.iter().map(|map| map.value.clone()).collect(),
    };
    if let (Some(to), Some(source)) = (&charset.name, view.written(&SOURCE_CHARSET))
        && let (Some(to), Some(from)) = (to.constant(), source.value.constant())
        && !from.eq_ignore_ascii_case(to)
        && charset.table(from, to).is_none()
    {
        return Err(Diagnostic::emerg(no_map(from, to)).at(source.span));
    }
    builder.filter(charset);
    Ok(())
}

struct Charset {
    name: Option<Template>,
    source: Option<Template>,
    types: MediaTypes,
    replaces: bool,
    maps: Box<[CharsetMap]>,
}

/// The charset of a response, for what becomes a part of it; attached to the exchange.
struct Whole(Bytes);

impl Filter for Charset {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if matches!(body, Body::Tunnel(_)) {
            return body;
        }
        if exchange.subrequest {
            return match exchange.attached::<Whole>() {
                Some(whole) => self.recode(exchange, &whole.0, body),
                None => body,
            };
        }
        let body = match self.destination(exchange) {
            Some(name) => self.recode(exchange, &name, body),
            None => body,
        };
        if !self.maps.is_empty()
            && let Some(name) = exchange.response.content_type.as_deref().and_then(named)
        {
            exchange.attach(Reach::Shared, Rc::new(Whole(Bytes::copy_from_slice(name))));
        }
        body
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

impl Charset {
    /// The charset that a response is to have, where that is said.
    fn destination(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let media_type = exchange.response.content_type.as_deref()?;
        if let Some(said) = exchange.attached::<NamedCharset>() {
            return self.known(exchange, &said.0);
        }
        let name = self.name.as_ref()?;
        let is_meant = match named(media_type) {
            Some(_) => self.replaces,
            None => self.types.hold(Some(media_type)),
        };
        is_meant.then(|| name.evaluate(exchange))
    }

    /// A charset that another server asks for, where the configuration has it.
    fn known(&self, exchange: &Exchange, name: &[u8]) -> Option<Vec<u8>> {
        let own = [&self.name, &self.source].into_iter().flatten().filter_map(Template::constant);
        let mut known = own.chain(self.maps.iter().filter_map(|map| map.spelling(name)));
        let is_known = known.any(|known| known.eq_ignore_ascii_case(name));
        if !is_known {
            let name = String::from_utf8_lossy(name);
            exchange.log(Level::Error, &format!("unknown charset \"{name}\" to override"));
        }
        is_known.then(|| name.to_vec())
    }

    /// Gives content this charset, and says so.
    fn recode(&self, exchange: &mut Exchange, to: &[u8], body: Body) -> Body {
        let media_type = exchange.response.content_type.clone().unwrap_or_default();
        let from = match (named(&media_type), &self.source) {
            (Some(name), _) => name.to_vec(),
            (None, Some(source)) => source.evaluate(exchange),
            (None, None) => {
                say(exchange, &media_type, to);
                return body;
            }
        };
        let table = match self.table(&from, to) {
            _ if from.eq_ignore_ascii_case(to) => None,
            _ if exchange.response.is_coded() => return body,
            None => {
                exchange.log(Level::Error, &no_map(&from, to));
                return body;
            }
            table => table,
        };
        say(exchange, bare(&media_type), to);
        let Some(table) = table else { return body };
        exchange.file = None;
        let is_main = !exchange.subrequest;
        if is_main && !matches!(**table, Table::Bytes(_)) {
            exchange.response.content_length = None;
        }
        let recoding = Recoding::new(Arc::clone(table));
        if exchange.is_head() { Body::Empty } else { changed(body, recoding) }
    }

    fn table(&self, from: &[u8], to: &[u8]) -> Option<&Arc<Table>> {
        self.maps.iter().find_map(|map| map.table(from, to))
    }
}

/// Adds a charset to a media type, for a client.
fn say(exchange: &mut Exchange, media_type: &[u8], charset: &[u8]) {
    let is_moved = matches!(exchange.response.status, Status::MOVED_PERMANENTLY | Status::FOUND);
    if !exchange.subrequest && !is_moved && !charset.is_empty() {
        exchange.response.content_type = Some([media_type, b"; charset=", charset].concat().into());
    }
}

fn no_map(from: &[u8], to: &[u8]) -> String {
    let [from, to] = [from, to].map(String::from_utf8_lossy);
    format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"")
}

/// A media type without its parameters.
fn bare(media_type: &[u8]) -> &[u8] {
    media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end()
}

/// The charset that a media type names.
fn named(media_type: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset=";
    media_type.split(|&byte| byte == b';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.trim_ascii().split_at_checked(NAME.len())?;
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        name.eq_ignore_ascii_case(NAME).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use crate::shared::changed::tests::drain;
    use crate::testing::Site;
    use contract::{Body, Exchange, Reach};
    use std::rc::Rc;

    const MAPS: &str = "charset_map B A { 58 59; } charset_map latin1 utf-8 { e4 c3a4; 80 E282AC; }";

    fn filtered(exchange: &mut Exchange, body: Body) -> Body {
        let scope = std::sync::Arc::clone(&exchange.scope);
        scope.filters().iter().fold(body, |body, filter| filter.apply(exchange, body))
    }

    fn media_type_of(exchange: &Exchange) -> String {
        String::from_utf8_lossy(exchange.response.content_type.as_deref().unwrap_or_default()).into_owned()
    }

    fn said(conf: &str, media_type: &'static str, status: u16) -> String {
        let site = Site::location(conf);
        let mut exchange = site.get("/?c=latin1");
        exchange.response.status.0 = status;
        exchange.response.content_type = (!media_type.is_empty()).then(|| media_type.into());
        filtered(&mut exchange, Body::Empty);
        media_type_of(&exchange)
    }

    /// The media type, the content and its announced length.
    fn recoded(conf: &str, media_type: &'static str, text: &'static [u8]) -> (String, Vec<u8>, Option<u64>) {
        let site = Site::location(&format!("{MAPS} {conf}"));
        let mut exchange = site.get("/?c=A");
        exchange.response.content_type = Some(media_type.into());
        exchange.response.content_length = Some(text.len() as u64);
        let body = filtered(&mut exchange, Body::bytes(text));
        (media_type_of(&exchange), drain(body).unwrap(), exchange.response.content_length)
    }

    #[test]
    fn what_names_none_gets_one() {
        let of = |media_type| said("charset utf-8;", media_type, 200);
        assert_eq!(of("text/html"), "text/html; charset=utf-8");
        assert_eq!(of("text/plain; format=flowed"), "text/plain; format=flowed; charset=utf-8");
        assert_eq!(of("text/html; Charset=x"), "text/html; Charset=x");
        assert_eq!([of("image/png"), of("")], ["image/png", ""]);
        assert_eq!(said("charset utf-8;", "text/html", 302), "text/html");
        assert_eq!(said("charset utf-8;", "text/html", 404), "text/html; charset=utf-8");
    }

    #[test]
    fn as_configured() {
        assert_eq!(said("charset off;", "text/html", 200), "text/html");
        assert_eq!(said("charset $arg_c;", "text/html", 200), "text/html; charset=latin1");
        assert_eq!(said("charset $arg_d;", "text/html", 200), "text/html");
        assert_eq!(said("charset a$b;", "text/html", 200), "text/html; charset=a$b");
        assert_eq!(said("charset a; charset_types *;", "image/png", 200), "image/png; charset=a");
        assert_eq!(said("charset a; charset_types image/png;", "text/css", 200), "text/css");
        let overrides = "charset a; override_charset on;";
        assert_eq!(said(overrides, "text/css; charset=A", 200), "text/css; charset=a");
        assert_eq!(
            said(overrides, "text/css; charset=b", 200),
            "text/css; charset=b",
            "no map is between them"
        );
    }

    #[test]
    fn content_is_recoded() {
        let one = recoded("charset A; source_charset B;", "text/html", b"aXb");
        assert_eq!(one, ("text/html; charset=A".into(), b"aYb".into(), Some(3)));
        let back = recoded("charset b; source_charset a;", "text/html", b"aXbY\x80");
        assert_eq!(back, ("text/html; charset=B".into(), b"aXbX?".into(), Some(5)));
        let utf8 = recoded("charset utf-8; source_charset latin1;", "text/html", b"\xe4\x80\x81");
        assert_eq!(utf8, ("text/html; charset=utf-8".into(), "ä€?".into(), None));
        let from = recoded("charset latin1; source_charset utf-8;", "text/html", "ä€я".as_bytes());
        assert_eq!(from, ("text/html; charset=latin1".into(), b"\xe4\x80&#1103;".into(), None));
        let variable = recoded("charset $arg_c; source_charset B;", "text/html", b"X");
        assert_eq!(variable.1, b"Y");
    }

    #[test]
    fn what_another_server_named_counts() {
        let named =
            recoded("charset A; source_charset A; override_charset on;", "text/html; charset=B", b"X");
        assert_eq!(named, ("text/html; charset=A".into(), b"Y".into(), Some(1)));
        let kept = recoded("charset A;", "text/html; charset=\"B\"", b"X");
        assert_eq!(kept, ("text/html; charset=\"B\"".into(), b"X".into(), Some(1)));
    }

    #[test]
    fn another_server_may_ask_for_one() {
        let site = Site::location(&format!("{MAPS} charset utf-8;"));
        for (asked, expected) in [("a", "text/html; charset=a"), ("z", "text/html; charset=B")] {
            let mut exchange = site.get("/");
            exchange.response.content_type = Some("text/html; charset=B".into());
            exchange.attach(Reach::Own, Rc::new(super::NamedCharset(asked.into())));
            let body = filtered(&mut exchange, Body::bytes("X"));
            let text = drain(body).unwrap();
            assert_eq!(
                (media_type_of(&exchange).as_str(), text),
                (expected, vec![b"XY"[usize::from(asked == "a")]])
            );
        }
    }

    #[test]
    fn what_a_server_asks_for_a_part_is_not_for_the_whole() {
        let site = Site::location(&format!("{MAPS} charset utf-8;"));
        let mut whole = site.get("/");
        whole.inner(whole.request.clone()).attach(Reach::Own, Rc::new(super::NamedCharset("a".into())));
        whole.response.content_type = Some("text/html".into());
        filtered(&mut whole, Body::Empty);
        assert_eq!(media_type_of(&whole), "text/html; charset=utf-8");
    }

    #[test]
    fn compressed_content_stays_and_says_nothing() {
        let site = Site::location(&format!("{MAPS} charset A; source_charset B;"));
        let mut exchange = site.get("/");
        exchange.response.content_type = Some("text/html".into());
        exchange.response.fields.push(b"Content-Encoding", b"gzip").unwrap();
        let body = filtered(&mut exchange, Body::bytes("X"));
        assert_eq!((media_type_of(&exchange), drain(body).unwrap()), ("text/html".into(), b"X".into()));
    }

    #[test]
    fn a_part_gets_the_charset_of_the_whole() {
        let site = Site::location(&format!("{MAPS} charset A; override_charset on;"));
        let mut whole = site.get("/");
        whole.response.content_type = Some("text/html".into());
        filtered(&mut whole, Body::Empty);
        let mut part = whole.inner(whole.request.clone());
        part.response.content_type = Some("text/plain; charset=B".into());
        let body = filtered(&mut part, Body::bytes("X"));
        assert_eq!(
            (media_type_of(&part), drain(body).unwrap()),
            ("text/plain; charset=B".into(), b"Y".into())
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |lines: &str| Site::error(&format!("charset_map a utf-8 {{ {lines} }}"));
        assert_eq!(error("58 c3a4 1;"), "invalid parameters number");
        assert_eq!(error("158 c3a4;"), "invalid value \"158\"");
        for value in ["c3", "c3a", "41", "f0a48dad", "zz"] {
            assert_eq!(error(&format!("58 {value};")), format!("invalid value \"{value}\""));
        }
        assert_eq!(Site::error("charset_map a b { 1 100; }"), "invalid value \"100\"");
        assert!(Site::error("charset_map utf-8 a { }").ends_with("in the second column"));
        assert!(Site::error("charset_map A a { }").contains("between the same charsets \"A\" and \"a\""));
        let twice = "duplicate \"charset_map\" between \"b\" and \"a\"";
        assert_eq!(Site::error("charset_map a b { } charset_map b a { }"), twice);
        let none = "no \"charset_map\" between the charsets \"a\" and \"b\"";
        assert_eq!(Site::error("charset b; source_charset a;"), none);
    }
}

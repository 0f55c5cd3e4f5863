//! Runs commands in pages (server-side includes): `ssi`.
//!
//! With `ssi on`, a command such as `<!--#include virtual="/top.html" -->` in a page is replaced by its result. This
//! applies to responses of any status whose media type is in `ssi_types` (`text/html` always is, `*` means all), also
//! to responses of upstream servers and to included pages. Compressed content is not changed.
//!
//! The commands:
//!
//! - `include virtual="URI"` or `include file="URI"`: the response of this server to a GET of the URI. A URI without
//!   a slash at its start is relative to the directory of the page. With `stub="NAME"`, the block of that name is
//!   sent if the response is empty or an error. With `set="NAME"` the response is not sent but becomes the value of a
//!   variable. With `wait="yes"` the commands after it run when the response has been sent.
//! - `echo var="NAME"`: the value of a variable, of this page or of the server. `default="TEXT"` replaces a missing
//!   value; without it that is `(none)`. `encoding` is `entity`, `url` or `none`.
//! - `set var="NAME" value="TEXT"`: sets a variable, which included pages can use, too.
//! - `if expr="…"`, `elif expr="…"`, `else`, `endif`: an expression is `$name`, `$name = text`, `$name != text`, or
//!   the same with `/pattern/`, whose groups are the variables `1` to `9`.
//! - `block name="NAME"` … `endblock`: a text with commands for `stub`.
//! - `config timefmt="…"` and `errmsg="…"`: the form of `$date_local` and `$date_gmt`, as for `strftime`, and the
//!   text that replaces a command that fails.
//!
//! Included pages are requested at the same time, at most 16 by one page and 64 by one request, and sent in their
//! order. A page that uses what an included page sets needs `wait="yes"`. A `set` waits until the pages before it have
//! been sent, so that they see the old value. `if` may contain another `if`, which nginx does not allow. The variables
//! and blocks of a request are limited to 1 MB, and the pages that it includes to 10,000.
//!
//! The length is not known in advance, so ranges do not work. `Last-Modified` and `ETag` are removed, unless
//! `ssi_last_modified on` keeps the time, and a weak entity tag.
//!
//! ```file html/page.html
//! <!--#set var="who" value="you & me" -->
//! <!--#include virtual="/top.html" -->
//! <!--#if expr="$arg_long = yes" -->long<!--#else -->short<!--#endif -->
//! ```
//!
//! ```file html/top.html
//! Hello, <!--#echo var="who" -->!
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     ssi on;
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
//!
//! Hello, you &amp; me!
//!
//! short
//! ```

mod ahead;
mod expression;
mod in_apache;
mod page;
mod scanner;
mod source;

use crate::shared::blocks::Blocks;
use crate::shared::media_types::{self, MediaTypes, Words};
use crate::shared::validators;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Filter, Module, Rule, ScopeBuilder, View};
pub(crate) use in_apache::{Texts, expand_as_apache};
use page::Common;
use source::{Expanding, Settings};

/// Commands in pages.
pub static MODULE: Module = Module {
    name: "ssi",
    directives: &[&SSI, &SSI_TYPES, &SSI_SILENT_ERRORS, &SSI_VALUE_LENGTH, &SSI_LAST_MODIFIED],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// How long a value may be unless the configuration says otherwise, in bytes.
const VALUE_LENGTH: u64 = 256;

/// The most that the configuration may say, in bytes.
const VALUE_LENGTH_MAX: u64 = 64 * 1024;

/// `ssi on | off`
pub static SSI: Directive<bool> = Directive::flag("ssi")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether commands in pages are run.");

/// `ssi_types TYPE … | *`
pub static SSI_TYPES: Directive<Words> = Directive::new("ssi_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types in which commands run, besides `text/html`.");

/// `ssi_silent_errors on | off`
pub static SSI_SILENT_ERRORS: Directive<bool> = Directive::flag("ssi_silent_errors")
    .within(LEVELS)
    .default("off")
    .help("Whether a command that fails leaves no message in the page.");

/// `ssi_value_length SIZE`
pub static SSI_VALUE_LENGTH: Directive<u64> = Directive::size("ssi_value_length")
    .within(LEVELS)
    .default("256")
    .help("How long the value of a parameter may be.");

/// `ssi_last_modified on | off`
pub static SSI_LAST_MODIFIED: Directive<bool> = Directive::flag("ssi_last_modified")
    .within(LEVELS)
    .default("off")
    .help("Whether `Last-Modified` stays, and `ETag` as a weak one.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let flag = |directive| view.get(directive).copied().unwrap_or(false);
    if flag(&SSI) {
        let value_max = view.get(&SSI_VALUE_LENGTH).copied().unwrap_or(VALUE_LENGTH).min(VALUE_LENGTH_MAX);
        let value_max = usize::try_from(value_max).unwrap_or(usize::MAX);
        builder.filter(Ssi {
            settings: Settings { is_silent: flag(&SSI_SILENT_ERRORS), value_max },
            keeps_time: flag(&SSI_LAST_MODIFIED),
            types: MediaTypes::of(view, &SSI_TYPES, &[]),
        });
    }
    Ok(())
}

struct Ssi {
    settings: Settings,
    keeps_time: bool,
    types: MediaTypes,
}

impl Filter for Ssi {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let response = &mut exchange.response;
        if response.content_length == Some(0)
            || response.is_coded()
            || !self.types.hold(response.content_type.as_deref())
        {
            return body;
        }
        let content = match Blocks::of(body) {
            Ok(content) => content,
            Err(tunnel) => return tunnel,
        };
        validators::is_another_form(response);
        if !self.keeps_time {
            validators::remove(response);
        }
        exchange.file = None;
        if exchange.is_head() {
            return Body::Empty;
        }
        Body::Source(Box::new(Expanding::new(self.settings, Common::of(exchange), content)))
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::page::Common;
    use crate::shared::blocks::Blocks;
    use crate::testing::Site;
    use contract::{
        Body, Content, Exchange, NoBody, Outcome, Piece, Pull, Streamed, Subresponse, Task, Turn, Work,
    };
    use http::{ResponseHead, Status};
    use std::any::Any;
    use std::task::{Context, Poll, Waker};

    /// What a page comes to, with an answer to each URI that it includes.
    fn expand(site: &Site, target: &str, page: &str) -> String {
        let mut exchange = site.get(target);
        exchange.response.content_type = Some("text/html".into());
        let scope = std::sync::Arc::clone(&exchange.scope);
        let body = Body::bytes(page.as_bytes().to_vec());
        let body = scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
        let Body::Source(mut source) = body else { panic!("no source") };
        let mut out = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match source.pull(&mut Turn { cx: &mut cx, exchange: &mut exchange, body: &mut NoBody }) {
                Pull::Piece(Piece::Bytes(bytes)) => out.extend_from_slice(&bytes),
                Pull::Await(Work::Subrequest(wanted)) => {
                    let uri = [&wanted.path[..], wanted.args.as_deref().unwrap_or_default()].join(&b'?');
                    let (status, text) = answer(&String::from_utf8(uri).unwrap());
                    source.resume(match wanted.content {
                        Content::Collected => {
                            let mut inner = site.get("/");
                            inner.response.status = status;
                            Outcome::Subresponse(Subresponse {
                                exchange: Box::new(inner),
                                content: text.into(),
                            })
                        }
                        Content::Begun => Outcome::Begun(Box::new(Later { status, text, turns: 2 })),
                        _ => Outcome::Streamed(streamed(status, text)),
                    });
                }
                Pull::Pending { .. } => {}
                Pull::End => return String::from_utf8(out).unwrap(),
                _ => panic!("what for?"),
            }
        }
    }

    /// An answer that comes after some turns.
    struct Later {
        status: Status,
        text: String,
        turns: u32,
    }

    impl Task for Later {
        fn poll(&mut self, _: &mut Turn<'_, '_>) -> Poll<Result<(), Status>> {
            self.turns = self.turns.saturating_sub(1);
            if self.turns > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn into_outcome(self: Box<Self>) -> Box<dyn Any> {
            Box::new(streamed(self.status, self.text))
        }
    }

    fn streamed(status: Status, text: String) -> Streamed {
        Streamed { head: Box::new(ResponseHead::new(status)), body: Body::bytes(text) }
    }

    fn answer(uri: &str) -> (Status, String) {
        match uri {
            "/404?" => (Status::NOT_FOUND, "not found".to_owned()),
            "/empty?" => (Status::OK, String::new()),
            other => (Status::OK, format!("<{other}>")),
        }
    }

    fn page(text: &str) -> String {
        expand(&Site::location("ssi on;"), "/dir/page?a=%3C&b=", text)
    }

    const ERROR: &str = "[an error occurred while processing the directive]";

    #[test]
    fn values_are_written() {
        assert_eq!(page("x<!--#echo var='arg_c' -->x"), "x(none)x");
        assert_eq!(page("x<!--#echo var='arg_b' -->x"), "xx");
        assert_eq!(
            page("<!--#echo var='arg_c' default='d' --><!--#echo var='ARG_a' encoding='none' -->"),
            "d%3C"
        );
        let all = "<!--#set var='v' value='<$arg_a&\\$>' --><!--#echo var='v' --> <!--#echo var='v' encoding='url' -->";
        assert_eq!(
            page(&format!("{all} <!--#echo var='v' -->")),
            "&lt;%3C&amp;$&gt; %3C%253C&$%3E %3C%253C&$%3E"
        );
        assert_eq!(page("<!--#config timefmt='on %j' --><!--#echo var='date_gmt' -->").len(), "on 123".len());
        assert_eq!(page("<!--#config timefmt='%' --><!--#echo var='date_gmt' -->"), ERROR);
    }

    #[test]
    fn branches() {
        let text = |a: &str| {
            let page = "<!--#if expr='$arg_a' -->1<!--#elif expr='$arg_b' -->2<!--#else -->3<!--#endif -->4";
            expand(&Site::location("ssi on;"), &format!("/?{a}"), page)
        };
        assert_eq!([text("a=1&b=1"), text("b=1"), text("")], ["14", "24", "34"]);
        let nested = "<!--#if expr='' -->1<!--#if expr='x' -->2<!--#else -->3<!--#endif -->4<!--#else -->5<!--#endif -->6";
        assert_eq!(page(nested), "56");
        assert_eq!(page("<!--#else -->a<!--#endif -->"), format!("{ERROR}a{ERROR}"));
        assert_eq!(
            page("<!--#if expr='x' --><!--#else --><!--#else --><!--#endif -->"),
            ERROR,
            "the second one"
        );
        assert_eq!(page("<!--#if expr='' --><!--#no -->a<!--#include virtual='/' --><!--#endif -->b"), "b");
    }

    #[test]
    fn pages_are_included() {
        assert_eq!(
            page("a<!--#include virtual='/b%41?c' -->d<!--#include file='e' -->"),
            "a</bA?c>d</dir/e?>"
        );
        assert_eq!(page("<!--#include virtual='/404' set='v' -->a<!--#echo var='v' default='d' -->"), "a");
        assert_eq!(page("<!--#include virtual='/b' set='v' -->a<!--#echo var='v' -->"), "a&lt;/b?&gt;");
        for (wrong, why) in [
            ("", "no URI"),
            ("virtual='/a' file='/b'", "two"),
            ("virtual='/../a'", "unsafe"),
            ("virtual='/a' wait='maybe'", "wait"),
            ("file='a' wait='yes'", "wait"),
            ("virtual='/a' stub='b'", "no block"),
            ("virtual='/a' stub='b' set='c'", "both"),
            ("virtual='/a' virtual='/a'", "twice"),
            ("url='/a'", "unknown"),
        ] {
            assert_eq!(page(&format!("<!--#include {wrong} -->b")), format!("{ERROR}b"), "{why}");
        }
    }

    #[test]
    fn blocks_take_the_place_of_what_is_missing() {
        let block = "<!--#block name='b' -->(<!--#echo var='arg_a' -->)<!--#endblock -->";
        let text = |uri: &str| page(&format!("{block}x<!--#include virtual='{uri}' stub='b' -->x"));
        assert_eq!([text("/404"), text("/empty"), text("/a")], ["x(%3C)x", "x(%3C)x", "x</a?>x"]);
    }

    #[test]
    fn what_fails_is_told() {
        assert_eq!(page("<!--#exec cmd='ls' -->a<!--#echo -->"), format!("{ERROR}a{ERROR}"));
        assert_eq!(page("<!--#config errmsg='oh' --><!--#x -->"), "oh");
        let silent = Site::location("ssi on; ssi_silent_errors on; ssi_value_length 3;");
        assert_eq!(expand(&silent, "/", "<!--#x -->a<!--#echo var='abcd' -->"), "a");
    }

    #[test]
    fn memory_is_bounded() {
        let site = Site::location("ssi on;");
        let doubling = "<!--#set var='v' value='0123456789' -->".to_owned()
            + &"<!--#set var='v' value='$v$v$v$v$v$v$v$v$v$v' -->".repeat(20);
        assert!(expand(&site, "/", &doubling).contains(ERROR));
        let common = Common::default();
        assert!(common.set(b"a", &[0; 1024 * 1024]).is_err());
        assert!(common.begin_block(b"b").is_ok() && common.add_to_block(&[0; 1024 * 1024]).is_err());
        assert!(Blocks::of(Body::Empty).is_ok());
    }

    fn filtered(conf: &str, change: impl FnOnce(&mut Exchange)) -> Exchange {
        let site = Site::location(conf);
        let mut exchange = site.get("/");
        let response = &mut exchange.response;
        response.content_type = Some("text/html".into());
        response.content_length = Some(1);
        response.etag = Some("\"a\"".into());
        response.last_modified = Some(1);
        response.accept_ranges = true;
        change(&mut exchange);
        let scope = std::sync::Arc::clone(&exchange.scope);
        scope.filters().iter().fold(Body::bytes("a"), |body, filter| filter.apply(&mut exchange, body));
        exchange
    }

    #[test]
    fn the_head_tells_that_the_content_is_another() {
        let response = filtered("ssi on;", |_| {}).response;
        assert_eq!(
            (response.content_length, response.last_modified, response.accept_ranges),
            (None, None, false)
        );
        assert!(response.etag.is_none());
        let response = filtered("ssi on; ssi_last_modified on;", |_| {}).response;
        assert_eq!((response.etag.as_deref(), response.last_modified), (Some(&b"W/\"a\""[..]), Some(1)));
        let length = |conf: &str, kind: &'static str| {
            filtered(conf, |exchange| exchange.response.content_type = Some(kind.into()))
                .response
                .content_length
        };
        assert_eq!(length("ssi on;", "text/css"), Some(1));
        assert_eq!(length("ssi on; ssi_types text/css;", "text/css"), None);
        assert_eq!(length("", "text/html"), Some(1));
    }
}

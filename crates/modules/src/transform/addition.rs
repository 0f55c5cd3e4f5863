//! Adds content before and after a response: `add_before_body`, `add_after_body`.
//!
//! Fulmar makes a subrequest to the URI of `add_before_body`, and puts its response before the content; the response
//! of `add_after_body` follows the content. A page gets its header and footer in this way. This applies to responses
//! with status 200 whose media type is in `addition_types` (`text/html` always is, `*` means all). The subrequests
//! may use `internal` locations, have the client's headers, and their response is added even if it is an error page.
//! Fulmar does not keep the parts in memory. An empty URI cancels an outer level's directive.
//!
//! Compressed content is left unchanged; nginx adds plain text to it.
//!
//! The length is not known in advance, so ranges do not work, and the entity tag becomes a weak one.
//!
//! nginx: --with-http_addition_module
//!
//! ```file html/page.html
//! page
//! ```
//!
//! ```file html/top.html
//! top
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /page.html {
//!         add_before_body /top.html;
//!         add_after_body /end;
//!     }
//!     location = /end {
//!         internal;
//!         return 200 end;
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
//! top
//! page
//! end
//! ```

use crate::shared::media_types::{self, MediaTypes, Words};
use crate::shared::validators;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Body, Content, Directive, Exchange, Filter, Module, Outcome, Pull, Rule, ScopeBuilder, Source,
    Subrequest, Turn, View, Work,
};
use http::Status;
use std::collections::VecDeque;

/// Content before and after a response.
pub static MODULE: Module = Module {
    name: "addition",
    directives: &[&ADD_BEFORE_BODY, &ADD_AFTER_BODY, &ADDITION_TYPES],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `add_before_body URI`
pub static ADD_BEFORE_BODY: Directive<Box<[u8]>> =
    Directive::new("add_before_body", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .help("The URI whose response is added before the content.");

/// `add_after_body URI`
pub static ADD_AFTER_BODY: Directive<Box<[u8]>> =
    Directive::new("add_after_body", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .help("The URI whose response is added after the content.");

/// `addition_types TYPE … | *`
pub static ADDITION_TYPES: Directive<Words> = Directive::new("addition_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types that get additions, besides `text/html`.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let uri = |directive| {
        let uri: Option<&Box<[u8]>> = view.get(directive);
        uri.filter(|uri| !uri.is_empty()).cloned()
    };
    let (before, after) = (uri(&ADD_BEFORE_BODY), uri(&ADD_AFTER_BODY));
    if before.is_some() || after.is_some() {
        builder.filter(Addition { before, after, types: MediaTypes::of(view, &ADDITION_TYPES, &[]) });
    }
    Ok(())
}

struct Addition {
    before: Option<Box<[u8]>>,
    after: Option<Box<[u8]>>,
    types: MediaTypes,
}

impl Filter for Addition {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let response = &mut exchange.response;
        if response.status != Status::OK
            || response.is_coded()
            || !self.types.hold(response.content_type.as_deref())
            || matches!(body, Body::Tunnel(_))
        {
            return body;
        }
        validators::is_another_form(response);
        exchange.file = None;
        if exchange.is_head() {
            return Body::Empty;
        }
        let [before, after] = [&self.before, &self.after].map(|uri| uri.clone().map(Part::Uri));
        let parts = before.into_iter().chain([Part::Body(body)]).chain(after).collect();
        Body::Source(Box::new(Joined { parts, has_failed: false }))
    }
}

/// A part of the content that is still to come.
enum Part {
    Uri(Box<[u8]>),
    Asked,
    Body(Body),
}

/// The parts, one after the other; a URI is asked for when those before it were taken.
struct Joined {
    parts: VecDeque<Part>,
    has_failed: bool,
}

impl Source for Joined {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if self.has_failed {
                return Pull::Failed;
            }
            match self.parts.front_mut() {
                None => return Pull::End,
                Some(Part::Asked) => return Pull::Failed,
                Some(part @ Part::Uri(_)) => {
                    let Part::Uri(uri) = std::mem::replace(part, Part::Asked) else { continue };
                    let wanted = Subrequest::get(uri, Content::Streamed);
                    return Pull::Await(Work::Subrequest(Subrequest { with_body: true, ..wanted }));
                }
                Some(Part::Body(Body::Source(source))) => match source.pull(turn) {
                    Pull::End => {}
                    other => return other,
                },
                Some(Part::Body(Body::Pieces(pieces))) if !pieces.is_empty() => {
                    return Pull::Piece(pieces.remove(0));
                }
                Some(Part::Body(Body::Piece(_))) => {
                    let Some(Part::Body(Body::Piece(piece))) = self.parts.pop_front() else { continue };
                    return Pull::Piece(piece);
                }
                Some(Part::Body(Body::Empty | Body::Pieces(_) | Body::Tunnel(_))) => {}
            }
            self.parts.pop_front();
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match (self.parts.front_mut(), outcome) {
            (Some(part @ Part::Asked), Outcome::Streamed(answer)) => *part = Part::Body(answer.body),
            (Some(Part::Body(Body::Source(source))), outcome) => source.resume(outcome),
            _ => self.has_failed = true,
        }
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(Part::Body(Body::Source(source))) = self.parts.front_mut() {
            source.read_ahead(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, pull};
    use contract::{Body, Exchange, Outcome, Piece, Pull, Streamed, Work};
    use http::{ResponseHead, Status};

    const BOTH: &str = "add_before_body /a?b; add_after_body /z;";

    fn filtered(site: &Site, change: impl FnOnce(&mut Exchange)) -> (Exchange, Body) {
        let mut exchange = site.get("/");
        exchange.response.content_type = Some(b"text/html".as_slice().into());
        exchange.response.content_length = Some(4);
        exchange.response.accept_ranges = true;
        exchange.response.etag = Some(b"\"a\"".as_slice().into());
        change(&mut exchange);
        let scope = std::sync::Arc::clone(&exchange.scope);
        let body = Body::Pieces(vec![Piece::Bytes("pa".into()), Piece::Bytes("ge".into())]);
        let body = scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
        (exchange, body)
    }

    /// The content, with an answer to each URI, or nothing where it fails.
    fn content(body: Body, answer: impl Fn(&[u8]) -> Outcome) -> Option<String> {
        let Body::Source(mut source) = body else { panic!("no source") };
        let mut out = Vec::new();
        loop {
            match pull(&mut *source) {
                Pull::Piece(Piece::Bytes(bytes)) => out.extend_from_slice(&bytes),
                Pull::Piece(Piece::File { .. }) => panic!("a file"),
                Pull::Await(Work::Subrequest(wanted)) => source.resume(answer(&wanted.path)),
                Pull::Await(_) | Pull::Pending { .. } => panic!("what for?"),
                Pull::End => return Some(String::from_utf8(out).unwrap()),
                Pull::Failed => return None,
            }
        }
    }

    fn echo(uri: &[u8]) -> Outcome {
        let body = Body::bytes([b"<", uri, b">"].concat());
        Outcome::Streamed(Streamed { head: Box::new(ResponseHead::new(Status::OK)), body })
    }

    #[test]
    fn both_parts_are_asked_for_in_order() {
        let (exchange, body) = filtered(&Site::location(BOTH), |_| {});
        let response = &exchange.response;
        assert_eq!((response.content_length, response.accept_ranges), (None, false));
        assert_eq!(response.etag.as_deref(), Some(&b"W/\"a\""[..]));
        assert_eq!(content(body, echo).as_deref(), Some("</a?b>page</z>"), "the URI is no more than a path");
        let (_, body) = filtered(&Site::location("add_after_body /z;"), |_| {});
        assert_eq!(content(body, echo).as_deref(), Some("page</z>"));
    }

    #[test]
    fn without_a_part_the_content_is_not_whole() {
        let (_, body) = filtered(&Site::location(BOTH), |_| {});
        assert_eq!(content(body, |_| Outcome::Failed(Status::INTERNAL_SERVER_ERROR)), None);
    }

    #[test]
    fn what_is_left_as_it_is() {
        let added = |text: &str, change: fn(&mut Exchange)| {
            filtered(&Site::location(text), change).0.response.content_length.is_none()
        };
        assert!(added(BOTH, |_| {}));
        assert!(!added("", |_| {}));
        assert!(!added("add_before_body '';", |_| {}));
        assert!(!added(BOTH, |exchange| exchange.response.status = Status::NOT_FOUND));
        assert!(!added(BOTH, |exchange| exchange.response.content_type = Some("text/css".into())));
        let css = format!("{BOTH} addition_types text/css;");
        assert!(added(&css, |exchange| exchange.response.content_type = Some("text/css".into())));
    }
}

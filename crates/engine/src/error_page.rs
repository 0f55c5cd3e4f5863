//! What replaces a status without content: `error_page`, or a small page of the server's own.

use crate::keepalive;
use bytes::Bytes;
use contract::policy::{ErrorAnswer, ErrorPage};
use contract::{Body, Event, Exchange, Reach, Replaced, RequestBody, Reroute, Scope};
use http::{Method, Status, escape};
use std::rc::Rc;
use std::sync::Arc;

/// What takes the place of a bare status.
pub(crate) enum Replacement {
    /// This body, with the exchange's response head.
    Page(Body),
    /// The content at another URI.
    Reroute(Reroute),
}

/// The request for whose error a `.htaccess` file names a page. If that page cannot be sent, the server's own page has the
/// settings of this request, as in Apache.
struct Failed {
    scope: Arc<Scope>,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
}

/// Replaces a status: by the scope's `error_page` if one names it, else by the server's own page.
pub(crate) fn replace(exchange: &mut Exchange, status: Status, may_reroute: bool) -> Replacement {
    let status = match exchange.error {
        Some(first) if exchange.error_page_used == Replaced::Kept => {
            if !first.is_redirection() {
                exchange.response.location = None;
            }
            if let Some(failed) = exchange.attached::<Failed>() {
                exchange.scope = Arc::clone(&failed.scope);
                (exchange.request.path, exchange.request.args) = (failed.path.clone(), failed.args.clone());
            }
            first
        }
        _ => status,
    };
    exchange.error = Some(status);
    exchange.wire.keep_alive &= !keepalive::ends_with(status);
    exchange.file = None;
    if status == Status::CONTENT_TOO_LARGE {
        // The error page must not receive the oversized body.
        exchange.request.body = Some(RequestBody::Memory(Bytes::new()));
    }
    // What was found out about the content that is not sent says nothing about the page.
    exchange.response.content_type = None;
    if may_reroute && exchange.error_page_used == Replaced::No {
        let pages = Arc::clone(&exchange.scope.policy.error_pages);
        if let Some(page) = pages.iter().find(|page| page.statuses.contains(&status)) {
            exchange
                .tell(|| Event::new("error_page", format!("takes the place of {}", status.0)).at(page.place));
            return configured(exchange, page, status);
        }
    }
    let is_refreshed = matches!(status, Status::MOVED_PERMANENTLY | Status::FOUND);
    let refresh = if is_refreshed { refresh(exchange) } else { None };
    Replacement::Page(refresh.unwrap_or_else(|| own_page(exchange, status)))
}

fn configured(exchange: &mut Exchange, page: &ErrorPage, status: Status) -> Replacement {
    exchange.error = match page.answer {
        ErrorAnswer::Original => Some(status),
        ErrorAnswer::Fixed(answer) => Some(answer),
        ErrorAnswer::FromTarget => None,
    };
    // `$status` in the target is what is answered.
    let target = page.target.evaluate(exchange);
    exchange.error_page_used = match (page.is_public, exchange.scope.policy.recursive_error_pages) {
        (true, _) => Replaced::Kept,
        (false, true) => Replaced::No,
        (false, false) => Replaced::Once,
    };
    if page.is_text {
        // Such a page is the server's own, in other words.
        exchange.error_page_used = Replaced::No;
        let answered = own_page(exchange, status);
        let is_empty = matches!(answered, Body::Empty);
        return Replacement::Page(if is_empty { answered } else { text(exchange, target) });
    }
    match target.first() {
        Some(b'/') => {
            // The page is fetched, whatever the method of the request was.
            if exchange.request.method != Method::Head {
                exchange.request.method = Method::Get;
            }
            if page.is_public {
                let scope = Arc::clone(&exchange.scope);
                let (path, args) = (exchange.request.path.clone(), exchange.request.args.clone());
                exchange.attach(Reach::Own, Rc::new(Failed { scope, path, args }));
                // As in Apache the page gets no body.
                exchange.request.body = Some(RequestBody::Memory(Bytes::new()));
            }
            let (path, args) = split_args(&target);
            Replacement::Reroute(match page.is_public {
                true => Reroute::Uri { path, args },
                false => Reroute::Internal { path, args },
            })
        }
        Some(b'@') => Replacement::Reroute(Reroute::Named(target.into())),
        _ => {
            let redirection = match page.answer {
                ErrorAnswer::Fixed(answer) if is_redirection(answer) => answer,
                _ => Status::FOUND,
            };
            exchange.response.location = Some(target.into());
            exchange.error = Some(redirection);
            let refresh = refresh(exchange);
            Replacement::Page(refresh.unwrap_or_else(|| own_page(exchange, redirection)))
        }
    }
}

/// The server's own page, with a text instead of its content.
fn text(exchange: &mut Exchange, text: Vec<u8>) -> Body {
    exchange.response.content_type = Some(Bytes::from_static(b"text/html; charset=iso-8859-1"));
    exchange.response.content_length = Some(text.len() as u64);
    Body::bytes(text)
}

fn is_redirection(status: Status) -> bool {
    matches!(status.0, 301 | 302 | 303 | 307 | 308)
}

/// Splits a URI of the configuration at its first `?`.
pub(crate) fn split_args(uri: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    match uri.iter().position(|&byte| byte == b'?') {
        Some(mark) => (uri[..mark].to_vec(), Some(uri[mark + 1..].to_vec())),
        None => (uri.to_vec(), None),
    }
}

/// A page that leads to the target of a redirection, for Internet Explorer (`msie_refresh`).
fn refresh(exchange: &mut Exchange) -> Option<Body> {
    if !exchange.scope.policy.redirects.msie_refresh || !is_msie(exchange) {
        return None;
    }
    let location = exchange.response.location.take()?;
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    escape::attribute_url(&location, &mut page);
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    exchange.error = Some(Status::OK);
    let response = &mut exchange.response;
    response.status = Status::OK;
    response.last_modified = None;
    response.etag = None;
    response.accept_ranges = false;
    response.content_type = Some(Bytes::from_static(b"text/html"));
    response.content_length = Some(page.len() as u64);
    Some(Body::bytes(page))
}

/// Whether the client says that it is Internet Explorer, and no Opera that says so.
fn is_msie(exchange: &Exchange) -> bool {
    const NAME: &[u8] = b"MSIE ";
    let Some(agent) = exchange.request.head.fields.get("user-agent") else { return false };
    let at = agent.windows(NAME.len()).position(|part| part == NAME);
    // A version has at least three characters.
    at.is_some_and(|at| at + NAME.len() + 2 < agent.len()) && !agent.windows(5).any(|part| part == b"Opera")
}

/// The server's own page. An unknown status has no content.
fn own_page(exchange: &mut Exchange, status: Status) -> Body {
    let sent = status_on_the_wire(status);
    exchange.error = Some(sent);
    if exchange.error_page_used == Replaced::Kept {
        exchange.error_page_used = Replaced::No;
    }
    let name = match exchange.scope.policy.server_tokens {
        true => concat!("Fulmar/", env!("CARGO_PKG_VERSION")),
        false => "Fulmar",
    };
    let response = &mut exchange.response;
    response.status = sent;
    response.last_modified = None;
    response.etag = None;
    response.accept_ranges = false;
    let Some(Texts { title, heading, detail }) = texts(status) else {
        response.content_type = None;
        response.content_length = if sent.is_bodiless() { None } else { Some(0) };
        return Body::Empty;
    };
    let detail = detail.map(|text| format!("<center>{text}</center>\r\n")).unwrap_or_default();
    let page = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n\
         {detail}<hr><center>{name}</center>\r\n</body>\r\n</html>\r\n"
    );
    response.content_type = Some(Bytes::from_static(b"text/html"));
    response.content_length = Some(page.len() as u64);
    Body::bytes(page)
}

/// nginx's own codes about a request that cannot be understood are 400 on the wire.
fn status_on_the_wire(status: Status) -> Status {
    if matches!(status.0, 494..=497) { Status::BAD_REQUEST } else { status }
}

/// What a page says.
struct Texts {
    title: String,
    heading: String,
    detail: Option<&'static str>,
}

/// The texts of a status, in the words that tools know from nginx.
fn texts(status: Status) -> Option<Texts> {
    let detail = match status.0 {
        494 => "Request Header Or Cookie Too Large",
        495 => "The SSL certificate error",
        496 => "No required SSL certificate was sent",
        497 => "The plain HTTP request was sent to HTTPS port",
        _ => {
            let title = plain_title(status)?;
            return Some(Texts { heading: title.clone(), title, detail: None });
        }
    };
    let heading = plain_title(Status::BAD_REQUEST)?;
    Some(Texts { title: format!("400 {detail}"), heading, detail: Some(detail) })
}

fn plain_title(status: Status) -> Option<String> {
    let words = match status.0 {
        302 => "Found",
        401 => "Authorization Required",
        301 | 303 | 307 | 308 | 400.. => status.reason(),
        _ => "",
    };
    (!words.is_empty()).then(|| format!("{} {words}", status.0))
}

#[cfg(test)]
mod tests {
    use super::{Replacement, replace};
    use contract::policy::{ErrorAnswer, ErrorPage};
    use contract::{Body, Exchange, Reroute, Template};
    use http::{Method, Status};
    use site::testing::exchange;

    fn with_page(answer: ErrorAnswer, target: &str) -> Exchange {
        let target = Template::literal(target.as_bytes());
        let page = ErrorPage {
            statuses: Box::new([Status(404), Status(500)]),
            answer,
            target,
            is_text: false,
            is_public: false,
            place: None,
        };
        exchange("/", "", |policy| policy.error_pages = [page].into())
    }

    fn shown(exchange: &mut Exchange, status: u16, may_reroute: bool) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match replace(exchange, Status(status), may_reroute) {
            Replacement::Reroute(Reroute::Internal { path, args } | Reroute::Uri { path, args }) => {
                format!("{} {:?}", text(&path), args.as_deref().map(text))
            }
            Replacement::Reroute(Reroute::Named(name)) => text(&name),
            Replacement::Reroute(Reroute::Location | Reroute::Settings) => "location".to_owned(),
            Replacement::Page(Body::Empty) => "empty".to_owned(),
            Replacement::Page(_) => {
                format!("page {}", exchange.response.location.as_deref().map(text).unwrap_or_default())
            }
        }
    }

    #[test]
    fn targets_and_the_status_that_is_sent() {
        let (original, from_target) = (ErrorAnswer::Original, ErrorAnswer::FromTarget);
        let fixed = |code| ErrorAnswer::Fixed(Status(code));
        for (answer, target, outcome, sent) in [
            (original, "/p?q", "/p Some(\"q\")", Some(404)),
            (fixed(200), "/p", "/p None", Some(200)),
            (from_target, "/p", "/p None", None),
            (original, "@n", "@n", Some(404)),
            (original, "http://x/", "page http://x/", Some(302)),
            (fixed(308), "http://x/", "page http://x/", Some(308)),
            (fixed(200), "http://x/", "page http://x/", Some(302)),
        ] {
            let mut exchange = with_page(answer, target);
            exchange.request.method = Method::Post;
            exchange.wire.keep_alive = true;
            assert_eq!(shown(&mut exchange, 404, true), outcome, "{answer:?} {target}");
            assert_eq!(exchange.error.map(|status| status.0), sent, "{answer:?} {target}");
            assert!(exchange.wire.keep_alive);
            let fetched = if target.starts_with('/') { Method::Get } else { Method::Post };
            assert_eq!(exchange.request.method, fetched, "{target}");
        }
    }

    #[test]
    fn one_page_a_request_unless_pages_may_have_pages() {
        let mut exchange = with_page(ErrorAnswer::Original, "/p");
        assert_eq!(shown(&mut exchange, 403, true), "page ", "no page was named for it");
        assert_eq!(shown(&mut exchange, 404, false), "page ", "it was sent elsewhere too often");
        assert_eq!(shown(&mut exchange, 404, true), "/p None");
        assert_eq!(shown(&mut exchange, 404, true), "page ");
    }

    #[test]
    fn an_error_decides_about_the_connection_whatever_is_sent() {
        let mut exchange = with_page(ErrorAnswer::Fixed(Status(200)), "/p");
        exchange.wire.keep_alive = true;
        shown(&mut exchange, 500, true);
        assert!(!exchange.wire.keep_alive);
    }

    #[test]
    fn codes_of_our_own_and_codes_without_words() {
        let mut exchange = with_page(ErrorAnswer::Original, "/p");
        assert_eq!(shown(&mut exchange, 494, true), "page ");
        assert_eq!(exchange.response.status, Status::BAD_REQUEST);
        assert_eq!(shown(&mut exchange, 599, true), "empty");
        assert_eq!(exchange.response.content_length, Some(0));
    }
}

//! What replaces a status without content: `error_page`, or a small page of the server's own.

use contract::policy::{ErrorAnswer, ErrorPage, ServerTokens};
use contract::{Body, Exchange, Reroute};
use http::{Method, Status};

/// What takes the place of a bare status.
pub(crate) enum Replacement {
    /// This body, with the exchange's response head.
    Page(Body),
    /// The content at another URI.
    Reroute(Reroute),
}

/// Replaces a status: by the scope's `error_page` if one names it, else by the server's own page.
pub(crate) fn replace(exchange: &mut Exchange, status: Status, may_reroute: bool) -> Replacement {
    let recursive = exchange.scope.policy.recursive_error_pages;
    let first = exchange.error.is_none();
    exchange.error = Some(status);
    if may_reroute && (first || recursive) {
        let pages = std::sync::Arc::clone(&exchange.scope.policy.error_pages);
        if let Some(page) = pages.iter().find(|page| page.statuses.contains(&status)) {
            return configured(exchange, page, status);
        }
    }
    Replacement::Page(own_page(exchange, status))
}

fn configured(exchange: &mut Exchange, page: &ErrorPage, status: Status) -> Replacement {
    let target = page.target.evaluate(exchange);
    exchange.error = match page.answer {
        ErrorAnswer::Original => Some(status),
        ErrorAnswer::Fixed(answer) => Some(answer),
        ErrorAnswer::FromTarget => None,
    };
    match target.first() {
        Some(b'/') => {
            // The page is fetched, whatever the method of the request was.
            if exchange.request.method != Method::Head {
                exchange.request.method = Method::Get;
            }
            let (path, args) = split_args(&target);
            Replacement::Reroute(Reroute::Internal { path, args })
        }
        Some(b'@') => Replacement::Reroute(Reroute::Named(target.into())),
        _ => {
            let redirection = match page.answer {
                ErrorAnswer::Fixed(answer) if is_redirection(answer) => answer,
                _ => Status::FOUND,
            };
            exchange.response.location = Some(target.into());
            exchange.error = Some(redirection);
            Replacement::Page(own_page(exchange, redirection))
        }
    }
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

/// The server's own page. A status that nobody knows has no content.
fn own_page(exchange: &mut Exchange, status: Status) -> Body {
    let sent = status_on_the_wire(status);
    let response = &mut exchange.response;
    response.status = sent;
    exchange.error = Some(sent);
    response.last_modified = None;
    response.etag = None;
    response.accept_ranges = false;
    let title = title(status);
    if title.is_empty() || sent.is_bodiless() {
        response.content_type = None;
        response.content_length = if sent.is_bodiless() { None } else { Some(0) };
        return Body::Empty;
    }
    let name = match &exchange.scope.policy.server_tokens {
        ServerTokens::Off => "Fulmar".to_owned(),
        ServerTokens::On | ServerTokens::Build => format!("Fulmar/{}", crate::VERSION),
    };
    let heading = heading(status);
    let detail = detail(status).map(|text| format!("<center>{text}</center>\r\n")).unwrap_or_default();
    let page = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n\
         {detail}<hr><center>{name}</center>\r\n</body>\r\n</html>\r\n"
    );
    let response = &mut exchange.response;
    response.content_type = Some(Box::from(&b"text/html"[..]));
    response.content_length = Some(page.len() as u64);
    Body::bytes(page)
}

/// nginx's own codes stand for others on the wire.
fn status_on_the_wire(status: Status) -> Status {
    match status.0 {
        494..=497 => Status::BAD_REQUEST,
        498 | 499 => Status::BAD_REQUEST,
        _ => status,
    }
}

fn heading(status: Status) -> String {
    match status.0 {
        494..=497 => title_of(Status::BAD_REQUEST),
        _ => title(status),
    }
}

fn title(status: Status) -> String {
    match status.0 {
        494 => "400 Request Header Or Cookie Too Large".to_owned(),
        302 => "302 Found".to_owned(),
        503 => "503 Service Temporarily Unavailable".to_owned(),
        300 | 304 | 100..=299 => String::new(),
        _ => title_of(status),
    }
}

fn title_of(status: Status) -> String {
    let reason = status.reason();
    if reason.is_empty() { String::new() } else { format!("{} {reason}", status.0) }
}

fn detail(status: Status) -> Option<&'static str> {
    match status.0 {
        494 => Some("Request Header Or Cookie Too Large"),
        _ => None,
    }
}

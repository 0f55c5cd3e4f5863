//! The other server's head as the client sees it.

use super::Proxy;
use super::redirect::{rewrite, rewrite_refresh};
use ::upstream::Ignored;
use contract::log::Level;
use contract::{Exchange, Reroute, Step};
use h1::{ReceivedFraming, ReceivedHead, is_unsafe_uri, tokens, unescape_uri};
use http::{Fields, Method, Status};

/// Fields that concern the connection to the other server, and the server's own framing.
const OWN: [&str; 7] =
    ["connection", "keep-alive", "transfer-encoding", "content-length", "proxy-connection", "trailer", "te"];

/// Fields that an internal redirect by `X-Accel-Redirect` keeps.
const KEPT: [&str; 6] =
    ["content-disposition", "set-cookie", "cache-control", "expires", "accept-ranges", "content-language"];

/// Where the other server sends the request instead of answering it itself.
pub(super) fn accel_redirect(proxy: &Proxy, exchange: &mut Exchange, fields: &Fields) -> Option<Step> {
    let uri = fields.get("X-Accel-Redirect")?;
    if proxy.settings.ignored.has(Ignored::REDIRECT) || uri.is_empty() {
        return None;
    }
    for field in fields.iter().filter(|field| KEPT.iter().any(|name| field.is(name))) {
        let _ = exchange.response.fields.push(field.name, field.value);
    }
    exchange.response.content_type = fields.get("Content-Type").map(Box::from);
    if uri.starts_with(b"@") {
        return Some(Step::Reroute(Reroute::Named(uri.into())));
    }
    if is_unsafe_uri(uri) || !uri.starts_with(b"/") {
        let shown = String::from_utf8_lossy(uri).into_owned();
        exchange.log(Level::Error, &format!("unsafe URI \"{shown}\" was detected"));
        return Some(Step::Finish(Status::NOT_FOUND));
    }
    if exchange.request.method != Method::Head {
        exchange.request.method = Method::Get;
    }
    let mark = uri.iter().position(|&byte| byte == b'?');
    let mut path = Vec::new();
    unescape_uri(&uri[..mark.unwrap_or(uri.len())], &mut path);
    let args = mark.map(|mark| uri[mark + 1..].to_vec());
    Some(Step::Reroute(Reroute::Internal { path, args }))
}

/// Sets the response's head.
pub(super) fn describe(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &ReceivedHead,
    framing: &ReceivedFraming,
) {
    exchange.response.status = head.status;
    let reason = head.reason.trim_ascii();
    exchange.response.reason = (!reason.is_empty()).then(|| (head.status, reason.into()));
    exchange.response.content_length = framing.announced;
    let listed: Vec<&[u8]> = tokens(&head.fields, "connection").collect();
    for field in head.fields.iter() {
        let name = field.name.to_ascii_lowercase();
        let is_switch = head.status == Status::SWITCHING_PROTOCOLS && name == b"upgrade";
        let is_listed = listed.iter().any(|token| token.eq_ignore_ascii_case(&name));
        let is_own = OWN.iter().any(|own| own.as_bytes() == name);
        if !is_switch && (is_own || is_listed) || proxy.settings.hidden.contains(&name[..]) {
            continue;
        }
        let value = match &name[..] {
            b"content-type" => {
                exchange.response.content_type = Some(field.value.into());
                continue;
            }
            b"location" => match rewrite(&proxy.redirects, exchange, field.value) {
                Some(url) if url.starts_with(b"/") => {
                    exchange.response.location = Some(url.into());
                    continue;
                }
                rewritten => rewritten,
            },
            b"refresh" => rewrite_refresh(&proxy.redirects, exchange, field.value),
            _ => None,
        };
        let value = value.as_deref().unwrap_or(field.value);
        if exchange.response.fields.push(field.name, value).is_err() {
            exchange.log(Level::Error, "a field of the upstream's response cannot be passed on");
        }
    }
}

/// Whether an `error_page` takes the place of this status.
pub(super) fn is_intercepted(proxy: &Proxy, exchange: &Exchange, status: Status) -> bool {
    proxy.settings.intercept_errors
        && status.0 >= 300
        && exchange.scope.policy.error_pages.iter().any(|page| page.statuses.contains(&status))
}

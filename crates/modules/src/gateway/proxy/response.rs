//! The other server's head as the client sees it.

use super::handler::Proxy;
use super::redirect::{rewrite, rewrite_refresh};
use crate::shared::connection_fields::{is_listed, lists_fields};
use crate::shared::gateway::{Counting, log_dropped, media_type, reason};
use bytes::Bytes;
use contract::Exchange;
use http::{Field, Fields, InvalidField, Status, Version};
use upstream::Kind;

/// An answer, but for its fields.
pub(super) struct Answer<'a> {
    pub(super) status: Status,
    pub(super) reason: &'a [u8],
    /// How long the content is, if the answer says so, in bytes.
    pub(super) length: Option<u64>,
    /// The media type of the answer, or of one before.
    pub(super) media_type: &'a mut Bytes,
}

/// Sets the response's head.
pub(super) fn describe(proxy: &Proxy, exchange: &mut Exchange, answer: Answer<'_>, fields: &Fields) {
    let Answer { status, reason: words, length, media_type: before } = answer;
    exchange.wire.relayed = true;
    exchange.response.status = status;
    exchange.response.reason = reason(exchange, status, words);
    exchange.response.content_length = length;
    let is_switch = status == Status::SWITCHING_PROTOCOLS;
    let hidden = &proxy.settings.hidden;
    let has_list = lists_fields(fields);
    let mut counting = Counting::default();
    for field in fields.iter() {
        let kind = Kind::of(&field);
        if !counting.counts(kind) || kind == Kind::Own || hidden.has_field(kind, &field) {
            continue;
        }
        if has_list && kind != Kind::Upgrade && is_listed(fields, &field) {
            continue;
        }
        let response = &mut exchange.response;
        let pushed = match kind {
            Kind::ContentType => {
                response.content_type = media_type(field.value, before);
                Ok(())
            }
            Kind::Location | Kind::Refresh => push_target(proxy, exchange, kind, &field),
            // A server may ask for another protocol (RFC 9110, section 15.5.22), but not in HTTP/2.
            Kind::Upgrade if !is_switch && exchange.request.head.version > Version::Http11 => Ok(()),
            _ => response.fields.push_checked(&field),
        };
        if pushed.is_err() {
            let why =
                "all headers are too long, or its rewritten value has bytes that a header must not have";
            log_dropped(exchange, field.name, "upstream", why);
        }
    }
    // With `proxy_pass_header Server`, a missing `Server` field is not replaced by that of this server.
    exchange.response.omits_server |= !counting.has_seen(Kind::Server) && !hidden.has_kind(Kind::Server);
    let adds_date = hidden.has_kind(Kind::Date) || proxy.settings.follows_rfc9111();
    exchange.response.omits_date |= !counting.has_seen(Kind::Date) && !adds_date;
}

/// Passes a field on that says where the client should go (`proxy_redirect`).
fn push_target(
    proxy: &Proxy,
    exchange: &mut Exchange,
    kind: Kind,
    field: &Field<'_>,
) -> Result<(), InvalidField> {
    let rewritten = match kind {
        Kind::Refresh => rewrite_refresh(&proxy.redirects, exchange, field.value),
        _ => rewrite(&proxy.redirects, exchange, field.value),
    };
    match rewritten {
        Some(url) if kind == Kind::Location && url.starts_with(b"/") => {
            exchange.response.location = Some(url.into());
            Ok(())
        }
        Some(value) => exchange.response.fields.push(field.name, &value),
        None => exchange.response.fields.push_checked(field),
    }
}

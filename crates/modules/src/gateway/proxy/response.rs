//! The other server's head as the client sees it.

use super::handler::Proxy;
use super::redirect::{rewrite, rewrite_refresh};
use crate::shared::gateway::{Counting, media_type, reason};
use bytes::Bytes;
use contract::Exchange;
use h1::tokens;
use http::{Fields, Status, Version};
use journal::Level;
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
    let (mut has_server, mut has_date) = (false, false);
    // What most servers list is dropped in any case.
    let has_list = fields.all("Connection").any(|value| !value.eq_ignore_ascii_case(b"keep-alive"));
    let mut counting = Counting::default();
    for field in fields.iter() {
        let kind = Kind::of(&field);
        if !counting.counts(kind) {
            continue;
        }
        has_server |= kind == Kind::Server;
        has_date |= kind == Kind::Date;
        let is_listed = || tokens(fields, "Connection").any(|token| field.name.eq_ignore_ascii_case(token));
        let is_dropped = match kind {
            Kind::Own => true,
            // A server may ask for another protocol (RFC 9110, section 15.5.22), but not in HTTP/2.
            Kind::Upgrade => !is_switch && exchange.request.head.version > Version::Http11,
            _ => has_list && is_listed(),
        };
        if is_dropped || hidden.has_field(kind, &field) {
            continue;
        }
        let value = match kind {
            Kind::ContentType => {
                exchange.response.content_type = media_type(field.value, before);
                continue;
            }
            Kind::Location => match rewrite(&proxy.redirects, exchange, field.value) {
                Some(url) if url.starts_with(b"/") => {
                    exchange.response.location = Some(url.into());
                    continue;
                }
                rewritten => rewritten,
            },
            Kind::Refresh => rewrite_refresh(&proxy.redirects, exchange, field.value),
            _ => None,
        };
        let passed = &mut exchange.response.fields;
        let pushed = match &value {
            Some(value) => passed.push(field.name, value),
            None => passed.push_checked(&field),
        };
        if pushed.is_err() {
            exchange.log(Level::Error, "a field of the upstream's response cannot be passed on");
        }
    }
    // With `proxy_pass_header Server`, a missing `Server` field is not replaced by that of this server.
    exchange.wire.omits_server |= !has_server && !hidden.has_kind(Kind::Server);
    exchange.wire.omits_date |= !has_date && !hidden.has_kind(Kind::Date);
}

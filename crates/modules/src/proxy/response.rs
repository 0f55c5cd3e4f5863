//! The other server's head as the client sees it.

use super::Proxy;
use super::redirect::{rewrite, rewrite_refresh};
use crate::shared::answers::{counting, media_type, reason};
use contract::Exchange;
use contract::log::Level;
use h1::{ReceivedFraming, ReceivedHead, tokens};
use http::Status;

/// Fields that concern the connection to the other server, and the server's own framing.
const OWN: [&str; 7] =
    ["connection", "keep-alive", "transfer-encoding", "content-length", "proxy-connection", "trailer", "te"];

/// Sets the response's head.
pub(super) fn describe(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &ReceivedHead,
    framing: &ReceivedFraming,
) {
    exchange.wire.relayed = true;
    let is_missing =
        |name: &str| head.fields.get(name).is_none() && !proxy.settings.hidden.contains(name.as_bytes());
    // Whoever asks for the other server's own fields gets none of this one's in their place.
    exchange.wire.omits_server |= is_missing("server");
    exchange.wire.omits_date |= is_missing("date");
    exchange.response.status = head.status;
    exchange.response.reason = reason(exchange, head.status, &head.reason);
    exchange.response.content_length = framing.announced;
    let listed: Vec<&[u8]> = tokens(&head.fields, "connection").collect();
    for field in counting(&head.fields) {
        let name = field.name.to_ascii_lowercase();
        let is_switch = head.status == Status::SWITCHING_PROTOCOLS && name == b"upgrade";
        let is_listed = listed.iter().any(|token| token.eq_ignore_ascii_case(&name));
        let is_own = OWN.iter().any(|own| own.as_bytes() == name);
        if !is_switch && (is_own || is_listed) || proxy.settings.hidden.contains(&name[..]) {
            continue;
        }
        let value = match &name[..] {
            b"content-type" => {
                exchange.response.content_type = media_type(field.value);
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

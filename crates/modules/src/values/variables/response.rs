//! What is answered.

use super::lists::{joined, put, put_some};
use contract::Exchange;
use http::Status;

/// While an error's page is served it is the error's status, whatever the page itself comes to; as long as nothing is
/// decided it is zero.
pub(crate) fn status(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let is_decided = exchange.wire.answered || exchange.response.status != Status::OK;
    let decided = if is_decided { exchange.response.status.0 } else { 0 };
    http::write_number(exchange.error.map_or(decided, |status| status.0).into(), 3, out);
    true
}

pub(super) fn bytes_sent(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    http::write_number(exchange.wire.bytes, 1, out);
    true
}

pub(crate) fn body_bytes_sent(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    http::write_number(body_bytes(exchange), 1, out);
    true
}

fn body_bytes(exchange: &Exchange) -> u64 {
    exchange.wire.bytes.saturating_sub(exchange.wire.head_bytes)
}

/// `OK` once the whole response was handed to the system; a response without a length counts as whole
/// when its head was sent.
pub(super) fn request_completion(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let response = &exchange.response;
    let bodiless = exchange.is_head() || response.status.is_bodiless();
    let expected = response.content_length.filter(|_| !bodiless).unwrap_or(0);
    let whole = exchange.wire.head_sent && body_bytes(exchange) >= expected;
    put(if whole { "OK" } else { "" }, out)
}

/// The fields as they go out: those that have their own type, those that the server writes, and all
/// others.
pub(super) fn sent_field(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let (response, wire) = (&exchange.response, &exchange.wire);
    let typed = match name {
        "content_type" => response.content_type.as_deref().map(<[u8]>::to_vec),
        // Chunks need no length, even where it is known.
        "content_length" => {
            let length = response.content_length.filter(|_| !wire.chunked);
            length.map(|length| length.to_string().into_bytes())
        }
        "last_modified" => response.last_modified.map(|time| http::format_date(time).into_bytes()),
        "etag" => response.etag.as_deref().map(<[u8]>::to_vec),
        "location" => response.location.as_deref().map(<[u8]>::to_vec),
        "accept_ranges" => (response.accept_ranges && wire.head_sent).then(|| b"bytes".to_vec()),
        "connection" => Some(connection(exchange).to_vec()),
        "keep_alive" => keep_alive(exchange),
        "transfer_encoding" => wire.chunked.then(|| b"chunked".to_vec()),
        _ => None,
    };
    put_some(typed, out) || joined(&response.fields, name, b", ", out)
}

fn connection(exchange: &Exchange) -> &'static [u8] {
    match exchange.response.status {
        Status::SWITCHING_PROTOCOLS => b"upgrade",
        _ if exchange.wire.keep_alive => b"keep-alive",
        _ => b"close",
    }
}

fn keep_alive(exchange: &Exchange) -> Option<Vec<u8>> {
    let announced = exchange.scope.policy.keepalive.announced.filter(|_| exchange.wire.keep_alive)?;
    Some(format!("timeout={announced}").into_bytes())
}

pub(super) fn sent_trailer(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    joined(&exchange.response.trailers, name, b", ", out)
}

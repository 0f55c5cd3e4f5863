//! Interim responses, which other servers send ahead of the final one: early hints (103, RFC 8297), or 102.

use super::end::{End, Sent};
use contract::Exchange;
use http::Status;
use std::task::Context;

/// Gives the sender the hints that came since the last call; `true` if it has to send them.
pub(crate) fn give(exchange: &mut Exchange, end: &mut dyn End) -> bool {
    if !exchange.has_hints() {
        return false;
    }
    let hints = exchange.take_hints();
    if exchange.wire.head_sent || !are_wanted(exchange) {
        return false;
    }
    // Hints without fields say nothing. Other statuses do.
    let sent = hints.iter().filter(|(status, fields)| *status != Status::EARLY_HINTS || !fields.is_empty());
    sent.for_each(|(status, fields)| end.interim(exchange, *status, fields));
    true
}

/// Whether the settings of the scope allow early hints.
fn are_wanted(exchange: &Exchange) -> bool {
    let scope = std::sync::Arc::clone(&exchange.scope);
    let mut value = Vec::new();
    scope.policy.sending.early_hints.iter().any(|condition| {
        value.clear();
        condition.write(exchange, &mut value);
        !matches!(&value[..], b"" | b"0")
    })
}

/// Sends what the sender has as far as the client takes it; `true` if there is more. Nothing waits for the hints: a client
/// that is gone is noticed elsewhere.
pub(crate) fn send(cx: &mut Context<'_>, exchange: &mut Exchange, end: &mut dyn End) -> bool {
    loop {
        match end.send(cx, exchange, usize::MAX) {
            Ok(Sent::Some(_)) => {}
            Ok(Sent::All) | Err(_) => return false,
            Ok(Sent::AwaitsClient | Sent::AwaitsServer) => return true,
        }
    }
}

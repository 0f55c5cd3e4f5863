//! Whether a connection outlives a response.

use contract::Exchange;
use contract::policy::KeepalivePolicy;
use http::{Method, Status};

/// Whether the settings and the client allow another request on this connection.
pub(crate) fn is_allowed(exchange: &Exchange) -> bool {
    let policy = &exchange.scope.policy.keepalive;
    let connection = &exchange.connection;
    !policy.timeout.is_zero()
        && connection.requests.get() < policy.requests
        && connection.accepted.instant.elapsed() < policy.time
        && !is_disabled(exchange, policy)
}

/// Whether a connection ends with this error, whatever is sent in its place: what follows on it may not be
/// what it seems, or the server is in trouble.
pub(crate) fn ends_with(error: Status) -> bool {
    matches!(error.0, 400 | 413 | 414 | 494..=497 | 500 | 501)
}

/// Old browsers that nginx's `keepalive_disable` names.
fn is_disabled(exchange: &Exchange, policy: &KeepalivePolicy) -> bool {
    if !policy.disable_msie6 && !policy.disable_safari {
        return false;
    }
    let Some(agent) = exchange.request.head.fields.get("user-agent") else { return false };
    let has = |text: &str| memmem(agent, text.as_bytes());
    let msie = agent.windows(6).find(|part| part.starts_with(b"MSIE ") && part[5].is_ascii_digit());
    let msie6 = msie.is_some_and(|part| part[5] < b'7') && !has("Opera");
    let safari = has("Safari/") && has("Mac OS X") && !has("Chrome") && !has("MSIE ") && !has("Opera");
    (policy.disable_msie6 && msie6 && exchange.request.head.method() == Method::Post)
        || (policy.disable_safari && safari)
}

fn memmem(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

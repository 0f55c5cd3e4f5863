//! Whether a connection outlives a response.

use contract::Exchange;
use contract::policy::KeepalivePolicy;
use http::browser::is_msie6;
use http::{Method, Status};
use journal::clock::Time;
use std::time::Duration;

/// Whether the settings and the client allow another request on this connection.
pub(crate) fn is_allowed(exchange: &Exchange) -> bool {
    let policy = &exchange.scope.policy.keepalive;
    let connection = &exchange.connection;
    let age_ms = Time::now().uptime_ms.saturating_sub(connection.accepted.uptime_ms);
    !policy.timeout.is_zero()
        && connection.requests.get() < policy.requests
        && Duration::from_millis(age_ms) < policy.time
        && !is_disabled(exchange, policy)
}

/// Whether a connection ends with this error, whatever is sent in its place: what follows on it may not be
/// what it seems, or the server is in trouble.
pub(crate) fn ends_with(error: Status) -> bool {
    matches!(error.0, 400 | 413 | 414 | 494..=497 | 500 | 501)
}

/// Old browsers that nginx's `keepalive_disable` names.
fn is_disabled(exchange: &Exchange, policy: &KeepalivePolicy) -> bool {
    let head = &exchange.request.head;
    let asks_for_msie6 = policy.disable_msie6 && head.method() == Method::Post;
    if !asks_for_msie6 && !policy.disable_safari {
        return false;
    }
    let Some(agent) = head.fields.get("user-agent") else { return false };
    let has = |text: &str| memmem(agent, text.as_bytes());
    let is_safari = || has("Safari/") && has("Mac OS X") && !has("Chrome") && !has("MSIE ") && !has("Opera");
    (asks_for_msie6 && is_msie6(agent)) || (policy.disable_safari && is_safari())
}

fn memmem(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::{ends_with, is_allowed};
    use contract::Policy;
    use http::Status;
    use site::testing::{exchange, request};
    use std::time::Duration;

    #[test]
    fn settings_end_a_connection() {
        let allowed = |change: fn(&mut Policy)| is_allowed(&exchange("/", "", change));
        assert!(allowed(|_| {}));
        assert!(!allowed(|policy| policy.keepalive.timeout = Duration::ZERO));
        assert!(!allowed(|policy| policy.keepalive.time = Duration::ZERO));
        assert!(!allowed(|policy| policy.keepalive.requests = 1), "this is the first and the last");
        assert!(allowed(|policy| policy.keepalive.requests = 2));
    }

    #[test]
    fn browsers_that_cannot_keep_one() {
        let allowed = |agent: &str, method: &str, change: fn(&mut Policy)| {
            let mut exchange = exchange("/", "", change);
            exchange.request = request(method, "/", "");
            exchange.request.head.fields.push(b"User-Agent", agent.as_bytes()).unwrap();
            is_allowed(&exchange)
        };
        let safari = "Mozilla/5.0 (Macintosh; Mac OS X) Safari/1.0";
        let both = |policy: &mut Policy| policy.keepalive.disable_safari = true;
        assert!(allowed(safari, "GET", |_| {}) && !allowed(safari, "GET", both));
        assert!(allowed(&format!("{safari} Chrome"), "GET", both));
        let old = "Mozilla/4.0 (compatible; MSIE 6.0; Windows)";
        let none = |policy: &mut Policy| policy.keepalive.disable_msie6 = false;
        assert!(allowed(old, "GET", both) && !allowed(old, "POST", both) && allowed(old, "POST", none));
        assert!(allowed(&format!("{old} SV1"), "POST", both), "the last form of it can");
    }

    #[test]
    fn errors_that_end_a_connection() {
        let ends = [400, 413, 414, 494, 495, 496, 497, 500, 501];
        assert!((300..600).all(|code| ends_with(Status(code)) == ends.contains(&code)));
    }
}

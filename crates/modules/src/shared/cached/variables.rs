//! What variables and passed fields say of a response that is kept.

use super::{Cached, Sent};
use cache::{CacheStatus, Lookup, Storing};
use contract::{Exchange, Getter, Made, Template};
use http::{Method, Status};
use journal::clock::Time;
use std::sync::Arc;

/// The fields of a request that a response which is kept must not depend on, in lower case, with what takes their place:
/// something only where the upstream server may find a response valid again.
pub(crate) fn conditions(revalidates: bool) -> [(&'static str, Template); 6] {
    let none = || Template::literal(b"");
    let made = |make: fn(&Exchange) -> Vec<u8>| match revalidates {
        true => Template::made(Made(Arc::new(make))),
        false => none(),
    };
    [
        ("if-modified-since", made(|exchange| text_of(exchange, last_modified))),
        ("if-unmodified-since", none()),
        ("if-none-match", made(|exchange| text_of(exchange, etag))),
        ("if-match", none()),
        ("range", none()),
        ("if-range", none()),
    ]
}

fn text_of(exchange: &Exchange, write: Getter) -> Vec<u8> {
    let mut out = Vec::new();
    write(exchange, "", &mut out);
    out
}

/// `$upstream_cache_status`
pub(crate) fn status(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let status = Cached::of(exchange).and_then(|cached| cached.lookup.get().status());
    status.map(CacheStatus::text).inspect(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

/// `$upstream_cache_last_modified`
pub(crate) fn last_modified(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    of_expired(exchange, "last-modified", out)
}

/// `$upstream_cache_etag`
pub(crate) fn etag(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    of_expired(exchange, "etag", out)
}

/// A field of the response that the upstream server may find valid again.
fn of_expired(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(cached) = Cached::of(exchange) else { return false };
    let object = cached.met();
    let is_asked = cached.settings.stale.revalidate && matches!(cached.lookup.get(), Lookup::Expired { .. });
    let head = object.as_ref().map(|object| &object.head).filter(|_| is_asked);
    let head = head.filter(|head| matches!(head.status, Status::OK | Status::PARTIAL_CONTENT));
    let value = head.and_then(|head| head.fields.get(name));
    value.inspect(|value| out.extend_from_slice(value)).is_some()
}

/// Whether the response of an exchange may be kept, so that the upstream server is asked for all of it.
pub(crate) fn is_kept(exchange: &Exchange) -> bool {
    Cached::of(exchange).is_some_and(|cached| cached.is_kept())
}

/// Whether a HEAD request is passed on as GET.
pub(crate) fn asks_for_content(exchange: &Exchange) -> bool {
    exchange.request.method == Method::Head
        && Cached::of(exchange).is_some_and(|cached| cached.settings.convert_head)
}

impl Cached {
    /// Writes the parameters of `Cache-Status` (RFC 9211). Tells whether there are any.
    pub(crate) fn write_status(&self, out: &mut Vec<u8>) -> bool {
        let lookup = self.lookup.get();
        if lookup == Lookup::Over {
            return false;
        }
        let mut add = |text: &str| out.extend_from_slice(text.as_bytes());
        match lookup.reason() {
            None => {
                add("; hit");
                if let Some(until) = self.valid_until() {
                    // By the rules of RFC 9111 a response is fresh while its lifetime is greater than its age.
                    let left = until.saturating_sub(Time::now().seconds);
                    add(&format!("; ttl={}", left.saturating_add(i64::from(self.is_rfc9111()))));
                }
            }
            Some(reason) => {
                add("; fwd=");
                add(reason.word());
                if let Some(status) = self.answered.get() {
                    add(&format!("; fwd-status={}", status.0));
                }
            }
        }
        if self.storing.get() == Storing::Stored {
            add("; stored");
        }
        if matches!(lookup, Lookup::Collapsed(_)) {
            add("; collapsed");
        }
        true
    }

    /// Until when the response is valid that is sent, in seconds since 1970.
    fn valid_until(&self) -> Option<i64> {
        let sent = self.sent.take();
        let until = match &sent {
            Sent::None => None,
            Sent::Made(until) => Some(until.get()),
            Sent::Prepared(object) => Some(object.head.freshness.valid_until).filter(|until| *until != 0),
        };
        self.sent.set(sent);
        until
    }
}

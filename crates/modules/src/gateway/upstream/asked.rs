//! The servers that were asked on behalf of a request, and what variables tell of them.

use crate::shared::cached::{self, Cached};
use ::upstream::{Attempt, Attempts};
use contract::{Exchange, Variable};
use http::Fields;
use std::time::Duration;

pub(super) static VARIABLES: &[Variable] = &[
    Variable::new("upstream_addr", |exchange, _, out| {
        listed(exchange, out, |attempt| Some(attempt.address.to_string()))
    })
    .everywhere(),
    Variable::new("upstream_status", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.status.map(|status| format!("{:03}", status.0)))
    }),
    Variable::new("upstream_connect_time", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.connect_time.map(seconds))
    })
    .everywhere(),
    Variable::new("upstream_header_time", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.header_time.map(seconds))
    }),
    Variable::new("upstream_response_time", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.response_time.map(seconds))
    }),
    Variable::new("upstream_first_byte_time", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.first_byte_time.map(seconds))
    })
    .of_stream(),
    Variable::new("upstream_session_time", |exchange, _, out| {
        listed(exchange, out, |attempt| attempt.response_time.map(seconds))
    })
    .of_stream(),
    Variable::new("upstream_response_length", |exchange, _, out| {
        listed(exchange, out, |attempt| Some(attempt.length.to_string()))
    }),
    Variable::new("upstream_bytes_received", |exchange, _, out| {
        listed(exchange, out, |attempt| Some(attempt.received.to_string()))
    })
    .everywhere(),
    Variable::new("upstream_bytes_sent", |exchange, _, out| {
        listed(exchange, out, |attempt| Some(attempt.sent.to_string()))
    })
    .everywhere(),
    Variable::family("upstream_http_", |exchange, name, out| {
        with_fields(exchange, |fields| crate::values::variables::joined(fields, name, b", ", out))
            .unwrap_or(false)
    }),
    Variable::family("upstream_trailer_", |exchange, name, out| {
        Attempts::known(exchange).is_some_and(|attempts| {
            attempts.with_trailers(|trailers| crate::values::variables::joined(trailers, name, b", ", out))
        })
    }),
    Variable::family("upstream_cookie_", cookie),
    Variable::new("upstream_cache_status", cached::status),
    Variable::new("upstream_cache_last_modified", cached::last_modified),
    Variable::new("upstream_cache_etag", cached::etag),
];

fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// What is reported about each attempt; `-` if it is not known.
fn listed(exchange: &Exchange, out: &mut Vec<u8>, tell: impl Fn(&Attempt) -> Option<String>) -> bool {
    let Some(attempts) = Attempts::known(exchange) else { return false };
    attempts.with(|attempts| {
        for (index, attempt) in attempts.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(if attempt.redirected { b" : " } else { b", " });
            }
            out.extend_from_slice(tell(attempt).as_deref().unwrap_or("-").as_bytes());
        }
        !attempts.is_empty()
    })
}

/// The value of a cookie that the server set.
fn cookie(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let after_spaces = |text: &[u8]| text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
    let found = with_fields(exchange, |fields| {
        let value = fields.all("Set-Cookie").find_map(|field| {
            let (start, rest) = field.split_at_checked(name.len())?;
            let rest = rest[after_spaces(rest)..].strip_prefix(b"=")?;
            let value = rest[after_spaces(rest)..].split(|&byte| byte == b';').next()?;
            start.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        });
        value.inspect(|value| out.extend_from_slice(value)).is_some()
    });
    found.unwrap_or(false)
}

/// Looks at the fields of the last response: a server's, or one that is kept.
fn with_fields<T>(exchange: &Exchange, look: impl FnOnce(&Fields) -> T) -> Option<T> {
    match Attempts::known(exchange) {
        Some(attempts) => Some(look(&attempts.fields())),
        None => Cached::with_sent(exchange, look),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use ::upstream::Attempts;
    use http::Status;

    #[test]
    fn the_servers_that_were_asked() {
        let exchange = Site::location("set $x $upstream_addr; set $y $upstream_status;").get("/");
        let attempts: Attempts = Attempts::of(&exchange);
        attempts.begin(&"a:1".into(), false);
        attempts.note(|attempt| attempt.status = Some(Status(502)));
        attempts.begin(&"b:2".into(), false);
        attempts.begin(&"c:3".into(), true);
        let shows = |name: &str| {
            let mut out = Vec::new();
            let variable = super::VARIABLES.iter().find(|variable| variable.name == name).unwrap();
            (variable.get)(&exchange, "", &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(shows("upstream_addr").as_deref(), Some("a:1, b:2 : c:3"));
        assert_eq!(shows("upstream_status").as_deref(), Some("502, - : -"));
    }

    #[test]
    fn requests_inside_of_the_server_have_lists_of_their_own() {
        let whole = Site::location("set $x $upstream_addr;").get("/");
        let [mut one, other] = [(); 2].map(|()| whole.inner(whole.request.clone()));
        Attempts::of(&one).begin(&"a:1".into(), false);
        assert!(Attempts::known(&other).is_none());
        Attempts::of(&other).begin(&"b:2".into(), false);
        Attempts::of(&one).note(|attempt| attempt.status = Some(Status(502)));
        let told = |exchange| Attempts::of(exchange).with(|attempts| format!("{attempts:?}"));
        assert!(told(&one).contains("502") && !told(&other).contains("502"));
        assert!(Attempts::known(&whole).is_none());
        one.clear();
        assert!(Attempts::known(&one).is_none() && Attempts::known(&other).is_some());
    }
}

//! The fields of a request as features read them: codings, conditions, ranges, credentials, forwarded addresses,
//! cookies. The input is the head of a request after its first line. Whatever it says, each handler comes to a
//! decision, each filter to a body, and each variable to a value.

use bytes::Bytes;
use contract::{Body, Phase, Step};
use h1::{HeadLimits, HeadParser, HeadProgress};
use http::RequestHead;

use crate::served;

const SETTINGS: &str = r#"
    gzip on; gzip_min_length 1; gzip_types *; gzip_vary on; gzip_proxied any; gzip_disable msie6;
    brotli on; brotli_min_length 1; brotli_types *; zstd on; zstd_min_length 1; zstd_types *;
    real_ip_header X-Forwarded-For; set_real_ip_from 127.0.0.0/8; real_ip_recursive on;
    allow 127.0.0.0/8; deny all; auth_basic "realm"; auth_basic_user_file /dev/null;
    expires 1h; add_header X-Cookie $cookie_a; add_header X-All
    "$request|$http_user_agent|$http_referer|$arg_a|$cookie_b|$remote_user|$host|$http_x_forwarded_for|$remote_addr|$is_args$args";
"#;

const PHASES: [Phase; 4] = [Phase::ServerRewrite, Phase::Rewrite, Phase::Preaccess, Phase::Access];

/// Holds the readers of fields to it.
pub fn run(input: &[u8]) {
    let text = [b"GET /a?a=b HTTP/1.1\r\n", input, b"\r\n\r\n"].concat();
    let mut head = RequestHead::new();
    let parsed = HeadParser::new().parse(&text, &mut head, &HeadLimits::default());
    let Ok(HeadProgress::Complete { .. }) = parsed else { return };
    let mut exchange = served::exchange(SETTINGS, head);
    let scope = std::sync::Arc::clone(&exchange.scope);
    for handler in PHASES.iter().flat_map(|&phase| scope.handlers(phase)) {
        if let Step::Await(_) | Step::Reroute(_) = handler.run(&mut exchange) {
            // What is waited for needs a server.
            continue;
        }
    }
    let content = Bytes::from_static(b"content that is long enough to be worth something");
    exchange.response.content_length = Some(content.len() as u64);
    exchange.response.accept_ranges = true;
    exchange.response.last_modified = Some(1_704_164_645);
    let mut body = Body::bytes(content.clone());
    for filter in scope.filters() {
        body = filter.apply(&mut exchange, body);
    }
    let most = content.len() as u64 * 64 + 65_536;
    assert!(body.length().is_none_or(|length| length <= most), "{:?}", body.length());
    for field in exchange.response.fields.iter() {
        assert!(!field.value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
}

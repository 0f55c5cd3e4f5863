//! Serves clients over HTTP/2.
//!
//! With `http2 on`, clients may use HTTP/2: over TLS if they ask for it in the handshake (ALPN), and without TLS if
//! they begin with it ("prior knowledge"). Other clients of the same address use HTTP/1. The parameter `http2` of
//! `listen` does the same for all servers of an address; it is deprecated.
//!
//! A client sends several requests at a time on one connection. `http2_max_concurrent_streams` limits how many;
//! Fulmar refuses further ones, and clients repeat them. `limit_conn` counts each request as a connection.
//! `http2_chunk_size` is the size of a frame of content: with smaller frames responses interleave better, and cost
//! more. `http2_body_preread_size` is how much of a body a client may send before the server reads it.
//!
//! Clients choose priorities with the `priority` header or PRIORITY_UPDATE frames (RFC 9218). Responses with the
//! lowest urgency value go first. Among those, incremental responses (`i`) share the connection, and the others
//! follow one after the other. Requests without a priority have urgency 3 and share the connection. The priorities of
//! RFC 7540 are ignored.
//!
//! A client can open a WebSocket in a stream (RFC 8441). The configuration sees a GET request with `Upgrade:
//! websocket` and `Connection: upgrade`, so the configuration for WebSockets in [proxy_pass](proxy.md) works for both
//! versions of HTTP. If the upstream answers 101, the client and the log get 200. If the location does not open a
//! WebSocket, the client gets 501.
//!
//! The limits for heads (`large_client_header_buffers`, `max_headers`), bodies, times and keep-alive connections are
//! those of HTTP/1. After `keepalive_requests` requests, or if a reload ends the connection, the client gets a GOAWAY
//! frame, and requests in progress are answered. A client that floods the server with useless frames, such as
//! cancelled requests, PING or empty DATA frames, is disconnected. Frames that move content are no flood, however small.
//!
//! The headers of all requests in progress of a connection may have 1 MB together, in decoded form. A further request is
//! refused (RST_STREAM with REFUSED_STREAM), and the client may repeat it.
//!
//! `$http2` is `h2` over TLS, `h2c` in clear, and empty in HTTP/1.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     http2 on;
//!     location / {
//!         return 200 "[$http2] $server_protocol\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! [] HTTP/1.1
//! ```

use conf::{Contexts, Diagnostic, value};
use contract::{Args, Directive, Exchange, Loading, Module, ScopeBuilder, Variable, View};
use http::Version;

/// HTTP/2 for clients.
pub static MODULE: Module = Module {
    name: "http2",
    directives: &[&HTTP2, &MAX_CONCURRENT_STREAMS, &BODY_PREREAD_SIZE, &CHUNK_SIZE],
    variables: &[Variable::new("http2", |exchange, _, out| protocol(exchange, out))],
    compile: Some(compile),
};

const SERVERS: Contexts = Contexts::HTTP.or(Contexts::SERVER);

/// `http2 on | off`
pub static HTTP2: Directive<bool> =
    Directive::flag("http2").within(SERVERS).default("off").help("Whether clients may use HTTP/2.");

/// `http2_max_concurrent_streams NUMBER`
pub static MAX_CONCURRENT_STREAMS: Directive<u64> = Directive::number("http2_max_concurrent_streams")
    .within(SERVERS)
    .default("128")
    .help("How many requests of a connection are served at a time.");

/// `http2_body_preread_size SIZE`
pub static BODY_PREREAD_SIZE: Directive<u32> =
    Directive::new("http2_body_preread_size", |args, _| parse_preread_size(args))
        .within(SERVERS)
        .default("64k")
        .help("How much of a body a client may send before anything reads it.");

/// `http2_chunk_size SIZE`
pub static CHUNK_SIZE: Directive<usize> = Directive::new("http2_chunk_size", parse_chunk_size)
    .within(SERVERS.or(Contexts::LOCATION))
    .default("8k")
    .help("How much content one frame of a response has.");

/// The largest window of a stream, in bytes (RFC 9113, section 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The largest frame, in bytes (RFC 9113, section 4.2).
const CHUNK_MAX: u64 = (1 << 24) - 1;

fn parse_preread_size(args: &Args<'_>) -> Result<u32, Diagnostic> {
    let size = args.value(0, value::size)?;
    let size = u32::try_from(size).ok().filter(|size| *size <= WINDOW_MAX);
    size.ok_or_else(|| args.error(&format!("the maximum body preread buffer size is {WINDOW_MAX}")))
}

fn parse_chunk_size(args: &Args<'_>, _: &mut Loading) -> Result<usize, Diagnostic> {
    let size = args.value(0, value::size)?.min(CHUNK_MAX);
    let size = usize::try_from(size).ok().filter(|size| *size > 0);
    size.ok_or_else(|| args.error("the http2 chunk size cannot be zero"))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.http2;
    view.assign(&HTTP2, &mut policy.is_enabled);
    view.assign(&BODY_PREREAD_SIZE, &mut policy.body_preread_size);
    view.assign(&CHUNK_SIZE, &mut policy.chunk_size);
    if let Some(&streams) = view.get(&MAX_CONCURRENT_STREAMS) {
        policy.max_concurrent_streams = u32::try_from(streams).unwrap_or(u32::MAX);
    }
    Ok(())
}

fn protocol(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let is_http2 = exchange.request.head.version == Version::Http2;
    out.extend_from_slice(match exchange.connection.secure {
        _ if !is_http2 => b"",
        true => b"h2",
        false => b"h2c",
    });
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn settings() {
        let none = Site::server("").get("/").scope.policy.http2;
        assert!(!none.is_enabled && none.max_concurrent_streams == 128 && none.chunk_size == 8192);
        let text =
            "http2 on; http2_chunk_size 1024m; http2_body_preread_size 0; http2_max_concurrent_streams 7;";
        let own = Site::server(text).get("/").scope.policy.http2;
        assert!(own.is_enabled && own.max_concurrent_streams == 7 && own.chunk_size == 16_777_215);
        assert_eq!(own.body_preread_size, 0);
        for wrong in ["http2_chunk_size 0;", "http2_body_preread_size 2048m;", "http2 maybe;"] {
            assert!(!Site::error(wrong).is_empty(), "{wrong}");
        }
    }
}

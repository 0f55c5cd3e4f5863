//! Passes on connections that are not HTTP: the `stream` block.
//!
//! `stream` stands next to `http`, and has `server` and `upstream` blocks as `http` does. A `server` of `stream` has no
//! `location`: each connection is one session. It goes through these steps: the header of the PROXY protocol and the TLS
//! handshake, if `listen` asks for them, or the first bytes, if `ssl_preread` does; `set_real_ip_from`; `limit_conn`; `allow`
//! and `deny`; `set`; then `proxy_pass`, `pass` or `return`. A session that a rule rejects is closed without an answer. Every
//! session gets a line in each `access_log`, but for one that `pass` hands on; there is no default log and no default format.
//!
//! These work as in `http`: `upstream` with `hash`, `least_conn`, `least_time`, `random`, `zone` and `resolve`; `map`, `geo`,
//! `split_clients`, `set`; `allow`, `deny`, `limit_conn`; `log_format`, `access_log`, `error_log`; `resolver`. The
//! variables of `stream` and of `http` are separate. An address of `stream` cannot be used by `http`, too.
//!
//! The variables are `$status` (200 for a session that was served, 400 for a wrong header, 403 if access was denied, 500
//! for an error of the server, 502 if no server could be reached, 503 for `limit_conn`), `$bytes_received` from the client,
//! `$bytes_sent` to the client, `$session_time` in seconds, `$protocol` (`TCP` or `UDP`), `$remote_addr`, `$server_port`,
//! `$upstream_addr`, `$upstream_bytes_sent`, `$upstream_bytes_received`, `$upstream_connect_time`,
//! `$upstream_first_byte_time`, `$upstream_session_time` and so on.
//!
//! A reload keeps sessions: they go on with the configuration under which they began, for at most
//! `worker_shutdown_timeout`.
//!
//! With `listen … ssl` the server ends the encryption: `ssl_certificate`, `ssl_certificate_key`, `ssl_protocols` and so on
//! work as in `http`, and several servers of an address are chosen by the name that clients ask for (`server_name`).
//! `ssl_alpn` names the protocols that may be agreed on. `ssl_verify_client` checks the certificates of clients, with `ssl_crl`
//! and `ssl_ocsp`: the connection of a client without a valid one is closed, with `$status` 500. Unlike in nginx, the handshake
//! comes before `limit_conn`, `allow` and `deny`.
//!
//! With `listen … udp` a server receives datagrams of UDP: see [stream_udp](stream_udp.md).
//!
//! ```conf
//! events {
//! }
//! stream {
//!     log_format sessions "$remote_addr $status $bytes_received $bytes_sent $session_time $upstream_addr";
//!     access_log sessions.log sessions;
//!     limit_conn_zone $binary_remote_addr zone=clients:1m;
//!     server {
//!         listen 8080 so_keepalive=on;
//!         allow 127.0.0.0/8;
//!         deny all;
//!         limit_conn clients 100;
//!         proxy_pass 127.0.0.1:5432;
//!     }
//! }
//! ```

use crate::shared::datagrams::is_datagrams;
use conf::{Contexts, Diagnostic};
use contract::{Directive, Exchange, Module, ScopeBuilder, Variable, View};
use std::time::Duration;

/// Sessions.
pub static MODULE: Module = Module {
    name: "stream_core",
    directives: &[&PROXY_PROTOCOL_TIMEOUT, &SSL_HANDSHAKE_TIMEOUT, &TCP_NODELAY],
    variables: &[
        Variable::new("bytes_received", bytes_received).of_stream(),
        Variable::new("session_time", crate::values::variables::request_time).of_stream(),
        Variable::new("protocol", |exchange, _, out| {
            out.extend_from_slice(if is_datagrams(exchange) { b"UDP" } else { b"TCP" });
            true
        })
        .of_stream(),
    ],
    compile: Some(compile),
};

/// `proxy_protocol_timeout TIME`
pub static PROXY_PROTOCOL_TIMEOUT: Directive<Duration> = Directive::time("proxy_protocol_timeout")
    .within(Contexts::ALL_STREAM)
    .default("30s")
    .help("How long the header of the PROXY protocol may take.");

/// `ssl_handshake_timeout TIME`
pub static SSL_HANDSHAKE_TIMEOUT: Directive<Duration> = Directive::time("ssl_handshake_timeout")
    .within(Contexts::ALL_STREAM)
    .default("60s")
    .help("How long a TLS handshake may take; after a header of the PROXY protocol, `proxy_protocol_timeout` is for both.");

/// `tcp_nodelay on | off`
pub static TCP_NODELAY: Directive<bool> = Directive::flag("tcp_nodelay")
    .slot("stream tcp_nodelay")
    .within(Contexts::ALL_STREAM)
    .default("on")
    .help("Accepted and not needed: small packets are never held back.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.context().intersects(Contexts::ALL_STREAM) {
        return Ok(());
    }
    let limit = view.get(&PROXY_PROTOCOL_TIMEOUT).copied().unwrap_or(Duration::from_secs(30));
    builder.policy.head.proxy_protocol_timeout = Some(limit);
    view.assign(&SSL_HANDSHAKE_TIMEOUT, &mut builder.policy.head.client_header_timeout);
    Ok(())
}

fn bytes_received(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(exchange.request.length.to_string().as_bytes());
    true
}

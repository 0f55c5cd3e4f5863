//! Reads the server name and the protocols of a TLS connection in `stream`, without decrypting it.
//!
//! With `ssl_preread on` Fulmar reads the first message of TLS before it passes a connection on:
//! `$ssl_preread_server_name` is the name of the server that the client asks for (SNI), `$ssl_preread_alpn_protocols` are
//! the protocols that it speaks (ALPN), joined by commas, and `$ssl_preread_protocol` is the highest version of TLS that it
//! names. The name also chooses among servers of one address by `server_name`. The message may come in several records. All
//! that was read is passed on. If the first bytes are not those of TLS, the variables are empty and the connection goes on
//! at once.
//!
//! ```nginx
//! stream {
//!     map $ssl_preread_server_name $backend {
//!         mail.example.com 192.0.2.1:993;
//!         default          192.0.2.2:443;
//!     }
//!     server {
//!         listen 443;
//!         ssl_preread on;
//!         proxy_pass $backend;
//!     }
//! }
//! ```
//!
//! A message that does not fit into `preread_buffer_size` ends the session with `$status` 400. A client that does not send
//! it within `preread_timeout` is closed, with `$status` 200 as in nginx. Unlike in nginx, the bytes are read before
//! `limit_conn`, `allow` and `deny`: those of the server that the name chooses count. At addresses with `ssl` the handshake
//! tells the name (`$ssl_server_name`), and nothing is read in advance.
//!
//! With `preread_kind on`, which nginx does not have, `$preread_kind` is `tls`, `http`, `ssh` or `unknown`, so one port
//! serves several protocols. In some protocols, such as those of mail and of MySQL, the server speaks first: after
//! `preread_timeout` without a byte the connection goes on as `unknown`. Make that time short.
//!
//! nginx: none
//!
//! ```conf
//! events {
//! }
//! stream {
//!     map $preread_kind $port {
//!         http    127.0.0.1:8081;
//!         ssh     127.0.0.1:22;
//!         default 127.0.0.1:25;
//!     }
//!     server {
//!         listen 8080;
//!         preread_kind on;
//!         preread_timeout 2s;
//!         proxy_pass $port;
//!     }
//! }
//! http {
//!     access_log off;
//!     server {
//!         listen 127.0.0.1:8081;
//!         return 200 "http\n";
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
//! http
//! ```

use conf::{Contexts, Diagnostic};
use contract::policy::PrereadPolicy;
use contract::{Directive, Exchange, FirstBytes, Module, ScopeBuilder, Variable, View};
use std::time::Duration;

/// The first bytes of connections.
pub static MODULE: Module = Module {
    name: "ssl_preread",
    directives: &[&SSL_PREREAD, &PREREAD_KIND, &PREREAD_BUFFER_SIZE, &PREREAD_TIMEOUT],
    variables: &[
        Variable::new("ssl_preread_server_name", |exchange, _, out| {
            put(exchange, out, |hello| &hello.server_name)
        })
        .of_stream(),
        Variable::new("ssl_preread_alpn_protocols", |exchange, _, out| {
            put(exchange, out, |hello| &hello.alpn)
        })
        .of_stream(),
        Variable::new("ssl_preread_protocol", |exchange, _, out| {
            put(exchange, out, |hello| hello.version().as_bytes())
        })
        .of_stream(),
        Variable::new("preread_kind", |exchange, _, out| {
            let preread = exchange.attached::<FirstBytes>();
            out.extend_from_slice(preread.as_ref().map_or("", |preread| preread.kind).as_bytes());
            preread.is_some()
        })
        .of_stream(),
    ],
    compile: Some(compile),
};

/// `ssl_preread on | off`
pub static SSL_PREREAD: Directive<bool> = Directive::flag("ssl_preread")
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether the first message of TLS is read before a connection is passed on.");

/// `preread_kind on | off`
pub static PREREAD_KIND: Directive<bool> = Directive::flag("preread_kind")
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether `$preread_kind` tells the protocol that a client speaks.");

/// `preread_buffer_size SIZE`
pub static PREREAD_BUFFER_SIZE: Directive<u64> = Directive::size("preread_buffer_size")
    .within(Contexts::ALL_STREAM)
    .default("16k")
    .help("How many bytes are looked at.");

/// `preread_timeout TIME`
pub static PREREAD_TIMEOUT: Directive<Duration> = Directive::time("preread_timeout")
    .within(Contexts::ALL_STREAM)
    .default("30s")
    .help("How long the first bytes may take.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.context().intersects(Contexts::ALL_STREAM) {
        return Ok(());
    }
    let is_on = |directive| view.get(directive).copied().unwrap_or(false);
    let mut policy = PrereadPolicy {
        ssl_preread: is_on(&SSL_PREREAD),
        preread_kind: is_on(&PREREAD_KIND),
        preread_buffer_size: 16 * 1024,
        preread_timeout: Duration::from_secs(30),
    };
    view.assign_size(&PREREAD_BUFFER_SIZE, &mut policy.preread_buffer_size);
    view.assign(&PREREAD_TIMEOUT, &mut policy.preread_timeout);
    builder.policy.head.preread = (policy.ssl_preread || policy.preread_kind).then_some(policy);
    Ok(())
}

fn put(exchange: &Exchange, out: &mut Vec<u8>, part: impl Fn(&tls::Preread) -> &[u8]) -> bool {
    let preread = exchange.attached::<FirstBytes>();
    let Some(hello) = preread.as_ref().and_then(|preread| preread.hello.as_ref()) else { return false };
    out.extend_from_slice(part(hello));
    true
}

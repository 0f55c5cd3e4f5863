//! Passes requests to another server over HTTP.
//!
//! `proxy_pass` names a server or an `upstream`. Without a URI, the request keeps the URI that the client sent. With
//! a URI, that URI replaces the location's prefix. With variables, the whole URL is computed for each request; its
//! host is the name of an `upstream`, or is looked up by a `resolver`. In its path and its query, values that are parts of
//! the decoded path (`$uri`, `$1`, a named capture) are encoded again, and a space, a control character or `#` in any
//! value. A request for a location's prefix without its last slash is redirected to the location.
//!
//! With `https://` the connection is encrypted, by TLS 1.2 or 1.3. As in nginx, the certificate of the upstream server
//! is not verified unless `proxy_ssl_verify` is on, and the name is not sent (SNI) unless `proxy_ssl_server_name` is
//! on. Without verification, an attacker who controls the network can read and change what is sent.
//!
//! ```nginx
//! location / {
//!     proxy_pass https://app.example.com;
//!     proxy_ssl_server_name on;
//!     proxy_ssl_verify on;
//!     proxy_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
//! }
//! ```
//!
//! Verification needs an authority in `proxy_ssl_trusted_certificate` that ends the chain, and a certificate for the
//! name in `proxy_ssl_name`, which is the host of `proxy_pass`. A common name is compared only if the certificate has
//! no other host name. A certificate that signs itself is accepted if that file holds it. With `proxy_ssl_crl` every
//! authority of a chain needs a list there; lists of version 1 are rejected when the configuration is read. A
//! certificate of version 1, or one that is marked as an authority's, fails verification unless it is trusted itself.
//! If the handshake fails, the failure counts as `error` in `proxy_next_upstream`; `proxy_connect_timeout` limits
//! connecting and handshake together.
//!
//! `proxy_ssl_certificate` and `proxy_ssl_certificate_key` name the certificate that is sent to servers that ask for
//! one. An encrypted key has its passwords in `proxy_ssl_password_file`; PKCS#8 with AES can be opened. Files are read
//! by the supervisor when the configuration is loaded. Values with variables are evaluated for each request, and the
//! worker reads their files with the rights of `user`; an empty value sends no certificate. If a file cannot be used,
//! the client gets 500. Do not let clients choose any path. `proxy_ssl_certificate_cache` keeps such certificates, as
//! `ssl_certificate_cache` does for servers. `proxy_ssl_conf_command` takes some commands of OpenSSL (see its row
//! below); others are errors. `proxy_ssl_ciphers` selects among the ciphers that the `ssl` page lists. Sessions are
//! resumed with each server, and connections are kept, only for requests with the same name and the same settings.
//!
//! The upstream server gets HTTP/1.1, `Host: $proxy_host`, and the client's headers. It does not get `X-Accel-…` and
//! the headers for the client's own connection. `proxy_set_header` adds or replaces a header; an empty value removes
//! it. A level with its own `proxy_set_header` inherits none. Of several lines for `Host` the last one counts, as in nginx
//! since 1.31.4 (older versions send all of them). Fulmar itself sets the length of the body.
//!
//! With `proxy_http_version 2` the upstream server gets HTTP/2: without TLS by prior knowledge, over TLS by the
//! handshake (`h2`). With an `upstream` block that keeps connections, the requests of a thread share them: up to 100
//! at a time, or as many as the server allows. A slow client does not delay the others. If the server says that it
//! did not process a request, Fulmar sends it again, whatever its method. WebSockets do not work over such a
//! connection.
//!
//! With `proxy_protocol on` or `v2`, which nginx has in `stream` only, each connection to a server begins with a header of the
//! PROXY protocol that tells the client's address, in clear also with `https://`. Version 2 also tells of the client's TLS
//! connection, as in [`stream`](stream_proxy.md). A kept connection then serves only requests whose header is the same: those
//! of one client connection. It does not work with `proxy_http_version 2`.
//!
//! With `proxy_request_buffering off`, Fulmar passes the request body on as it arrives, no faster than the upstream
//! server reads it, in chunks if its length is unknown. The upstream server may answer before it has the whole body;
//! the client's connection then closes after the response. Such a request is sent once: no other server is tried.
//!
//! Fulmar reads a response as fast as the upstream server sends it: into `proxy_buffers`, then into a file of up to
//! `proxy_max_temp_file_size`. `proxy_limit_rate` limits the speed. With `proxy_buffering off`, Fulmar reads no
//! faster than the client does. If a server fails before its response, the next server of the group is tried, as
//! `proxy_next_upstream` says. A request that may have had an effect is not sent again. If all servers fail, the
//! client gets 502, or 504 after a timeout. If a response ends too early, the client's connection is closed, so that
//! the client notices.
//!
//! With `proxy_pass_trailers on`, trailers of the upstream server reach the client, as `proxy_hide_header` and
//! `proxy_pass_header` allow. Headers of framing and of the connection never do. Most servers send trailers only if
//! they are requested: `proxy_set_header Connection te` and `proxy_set_header TE trailers`.
//!
//! `proxy_redirect` rewrites `Location` and `Refresh`, so that they point to Fulmar. `proxy_cookie_domain` and
//! `proxy_cookie_path` rewrite `Domain` and `Path` of cookies; the first rule that matches applies.
//! `proxy_cookie_flags` sets or removes `Secure`, `HttpOnly` and `SameSite`; the first rule that names the cookie
//! applies. `off` cancels the rules of the outer level; a level with its own rules does not inherit them.
//!
//! A response with `X-Accel-Redirect` makes an internal redirect. `X-Accel-Buffering: no` turns buffering off. A
//! connection becomes a WebSocket if the client asks for it, `proxy_set_header` passes `Upgrade` and `Connection` on,
//! and the upstream server answers 101. If one side then ends its sending, the other side learns it after all bytes and may
//! go on sending. From then on, it may be silent for `proxy_read_timeout`, at most for 60 seconds.
//!
//! `proxy_cache` keeps responses for further requests in the directory of a `proxy_cache_path`; [the page on
//! caching](../caching.md) says which ones, for how long, and how they are removed.
//!
//! `proxy_store` writes the content of buffered responses with status 200 to permanent files. With `on`, the path is
//! that of `root` or `alias`; another value is the path itself. When the content is complete, the file gets its name,
//! the time of `Last-Modified`, and the permissions of `proxy_store_access`, also if the client has disconnected.
//! Until then it is in `proxy_temp_path`, which should be on the same file system. Missing directories are created. A
//! path with a `..` from a variable is rejected. Fulmar never removes these files, whatever `Cache-Control` says.
//!
//! ```nginx
//! location /images/ {
//!     root /data;
//!     error_page 404 = @fetch;
//! }
//! location @fetch {
//!     internal;
//!     root /data;
//!     proxy_pass http://backend;
//!     proxy_store on;
//!     proxy_store_access group:rw all:r;
//! }
//! ```
//!
//! ```conf
//! proxy_cache_path kept levels=1:2 keys_zone=pages:1m;
//! server {
//!     listen 8080;
//!     location /kept/ {
//!         proxy_pass http://127.0.0.1:8081/inner/;
//!         proxy_cache pages;
//!         proxy_cache_valid 200 10m;
//!         add_header X-Cache $upstream_cache_status;
//!     }
//!     location /app/ {
//!         proxy_pass http://127.0.0.1:8081/inner/;
//!         proxy_set_header Host $host;
//!         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//!         proxy_cookie_path /inner/ /app/;
//!         proxy_cookie_flags ~ secure httponly samesite=lax;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     location /inner/ {
//!         return 200 "$request_uri for $http_x_forwarded_for at $http_host\n";
//!     }
//!     location /inner/login {
//!         add_header Set-Cookie "id=1; Path=/inner/";
//!         return 204;
//!     }
//!     location /inner/moved {
//!         return 302 http://127.0.0.1:8081/inner/new;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /app/page?x=1 HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 200 OK
//!
//! /inner/page?x=1 for 127.0.0.1 at example.com
//! ---
//! GET /app/login HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 204 No Content
//! Set-Cookie: id=1; Path=/app/; Secure; HttpOnly; SameSite=Lax
//! ---
//! GET /kept/page HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 200 OK
//! X-Cache: MISS
//! ---
//! GET /kept/page HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 200 OK
//! X-Cache: HIT
//! ---
//! GET /app HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 301 Moved Permanently
//! ```

mod cookies;
mod dialogue;
mod handler;
mod http2_dialogue;
mod http2_session;
mod over_http2;
mod redirect;
mod request;
mod response;
mod route;
mod target;
mod url;

use crate::gateway::upstream_deny;
use crate::shared::cached::{keeper, purge};
use crate::shared::gateway::Gateway;
use crate::shared::proxy_header::ProxyHeader;
use ::upstream::{Names, OPTION_COUNT, Options, Settings, TLS_OPTION_COUNT, TlsOptions, joined};
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{
    AnyDirective, Args, Directive, Exchange, Loading, Module, Rule, ScopeBuilder, Template, Variable, View,
};
use cookies::{Cookies, FlagRule};
use handler::Proxy;
use http::Version;
use over_http2::{ALPN, Http2Proxy};
use redirect::{Redirect, unless_off};
use request::OwnFields;
use route::Route;
use std::sync::Arc;
use target::{Passing, Target};

pub(crate) use over_http2::{Streaming, compile_streaming};
pub(crate) use request::SetField;
pub(crate) use target::{Pass, parse_grpc};

/// Requests passed to another server over HTTP.
pub static MODULE: Module =
    Module { name: "proxy", directives: &DIRECTIVES, variables: VARIABLES, compile: Some(compile) };

static NAMES: Names = Names::new("proxy_");
static OPTIONS: Options = Options::new(&NAMES);
static TLS: TlsOptions = TlsOptions::new(&NAMES);

const OWN_COUNT: usize = 12;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + TLS_OPTION_COUNT + OPTION_COUNT] = joined(&[
    &[
        &PROXY_PASS,
        &PROXY_REDIRECT,
        &PROXY_COOKIE_DOMAIN,
        &PROXY_COOKIE_PATH,
        &PROXY_COOKIE_FLAGS,
        &PROXY_SET_HEADER,
        &PROXY_HTTP_VERSION,
        &PROXY_METHOD,
        &PROXY_SET_BODY,
        &PROXY_PASS_TRAILERS,
        &PROXY_CACHE_CONVERT_HEAD,
        &PROXY_PROTOCOL,
    ],
    &TLS.list(),
    &OPTIONS.list(),
]);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `proxy_pass URL`
pub static PROXY_PASS: Directive<Pass> = Directive::new("proxy_pass", target::parse)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF).or(Contexts::LIMIT_EXCEPT))
    .rule(Rule::Unnamed)
    .help("The server or group that requests are passed to, over `http` or `https`, and the URI that replaces the location's.");

/// `proxy_redirect off | default | FROM TO`
pub static PROXY_REDIRECT: Directive<Option<Redirect>> = Directive::new("proxy_redirect", redirect::parse)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .rule(Rule::List)
    .default("default")
    .help("How `Location` and `Refresh` of a response are rewritten.");

/// `proxy_cookie_domain off | DOMAIN REPLACEMENT`
pub static PROXY_COOKIE_DOMAIN: Directive<Option<redirect::Rule>> =
    Directive::new("proxy_cookie_domain", cookies::parse_domain)
        .within(LEVELS)
        .args(Arity::Range(1, 2))
        .rule(Rule::List)
        .default("off")
        .help("A domain that replaces another one in `Domain` of cookies. A pattern after `~` ignores case.");

/// `proxy_cookie_path off | PATH REPLACEMENT`
pub static PROXY_COOKIE_PATH: Directive<Option<redirect::Rule>> = Directive::new(
    "proxy_cookie_path",
    cookies::parse_path,
)
.within(LEVELS)
.args(Arity::Range(1, 2))
.rule(Rule::List)
.default("off")
.help("A text that replaces the start of `Path` of cookies, or all of it with a pattern after `~` or `~*`.");

/// `proxy_cookie_flags off | COOKIE [FLAG …]`
pub static PROXY_COOKIE_FLAGS: Directive<Option<FlagRule>> =
    Directive::new("proxy_cookie_flags", cookies::parse_flags)
        .within(LEVELS)
        .args(Arity::Range(1, 4))
        .rule(Rule::List)
        .default("off")
        .help(
            "The flags that cookies of this name get or lose: `secure`, `httponly`, `samesite=strict`, `samesite=lax`, \
             `samesite=none`, and the same with `no` in front (`nosamesite`). A pattern after `~` ignores case.",
        );

/// `proxy_set_header NAME VALUE`
pub static PROXY_SET_HEADER: Directive<SetField> = Directive::new("proxy_set_header", SetField::parse)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .default("Host $proxy_host")
    .help("A header of the forwarded request; an empty value removes it.");

/// `proxy_http_version 1.0 | 1.1 | 2`
pub static PROXY_HTTP_VERSION: Directive<Version> = Directive::new("proxy_http_version", parse_version)
    .within(LEVELS)
    .default("1.1")
    .help("The version of HTTP for the upstream server.");

/// `proxy_method NAME`
pub static PROXY_METHOD: Directive<Template> =
    Directive::new("proxy_method", |args, loading| loading.template(args.word(0)?))
        .within(LEVELS)
        .help("The method of the request, in place of the client's.");

/// `proxy_set_body TEXT`
pub static PROXY_SET_BODY: Directive<Template> =
    Directive::new("proxy_set_body", |args, loading| loading.template(args.word(0)?))
        .within(LEVELS)
        .help("The body of the request, in place of the client's.");

/// `proxy_pass_trailers on | off`
pub static PROXY_PASS_TRAILERS: Directive<bool> = Directive::flag("proxy_pass_trailers")
    .within(LEVELS)
    .default("off")
    .help("Whether trailers of a response are passed on.");

/// `proxy_cache_convert_head on | off`
pub static PROXY_CACHE_CONVERT_HEAD: Directive<bool> = Directive::flag("proxy_cache_convert_head")
    .within(LEVELS)
    .default("on")
    .help("Whether HEAD is forwarded as GET with a cache. If not, responses to HEAD are kept for HEAD only.");

/// `proxy_protocol on | off | v2`
pub static PROXY_PROTOCOL: Directive<ProxyHeader> = Directive::new("proxy_protocol", ProxyHeader::parse)
    .slot("http proxy_protocol")
    .within(LEVELS)
    .default("off")
    .help("Whether servers get a header of the PROXY protocol with the client's address: version 1, or version 2.");

fn parse_version(args: &Args<'_>, _: &mut Loading) -> Result<Version, Diagnostic> {
    args.value(0, |word| {
        value::choice(word, &[("1.0", Version::Http10), ("1.1", Version::Http11), ("2", Version::Http2)])
    })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    keeper::serve(view, builder, &OPTIONS)?;
    purge::compile(view, builder, &OPTIONS)?;
    let cookies = Cookies::new(view)?;
    let redirects = unless_off(view, &PROXY_REDIRECT)?;
    let redirects = view.get(&PROXY_REDIRECT).map(|_| redirects);
    let version = view.get(&PROXY_HTTP_VERSION).copied().unwrap_or(Version::Http11);
    let protocol = (version == Version::Http2).then_some(ALPN);
    let Some(route) = Route::compile(view, builder, (&PROXY_PASS, &TLS), protocol)? else {
        return Settings::check(view, &OPTIONS);
    };
    let mut settings = Settings::new(view, &OPTIONS)?;
    settings.connecting.denied = upstream_deny::of(view, route.pass.is_dynamic());
    if let Some(cache) = settings.cache.as_mut().map(Arc::make_mut) {
        cache.convert_head = view.get(&PROXY_CACHE_CONVERT_HEAD).copied().unwrap_or(true);
    }
    let header = handler::header(view, &PROXY_PROTOCOL, version)?;
    let set: Vec<SetField> =
        view.all(&PROXY_SET_HEADER).iter().map(|written| written.value.clone()).collect();
    let to = (version, route.fixed.as_deref());
    let proxy = Proxy {
        name: MODULE.name,
        redirects: redirect::rules(redirects, &route.pass, route.fixed.as_deref(), &route.location)?,
        cookies,
        own_kept: settings
            .cache
            .as_ref()
            .map(|cache| OwnFields::without_conditions(&set, cache.stale.revalidate, to)),
        own: OwnFields::new(&set, to),
        version,
        passes_te: false,
        method: view.get(&PROXY_METHOD).cloned(),
        body: view.get(&PROXY_SET_BODY).cloned(),
        passes_trailers: view.get(&PROXY_PASS_TRAILERS).copied().unwrap_or(false),
        settings: Arc::new(settings),
        header,
        server_name: view.get(&TLS.name).cloned(),
        route,
    };
    let place = view.place(&PROXY_PASS);
    match version {
        Version::Http2 => builder.content(place, Gateway(Http2Proxy(proxy))),
        _ => builder.content(place, Gateway(proxy)),
    }
    Ok(())
}

static VARIABLES: &[Variable] = &[
    Variable::new("proxy_host", |exchange, _, out| passing(exchange, out, |target| &target.host)),
    Variable::new("proxy_port", |exchange, _, out| passing(exchange, out, |target| &target.port)),
    Variable::new("proxy_add_x_forwarded_for", add_x_forwarded_for),
];

fn passing(exchange: &Exchange, out: &mut Vec<u8>, part: impl Fn(&Target) -> &str) -> bool {
    let passing = exchange.attached::<Passing>();
    passing.inspect(|passing| out.extend_from_slice(part(&passing.0).as_bytes())).is_some()
}

/// What the client says of those before it, and the client itself.
fn add_x_forwarded_for(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    for value in exchange.request.head.fields.all("X-Forwarded-For") {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    crate::values::variables::remote_addr(exchange, "", out)
}

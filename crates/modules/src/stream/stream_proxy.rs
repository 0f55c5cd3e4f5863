//! Passes connections of `stream` on to other servers.
//!
//! A `server` of `stream` accepts TCP connections and opens a connection to another server for each of them: a database, a
//! mail server, anything. `proxy_pass` names the server: an address with a port, `unix:PATH`, or an `upstream` of
//! `stream`, also with variables. Bytes go both ways as they come; nothing is parsed. The session ends when one side
//! closes its connection and the other one has all bytes, or when both are silent for `proxy_timeout`. With
//! `proxy_half_close on`, one side may still send after the other has ended.
//!
//! If a connection cannot be opened within `proxy_connect_timeout`, the next server of the group is tried
//! (`proxy_next_upstream`). Once a connection stands, the session stays with its server. If no server can be reached, the
//! client's connection is closed, and `$status` is 502.
//!
//! With `proxy_ssl on` connections to servers are encrypted, as `proxy_ssl_…` says. `proxy_ssl_verify on` verifies the
//! certificate of a server against `proxy_ssl_name`, which is the host of `proxy_pass` by default. `proxy_ssl_alpn` names
//! the protocols that servers are offered.
//!
//! `proxy_upload_rate` and `proxy_download_rate` limit the bytes per second of one connection. `proxy_protocol on` sends a
//! header of the PROXY protocol (version 1) with the client's address first, in clear also with `proxy_ssl`. `proxy_protocol v2`
//! sends one of version 2, which ends with a checksum. If the client's encryption ended here, it also tells the name that the
//! client asked for, the protocol (ALPN), version and cipher, and the common name and the verification of the client's
//! certificate; unlike nginx's header, it does not tell the algorithms of the server's certificate. Fulmar holds at most 16 KB
//! for each direction of a connection; `proxy_buffer_size` is accepted and not needed. Large transfers between connections in
//! clear without a rate go through pipes of 64 KB in the kernel instead (splice(2)), at most 400 in a worker.
//!
//! Datagrams of UDP go to servers as [stream_udp](stream_udp.md) says.
//!
//! The example passes connections on to an HTTP server.
//!
//! ```conf
//! events {
//! }
//! stream {
//!     upstream app {
//!         server 127.0.0.1:8081;
//!         server 127.0.0.1:8082 backup;
//!     }
//!     server {
//!         listen 8080;
//!         proxy_pass app;
//!         proxy_timeout 1m;
//!     }
//! }
//! http {
//!     access_log off;
//!     server {
//!         listen 127.0.0.1:8081;
//!         return 200 "passed on\n";
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
//! passed on
//! ```

use super::stream_udp;
use crate::gateway::shared::cgi::target::{self, Pass, Scheme, Target};
use crate::gateway::upstream_deny;
use crate::shared::connected::Connected;
use crate::shared::datagrams::is_datagrams;
use crate::shared::proxy_header::ProxyHeader;
use crate::shared::secured::secured;
use ::upstream::{ClientTls, Conversation, Failures, Limits, Names, Options, Settings, TlsOptions};
use conf::value::flag;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Amount, Args, Body, Directive, Event, Exchange, Handler, Loading, Module, Outcome, Rule, ScopeBuilder,
    Step, Template, Tunnel, View,
};
use http::Status;
use net::SocketType;
use std::sync::Arc;
use std::time::Duration;

/// Connections to other servers.
pub static MODULE: Module = Module {
    name: "stream_proxy",
    directives: &[
        &PROXY_PASS,
        &PROXY_TIMEOUT,
        &OPTIONS.connect_timeout,
        &PROXY_NEXT_UPSTREAM,
        &OPTIONS.next_upstream_tries,
        &OPTIONS.next_upstream_timeout,
        &PROXY_HALF_CLOSE,
        &PROXY_UPLOAD_RATE,
        &PROXY_DOWNLOAD_RATE,
        &PROXY_PROTOCOL,
        &PROXY_SSL,
        &PROXY_SSL_ALPN,
        &TLS.certificate,
        &TLS.certificate_cache,
        &TLS.certificate_key,
        &TLS.password_file,
        &TLS.ciphers,
        &TLS.protocols,
        &TLS.conf_command,
        &TLS.crl,
        &TLS.name,
        &TLS.server_name,
        &TLS.session_reuse,
        &TLS.trusted_certificate,
        &TLS.verify,
        &TLS.verify_depth,
        &OPTIONS.bind,
        &OPTIONS.socket_keepalive,
        &OPTIONS.socket_rcvbuf,
        &OPTIONS.socket_sndbuf,
        &PROXY_BUFFER_SIZE,
    ],
    variables: &[],
    compile: Some(compile),
};

static NAMES: Names = Names::new("proxy_");
static OPTIONS: Options = Options::new(&NAMES).in_stream();
static TLS: TlsOptions = TlsOptions::new(&NAMES).in_stream();

/// `proxy_pass ADDRESS`
pub static PROXY_PASS: Directive<Pass> = Directive::new("proxy_pass", |args, loading| {
    target::parse(args, loading, &SCHEMES)
})
.slot("stream proxy_pass")
.within(Contexts::STREAM_SERVER)
.rule(Rule::Never)
.help("The server that connections are passed on to: an address with a port, `unix:PATH`, or an `upstream`.");

/// `proxy_timeout TIME`
pub static PROXY_TIMEOUT: Directive<Duration> = Directive::time("proxy_timeout")
    .within(Contexts::ALL_STREAM)
    .default("10m")
    .help("How long client and server may both be silent.");

/// `proxy_next_upstream on | off`
pub static PROXY_NEXT_UPSTREAM: Directive<Failures> = Directive::new("proxy_next_upstream", parse_next)
    .slot("stream proxy_next_upstream")
    .within(Contexts::ALL_STREAM)
    .args(Arity::Flag)
    .default("on")
    .help("Whether the next server is tried if a connection cannot be opened.");

/// `proxy_half_close on | off`
pub static PROXY_HALF_CLOSE: Directive<bool> = Directive::flag("proxy_half_close")
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether one side may still send after the other side has ended.");

/// `proxy_upload_rate RATE`
pub static PROXY_UPLOAD_RATE: Directive<Amount> = Directive::amount("proxy_upload_rate")
    .within(Contexts::ALL_STREAM)
    .default("0")
    .help("How many bytes per second are read from a client; 0 means no limit.");

/// `proxy_download_rate RATE`
pub static PROXY_DOWNLOAD_RATE: Directive<Amount> = Directive::amount("proxy_download_rate")
    .within(Contexts::ALL_STREAM)
    .default("0")
    .help("How many bytes per second are read from a server; 0 means no limit.");

/// `proxy_protocol on | off | v2`
pub static PROXY_PROTOCOL: Directive<ProxyHeader> = Directive::new("proxy_protocol", ProxyHeader::parse)
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether servers get a header of the PROXY protocol with the client's address: version 1, or version 2.");

/// `proxy_ssl on | off`
pub static PROXY_SSL: Directive<bool> = Directive::flag("proxy_ssl")
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether connections to servers are encrypted.");

/// `proxy_ssl_alpn PROTOCOL …`
pub static PROXY_SSL_ALPN: Directive<Box<[Template]>> = Directive::new("proxy_ssl_alpn", |args, loading| {
    args.words().iter().map(|word| loading.template(word)).collect()
})
.within(Contexts::ALL_STREAM)
.args(Arity::AtLeast(1))
.help("The protocols that servers are offered, the preferred one first (ALPN).");

/// `proxy_buffer_size SIZE`
pub static PROXY_BUFFER_SIZE: Directive<u64> = Directive::size("proxy_buffer_size")
    .slot("stream proxy_buffer_size")
    .within(Contexts::ALL_STREAM)
    .default("16k")
    .help("Accepted and not needed: at most 16 KB are held for each direction.");

/// Logs show addresses alone.
static SCHEMES: [Scheme; 1] = [Scheme { prefix: "", is_written: false, is_secure: false }];

fn parse_next(args: &Args<'_>, _: &mut Loading) -> Result<Failures, Diagnostic> {
    let on = args.value(0, flag)?;
    Ok(if on { Failures::ERROR.with(Failures::TIMEOUT) } else { Failures::OFF })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let Some(written) = view.written(&PROXY_PASS) else { return Ok(()) };
    let mut settings = Settings::streaming(view, &OPTIONS);
    settings.connecting.denied = upstream_deny::of(view, written.value.is_chosen());
    settings.next_upstream.failures =
        view.get(&PROXY_NEXT_UPSTREAM).copied().unwrap_or(Failures::ERROR.with(Failures::TIMEOUT));
    // What a client sends before it ends its side is passed on.
    settings.ignore_client_abort = true;
    settings.timeouts.read = view.get(&PROXY_TIMEOUT).copied().unwrap_or(Duration::from_secs(600));
    let target = written.value.target(view).map_err(|error| error.at(written.span))?;
    let rate = |directive| view.get(directive).cloned().unwrap_or(Amount::Fixed(0));
    let proxy = Proxy {
        target,
        settings: Arc::new(settings),
        half_close: view.get(&PROXY_HALF_CLOSE).copied().unwrap_or(false),
        upload_rate: rate(&PROXY_UPLOAD_RATE),
        download_rate: rate(&PROXY_DOWNLOAD_RATE),
        tls: tls(view)?,
        tls_name: view.get(&TLS.name).cloned(),
        tls_protocols: view.get(&PROXY_SSL_ALPN).cloned().unwrap_or_default(),
        header: view.get(&PROXY_PROTOCOL).copied().unwrap_or_default(),
        datagrams: stream_udp::Datagrams::of(view),
    };
    builder.policy.keepalive.requests = proxy.datagrams.expected.requests.unwrap_or(0);
    builder.content(view.place(&PROXY_PASS), proxy);
    Ok(())
}

/// Passes connections on.
struct Proxy {
    target: Target,
    settings: Arc<Settings>,
    half_close: bool,
    upload_rate: Amount,
    download_rate: Amount,
    /// How servers are spoken to over TLS, if they are.
    tls: Option<Arc<ClientTls>>,
    /// The name of the servers; without one, the host that `proxy_pass` names.
    tls_name: Option<Template>,
    /// The protocols that servers are offered; what is empty is left out.
    tls_protocols: Box<[Template]>,
    header: ProxyHeader,
    datagrams: stream_udp::Datagrams,
}

/// How servers are spoken to over TLS, if that is enabled.
fn tls(view: &View<'_>) -> Result<Option<Arc<ClientTls>>, Diagnostic> {
    if view.get(&PROXY_SSL) != Some(&true) {
        return Ok(None);
    }
    TLS.policy(view, &[]).map(Some)
}

impl Proxy {
    /// How servers are spoken to, which are offered the protocols of this session.
    fn offering(&self, tls: &Arc<ClientTls>, exchange: &Exchange) -> Arc<ClientTls> {
        if self.tls_protocols.is_empty() {
            return Arc::clone(tls);
        }
        let evaluated =
            self.tls_protocols.iter().map(|protocol| protocol.evaluate(exchange).into_boxed_slice());
        tls.offering(evaluated.filter(|protocol| (1..=255).contains(&protocol.len())).collect())
    }
}

impl Handler for Proxy {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let place = match self.target.place(exchange) {
            Ok(place) => place,
            Err(_) => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        };
        let mut conversation = Conversation::<Connected>::new(exchange, &place.group, &self.settings);
        match is_datagrams(exchange) {
            true => self.header.append_for_datagrams(exchange, &mut conversation.call.preface),
            false => self.header.append(exchange, &mut conversation.call.preface),
        }
        let secure = |tls: &Arc<ClientTls>| {
            let tls = self.offering(tls, exchange);
            secured(&tls, self.tls_name.as_ref(), &place.host, exchange)
        };
        // Datagrams are not encrypted, as in nginx.
        conversation.call.secured = self.tls.as_ref().filter(|_| !is_datagrams(exchange)).map(secure);
        if is_datagrams(exchange) {
            conversation.call.transport = SocketType::Datagram;
        }
        let key = place.group.key(exchange);
        exchange.tell(|| {
            let name = &place.group.name;
            Event::new("stream_proxy", format!("opens a connection to {name}")).with("upstream", &**name)
        });
        Step::Await(conversation.work(key))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Outcome::Task(task) = outcome else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        let Ok(mut conversation) = task.downcast::<Conversation<Connected>>() else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        // There is one status for all failures of servers.
        let answered = conversation.answered().map_err(|status| match status {
            Status::GATEWAY_TIMEOUT => Status::BAD_GATEWAY,
            other => other,
        });
        let rates = (self.upload_rate.evaluate(exchange), self.download_rate.evaluate(exchange));
        let body = match answered {
            Err(status) => return Step::Finish(status),
            Ok(()) if is_datagrams(exchange) => {
                let stream_udp::Datagrams { expected, amplification } = self.datagrams;
                let datagrams = conversation.into_datagrams(expected, Limits { rates, amplification });
                datagrams.map(|datagrams| Body::Source(Box::new(datagrams)))
            }
            Ok(()) => conversation.take_tunnel().map(|tunnel| {
                let half_close = self.half_close.then_some(tunnel.idle);
                Body::Tunnel(Box::new(Tunnel { half_close, rates, ..tunnel }))
            }),
        };
        body.map_or(Step::Finish(Status::INTERNAL_SERVER_ERROR), Step::Respond)
    }
}

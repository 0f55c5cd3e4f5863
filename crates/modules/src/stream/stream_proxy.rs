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
//! `proxy_upload_rate` and `proxy_download_rate` limit the bytes per second of one connection. `proxy_protocol on` sends a
//! header of the PROXY protocol (version 1) with the client's address first. Fulmar holds at most 16 KB for each
//! direction of a connection; `proxy_buffer_size` is accepted and not needed.
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

use crate::gateway::upstream_deny;
use crate::shared::cgi::target::{self, Pass, Scheme, Target};
use crate::shared::connected::Connected;
use ::upstream::{Conversation, Failures, Names, Options, Settings};
use conf::value::{choice, flag};
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Amount, Args, Body, Directive, Event, Exchange, Handler, Loading, Module, Outcome, Peer, Rule,
    ScopeBuilder, Step, View,
};
use http::Status;
use proxy_protocol::append_proxy_header;
use std::net::SocketAddr;
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

/// `proxy_protocol on | off`
pub static PROXY_PROTOCOL: Directive<bool> = Directive::new("proxy_protocol", parse_protocol)
    .within(Contexts::ALL_STREAM)
    .default("off")
    .help("Whether servers get a header of the PROXY protocol with the client's address; `v2` is not built yet.");

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

fn parse_protocol(args: &Args<'_>, loading: &mut Loading) -> Result<bool, Diagnostic> {
    let version = args.value(0, |word| choice(word, &[("off", 0), ("on", 1), ("v2", 2)]))?;
    if version == 2 {
        let message =
            "\"proxy_protocol v2\" is not built yet (servers get version 1 of the PROXY protocol only)";
        let refusal = Diagnostic::emerg(message).at(args.node.span).under(args.word(0)?.span);
        loading.refuse(refusal.hint("write proxy_protocol on, if the server accepts version 1"))?;
    }
    Ok(version > 0)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let Some(written) = view.written(&PROXY_PASS) else { return Ok(()) };
    let mut settings = Settings::streaming(view, &OPTIONS);
    settings.denied = upstream_deny::of(view, written.value.is_chosen());
    settings.next_upstream =
        view.get(&PROXY_NEXT_UPSTREAM).copied().unwrap_or(Failures::ERROR.with(Failures::TIMEOUT));
    // What a client sends before it ends its side is passed on.
    settings.ignore_client_abort = true;
    settings.read_timeout = view.get(&PROXY_TIMEOUT).copied().unwrap_or(Duration::from_secs(600));
    let target = written.value.target(view).map_err(|error| error.at(written.span))?;
    let rate = |directive| view.get(directive).cloned().unwrap_or(Amount::Fixed(0));
    let proxy = Proxy {
        target,
        settings: Arc::new(settings),
        half_close: view.get(&PROXY_HALF_CLOSE).copied().unwrap_or(false),
        upload_rate: rate(&PROXY_UPLOAD_RATE),
        download_rate: rate(&PROXY_DOWNLOAD_RATE),
        sends_header: view.get(&PROXY_PROTOCOL).copied().unwrap_or(false),
    };
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
    sends_header: bool,
}

impl Handler for Proxy {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let place = match self.target.place(exchange) {
            Ok(place) => place,
            Err(_) => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        };
        let mut conversation = Conversation::<Connected>::new(exchange, &place.group, &self.settings);
        if self.sends_header {
            let header = &mut conversation.dialogue.header;
            append_proxy_header(addresses(exchange), header);
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
        match answered.map(|()| conversation.take_tunnel()) {
            Ok(Some(mut tunnel)) => {
                tunnel.half_close = self.half_close;
                tunnel.rates = (self.upload_rate.evaluate(exchange), self.download_rate.evaluate(exchange));
                Step::Respond(Body::Tunnel(Box::new(tunnel)))
            }
            Ok(None) => Step::Finish(Status::INTERNAL_SERVER_ERROR),
            Err(status) => Step::Finish(status),
        }
    }
}

/// The addresses of client and server that a header tells; none if the client came by a Unix socket.
fn addresses(exchange: &Exchange) -> Option<(SocketAddr, SocketAddr)> {
    match (&exchange.connection.peer, &exchange.connection.local) {
        (Peer::Inet(client), Peer::Inet(server)) => Some((*client, *server)),
        _ => None,
    }
}

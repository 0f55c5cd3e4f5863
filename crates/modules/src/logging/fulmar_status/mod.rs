//! Shows the state of the server: a page for browsers, metrics for programs.
//!
//! A client that accepts `text/html`, such as a browser, gets a page that updates itself every two seconds and loads
//! nothing from other servers. Other clients get the same figures as text (OpenMetrics 1.0), which Prometheus reads:
//! connections by state, requests, responses by server, location and status, bytes, a histogram of latencies, hits
//! and misses of `open_file_cache`, sizes and results of caches, upstream servers, and the expiry of certificates.
//!
//! **Upstream servers.** Each has a group and an address. The group is an `upstream` block, or the address of
//! `proxy_pass`, `fastcgi_pass` and so on. The state is `up`, `failed` (no requests for a time after failures) or
//! `down` (by the configuration). A request that was sent to two servers counts for both. A failure is a case in
//! which another server may be tried (`proxy_next_upstream`). The time is the sum over finished requests, from the
//! choice of the server to the end of its response. Idle connections are included in the open ones.
//!
//! **Access.** Only clients on this machine are allowed: they use a loopback address or a Unix socket, and their
//! request has no `Forwarded`, `X-Forwarded-For` or `X-Real-IP` header. The requested host must be an address, a name without a
//! dot, a name below `.localhost` or one of the server's names: no page of another site can read the response by a name that
//! stands for this machine (DNS rebinding). If a proxy on this machine does not send one
//! of these headers, all of its clients look local: then add `allow` and `deny`. With `anyone`, only `allow` and
//! `deny` decide.
//!
//! Requests are counted by server and location only if the configuration contains `fulmar_status`. The figures are
//! those of the worker process: they begin at zero if a reload or an upgrade starts another one. The figures of a
//! location last as long as a configuration in use contains it.
//!
//! nginx: none
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location = /metrics {
//!         fulmar_status;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /metrics HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8
//! ---
//! GET /metrics HTTP/1.1
//! Host: localhost
//! Accept: text/html
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html; charset=utf-8
//! ```

mod exposition;
mod guard;
mod servers;
mod tally;

use conf::value::choice;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Body, Directive, Exchange, Handler, LocationKind, LocationName, Module, Phase, Rule, SERVER_NAME,
    ScopeBuilder, ServerName, Step, View,
};
pub(crate) use guard::Guard;
use http::{Method, Status};
use std::sync::Arc;
use upstream::Registry;

/// Metrics and the status page.
pub static MODULE: Module =
    Module { name: "fulmar_status", directives: &[&FULMAR_STATUS], variables: &[], compile: Some(compile) };

/// `fulmar_status [local | anyone]`
pub static FULMAR_STATUS: Directive<Audience> =
    Directive::new("fulmar_status", |args, _| match args.words() {
        [] => Ok(Audience::Local),
        _ => args.value(0, |word| choice(word, &[("local", Audience::Local), ("anyone", Audience::Anyone)])),
    })
    .within(Contexts::LOCATION)
    .args(Arity::Range(0, 1))
    .rule(Rule::Never)
    .help("Answers with a status page, or with metrics.");

/// The clients that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients on this machine.
    Local,
    /// All clients that the location allows.
    Anyone,
}

const PAGE: &str = include_str!("page.html");

/// Only the page's own script and style may run, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
    frame-ancestors 'none'";

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.context().intersects(Contexts::MAIN.or(Contexts::HTTP)) || !view.is_anywhere(&FULMAR_STATUS) {
        return Ok(());
    }
    if let Some(&audience) = view.get(&FULMAR_STATUS) {
        let groups = Registry::of(view.origin());
        let guard = Guard::new(view, "fulmar_status", audience);
        builder.content(view.place(&FULMAR_STATUS), Shown { guard, groups });
    }
    let location = builder.name.as_ref().map(as_written).unwrap_or_default();
    builder.handle(Phase::Log, Counted(tally::place(&server_name(view), &location)));
    Ok(())
}

/// The server's name as `$server_name` has it.
fn server_name(view: &View<'_>) -> String {
    let written = view.all(&SERVER_NAME);
    let name = written.iter().flat_map(|names| names.value).next();
    String::from_utf8_lossy(&name.map(ServerName::shown).unwrap_or_default()).into_owned()
}

/// A location's name as the configuration has it.
fn as_written(name: &LocationName) -> Box<str> {
    let sign = match name.kind {
        LocationKind::Prefix | LocationKind::Named => "",
        LocationKind::PrefixOnly => "^~ ",
        LocationKind::Exact => "= ",
        LocationKind::Regex => "~ ",
    };
    format!("{sign}{}", String::from_utf8_lossy(&name.text)).into()
}

/// Counts the requests of a scope.
struct Counted(Arc<tally::Place>);

impl Handler for Counted {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.subrequest {
            return Step::Next;
        }
        self.0.count(exchange.response.status.0, exchange.wire.bytes, exchange.started().instant.elapsed());
        Step::Next
    }
}

/// Shows the figures.
struct Shown {
    guard: Guard,
    /// The groups of servers that requests are passed to.
    groups: Arc<Registry>,
}

impl Handler for Shown {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.request.method, Method::Get | Method::Head) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        if let Err(status) = self.guard.check(exchange) {
            return Step::Finish(status);
        }
        let accepted = exchange.request.head.fields.get("Accept").unwrap_or_default();
        let wants_page = memmem(accepted, b"text/html");
        let (media_type, content) = match (wants_page, exposition::text(&self.groups)) {
            (true, _) => ("text/html; charset=utf-8", PAGE.into()),
            (false, Ok(text)) => (exposition::MEDIA_TYPE, text),
            (false, Err(_)) => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        };
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.content_type = Some(media_type.into());
        let fields = [("Cache-Control", "no-store"), ("Vary", "Accept"), ("Content-Security-Policy", POLICY)];
        for (name, value) in fields {
            let _ = response.fields.push(name.as_bytes(), value.as_bytes());
        }
        Step::Respond(Body::bytes(content))
    }
}

fn memmem(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Peer, Phase, Step};

    fn from(ip: &str) -> Peer {
        Peer::Inet((ip.parse::<std::net::IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn clients_elsewhere_are_kept_out() {
        let answer = |conf: &str, peer: Peer| {
            let site = Site::location(conf);
            match site.run(Phase::Content, &mut site.request("/", peer)) {
                Step::Respond(_) => 200,
                step => status(&step),
            }
        };
        for (ip, expected) in [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.9", 200), ("10.0.0.1", 403)]
        {
            assert_eq!(answer("fulmar_status;", from(ip)), expected, "{ip}");
        }
        assert_eq!(answer("fulmar_status local;", Peer::Unix(None)), 200);
        assert_eq!(answer("fulmar_status anyone;", from("10.0.0.1")), 200);
        assert_eq!(Site::error("fulmar_status all;"), "invalid value \"all\"");
    }

    #[test]
    fn a_proxy_elsewhere_lets_nobody_in() {
        let site = Site::location("fulmar_status; set_real_ip_from 10.0.0.1; real_ip_header X-Client;");
        let mut exchange = site.request("/", from("10.0.0.1"));
        exchange.request.head.fields.push(b"X-Client", b"127.0.0.1").unwrap();
        site.run(Phase::Preaccess, &mut exchange);
        assert_eq!(exchange.connection.peer.address(), "127.0.0.1");
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 403);
        let mut exchange = site.get("/");
        exchange.request.head.fields.push(b"X-Forwarded-For", b"192.0.2.1").unwrap();
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 403, "a proxy on this machine");
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        for (conf, host, expected) in [
            ("fulmar_status;", "rebound.example", 403),
            ("fulmar_status anyone;", "rebound.example", 200),
            ("fulmar_status;", "localhost", 200),
        ] {
            let site = Site::location(conf);
            let mut exchange = site.get("/");
            exchange.request.host = host.into();
            let answered = match site.run(Phase::Content, &mut exchange) {
                Step::Respond(_) => 200,
                step => status(&step),
            };
            assert_eq!(answered, expected, "{conf} {host}");
        }
    }

    #[test]
    fn requests_are_counted_where_somebody_may_look() {
        let counters = |conf: &str| Site::location(conf).get("/").scope.handlers(Phase::Log).len();
        assert_eq!(counters("fulmar_status; access_log off;"), counters("access_log off;") + 1);
    }

    #[test]
    fn browsers_get_a_page() {
        let site = Site::location("fulmar_status;");
        let mut exchange = site.get("/");
        exchange.request.head.fields.push(b"Accept", b"text/html,*/*;q=0.8").unwrap();
        let Step::Respond(body) = site.run(Phase::Content, &mut exchange) else { panic!() };
        assert!(body_text(&body).starts_with("<!DOCTYPE html>"));
        let Step::Respond(body) = site.run(Phase::Content, &mut site.get("/")) else { panic!() };
        assert!(body_text(&body).ends_with("# EOF\n"));
    }
}

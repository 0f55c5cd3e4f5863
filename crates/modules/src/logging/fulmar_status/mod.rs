//! What the server does, now and since it was started: a page for people, metrics for programs.
//!
//! A client that accepts `text/html`, as browsers do, gets a page that draws itself anew every two seconds and needs nothing
//! from elsewhere. On a narrow screen each location is a block of its figures instead of a row. Everybody else gets the same figures as text (OpenMetrics 1.0), as Prometheus and its kin
//! read it: connections by what they do, requests, responses by server, location and status, bytes, a histogram of
//! latencies, hits and misses of `open_file_cache`, what caches of responses hold and found, the servers that requests
//! are passed to, and when certificates end to be valid.
//!
//! Each server has its group, which is an `upstream` block or the address that `proxy_pass` or one of its kin names, and
//! its address. A server is `up`, or `failed` while it is left alone after failures, or `down` by the configuration. Its
//! requests are those that it was asked, so that a request which went to two servers counts for both. A failure is what
//! another server may be asked after (`proxy_next_upstream`). The time is the sum over the requests that are over, from
//! the choice of the server to the end of its response. The idle connections count among those that are open.
//!
//! Only clients on this machine are let in, by a loopback address or a Unix socket, and none whom another server names
//! (`Forwarded`, `X-Forwarded-For`, `X-Real-IP`). Where another server on this machine passes requests on without
//! such a field, all of its clients look local, and `allow` and `deny` belong beside it. `anyone` leaves the question
//! to them altogether.
//!
//! Requests are counted by server and location only where a location with `fulmar_status` is in the configuration:
//! elsewhere nothing is spent on it. The figures are those of the worker process and begin at zero where a reload or
//! an upgrade starts another one; those of a location last as long as a configuration in use has it.
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
mod servers;
mod tally;

use crate::connection::real_ip;
use conf::value::choice;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Body, Directive, Exchange, Handler, LocationKind, LocationName, Module, Peer, Phase, Rule, SERVER_NAME,
    ScopeBuilder, ServerName, Step, View,
};
use http::{Method, Status};
use journal::Level;
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

/// Who may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients on this machine.
    Local,
    /// Everybody whom the location lets in.
    Anyone,
}

const PAGE: &str = include_str!("page.html");

/// The page's own script and style may run, nothing else, and nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
    frame-ancestors 'none'";

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.context().intersects(Contexts::MAIN.or(Contexts::HTTP)) || !view.is_anywhere(&FULMAR_STATUS) {
        return Ok(());
    }
    if let Some(&audience) = view.get(&FULMAR_STATUS) {
        let groups = Registry::of(view.origin());
        builder.content(view.place(&FULMAR_STATUS), Shown { audience, groups });
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
        self.0.count(exchange.response.status.0, exchange.wire.bytes, exchange.started.instant.elapsed());
        Step::Next
    }
}

/// Shows the figures.
struct Shown {
    audience: Audience,
    /// The groups of servers that requests are passed to.
    groups: Arc<Registry>,
}

impl Handler for Shown {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.request.method, Method::Get | Method::Head) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        if self.audience == Audience::Local && !is_from_here(exchange) {
            exchange.log(Level::Error, "\"fulmar_status\" is for clients on this machine");
            return Step::Finish(Status::FORBIDDEN);
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

/// Whether the peer is on this machine, and asks for itself.
pub(crate) fn is_from_here(exchange: &Exchange) -> bool {
    let fields = &exchange.request.head.fields;
    let is_passed_on =
        ["Forwarded", "X-Forwarded-For", "X-Real-IP"].iter().any(|name| fields.get(name).is_some());
    !is_passed_on && is_local(&exchange.connection.peer) && is_local(&real_ip::peer(exchange))
}

fn is_local(peer: &Peer) -> bool {
    match peer {
        Peer::Inet(address) => address.ip().to_canonical().is_loopback(),
        Peer::Unix(_) => true,
    }
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

//! Defines groups of servers to which requests are passed: `upstream`.
//!
//! An `upstream` block lists servers that do the same work. `proxy_pass`, `fastcgi_pass` and so on name the block.
//! Requests are distributed by `weight`. If a server fails `max_fails` times within `fail_timeout` (once in ten
//! seconds by default), it gets no requests for that time. A `backup` server gets requests only if no other server
//! can. A server that is `down` gets none. A server with `max_conns` requests gets no further one until one of them
//! ends. Names are looked up when the configuration is read; a name with several addresses stands for several
//! servers. `slow_start` is not supported.
//!
//! With `resolve`, a name is looked up again when its addresses expire, by the `resolver` of the block or of `http`,
//! and the servers of the group change while requests are served. The block needs a `zone`, as in nginx. Requests in
//! progress stay with their server. If no name server answers, the servers stay; if the name does not exist, they are
//! removed. A reload keeps the addresses. With `service=http`, hosts and ports come from the SRV records of
//! `_http._tcp.NAME`: the hosts with the lowest priority number get requests, the others are backups, and the records
//! set the weights unless `weight` is set.
//!
//! ```nginx
//! upstream app {
//!     zone app 64k;
//!     resolver 127.0.0.53 valid=10s;
//!     server app.internal:8080 resolve;
//! }
//! ```
//!
//! The servers take turns unless another method is set:
//!
//! - `least_conn` chooses the server with the fewest requests in progress for its weight.
//! - `least_time header` chooses the server with the shortest estimated time: the average time until the header of a
//!   response arrives, times the number of requests in progress and one, for its weight. `least_time last_byte`
//!   measures whole responses. Times that differ by less than 20 ms are equal. Failures do not change the average.
//!   A server without requests is tried again: its average is halved for each `fail_timeout`. With `inflight`,
//!   requests in progress raise the time of their server before they end. In `stream` the first word is `connect`,
//!   `first_byte` or `last_byte`: the time until the connection is open, until the server sends its first byte, or
//!   until the session ends.
//! - `ip_hash` sends clients of one network to the same server: the first three bytes of an IPv4 address, or all of
//!   an IPv6 address.
//! - `hash KEY` sends requests with the same value of KEY to the same server, which is the one that nginx chooses.
//!   With `consistent`, only a few values change their server when a server is added or removed.
//! - `random` chooses a random server, and `random two` the one of two random servers that `least_conn` would choose.
//!
//! `sticky` keeps the requests of a session with one server. A request without a session gets a server by the method.
//! If the server of a session is down, failed, or has `max_conns` requests, the method chooses another one.
//!
//! - `sticky cookie NAME` sends a cookie that names the server of the response: `NAME=ROUTE`. The cookie lasts until
//!   the browser closes, or for the time of `expires=TIME`; `expires=max` is ten years. `domain=`, `path=`,
//!   `samesite=strict`, `lax` or `none`, `secure` and `httponly` set the attributes of the cookie. `domain=` and
//!   `samesite=` may contain variables.
//! - `sticky route $VARIABLE …` reads the route from the first variable that has a value. The application sets the
//!   route, for example in its own cookie.
//! - `sticky learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE` learns which server began a session. The first
//!   `create` with a value names the session that a response begins, for example `$upstream_cookie_sessionid`. The
//!   first `lookup` with a value names the session of a request, for example `$cookie_sessionid`. A session ends ten
//!   minutes after its last response, or after `timeout=TIME`. With `header`, a session is known as soon as the
//!   header of the response has arrived, and not only when the response is complete. One megabyte has room for
//!   about 4,000 sessions. If the zone is full, the session that was used longest ago is dropped. A reload keeps the
//!   sessions if name and size of the zone and the name of the group stay the same.
//!
//! The route of a server is `route=TEXT` of its line, with up to 32 characters, or the MD5 hash of its address. Several
//! servers may have one route; the first one gets the requests. A server with `drain` gets only the requests of its
//! sessions, so that it can be stopped when these have ended.
//!
//! ```nginx
//! upstream shop {
//!     least_conn;
//!     sticky cookie srv expires=1h path=/ secure httponly samesite=lax;
//!     server 10.0.0.1:8080 route=a;
//!     server 10.0.0.2:8080 route=b;
//!     server 10.0.0.3:8080 route=c drain;
//! }
//! upstream app {
//!     sticky learn create=$upstream_cookie_sessionid lookup=$cookie_sessionid zone=sessions:1m;
//!     server 10.0.0.1:8081;
//!     server 10.0.0.2:8081;
//! }
//! ```
//!
//! `least_conn`, `least_time`, `random two` and `max_conns` count the requests of all threads. If the chosen server cannot be used,
//! the method chooses again. After 20 such choices the servers take turns.
//!
//! Connections are kept for further requests. By default each thread keeps up to 32 idle connections, and only the
//! location that opened a connection uses it. `keepalive` sets another number, and all locations share the connections
//! unless it says `local`. A connection with HTTP/2 carries up to 100 requests at a time.
//!
//! A server is identified by its group, its address and its `route`. A reload keeps its connections, its failures and its
//! counters, also if its weight or another parameter changes, or if the group gets or loses other servers.
//!
//! `$upstream_addr`, `$upstream_status` and `$upstream_…_time` have one value for each server that was tried. Commas
//! separate the values, and colons those before and after an internal redirect.
//!
//! ```conf
//! upstream app {
//!     server 127.0.0.1:8081 weight=2;
//!     server 127.0.0.1:8082 backup;
//!     keepalive 8;
//! }
//! upstream sessions {
//!     sticky cookie srv path=/ httponly;
//!     server 127.0.0.1:8081 route=a;
//!     server 127.0.0.1:8082 route=b;
//! }
//! upstream texts {
//!     hash $arg_text;
//!     server 127.0.0.1:8081;
//!     server 127.0.0.1:8082;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         proxy_pass http://app;
//!         add_header X-Asked $upstream_status;
//!     }
//!     location /texts {
//!         proxy_pass http://texts;
//!     }
//!     location /sessions {
//!         proxy_pass http://sessions;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     return 200 "from the first";
//! }
//! server {
//!     listen 127.0.0.1:8082;
//!     return 200 "from the second";
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Asked: 200
//!
//! from the first
//! ---
//! GET /texts?text=a HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! from the second
//! ---
//! GET /texts?text=b HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! from the first
//! ---
//! GET /sessions HTTP/1.1
//! Host: localhost
//! Cookie: srv=b
//!
//! HTTP/1.1 200 OK
//! Set-Cookie: srv=b; httponly; path=/
//!
//! from the second
//! ```

mod asked;
mod keepalive;
mod method;
mod server;
mod sticky;

use super::resolver;
use ::upstream::{Configured, Group, Registry, Renewal, Resolver, Resolving};
use conf::value::size;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{
    Args, Directive, Identity, Loading, Module, Rule, ScopeBuilder, SectionId, Threads, View, Written,
};
use server::SERVER;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sticky::STICKY;

/// Groups of servers.
pub static MODULE: Module = Module {
    name: "upstream",
    directives: &[
        &UPSTREAM,
        &SERVER,
        &method::LEAST_CONN,
        &method::LEAST_TIME,
        &method::STREAM_LEAST_TIME,
        &method::IP_HASH,
        &method::HASH,
        &method::RANDOM,
        &STICKY,
        &keepalive::KEEPALIVE,
        &keepalive::KEEPALIVE_REQUESTS,
        &keepalive::KEEPALIVE_TIME,
        &keepalive::KEEPALIVE_TIMEOUT,
        &ZONE,
        &RESOLVER,
        &RESOLVER_TIMEOUT,
    ],
    variables: asked::VARIABLES,
    compile: Some(compile),
};

/// Blocks in `http` and in `stream`.
const IN_BOTH: Contexts = Contexts::UPSTREAM.or(Contexts::STREAM_UPSTREAM);

/// `upstream NAME { … }`
pub static UPSTREAM: Directive<Block> = Directive::new("upstream", parse_upstream)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .opens(Arity::Exactly(1), IN_BOTH)
    .rule(Rule::Never)
    .repeats()
    .help("Defines a group of servers.");

/// `zone NAME [SIZE]`
pub static ZONE: Directive<()> = Directive::new("zone", parse_zone)
    .within(IN_BOTH)
    .args(Arity::Range(1, 2))
    .rule(Rule::Never)
    .repeats()
    .help(
        "Shared memory for the servers. Needed for `resolve`, as in nginx; Fulmar's threads always share the servers.",
    );

/// `resolver ADDRESS … [valid=TIME] [ipv4=on | off] [ipv6=on | off]`
pub static RESOLVER: Directive<Arc<Resolver>> = Directive::new("resolver", resolver::parse)
    .slot("upstream resolver")
    .within(IN_BOTH)
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .help("The name servers for hosts with `resolve`, instead of those of `http`.");

/// `resolver_timeout TIME`
pub static RESOLVER_TIMEOUT: Directive<Duration> = Directive::time("resolver_timeout")
    .slot("upstream resolver_timeout")
    .within(IN_BOTH)
    .rule(Rule::Never)
    .default("30s")
    .help("How long a look-up may take, and after which time it is repeated if no name server answers.");

/// An `upstream` block.
pub struct Block {
    name: Box<str>,
    section: SectionId,
    /// Made once, so that all scopes share what is known of the servers.
    group: OnceLock<Arc<Group>>,
    /// Made once, too.
    renewal: OnceLock<Option<Arc<Renewal>>>,
}

fn parse_upstream(args: &Args<'_>, _: &mut Loading) -> Result<Block, Diagnostic> {
    let section = args.opened.ok_or_else(|| args.error("has no block"))?;
    let name = args.word(0)?.to_string().to_ascii_lowercase().into();
    Ok(Block { name, section, group: OnceLock::new(), renewal: OnceLock::new() })
}

fn parse_zone(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    /// What nginx needs at least: eight pages.
    const LEAST_SIZE: u64 = 8 * 4096;
    let name = args.word(0)?;
    let error = |message: String, word: &Word| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    if name.text.is_empty() {
        return Err(error(format!("invalid zone name \"{name}\""), name));
    }
    let Some(word) = args.words().get(1) else { return Ok(()) };
    match size(word) {
        Ok(LEAST_SIZE..) => Ok(()),
        Ok(_) => Err(error(format!("zone \"{name}\" is too small"), word)),
        Err(_) => Err(error(format!("invalid zone size \"{word}\""), word)),
    }
}

/// A number for a scope that forwards requests, so that it may keep separate connections (`keepalive … local`). After a
/// reload the same location that forwards to the same place has the same number.
pub(crate) fn tag(view: &View<'_>, location: &[u8], pass: &[u8]) -> usize {
    static TAGS: AtomicUsize = AtomicUsize::new(0);
    struct Tag(usize);
    let identity = Identity::default().bytes(location).bytes(pass);
    view.origin().keep(identity, || Tag(TAGS.fetch_add(1, Ordering::Relaxed))).0
}

/// Judges the blocks of `http` even where nothing uses them.
fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    sticky::check_zones(view)?;
    for written in view.here(&UPSTREAM) {
        method::check_backups(&view.at(written.value.section))?;
        let servers = view.at(written.value.section).here(&SERVER);
        if !servers.iter().any(|server| server.value.has_primary()) {
            let message = match servers.is_empty() {
                true => "no servers are inside upstream".to_owned(),
                false => format!("no servers in upstream \"{}\"", written.value.name),
            };
            let hint = "add a line such as: server 127.0.0.1:3000;";
            return Err(Diagnostic::emerg(message).at(written.span).hint(hint));
        }
        let same =
            |other: &Written<'_, Block>| other.value.name == written.value.name && other.span != written.span;
        if view.here(&UPSTREAM).iter().any(same) {
            let message = format!("duplicate upstream \"{}\"", written.value.name);
            return Err(Diagnostic::emerg(message).at(written.span));
        }
        renew(view, &written, builder)?;
    }
    Ok(())
}

/// Has the site look up the hosts of a block again and again, if it has any with `resolve`.
fn renew(
    http: &View<'_>,
    written: &Written<'_, Block>,
    builder: &mut ScopeBuilder,
) -> Result<(), Diagnostic> {
    let (block, inside) = (written.value, http.at(written.value.section));
    if !inside.here(&SERVER).iter().any(|server| server.value.is_changing()) {
        return Ok(());
    }
    let error = |message: String| Err(Diagnostic::emerg(message).at(written.span));
    if inside.here(&ZONE).is_empty() {
        return error(format!(
            "resolving names at run time requires upstream \"{}\" to be in shared memory",
            block.name
        ));
    }
    let Some(resolver) = inside.get(&RESOLVER).or_else(|| http.get(&resolver::RESOLVER)) else {
        return error(format!(
            "no resolver defined to resolve names at run time in upstream \"{}\"",
            block.name
        ));
    };
    let timeout = inside.get(&RESOLVER_TIMEOUT).or_else(|| http.get(&resolver::RESOLVER_TIMEOUT));
    let timeout = timeout.copied().unwrap_or(resolver::TIMEOUT);
    let resolving = Resolving { resolver: Arc::clone(resolver), timeout };
    let group = block.group.get_or_init(|| group(http, block));
    let log = &builder.policy.error_log;
    let renewal = block.renewal.get_or_init(|| Renewal::new(group, &resolving, log).map(Arc::new));
    if let Some(renewal) = renewal {
        builder.serve(Threads::One, Arc::clone(renewal) as _);
    }
    Ok(())
}

/// All groups that a scope can name.
pub(crate) fn groups(view: &View<'_>) -> Vec<Arc<Group>> {
    const OUTER: Contexts = Contexts::HTTP.or(Contexts::STREAM);
    let Some(http) = view.enclosing().find(|outer| outer.context().intersects(OUTER)) else {
        return Vec::new();
    };
    let blocks = http.here(&UPSTREAM);
    blocks
        .iter()
        .map(|block| Arc::clone(block.value.group.get_or_init(|| group(&http, block.value))))
        .collect()
}

fn group(http: &View<'_>, block: &Block) -> Arc<Group> {
    let inside = http.at(block.section);
    let servers: Vec<Configured> = inside.here(&SERVER).iter().map(|written| written.value.clone()).collect();
    let keepalive = keepalive::of_block(&inside);
    let method =
        inside.all(&method::LEAST_CONN).last().map(|written| written.value.clone()).unwrap_or_default();
    let sticky = inside.get(&STICKY).map(|way| way.of_group(&block.name, http.origin()));
    let group = Group::configured((http.context(), &block.name), servers, keepalive, http.origin());
    let group = Arc::new(group.chosen_by(method).sticky(sticky));
    Registry::of(http.origin()).add(&group);
    group
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn servers_and_their_parameters() {
        for (text, error) in [
            ("upstream u { }", "no servers are inside upstream"),
            ("upstream u { server 127.0.0.1 backup; }", "no servers in upstream \"u\""),
            ("upstream u { server 127.0.0.1 weight=0; }", "invalid parameter \"weight=0\""),
            ("upstream u { server 127.0.0.1 downs; }", "invalid parameter \"downs\""),
            ("upstream u { server 127.0.0.1 fail_timeout=x; }", "invalid parameter \"fail_timeout=x\""),
            ("upstream u { server 127.0.0.1 resolved; }", "invalid parameter \"resolved\""),
            (
                "upstream u { server a.invalid resolve; }",
                "resolving names at run time requires upstream \"u\" to be in shared memory",
            ),
            (
                "upstream u { zone z; server a.invalid resolve; }",
                "no resolver defined to resolve names at run time in upstream \"u\"",
            ),
            ("upstream u { server a.invalid resolve service=; }", "service is empty"),
            (
                "upstream u { server 127.0.0.1 service=http; }",
                "service upstream \"127.0.0.1\" requires \"resolve\" parameter",
            ),
            (
                "upstream u { server a.invalid:80 service=http resolve; }",
                "service upstream \"a.invalid:80\" may not have port",
            ),
            (
                "upstream u { server 127.0.0.1 service=http resolve; }",
                "service upstream \"127.0.0.1\" requires domain name",
            ),
            ("upstream u { server 127.0.0.1; zone z 4k; }", "zone \"z\" is too small"),
            ("upstream u { server 127.0.0.1; zone z x; }", "invalid zone size \"x\""),
            ("upstream u { server 127.0.0.1; zone \"\"; }", "invalid zone name \"\""),
            (
                "upstream u { server 127.0.0.1 slow_start=5s; }",
                "parameter \"slow_start\" of \"server\" is not built yet (a server that comes back has its whole \
                 share at once)",
            ),
            (
                "upstream u { server 127.0.0.1; keepalive x; }",
                "invalid value \"x\" in \"keepalive\" directive",
            ),
        ] {
            assert_eq!(Site::error(text), error, "{text}");
        }
    }
}

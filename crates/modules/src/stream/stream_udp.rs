//! Passes on datagrams of UDP: `listen … udp` in `stream`.
//!
//! With `listen … udp` a server receives datagrams of UDP. `listen 8000-8010 udp` listens on a range of ports; TCP and
//! UDP may have the same port. All datagrams of a client to one address are one session, as long as the session lasts;
//! with `return` each datagram gets its own answer. `ssl`, `proxy_protocol` and the other parameters of `listen` that
//! concern connections are errors together with `udp`, and so is a Unix socket. `ssl_preread` has no effect on
//! datagrams, and `pass` rejects them. `rcvbuf=` sets the size of the socket's queue; the kernel allows at most
//! `net.core.rmem_max`, and if that is less, the error log says so.
//!
//! Each session takes one of the `worker_connections` of its thread. A client's address is easily forged, so when no
//! place is left, the oldest session that was not answered ends, with `$status` 503. The clients of one network (/24, or
//! /56 of IPv6) get half of the places: beyond that, each new session of theirs ends their oldest one that was not
//! answered, even if places are free. So a server for one local network needs twice as many `worker_connections`. At
//! most 256 KB of a client's datagrams wait in one session, and 16 MB in all sessions of a thread; further datagrams are
//! dropped. Each thread has a socket of its own (`SO_REUSEPORT`), and the kernel sends all datagrams of a client to the
//! same one. While a thread stands still, another one receives in its place; datagrams of the thread's sessions wait for
//! it, at most 4 MB of them.
//!
//! A reload keeps sessions of datagrams, too; if their address is gone, they end after the answers that are under way.
//! Sessions also survive an upgrade of the program (`USR2`), and a reload that needs a new worker process. Once the new
//! worker is ready, it alone receives, and passes on the datagrams of sessions that the old one has. The old worker ends
//! after its last session, or after `worker_shutdown_timeout`. If the new program ends first, the old one receives again.
//!
//! At an address with `udp`, each datagram goes to the server, and each of its datagrams to the client, as it is. A
//! session has a random port of its own towards the server, unless `proxy_bind` names one. It ends when the server has
//! sent `proxy_responses` datagrams for each one of the client, or when both are silent for `proxy_timeout`. After
//! `proxy_requests` datagrams of a client its next one begins another session. For DNS set `proxy_responses 1`:
//! otherwise each question keeps its session until `proxy_timeout`.
//!
//! If no process receives at the server's address, the network reports that. The session ends with `$status` 502, and
//! the server counts as failed (`max_fails`): the client's next datagram goes to another server. The same holds if
//! answers are missing after `proxy_timeout`. As in nginx, a datagram is not sent a second time. The header of the
//! PROXY protocol is the beginning of the first datagram. Datagrams are not encrypted: `proxy_ssl` has no effect on
//! them.
//!
//! A forged source address makes a server send its answers to the address's owner. With `proxy_amplification 10`, which
//! nginx does not have, a client gets at most ten bytes for each byte that it sent, until it sends another datagram
//! after an answer. Further datagrams of the server are dropped.
//!
//! The example passes questions on to two resolvers. DNS needs TCP, too.
//!
//! ```conf
//! events {
//! }
//! stream {
//!     upstream resolvers {
//!         server 192.0.2.1:53;
//!         server 192.0.2.2:53;
//!     }
//!     server {
//!         listen 8080 udp;
//!         listen 8080;
//!         proxy_pass resolvers;
//!         proxy_responses 1;
//!         proxy_timeout 5s;
//!     }
//! }
//! ```

use ::upstream::Expected;
use conf::Contexts;
use contract::{Directive, Module, View};

/// Sessions of datagrams.
pub static MODULE: Module = Module {
    name: "stream_udp",
    directives: &[&PROXY_REQUESTS, &PROXY_RESPONSES, &PROXY_AMPLIFICATION],
    variables: &[],
    compile: None,
};

/// `proxy_requests NUMBER`
pub static PROXY_REQUESTS: Directive<u64> = Directive::number("proxy_requests")
    .within(Contexts::ALL_STREAM)
    .default("0")
    .help("How many datagrams of a client belong to one session of UDP; 0 is any number.");

/// `proxy_responses NUMBER`
pub static PROXY_RESPONSES: Directive<u64> = Directive::number("proxy_responses")
    .within(Contexts::ALL_STREAM)
    .help("How many datagrams the server sends for each of the client's; without it, any number.");

/// `proxy_amplification FACTOR`
pub static PROXY_AMPLIFICATION: Directive<u64> = Directive::number("proxy_amplification")
    .within(Contexts::ALL_STREAM)
    .default("0")
    .help("How many bytes a client gets over UDP for each byte that it sent, until it sends again; 0 means no limit.");

/// What a scope says about sessions of datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagrams {
    /// How many datagrams a session has.
    pub(super) expected: Expected,
    /// How many bytes an unconfirmed client gets for each byte that it sent; 0 is any number.
    pub(super) amplification: u64,
}

impl Datagrams {
    pub(super) fn of(view: &View<'_>) -> Datagrams {
        let requests = view.get(&PROXY_REQUESTS).copied().filter(|&requests| requests > 0);
        let responses = view.get(&PROXY_RESPONSES).copied();
        let amplification = view.get(&PROXY_AMPLIFICATION).copied().unwrap_or(0);
        Datagrams { expected: Expected { requests, responses }, amplification }
    }
}

//! Takes the client's address from a header that a trusted proxy sends.
//!
//! For a request from an address in `set_real_ip_from`, the address in the header of `real_ip_header` replaces the
//! peer's address for access rules, limits, logs and variables. If the header contains several addresses, Fulmar uses
//! the last one; with `real_ip_recursive`, the last one that is not a trusted proxy's. If the address has a port,
//! `$remote_port` shows it. `$realip_remote_addr` and `$realip_remote_port` keep the peer's address and port.
//!
//! List only proxies that write the header themselves, by replacing it or by appending to it: a trusted peer can claim any
//! address. A host name
//! is resolved once, when the configuration is loaded.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     set_real_ip_from 127.0.0.0/8;
//!     real_ip_header   X-Forwarded-For;
//!     location / {
//!         return 200 $remote_addr;
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//! X-Forwarded-For: 203.0.113.5, 192.0.2.7
//!
//! HTTP/1.1 200 OK
//!
//! 192.0.2.7
//! ```

use crate::shared::forwarded::{Trusted, client};
use crate::shared::networks::{Clients, clients};
use conf::{Contexts, Diagnostic, Span};
use contract::{
    Args, Connection, Directive, Event, Exchange, Handler, Loading, Module, Peer, Phase, Reach, Rule,
    ScopeBuilder, Step, Variable, View,
};
use std::rc::Rc;
use std::str;
use std::sync::Arc;

/// The client behind proxies.
pub static MODULE: Module = Module {
    name: "real_ip",
    directives: &[&SET_REAL_IP_FROM, &REAL_IP_HEADER, &REAL_IP_RECURSIVE],
    variables: &[
        Variable::new("realip_remote_addr", remote_addr).everywhere(),
        Variable::new("realip_remote_port", remote_port).everywhere(),
    ],
    compile: Some(compile),
};

const EVERYWHERE: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `set_real_ip_from ADDRESS | NETWORK | NAME | unix:`
pub static SET_REAL_IP_FROM: Directive<Vec<Clients>> = Directive::new("set_real_ip_from", clients)
    .within(EVERYWHERE.or(Contexts::ALL_STREAM))
    .rule(Rule::List)
    .help("A proxy that is trusted to send its client's address.");

/// `real_ip_header FIELD | proxy_protocol`
pub static REAL_IP_HEADER: Directive<Named> = Directive::new("real_ip_header", parse_header)
    .within(EVERYWHERE)
    .default("X-Real-IP")
    .help("The header with the address, or `proxy_protocol`.");

/// `real_ip_recursive on | off`
pub static REAL_IP_RECURSIVE: Directive<bool> = Directive::flag("real_ip_recursive")
    .within(EVERYWHERE)
    .default("off")
    .help("Whether addresses of trusted proxies are skipped.");

/// Where a proxy names its client.
#[derive(Clone)]
pub enum Named {
    /// In a field.
    Field(Box<str>),
    /// In the header of the PROXY protocol that its connection began with.
    ProxyProtocol,
}

fn parse_header(args: &Args<'_>, _: &mut Loading) -> Result<Named, Diagnostic> {
    let word = args.word(0)?;
    if word.is("proxy_protocol") {
        return Ok(Named::ProxyProtocol);
    }
    let name = str::from_utf8(&word.text).map_err(|_| args.invalid(word))?;
    Ok(Named::Field(name.into()))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let from = view.all(&SET_REAL_IP_FROM);
    let Some(place) = from.first().map(|written| written.span) else { return Ok(()) };
    let from = || from.iter().flat_map(|written| written.value);
    let networks = from().filter_map(|clients| match clients {
        Clients::Network(network) => Some(network.net),
        Clients::Unix => None,
    });
    let trusted = Arc::new(Trusted::new(networks, from().any(|clients| matches!(clients, Clients::Unix))));
    let named = match view.context().intersects(Contexts::ALL_STREAM) {
        true => Named::ProxyProtocol,
        false => view.get(&REAL_IP_HEADER).cloned().unwrap_or_else(|| Named::Field("X-Real-IP".into())),
    };
    let recursive = view.get(&REAL_IP_RECURSIVE).copied().unwrap_or(false);
    let handler = || RealIp { trusted: Arc::clone(&trusted), named: named.clone(), recursive, place };
    builder.handle(Phase::ServerRewrite, handler());
    builder.handle(Phase::Preaccess, handler());
    Ok(())
}

struct RealIp {
    trusted: Arc<Trusted>,
    named: Named,
    recursive: bool,
    /// The first proxy that is trusted.
    place: Span,
}

impl RealIp {
    /// The client that the peer of this request names, if it is trusted to.
    fn client(&self, exchange: &Exchange) -> Option<Peer> {
        let connection = &exchange.connection;
        match &self.named {
            Named::Field(name) => {
                // Only X-Forwarded-For is a list of several lines; of every other field the first line counts.
                let lines = if name.eq_ignore_ascii_case("X-Forwarded-For") { usize::MAX } else { 1 };
                let values = exchange.request.head.fields.all(name).take(lines);
                client(&connection.peer, values, &self.trusted, self.recursive)
            }
            Named::ProxyProtocol => {
                let passed = connection.passed.as_ref().filter(|_| self.trusted.holds(&connection.peer))?;
                Some(Peer::Inet(passed.client))
            }
        }
    }
}

/// The peer that named another client.
struct Proxy(Peer);

impl Handler for RealIp {
    fn run(&self, exchange: &mut Exchange) -> Step {
        // The server's settings decide, and the location's only where those found nothing.
        if exchange.attached::<Proxy>().is_some() {
            return Step::Next;
        }
        if let Some(peer) = self.client(exchange) {
            exchange.tell(|| {
                Event::new("real_ip", "the peer names its client")
                    .at(Some(self.place))
                    .with("client", peer.address())
                    .with("peer", exchange.connection.peer.address())
            });
            let named = Connection { peer, ..Connection::clone(&exchange.connection) };
            let proxy = std::mem::replace(&mut exchange.connection, Rc::new(named));
            exchange.attach(Reach::Shared, Rc::new(Proxy(proxy.peer.clone())));
        }
        Step::Next
    }
}

/// The peer itself, not the client that it named.
pub(crate) fn peer(exchange: &Exchange) -> Peer {
    exchange.attached::<Proxy>().map_or_else(|| exchange.connection.peer.clone(), |proxy| proxy.0.clone())
}

fn remote_addr(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(peer(exchange).address().as_bytes());
    true
}

fn remote_port(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    if let Some(port) = peer(exchange).port().filter(|&port| port > 0) {
        out.extend_from_slice(port.to_string().as_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Peer, Phase};

    fn address(conf: &str, fields: &[(&str, &str)]) -> [String; 2] {
        let site = Site::location(&format!(
            "{conf} map $remote_addr:$remote_port $x {{ default $remote_addr:$remote_port; }} map $realip_remote_addr $y {{ default $realip_remote_addr:$realip_remote_port; }}"
        ));
        let mut exchange = site.request("/", Peer::Inet("127.0.0.1:1024".parse().unwrap()));
        for (name, value) in fields {
            exchange.request.head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        site.run(Phase::Preaccess, &mut exchange);
        [site.variable("x", &exchange), site.variable("y", &exchange)]
    }

    #[test]
    fn a_trusted_proxy_names_its_client() {
        let conf = "set_real_ip_from 127.0.0.1;";
        assert_eq!(address(conf, &[("X-Real-IP", "192.0.2.1")]), ["192.0.2.1:", "127.0.0.1:1024"]);
        assert_eq!(address(conf, &[("x-real-ip", "192.0.2.1:80")])[0], "192.0.2.1:80");
        assert_eq!(address(conf, &[("X-Forwarded-For", "192.0.2.1")])[0], "127.0.0.1:1024");
        assert_eq!(
            address("set_real_ip_from 10.0.0.0/8;", &[("X-Real-IP", "192.0.2.1")])[0],
            "127.0.0.1:1024"
        );
        assert_eq!(address("", &[("X-Real-IP", "192.0.2.1")])[0], "127.0.0.1:1024");
    }

    #[test]
    fn proxies_in_a_row() {
        let fields = [("X-Forwarded-For", "192.0.2.9, 192.0.2.1"), ("X-Forwarded-For", "127.0.0.5")];
        let conf = "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;";
        assert_eq!(address(conf, &fields)[0], "127.0.0.5:");
        assert_eq!(address(&format!("{conf} real_ip_recursive on;"), &fields)[0], "192.0.2.1:");
    }

    #[test]
    fn messages() {
        let error = Site::error("set_real_ip_from no.such.host.invalid;");
        assert_eq!(error, "host not found in set_real_ip_from \"no.such.host.invalid\"");
    }
}

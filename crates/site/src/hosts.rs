//! From an address and a host name to a virtual server: names, patterns, the default.

use crate::encryption::Encryption;
use crate::protocols::Protocols;
use crate::server::Server;
use conf::value::{HostNames, NameError, TooManySteps};
use contract::{Exchange, Regex, Regexes};
use net::{Endpoint, ListenOptions};
use std::net::IpAddr;
use std::sync::Arc;
use tls::StatusCheck;

/// A socket to listen on.
pub struct Listen {
    /// What to bind.
    pub endpoint: Endpoint,
    /// How to bind it.
    pub options: ListenOptions,
    pub(crate) hosts: Hosts,
    /// More special addresses of the same port, which this socket receives for.
    pub(crate) narrower: Vec<(IpAddr, Hosts)>,
}

impl Listen {
    /// The servers for a connection that came to this local address.
    pub fn hosts(&self, local: Option<IpAddr>) -> &Hosts {
        self.hosts_where(|| local)
    }

    /// As [`Listen::hosts`], where the address is asked for only if it matters.
    #[inline]
    pub fn hosts_where(&self, local: impl FnOnce() -> Option<IpAddr>) -> &Hosts {
        if self.narrower.is_empty() {
            return &self.hosts;
        }
        let local = local();
        let special = self.narrower.iter().find(|(address, _)| Some(*address) == local);
        special.map_or(&self.hosts, |(_, hosts)| hosts)
    }

    /// The servers of all addresses. A server may come several times.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let narrower = self.narrower.iter().map(|(_, hosts)| hosts);
        narrower.chain([&self.hosts]).flat_map(|hosts| hosts.servers.iter().chain([&hosts.default]))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        let narrower = self.narrower.iter().map(|(_, hosts)| hosts);
        narrower.chain([&self.hosts]).any(|hosts| hosts.is_encrypted())
    }

    /// Whether the socket's own address does not tell at which address a connection arrived.
    pub fn needs_local_address(&self) -> bool {
        !self.narrower.is_empty() || self.endpoint.address.ip().is_some_and(|ip| ip.is_unspecified())
    }
}

/// The virtual servers of one address.
pub struct Hosts {
    /// The protocols of its connections.
    pub protocols: Protocols,
    /// All servers of the address, in the order in which they were written.
    pub servers: Box<[Arc<Server>]>,
    default: Arc<Server>,
    names: HostNames<Arc<Server>>,
    patterns: Regexes,
    /// The servers of the patterns.
    matched: Vec<Arc<Server>>,
}

impl Hosts {
    /// An address with this default server and no names.
    pub fn new(default: Arc<Server>, protocols: Protocols) -> Hosts {
        Hosts {
            protocols,
            servers: Box::default(),
            default,
            names: HostNames::default(),
            patterns: Regexes::default(),
            matched: Vec::new(),
        }
    }

    /// Whether connections begin with a TLS handshake.
    pub fn is_encrypted(&self) -> bool {
        self.protocols.wrapping.tls
    }

    /// The server for requests that no name matches.
    pub fn default_server(&self) -> &Arc<Server> {
        &self.default
    }

    /// What the handshake of a connection is done by that asks for this server.
    pub fn encryption<'a>(&'a self, named: Option<&'a Arc<Server>>) -> &'a Encryption {
        match &named.unwrap_or(&self.default).encryption {
            Encryption::None => &self.default.encryption,
            own => own,
        }
    }

    /// What asks responders about the client of a connection that asked for this server.
    pub fn status_check(&self, named: Option<&Arc<Server>>) -> Option<Arc<dyn StatusCheck>> {
        self.encryption(named).policy()?.status_check().cloned()
    }

    /// Whether a client whose connection asked for one server was checked as the other one checks its clients.
    pub fn checks_clients_like(&self, named: Option<&Arc<Server>>, other: &Arc<Server>) -> bool {
        match (self.encryption(named).policy(), self.encryption(Some(other)).policy()) {
            (Some(one), Some(two)) => one.checks_clients_like(two),
            _ => false,
        }
    }

    /// Whether a connection that came when these hosts were there belongs to those of another site as it is; the
    /// servers are those that its handshake chose, and would choose.
    pub fn speaks_as(
        &self,
        named: Option<&Arc<Server>>,
        (other, other_named): (&Hosts, Option<&Arc<Server>>),
    ) -> bool {
        if self.protocols.application != other.protocols.application {
            return false;
        }
        match (self.is_encrypted(), other.is_encrypted()) {
            (false, false) => true,
            (true, true) => match (self.encryption(named).policy(), other.encryption(other_named).policy()) {
                (Some(one), Some(two)) => one.is(two),
                _ => false,
            },
            _ => false,
        }
    }

    /// Adds a name of a server.
    pub fn add(&mut self, name: &[u8], server: &Arc<Server>) -> Result<(), NameError> {
        self.names.insert(name, Arc::clone(server))
    }

    /// Sets the patterns in their order, with their servers.
    pub fn set_patterns(&mut self, patterns: Vec<(Regex, Arc<Server>)>) {
        let (regexes, servers) = patterns.into_iter().unzip();
        self.patterns = Regexes::new(regexes);
        self.matched = servers;
    }

    /// The server for an exchange by its host, which is in lower case: by a name, else by the first pattern
    /// that matches, whose captures become the exchange's. A server may claim requests that name no host by
    /// an empty name.
    ///
    /// # Errors
    /// A pattern gave up, so the first match is unknown.
    pub fn find(&self, exchange: &Exchange) -> Result<&Arc<Server>, TooManySteps> {
        let host = &exchange.request.host;
        let named = if self.names.is_empty() { None } else { self.names.get(host) };
        if let Some(server) = named {
            return Ok(server);
        }
        let matching = if host.is_empty() { None } else { self.patterns.first(exchange, host)? };
        Ok(matching.and_then(|pattern| self.matched.get(pattern)).unwrap_or(&self.default))
    }

    /// The server for a name that a handshake asks for, in lower case.
    pub fn find_name(&self, name: &[u8]) -> Option<&Arc<Server>> {
        self.names.get(name).or_else(|| self.matched.get(self.patterns.find(name)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn names_then_patterns_then_the_default() {
        let text = "server { listen 1; server_name first; } server { listen 1; server_name *.a .b; } \
                    server { listen 1; server_name ~^(?<n>x+)$ ~^UP; } server { listen 1; server_name ''; } \
                    server { listen 1 default_server; server_name last *.*.c; }";
        let error = testing::site(text, &[]).map(|_| ()).unwrap_err();
        assert_eq!(error, "invalid server name or wildcard \"*.*.c\" on 0.0.0.0:1");
        let (_, site) = testing::site(&text.replace(" *.*.c", ""), &[]).unwrap();
        for (host, name) in [
            ("first", "first"),
            ("q.a", "*.a"),
            ("a", "last"),
            ("b", "*.a"),
            ("q.b", "*.a"),
            ("xx", "~^(?<n>x+)$"),
            ("up", "~^(?<n>x+)$"),
            ("", ""),
            ("other", "last"),
        ] {
            let server =
                site.listens[0].hosts(None).find(&testing::exchange("/", host, |_| {})).unwrap().clone();
            assert_eq!(String::from_utf8_lossy(&server.name), name, "{host}");
        }
    }

    #[test]
    fn of_many_patterns_the_first_one_counts() {
        let text = "server { listen 1; server_name none; } \
                    server { listen 1; server_name ~^(?<n>[a-c]+)\\.x$ ~^(?!no)n.*; } \
                    server { listen 1; server_name ~^b.*x$ name.x ~z$; } \
                    server { listen 1; server_name ~^n(?<n>.)$ ~^(a+)+$(?=); }";
        let (_, site) = testing::site(text, &[]).unwrap();
        let hosts = site.listens[0].hosts(None);
        let endless = "a".repeat(64) + "!z";
        for (host, name) in [
            ("abc.x", Some("~^(?<n>[a-c]+)\\.x$")),
            ("bd.x", Some("~^b.*x$")),
            ("nz", Some("~^(?<n>[a-c]+)\\.x$")),
            ("no", Some("~^n(?<n>.)$")),
            ("name.x", Some("~^b.*x$")),
            ("other", None),
            (&endless, Some("~^b.*x$")),
        ] {
            let exchange = testing::exchange("/", host, |_| {});
            let shown = |server: &super::Server| String::from_utf8_lossy(&server.name).into_owned();
            assert_eq!(shown(hosts.find(&exchange).unwrap()), name.unwrap_or("none"), "{host}");
            assert_eq!(
                hosts.find_name(host.as_bytes()).map(|server| shown(server)).as_deref(),
                name,
                "{host}"
            );
        }
        let exchange = testing::exchange("/", "no", |_| {});
        hosts.find(&exchange).unwrap();
        let mut captured = Vec::new();
        exchange.capture(1, &mut captured);
        assert_eq!(captured, b"o", "captures are those of the pattern that was found");
        let gives_up = "server { listen 1; server_name none; } \
                        server { listen 1; server_name ~^(a+)+$(?=) ~z$ ~y; }";
        let (_, site) = testing::site(gives_up, &[]).unwrap();
        let exchange = testing::exchange("/", &endless, |_| {});
        let found = site.listens[0].hosts(None).find(&exchange);
        assert!(found.is_err(), "nobody knows which is the first");
    }

    #[test]
    fn a_server_alone_may_be_called_anything() {
        assert!(testing::site("server { server_name www.*.com a..b; }", &[]).is_ok());
        for name in ["*", "*.", ".", "*a.b"] {
            let error =
                testing::site(&format!("server {{ server_name {name}; }}"), &[]).map(|_| ()).unwrap_err();
            assert_eq!(error, format!("server name \"{name}\" is invalid"));
        }
    }

    #[test]
    fn a_name_that_is_taken_is_told() {
        let text = "server { listen 1; server_name a a; } server { listen 1; server_name .a b; }";
        let (loaded, site) = testing::site(text, &[]).unwrap();
        let notes: Vec<_> = loaded.loading.notes.iter().map(|note| note.message.as_str()).collect();
        let note = |name: &str| format!("conflicting server name \"{name}\" on 0.0.0.0:1, ignored");
        assert_eq!(notes, [note("a"), note(".a")]);
        let of = |host| {
            site.listens[0].hosts(None).find(&testing::exchange("/", host, |_| {})).unwrap().name.clone()
        };
        assert_eq!((&*of("x.a"), &*of("b")), (&b"a"[..], &b"a"[..]), "the second server is called .a first");
    }
}

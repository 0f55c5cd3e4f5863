//! From a host name to a virtual server: names, patterns, the default.

use crate::encryption::Encryption;
use crate::site::Server;
use contract::{Exchange, HostNames, NameError, Regex, ServerName};
use std::sync::Arc;

/// The virtual servers of one address.
pub(crate) struct Hosts {
    /// Whether connections begin with a handshake (`listen … ssl`).
    pub(crate) is_encrypted: bool,
    /// Whether connections begin with a header of the PROXY protocol (`listen … proxy_protocol`).
    pub(crate) takes_proxy_header: bool,
    /// All servers of the address, in the order in which they were written.
    pub(crate) servers: Box<[Arc<Server>]>,
    default: Arc<Server>,
    names: HostNames<Arc<Server>>,
    regexes: Vec<(Arc<Regex>, Arc<Server>)>,
}

impl Hosts {
    /// An address with this default server and no names.
    pub(crate) fn new(default: Arc<Server>, is_encrypted: bool) -> Hosts {
        Hosts {
            is_encrypted,
            takes_proxy_header: false,
            servers: Box::default(),
            default,
            names: HostNames::default(),
            regexes: Vec::new(),
        }
    }

    /// The server for requests that no name matches.
    pub(crate) fn default_server(&self) -> &Arc<Server> {
        &self.default
    }

    /// What the handshake of a connection is done by that asks for this server.
    pub(crate) fn encryption<'a>(&'a self, named: Option<&'a Arc<Server>>) -> &'a Encryption {
        match &named.unwrap_or(&self.default).encryption {
            Encryption::None => &self.default.encryption,
            own => own,
        }
    }

    /// Whether a connection that came when these hosts were there belongs to those of another site as it is; the
    /// servers are those that its handshake chose, and would choose.
    pub(crate) fn speaks_as(
        &self,
        named: Option<&Arc<Server>>,
        (other, other_named): (&Hosts, Option<&Arc<Server>>),
    ) -> bool {
        match (self.is_encrypted, other.is_encrypted) {
            (false, false) => true,
            (true, true) => match (self.encryption(named), other.encryption(other_named)) {
                (Encryption::Accept(one), Encryption::Accept(two)) => one.is(two),
                _ => false,
            },
            _ => false,
        }
    }

    /// Adds a name of a server; a name that cannot be added is given back.
    pub(crate) fn add<'a>(
        &mut self,
        name: &'a ServerName,
        server: &Arc<Server>,
    ) -> Result<(), (&'a [u8], NameError)> {
        match name {
            ServerName::Text(text) => {
                self.names.insert(text, Arc::clone(server)).map_err(|error| (&**text, error))
            }
            ServerName::Regex(regex) => {
                self.regexes.push((Arc::clone(regex), Arc::clone(server)));
                Ok(())
            }
        }
    }

    /// The server for an exchange by its host, which is in lower case: by a name, else by the first pattern
    /// that matches, whose captures become the exchange's. A server may claim requests that name no host by
    /// an empty name.
    pub(crate) fn find(&self, exchange: &Exchange) -> &Arc<Server> {
        let host = &exchange.request.host;
        let named = if self.names.is_empty() { None } else { self.names.get(host) };
        let matches = |(regex, _): &&(Arc<Regex>, Arc<Server>)| regex.matches(exchange, host);
        let matching = || {
            let patterns = if host.is_empty() { &[] } else { &*self.regexes };
            patterns.iter().find(matches).map(|(_, server)| server)
        };
        named.or_else(matching).unwrap_or(&self.default)
    }

    /// The server for a name that a handshake asks for, in lower case.
    pub(crate) fn find_name(&self, name: &[u8]) -> Option<&Arc<Server>> {
        let matching = || self.regexes.iter().find(|(regex, _)| regex.is_match(name));
        self.names.get(name).or_else(|| matching().map(|(_, server)| server))
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
            let server = site.listens[0].hosts(None).find(&testing::exchange("/", host, |_| {})).clone();
            assert_eq!(String::from_utf8_lossy(&server.name), name, "{host}");
        }
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
        let of = |host| site.listens[0].hosts(None).find(&testing::exchange("/", host, |_| {})).name.clone();
        assert_eq!((&*of("x.a"), &*of("b")), (&b"a"[..], &b"a"[..]), "the second server is called .a first");
    }
}

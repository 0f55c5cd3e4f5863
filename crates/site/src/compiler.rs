//! Compiles every scope once, and puts servers at endpoints.

use crate::agreement::Agreement;
use crate::encryption::{self, Encryption};
use crate::hosts::{Hosts, Listen};
use crate::listens::ListenSpec;
use crate::locations::{Limited, Location, Locations};
use crate::scopes::Scopes;
use crate::server::Server;
use crate::structure::{HTTP, LIMIT_EXCEPT, LISTEN, LOCATION, LocationSpec, SERVER, STREAM};
use conf::value::NameError;
use conf::{Diagnostic, Span};
use contract::{
    Config, LocationKind, LocationName, PatternSets, Phase, Regex, SERVER_NAME, Scope, SectionId, ServerName,
};
use net::{Endpoint, ListenOptions};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::Validity;

/// Compiles what was written.
pub(crate) struct Compiler<'a> {
    pub(crate) scopes: Scopes<'a>,
    /// The port of a server that names none.
    pub(crate) default_port: u16,
    /// The patterns of locations that were put together.
    pub(crate) sets: RefCell<PatternSets>,
    /// What there is to tell about what was compiled.
    pub(crate) notes: RefCell<Vec<Diagnostic>>,
    /// The files of certificates that are watched.
    pub(crate) watched: RefCell<BTreeSet<PathBuf>>,
    /// The certificates that are served.
    pub(crate) served: RefCell<BTreeSet<Validity>>,
    /// Whether a scope of the server that is compiled opens tunnels.
    pub(crate) opens_tunnels: Cell<bool>,
}

impl Compiler<'_> {
    /// Compiles the servers of `http` and of `stream`.
    pub(crate) fn all_servers(&self) -> Result<Endpoints, Diagnostic> {
        let main = self.scopes.config.view(Config::MAIN);
        let mut endpoints = Endpoints::default();
        if let Some(http) = main.get(&HTTP) {
            // An error in `http` itself is reported also where no server inherits it.
            self.scopes.scope(*http, None)?;
            for server in main.at(*http).here(&SERVER) {
                self.server(*server.value, server.span, &mut endpoints)?;
            }
        }
        if let Some(stream) = main.get(&STREAM) {
            self.scopes.scope(*stream, None)?;
            for server in main.at(*stream).here(&SERVER) {
                self.stream_server(*server.value, server.span, &mut endpoints)?;
            }
        }
        Ok(endpoints)
    }

    fn server(&self, section: SectionId, span: Span, endpoints: &mut Endpoints) -> Result<(), Diagnostic> {
        let view = self.scopes.config.view(section);
        let specs = self.location_specs(section)?;
        let mut named = HashMap::new();
        let mut locations = Vec::new();
        for (spec, place) in specs {
            let location = self.location(spec, place)?;
            if spec.name.kind == LocationKind::Named {
                named.insert(spec.name.text.clone(), Arc::new(location));
            } else {
                locations.push((spec.regex.clone(), location));
            }
        }
        let locations = Locations::new(locations, &mut self.sets.borrow_mut());
        let server = self.compiled(section, span, (locations, named))?;
        let written = view.here(&LISTEN);
        let listens: Vec<ListenSpec> = if written.is_empty() {
            vec![ListenSpec::fallback(self.default_port, span)]
        } else {
            written.iter().map(|written| written.value.clone()).collect()
        };
        endpoints.add(&listens, &server)
    }

    /// A server of `stream`, which has no locations.
    fn stream_server(
        &self,
        section: SectionId,
        span: Span,
        endpoints: &mut Endpoints,
    ) -> Result<(), Diagnostic> {
        let locations = (Locations::new(Vec::new(), &mut self.sets.borrow_mut()), HashMap::new());
        let server = self.compiled(section, span, locations)?;
        if server.scope.handlers(Phase::Content).is_empty() {
            let told = Diagnostic::warn("no handler for server, whose connections are closed").at(span);
            self.notes.borrow_mut().push(told.hint("write proxy_pass, pass or return"));
        }
        let written = self.scopes.config.view(section).here(&LISTEN);
        let listens: Vec<ListenSpec> = written.iter().map(|written| written.value.clone()).collect();
        if listens.is_empty() {
            return Err(Diagnostic::emerg("no \"listen\" is defined for server").at(span));
        }
        endpoints.add(&listens, &server)
    }

    fn compiled(
        &self,
        section: SectionId,
        span: Span,
        (locations, named): (Locations, HashMap<Box<[u8]>, Arc<Location>>),
    ) -> Result<Arc<Server>, Diagnostic> {
        let view = self.scopes.config.view(section);
        let written = view.here(&SERVER_NAME);
        let mut names: Vec<ServerName> = written.iter().flat_map(|written| written.value).cloned().collect();
        if names.is_empty() {
            // It answers to requests that name no host.
            names.push(ServerName::Text(Box::default()));
        }
        let scope = self.scope(section, None)?;
        if let Some(policy) = scope.policy.tls.as_deref() {
            self.notes.borrow_mut().extend(encryption::warnings(policy, view.origin()));
            self.watched.borrow_mut().extend(encryption::watched(policy).map(Path::to_owned));
        }
        Ok(Arc::new(Server {
            name: names.first().map(|name| name.shown()).unwrap_or_default().into(),
            names: names.into(),
            encryption: encryption::load(
                scope.policy.tls.as_deref(),
                view.origin(),
                &mut self.served.borrow_mut(),
                &mut self.notes.borrow_mut(),
            )?,
            span,
            scope,
            opens_tunnels: self.opens_tunnels.take(),
            locations,
            named,
        }))
    }

    fn scope(&self, section: SectionId, name: Option<&LocationName>) -> Result<Arc<Scope>, Diagnostic> {
        let scope = self.scopes.scope(section, name)?;
        self.opens_tunnels.set(self.opens_tunnels.get() || scope.policy.opens_tunnels);
        Ok(scope)
    }

    /// The locations of a level, checked for duplicates.
    fn location_specs(&self, section: SectionId) -> Result<Vec<(&LocationSpec, Span)>, Diagnostic> {
        let mut seen = HashMap::new();
        let mut specs = Vec::new();
        for written in self.scopes.config.view(section).here(&LOCATION) {
            let name = &written.value.name;
            let is_prefix = matches!(name.kind, LocationKind::Prefix | LocationKind::PrefixOnly);
            let key = (if is_prefix { LocationKind::Prefix as u8 } else { name.kind as u8 }, &name.text);
            if name.kind != LocationKind::Regex && seen.insert(key, ()).is_some() {
                let message = format!("duplicate location \"{}\"", String::from_utf8_lossy(&name.text));
                return Err(Diagnostic::emerg(message).at(written.span));
            }
            specs.push((written.value, written.span));
        }
        Ok(specs)
    }

    fn location(&self, spec: &LocationSpec, place: Span) -> Result<Location, Diagnostic> {
        let mut inner = Vec::new();
        for (nested, place) in self.location_specs(spec.section)? {
            inner.push((nested.regex.clone(), self.location(nested, place)?));
        }
        let view = self.scopes.config.view(spec.section);
        let limited = match view.here(&LIMIT_EXCEPT).first() {
            Some(limit) => {
                let scope = self.scope(limit.value.section, Some(&spec.name))?;
                Some(Limited::new(limit.value, scope))
            }
            None => None,
        };
        Ok(Location {
            name: spec.name.clone(),
            place,
            scope: self.scope(spec.section, Some(&spec.name))?,
            inner: Locations::new(inner, &mut self.sets.borrow_mut()),
            limited,
        })
    }
}

/// The endpoints of all servers, in the order in which they were first named.
#[derive(Default)]
pub(crate) struct Endpoints {
    order: Vec<Endpoint>,
    used: BTreeMap<Endpoint, EndpointUse>,
}

struct EndpointUse {
    options: Option<ListenOptions>,
    default: Option<Arc<Server>>,
    protocols: Agreement,
    servers: Vec<(Arc<Server>, Span)>,
}

impl Endpoints {
    fn add(&mut self, listens: &[ListenSpec], server: &Arc<Server>) -> Result<(), Diagnostic> {
        for listen in listens {
            for endpoint in &listen.endpoints {
                self.add_one(listen, endpoint, server)?;
            }
        }
        Ok(())
    }

    fn add_one(
        &mut self,
        listen: &ListenSpec,
        endpoint: &Endpoint,
        server: &Arc<Server>,
    ) -> Result<(), Diagnostic> {
        let complain = |what: &str| {
            let message = format!("{what} {endpoint}");
            Err(Diagnostic::emerg(message).at(listen.span))
        };
        let entry = self.used.entry(endpoint.clone()).or_insert_with(|| {
            self.order.push(endpoint.clone());
            EndpointUse {
                options: None,
                default: None,
                protocols: Agreement::new(listen),
                servers: Vec::new(),
            }
        });
        if entry.protocols.all.application != listen.protocols.application {
            return Err(in_both(endpoint).at(listen.span));
        }
        // All endpoints of a server are added before those of the next one.
        if entry.servers.last().is_some_and(|(last, ..)| Arc::ptr_eq(last, server)) {
            return complain("a duplicate listen");
        }
        if let Some(options) = &listen.options
            && entry.options.replace(options.clone()).is_some()
        {
            return complain("duplicate listen options for");
        }
        if listen.default_server && entry.default.replace(Arc::clone(server)).is_some() {
            return complain("a duplicate default server for");
        }
        if !entry.servers.is_empty() {
            entry.protocols.add(listen);
        }
        entry.servers.push((Arc::clone(server), listen.span));
        Ok(())
    }

    pub(crate) fn into_listens(mut self, notes: &mut Vec<Diagnostic>) -> Result<Vec<Listen>, Diagnostic> {
        let mut listens: Vec<Listen> = Vec::new();
        let (wide, narrow): (Vec<_>, Vec<_>) = std::mem::take(&mut self.order)
            .into_iter()
            .partition(|endpoint| endpoint.address.ip().is_none_or(|ip| ip.is_unspecified()));
        for endpoint in wide.into_iter().chain(narrow) {
            let Some(used) = self.used.remove(&endpoint) else { continue };
            let options = used.options.clone();
            let explicit = options.is_some();
            let Some(hosts) = used.into_hosts(&endpoint, notes)? else { continue };
            let covering = listens.iter_mut().find(|listen| covers(&listen.endpoint, &endpoint));
            if let Some(listen) = &covering
                && listen.hosts.protocols.application != hosts.protocols.application
            {
                return Err(in_both(&endpoint).at(hosts.default_server().span));
            }
            match (covering, endpoint.address.ip()) {
                (Some(listen), Some(ip)) if !explicit => listen.narrower.push((ip, hosts)),
                _ => listens.push(Listen {
                    endpoint,
                    options: options.unwrap_or_default(),
                    hosts,
                    narrower: Vec::new(),
                }),
            }
        }
        Ok(listens)
    }
}

impl EndpointUse {
    fn into_hosts(
        self,
        endpoint: &Endpoint,
        notes: &mut Vec<Diagnostic>,
    ) -> Result<Option<Hosts>, Diagnostic> {
        let first = self.servers.first().map(|(server, ..)| Arc::clone(server));
        let Some(default) = self.default.clone().or(first) else { return Ok(None) };
        let protocols = self.protocols.all;
        if protocols.wrapping.tls {
            self.check_certificates(&default)?;
        }
        let message = format!("protocol options redefined for {endpoint}");
        notes.extend(self.protocols.dissenting.iter().map(|span| Diagnostic::warn(&message).at(*span)));
        let mut hosts = Hosts::new(default, protocols);
        hosts.servers = self.servers.iter().map(|(server, ..)| Arc::clone(server)).collect();
        let single = self.servers.len() == 1;
        let mut patterns = Vec::new();
        for (server, span) in &self.servers {
            let has_regex = server.names.iter().any(|name| matches!(name, ServerName::Regex(_)));
            // One server is chosen without a look at its names, unless a pattern may capture something.
            if single && !has_regex {
                continue;
            }
            for name in &server.names {
                let text = match name {
                    ServerName::Text(text) => text,
                    ServerName::Regex(regex) => {
                        patterns.push((Regex::clone(regex), Arc::clone(server)));
                        continue;
                    }
                };
                let Err(error) = hosts.add(text, server) else { continue };
                let shown = String::from_utf8_lossy(text);
                if error == NameError::Invalid {
                    let message = format!("invalid server name or wildcard \"{shown}\" on {endpoint}");
                    return Err(Diagnostic::emerg(message).at(*span));
                }
                let message = format!("conflicting server name \"{shown}\" on {endpoint}, ignored");
                notes.push(Diagnostic::warn(message).at(*span));
            }
        }
        hosts.set_patterns(patterns);
        Ok(Some(hosts))
    }
}

impl EndpointUse {
    /// A server must be able to answer a handshake: the default server or, where that one turns clients away, every
    /// other one.
    fn check_certificates(&self, default: &Server) -> Result<(), Diagnostic> {
        let lonely = match default.encryption {
            Encryption::Accept(_) | Encryption::Select(..) => return Ok(()),
            Encryption::None => Some(default),
            Encryption::Reject => {
                let servers = self.servers.iter().map(|(server, ..)| &**server);
                servers.into_iter().find(|server| matches!(server.encryption, Encryption::None))
            }
        };
        let Some(server) = lonely else { return Ok(()) };
        let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
        let hint = "write ssl_certificate auto; to get one from Let's Encrypt, or name its file with ssl_certificate \
                    and its key with ssl_certificate_key";
        Err(Diagnostic::emerg(message).at(server.span).hint(hint))
    }
}

/// The message about an address on which both `http` and `stream` listen.
fn in_both(endpoint: &Endpoint) -> Diagnostic {
    let message = format!("bind() to {endpoint} failed: both \"http\" and \"stream\" listen on this port");
    Diagnostic::emerg(message).hint("give one of them another port")
}

/// Whether a socket bound to `wide` receives what comes to `narrow`.
fn covers(wide: &Endpoint, narrow: &Endpoint) -> bool {
    match (wide.address.ip(), narrow.address.ip()) {
        (Some(wide_ip), Some(narrow_ip)) => {
            wide.transport == narrow.transport
                && wide_ip.is_unspecified()
                && wide_ip.is_ipv4() == narrow_ip.is_ipv4()
                && wide.address.port() == narrow.address.port()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::hosts::{Hosts, Listen};
    use crate::testing;

    fn name(hosts: &Hosts) -> String {
        String::from_utf8_lossy(&hosts.default_server().name).into_owned()
    }

    /// `ADDRESS DEFAULT`, and after it the narrower addresses with their defaults.
    fn shown(listen: &Listen) -> String {
        let narrower = listen.narrower.iter().map(|(ip, hosts)| format!(" + {ip} {}", name(hosts)));
        format!("{} {}{}", listen.endpoint, name(&listen.hosts), narrower.collect::<String>())
    }

    #[test]
    fn one_socket_for_addresses_that_it_receives_for() {
        for (servers, listens) in [
            (&["listen 1; listen 2;", "listen 2;"][..], &["0.0.0.0:1 a", "0.0.0.0:2 a"][..]),
            (&["listen 127.0.0.1:1;", "listen 1;"], &["0.0.0.0:1 b + 127.0.0.1 a"]),
            (&["listen 127.0.0.1:1 backlog=5;", "listen 1;"], &["0.0.0.0:1 b", "127.0.0.1:1 a"]),
            (&["listen 127.0.0.1:1 bind;", "listen 1;"], &["0.0.0.0:1 b", "127.0.0.1:1 a"]),
            (&["listen 127.0.0.1:1;", "listen 2;"], &["0.0.0.0:2 b", "127.0.0.1:1 a"]),
            (&["listen [::1]:1;", "listen 1;"], &["0.0.0.0:1 b", "[::1]:1 a"]),
            (&["listen [::1]:1;", "listen [::]:1;"], &["[::]:1 b + ::1 a"]),
            (&["listen 1;", "listen 1 default_server;"], &["0.0.0.0:1 b"]),
            (&["listen *:1;", "listen 0.0.0.0:1;", "listen unix:/s;"], &["0.0.0.0:1 a", "unix:/s c"]),
            (
                &["listen 1; listen 127.0.0.1:1;", "listen 127.0.0.1:1 default_server;"],
                &["0.0.0.0:1 a + 127.0.0.1 b"],
            ),
            (&["listen 127.0.0.1:1-3;"], &["127.0.0.1:1 a", "127.0.0.1:2 a", "127.0.0.1:3 a"]),
        ] {
            let named = servers
                .iter()
                .zip('a'..)
                .map(|(text, name)| format!("server {{ {text} server_name {name}; }}"));
            let (_, site) = testing::site(&named.collect::<String>(), &[]).unwrap();
            assert_eq!(site.listens.iter().map(shown).collect::<Vec<_>>(), listens, "{servers:?}");
        }
    }

    #[test]
    fn an_address_has_one_set_of_options_and_one_default() {
        for (text, message) in [
            ("server { listen 1; listen *:1; }", "a duplicate listen 0.0.0.0:1"),
            (
                "server { listen 1 backlog=5; } server { listen 1 bind; }",
                "duplicate listen options for 0.0.0.0:1",
            ),
            (
                "server { listen 1 default_server; } server { listen 1 default_server; }",
                "a duplicate default server for 0.0.0.0:1",
            ),
        ] {
            assert_eq!(testing::site(text, &[]).map(|_| ()).unwrap_err(), message, "{text}");
        }
    }
}

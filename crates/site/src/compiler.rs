//! From a plan to what serves: compiles every scope once, and puts servers at endpoints. It reads no text.

use crate::encryption::{self, Encryption};
use crate::hosts::{Hosts, Listen};
use crate::locations::{Limited, Location, Locations};
use crate::plan::{Chooser, ListenPlan, LocationPlan, ServerPlan, in_both};
use crate::protocols::Application;
use crate::scopes::Scopes;
use crate::server::Server;
use conf::value::NameError;
use conf::value::PatternSets;
use conf::{Diagnostic, Span};
use contract::{LocationKind, LocationName, Phase, Regex, Scope, SectionId, ServerName};
use net::Endpoint;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::Validity;

/// Compiles what was planned.
pub(crate) struct Compiler<'a> {
    pub(crate) scopes: Scopes<'a>,
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
    /// Compiles the levels around servers, and the servers.
    pub(crate) fn servers(
        &self,
        levels: &[SectionId],
        servers: Vec<ServerPlan>,
    ) -> Result<Vec<Arc<Server>>, Diagnostic> {
        levels.iter().try_for_each(|level| self.scopes.scope(*level, None).map(|_| ()))?;
        servers.into_iter().map(|server| self.server(server)).collect()
    }

    fn server(&self, plan: ServerPlan) -> Result<Arc<Server>, Diagnostic> {
        let ServerPlan { section, span, names, chooser } = plan;
        let mut named = HashMap::new();
        let mut locations = Vec::new();
        let application = chooser.application();
        if let Chooser::Locations(plans) = chooser {
            for (regex, location) in self.locations(plans)? {
                match location.name.kind {
                    LocationKind::Named => _ = named.insert(location.name.text.clone(), Arc::new(location)),
                    _ => locations.push((regex, location)),
                }
            }
        }
        let locations = Locations::new(locations, &mut self.sets.borrow_mut());
        let scope = self.scope(section, None)?;
        let origin = self.scopes.config.view(section).origin();
        let policy = scope.policy.tls.as_deref();
        if let Some(policy) = policy {
            self.notes.borrow_mut().extend(encryption::warnings(policy, origin));
            self.watched.borrow_mut().extend(encryption::watched(policy).map(Path::to_owned));
        }
        let (mut served, mut notes) = (self.served.borrow_mut(), self.notes.borrow_mut());
        let encryption = encryption::load(policy, origin, &mut served, &mut notes)?;
        if application == Application::Stream && scope.handlers(Phase::Content).is_empty() {
            let told = Diagnostic::warn("no handler for server, whose connections are closed").at(span);
            notes.push(told.hint("write proxy_pass, pass or return"));
        }
        let name = names.first().map(|name| name.shown()).unwrap_or_default().into();
        let (names, opens_tunnels) = (names.into(), self.opens_tunnels.take());
        Ok(Arc::new(Server { name, names, encryption, span, scope, opens_tunnels, locations, named }))
    }

    fn scope(&self, section: SectionId, name: Option<&LocationName>) -> Result<Arc<Scope>, Diagnostic> {
        let scope = self.scopes.scope(section, name)?;
        self.opens_tunnels.set(self.opens_tunnels.get() || scope.policy.opens_tunnels);
        Ok(scope)
    }

    /// The locations of a level, each with the pattern of its name.
    fn locations(&self, plans: Vec<LocationPlan>) -> Result<Vec<(Option<Regex>, Location)>, Diagnostic> {
        let location = |mut plan: LocationPlan| Ok((plan.regex.take(), self.location(plan)?));
        plans.into_iter().map(location).collect()
    }

    fn location(&self, plan: LocationPlan) -> Result<Location, Diagnostic> {
        let LocationPlan { name, section, span, inner, limited, .. } = plan;
        let inner = self.locations(inner)?;
        let limited = match limited {
            Some((spared, section)) => Some(Limited::new(spared, self.scope(section, Some(&name))?)),
            None => None,
        };
        let scope = self.scope(section, Some(&name))?;
        let inner = Locations::new(inner, &mut self.sets.borrow_mut());
        Ok(Location { name, place: span, scope, inner, limited })
    }
}

/// The sockets for the addresses of a plan, with the servers that answer there.
pub(crate) fn listens(
    plans: Vec<ListenPlan>,
    servers: &[Arc<Server>],
    notes: &mut Vec<Diagnostic>,
) -> Result<Vec<Listen>, Diagnostic> {
    let mut listens: Vec<Listen> = Vec::new();
    let is_wide = |plan: &ListenPlan| plan.endpoint.address.ip().is_none_or(|ip| ip.is_unspecified());
    let (wide, narrow): (Vec<_>, Vec<_>) = plans.into_iter().partition(is_wide);
    for plan in wide.into_iter().chain(narrow) {
        let hosts = hosts(&plan, servers, notes)?;
        let ListenPlan { endpoint, options, .. } = plan;
        let covering = listens.iter_mut().find(|listen| covers(&listen.endpoint, &endpoint));
        if let Some(listen) = &covering
            && listen.hosts.protocols.application != hosts.protocols.application
        {
            return Err(in_both(&endpoint).at(hosts.default_server().span));
        }
        match (covering, endpoint.address.ip()) {
            (Some(listen), Some(ip)) if options.is_none() => listen.narrower.push((ip, hosts)),
            _ => {
                let (options, narrower) = (options.unwrap_or_default(), Vec::new());
                listens.push(Listen { endpoint, options, hosts, narrower });
            }
        }
    }
    Ok(listens)
}

fn hosts(plan: &ListenPlan, all: &[Arc<Server>], notes: &mut Vec<Diagnostic>) -> Result<Hosts, Diagnostic> {
    let endpoint = &plan.endpoint;
    let servers: Vec<_> =
        plan.servers.iter().map(|(server, span)| (Arc::clone(&all[*server]), *span)).collect();
    let default = Arc::clone(&all[plan.default]);
    if plan.protocols.wrapping.tls {
        check_certificates(&servers, &default)?;
    }
    let mut hosts = Hosts::new(default, plan.protocols);
    hosts.servers = servers.iter().map(|(server, ..)| Arc::clone(server)).collect();
    let single = servers.len() == 1;
    let mut patterns = Vec::new();
    for (server, span) in &servers {
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
    Ok(hosts)
}

/// A server must be able to answer a handshake: the default server or, where that one turns clients away, every
/// other one.
fn check_certificates(servers: &[(Arc<Server>, Span)], default: &Server) -> Result<(), Diagnostic> {
    let lonely = match default.encryption {
        Encryption::Accept(_) | Encryption::Select(..) => return Ok(()),
        Encryption::None => Some(default),
        Encryption::Reject => {
            let servers = servers.iter().map(|(server, ..)| &**server);
            servers.into_iter().find(|server| matches!(server.encryption, Encryption::None))
        }
    };
    let Some(server) = lonely else { return Ok(()) };
    let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
    let hint = "write ssl_certificate auto; to get one from Let's Encrypt, or name its file with ssl_certificate \
                and its key with ssl_certificate_key";
    Err(Diagnostic::emerg(message).at(server.span).hint(hint))
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
